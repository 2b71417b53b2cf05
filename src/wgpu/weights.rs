//! Weights on a device: the planes of matrices in a few large buffers, and all vectors in one buffer.
//!
//! A matrix that is larger than the largest binding is divided by rows into parts; a separate launch multiplies each
//! part. Relies on `gpu::weight_layout` for the planes of a matrix.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::context::Context;
use super::kernels::NONE;
use super::memory::{DeviceBuffer, bytes_of, bytes_of_values};
use crate::error::{Error, Result, try_filled};
use crate::gpu::arena::{ALIGN, Arena};
use crate::gpu::weight_layout::{COLS, PlaneLayout};
use crate::graph::op::{RopeTable, Vector, Weight};
use crate::graph::weights::{Progress, Rope, Weights};
use crate::tensor::DType;

/// Maximum size of a buffer of weights, in bytes.
const LARGEST: u64 = 1 << 30;

/// Maximum bytes of rows that are read and uploaded at a time.
const PIECE: usize = 4 << 20;

/// The rows of a matrix that are in one buffer.
#[derive(Clone, Debug)]
pub struct Part {
    pub buffer: usize,
    pub first_row: usize,
    pub rows: usize,
    /// Word offsets of the planes in the buffer.
    pub planes: [u32; 4],
}

/// A matrix on the device.
pub struct DeviceMatrix {
    pub dtype: DType,
    /// Columns, padded to a multiple of 32.
    pub cols: usize,
    pub parts: Vec<Part>,
}

impl DeviceMatrix {
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }
}

/// Positions of all weights in the buffers.
pub struct Layout {
    planes: Vec<PlaneLayout>,
    matrices: Vec<DeviceMatrix>,
    /// Bytes of each buffer of matrices.
    buffers: Vec<u64>,
    /// Offset of each vector, in values.
    vectors: Vec<u32>,
    n_values: usize,
}

fn too_large(source: &str) -> Error {
    Error::unsupported(format!("{source} is too large for a GPU"))
}

impl Layout {
    /// Divides the weights among buffers of at most `binding` bytes.
    pub fn new(weights: &Weights, binding: u64) -> Result<Layout> {
        let largest = binding.min(LARGEST) / ALIGN as u64 * ALIGN as u64;
        let (mut planes, mut matrices, mut buffers) = (Vec::new(), Vec::new(), Vec::<u64>::new());
        for source in &weights.matrices {
            let layout = PlaneLayout::new(*source, &mut Arena::default())?;
            let bytes = |rows: usize| layout.planes.iter().map(|(_, row)| align((rows * row) as u64)).sum::<u64>();
            let slack = (layout.planes.len() * ALIGN) as u64;
            let most = usize::try_from(largest.saturating_sub(slack) / layout.packed_row_bytes().max(1) as u64);
            let most = most.unwrap_or(usize::MAX);
            if most == 0 {
                return Err(too_large(source.name()));
            }
            let mut parts = Vec::new();
            let mut first_row = 0;
            while first_row < layout.rows {
                let rows = most.min(layout.rows - first_row);
                if buffers.last().is_none_or(|used| used + bytes(rows) > largest) {
                    buffers.push(0);
                }
                let buffer = buffers.len() - 1;
                let mut offsets = [0; 4];
                for (offset, (_, row)) in offsets.iter_mut().zip(&layout.planes) {
                    *offset = u32::try_from(buffers[buffer] / 4).map_err(|_| too_large(source.name()))?;
                    buffers[buffer] += align((rows * row) as u64);
                }
                parts.push(Part { buffer, first_row, rows, planes: offsets });
                first_row += rows;
            }
            let cols = layout.cols.next_multiple_of(COLS);
            matrices.push(DeviceMatrix { dtype: layout.target.dtype, cols, parts });
            planes.push(layout);
        }
        let (mut vectors, mut n_values) = (Vec::new(), 0usize);
        for values in &weights.vectors {
            vectors.push(u32::try_from(n_values).map_err(|_| too_large("the vectors"))?);
            n_values += values.len();
        }
        Ok(Layout { planes, matrices, buffers, vectors, n_values })
    }

    /// Returns the total size of all buffers, in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes().iter().sum::<u64>() + bytes_of(self.n_values)
    }

    /// Returns the size of each buffer of matrices, in bytes; at least one buffer.
    fn sizes(&self) -> Vec<u64> {
        if self.buffers.is_empty() { vec![16] } else { self.buffers.clone() }
    }
}

fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN as u64)
}

