//! A regular file, read at positions by any number of threads. Relies on `os`; refuses to
//! open what could block or never end: pipes, devices, folders.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, try_filled};
use crate::os;

#[derive(Debug)]
pub(super) struct InputFile {
    pub path: PathBuf,
    /// Bytes of the file at the time it was opened.
    pub len: u64,
    file: File,
}

impl InputFile {
    pub fn open(path: &Path) -> Result<InputFile> {
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
        Ok(InputFile { path: path.to_owned(), len: stat.len(), file })
    }

    /// Fills `out` from `offset`. A file that has become shorter is an error.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        os::read_exact_at(&self.file, out, offset)
            .map_err(|e| Error::io(&self.path, &format!("cannot read {} bytes at {offset}", out.len()), &e))
    }

    /// Reads the whole of a small file; more than `cap` bytes are refused.
    pub fn read_all(&self, cap: u64) -> Result<Vec<u8>> {
        if self.len > cap {
            return Err(Error::format(&self.path, format!("{} bytes, the limit is {cap}", self.len)));
        }
        let len = usize::try_from(self.len).map_err(|_| Error::format(&self.path, "too large"))?;
        let mut bytes = try_filled("a file", len, 0)?;
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    pub fn as_file(&self) -> &File {
        &self.file
    }
}
