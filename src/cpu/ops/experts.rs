//! Mixture of experts (MoE) on the CPU: the router's choice of experts for each row, and the products of each expert's
//! rows.

use std::cmp::Ordering;
use std::ops::Range;

use crate::cpu::CpuBackend;
use crate::cpu::kernels::{Isa, PANEL_ROWS, activation_functions, elementwise};
use crate::cpu::matmul;
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::cpu::matmul::plan::{MatmulJob, MatmulWorkspace, OP_CHUNK_PRODUCTS, OpChunk};
use crate::cpu::memory::Floats;
use crate::cpu::tensors::{StepTensors, each, each_row};
use crate::cpu::threads::pool::Team;
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::{Experts, Op, RouterScore, Vector};
use crate::graph::program::Program;

/// Number of rows whose products take as long as reading the weights.
const FEW: usize = 8;

/// Scratch memory for experts.
pub struct ExpertScratch {
    /// `[n, n_used]`: expert and weight, sorted by expert.
    chosen: Vec<(u32, f32)>,
    /// Experts and their routing scores, in descending order.
    ranking: Vec<(u32, f32)>,
    /// `[n_experts]`, weights of one token before the selection.
    weights: Vec<f32>,
    /// `[groups]`, in descending order of score.
    groups: Vec<(u32, f32)>,
    /// Tokens that use the current expert, and its weight for them.
    members: Vec<(u32, f32)>,
    /// `[max_tokens, hidden]`
    input: Floats,
    /// `[max_tokens, max(hidden, ffn)]`, reordered inputs of matrices with their own column order.
    ordered: Floats,
    /// `[max_tokens, ffn]`, with space for other rows in the same groups of 16.
    gate: Floats,
    up: Floats,
    /// The same for `hidden`.
    down: Floats,
}

/// Returns the weight of an expert by `RouterScore::SparseMixer`, if it were selected. `ranking` has all experts, the
/// best first.
fn sparse_mixer(ranking: &[(u32, f32)], expert: u32) -> f32 {
    let left = ranking.iter().skip_while(|(other, _)| *other != expert);
    let best = ranking.iter().find(|(other, _)| *other == expert).map_or(0.0, |(_, score)| *score);
    // False if all scores are 0, because 0 / 0 is NaN.
    let is_far = |score: f32| (best - score) / score.abs().max(best) > 0.02;
    1.0 / left.map(|(_, score)| *score).filter(|score| !is_far(*score)).map(|score| exp(score - best)).sum::<f32>()
}

impl ExpertScratch {
    pub fn new(program: &Program, max_tokens: usize) -> Result<ExpertScratch> {
        let (mut used, mut n, mut hidden, mut ffn, mut ordered) = (0, 0, 0, 0, 0);
        for op in &program.ops {
            if let Op::Experts(e) = op {
                (used, n) = (used.max(e.routing.n_used), n.max(e.n_experts));
                (hidden, ffn) = (hidden.max(program.width(e.x)), ffn.max(e.ffn));
                if e.orders != [None; 3] {
                    ordered = ordered.max(program.width(e.x)).max(e.ffn);
                }
            }
        }
        let tokens = if used > 0 { max_tokens } else { 0 };
        let floats = |width| Floats::new("activations", tokens, width);
        Ok(ExpertScratch {
            chosen: try_filled("routing", tokens.saturating_mul(used), (0, 0.0))?,
            ranking: try_vec("routing", n)?,
            weights: try_vec("routing", n)?,
            groups: try_vec("routing", n)?,
            members: try_vec("routing", tokens)?,
            input: floats(hidden)?,
            ordered: floats(ordered)?,
            gate: floats(ffn + 2 * PANEL_ROWS)?,
            up: floats(ffn + 2 * PANEL_ROWS)?,
            down: floats(hidden + 2 * PANEL_ROWS)?,
        })
    }

