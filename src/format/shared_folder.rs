//! A folder of files shared by several processes of one user. Invariants: a file is written under another name, locked
//! while its process lives, and then renamed, so it is complete or absent. Before the renaming, files are removed until
//! the limit holds: first those that the new one replaces, then the least recently used. Files that other users own or
//! may write, links, and non-regular files are ignored, because contents determine results.
//!
//! Files are not synced to the disk: one that is truncated by a power loss is detected by its checksum.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, Result, try_filled, try_vec};
use crate::os::{self, Part};

/// Bytes buffered per write.
const BUFFER: usize = 1 << 18;
/// Maximum of the default limit.
const DISK_LIMIT: u64 = 16 << 30;
/// The default limit is 1/`SHARE` of the free space.
const SHARE: u64 = 10;

/// Name, size, and last use of a file.
pub type Listed = (OsString, u64, SystemTime);

pub struct SharedFolder {
    path: PathBuf,
    /// Suffix of its files; everything else in the folder is foreign.
    suffix: &'static str,
    /// Maximum bytes of its files.
    limit: u64,
}

impl SharedFolder {
    /// Creates the folder if missing, accessible only to this user, and removes unfinished files of dead processes.
    /// `limit`: `None` for a tenth of the free disk space, at most `DISK_LIMIT`.
    pub fn new(path: PathBuf, suffix: &'static str, limit: Option<u64>) -> Result<SharedFolder> {
        os::make_own_folder(&path).map_err(|e| Error::io(&path, "cannot make the folder", &e))?;
        let data = fs::metadata(&path).map_err(|e| Error::io(&path, "cannot look at the folder", &e))?;
        if !os::is_own(&data) {
            let what =
                "another user owns the folder or may write to it, so its files may not decide results".to_owned();
            return Err(Error::Io { path: path.display().to_string(), what, system_code: 0 });
        }
        let mut folder = SharedFolder { path, suffix, limit: limit.unwrap_or(DISK_LIMIT) };
        os::remove_abandoned(&folder.path, |target| target.ends_with(suffix));
        if limit.is_none()
            && let Some(free) = os::disk_free(&folder.path)
        {
            // Its own files count as free, so that a folder that fills up keeps its limit.
            let own: u64 = folder.files().iter().map(|(_, len, _)| len).sum();
            folder.limit = (free.saturating_add(own) / SHARE).min(DISK_LIMIT);
        }
        Ok(folder)
    }

    /// Returns the maximum bytes of its files.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn path_of(&self, name: &OsString) -> PathBuf {
        self.path.join(name)
    }

    /// Returns its files.
    pub fn files(&self) -> Vec<Listed> {
        self.listed(false)
    }

    /// Returns its files, or its unfinished files.
    fn listed(&self, unfinished: bool) -> Vec<Listed> {
        let is_wanted = |name: &str| match unfinished {
            true => os::name_of_part(name).is_some_and(|target| target.ends_with(self.suffix)),
            false => name.ends_with(self.suffix),
        };
        let of = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str().filter(|name| is_wanted(name))?;
            // Metadata of a link describe the link, not its target.
            let data = entry.metadata().ok().filter(|data| data.is_file() && os::is_own(data))?;
            Some((name, data.len(), data.modified().ok()?))
        };
        fs::read_dir(&self.path).into_iter().flatten().flatten().filter_map(of).collect()
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &OsString) -> Result<SharedFile> {
        let path = self.path_of(name);
        let file = os::open_own(&path).map_err(|e| Error::io(&path, "cannot open", &e))?;
        Ok(SharedFile { file, buffer: try_filled("a prefix", BUFFER, 0)?, read: 0..0 })
    }

    /// Makes a file the most recently used one.
    pub fn mark_used(&self, name: &OsString) -> io::Result<()> {
        os::open_own(&self.path_of(name))?.set_modified(SystemTime::now())
    }

    /// Removes a file; another process may have removed it first.
    pub fn remove(&self, name: &OsString) {
        let _ = fs::remove_file(self.path_of(name));
    }

    /// Creates a file with the output of `write`, unless one of this name exists, removes the files that it replaces,
    /// and enforces the limit. After an error the new file is absent, and the others stay.
    pub fn write(
        &self,
        name: &OsString,
        replaced: &[OsString],
        write: impl FnOnce(&mut dyn Write, &Path) -> Result<()>,
    ) -> Result<()> {
        if self.mark_used(name).is_ok() {
            replaced.iter().for_each(|file| self.remove(file));
            return Ok(());
        }
        let target = self.path_of(name);
        let part = Part::begin(&target, true).map_err(|e| Error::io(&target, "cannot write", &e))?;
        let path = part.path().to_owned();
        let mut out = Bounded { part, left: self.limit, buffer: try_vec("a prefix", BUFFER)? };
        write(&mut out, &path)?;
        out.flush().map_err(|e| Error::io(&path, "cannot write", &e))?;
        // The new file counts already, so that the limit holds after the renaming.
        self.keep_limit(replaced);
        out.part.name(&target).map_err(|e| Error::io(&path, "cannot be renamed", &e))?;
        replaced.iter().for_each(|file| self.remove(file));
        Ok(())
    }

    /// Removes files until the limit, which includes unfinished files, holds: first those of `replaced`, then the least
    /// recently used.
    fn keep_limit(&self, replaced: &[OsString]) {
        let mut files = self.files();
        files.sort_by_key(|(name, _, used)| (!replaced.contains(name), *used));
        let unfinished = self.listed(true);
        let mut bytes: u64 = files.iter().chain(&unfinished).map(|(_, len, _)| len).sum();
        for (name, len, _) in &files {
            if bytes <= self.limit {
                return;
            }
            self.remove(name);
            bytes -= len;
        }
    }
}

