//! The files of a model, read at positions by any number of threads: regular files, or named bytes of the caller. Uses
//! `os`; rejects files that could block or be endless: pipes, devices, folders.

use std::fmt;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::error::{Error, Result, try_filled};
use crate::os;

/// Maximum number of visited files in a folder.
const MAX_NAMES: usize = 65_536;

/// Fills memory with the bytes from a position on.
pub type ReadAt = dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync;

/// A caller's bytes with a file name.
#[derive(Clone)]
pub struct ByteSource {
    /// Relative to the folder of the model.
    pub name: PathBuf,
    pub len: u64,
    /// Fills memory from a position on, within `len`, from any thread.
    pub read: Arc<ReadAt>,
    /// The file and offset of the bytes, if they can be mapped.
    pub file: Option<(Arc<ManuallyDrop<File>>, u64)>,
}

impl fmt::Debug for ByteSource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} bytes of {}", self.len, self.name.display())
    }
}

/// Where files are found by path.
#[derive(Clone, Copy)]
pub(super) enum Files<'a> {
    Disk,
    /// The caller's bytes, in a folder with the path `.`.
    Given(&'a [ByteSource]),
}

impl Files<'_> {
    pub fn open(&self, path: &Path) -> Result<InputFile> {
        let Files::Given(_) = self else { return InputFile::open(path) };
        match self.given(path) {
            Some(found) => {
                Ok(InputFile { path: found.name.clone(), len: found.len, bytes: Bytes::Given(found.clone()) })
            }
            None => Err(Error::io(path, "not among the sources", &io::Error::from_raw_os_error(os::NOT_FOUND))),
        }
    }

    pub fn exists(&self, path: &Path) -> bool {
        match self {
            Files::Disk => path.exists(),
            Files::Given(_) => self.given(path).is_some(),
        }
    }

    /// Returns the names of the files in a folder, in order.
    pub fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut add = |name: &std::ffi::OsStr| -> Result<()> {
            if let Some(name) = name.to_str().filter(|_| names.len() < MAX_NAMES) {
                let bytes = name.len() as u64;
                names.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "names of files", bytes })?;
                names.push(name.to_owned());
            }
            Ok(())
        };
        match self {
            Files::Disk => {
                let cannot_list = |e| Error::io(folder, "cannot list", &e);
                for entry in std::fs::read_dir(folder).map_err(cannot_list)? {
                    add(&entry.map_err(cannot_list)?.file_name())?;
                }
            }
            Files::Given(sources) => {
                for source in *sources {
                    add(source.name.as_os_str())?;
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn given(&self, path: &Path) -> Option<&ByteSource> {
        let Files::Given(sources) = self else { return None };
        let name = path.strip_prefix(".").unwrap_or(path);
        sources.iter().find(|source| source.name == name)
    }
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Given(ByteSource),
}

#[derive(Debug)]
pub(super) struct InputFile {
    pub path: PathBuf,
    /// Bytes of the file when it was opened.
    pub len: u64,
    bytes: Bytes,
}

impl InputFile {
    fn open(path: &Path) -> Result<InputFile> {
        let file = os::open(path).map_err(|e| Error::io(path, "cannot open", &e))?;
        let cannot_stat = |e| Error::io(path, "cannot stat", &e);
        if !os::is_regular(&file).map_err(cannot_stat)? {
            let (what, system_code) = match path.is_dir() {
                true => ("is a folder", os::IS_FOLDER),
                false => ("is not a regular file", os::IS_NO_FILE),
            };
            return Err(Error::Io { path: path.display().to_string(), what: what.into(), system_code });
        }
        let stat = file.metadata().map_err(cannot_stat)?;
        Ok(InputFile { path: path.to_owned(), len: stat.len(), bytes: Bytes::File(file) })
    }

    /// Hashes properties that identify the file and its version: length, and on disk the modification time; for given
    /// bytes the name.
    pub fn stamp(&self, hash: &mut impl Hasher) {
        hash.write_u64(self.len);
        match &self.bytes {
            Bytes::File(file) => {
                let changed = file.metadata().and_then(|stat| stat.modified());
                let since = changed.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
                hash.write(&since.unwrap_or_default().as_nanos().to_le_bytes());
            }
            Bytes::Given(source) => hash.write(source.name.as_os_str().as_encoded_bytes()),
        }
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `Error::Format` if the file has fewer bytes, also if it was shortened after it was opened.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let read = match &self.bytes {
            Bytes::File(file) => os::read_exact_at(file, out, offset),
            Bytes::Given(source) => match offset.checked_add(out.len() as u64) {
                Some(end) if end <= source.len => {
                    // A callback that writes less than it claims must not expose stale memory.
                    out.fill(0);
                    (source.read)(offset, out)
                }
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        };
        read.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                let end = offset.saturating_add(out.len() as u64);
                let why = format!("the file ends before byte {end}");
                Error::format(&self.path, format!("cannot read {} bytes at byte {offset}: {why}", out.len()))
            }
            _ => Error::io(&self.path, &format!("cannot read {} bytes at byte {offset}", out.len()), &e),
        })
    }

    /// Reads a whole small file; fails beyond `cap` bytes.
    pub fn read_all(&self, cap: u64) -> Result<Vec<u8>> {
        if self.len > cap {
            return Err(Error::format(&self.path, format!("{} bytes, the limit is {cap}", self.len)));
        }
        let len = usize::try_from(self.len).map_err(|_| Error::format(&self.path, "too large"))?;
        let mut bytes = try_filled("a file", len, 0)?;
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the file with these bytes, and their offset.
    pub fn as_file(&self) -> Result<(&File, u64)> {
        match &self.bytes {
            Bytes::File(file) => Ok((file, 0)),
            Bytes::Given(ByteSource { file: Some((file, offset)), .. }) => Ok((file, *offset)),
            Bytes::Given(_) => Err(Error::unsupported(format!(
                "cannot map {}: RZ_MODEL_MMAP needs files or sources of the kind RZ_SOURCE_FD",
                self.path.display()
            ))),
        }
    }
}

/// A position in a set of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileOffset {
    /// Index of the file in the set.
    pub file: usize,
    /// Bytes from the start of that file.
    pub offset: u64,
}

/// Fills `out` from byte `from` of a position on.
pub(super) fn read(files: &[InputFile], place: FileOffset, from: u64, out: &mut [u8]) -> Result<()> {
    match (files.get(place.file), place.offset.checked_add(from)) {
        (Some(file), Some(offset)) => file.read_at(offset, out),
        _ => Err(Error::invalid("the tensor belongs to another file")),
    }
}
