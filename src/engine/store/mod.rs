//! Prefixes of texts that were read, in memory and in files.

mod memory;
mod store;

pub use store::{Store, StoreInfo, StoreParams};
