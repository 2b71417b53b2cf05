//! Numbers and bytes in separately mapped pages: zeroed, and untouched pages take no memory.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use crate::error::{Error, Result, check_memory};
use crate::os::Pages;

/// Size in bytes from which huge pages are requested.
const HUGE: usize = 4 << 20;

/// Maps `bytes` zeros.
pub fn map(what: &'static str, bytes: usize) -> Result<Pages> {
    check_memory(what)?;
    Pages::new(bytes).map_err(|_| Error::OutOfMemory { what, bytes: bytes as u64 })
}

/// Maps memory that is read repeatedly, in huge pages if the system has them.
pub fn map_huge(what: &'static str, bytes: usize) -> Result<Pages> {
    let memory = map(what, bytes)?;
    if bytes >= HUGE {
        memory.prefer_huge();
    }
    Ok(memory)
}

/// An f32 array of fixed length.
pub struct Floats {
    memory: Pages,
    len: usize,
}

impl Floats {
    /// Allocates `rows * cols` zeros.
    pub fn new(what: &'static str, rows: usize, cols: usize) -> Result<Floats> {
        let bytes = rows.checked_mul(cols).and_then(|n| n.checked_mul(size_of::<f32>()));
        let memory = map(what, bytes.ok_or(Error::OutOfMemory { what, bytes: u64::MAX })?)?;
        Ok(Floats { memory, len: rows * cols })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.memory[..size_of::<f32>() * self.len]
    }

    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        let bytes = size_of::<f32>() * self.len;
        &mut self.memory[..bytes]
    }

    /// As `new`, for values that every step reads or writes completely, in huge pages if the system has them.
    pub fn huge(what: &'static str, len: usize) -> Result<Floats> {
        let bytes = len.checked_mul(size_of::<f32>()).ok_or(Error::OutOfMemory { what, bytes: u64::MAX })?;
        Ok(Floats { memory: map_huge(what, bytes)?, len })
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `new` maps `len` f32, aligned to a page; every bit pattern is an f32.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }
}

/// Views aligned bytes as floats.
pub fn as_f32_mut(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: every bit pattern is an f32; unaligned bytes are excluded.
    let (before, floats, after) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && after.is_empty());
    floats
}

/// Bytes of fixed length, aligned to cache lines.
pub struct Lines {
    memory: Pages,
    len: usize,
}

impl Lines {
    /// Allocates `bytes` zeros; `None` means that the length overflowed.
    pub fn new(what: &'static str, bytes: Option<usize>) -> Result<Lines> {
        let len = bytes.ok_or(Error::OutOfMemory { what, bytes: u64::MAX })?;
        Ok(Lines { memory: map(what, len)?, len })
    }
}

impl Deref for Lines {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}
