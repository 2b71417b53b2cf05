//! Files that other processes see whole or not at all: each is written under a name of its own, locked while its
//! process lives, and then renamed. The one way for packed weights, verdicts of self-tests and the folder of a store.
//!
//! A name has a random number and not that of the process: containers that share a folder all have process 1.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{create_own, is_of_this_user, open};
use crate::error::{Error, Result};

/// End of the names of files that are being written.
const END: &str = ".part";
/// Age at which one is taken for abandoned where files cannot be locked.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Names that are tried.
const NAMES: usize = 16;

/// A file that is being written, locked. It is removed unless it gets its name.
pub struct Part {
    pub file: File,
    path: PathBuf,
    is_named: bool,
}

impl Part {
    /// Makes an empty file beside `target`. `is_private`: only this user may read it.
    pub fn begin(target: &Path, is_private: bool) -> io::Result<Part> {
        let mut refusal = io::ErrorKind::AlreadyExists.into();
        for _ in 0..NAMES {
            let mut path = target.as_os_str().to_owned();
            path.push(format!(".{:016x}{END}", RandomState::new().build_hasher().finish()));
            let path = PathBuf::from(path);
            let create = || File::options().write(true).create_new(true).open(&path);
            match if is_private { create_own(&path) } else { create() } {
                // A process that began between the two calls may have taken it for abandoned.
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

    /// Gives the file its name, in place of a file that has it.
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

/// The name that a file of this name gets when it was written; `None` where it is no file that is being written.
pub fn name_of_part(name: &str) -> Option<&str> {
    let (target, number) = name.strip_suffix(END)?.rsplit_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_number.then_some(target)
}

/// Removes files of this user that processes which have ended left unfinished, of targets in a folder by their names.
pub fn remove_abandoned(folder: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_str().and_then(name_of_part).is_some_and(&is_wanted) {
            continue;
        }
        // A link is described by itself, not by the file it leads to.
        let Ok(data) = entry.metadata() else { continue };
        if !data.is_file() || !is_of_this_user(&data) {
            continue;
        }
        // The lock is held until the file is gone, so that no writer takes it meanwhile.
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

/// Replaces a file by the pieces that `write` hands on. One with this name is a whole one; after an error the old file
/// is there.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_abandoned(folder, |target| path.file_name().is_some_and(|name| name == target));
    let mut part = Part::begin(path, false).map_err(|e| Error::io(path, "cannot write", &e))?;
    let cannot_write = |e| Error::io(path, "cannot write", &e);
    write(&mut |bytes| part.file.write_all(bytes).map_err(cannot_write))?;
    // Ahead of the name: a system that fails leaves no file whose bytes are missing.
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
            ("a.end.1-1.part", Some("a.end")),
            ("weights.part", None),
            ("movie.mkv.part", None),
            ("a..part", None),
            (".part", None),
        ] {
            assert_eq!(name_of_part(name), target, "{name}");
        }
    }
}
