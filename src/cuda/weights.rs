//! Weights on a device: the planes of a matrix, vectors and rotary tables, and their upload.
//!
//! Relies on `planes` for the order of bytes.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::args::DeviceMatrix;
use super::launch::{Context, DeviceBuffer, PinnedBuffer, Stream};
use crate::error::{Error, Result, try_filled};
use crate::gpu::Address;
use crate::gpu::arena::Arena;
use crate::gpu::planes::{Plane, factor, planes, scale_bound};
use crate::graph::op::{RopeTable, Vector, Weight};
use crate::graph::weights::{MatrixSource, Progress, Rope, RopePairs, Weights};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// Columns are padded to a multiple of this, the length of a group of quantised activations.
pub(super) const COLS: usize = 32;

/// The format of a matrix on the device: that of the file, or F16 where the type has no kernels.
pub fn stored_format(source: DType) -> Result<Format> {
    quant::format(if planes(source).is_some() { source } else { quant::F16 })
}

/// The order of a matrix in device memory.
pub(super) struct PlaneLayout {
    /// Format in the file.
    source: Format,
    target: Format,
    parts: &'static [Plane],
    pub rows: usize,
    cols: usize,
    /// Bytes of a row in the file.
    pub row_bytes: usize,
    /// Offset of each plane, and bytes of a row in it.
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

    pub fn matrix(&self, base: Address, scale_bound: f32) -> DeviceMatrix {
        let mut planes = [0; 4];
        for (plane, (offset, _)) in planes.iter_mut().zip(&self.planes) {
            *plane = base + *offset as Address;
        }
        let (rows, cols) = (self.rows as u32, self.cols.next_multiple_of(COLS) as u32);
        DeviceMatrix { planes, dtype: self.target.dtype.0, rows, cols, factor: factor(scale_bound) }
    }

    /// Bytes of a row over all planes.
    pub fn packed_row_bytes(&self) -> usize {
        self.planes.iter().map(|(_, row)| row).sum()
    }

