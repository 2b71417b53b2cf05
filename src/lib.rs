//! An embeddable LLM inference library with a C interface. `ARCHITECTURE.md` is the tour.

pub mod error;
pub mod memory;
pub mod os;
pub mod tensor;

pub mod media;
pub mod quant;

pub mod format;
pub mod sampling;

pub mod graph;

pub mod cpu;
pub mod gpu;

#[cfg(cuda)]
pub mod cuda;

#[cfg(feature = "wgpu")]
pub mod wgpu;

pub mod drivers;

pub mod device;
pub mod model;
pub mod text;

pub mod grammar;

pub mod engine;

pub mod ffi;
