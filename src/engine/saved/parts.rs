//! Reading and writing of saved data in pieces. Numbers are in native byte order.

use std::path::Path;

use crate::error::{Error, Result};

/// Maximum bytes per callback.
pub const PIECE: usize = 256 << 10;

/// Receives bytes.
pub type Write<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;
/// Fills memory with the next bytes.
pub type Read<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<()>;

pub fn damaged(what: impl Into<String>) -> Error {
    Error::format(Path::new("the saved cache"), what)
}

/// Writes values in their native representation.
pub fn bytes_of<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N], write: Write) -> Result<()> {
    let mut piece = Vec::new();
    for values in values.chunks(1024) {
        piece.clear();
        piece.extend(values.iter().flat_map(|x| bytes(*x)));
        write(&piece)?;
    }
    Ok(())
}

/// Reads numbers.
pub fn read_floats(values: &mut [f32], read: Read) -> Result<()> {
    let mut piece = [0; 4096];
    for values in values.chunks_mut(1024) {
        let piece = &mut piece[..4 * values.len()];
        read(piece)?;
        for (value, bytes) in values.iter_mut().zip(piece.as_chunks().0) {
            *value = f32::from_ne_bytes(*bytes);
        }
    }
    Ok(())
}

/// Reads `N` numbers.
pub fn read_words<const N: usize>(read: Read) -> Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        read(&mut bytes)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}
