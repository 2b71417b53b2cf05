//! Attention, and stores to the KV cache.

use std::ops::Range;

use super::{Lowering, rows_per_launch, words};
use crate::error::{Error, Result};
use crate::graph::op::{Attend, KvLayerId, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::quant;
use crate::tensor::DType;
use crate::wgpu::inputs::Run;
use crate::wgpu::kernels::Kernel;
use crate::wgpu::scratch::{FIXED_SPLITS, MAX_SPLITS};
use crate::wgpu::sequence::{KvArray, Place};

/// Query rows per workgroup of `attend.wgsl`, for heads of at most `WIDE` values and for wider ones.
const ROWS: [usize; 2] = [8, 4];
const WIDE: usize = 256;

/// Positions per iteration of `attend.wgsl`.
const PER_ITERATION: usize = 32;

/// Number of workgroups that is assumed to occupy a device fully.
const BUSY: usize = 256;

/// Returns the code of a cache type in the kernels.
fn code(dtype: DType) -> u32 {
    match dtype {
        quant::F32 => 0,
        quant::F16 => 1,
        quant::Q4_0 => 4,
        _ => 8,
    }
}

/// True if rows of a cache are rotated by the Hadamard transform before they are quantized.
fn is_rotated(layer: KvLayer, array: KvArray) -> bool {
    array.dtype == quant::Q4_0 && !layer.is_latent
}

impl Lowering<'_> {
    pub(super) fn store(&mut self, layer: KvLayerId, k: TensorId, v: Option<TensorId>) -> Result<()> {
        let shape = self.program.kv_layers[layer.0 as usize];
        for Run { sequence: i, tokens, .. } in self.tokens().runs.clone() {
            let (place, first) = self.place(i, layer)?;
            let group = first + place.buffer;
            let parts = [(Some(k), place.k, shape.head_dim), (v, place.v, shape.value_dim)];
            for (x, array, dim) in parts {
                let Some(x) = x else { continue };
                let KvArray { dtype, rows, row_words, scales, blocks } = array;
                let (width, n, heads) = (self.width(x), tokens.len(), shape.n_kv_heads);
                let at = self.tensor(x) + (tokens.start * width) as u32;
                let positions = self.tokens().positions + tokens.start as u32;
                let rotates = is_rotated(shape, array);
                let words: &[u32] = words![
                    at, width, n, heads, dim, positions, place.kept, rows, row_words, scales, blocks, rotates, 0u32
                ];
                let kernel = Kernel::of_cache("store", &[("TYPE", code(dtype))]);
                let grid = [(heads * blocks as usize).div_ceil(64), n, 1];
                self.launch_on(&kernel, 0, Some(group), grid, words)?;
            }
        }
        Ok(())
    }

    /// Returns the position of a layer in cache `i`, and the index of the cache's first bind group.
    fn place(&self, i: usize, layer: KvLayerId) -> Result<(Place, usize)> {
        let missing = || Error::invalid(format!("sequence {i} does not exist; the step has {}", self.caches.len()));
        let cache = self.caches.get(i).ok_or_else(missing)?;
        Ok((cache.view.layout.places[layer.0 as usize], cache.group))
    }

    pub(super) fn attend(&mut self, op: &Attend) -> Result<()> {
        let layer = self.program.kv_layers[op.layer.0 as usize];
        let KvLayer { head_dim, value_dim, .. } = layer;
        let heads = self.width(op.q) / head_dim;
        for Run { sequence: i, tokens, length } in self.tokens().runs.clone() {
            let (place, first) = self.place(i, op.layer)?;
            let positions = match op.mask.span() {
                0 => length,
                span => span.min(length),
            };
            let piece = rows_per_launch(heads * positions * (head_dim + value_dim), 1);
            let rotates_keys = is_rotated(layer, place.k);
            if rotates_keys {
                self.rotate_heads(op.q, head_dim, tokens.clone())?;
            }
            for start in tokens.clone().step_by(piece) {
                let tokens = start..tokens.end.min(start + piece);
                self.attend_tokens(op, place, first + place.buffer, tokens)?;
            }
            // Restores the queries, which later ops may read.
            if rotates_keys {
                self.rotate_heads(op.q, head_dim, tokens.clone())?;
            }
            if is_rotated(layer, place.v) {
                self.rotate_heads(op.out, value_dim, tokens)?;
            }
        }
        Ok(())
    }

    /// Rotates heads of some tokens by the Hadamard transform.
    fn rotate_heads(&mut self, x: TensorId, dim: usize, tokens: Range<usize>) -> Result<()> {
        let width = self.width(x);
        let (heads, at) = (width / dim, self.tensor(x) + (tokens.start * width) as u32);
        let grid = [(heads * (dim / 32)).div_ceil(64), tokens.len(), 1];
        self.launch(&Kernel::new("rotate", &["hadamard"]), 0, grid, words![at, width, heads, dim])
    }

    /// Appends the launches for tokens of one sequence; `cache` is the index of the bind group of its cache.
    fn attend_tokens(&mut self, op: &Attend, place: Place, cache: usize, tokens: Range<usize>) -> Result<()> {
        let KvLayer { n_kv_heads: kv_heads, head_dim, value_dim, .. } = self.program.kv_layers[op.layer.0 as usize];
        let (q_width, out_width) = (self.width(op.q), self.width(op.out));
        let heads = q_width / head_dim;
        let group = heads.div_ceil(kv_heads);
        let mask = self.masks.index(op.mask);
        let reach = op.distances.map_or(0, |v| (self.weights.vector_len(v) / heads - 1) / 2);
        let [slopes, distances, sinks] = [op.slopes, op.distances, op.sinks].map(|v| self.weights.vector(v));
        let rows = ROWS[usize::from(head_dim.max(value_dim) > WIDE)];
        let lanes = match value_dim {
            _ if rows == ROWS[1] => 128,
            ..=64 => 32,
            65..=128 => 64,
            _ => 128,
        };
        let n = tokens.len();
        let tiles = (n * group).div_ceil(rows);
        let iterations = (place.kept as usize).div_ceil(PER_ITERATION);
        let fits = self.scratch.part_words / (n * heads * (2 + value_dim)).max(1);
        let wanted = match op.mask.is_causal() {
            _ if self.is_batch_invariant => FIXED_SPLITS,
            true => (BUSY / (tiles * kv_heads)).min(iterations / 4),
            // All positions are in the step, whose rows must not depend on the capacity of the cache.
            false => 1,
        };
        let splits = wanted.min(fits).clamp(1, MAX_SPLITS);
        let at = |base: u32, each: usize| base + (tokens.start * each) as u32;
        let of = self.tokens();
        let (ranges, positions) = (at(of.ranges[mask], 2), at(of.positions, 1));
        let (k, v) = (place.k, place.v);
        let words: &[u32] = words![
            at(self.tensor(op.q), q_width),
            q_width,
            heads,
            kv_heads,
            n,
            ranges,
            positions,
            k.rows,
            k.row_words,
            k.scales,
            k.blocks,
            v.rows,
            v.row_words,
            v.scales,
            v.blocks,
            place.kept,
            op.scale,
            op.softcap,
            slopes,
            distances,
            reach,
            splits,
            self.scratch.parts,
            0u32
        ];
        let constants = [
            ("KEY", head_dim as u32),
            ("VALUE", value_dim as u32),
            ("ROWS", rows as u32),
            ("LANES", lanes),
            ("K_TYPE", code(k.dtype)),
            ("V_TYPE", code(v.dtype)),
        ];
        let kernel = Kernel::of_cache("attend", &constants);
        self.launch_on(&kernel, 0, Some(cache), [kv_heads, tiles, splits], words)?;
        let out = at(self.tensor(op.out), out_width);
        let words: &[u32] = words![self.scratch.parts, splits, out, out_width, heads, value_dim, sinks, 0u32];
        self.launch(&Kernel::new("join", &["functions"]), 0, [heads, n, 1], words)
    }
}
