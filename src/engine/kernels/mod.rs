//! Kernels on the caller's memory.

mod caller_memory;
pub(super) mod crossover;

pub use crate::cpu::attention::GqaInputs;
pub use caller_memory::{GqaParams, KvStore, attention_gqa, dequantize, matrix_bytes, matvec};
