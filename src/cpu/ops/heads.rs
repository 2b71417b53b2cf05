//! Products head by head on the CPU: each head has its own rows of the matrix. One item is a head with some tokens,
//! multiplied by a single thread, because a fork per head would cost more than its product for one token.
#![allow(unsafe_code)]

use crate::cpu::CpuBackend;
use crate::cpu::kernels::PANEL_ROWS;
use crate::cpu::matmul;
use crate::cpu::matmul::plan::MatmulWorkspace;
use crate::cpu::ops::experts::Slab;
use crate::cpu::tensors::{SMALL, StepTensors, each};
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::{Op, TensorId, Weight};
use crate::graph::program::Program;

/// Maximum number of tokens of an item: enough to amortize unpacking, few enough for an item per thread.
const TOKENS: usize = 128;

/// Scratch memory for the products of heads, per thread.
pub struct HeadScratch {
    per_thread: Vec<ThreadHeads>,
}

struct ThreadHeads {
    products: MatmulWorkspace,
    /// `[TOKENS, cols]`
    input: Vec<f32>,
    /// `[TOKENS, rows]`, with space for other rows in the same groups of 16.
    out: Vec<f32>,
}

impl HeadScratch {
    pub fn new(backend: &CpuBackend, program: &Program, max_tokens: usize, threads: usize) -> Result<HeadScratch> {
        let (mut rows, mut cols) = (0, 0);
        for op in &program.ops {
            if let Op::ProjectHeads { weight, heads, .. } = op {
                let matrix = backend.shape(*weight);
                (rows, cols) = (rows.max(matrix.rows / heads), cols.max(matrix.cols()));
            }
        }
        let threads = if cols > 0 { threads } else { 0 };
        let tokens = max_tokens.min(TOKENS);
        let mut per_thread = try_vec("activations of heads", threads)?;
        for _ in 0..threads {
            per_thread.push(ThreadHeads {
                products: MatmulWorkspace::new(1, tokens, cols)?,
                input: try_filled("activations of heads", tokens * cols, 0.0)?,
                out: try_filled("activations of heads", tokens * (rows + 2 * PANEL_ROWS), 0.0)?,
            });
        }
        Ok(HeadScratch { per_thread })
    }

    /// Computes `out[h] = [weight[h] * x[h][..cols] | x[h][cols..]]`.
    pub fn multiply(
        &mut self,
        backend: &CpuBackend,
        team: &Team,
        tensors: &mut StepTensors,
        [x, out]: [TensorId; 2],
        weight: Weight,
        heads: usize,
    ) {
        let (matrix, bytes) = backend.matrix(weight);
        let (rows, cols, n) = (matrix.rows / heads, matrix.cols(), tensors.n);
        let [(x, x_width), (out, out_width)] = tensors.disjoint([x, out]);
        let (from, to) = (x_width / heads, out_width / heads);
        let out = DisjointSlice::new(out);
        let per_thread = DisjointSlice::new(&mut self.per_thread);
        let pieces = n.div_ceil(TOKENS);
        let item = |share: usize, i: usize| {
            let (head, first) = (i / pieces, i % pieces * TOKENS);
            let tokens = first..n.min(first + TOKENS);
            let m = tokens.len();
            // SAFETY: a share runs on one thread at a time.
            let ThreadHeads { products, input, out: results } =
                &mut unsafe { per_thread.slice_mut(share..share + 1) }[0];
            let head_of = |t: usize| &x[t * x_width + head * from..][..from];
            for (t, row) in tokens.clone().zip(input.chunks_exact_mut(cols)) {
                row.copy_from_slice(&head_of(t)[..cols]);
            }
            let slab = Slab::new(head * rows, rows, &matrix);
            let mut jobs = [slab.job(matrix, bytes, m, results)];
            matmul::multiply_on_caller(backend.isa, products, &input[..m * cols], m, &mut jobs);
            slab.compact(m, results);
            for (t, result) in tokens.zip(results.chunks_exact(rows)) {
                let start = t * out_width + head * to;
                // SAFETY: this head of these tokens belongs to this item only.
                let (product, rest) = unsafe { out.slice_mut(start..start + to) }.split_at_mut(rows);
                product.copy_from_slice(result);
                rest.copy_from_slice(&head_of(t)[cols..]);
            }
        };
        match n * heads * rows * cols <= 8 * SMALL {
            true => (0..heads * pieces).for_each(|i| item(0, i)),
            false => team.for_each_with(heads * pieces, item),
        }
    }
}

/// Appends the same `tail` to each head of `x`; `tensors` are `x`, `tail` and the result.
pub fn join(team: &Team, all: &mut StepTensors, tensors: [TensorId; 3], heads: usize) {
    let [(x, x_width), (tail, tail_width), out] = all.disjoint(tensors);
    each(team, out, |t, out| {
        let (x, tail) = (&x[t * x_width..][..x_width], &tail[t * tail_width..][..tail_width]);
        let from = x_width / heads;
        for (out, x) in out.chunks_exact_mut(from + tail_width).zip(x.chunks_exact(from)) {
            out[..from].copy_from_slice(x);
            out[from..].copy_from_slice(tail);
        }
    });
}
