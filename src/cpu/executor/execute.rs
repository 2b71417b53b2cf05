//! The execution of each op, which is the specification of its formula. Small ops run only on the caller: a fork costs
//! more than they do.
#![allow(unsafe_code)]

use super::{CpuExecutor, OpCursor, adapters, heads};
use crate::cpu::attention::{self, LayerSource, Scoring, SelectRows};
use crate::cpu::kernels::{activation_functions, elementwise};
use crate::cpu::kv::KvPart;
use crate::cpu::matmul;
use crate::cpu::matmul::plan::MatmulJob;
use crate::cpu::open_team::team;
use crate::cpu::ops::adapt::AdaptScratch;
use crate::cpu::ops::heads;
use crate::cpu::ops::ngrams;
use crate::cpu::ops::norm::WeightedNorm;
use crate::cpu::ops::rope::Angles;
use crate::cpu::ops::{recurrent, streams};
use crate::cpu::sequence::CpuSequence;
use crate::cpu::tensors::{Rows, SMALL, each, each_row};
use crate::error::{Error, Result};
use crate::graph::op::{
    Activation, Attend, Half, Index, KvLayerId, Norm, Op, Projection, RopeTable, Select, TensorId, Vector, Weight,
};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::step::{MEDIA_ROW, Sequences, SequencesMut, StepInputs};

