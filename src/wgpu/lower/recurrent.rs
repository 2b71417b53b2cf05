//! Convolutions and recurrences, one launch per sequence of the step.

use std::ops::Range;

use super::{Lowering, words};
use crate::error::{Error, Result};
use crate::graph::op::{Conv, DeltaRule, RecurrentId, Scan, TensorId, Wkv};
use crate::wgpu::inputs;
use crate::wgpu::kernels::{Kernel, NONE};

/// Columns of a state per workgroup of `delta.wgsl`, `scan.wgsl` and `wkv.wgsl`.
const COLUMNS: usize = 16;

/// The tokens of a sequence in the step, and its state of one layer.
struct Run {
    tokens: Range<usize>,
    /// Index of the bind group with the state.
    group: usize,
    /// Offset of the state before the step, or `NONE`: zeros.
    from: u32,
    /// Offset of the state after the step.
    to: u32,
}

impl Lowering<'_> {
    fn runs(&self, state: RecurrentId) -> Result<Vec<Run>> {
        let run = |inputs::Run { sequence: i, tokens, .. }: &inputs::Run| {
            let missing = || Error::invalid(format!("sequence {i} does not exist; the step has {}", self.caches.len()));
            let cache = self.caches.get(*i).ok_or_else(missing)?;
            let place = cache.view.layout.states[state.0 as usize];
            let (from, to) = cache.states;
            Ok(Run {
                tokens: tokens.clone(),
                group: cache.group + place.buffer,
                from: from.map_or(NONE, |from| place.copy(from)),
                to: place.copy(to),
            })
        };
        self.tokens().runs.iter().map(run).collect()
    }

    /// Returns the offset of an activation's row of token `t`.
    fn row(&self, tensor: TensorId, t: usize) -> u32 {
        self.tensor(tensor) + (t * self.width(tensor)) as u32
    }

    pub(super) fn conv(&mut self, op: &Conv) -> Result<()> {
        let width = self.width(op.x);
        let [kernel, bias] = [Some(op.kernel), op.bias].map(|vector| self.weights.vector(vector));
        let code = Kernel::of_cache("conv", &[("TAPS", op.taps as u32)]);
        for Run { tokens, group, from, to } in self.runs(op.recurrent)? {
            let x = self.row(op.x, tokens.start);
            let words: &[u32] = words![x, tokens.len(), width, kernel, bias, op.silu, from, to, 0u32];
            self.launch_on(&code, 0, Some(group), [width.div_ceil(64), 1, 1], words)?;
        }
        Ok(())
    }

    pub(super) fn delta_rule(&mut self, op: &DeltaRule) -> Result<()> {
        let [heads, keys, values] = [op.beta, op.k, op.v].map(|tensor| self.width(tensor));
        let (rate, by_row) = (self.weights.vector(Some(op.rate)), self.width(op.dt) > heads);
        let code = Kernel::of_cache("delta", &[("KEY", op.key_dim as u32)]);
        for Run { tokens, group, from, to } in self.runs(op.recurrent)? {
            let [q, k, v, dt, beta, out] =
                [op.q, op.k, op.v, op.dt, op.beta, op.out].map(|tensor| self.row(tensor, tokens.start));
            let (n, key_heads, value) = (tokens.len(), keys / op.key_dim, values / heads);
            let words: &[u32] =
                words![q, k, v, dt, beta, rate, out, n, heads, key_heads, value, by_row, op.tiled, from, to, 0u32];
            self.launch_on(&code, 0, Some(group), [values / COLUMNS, 1, 1], words)?;
        }
        Ok(())
    }

    pub(super) fn scan(&mut self, op: &Scan) -> Result<()> {
        let [heads, channels, b] = [op.dt, op.x, op.b].map(|tensor| self.width(tensor));
        let [rate, skip] = [op.rate, op.skip].map(|vector| self.weights.vector(Some(vector)));
        let by_state = self.weights.vector_len(op.rate) > heads;
        let code = Kernel::of_cache("scan", &[("STATE", op.state as u32)]);
        for Run { tokens, group, from, to } in self.runs(op.recurrent)? {
            let [x, dt, of_b, c, out] = [op.x, op.dt, op.b, op.c, op.out].map(|tensor| self.row(tensor, tokens.start));
            let (n, dim, groups) = (tokens.len(), channels / heads, b / op.state);
            let words: &[u32] =
                words![x, dt, of_b, c, rate, skip, out, n, heads, dim, groups, by_state, from, to, 0u32];
            self.launch_on(&code, 0, Some(group), [channels / COLUMNS, 1, 1], words)?;
        }
        Ok(())
    }

    pub(super) fn wkv(&mut self, op: &Wkv) -> Result<()> {
        let [width, keys] = [op.r, op.k].map(|tensor| self.width(tensor));
        let code = Kernel::of_cache("wkv", &[("DIM", op.dim as u32)]);
        for Run { tokens, group, from, to } in self.runs(op.recurrent)? {
            let [r, k, v, dt, out] = [op.r, op.k, op.v, op.dt, op.out].map(|tensor| self.row(tensor, tokens.start));
            let [a, b] = op.moved.map_or([NONE; 2], |moved| moved.map(|tensor| self.row(tensor, tokens.start)));
            let (n, heads, key_heads) = (tokens.len(), width / op.dim, keys / op.dim);
            let (by_rate, rate) = (op.rate.is_some(), op.rate.unwrap_or(0.0));
            let words: &[u32] =
                words![r, k, v, dt, a, b, out, n, heads, key_heads, by_rate, rate, op.before, op.fades, from, to, 0u32];
            self.launch_on(&code, 0, Some(group), [width / COLUMNS, 1, 1], words)?;
        }
        Ok(())
    }
}
