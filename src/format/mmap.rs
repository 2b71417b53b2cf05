//! A file mapped into memory. If the file is shortened, reading the missing part kills the process (SIGBUS); therefore
//! a mapping is always the caller's explicit choice.

#![allow(unsafe_code)]

use super::file::InputFile;
use crate::error::{Error, Result};

#[derive(Debug)]
pub struct Mapping(memmap2::Mmap);

impl Mapping {
    pub(super) fn new(input: &InputFile) -> Result<Mapping> {
        let (file, offset) = input.as_file()?;
        let len = usize::try_from(input.len).map_err(|_| Error::format(&input.path, "too large"))?;
        // Any offset: the mapping begins at its page. It outlives the file descriptor.
        let mut options = memmap2::MmapOptions::new();
        // SAFETY: the mapping is read-only, so this process cannot change it; the caller guarantees that nobody else
        // changes or shortens the file, as stated at `Access::Map`.
        let map = unsafe { options.offset(offset).len(len).map(file) };
        map.map(Mapping).map_err(|e| Error::io(&input.path, "cannot map", &e))
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