    /// Selects experts for each row; `ids` are the tokens of the rows, for routing by token id.
    pub fn route(&mut self, backend: &CpuBackend, tensors: &mut StepTensors, op: &Experts, ids: &[u32]) -> Result<()> {
        let routing = op.routing;
        let [bias, by_id] = [routing.bias, routing.by_id].map(|v| v.map(|v| backend.vector(v)));
        let (scores, n_experts) = tensors.get(op.scores);
        let ExpertScratch { chosen, ranking, weights, groups, .. } = self;
        let rows = scores.chunks_exact(n_experts).zip(chosen.chunks_exact_mut(routing.n_used));
        for (t, (scores, chosen)) in rows.enumerate() {
            rank(ranking, scores.iter().copied());
            let peak = ranking[0].1;
            let considered = match routing.score {
                RouterScore::SoftmaxOfChosen => &ranking[..routing.n_used],
                _ => &ranking[..],
            };
            let sum: f32 = considered.iter().map(|(_, score)| exp(score - peak)).sum();
            weights.clear();
            weights.extend(scores.iter().enumerate().map(|(expert, score)| match routing.score {
                RouterScore::SparseMixer => sparse_mixer(ranking, expert as u32),
                RouterScore::Sigmoid => 1.0 / (1.0 + exp(-score)),
                RouterScore::RootOfSoftplus => root_of_softplus(*score),
                _ => exp(score - peak) / sum,
            }));
            // A NaN score might be outside the selected experts, whose results would hide it.
            if scores.iter().fold(false, |any, score| any | score.is_nan()) {
                weights.fill(f32::NAN);
            }
            if let Some(bias) = bias {
                rank(ranking, weights.iter().zip(bias).map(|(weight, bias)| weight + bias));
            } else if routing.groups > 1 {
                rank(ranking, weights.iter().copied());
            }
            if routing.groups > 1 {
                let size = n_experts / routing.groups;
                let group = |expert: u32| expert as usize / size;
                let two_best = |g| ranking.iter().filter(|(e, _)| group(*e) == g).take(2).map(|(_, by)| by).sum();
                rank(groups, (0..routing.groups).map(two_best));
                let kept = &groups[..routing.groups_used];
                ranking.retain(|(e, _)| kept.iter().any(|(g, _)| *g as usize == group(*e)));
            }
            let by_id = by_id.map(|all| &all[ids[t] as usize * routing.n_used..][..routing.n_used]);
            for (i, chosen) in chosen.iter_mut().enumerate() {
                let expert = by_id.map_or(ranking[i].0, |experts| experts[i] as u32);
                *chosen = (expert, weights[expert as usize]);
            }
            if routing.renormalize {
                // At least the smallest normal 16-bit float.
                let sum = chosen.iter().map(|(_, weight)| weight).sum::<f32>().max(6.103_515_6e-5);
                chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
            if routing.scale != 1.0 {
                chosen.iter_mut().for_each(|(_, weight)| *weight *= routing.scale);
            }
            chosen.iter_mut().for_each(|(expert, _)| *expert /= routing.sharing as u32);
            chosen.sort_unstable_by_key(|(expert, _)| *expert);
        }
        Ok(())
    }

    /// Copies the rows of `x` that use an expert, or several experts with the same matrices; returns the number of
    /// rows.
    fn gather(&mut self, isa: Isa, op: &Experts, x: &[f32], hidden: usize, expert: usize) -> usize {
        let ExpertScratch { chosen, members, input, .. } = self;
        let (n, n_used) = (x.len() / hidden, op.routing.n_used);
        members.clear();
        let tokens = chosen[..n * n_used].chunks_exact(n_used).enumerate().filter_map(|(t, chosen)| {
            let weights = chosen.iter().filter(|(e, _)| *e as usize == expert).map(|(_, weight)| *weight);
            weights.reduce(|sum, weight| sum + weight).map(|weight| (t as u32, weight))
        });
        members.extend(tokens);
        for ((t, weight), row) in members.iter_mut().zip(input.chunks_exact_mut(hidden)) {
            row.copy_from_slice(&x[*t as usize * hidden..][..hidden]);
            if op.routing.on_input {
                elementwise::scale(isa, row, std::mem::replace(weight, 1.0));
            }
        }
        members.len()
    }

    /// Multiplies the rows of a chunk of experts, one expert after the other, beginning with expert `next`, and
    /// advances `next`. Returns true when all experts are done.
    pub fn multiply(
        &mut self,
        backend: &CpuBackend,
        team: &Team,
        products: &mut MatmulWorkspace,
        tensors: &mut StepTensors,
        op: &Experts,
        next: &mut usize,
        chunk: OpChunk,
    ) -> bool {
        let isa = backend.isa;
        let [up, down] = [op.up, op.down].map(|weight| backend.matrix(weight));
        let gate = op.gate.map(|gate| backend.matrix(gate));
        // Rows per expert in the matrices of gate and up; next, rows of the expert before its `up`.
        let ffn = op.ffn;
        let (stride, ahead) = if op.gate == Some(op.up) { (2 * ffn, ffn) } else { (ffn, 0) };
        let [of_gate, of_up, of_down] = std::array::from_fn(|i| Affine {
            isa,
            scales: op.scales[i].map(|v: Vector| backend.vector(v)),
            biases: op.biases[i].map(|v: Vector| backend.vector(v)),
        });
        let orders = op.orders.map(|v| v.map(|v| backend.vector(v)));
        let [(x, hidden), (out, _)] = tensors.disjoint([op.x, op.out]);
        if *next == 0 {
            out.fill(0.0);
        }
        let most = chunk.of(OP_CHUNK_PRODUCTS).saturating_mul(team.threads());
        let mut spent = 0usize;
        for expert in *next..op.stack() {
            if spent > most {
                return false;
            }
            *next = expert + 1;
            let m = self.gather(isa, op, x, hidden, expert);
            if m == 0 {
                continue;
            }
            // A few rows take as long as reading the weights.
            spent = spent.saturating_add(m.max(FEW) * hidden * ffn * if gate.is_some() { 3 } else { 2 });
            let ExpertScratch { members, input, ordered, gate: gates, up: ups, down: downs, .. } = self;
            let input = &input[..m * hidden];
            let up_rows = Slab::new(expert * stride + ahead, ffn, &up.0);
            match gate {
                Some(gate) => {
                    let gate_rows = Slab::new(expert * stride, ffn, &gate.0);
                    let mut jobs = [gate_rows.job(gate.0, gate.1, m, gates), up_rows.job(up.0, up.1, m, ups)];
                    let together = if op.orders[0] == op.orders[1] { 2 } else { 1 };
                    for (jobs, order) in jobs.chunks_mut(together).zip(orders) {
                        let input = in_order(input, hidden, order, expert, ordered);
                        matmul::multiply(team, isa, products, input, m, jobs);
                    }
                    gate_rows.compact(m, gates);
                    up_rows.compact(m, ups);
                    each_row(team, (&mut gates[..m * ffn], ffn), (&mut ups[..m * ffn], ffn), |_, g, u| {
                        of_gate.apply(expert, g);
                        of_up.apply(expert, u);
                        activation_functions::glu(isa, op.activation, g, u);
                    });
                }
                None => {
                    let input = in_order(input, hidden, orders[1], expert, ordered);
                    matmul::multiply(team, isa, products, input, m, &mut [up_rows.job(up.0, up.1, m, gates)]);
                    up_rows.compact(m, gates);
                    each(team, (&mut gates[..m * ffn], ffn), |_, u| {
                        of_up.apply(expert, u);
                        activation_functions::activate(isa, op.activation, u);
                    });
                }
            }
            let rows = Slab::new(expert * hidden, hidden, &down.0);
            let inner = in_order(&gates[..m * ffn], ffn, orders[2], expert, ordered);
            matmul::multiply(team, isa, products, inner, m, &mut [rows.job(down.0, down.1, m, downs)]);
            rows.compact(m, downs);
            for ((t, weight), row) in members.iter().zip(downs.chunks_exact_mut(hidden)) {
                of_down.apply(expert, row);
                elementwise::add_scaled(isa, &mut out[*t as usize * hidden..][..hidden], row, *weight);
            }
        }
        true
    }
}

/// Returns the values of rows in the column order of an expert's matrix, in `ordered` if they must be reordered.
fn in_order<'a>(
    x: &'a [f32],
    width: usize,
    orders: Option<&[f32]>,
    expert: usize,
    ordered: &'a mut [f32],
) -> &'a [f32] {
    let Some(orders) = orders else { return x };
    let (order, ordered) = (&orders[expert * width..][..width], &mut ordered[..x.len()]);
    let rows = x.chunks_exact(width).zip(ordered.chunks_exact_mut(width));
    rows.for_each(|(x, out)| elementwise::gather(x, order, out));
    ordered
}

