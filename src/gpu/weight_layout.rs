//! The layout of weights on a device: the planes of each matrix, vectors and RoPE tables, in one allocation.
//!
//! The byte order within planes is defined in `planes`.

use super::arena::Arena;
use super::planes::{Plane, planes, scale_bound};
use crate::error::{Error, Result, try_filled};
use crate::graph::weights::{MatrixSource, Weights};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// Column padding: the length of a group of quantized activations.
pub const COLS: usize = 32;

/// Returns the format of a matrix on the device: the file's, or F16 for types without kernels.
pub fn stored_format(source: DType) -> Result<Format> {
    quant::format(if planes(source).is_some() { source } else { quant::F16 })
}

/// The layout of a matrix in device memory.
pub struct PlaneLayout {
    /// Format in the file.
    pub source: Format,
    /// Format on the device.
    pub target: Format,
    parts: &'static [Plane],
    pub rows: usize,
    pub cols: usize,
    /// Bytes of a row in the file.
    pub row_bytes: usize,
    /// Offset and bytes per row of each plane.
    pub planes: Vec<(usize, usize)>,
}

impl PlaneLayout {
    pub fn new(source: &dyn MatrixSource, arena: &mut Arena) -> Result<PlaneLayout> {
        let format = quant::format(source.dtype())?;
        let (rows, cols) = (source.rows(), source.cols());
        let too_large = || Error::unsupported(format!("{}: {rows} by {cols} is too large", source.name()));
        if rows == 0 || cols == 0 || rows > i32::MAX as usize || cols > i32::MAX as usize - COLS {
            return Err(too_large());
        }
        let row_bytes = usize::try_from(format.row_bytes(cols as u64)?).map_err(|_| too_large())?;
        let target = stored_format(format.dtype)?;
        let parts = planes(target.dtype).unwrap_or_default();
        let blocks = cols.next_multiple_of(COLS) / target.block_len;
        let mut planes = Vec::with_capacity(parts.len());
        for part in parts {
            let row = blocks.checked_mul(part.bytes).ok_or_else(too_large)?;
            planes.push((arena.add(rows, row)?, row));
        }
        Ok(PlaneLayout { source: format, target, parts, rows, cols, row_bytes, planes })
    }

    /// Returns the number of bytes of a row over all planes.
    pub fn packed_row_bytes(&self) -> usize {
        self.planes.iter().map(|(_, row)| row).sum()
    }

    /// Reads `n` rows of a source, converted to blocks of the target type; `read` gets them as in the file.
    pub fn rows(&self, source: &dyn MatrixSource, first: usize, n: usize, read: impl FnOnce(&[u8])) -> Result<Vec<u8>> {
        let mut raw = try_filled("rows to upload", n * self.row_bytes, 0u8)?;
        source.read(first..first + n, &mut raw)?;
        read(&raw);
        if self.source.dtype == self.target.dtype {
            return Ok(raw);
        }
        let mut values = try_filled("rows to upload", n * self.cols, 0f32)?;
        quant::dequantize(self.source.dtype, &raw, &mut values)?;
        let mut halves = try_filled("rows to upload", 2 * values.len(), 0u8)?;
        quant::quantize(self.target.dtype, &values, &mut halves)?;
        Ok(halves)
    }

    /// Returns the maximum scale in rows of target blocks.
    pub fn bound(&self, rows: &[u8]) -> f32 {
        let blocks = rows.chunks_exact(self.target.block_bytes);
        let bounds = blocks.map(|block| scale_bound(self.target.dtype, block));
        bounds.filter(|bound| bound.is_finite()).fold(0.0, f32::max)
    }

    /// Splits `n` rows of target blocks into planes.
    pub fn split(&self, rows: &[u8], n: usize, planes: &mut [&mut [u8]]) {
        let row_bytes = rows.len() / n;
        for ((Plane { bytes, part }, (_, plane_row)), plane) in self.parts.iter().zip(&self.planes).zip(planes) {
            for (row, to) in rows.chunks_exact(row_bytes).zip(plane.chunks_exact_mut(*plane_row)) {
                if *bytes == self.target.block_bytes {
                    to[..row_bytes].copy_from_slice(row);
                    to[row_bytes..].fill(0);
                    continue;
                }
                for (block, to) in row.chunks_exact(self.target.block_bytes).zip(to.chunks_exact_mut(*bytes)) {
                    part(block, to);
                }
            }
        }
    }
}

/// Offsets of all weights of a model, in one allocation.
pub struct WeightLayout {
    pub arena: Arena,
    pub matrices: Vec<PlaneLayout>,
    pub vectors: Vec<usize>,
    pub ropes: Vec<usize>,
}

impl WeightLayout {
    pub fn new(weights: &Weights) -> Result<WeightLayout> {
        let mut arena = Arena::default();
        let matrices = weights.matrices.iter().map(|s| PlaneLayout::new(*s, &mut arena)).collect::<Result<_>>()?;
        let vectors = weights.vectors.iter().map(|v| arena.add(v.len(), 4)).collect::<Result<_>>()?;
        let ropes = weights.ropes.iter().map(|r| arena.add(8 * r.inv_freq.len() + r.axes.len(), 1));
        let ropes = ropes.collect::<Result<_>>()?;
        Ok(WeightLayout { arena, matrices, vectors, ropes })
    }
}

/// Returns the number of bytes of weights on the device.
pub fn bytes(weights: &Weights) -> Result<u64> {
    Ok(WeightLayout::new(weights)?.arena.bytes() as u64)
}
