//! The small files of a folder, each read as a whole.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::file::Files;
use crate::os;

/// Maximum bytes of a configuration.
pub(super) const MAX_CONFIG: u64 = 4 << 20;

/// Reads a whole file; `None` if it does not exist.
pub(super) fn read(files: Files, path: &Path, cap: u64) -> Result<Option<Vec<u8>>> {
    match files.open(path) {
        Err(Error::Io { system_code, .. }) if os::is_not_found(system_code) => Ok(None),
        file => file?.read_all(cap).map(Some),
    }
}

pub(super) fn read_text(files: Files, path: &Path, cap: u64) -> Result<Option<String>> {
    let Some(bytes) = read(files, path, cap)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| Error::format(path, "text that is not UTF-8"))
}

/// True for the name of a file in the same folder.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}