/// Sorts numbers in descending order, each with its index. Ties are ordered by index, so that no two elements are equal
/// and an unstable sort is deterministic.
fn rank(ranking: &mut Vec<(u32, f32)>, numbers: impl Iterator<Item = f32>) {
    ranking.clear();
    ranking.extend((0..).zip(numbers));
    // A total order of all floats: NaN, which compares as neither less nor greater, counts as negative infinity.
    let key = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
    let by = |a: f32, b: f32| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal);
    ranking.sort_unstable_by(|a, b| by(a.1, b.1).then(a.0.cmp(&b.0)));
}

/// Returns `e^x`, bit-identical on every system.
fn exp(x: f32) -> f32 {
    libm::exp(f64::from(x)) as f32
}

/// Returns `sqrt(ln(1 + e^x))`.
fn root_of_softplus(x: f32) -> f32 {
    let x = f64::from(x);
    (x.max(0.0) + libm::log1p(libm::exp(-x.abs()))).sqrt() as f32
}

/// The scale and bias of each expert for one of its products.
struct Affine<'a> {
    isa: Isa,
    scales: Option<&'a [f32]>,
    biases: Option<&'a [f32]>,
}

impl Affine<'_> {
    fn apply(&self, expert: usize, row: &mut [f32]) {
        if let Some(scales) = self.scales {
            elementwise::scale(self.isa, row, scales[expert]);
        }
        if let Some(biases) = self.biases {
            elementwise::add_scaled(self.isa, row, &biases[expert * row.len()..][..row.len()], 1.0);
        }
    }
}