impl CpuExecutor {
    /// Executes an op, or, if the step has a time limit, the next chunk of a long one; returns true when the op is
    /// done.
    // One arm per op, so that a new op does not compile without one.
    pub(super) fn execute(
        &mut self,
        op: &Op,
        inputs: &StepInputs,
        sequences: &mut dyn SequencesMut<CpuSequence>,
    ) -> Result<bool> {
        let isa = self.backend.isa;
        match op {
            Op::Embed { table, index, scale, out, .. } => self.embed(inputs, *table, *index, *scale, *out)?,
            Op::Norm { norm, x, out } => self.norm(norm, *x, *out)?,
            Op::Add { x, delta, scale } => {
                let [x, delta] = self.tensors.disjoint([*x, *delta]);
                each_row(&*team(&mut self.team)?, x, delta, |_, x, delta| {
                    elementwise::add_scaled(isa, x, delta, *scale);
                });
            }
            Op::Scale { x, factor } => {
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| elementwise::scale(isa, x, *factor));
            }
            Op::ScaleColumns { x, by } => {
                let by = self.backend.vector(*by);
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| elementwise::multiply(isa, x, by));
            }
            Op::ScaleByPosition { x, slope, length, offset } => {
                self.scale_by_position(*x, *slope, u64::from(*length), u64::from(*offset))?;
            }
            Op::AddMedia { x, part } => {
                let (x, width) = self.tensors.get(*x);
                for (t, row) in inputs.media_rows() {
                    elementwise::add_scaled(isa, &mut x[t * width..][..width], &row[part * width..][..width], 1.0);
                }
            }
            Op::Clamp { x, low, high } => {
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| elementwise::clamp(isa, x, *low, *high));
            }
            Op::Mean { x, groups, out } => {
                let [x, out] = self.tensors.disjoint([*x, *out]);
                each_row(&*team(&mut self.team)?, x, out, |_, x, out| elementwise::mean(isa, x, *groups, out));
            }
            Op::Xielu { x, curve } => {
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| activation_functions::xielu(isa, x, *curve));
            }
            Op::Threshold { x, deviations } => {
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| elementwise::threshold(isa, x, *deviations));
            }
            Op::Rescale { x, like } => {
                let [x, like] = self.tensors.disjoint([*x, *like]);
                each_row(&*team(&mut self.team)?, x, like, |_, x, like| elementwise::rescale(isa, x, like));
            }
            Op::Mix(op) => streams::mix(&*team(&mut self.team)?, isa, op, &mut self.tensors),
            Op::Project { x, projections } => return self.project_all(*x, projections, sequences),
            Op::ProjectHeads { x, weight, heads, out } => {
                let CpuExecutor { backend, team: open, tensors, heads: scratch, .. } = self;
                scratch.multiply(backend, &*team(open)?, tensors, [*x, *out], *weight, *heads);
            }
            Op::JoinHeads { x, tail, heads, out } => {
                heads::join(&*team(&mut self.team)?, &mut self.tensors, [*x, *tail, *out], *heads);
            }
            Op::Slice { x, first, out } => {
                let [x, out] = self.tensors.disjoint([*x, *out]);
                each_row(&*team(&mut self.team)?, x, out, |_, x, out| out.copy_from_slice(&x[*first..][..out.len()]));
            }
            Op::Rope { rope, head_dim, first, q, k } => {
                let long = rope.long.filter(|(above, _)| is_longer_than(sequences, *above));
                self.rotate(long.map_or(rope.table, |(_, table)| table), *head_dim, *first, *q, *k)?;
            }
            Op::StoreKv { layer, k, v } => self.store(inputs, sequences, *layer, *k, *v)?,
            Op::KeepOutputs { moves } => self.keep_outputs(inputs, sequences, moves),
            Op::Attend(attend) => return self.attend(sequences, attend),
            Op::Select(select) => return self.select(sequences, select),
            Op::EmbedNgrams(op) => {
                let (table, bytes) = self.backend.matrix(op.table);
                ngrams::embed(&*team(&mut self.team)?, op, table, bytes, &mut self.tensors, inputs, sequences)?;
            }
            Op::Conv(op) => {
                let (backend, team) = (&self.backend, team(&mut self.team)?);
                let (kernel, bias) = (backend.vector(op.kernel), op.bias.map(|bias| backend.vector(bias)));
                recurrent::conv(&team, isa, op, kernel, bias, &mut self.tensors, inputs, sequences)?;
            }
            Op::Pool(op) => {
                let bias = self.backend.vector(op.bias);
                recurrent::pool(&*team(&mut self.team)?, op, bias, &mut self.tensors, inputs, sequences)?;
            }
            Op::DeltaRule(op) => {
                let rate = self.backend.vector(op.rate);
                recurrent::delta_rule(&*team(&mut self.team)?, isa, op, rate, &mut self.tensors, inputs, sequences)?;
            }
            Op::Scan(op) => {
                let (rate, skip) = (self.backend.vector(op.rate), self.backend.vector(op.skip));
                recurrent::scan(&*team(&mut self.team)?, isa, op, rate, skip, &mut self.tensors, inputs, sequences)?;
            }
            Op::Wkv(op) => {
                recurrent::wkv(&*team(&mut self.team)?, isa, op, &mut self.tensors, inputs, sequences)?;
            }
            Op::Gather { x, by, out } => {
                let by = self.backend.vector(*by);
                let [x, out] = self.tensors.disjoint([*x, *out]);
                each_row(&*team(&mut self.team)?, x, out, |_, x, out| elementwise::gather(x, by, out));
            }
            Op::MixByScore { x, by, eps, out } => {
                let by = self.backend.vector(*by);
                let [x, out] = self.tensors.disjoint([*x, *out]);
                each_row(&*team(&mut self.team)?, x, out, |_, x, out| streams::mix_by_score(isa, x, by, *eps, out));
            }
            Op::Sinkhorn { x, eps, rounds } => {
                each(&*team(&mut self.team)?, self.tensors.get(*x), |_, x| streams::sinkhorn(x, *eps, *rounds));
            }
            Op::Dot { x, y, out } => {
                let [x, (y, wide), out] = self.tensors.disjoint([*x, *y, *out]);
                each_row(&*team(&mut self.team)?, x, out, |t, x, out| {
                    let (each, y) = (wide / out.len(), &y[t * wide..][..wide]);
                    for ((x, y), out) in x.chunks_exact(each).zip(y.chunks_exact(each)).zip(out) {
                        *out = elementwise::dot(isa, x, y);
                    }
                });
            }
            Op::Glu { gate, up, activation } => self.activate(*gate, *up, *activation)?,
            Op::Gate { x, gate, sigmoid } => {
                let [x, gate] = self.tensors.disjoint([*x, *gate]);
                each_row(&*team(&mut self.team)?, x, gate, |_, x, gate| match sigmoid {
                    true => activation_functions::gate(isa, x, gate),
                    false => elementwise::multiply_each(isa, x, gate),
                });
            }
            Op::Experts(experts) => {
                let CpuExecutor { backend, team: open, tensors, products, experts: scratch, cursor, .. } = self;
                if cursor.parts == 0 {
                    scratch.route(backend, tensors, experts, inputs.ids)?;
                }
                let (next, chunk) = (&mut cursor.parts, cursor.products.op_chunk);
                return Ok(scratch.multiply(backend, &*team(open)?, products, tensors, experts, next, chunk));
            }
            Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } | Op::OfMedia { .. } => {
                return Err(Error::unsupported(format!("{op:?} is not supported on the CPU")));
            }
            Op::Logits { x, head, bias, scale, softcap } => {
                if !self.multiply_head(*x, *head, *bias, sequences)? {
                    return Ok(false);
                }
                self.shape_logits(*scale, *softcap)?;
            }
        }
        Ok(true)
    }

    /// Copies rows of a table, by the tokens or the positions of the step, or rows of media embeddings.
    fn embed(&mut self, inputs: &StepInputs, table: Weight, index: Index, scale: f32, out: TensorId) -> Result<()> {
        let (isa, (matrix, bytes)) = (self.backend.isa, self.backend.matrix(table));
        let row = |t: usize| match index {
            Index::Id | Index::Token if inputs.ids[t] == MEDIA_ROW => 0,
            Index::Id | Index::Token => inputs.ids[t] as usize,
            Index::Position => inputs.positions[t] as usize,
            Index::Zero => 0,
        };
        each(&*team(&mut self.team)?, self.tensors.get(out), |t, x| {
            matrix.decode_row(bytes, row(t), x);
            if scale != 1.0 {
                elementwise::scale(isa, x, scale);
            }
        });
        if index == Index::Id {
            let (out, width) = self.tensors.get(out);
            inputs.media_rows().for_each(|(t, row)| out[t * width..][..width].copy_from_slice(&row[..width]));
        }
        Ok(())
    }

    /// Computes `gate = activation(gate) * up`, or without `up`.
    fn activate(&mut self, gate: TensorId, up: Option<TensorId>, activation: Activation) -> Result<()> {
        let (isa, team) = (self.backend.isa, team(&mut self.team)?);
        match up {
            None => each(&team, self.tensors.get(gate), |_, g| activation_functions::activate(isa, activation, g)),
            Some(up) => {
                let [gate, up] = self.tensors.disjoint([gate, up]);
                each_row(&team, gate, up, |_, g, u| activation_functions::glu(isa, activation, g, u));
            }
        }
        Ok(())
    }

    fn norm(&mut self, norm: &Norm, x: TensorId, out: TensorId) -> Result<()> {
        let norm = WeightedNorm::new(&self.backend, norm);
        if x == out {
            each(&*team(&mut self.team)?, self.tensors.get(x), |_, x| norm.apply(x));
        } else {
            let [x, out] = self.tensors.disjoint([x, out]);
            each_row(&*team(&mut self.team)?, x, out, |_, x, out| {
                out.copy_from_slice(x);
                norm.apply(out);
            });
        }
        Ok(())
    }

    /// Computes products of one input, six at a time; returns true when all are done.
    fn project_all(
        &mut self,
        x: TensorId,
        projections: &[Projection],
        sequences: &dyn Sequences<CpuSequence>,
    ) -> Result<bool> {
        let mut groups = projections.chunks(6).skip(self.cursor.parts);
        // One arm per number, because the jobs of a product live on the stack.
        let done = match groups.next().unwrap_or_default() {
            [a] => self.project(x, &[*a])?,
            [a, b] => self.project(x, &[*a, *b])?,
            [a, b, c] => self.project(x, &[*a, *b, *c])?,
            [a, b, c, d] => self.project(x, &[*a, *b, *c, *d])?,
            [a, b, c, d, e] => self.project(x, &[*a, *b, *c, *d, *e])?,
            [a, b, c, d, e, f] => self.project(x, &[*a, *b, *c, *d, *e, *f])?,
            _ => true,
        };
        if done {
            self.cursor = OpCursor { parts: self.cursor.parts + 1, ..OpCursor::default() };
        }
        let all_done = done && groups.next().is_none();
        if all_done && self.adapted.is_active() {
            let CpuExecutor { team: open, tensors, products: workspace, adapted, backend, .. } = self;
            let scratch = AdaptScratch { team: &*team(open)?, isa: backend.isa, workspace };
            adapted.project(scratch, tensors, x, projections, |i| adapters(sequences, i))?;
        }
        Ok(all_done)
    }

    /// Multiplies each row by a factor of its position.
    fn scale_by_position(&mut self, x: TensorId, slope: f32, length: u64, offset: u64) -> Result<()> {
        let (isa, positions) = (self.backend.isa, &self.positions);
        each(&*team(&mut self.team)?, self.tensors.get(x), |t, x| {
            let periods = (u64::from(positions[t]) + offset) / length + 1;
            let factor = 1.0 + f64::from(slope) * libm::log(periods as f64);
            elementwise::scale(isa, x, factor as f32);
        });
        Ok(())
    }

    /// Computes products of the outputs with the output head, or the next chunk of them; returns true when all are
    /// done.
    fn multiply_head(
        &mut self,
        x: TensorId,
        head: Weight,
        bias: Option<Vector>,
        sequences: &dyn Sequences<CpuSequence>,
    ) -> Result<bool> {
        let CpuExecutor { backend, team: open, tensors, products, logits, cursor, adapted, .. } = self;
        let (isa, team, vocab) = (backend.isa, team(open)?, self.program.vocab);
        let (matrix, bytes) = backend.matrix(head);
        let m = tensors.n;
        let (x, _) = tensors.get(x);
        let logits = &mut logits[..m * vocab];
        let mut jobs = [MatmulJob::new(matrix, bytes, bias.map(|bias| backend.vector(bias)), logits)];
        if !matmul::multiply_chunk(&team, isa, products, x, m, &mut jobs, &mut cursor.products) {
            return Ok(false);
        }
        if adapted.is_active() {
            let scratch = AdaptScratch { team: &team, isa, workspace: products };
            adapted.logits(scratch, x, (&mut *logits, vocab), |i| adapters(sequences, i))?;
        }
        self.outputs = m;
        Ok(true)
    }

    /// Scales the logits of the outputs, and applies the softcap.
    fn shape_logits(&mut self, scale: f32, softcap: f32) -> Result<()> {
        let (isa, team) = (self.backend.isa, team(&mut self.team)?);
        let logits = &mut self.logits[..self.outputs * self.program.vocab];
        if softcap != 0.0 {
            team.chunks_mut(logits, SMALL, |_, x| activation_functions::softcap(isa, x, scale, softcap));
        } else if scale != 1.0 {
            team.chunks_mut(logits, SMALL, |_, x| elementwise::scale(isa, x, scale));
        }
        Ok(())
    }

    /// Computes `x += scale * out; out = norm(x)` in one pass; the buffer of the result contains the summand.
    pub(super) fn residual_norm(&mut self, x: TensorId, scale: f32, norm: &Norm, out: TensorId) -> Result<()> {
        let (isa, norm) = (self.backend.isa, WeightedNorm::new(&self.backend, norm));
        let [x, out] = self.tensors.disjoint([x, out]);
        each_row(&*team(&mut self.team)?, x, out, |_, x, out| {
            elementwise::add_scaled(isa, x, out, scale);
            out.copy_from_slice(x);
            norm.apply(out);
        });
        Ok(())
    }

    /// Computes `N` products of one input.
    fn project<const N: usize>(&mut self, input: TensorId, projections: &[Projection; N]) -> Result<bool> {
        let CpuExecutor { backend, team: open, tensors, products, cursor, .. } = self;
        let (n, cols) = (tensors.n, tensors.width(input));
        let specs = projections.map(|p| tensors.spec(p.out));
        let input = tensors.spec(input).buffer;
        let mut buffers = tensors.buffers.iter_mut().enumerate();
        let mut x: &[f32] = &[];
        let mut outs = [const { None }; N];
        for (i, buffer) in &mut buffers {
            if i == input {
                x = &buffer[..n * cols];
            } else if let Some(j) = specs.iter().position(|spec| spec.buffer == i) {
                outs[j] = Some(&mut buffer[..n * specs[j].width]);
            }
        }
        let mut jobs = std::array::from_fn::<_, N, _>(|i| {
            let (matrix, bytes) = backend.matrix(projections[i].weight);
            let bias = projections[i].bias.map(|bias| backend.vector(bias));
            MatmulJob::new(matrix, bytes, bias, outs[i].take().expect("`Program` lays them apart"))
        });
        let (team, cursor) = (team(open)?, &mut cursor.products);
        Ok(matmul::multiply_chunk(&team, backend.isa, products, x, n, &mut jobs, cursor))
    }

    fn rotate(&mut self, table: RopeTable, dim: usize, first: usize, q: TensorId, k: Option<TensorId>) -> Result<()> {
        let CpuExecutor { backend, team: open, tensors, angles, positions, rope_positions, .. } = self;
        let (angles, rope) = (&mut angles[table.0 as usize], &backend.ropes[table.0 as usize]);
        if rope.inv_freq.is_empty() {
            return Ok(());
        }
        angles.compute(rope, positions, rope_positions);
        let (isa, angles) = (backend.isa, &*angles);
        let rotate = |t: usize, q: &mut [f32], k: &mut [f32]| {
            for head in q.chunks_exact_mut(dim).chain(k.chunks_exact_mut(dim)) {
                angles.rotate(isa, rope.pairs, t, first, head);
            }
        };
        let team = team(open)?;
        match k {
            Some(k) => {
                let [q, k] = tensors.disjoint([q, k]);
                each_row(&team, q, k, rotate);
            }
            None => each_row(&team, tensors.get(q), (&mut [], 0), rotate),
        }
        Ok(())
    }

    fn store(
        &mut self,
        inputs: &StepInputs,
        sequences: &mut dyn SequencesMut<CpuSequence>,
        layer: KvLayerId,
        k: TensorId,
        v: Option<TensorId>,
    ) -> Result<()> {
        let CpuExecutor { backend, team: open, tensors, program, .. } = self;
        let (isa, team, layer) = (backend.isa, team(open)?, layer.0 as usize);
        let KvLayer { n_kv_heads: n_heads, head_dim, value_dim, pool, .. } = program.kv_layers[layer];
        let mut parts: [Rows; 2] = match v {
            Some(v) => tensors.disjoint([k, v]),
            None => [tensors.get(k), (&mut [], 0)],
        };
        let [(keys, key_width), (values, value_width)] = &mut parts;
        let (key_width, value_width) = (*key_width, *value_width);
        for (i, tokens) in inputs.runs() {
            let Some(cache) = sequences.get_mut(i as usize).and_then(CpuSequence::kv_mut) else {
                return Err(Error::invalid(format!("sequence {i} does not exist; the step has {}", inputs.ids.len())));
            };
            let positions = &inputs.positions[tokens.clone()];
            let keys = &keys[tokens.start * key_width..tokens.end * key_width];
            let values = &values[tokens.start * value_width..tokens.end * value_width];
            // The few keys that share positions are written one by one.
            if keys.len() <= SMALL / 8 || pool > 1 {
                let ends = |position: u32| (position as usize + 1).is_multiple_of(pool);
                for (i, &position) in positions.iter().enumerate().filter(|(_, position)| ends(**position)) {
                    let value = &values[i * value_width..][..value_width];
                    cache.write(isa, layer, position as usize / pool, &keys[i * key_width..][..key_width], value)?;
                }
                continue;
            }
            // Positions are ascending within a sequence.
            let writer = cache.writer(layer, positions[0] as usize..positions[positions.len() - 1] as usize + 1)?;
            let of_head = if value_width > 0 { 2 } else { 1 };
            team.for_each(of_head * n_heads, |i| {
                let head = i / of_head;
                let (part, rows, width, dim) = match i % of_head {
                    0 => (KvPart::Keys, keys, key_width, head_dim),
                    _ => (KvPart::Values, values, value_width, value_dim),
                };
                for (&position, row) in positions.iter().zip(rows.chunks(width)) {
                    let row = &row[head * dim..][..dim];
                    // SAFETY: a part of a head is one item, and each item runs on one thread.
                    unsafe { writer.write(isa, head, part, position as usize, row) };
                }
            });
        }
        Ok(())
    }

    fn keep_outputs(&mut self, inputs: &StepInputs, sequences: &dyn Sequences<CpuSequence>, moves: &[[TensorId; 2]]) {
        for &[from, to] in moves {
            let [(from, width), (to, _)] = self.tensors.disjoint([from, to]);
            for (&t, row) in inputs.outputs.iter().zip(to.chunks_exact_mut(width)) {
                row.copy_from_slice(&from[t as usize * width..][..width]);
            }
        }
        let m = inputs.outputs.len();
        if m < self.tensors.n {
            self.angles.iter_mut().for_each(Angles::clear);
        }
        [&mut self.positions, &mut self.slots].into_iter().for_each(|rows| keep(rows, inputs.outputs));
        keep(&mut self.rope_positions, inputs.outputs);
        keep(&mut self.spans, inputs.outputs);
        self.adapted.keep(&self.slots, |slot| adapters(sequences, slot));
        self.tensors.n = m;
    }

    fn attend(&mut self, sequences: &dyn Sequences<CpuSequence>, op: &Attend) -> Result<bool> {
        let CpuExecutor { backend, team: open, tensors, attention, positions, slots, spans, program, .. } = self;
        let heads = heads(program, op.layer, op.q);
        let (_, scratch) = attention.iter_mut().find(|(known, _)| *known == heads).expect("made for each shape");
        let cache = |i: u32| sequences.get(i as usize).and_then(CpuSequence::kv).expect("`begin` has looked");
        let source = LayerSource::new(backend.isa, op.layer.0 as usize, cache);
        let vectors = [op.slopes, op.distances, op.sinks];
        let [slopes, distances, sinks] = vectors.map(|v| v.map(|v| backend.vector(v)));
        let [(q, _), (out, _), (among, _), (sums, _)] =
            tensors.disjoint_of([Some(op.q), Some(op.out), op.among, op.half.map(Half::sums)]);
        let among = op.among.map(|_| &*among);
        let (scale, softcap, mask) = (op.scale, op.softcap, op.mask);
        let (pool, continues) = (program.kv_layers[op.layer.0 as usize].pool, matches!(op.half, Some(Half::Second(_))));
        let scoring = Scoring { scale, softcap, mask, slopes, distances, sinks, among, spans, pool, continues };
        let team = team(open)?;
        let results = [&mut *out, &mut *sums];
        let done = attention::attend(&team, backend.isa, &scoring, positions, slots, &source, q, results, scratch);
        if done {
            attention::carry_nan(&team, &scoring, [positions, slots], &source, q, [out, sums]);
        }
        Ok(done)
    }

    fn select(&mut self, sequences: &dyn Sequences<CpuSequence>, op: &Select) -> Result<bool> {
        let CpuExecutor { backend, team: open, tensors, attention, positions, slots, program, .. } = self;
        let heads = heads(program, op.layer, op.q);
        let (_, scratch) = attention.iter_mut().find(|(known, _)| *known == heads).expect("made for each shape");
        let cache = |i: u32| sequences.get(i as usize).and_then(CpuSequence::kv).expect("`begin` has looked");
        let source = LayerSource::new(backend.isa, op.layer.0 as usize, cache);
        let [(q, _), (weights, _), (out, _)] = tensors.disjoint([op.q, op.weights, op.out]);
        let team = team(open)?;
        let pool = program.kv_layers[op.layer.0 as usize].pool;
        let rows = SelectRows { positions, sequences: slots, q, weights };
        Ok(attention::select(&team, backend.isa, rows, &source, op.groups, pool, out, scratch))
    }
}

/// Keeps only the outputs' values of a list, which may be empty.
fn keep<T: Copy>(rows: &mut Vec<T>, outputs: &[u32]) {
    if !rows.is_empty() {
        (0..).zip(outputs).for_each(|(to, &from)| rows[to] = rows[from as usize]);
    }
    rows.truncate(outputs.len());
}

/// True if the capacity of the KV caches is above a bound; all caches of a step are on one side of it.
fn is_longer_than<S: Sequences<CpuSequence> + ?Sized>(sequences: &S, above: usize) -> bool {
    let mut all = (0..sequences.len()).filter_map(|i| sequences.get(i).and_then(CpuSequence::kv));
    all.any(|kv| kv.spec().capacity > above)
}
