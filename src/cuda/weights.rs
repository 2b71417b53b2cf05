//! Weights on a device: matrices, vectors and rotary tables, and their upload.
//!
//! Relies on `gpu::weight_layout` for the layout.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::args::DeviceMatrix;
use super::launch::{Context, DeviceBuffer, PinnedBuffer, Stream};
use crate::error::Result;
use crate::gpu::Address;
use crate::gpu::planes::factor;
use crate::gpu::weight_layout::{COLS, PlaneLayout, WeightLayout};
use crate::graph::op::{RopeTable, Vector, Weight};
use crate::graph::weights::{Progress, Rope, RopePairs, Weights};

/// Returns the matrix whose planes have the given layout from `base` on.
pub(super) fn matrix(layout: &PlaneLayout, base: Address, scale_bound: f32) -> DeviceMatrix {
    let mut planes = [0; 4];
    for (plane, (offset, _)) in planes.iter_mut().zip(&layout.planes) {
        *plane = base + *offset as Address;
    }
    let (rows, cols) = (layout.rows as u32, layout.cols.next_multiple_of(COLS) as u32);
    DeviceMatrix { planes, dtype: layout.target.dtype.0, rows, cols, factor: factor(scale_bound) }
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
    pub position_offset: u32,
}

/// Matrices, vectors and rotary tables on a device, by their handles.
pub struct DeviceWeights {
    buffer: DeviceBuffer,
    matrices: Vec<DeviceMatrix>,
    /// Address and length of each vector.
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

    /// Returns a matrix by its index.
    pub fn matrix_at(&self, i: usize) -> DeviceMatrix {
        self.matrices[i]
    }

    /// Returns the address of a vector, or null for `None`.
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

/// Bytes read and copied at a time: large enough for the bus, small enough for the CPU cache.
const PIECE: usize = 4 << 20;

/// Minimum number of bytes of vectors that are copied at a time.
const VECTOR_PIECE: usize = 64 << 10;

/// Copies weights to the device; while one piece of a matrix is copied, the next one is read.
pub fn upload(context: &Arc<Context>, weights: &Weights, progress: &mut Progress) -> Result<DeviceWeights> {
    let layout = WeightLayout::new(weights)?;
    let current = context.enter()?;
    let buffer = current.alloc("weights", layout.arena.bytes())?;
    let piece_rows = |l: &PlaneLayout| (PIECE / l.packed_row_bytes().max(l.row_bytes)).clamp(1, l.rows);
    let staging = layout.matrices.iter().map(|l| piece_rows(l) * l.packed_row_bytes()).max().unwrap_or(0);
    // Vectors go through one of the lanes.
    let staging = staging.max(VECTOR_PIECE);
    let mut hash = XxHash64::with_seed(0);
    let mut lanes = Vec::with_capacity(2);
    // A plan reads nothing.
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
            let raw = matrix.rows(*source, first, n, |rows| hash.write(rows))?;
            *bound = bound.max(matrix.bound(&raw));
            let (stream, pinned): &mut (Stream, PinnedBuffer) = &mut lanes[0];
            // Waits for the copies that were queued from this memory.
            current.synchronize(stream)?;
            let (mut rest, mut planes) = (pinned.bytes_mut(), Vec::with_capacity(matrix.planes.len()));
            for (_, row) in &matrix.planes {
                let (plane, later) = rest.split_at_mut(n * row);
                planes.push(plane);
                rest = later;
            }
            matrix.split(&raw, n, &mut planes);
            let mut from = 0;
            for (plane, row) in &matrix.planes {
                current.upload(stream, buffer.at(plane + first * row), pinned.at(from), n * row)?;
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
        current.upload_now(stream, buffer.at(*offset), bytes.len(), pinned, &mut |piece| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
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
        position_offset: rope.position_offset,
    };
    Ok(DeviceWeights {
        matrices: layout.matrices.iter().zip(bounds).map(|(l, bound)| matrix(l, base, bound)).collect(),
        vectors: layout.vectors.iter().zip(&weights.vectors).map(|(at, v)| (base + *at as Address, v.len())).collect(),
        ropes: weights.ropes.iter().zip(&layout.ropes).map(rope).collect(),
        staging: 2 * staging as u64,
        digest: hash.finish(),
        buffer,
    })
}
