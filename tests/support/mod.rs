//! Helpers that several test programs share.

pub mod gguf;
pub mod recurrent;
pub mod layers;
pub mod reference;
pub mod tiny;
