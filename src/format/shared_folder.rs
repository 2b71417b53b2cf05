//! A folder of files that several processes share: each is written under another name and then renamed, so that a file
//! is whole or not there, and those that were not used for longest are removed first.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::os;

/// End of the names of files that are being written, and the age at which one was left by a process that ended.
const PART: &str = ".part";
const ABANDONED: Duration = Duration::from_secs(3600);

pub struct SharedFolder {
    path: PathBuf,
    /// End of the names of its files; all else in the folder is somebody else's.
    suffix: &'static str,
    /// Bytes of its files.
    limit: u64,
}

impl SharedFolder {
    /// Makes the folder where it is missing.
    pub fn new(path: PathBuf, suffix: &'static str, limit: u64) -> Result<SharedFolder> {
        fs::create_dir_all(&path).map_err(|e| Error::io(&path, "cannot make the folder", &e))?;
        Ok(SharedFolder { path, suffix, limit })
    }

    pub fn path_of(&self, name: &OsString) -> PathBuf {
        self.path.join(name)
    }

    /// Names and sizes of its files, and when each was used last.
    pub fn files(&self) -> Vec<(OsString, u64, SystemTime)> {
        self.listed(|name| name.ends_with(self.suffix))
    }

    fn listed(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(OsString, u64, SystemTime)> {
        let of = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str().filter(|name| is_wanted(name))?;
            let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((name, data.len(), data.modified().ok()?))
        };
        fs::read_dir(&self.path).into_iter().flatten().flatten().filter_map(of).collect()
    }

    /// Opens a file for reading, and says that it was used.
    pub fn open(&self, name: &OsString) -> Option<File> {
        let path = self.path_of(name);
        // Files of somebody else may be read alone.
        let _ = OpenOptions::new().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        os::open(&path).ok()
    }

    /// Removes a file; another process may have been first.
    pub fn remove(&self, name: &OsString) {
        let _ = fs::remove_file(self.path_of(name));
    }

    /// Makes a file of what `write` writes, unless there is one of this name, and keeps the limit.
    pub fn write(&self, name: &str, write: impl FnOnce(&mut dyn Write, &Path) -> Result<()>) -> Result<()> {
        if self.path.join(name).exists() {
            return Ok(());
        }
        static PARTS: AtomicU64 = AtomicU64::new(0);
        let part = format!("{name}.{}-{}{PART}", os::process_id(), PARTS.fetch_add(1, Ordering::Relaxed));
        let part = self.path.join(part);
        let written = self.write_part(&part, write).and_then(|()| {
            fs::rename(&part, self.path.join(name)).map_err(|e| Error::io(&part, "cannot be renamed", &e))
        });
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.keep_limit();
        written
    }

    fn write_part(&self, part: &Path, write: impl FnOnce(&mut dyn Write, &Path) -> Result<()>) -> Result<()> {
        let cannot = |e| Error::io(part, "cannot write", &e);
        let file = OpenOptions::new().write(true).create_new(true).open(part).map_err(cannot)?;
        let mut file = BufWriter::with_capacity(1 << 18, file);
        write(&mut file, part)?;
        file.flush().map_err(cannot)
    }

    fn keep_limit(&self) {
        for (name, _, used) in self.listed(|name| name.contains(self.suffix) && name.ends_with(PART)) {
            if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                self.remove(&name);
            }
        }
        let mut files = self.files();
        files.sort_by_key(|(_, _, used)| *used);
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (name, len, _) in &files {
            if bytes <= self.limit {
                return;
            }
            self.remove(name);
            bytes -= len;
        }
    }
}
