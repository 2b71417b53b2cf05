//! The result of reading a file set of any format, and the limits of all readers.

use std::path::Path;

use super::file::InputFile;
use super::metadata::Metadata;
use super::passed::Passed;
use super::storage::TensorInfo;
use crate::error::{Error, Result};

/// Maximum number of tensors in a file set, and of keys in a file.
pub(super) const MAX_ENTRIES: u64 = 65_536;
/// Maximum number of files in a set.
pub(super) const MAX_FILES: u64 = 1_024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    Gguf,
    Safetensors,
}

/// The result of a format's reader.
pub(super) struct Contents {
    pub format: FileFormat,
    pub metadata: Metadata,
    pub files: Vec<InputFile>,
    pub tensors: Vec<TensorInfo>,
    pub passed: Passed,
}

/// Appends the entries of another file of a set.
pub(super) fn append<T>(set: &mut Vec<T>, more: Vec<T>, path: &Path) -> Result<()> {
    if set.len().saturating_add(more.len()) as u64 > MAX_ENTRIES {
        return Err(Error::format(path, format!("more than {MAX_ENTRIES} tensors in the files")));
    }
    let bytes = more.len().saturating_mul(size_of::<T>()) as u64;
    set.try_reserve(more.len()).map_err(|_| Error::OutOfMemory { what: "tensors", bytes })?;
    set.extend(more);
    Ok(())
}

/// Returns a copy of a text whose size a file determines.
pub(super) fn owned(text: &str) -> Result<String> {
    let mut copy = String::new();
    copy.try_reserve_exact(text.len()).map_err(|_| Error::OutOfMemory { what: "text", bytes: text.len() as u64 })?;
    copy.push_str(text);
    Ok(copy)
}
