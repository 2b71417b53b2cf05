//! (see ARCHITECTURE.md)

pub mod kernels;
pub mod matmul;
pub mod packed;
pub mod pool;
