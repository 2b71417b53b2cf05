//! Helpers that several test programs share.

pub mod gguf;
pub mod reference;
pub mod tiny;