    /// Reads `n` rows of a source in the blocks of the target type; `read` is shown them as they are in the file.
    pub fn rows(
        &self,
        source: &dyn MatrixSource,
        (first, n): (usize, usize),
        read: impl FnOnce(&[u8]),
    ) -> Result<Vec<u8>> {
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

    /// A bound of the scales of rows in the target's blocks.
    pub fn bound(&self, rows: &[u8]) -> f32 {
        let blocks = rows.chunks_exact(self.target.block_bytes);
        let bounds = blocks.map(|block| scale_bound(self.target.dtype, block));
        bounds.filter(|bound| bound.is_finite()).fold(0.0, f32::max)
    }

    /// Splits `n` rows in the target's blocks into planes.
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

/// Offsets of everything that a model keeps, in one allocation.
struct WeightLayout {
    arena: Arena,
    matrices: Vec<PlaneLayout>,
    vectors: Vec<usize>,
    ropes: Vec<usize>,
}

impl WeightLayout {
    fn new(weights: &Weights) -> Result<WeightLayout> {
        let mut arena = Arena::default();
        let matrices = weights.matrices.iter().map(|s| PlaneLayout::new(*s, &mut arena)).collect::<Result<_>>()?;
        let vectors = weights.vectors.iter().map(|v| arena.add(v.len(), 4)).collect::<Result<_>>()?;
        let ropes = weights.ropes.iter().map(|r| arena.add(8 * r.inv_freq.len() + r.axes.len(), 1));
        let ropes = ropes.collect::<Result<_>>()?;
        Ok(WeightLayout { arena, matrices, vectors, ropes })
    }
}

/// Bytes that weights take on the device.
pub fn bytes(weights: &Weights) -> Result<u64> {
    Ok(WeightLayout::new(weights)?.arena.bytes() as u64)
}

/// A rotary table.
pub struct DeviceRope {
    pub order: RopePairs,
    pub pairs: usize,
    /// `[pairs]`, double precision.
    pub inv_freq: Address,
    /// `[pairs]` bytes, or null.
    pub axes: Address,
    pub magnitude: f32,
    pub behind: u32,
}

/// Matrices, vectors and rotary tables on a device, by their handles.
pub struct DeviceWeights {
    buffer: DeviceBuffer,
    matrices: Vec<DeviceMatrix>,
    /// Address and length of each.
    vectors: Vec<(Address, usize)>,
    ropes: Vec<DeviceRope>,
    staging: u64,
    digest: u64,
}

impl DeviceWeights {
    pub fn staging(&self) -> u64 {
        self.staging
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    pub fn matrix(&self, weight: Weight) -> DeviceMatrix {
        self.matrices[weight.0 as usize]
    }

    /// A matrix by its number.
    pub fn matrix_at(&self, i: usize) -> DeviceMatrix {
        self.matrices[i]
    }

    /// The address of a vector, or null for none.
    pub fn vector(&self, vector: Option<Vector>) -> Address {
        vector.map_or(0, |vector| self.vectors[vector.0 as usize].0)
    }

    pub fn vector_len(&self, vector: Vector) -> usize {
        self.vectors[vector.0 as usize].1
    }

    pub fn rope(&self, table: RopeTable) -> &DeviceRope {
        &self.ropes[table.0 as usize]
    }
}

/// Bytes that are read and copied at a time: large enough for the bus, small enough to stay in the cache.
const PIECE: usize = 4 << 20;

/// Bytes of vectors that are copied at a time, at least.
const VECTOR_PIECE: usize = 64 << 10;

/// Copies weights to the device; while one piece of a matrix is copied the next is read.
pub fn upload(context: &Arc<Context>, weights: &Weights, progress: &mut Progress) -> Result<DeviceWeights> {
    let layout = WeightLayout::new(weights)?;
    let current = context.enter()?;
    let buffer = current.alloc("weights", layout.arena.bytes())?;
    let piece_rows = |l: &PlaneLayout| (PIECE / l.packed_row_bytes().max(l.row_bytes)).clamp(1, l.rows);
    let staging = layout.matrices.iter().map(|l| piece_rows(l) * l.packed_row_bytes()).max().unwrap_or(0);
    // Vectors go through one of them.
    let staging = staging.max(VECTOR_PIECE);
    let mut hash = XxHash64::with_seed(0);
    let mut lanes = Vec::with_capacity(2);
    // Of a plan nothing is read.
    let reads = !context.plans();
    for _ in 0..if reads { 2 } else { 0 } {
        lanes.push((current.stream()?, current.alloc_pinned(staging)?));
    }
    let total = layout.matrices.iter().map(|l| (l.rows * l.packed_row_bytes()) as u64).sum();
    let mut done = 0;
    let mut bounds = vec![0f32; layout.matrices.len()];
    if reads {
        progress(done, total)?;
    }
    let matrices = weights.matrices.iter().zip(&layout.matrices).zip(&mut bounds);
    for ((source, matrix), bound) in matrices.filter(|_| reads) {
        let rows = piece_rows(matrix);
        hash.write(format!("{:?} {} {}", matrix.source.dtype, matrix.rows, matrix.cols).as_bytes());
        for first in (0..matrix.rows).step_by(rows) {
            let n = rows.min(matrix.rows - first);
            let raw = matrix.rows(*source, (first, n), |rows| hash.write(rows))?;
            *bound = bound.max(matrix.bound(&raw));
            let (stream, pinned): &mut (Stream, PinnedBuffer) = &mut lanes[0];
            // The copies that were queued from this memory.
            current.synchronize(stream)?;
            let (mut rest, mut planes) = (pinned.bytes_mut(), Vec::with_capacity(matrix.planes.len()));
            for (_, row) in &matrix.planes {
                let (plane, behind) = rest.split_at_mut(n * row);
                planes.push(plane);
                rest = behind;
            }
            matrix.split(&raw, n, &mut planes);
            let mut from = 0;
            for (plane, row) in &matrix.planes {
                current.upload(stream, &buffer, plane + first * row, pinned, from, n * row)?;
                from += n * row;
            }
            lanes.swap(0, 1);
            done += (n * matrix.packed_row_bytes()) as u64;
            progress(done, total)?;
        }
    }
    for (stream, _) in &lanes {
        current.synchronize(stream)?;
    }
    let vectors = weights.vectors.iter().map(|v| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    let bytes_of = |r: &Rope| r.inv_freq.iter().flat_map(|f| f.to_le_bytes()).chain(r.axes.iter().copied()).collect();
    let ropes = weights.ropes.iter().map(bytes_of);
    for (bytes, offset) in vectors.zip(&layout.vectors).chain(ropes.zip(&layout.ropes)) {
        let Some((stream, pinned)) = lanes.first_mut() else { break };
        hash.write(&bytes);
        let mut rest = &bytes[..];
        current.upload_now(stream, &buffer, (*offset, bytes.len()), pinned, &mut |piece| {
            let (now, behind) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = behind;
            Ok(())
        })?;
    }
    let base = buffer.address();
    let rope = |(rope, offset): (&Rope, &usize)| DeviceRope {
        order: rope.pairs,
        pairs: rope.inv_freq.len(),
        inv_freq: base + *offset as Address,
        axes: if rope.axes.is_empty() { 0 } else { base + (*offset + 8 * rope.inv_freq.len()) as Address },
        magnitude: rope.magnitude,
        behind: rope.behind,
    };
    Ok(DeviceWeights {
        matrices: layout.matrices.iter().zip(bounds).map(|(l, bound)| l.matrix(base, bound)).collect(),
        vectors: layout.vectors.iter().zip(&weights.vectors).map(|(at, v)| (base + *at as Address, v.len())).collect(),
        ropes: weights.ropes.iter().zip(&layout.ropes).map(rope).collect(),
        staging: 2 * staging as u64,
        digest: hash.finish(),
        buffer,
    })
}
