//! The places of a tensor's bytes in the files, and reads that put them together: experts that are stored one by one,
//! matrices that are stored transposed, 8-bit floats whose scales are another tensor. Knows no names.

use super::file::InputFile;
use crate::error::{Error, Result, try_filled};
use crate::quant;
use crate::tensor::{DType, Shape};

/// The entry of a tensor in its file. `name` is unique in the file set and `bytes` is its exact length.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: DType,
    pub shape: Shape,
    pub bytes: u64,
    pub(super) storage: TensorStorage,
}

/// A place in a set of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileOffset {
    /// Number of the file in the set.
    pub file: usize,
    /// Bytes from the start of that file.
    pub offset: u64,
}

/// The way in which the bytes of a tensor are stored.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TensorStorage {
    /// One run of bytes in the order of the tensor.
    Whole(FileOffset),
    /// Parts of equal length, the slowest dimension of the tensor.
    Stacked(Vec<TensorStorage>),
    Scaled(Scaled),
    /// A matrix without blocks whose file holds the columns one after another.
    Transposed(FileOffset),
    /// Bytes that are in no file.
    Made(Vec<u8>),
}

/// A matrix of BF16 that its file holds as F8_E4M3 and scales.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scaled {
    pub values: FileOffset,
    /// Scales, one for each `block` of rows and columns, row by row.
    pub scales: FileOffset,
    pub scale_type: DType,
    pub block: [u64; 2],
}

impl TensorStorage {
    /// Fills `out` with the bytes of `tensor` that begin at `from`, which the caller has checked to be within it.
    pub fn read(&self, files: &[InputFile], tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
        match self {
            TensorStorage::Whole(place) => read(files, *place, from, out),
            TensorStorage::Stacked(parts) => read_stacked(files, parts, tensor, from, out),
            TensorStorage::Scaled(scaled) => read_scaled(files, scaled, tensor, from, out),
            TensorStorage::Transposed(place) => read_transposed(files, *place, tensor, from, out),
            TensorStorage::Made(bytes) => {
                let start = usize::try_from(from).unwrap_or(usize::MAX);
                let part = bytes.get(start..).and_then(|b| b.get(..out.len())).ok_or_else(|| unaligned(tensor))?;
                out.copy_from_slice(part);
                Ok(())
            }
        }
    }
}

fn read(files: &[InputFile], place: FileOffset, from: u64, out: &mut [u8]) -> Result<()> {
    match (files.get(place.file), place.offset.checked_add(from)) {
        (Some(file), Some(offset)) => file.read_at(offset, out),
        _ => Err(Error::invalid("a tensor of another file")),
    }
}

/// The error for a read that cuts a value of a converted tensor in two.
fn unaligned(tensor: &TensorInfo) -> Error {
    Error::invalid(format!("the tensor {:?} can be read in whole values only", tensor.name))
}

fn read_stacked(
    files: &[InputFile],
    parts: &[TensorStorage],
    tensor: &TensorInfo,
    mut from: u64,
    mut out: &mut [u8],
) -> Result<()> {
    let part_bytes = tensor.bytes.checked_div(parts.len() as u64);
    let Some(part_bytes) = part_bytes.filter(|&n| n > 0) else { return Ok(()) };
    for part in parts {
        if from < part_bytes && !out.is_empty() {
            let n = usize::try_from(part_bytes - from).unwrap_or(usize::MAX).min(out.len());
            let (now, rest) = out.split_at_mut(n);
            part.read(files, tensor, from, now)?;
            out = rest;
        }
        from = from.saturating_sub(part_bytes);
    }
    Ok(())
}

fn read_scaled(files: &[InputFile], s: &Scaled, tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
    let [target, source, scale] =
        [quant::format(quant::BF16)?, quant::format(quant::F8_E4M3)?, quant::format(s.scale_type)?];
    let [block_rows, block_cols] = s.block.map(|n| n.max(1));
    let (cols, scale_cols) = (tensor.shape.cols(), tensor.shape.cols().div_ceil(block_cols));
    if out.is_empty() {
        return Ok(());
    }
    if !from.is_multiple_of(2) || !out.len().is_multiple_of(2) {
        return Err(unaligned(tensor));
    }
    let (first, n) = (from / 2, out.len() / 2);
    let mut raw = try_filled("scaled weights", n, 0u8)?;
    read(files, s.values, first, &mut raw)?;
    let mut values = try_filled("scaled weights", n, 0f32)?;
    (source.dequantize)(&raw, &mut values);
    let (first_row, last_row) = (first / cols / block_rows, (first + n as u64 - 1) / cols / block_rows);
    let count = usize::try_from((last_row - first_row + 1) * scale_cols).map_err(|_| unaligned(tensor))?;
    let mut raw = try_filled("scales", count.saturating_mul(scale.block_bytes), 0u8)?;
    read(files, s.scales, first_row * scale_cols * scale.block_bytes as u64, &mut raw)?;
    let mut scales = try_filled("scales", count, 0f32)?;
    (scale.dequantize)(&raw, &mut scales);
    let (mut rest, mut at) = (values.as_mut_slice(), first);
    while !rest.is_empty() {
        let (row, col) = (at / cols, at % cols);
        let run = (block_cols - col % block_cols).min(cols - col);
        let scale = usize::try_from((row / block_rows - first_row) * scale_cols + col / block_cols);
        let scale = scale.ok().and_then(|i| scales.get(i)).ok_or_else(|| unaligned(tensor))?;
        let (now, later) = rest.split_at_mut(usize::try_from(run).unwrap_or(usize::MAX).min(rest.len()));
        now.iter_mut().for_each(|value| *value *= scale);
        (rest, at) = (later, at + run);
    }
    let encode = target.quantize.ok_or_else(|| unaligned(tensor))?;
    encode(&values, out);
    Ok(())
}

/// Reads each column of the wanted rows at once, so that many rows together take few reads.
fn read_transposed(
    files: &[InputFile],
    place: FileOffset,
    tensor: &TensorInfo,
    from: u64,
    out: &mut [u8],
) -> Result<()> {
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
