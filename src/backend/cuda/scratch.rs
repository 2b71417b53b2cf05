//! Dimensions of an executor and the memory that its steps compute in.
//!
//! Owns the limits that follow from grids and kernels, and the layout of every intermediate result in one allocation.
//! Relies on `arena` for sizes that cannot overflow. Refuses to know which kernel writes or reads a result.

use super::arena::Arena;
use super::probe::Address;
use crate::backend::Widths;
use crate::error::{Error, Result};

/// Number of activations, the variants of `Act`.
pub const ACTS: usize = 10;

/// Rows of an attention tile; `kTile` of `attention.cu`.
pub const TILE_ROWS: usize = 16;

/// Shares of a tile's positions where they must be the same for every tile.
const FIXED_SPLITS: usize = 8;

/// Blocks that look for the largest logit of an output.
pub const ARGMAX_BLOCKS: usize = 32;

/// Dimensions that are fixed for an executor.
pub struct ExecutorDims {
    pub widths: Widths,
    /// Values a row of each activation, indexed by `Act`.
    pub max_widths: [usize; ACTS],
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub max_tokens: usize,
    pub max_outputs: usize,
    /// Parts of attention, one for each (tile, row of the grid, split), that there is memory for.
    pub max_parts: usize,
    /// Positions are divided in one way, whatever the batch.
    fixed: bool,
}

impl ExecutorDims {
    /// Checks the dimensions against the limits of the kernels and of a device with so many multiprocessors.
    pub fn new(
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
        multiprocessors: u32,
        fixed: bool,
    ) -> Result<ExecutorDims> {
        let w = *widths;
        let divides = |width: usize| head_dim > 0 && width > 0 && width.is_multiple_of(head_dim);
        if !divides(w.q) || !divides(w.kv) || w.hidden == 0 || max_tokens == 0 || w.n_experts_used > w.n_experts {
            return Err(Error::invalid(format!("{w:?} with heads of {head_dim} for {max_tokens} tokens")));
        }
        // The second dimension of a grid.
        if max_tokens > 65_535 || max_outputs > 65_535 {
            return Err(Error::invalid(format!(
                "{max_tokens} tokens and {max_outputs} outputs a step, 65535 are possible"
            )));
        }
        if head_dim > 256 {
            return Err(Error::unsupported(format!("heads of {head_dim} values on a GPU, 256 are the most")));
        }
        // In the order of `Act`.
        let max_widths = [w.hidden, w.hidden, w.q, w.kv, w.kv, w.q, w.hidden, w.ffn, w.ffn, w.n_experts];
        let (heads, kv_heads) = (w.q / head_dim, w.kv / head_dim);
        // Two blocks a processor, in every way to divide them that `splits` chooses.
        let max_parts = 4 * multiprocessors as usize;
        let mut dims = ExecutorDims {
            widths: w,
            max_widths,
            heads,
            kv_heads,
            head_dim,
            max_tokens,
            max_outputs,
            max_parts,
            fixed,
        };
        if fixed {
            // At least one tile.
            dims.max_parts = max_parts.max(FIXED_SPLITS * dims.attention_rows());
        }
        Ok(dims)
    }

    /// Most query heads that share a key-value head.
    fn group(&self) -> usize {
        self.heads.div_ceil(self.kv_heads)
    }

    /// Tokens whose query heads fit into the rows of an attention tile.
    pub fn tile_tokens(&self) -> usize {
        (TILE_ROWS / self.group()).max(1)
    }

    /// Second dimension of attention's grid.
    pub fn attention_rows(&self) -> usize {
        self.kv_heads * self.group().div_ceil(TILE_ROWS)
    }

    /// Shares into which the positions of a tile are divided, so that every processor has work; 0 where there are tiles
    /// enough. Changes only where the longest context passes a power of two, because each number needs a recorded step.
    pub fn splits(&self, n_tiles: usize, longest: u32) -> usize {
        if self.fixed {
            return FIXED_SPLITS;
        }
        let blocks = n_tiles * self.attention_rows();
        if blocks == 0 || blocks > self.max_parts / 2 {
            return 0;
        }
        (longest as usize).div_ceil(64).next_power_of_two().min((self.max_parts / 2).div_ceil(blocks))
    }

