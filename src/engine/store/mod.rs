//! The prefix cache, in memory and in files.

mod memory;
mod params;
mod store;

pub use params::{StoreInfo, StoreParams};
pub use store::Store;
