//! realizar runs language models inside somebody else's process, behind a C interface.
//! `ARCHITECTURE.md` is the tour.

pub mod backend;
pub mod engine;
pub mod error;
pub mod ffi;
pub mod format;
pub mod model;
pub mod quant;
pub mod sample;
pub mod tensor;
pub mod text;
