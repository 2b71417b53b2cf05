//! The parts of an adapter's file that its readers have in common.

use std::path::Path;

use super::storage::TensorInfo;
use crate::error::Error;

/// The facts about a network by which the names and rows of an adapter are translated.
pub struct AdapterBase<'a> {
    /// `general.architecture` of a GGUF file.
    pub architecture: &'a str,
    /// Query heads for each key-value head, and the width of a head.
    pub group: [u64; 2],
}

/// One of two factors before it has found the other.
pub(super) struct Half {
    pub name: String,
    pub factor: f64,
    pub is_a: bool,
    pub tensor: TensorInfo,
}

/// The refusal of a tensor that is no factor.
pub(super) fn unknown(path: &Path, name: &str) -> Error {
    Error::unsupported(format!("{}: the tensor {name:?} is no factor of a low-rank adapter", path.display()))
}
