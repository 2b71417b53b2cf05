//! Mixtures of experts on the CPU: the choice of experts for each row, and the products of the rows that chose one.

use std::cmp::Ordering;
use std::ops::Range;

use super::CpuBackend;
use super::acts::{Acts, each_row};
use super::kernels::{PANEL_ROWS, elementwise};
use super::matmul;
use super::matmul_plan::{MatmulJob, MatmulWorkspace};
use super::matrix::WeightMatrix;
use super::memory::Floats;
use super::pool::Team;
use crate::backend::op::{Experts, Op};
use crate::backend::program::Program;
use crate::error::{Result, try_filled, try_vec};

/// Memory for experts.
pub struct ExpertScratch {
    /// `[n, n_used]`: expert and weight, in the order of experts.
    chosen: Vec<(u32, f32)>,
    /// Scores of one token in the order of preference.
    ranking: Vec<(u32, f32)>,
    /// Tokens that chose the expert at hand, and its weight for them.
    members: Vec<(u32, f32)>,
    /// `[max_tokens, hidden]`
    input: Floats,
    /// `[max_tokens, ffn]`, and room for the rows that share a group of 16 with them.
    gate: Floats,
    up: Floats,
    /// The same for `hidden`.
    down: Floats,
}

impl ExpertScratch {
    pub fn new(program: &Program, max_tokens: usize) -> Result<ExpertScratch> {
        let (mut used, mut n, mut hidden, mut ffn) = (0, 0, 0, 0);
        for op in &program.ops {
            if let Op::Experts(e) = op {
                (used, n) = (used.max(e.routing.n_used), n.max(e.n_experts));
                (hidden, ffn) = (hidden.max(program.width(e.x)), ffn.max(e.ffn));
            }
        }
        let tokens = if used > 0 { max_tokens } else { 0 };
        let floats = |width| Floats::new("activations", tokens, width);
        Ok(ExpertScratch {
            chosen: try_filled("routing", tokens.saturating_mul(used), (0, 0.0))?,
            ranking: try_vec("routing", n)?,
            members: try_vec("routing", tokens)?,
            input: floats(hidden)?,
            gate: floats(ffn + 2 * PANEL_ROWS)?,
            up: floats(ffn + 2 * PANEL_ROWS)?,
            down: floats(hidden + 2 * PANEL_ROWS)?,
        })
    }

    /// Chooses experts for each row.
    pub fn route(&mut self, acts: &mut Acts, op: &Experts) {
        let routing = op.routing;
        let (scores, n_experts) = acts.get(op.scores);
        let ExpertScratch { chosen, ranking, .. } = self;
        for (scores, chosen) in scores.chunks_exact(n_experts).zip(chosen.chunks_exact_mut(routing.n_used)) {
            ranking.clear();
            ranking.extend((0..).zip(scores.iter().copied()));
            // The lower number wins a tie. Equal elements do not occur, so that an unstable sort is as good.
            ranking.sort_unstable_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0)));
            let considered = if routing.softmax_first { &ranking[..] } else { &ranking[..routing.n_used] };
            let peak = ranking[0].1;
            let sum: f32 = considered.iter().map(|(_, score)| (score - peak).exp()).sum();
            for (chosen, (expert, score)) in chosen.iter_mut().zip(&*ranking) {
                *chosen = (*expert, (score - peak).exp() / sum);
            }
            if routing.renormalise {
                let sum: f32 = chosen.iter().map(|(_, weight)| weight).sum();
                chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
            chosen.sort_unstable_by_key(|(expert, _)| *expert);
        }
    }

    /// Multiplies, expert by expert, the rows that chose it.
    pub fn multiply(
        &mut self,
        backend: &CpuBackend,
        team: &Team,
        products: &mut MatmulWorkspace,
        acts: &mut Acts,
        op: &Experts,
    ) {
        let (isa, n_used) = (backend.isa, op.routing.n_used);
        let [gate, up, down] = [op.gate, op.up, op.down].map(|weight| backend.matrix(weight));
        let ffn = op.ffn;
        let ExpertScratch { chosen, members, input, gate: gates, up: ups, down: downs, .. } = self;
        let chosen = &chosen[..acts.n * n_used];
        let [(x, hidden), (out, _)] = acts.disjoint([op.x, op.out]);
        out.fill(0.0);
        for expert in 0..op.n_experts {
            members.clear();
            let tokens = chosen.chunks_exact(n_used).enumerate().filter_map(|(t, chosen)| {
                chosen.iter().find(|(e, _)| *e as usize == expert).map(|(_, weight)| (t as u32, *weight))
            });
            members.extend(tokens);
            let m = members.len();
            if m == 0 {
                continue;
            }
            for ((t, _), row) in members.iter().zip(input.chunks_exact_mut(hidden)) {
                row.copy_from_slice(&x[*t as usize * hidden..][..hidden]);
            }
            let rows = Slab::new(expert, ffn, &gate.0);
            let mut jobs = [rows.job(gate, m, gates), rows.job(up, m, ups)];
            matmul::multiply(team, isa, products, &input[..m * hidden], m, &mut jobs);
            rows.compact(m, gates);
            rows.compact(m, ups);
            each_row(team, (&mut gates[..m * ffn], ffn), (&mut ups[..m * ffn], ffn), |_, g, u| {
                elementwise::glu(isa, op.activation, g, u);
            });
            let rows = Slab::new(expert, hidden, &down.0);
            matmul::multiply(team, isa, products, &gates[..m * ffn], m, &mut [rows.job(down, m, downs)]);
            rows.compact(m, downs);
            for ((t, weight), row) in members.iter().zip(downs.chunks_exact(hidden)) {
                elementwise::add_scaled(isa, &mut out[*t as usize * hidden..][..hidden], row, *weight);
            }
        }
    }
}

/// The rows of one expert in a stack, widened to whole groups of 16.
struct Slab {
    wanted: Range<usize>,
    whole: Range<usize>,
}

impl Slab {
    fn new(expert: usize, rows: usize, matrix: &WeightMatrix) -> Slab {
        let wanted = expert * rows..(expert + 1) * rows;
        let whole = wanted.start / PANEL_ROWS * PANEL_ROWS..wanted.end.next_multiple_of(PANEL_ROWS).min(matrix.rows);
        Slab { wanted, whole }
    }

    /// The product of `tokens` tokens with these rows, `[tokens, whole]`.
    fn job<'a>(&self, (matrix, bytes): (WeightMatrix, &'a [u8]), tokens: usize, out: &'a mut [f32]) -> MatmulJob<'a> {
        let (part, bytes) = matrix.part(bytes, self.whole.clone());
        MatmulJob::new(part, bytes, None, &mut out[..tokens * part.rows])
    }

    /// Drops the rows of other experts from the product.
    fn compact(&self, tokens: usize, out: &mut [f32]) {
        let (offset, n) = (self.wanted.start - self.whole.start, self.wanted.len());
        if self.whole.len() != n {
            for t in 0..tokens {
                let start = t * self.whole.len() + offset;
                out.copy_within(start..start + n, t * n);
            }
        }
    }
}
