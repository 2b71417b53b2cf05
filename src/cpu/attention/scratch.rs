//! Scratch memory of attention, allocated once for a number of tokens and threads.

use std::ops::Range;

use super::plan::{AttendCursor, Heads, QueryTile, SegmentTask, Span, TILE_ROWS};
use crate::cpu::kernels::attention::kv_storage::padded;
use crate::cpu::kernels::attention::{CHUNK, ChunkScratch, Partial, Visible};
use crate::cpu::kernels::quantize::{QuantizedBytes, QuantizedRows};
use crate::error::{Error, Result, try_filled, try_vec};

/// Scratch memory for attention over a limited number of tokens.
pub struct AttentionScratch {
    pub(super) heads: Heads,
    pub(super) per_thread: Vec<TileScratch>,
    /// Results of segments, merged after all are computed.
    pub(super) partials: Vec<PartialBuffer>,
    pub(super) joined: PartialBuffer,
    pub(super) spans: Vec<Span>,
    pub(super) tiles: Vec<QueryTile>,
    pub(super) tasks: Vec<SegmentTask>,
    /// Between two chunks of an attention nothing else may use the scratch.
    pub cursor: AttendCursor,
}

/// Memory of one thread for one tile.
pub(super) struct TileScratch {
    /// `[rows, dim]`, multiplied by the scale, for float keys; `integers` and `bytes` are for integer keys.
    pub floats: Vec<f32>,
    pub integers: QuantizedRows,
    pub bytes: QuantizedBytes,
    pub visible: Vec<Visible>,
    pub products: ChunkScratch,
    pub chunk: PartialBuffer,
    pub segment: PartialBuffer,
    pub all: PartialBuffer,
    /// Space for a chunk that a source converts.
    pub converted: Vec<f32>,
    /// Selected positions and their scores.
    pub best: Vec<(f32, u32)>,
}

/// Owned memory of a `Partial`.
#[derive(Default)]
pub(super) struct PartialBuffer {
    pub peaks: Vec<f32>,
    pub sums: Vec<f32>,
    pub values: Vec<f32>,
}

impl PartialBuffer {
    pub fn new(rows: usize, dims: usize) -> Result<PartialBuffer> {
        let zeros = |n| try_filled("attention scratch", n, 0.0);
        Ok(PartialBuffer { peaks: zeros(rows)?, sums: zeros(rows)?, values: zeros(rows * dims)? })
    }

    /// Returns some rows.
    pub fn rows(&mut self, rows: Range<usize>, dims: usize) -> Partial<'_> {
        Partial {
            values: &mut self.values[rows.start * dims..rows.end * dims],
            peaks: &mut self.peaks[rows.clone()],
            sums: &mut self.sums[rows],
        }
    }

    /// Resets rows to rows that have seen no key.
    pub fn clear(&mut self, rows: usize, dims: usize) {
        self.peaks[..rows].fill(f32::NEG_INFINITY);
        self.sums[..rows].fill(0.0);
        self.values[..rows * dims].fill(0.0);
    }
}

impl AttentionScratch {
    /// Allocates for up to `max_tokens` tokens; `converts` must be true for a source that converts keys and values.
    pub fn new(heads: Heads, max_tokens: usize, threads: usize, converts: bool) -> Result<AttentionScratch> {
        let Heads { queries, kv, dim, value_dim, is_latent } = heads;
        if [queries, kv, dim, value_dim].contains(&0) || kv > queries {
            return Err(Error::invalid(format!(
                "attention heads are {heads:?}; their sizes must be positive and divide"
            )));
        }
        let dims = padded(value_dim);
        let converted = if converts { dim + dims } else { 0 }.max(if is_latent { dims } else { 0 });
        let rows = heads.most_sharing().max(TILE_ROWS.min(heads.most_sharing() * max_tokens));
        let mut per_thread = try_vec("attention scratch", threads)?;
        for _ in 0..threads {
            per_thread.push(TileScratch {
                floats: try_filled("attention scratch", rows * heads.dim, 0.0)?,
                integers: QuantizedRows::new(rows, heads.dim)?,
                bytes: QuantizedBytes::new(rows, heads.dim)?,
                visible: try_filled("attention scratch", rows, Visible::default())?,
                products: ChunkScratch::new(rows, if is_latent { 0 } else { value_dim })?,
                chunk: PartialBuffer::new(rows, dims)?,
                segment: PartialBuffer::new(rows, dims)?,
                all: PartialBuffer::new(rows, dims)?,
                converted: try_filled("attention scratch", CHUNK * converted, 0.0)?,
                best: Vec::new(),
            });
        }
        // Enough segments that the barrier after them costs little.
        let waiting = if threads > 1 { 8 * threads } else { 0 };
        let mut partials = try_vec("attention scratch", waiting)?;
        for _ in 0..waiting {
            partials.push(PartialBuffer::new(rows, dims)?);
        }
        Ok(AttentionScratch {
            heads,
            per_thread,
            partials,
            joined: PartialBuffer::new(rows, dims)?,
            spans: try_vec("attention scratch", max_tokens)?,
            tiles: try_vec("attention scratch", max_tokens)?,
            tasks: try_vec("attention scratch", waiting)?,
            cursor: AttendCursor::default(),
        })
    }

    /// Allocates for a selection of up to `top` positions per token.
    pub fn with_choice(mut self, top: usize) -> Result<AttentionScratch> {
        for scratch in &mut self.per_thread {
            scratch.best = try_vec("chosen positions", top.saturating_add(CHUNK))?;
        }
        Ok(self)
    }
}
