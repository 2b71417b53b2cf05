//! Files that other processes see whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::process_id;
use crate::error::{Error, Result};

/// Replaces a file by the pieces that `write` hands on. They go to a file of another name first, so that one with this
/// name is a whole one; after an error the old file is there.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}-{}.part", process_id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let part = Path::new(&part);
    let cannot_write = |e| Error::io(part, "cannot write", &e);
    let replace = || -> Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(part).map_err(cannot_write)?;
        write(&mut |bytes| file.write_all(bytes).map_err(cannot_write))?;
        // Ahead of the name: a system that fails leaves no file whose bytes are missing.
        file.sync_all().map_err(cannot_write)?;
        drop(file);
        fs::rename(part, path).map_err(|e| Error::io(path, "cannot be replaced", &e))
    };
    replace().inspect_err(|_| {
        let _ = fs::remove_file(part);
    })
}