/// The rows of one expert or head in a stack, extended to whole groups of 16.
pub struct Slab {
    wanted: Range<usize>,
    whole: Range<usize>,
}

impl Slab {
    pub fn new(first: usize, rows: usize, matrix: &WeightMatrix) -> Slab {
        let wanted = first..first + rows;
        let whole = wanted.start / PANEL_ROWS * PANEL_ROWS..wanted.end.next_multiple_of(PANEL_ROWS).min(matrix.rows);
        Slab { wanted, whole }
    }

    /// Returns the product of `tokens` tokens with these rows, `[tokens, whole]`.
    pub fn job<'a>(&self, matrix: WeightMatrix, bytes: &'a [u8], tokens: usize, out: &'a mut [f32]) -> MatmulJob<'a> {
        let (part, bytes) = matrix.part(bytes, self.whole.clone());
        MatmulJob::new(part, bytes, None, &mut out[..tokens * part.rows])
    }

    /// Removes the other rows of the groups from the product.
    pub fn compact(&self, tokens: usize, out: &mut [f32]) {
        let (offset, n) = (self.wanted.start - self.whole.start, self.wanted.len());
        if self.whole.len() != n {
            for t in 0..tokens {
                let start = t * self.whole.len() + offset;
                out.copy_within(start..start + n, t * n);
            }
        }
    }
}
