//! Common parts of the readers of LoRA adapters.

use std::path::Path;

use super::storage::TensorInfo;
use crate::error::Error;

/// Properties of the base model for translating the names and rows of an adapter.
pub struct AdapterBase<'a> {
    /// `general.architecture` of a GGUF file.
    pub architecture: &'a str,
    /// Number of query heads per KV head, and width of a head.
    pub group: [u64; 2],
}

/// One of two factors before pairing.
pub(super) struct Half {
    pub name: String,
    pub factor: f64,
    pub is_a: bool,
    pub tensor: TensorInfo,
}

/// Returns the error for a tensor that is not a factor.
pub(super) fn unknown(path: &Path, name: &str) -> Error {
    Error::unsupported(format!("{}: the tensor {name:?} is no factor of a low-rank adapter", path.display()))
}
