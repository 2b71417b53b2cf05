//! (see ARCHITECTURE.md)

pub mod kernels;
pub mod pool;
