//! Atomic file creation: other processes see complete files or none. Each file is written under a temporary name,
//! locked while its process lives, and then renamed. Packed weights, self-test results and the folder of a store are
//! all written this way.
//!
//! The temporary name has a random number instead of the process ID, because containers that share a folder all have
//! the process ID 1.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{create_own, is_of_this_user, open};
use crate::error::{Error, Result};

/// Suffix of the names of unfinished files.
const END: &str = ".part";
/// Age at which an unfinished file counts as abandoned, if files cannot be locked.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Maximum number of names to try.
const NAMES: usize = 16;

/// A locked file that is being written. It is removed unless it gets its final name.
pub struct Part {
    pub file: File,
    path: PathBuf,
    is_named: bool,
}

impl Part {
    /// Creates an empty file next to `target`. `is_private`: only this user may read it.
    pub fn begin(target: &Path, is_private: bool) -> io::Result<Part> {
        let mut refusal = io::ErrorKind::AlreadyExists.into();
        for _ in 0..NAMES {
            let mut path = target.as_os_str().to_owned();
            path.push(format!(".{:016x}{END}", RandomState::new().build_hasher().finish()));
            let path = PathBuf::from(path);
            let create = || File::options().write(true).create_new(true).open(&path);
            match if is_private { create_own(&path) } else { create() } {
                // A process that started between the two calls may have removed the file as abandoned.
                Ok(file) => match file.try_lock() {
                    Err(TryLockError::WouldBlock) => {}
                    _ if fs::symlink_metadata(&path).is_err() => {}
                    _ => return Ok(Part { file, path, is_named: false }),
                },
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    refusal = e;
                    break;
                }
            }
        }
        Err(refusal)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to `target`, replacing an existing file.
    pub fn name(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the final name of an unfinished file; `None` if `name` is not such a file's name.
pub fn name_of_part(name: &str) -> Option<&str> {
    let (target, number) = name.strip_suffix(END)?.rsplit_once('.')?;
    let is_number = number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit());
    is_number.then_some(target)
}

/// Removes this user's unfinished files of ended processes from a folder, if `is_wanted` is true for the target's name.
pub fn remove_abandoned(folder: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_str().and_then(name_of_part).is_some_and(&is_wanted) {
            continue;
        }
        // For a link, the link's own metadata, not its target's.
        let Ok(data) = entry.metadata() else { continue };
        if !data.is_file() || !is_of_this_user(&data) {
            continue;
        }
        // The lock is held until the file is removed, so that no writer takes the file meanwhile.
        let Ok(file) = open(&entry.path()) else { continue };
        let is_abandoned = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => {
                data.modified().is_ok_and(|used| used.elapsed().is_ok_and(|age| age > ABANDONED))
            }
        };
        if is_abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Replaces a file by the chunks that `write` passes on. A file of this name is always complete; after an error the old
/// file remains.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_abandoned(folder, |target| path.file_name().is_some_and(|name| name == target));
    let mut part = Part::begin(path, false).map_err(|e| Error::io(path, "cannot write", &e))?;
    let cannot_write = |e| Error::io(path, "cannot write", &e);
    write(&mut |bytes| part.file.write_all(bytes).map_err(cannot_write))?;
    // Flush before the rename, so that a system crash leaves no file under `path` whose bytes are missing.
    part.file.sync_all().map_err(cannot_write)?;
    part.name(path).map_err(|e| Error::io(path, "cannot be replaced", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_that_are_being_written_are_told_from_others() {
        for (name, target) in [
            ("weights.rzpacked.0123456789abcdef.part", Some("weights.rzpacked")),
            ("a.end.00000000000000ff.part", Some("a.end")),
            ("model.bin.1.part", None),
            ("model.bin.2024-11.part", None),
            ("model.bin.0123456789abcdef0.part", None),
            ("weights.part", None),
            ("movie.mkv.part", None),
            ("a..part", None),
            (".part", None),
        ] {
            assert_eq!(name_of_part(name), target, "{name}");
        }
    }
}
