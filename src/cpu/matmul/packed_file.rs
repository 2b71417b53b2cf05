//! Packed weights in a separate file: written by the first load of a model, mapped by later loads. Processes that map
//! it share its memory. Defines the header, and writes and finds such files; `load` defines the layout of the data.
//!
//! The header is a page with the magic bytes, a stamp, the number of data bytes, the digest of the weights as in their
//! files, a checksum of the data, and a checksum of the header; the data are the packed mapping, byte for byte. The
//! stamp identifies the source files, the rows and types of their matrices, and the release of the library.
#![allow(unsafe_code)]

use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;
use twox_hash::XxHash64;

use crate::cpu::load::PlannedMatrix;
use crate::cpu::threads::pool::Pool;
use crate::cpu::threads::workers::Workers;
use crate::error::{Error, Result, try_filled};
use crate::graph::weights::{MatrixSource, Progress};
use crate::os;

const MAGIC: &[u8] = b"RZPACKED";
/// Size of the header in bytes: a page, so that the weights are page-aligned.
const HEAD: usize = 4096;
/// Byte range of the digest in the header; next, of the weights' checksum.
const DIGEST: Range<usize> = 24..32;
const CHECKSUM: Range<usize> = 32..40;
/// Bytes written between two checks for cancellation, and bytes per checksum task of a thread.
const PIECE: usize = 8 << 20;

/// Returns the number that identifies packed weights: a hash of `files`, the location of each matrix and three of its
/// rows.
pub fn stamp(files: u64, sources: &[&dyn MatrixSource], planned: &[PlannedMatrix]) -> Result<u64> {
    let mut hash = XxHash64::with_seed(files);
    hash.write(env!("CARGO_PKG_VERSION").as_bytes());
    for (source, PlannedMatrix { matrix, range }) in sources.iter().zip(planned) {
        for n in [matrix.dtype().0 as usize, matrix.rows, matrix.cols(), range.start, range.end] {
            hash.write_u64(n as u64);
        }
        let mut raw = try_filled("a row of weights", matrix.row_bytes(), 0u8)?;
        for row in [0, matrix.rows / 2, matrix.rows - 1] {
            source.read(row..row + 1, &mut raw)?;
            hash.write(&raw);
        }
    }
    Ok(hash.finish())
}

/// Returns the header page.
fn head(stamp: u64, bytes: u64, digest: u64, checksum: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    for (place, n) in head[8..].as_chunks_mut::<8>().0.iter_mut().zip([stamp, bytes, digest, checksum]) {
        *place = n.to_le_bytes();
    }
    let of_head = XxHash64::oneshot(0, &head[..CHECKSUM.end]);
    head[CHECKSUM.end..][..8].copy_from_slice(&of_head.to_le_bytes());
    head
}

/// Returns the number at a location in the header.
fn word(head: &[u8; HEAD], place: Range<usize>) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[place]);
    u64::from_le_bytes(word)
}

/// Returns the sum of the checksums of pieces, computed by the workers of a load.
fn checksum(pool: &Arc<Pool>, weights: &[u8]) -> Result<u64> {
    let sum = AtomicU64::new(0);
    let add = |_, i: usize| {
        let piece = &weights[i * PIECE..weights.len().min((i + 1) * PIECE)];
        sum.fetch_add(XxHash64::oneshot(i as u64, piece), Ordering::Relaxed);
        Ok(())
    };
    Workers::with(pool, |workers| workers.for_each(weights.len().div_ceil(PIECE), add))?;
    Ok(sum.into_inner())
}

/// True for the first page of a file that the library wrote, or of its remnant: truncated at any byte, or zeros if the
/// system crashed before its bytes were on the disk.
fn is_replaceable(page: &[u8]) -> bool {
    let n = page.len().min(MAGIC.len());
    page[..n] == MAGIC[..n] || page.iter().all(|byte| *byte == 0)
}

/// True if the first MiB of a file is all zeros. Other files, such as disk images, may begin with a page of zeros.
fn begins_with_zeros(file: &File, len: u64) -> io::Result<bool> {
    let mut page = [0; HEAD];
    for at in (0..len.min(1 << 20)).step_by(HEAD) {
        let page = &mut page[..usize::try_from(len - at).map_or(HEAD, |left| left.min(HEAD))];
        os::read_exact_at(file, page, at)?;
        if page.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn something_else(path: &Path) -> Error {
    Error::format(path, "no file of packed weights, and not to be replaced by one")
}

/// A mapped file of packed weights.
pub struct PackedFile {
    map: Mmap,
    pub digest: u64,
}

impl PackedFile {
    /// Maps the file with this stamp and `bytes` of weights. Returns `None` if the file is missing, damaged or has a
    /// different stamp, so that a load must write a new one. A file of another kind is an error, because a load would
    /// overwrite the file. Without `checked_by` the weights are not read, and so not checked.
    pub fn open(path: &Path, stamp: u64, bytes: usize, checked_by: Option<&Arc<Pool>>) -> Result<Option<PackedFile>> {
        let file = match os::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(path, "cannot open", &e)),
        };
        let cannot_read = |e| Error::io(path, "cannot read", &e);
        let len = file.metadata().map_err(cannot_read)?.len();
        if !os::is_regular(&file).map_err(cannot_read)? {
            return Err(something_else(path));
        }
        let mut found = [0; HEAD];
        let n = usize::try_from(len).map_or(HEAD, |len| len.min(HEAD));
        os::read_exact_at(&file, &mut found[..n], 0).map_err(cannot_read)?;
        let is_ours = len == HEAD as u64 + bytes as u64;
        let is_zero = found[..n].iter().all(|byte| *byte == 0);
        if !is_replaceable(&found[..n]) || is_zero && !is_ours && !begins_with_zeros(&file, len).map_err(cannot_read)? {
            return Err(something_else(path));
        }
        let (digest, of_weights) = (word(&found, DIGEST), word(&found, CHECKSUM));
        if found != head(stamp, bytes as u64, digest, of_weights) || len != HEAD as u64 + bytes as u64 {
            return Ok(None);
        }
        // SAFETY: the mapping is read-only, and the library never writes to an existing file; the caller promises that
        // no other process changes or truncates the file (`rz_model_params.packed_path`).
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, "cannot map", &e))?;
        // The file may have been truncated since.
        if map.len() as u64 != len {
            return Ok(None);
        }
        let file = PackedFile { map, digest };
        let is_whole = match checked_by {
            Some(pool) => checksum(pool, file.weights())? == of_weights,
            None => true,
        };
        Ok(is_whole.then_some(file))
    }

    /// Writes packed weights to a file atomically: the file is either complete or the old one.
    pub fn write(
        path: &Path,
        stamp: u64,
        weights: &[u8],
        digest: u64,
        pool: &Arc<Pool>,
        progress: &mut Progress,
    ) -> Result<()> {
        let (total, of_weights) = (weights.len() as u64, checksum(pool, weights)?);
        os::replace_file(path, |write| {
            write(&head(stamp, total, digest, of_weights))?;
            for piece in weights.chunks(PIECE) {
                progress(total, total)?;
                write(piece)?;
            }
            Ok(())
        })
    }

    pub fn weights(&self) -> &[u8] {
        &self.map[HEAD..]
    }
}
