//! (see ARCHITECTURE.md)

pub mod pool;
