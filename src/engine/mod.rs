//! (see ARCHITECTURE.md)

pub mod metrics;
