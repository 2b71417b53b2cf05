//! Offsets of arrays in one allocation of device memory.

use crate::error::{Error, Result};

/// Alignment of every array in bytes, equal to a fresh allocation's.
pub const ALIGN: usize = 256;

/// Places arrays one after another.
#[derive(Default)]
pub struct Arena {
    bytes: usize,
}

impl Arena {
    /// Reserves `count` elements of `size` bytes and returns their offset.
    pub fn add(&mut self, count: usize, size: usize) -> Result<usize> {
        let offset = self.bytes;
        let end = count.checked_mul(size).and_then(|n| n.checked_next_multiple_of(ALIGN)?.checked_add(offset));
        self.bytes = end
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or(Error::OutOfMemory { what: "device memory", bytes: u64::MAX })?;
        Ok(offset)
    }

    /// Returns the number of bytes of all arrays, with padding.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