    /// Number of counters of attention and of the arg-max.
    pub fn counters(&self) -> usize {
        self.max_parts + self.max_outputs
    }
}

/// Addresses of everything that a step computes.
pub struct DeviceScratch {
    /// Activations at the beginning of a step, indexed by `Act`.
    pub acts: [Address; ACTS],
    /// `[max(tokens, outputs), widest input]` or `[tokens, used, expert_ffn]` in binary16.
    pub halves: Address,
    /// One scale a row of `halves`.
    pub row_scales: Address,
    /// `[tokens, used]`, the picks sorted by expert.
    pub expert_order: Address,
    /// `[n_experts + 1]`, the first pick of each expert in `expert_order`.
    pub expert_starts: Address,
    /// `[tokens, used]`
    pub experts: Address,
    pub expert_weights: Address,
    /// `[tokens, used, expert_ffn]`
    pub expert_gate: Address,
    pub expert_up: Address,
    /// `[tokens, used, hidden]`
    pub expert_out: Address,
    /// `[parts, 16, 2 + head_dim]`
    pub partials: Address,
    /// `[parts]` for attention, then `[outputs]` for the arg-max; zero between launches.
    pub attention_counters: Address,
    pub argmax_counters: Address,
    /// `[outputs, vocab]`
    pub logits: Address,
    /// `[outputs, ARGMAX_BLOCKS]`
    pub best: Address,
    pub best_at: Address,
    /// `[outputs]`, the arg-max of each, which the next step reads.
    pub tokens: Address,
}

impl DeviceScratch {
    /// Lays the results out from `base` on; returns their addresses and the bytes that they take.
    pub fn at(base: Address, dims: &ExecutorDims) -> Result<(DeviceScratch, usize)> {
        let (w, max_tokens, max_outputs) = (&dims.widths, dims.max_tokens, dims.max_outputs);
        let widest = [w.hidden, w.q, w.ffn].into_iter().max().unwrap_or(0).next_multiple_of(32);
        let (rows, picks) = (max_tokens.max(max_outputs), max_tokens.saturating_mul(w.n_experts_used));
        let expert_halves = picks.saturating_mul(w.expert_ffn.next_multiple_of(32));
        let mut arena = Arena::default();
        let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
        let mut acts = [0; ACTS];
        for (act, width) in acts.iter_mut().zip(dims.max_widths) {
            *act = add(max_tokens.saturating_mul(width), 4)?;
        }
        let counters = add(dims.counters(), 4)?;
        let scratch = DeviceScratch {
            acts,
            halves: add(rows.saturating_mul(widest).max(expert_halves), 2)?,
            row_scales: add(rows.max(picks), 4)?,
            expert_order: add(picks, 4)?,
            expert_starts: add(w.n_experts + 1, 4)?,
            experts: add(picks, 4)?,
            expert_weights: add(picks, 4)?,
            expert_gate: add(picks.saturating_mul(w.expert_ffn), 4)?,
            expert_up: add(picks.saturating_mul(w.expert_ffn), 4)?,
            expert_out: add(picks.saturating_mul(w.hidden), 4)?,
            partials: add(dims.max_parts * TILE_ROWS * (2 + dims.head_dim), 4)?,
            attention_counters: counters,
            argmax_counters: counters + 4 * dims.max_parts as Address,
            logits: add(max_outputs.saturating_mul(w.vocab), 4)?,
            best: add(max_outputs * ARGMAX_BLOCKS, 4)?,
            best_at: add(max_outputs * ARGMAX_BLOCKS, 4)?,
            tokens: add(max_outputs, 4)?,
        };
        Ok((scratch, arena.bytes()))
    }
}