/// The weights on a device: matrices, vectors and RoPE tables, indexed by their handles.
pub struct DeviceWeights {
    pub buffers: Vec<DeviceBuffer>,
    pub vectors: DeviceBuffer,
    matrices: Vec<DeviceMatrix>,
    offsets: Vec<u32>,
    lens: Vec<usize>,
    /// Kept on the host, because the host computes the angles of a step.
    ropes: Vec<Rope>,
    digest: u64,
}

impl DeviceWeights {
    /// Allocates and uploads weights; in a plan reads no weights.
    pub fn upload(context: &Arc<Context>, weights: &Weights, progress: &mut Progress) -> Result<DeviceWeights> {
        let layout = Layout::new(weights, context.limits.max_storage_buffer_binding_size)?;
        let new = |bytes: u64| DeviceBuffer::new(context, "weights", (bytes / 4) as usize);
        let buffers = layout.sizes().into_iter().map(new).collect::<Result<Vec<_>>>()?;
        let vectors = DeviceBuffer::new(context, "vectors of weights", layout.n_values)?;
        let mut hash = XxHash64::with_seed(0);
        if !context.plans() {
            let total = layout.planes.iter().map(|l| (l.rows * l.packed_row_bytes()) as u64).sum();
            let mut done = 0;
            progress(done, total)?;
            for ((source, planes), matrix) in weights.matrices.iter().zip(&layout.planes).zip(&layout.matrices) {
                hash.write(format!("{:?} {} {}", planes.source.dtype, planes.rows, planes.cols).as_bytes());
                // A row of scales has an even number of bytes, so the scales of an even number of rows end at a word
                // boundary.
                let piece = (PIECE / planes.packed_row_bytes().max(planes.row_bytes)).max(1).next_multiple_of(2);
                for part in &matrix.parts {
                    for first in (0..part.rows).step_by(piece) {
                        let n = piece.min(part.rows - first);
                        let raw = planes.rows(*source, part.first_row + first, n, |rows| hash.write(rows))?;
                        let filled = |(_, row): &(usize, usize)| try_filled("weights to upload", n * row, 0u8);
                        let mut split = planes.planes.iter().map(filled).collect::<Result<Vec<_>>>()?;
                        planes.split(&raw, n, &mut split.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
                        for ((mut bytes, (_, row)), offset) in split.into_iter().zip(&planes.planes).zip(part.planes) {
                            bytes.resize(bytes.len().next_multiple_of(4), 0);
                            buffers[part.buffer].write(offset as usize + first * row / 4, &bytes)?;
                        }
                        flush(&buffers[part.buffer])?;
                        done += (n * planes.packed_row_bytes()) as u64;
                        progress(done, total)?;
                    }
                }
            }
            for (values, offset) in weights.vectors.iter().zip(&layout.vectors) {
                let bytes = bytes_of_values(values);
                hash.write(&bytes);
                vectors.write(*offset as usize, &bytes)?;
            }
            for rope in &weights.ropes {
                rope.inv_freq.iter().for_each(|f| hash.write(&f.to_le_bytes()));
                hash.write(&rope.axes);
            }
            flush(&vectors)?;
        }
        Ok(DeviceWeights {
            buffers,
            vectors,
            matrices: layout.matrices,
            offsets: layout.vectors,
            lens: weights.vectors.iter().map(Vec::len).collect(),
            ropes: weights.ropes.clone(),
            digest: hash.finish(),
        })
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(DeviceBuffer::bytes).sum::<u64>() + self.vectors.bytes()
    }

    pub fn matrix(&self, weight: Weight) -> &DeviceMatrix {
        &self.matrices[weight.0 as usize]
    }

    /// Returns the offset of a vector, or `NONE`.
    pub fn vector(&self, vector: Option<Vector>) -> u32 {
        vector.map_or(NONE, |vector| self.offsets[vector.0 as usize])
    }

    pub fn vector_len(&self, vector: Vector) -> usize {
        self.lens[vector.0 as usize]
    }

    pub fn rope(&self, table: RopeTable) -> &Rope {
        &self.ropes[table.0 as usize]
    }

    pub fn ropes(&self) -> &[Rope] {
        &self.ropes
    }
}

/// Submits the writes so far and waits for them, so that staging copies do not accumulate.
fn flush(buffer: &DeviceBuffer) -> Result<()> {
    let context = buffer.context();
    let index = context.in_turn("an upload", |gpu| gpu.queue.submit([]))?;
    context.wait(&index, &|| false).map(|_| ())
}