/// A sequential reader. A failed allocation of its buffer is an error, unlike in std's reader.
pub struct SharedFile {
    file: File,
    buffer: Vec<u8>,
    /// The part of the buffer that has not been returned yet.
    read: Range<usize>,
}

impl Read for SharedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() {
            if out.len() >= self.buffer.len() {
                return self.file.read(out);
            }
            self.read = 0..self.file.read(&mut self.buffer)?;
        }
        let mut waiting = self.buffer.get(self.read.clone()).unwrap_or_default();
        let n = waiting.read(out)?;
        self.read.start += n;
        Ok(n)
    }
}

/// A file being written, with a maximum size.
struct Bounded {
    part: Part,
    left: u64,
    /// Buffered bytes, never more than its capacity.
    buffer: Vec<u8>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len() as u64;
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "more than the limit of the folder");
        self.left = self.left.checked_sub(len).ok_or_else(too_large)?;
        if bytes.len() > self.buffer.capacity() - self.buffer.len() {
            self.flush()?;
        }
        match bytes.len() < self.buffer.capacity() {
            true => self.buffer.extend_from_slice(bytes),
            false => self.part.file.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &SharedFolder, name: &str, bytes: &[u8]) -> Result<()> {
        replace(folder, name, &[], bytes)
    }

    fn replace(folder: &SharedFolder, name: &str, replaced: &[OsString], bytes: &[u8]) -> Result<()> {
        let write =
            |file: &mut dyn Write, path: &Path| file.write_all(bytes).map_err(|e| Error::io(path, "cannot write", &e));
        folder.write(&name.into(), replaced, write)
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_limit_holds_and_a_failure_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared");
        let folder = SharedFolder::new(path.clone(), ".end", Some(100)).unwrap();
        put(&folder, "a.end", &[1; 60]).unwrap();
        put(&folder, "a.end", &[2; 60]).unwrap();
        assert_eq!(fs::read(path.join("a.end")).unwrap(), [1; 60], "it was there");
        assert!(put(&folder, "b.end", &[1; 101]).is_err());
        let full = |_: &mut dyn Write, path: &Path| Err(Error::io(path, "cannot write", &io::Error::other("full")));
        assert!(folder.write(&"c.end".into(), &["a.end".into()], full).is_err());
        assert_eq!(names(&path), ["a.end"], "nothing had to go for what was not written");
        put(&folder, "d.end", &[1; 60]).unwrap();
        assert_eq!(names(&path), ["d.end"]);
    }

    #[test]
    fn what_is_replaced_goes_ahead_of_what_was_not_used_for_longest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared");
        let folder = SharedFolder::new(path.clone(), ".end", Some(100)).unwrap();
        for name in ["old.end", "short.end"] {
            put(&folder, name, &[1; 40]).unwrap();
            // A file system may have a time resolution of 10 ms.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        replace(&folder, "long.end", &["short.end".into()], &[1; 50]).unwrap();
        assert_eq!(names(&path), ["long.end", "old.end"]);
        // With enough space, and if the file exists already.
        let folder = SharedFolder::new(path.clone(), ".end", Some(1000)).unwrap();
        replace(&folder, "longer.end", &["long.end".into(), "none.end".into()], &[1; 60]).unwrap();
        assert_eq!(names(&path), ["longer.end", "old.end"]);
        replace(&folder, "longer.end", &["old.end".into()], &[1; 60]).unwrap();
        assert_eq!(names(&path), ["longer.end"]);
    }

    #[test]
    fn what_is_being_written_stays_and_what_was_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let new = || SharedFolder::new(dir.path().join("shared"), ".end", Some(100)).unwrap();
        let folder = new();
        let left = folder.path_of(&"b.end.00000000000000ff.part".into());
        folder
            .write(&"a.end".into(), &[], |file, part| {
                os::create_own(&left).unwrap();
                new();
                assert!(part.exists() && !left.exists());
                file.write_all(b"whole").map_err(|e| Error::io(part, "cannot write", &e))
            })
            .unwrap();
        assert_eq!(names(&dir.path().join("shared")), ["a.end"]);
    }
}
