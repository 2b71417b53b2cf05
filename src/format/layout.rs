//! Where the bytes of a tensor lie in the files, and how to read them where they do not lie there as they are
//! wanted: experts that are stored one by one, matrices that are stored the other way round.

use super::TensorInfo;
use super::file::InputFile;
use crate::error::{Error, Result, try_filled};
use crate::quant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Which file of the set.
    pub file: usize,
    /// From the start of that file.
    pub offset: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Layout {
    Whole(Place),
    /// Parts of equal length, the slowest dimension of the tensor.
    Stacked(Vec<Place>),
    /// A matrix without blocks whose file holds the columns one after another.
    Transposed(Place),
    /// In no file.
    Made(Vec<u8>),
}

impl Layout {
    /// Fills `out` with the bytes of `tensor` that begin at `from`, which the caller has checked to be within it.
    pub fn read(&self, files: &[InputFile], tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Layout::Whole(place) => read(files, *place, from, out),
            Layout::Stacked(parts) => read_stacked(files, parts, tensor.bytes, from, out),
            Layout::Transposed(place) => read_transposed(files, *place, tensor, from, out),
            Layout::Made(bytes) => {
                let start = usize::try_from(from).unwrap_or(usize::MAX);
                let part = bytes.get(start..).and_then(|b| b.get(..out.len())).ok_or_else(|| unaligned(tensor))?;
                out.copy_from_slice(part);
                Ok(())
            }
        }
    }
}

fn read(files: &[InputFile], place: Place, from: u64, out: &mut [u8]) -> Result<()> {
    match (files.get(place.file), place.offset.checked_add(from)) {
        (Some(file), Some(offset)) => file.read_at(offset, out),
        _ => Err(Error::invalid("a tensor of another file")),
    }
}

/// Tensors that are not read as they lie are read in whole values.
fn unaligned(tensor: &TensorInfo) -> Error {
    Error::invalid(format!("the tensor {:?} can be read in whole values only", tensor.name))
}

fn read_stacked(files: &[InputFile], parts: &[Place], bytes: u64, mut from: u64, mut out: &mut [u8]) -> Result<()> {
    let Some(part_bytes) = bytes.checked_div(parts.len() as u64).filter(|&n| n > 0) else { return Ok(()) };
    for part in parts {
        if from < part_bytes && !out.is_empty() {
            let n = usize::try_from(part_bytes - from).unwrap_or(usize::MAX).min(out.len());
            let (now, rest) = out.split_at_mut(n);
            read(files, *part, from, now)?;
            out = rest;
        }
        from = from.saturating_sub(part_bytes);
    }
    Ok(())
}

/// A column of the wanted rows is one read, so a caller that asks for many rows at once asks for few reads.
fn read_transposed(files: &[InputFile], place: Place, tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
    let (rows, cols) = (tensor.shape.rows(), tensor.shape.cols());
    let value = quant::format(tensor.dtype)?.block_bytes;
    if out.is_empty() {
        return Ok(());
    }
    if !from.is_multiple_of(value as u64) || !out.len().is_multiple_of(value) {
        return Err(unaligned(tensor));
    }
    let first = from / value as u64;
    let n = (out.len() / value) as u64;
    let (first_row, last_row) = (first / cols, (first + n - 1) / cols);
    let run = usize::try_from(last_row - first_row + 1).ok().and_then(|n| n.checked_mul(value));
    let mut column = try_filled("a transposed matrix", run.ok_or_else(|| unaligned(tensor))?, 0u8)?;
    for c in 0..cols {
        read(files, place, (c * rows + first_row) * value as u64, &mut column)?;
        for (row, bytes) in (first_row..).zip(column.chunks_exact(value)) {
            // Only the first and the last row can be wanted in part.
            let Some(i) = (row * cols + c).checked_sub(first).and_then(|i| usize::try_from(i).ok()) else { continue };
            if let Some(slot) = i.checked_mul(value).and_then(|start| out.get_mut(start..start + value)) {
                slot.copy_from_slice(bytes);
            }
        }
    }
    Ok(())
}
