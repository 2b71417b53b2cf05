//! The ops on the CPU, the specification of their formulas. Owns the activations and all other memory of a step, so
//! that no op allocates. Relies on `Program::check` for shapes. Ops with little to do run on the caller alone: a fork
//! costs more than they do.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CpuBackend;
use super::adapter::CpuAdapter;
use super::attention::{self, AttentionScratch, Heads, LayerSource, Scoring};
use super::kernels::{activation_functions, elementwise};
use super::kv::{CpuKv, KvPart};
use super::matmul;
use super::memory::Floats;
use super::open_team::team;
use super::sequence::CpuSequence;
use super::tensors::{Rows, SMALL, StepTensors, each, each_row};
use crate::cpu::matmul::plan::{MatmulJob, MatmulWorkspace, OpChunk, ProductCursor};
use crate::cpu::ops::adapt::{AdaptScratch, Adapted};
use crate::cpu::ops::experts::ExpertScratch;
use crate::cpu::ops::heads::{self, HeadScratch};
use crate::cpu::ops::norm::WeightedNorm;
use crate::cpu::ops::rope::Angles;
use crate::cpu::ops::{recurrent, streams};
use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::op::{
    Activation, Attend, Index, KvLayerId, Norm, Op, Projection, RopeTable, Select, TensorId, Vector, Weight,
};
use crate::graph::program::{Program, TensorSpec};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::step::{MEDIA_ROW, Sequences, SequencesMut, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;

pub struct CpuExecutor {
    backend: Arc<CpuBackend>,
    program: Arc<Program>,
    /// Threads for which there is scratch.
    threads: usize,
    /// True for each op that is a sum which the next op normalises: both are one pass over memory.
    residual_norms: Vec<bool>,
    /// The team that computes, while a step advances.
    team: Option<Team>,
    /// A step was begun and not ended.
    open: bool,
    /// Another step has waited for the threads during this one.
    was_waited_for: bool,
    /// The ops of the step that are left, and the place in the first of them.
    ops: Range<usize>,
    cursor: OpCursor,
    /// Seconds that a chunk of each op has lately taken, of one row, of few and of many.
    expected: [Vec<f32>; 3],
    tensors: StepTensors,
    /// `[rows]`, of the tokens that the activations have rows for.
    positions: Vec<u32>,
    slots: Vec<u32>,
    /// The same, or empty.
    turns: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
    /// Rotary tables, by `RopeTable`.
    angles: Vec<Angles>,
    products: MatmulWorkspace,
    /// One for each shape of heads.
    attention: Vec<(Heads, AttentionScratch)>,
    /// `[max_outputs, vocab]`
    logits: Floats,
    /// Number of outputs with logits.
    outputs: usize,
    experts: ExpertScratch,
    heads: HeadScratch,
    adapted: Adapted,
    max_tokens: usize,
}

/// The place in an op that is divided into chunks.
#[derive(Default)]
struct OpCursor {
    /// Groups of products, or experts, that are done.
    parts: usize,
    products: ProductCursor,
}

impl CpuExecutor {
    pub fn new(backend: Arc<CpuBackend>, program: &Arc<Program>, limits: StepLimits) -> Result<CpuExecutor> {
        let StepLimits { max_tokens, max_outputs } = limits;
        let threads = backend.pool.threads();
        let mut angles = try_vec("rotary tables", backend.ropes.len())?;
        for rope in &backend.ropes {
            angles.push(Angles::new(rope, max_tokens)?);
        }
        let mut shapes: Vec<(Heads, usize)> = Vec::new();
        for op in &program.ops {
            let (layer, q, top) = match op {
                Op::Attend(a) => (a.layer, a.q, 0),
                Op::Select(s) => (s.layer, s.q, program.width(s.out)),
                _ => continue,
            };
            let heads = heads(program, layer, q);
            match shapes.iter_mut().find(|(known, _)| *known == heads) {
                Some((_, most)) => *most = top.max(*most),
                None => shapes.push((heads, top)),
            }
        }
        let mut attention = Vec::new();
        for (heads, top) in shapes {
            let scratch = AttentionScratch::new(heads, max_tokens, threads, false)?;
            attention.push((heads, if top > 0 { scratch.with_choice(top)? } else { scratch }));
        }
        let experts = ExpertScratch::new(program, max_tokens)?;
        let seconds = || try_filled("times of ops", program.ops.len(), 0f32);
        let residual_norms = (0..program.ops.len()).map(|i| is_residual_norm(program, i)).collect();
        Ok(CpuExecutor {
            threads,
            residual_norms,
            team: None,
            open: false,
            was_waited_for: false,
            ops: 0..0,
            cursor: OpCursor::default(),
            expected: [seconds()?, seconds()?, seconds()?],
            tensors: StepTensors::new(program, max_tokens)?,
            positions: try_vec("positions", max_tokens)?,
            slots: try_vec("slots", max_tokens)?,
            turns: try_vec("turns", max_tokens)?,
            spans: try_vec("spans", max_tokens)?,
            angles,
            products: MatmulWorkspace::new(threads, max_tokens, program.widest_input())?,
            attention,
            logits: Floats::new("logits", max_outputs, program.vocab)?,
            outputs: 0,
            experts,
            heads: HeadScratch::new(&backend, program, max_tokens, threads)?,
            adapted: Adapted::default(),
            max_tokens,
            program: program.clone(),
            backend,
        })
    }

    /// False where the pool has got more threads than there is scratch for.
    pub fn fits_threads(&self) -> bool {
        self.threads >= self.backend.pool.threads()
    }

    pub fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<CpuSequence>,
        ops: Range<usize>,
    ) -> Result<()> {
        self.end()?;
        self.outputs = 0;
        let fits = |kv: &CpuKv| {
            (&kv.spec().layers, &kv.spec().recurrent) == (&self.program.kv_layers, &self.program.recurrent)
        };
        if !(0..sequences.len()).all(|i| sequences.get(i).and_then(CpuSequence::kv).is_some_and(fits)) {
            return Err(Error::Mismatch("a cache of another device".to_owned()));
        }
        self.tensors.n = inputs.ids.len();
        self.positions.clear();
        self.positions.extend_from_slice(inputs.positions);
        self.slots.clear();
        self.slots.extend_from_slice(inputs.sequences);
        self.turns.clear();
        self.turns.extend_from_slice(inputs.turns);
        self.spans.clear();
        self.spans.extend_from_slice(inputs.spans);
        self.adapted.begin(&self.program, self.max_tokens, &self.slots, |slot| adapters(sequences, slot))?;
        self.angles.iter_mut().for_each(Angles::clear);
        (self.ops, self.cursor, self.open, self.was_waited_for) = (ops, OpCursor::default(), true, false);
        self.attention.iter_mut().for_each(|(_, scratch)| scratch.cursor.done = 0);
        Ok(())
    }

    pub fn advance(
        &mut self,
        inputs: &StepInputs,
        sequences: &mut dyn SequencesMut<CpuSequence>,
        budget: &StepBudget,
    ) -> Result<bool> {
        if !self.open {
            return Err(Error::invalid("no step is open"));
        }
        let done = self.execute_all(inputs, sequences, budget);
        self.team = None;
        self.backend.pool.take_fault().and(done)
    }

    fn execute_all(
        &mut self,
        inputs: &StepInputs,
        sequences: &mut dyn SequencesMut<CpuSequence>,
        budget: &StepBudget,
    ) -> Result<bool> {
        let program = self.program.clone();
        while let Some(op) = program.ops[..self.ops.end].get(self.ops.start) {
            let (at, class) = (self.ops.start, [1, 16].iter().filter(|&&few| self.tensors.n > few).count());
            if !self.has_turn(budget)? || budget.pauses(Duration::from_secs_f32(self.expected[class][at])) {
                return Ok(false);
            }
            let started = budget.is_timed().then(Instant::now);
            let chunk = if budget.is_timed() || self.was_waited_for { OpChunk::Short } else { OpChunk::Long };
            self.cursor.products.op_chunk = chunk;
            self.attention.iter_mut().for_each(|(_, scratch)| scratch.cursor.op_chunk = chunk);
            let taken = match (op, program.ops[..self.ops.end].get(self.ops.start + 1)) {
                (Op::Add { x, scale, .. }, Some(Op::Norm { norm, out, .. })) if self.residual_norms[self.ops.start] => {
                    self.residual_norm(*x, *scale, norm, *out)?;
                    2
                }
                (Op::KeepOutputs { .. }, _) if inputs.outputs.is_empty() => self.ops.len(),
                _ => usize::from(self.execute(op, inputs, sequences)?),
            };
            if let Some(started) = started {
                let expected = &mut self.expected[class][at];
                *expected = 0.5 * (*expected + started.elapsed().as_secs_f32());
            }
            if taken > 0 {
                self.ops.start += taken;
                self.cursor = OpCursor::default();
            }
        }
        Ok(true)
    }

    /// Has the threads for the next chunk, after other steps where this one has had its turn; false where `budget` ends
    /// the wait.
    fn has_turn(&mut self, budget: &StepBudget) -> Result<bool> {
        if self.team.as_ref().is_some_and(Team::is_over) {
            self.was_waited_for = true;
            self.team = None;
        }
        if self.team.is_none() {
            self.team = self.backend.pool.enter_at(self.threads, budget)?;
        }
        Ok(self.team.is_some())
    }

    /// Arg-max of the logits of output `i`.
    pub fn token(&mut self, i: usize) -> Result<u32> {
        Ok(elementwise::argmax(self.backend.isa, self.output(i)?) as u32)
    }

    pub fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        let logits = self.output(i)?;
        if out.len() != logits.len() {
            return Err(Error::BufferTooSmall { needed: logits.len(), capacity: out.len() });
        }
        out.copy_from_slice(logits);
        Ok(())
    }

    pub fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (to, _) = self.tensors.get(tensor);
        if to.len() != values.len() {
            return Err(Error::invalid(format!("{} values for the {} of {tensor:?}", values.len(), to.len())));
        }
        to.copy_from_slice(values);
        Ok(())
    }

    pub fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        let (from, _) = self.tensors.get(tensor);
        if from.len() != out.len() {
            return Err(Error::BufferTooSmall { needed: from.len(), capacity: out.len() });
        }
        out.copy_from_slice(from);
        Ok(())
    }

    pub fn read_rows(&self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        let TensorSpec { width, buffer } = self.tensors.spec(tensor);
        let from = first.checked_mul(width).and_then(|from| self.tensors.buffers[buffer].get(from..)?.get(..out.len()));
        match from.filter(|_| self.program.kept.contains(&tensor)) {
            Some(from) => out.copy_from_slice(from),
            None => return Err(Error::invalid(format!("rows of {tensor:?} from {first} on"))),
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<()> {
        self.open = false;
        Ok(())
    }

    /// Logits of output `i` of the last step.
    fn output(&self, i: usize) -> Result<&[f32]> {
        if i >= self.outputs {
            return Err(Error::invalid(format!("output {i} of {}", self.outputs)));
        }
        let vocab = self.program.vocab;
        Ok(&self.logits[i * vocab..(i + 1) * vocab])
    }

    /// Number of rows that activations have now.
    pub fn rows(&self) -> usize {
        self.tensors.n
    }

    /// Executes an op, or, where time counts, the next chunk of a long one; true when all of it is done.
    // One piece: an arm for each op.
    fn execute(&mut self, op: &Op, inputs: &StepInputs, sequences: &mut dyn SequencesMut<CpuSequence>) -> Result<bool> {
        let isa = self.backend.isa;
        match op {
            Op::Embed { table, index, scale, out, .. } => self.embed(inputs, (*table, *index, *scale), *out)?,
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
                self.scale_by_position(*x, *slope, [*offset, *length].map(u64::from))?;
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
            Op::Conv(_) | Op::Pool(_) | Op::DeltaRule(_) | Op::Scan(_) | Op::Wkv(_) => {
                self.remember(op, inputs, sequences)?;
            }
            Op::MixByScore { .. } | Op::Sinkhorn { .. } | Op::Dot { .. } => self.mix(op)?,
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
                    scratch.route(backend, tensors, experts);
                }
                let place = (&mut cursor.parts, cursor.products.op_chunk);
                return Ok(scratch.multiply(backend, &*team(open)?, products, tensors, experts, place));
            }
            Op::ToHost { .. } | Op::FromHost { .. } => return Err(Error::unsupported(format!("{op:?} on the CPU"))),
            Op::Logits { x, head, bias, scale, softcap } => {
                return self.multiply_head(*x, (*head, *bias), [*scale, *softcap], sequences);
            }
        }
        Ok(true)
    }

    /// Advances the recurrent states of sequences.
    fn remember(&mut self, op: &Op, inputs: &StepInputs, sequences: &mut dyn SequencesMut<CpuSequence>) -> Result<()> {
        let isa = self.backend.isa;
        match op {
            Op::Conv(op) => {
                let (backend, team) = (&self.backend, team(&mut self.team)?);
                let vectors = [Some(op.kernel), op.bias].map(|v| v.map(|v| backend.vector(v)));
                recurrent::conv(&team, isa, op, vectors, &mut self.tensors, inputs, sequences)?;
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
                let vectors = [op.rate, op.skip].map(|v| self.backend.vector(v));
                recurrent::scan(&*team(&mut self.team)?, isa, op, vectors, &mut self.tensors, inputs, sequences)?;
            }
            Op::Wkv(op) => {
                recurrent::wkv(&*team(&mut self.team)?, isa, op, &mut self.tensors, inputs, sequences)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Products and mixtures of parts of rows.
    fn mix(&mut self, op: &Op) -> Result<()> {
        let isa = self.backend.isa;
        match op {
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
            _ => {}
        }
        Ok(())
    }

    /// Rows of a table, by the tokens or the positions of the step, or rows of media.
    fn embed(&mut self, inputs: &StepInputs, (table, index, scale): (Weight, Index, f32), out: TensorId) -> Result<()> {
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

    /// `gate = activation(gate) * up`, or without `up`.
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

    /// Products of one input, six at a time; true when all are done.
    fn project_all(
        &mut self,
        x: TensorId,
        projections: &[Projection],
        sequences: &dyn Sequences<CpuSequence>,
    ) -> Result<bool> {
        let mut groups = projections.chunks(6).skip(self.cursor.parts);
        // By number, because the jobs of a product live on the stack.
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

    /// Multiplies each row by what its position is worth.
    fn scale_by_position(&mut self, x: TensorId, slope: f32, [offset, length]: [u64; 2]) -> Result<()> {
        let (isa, positions) = (self.backend.isa, &self.positions);
        each(&*team(&mut self.team)?, self.tensors.get(x), |t, x| {
            let periods = (u64::from(positions[t]) + offset) / length + 1;
            let factor = 1.0 + f64::from(slope) * libm::log(periods as f64);
            elementwise::scale(isa, x, factor as f32);
        });
        Ok(())
    }

    /// Logits of the outputs, or the next chunk of them; true when all are done.
    fn multiply_head(
        &mut self,
        x: TensorId,
        (head, bias): (Weight, Option<Vector>),
        [scale, softcap]: [f32; 2],
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
        if softcap != 0.0 {
            team.chunks_mut(logits, SMALL, |_, x| activation_functions::softcap(isa, x, scale, softcap));
        } else if scale != 1.0 {
            team.chunks_mut(logits, SMALL, |_, x| elementwise::scale(isa, x, scale));
        }
        self.outputs = m;
        Ok(true)
    }

    /// `x += scale * out; out = norm(x)`: the sum and its norm in one pass, the summand lying where the result goes.
    fn residual_norm(&mut self, x: TensorId, scale: f32, norm: &Norm, out: TensorId) -> Result<()> {
        let (isa, norm) = (self.backend.isa, WeightedNorm::new(&self.backend, norm));
        let [x, out] = self.tensors.disjoint([x, out]);
        each_row(&*team(&mut self.team)?, x, out, |_, x, out| {
            elementwise::add_scaled(isa, x, out, scale);
            out.copy_from_slice(x);
            norm.apply(out);
        });
        Ok(())
    }

    /// `N` products of one input.
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
        let CpuExecutor { backend, team: open, tensors, angles, positions, turns, .. } = self;
        let (angles, rope) = (&mut angles[table.0 as usize], &backend.ropes[table.0 as usize]);
        if rope.inv_freq.is_empty() {
            return Ok(());
        }
        angles.compute(rope, positions, turns);
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
        let KvLayer { n_kv_heads: n_heads, head_dim, value_dim, .. } = program.kv_layers[layer];
        let mut parts: [Rows; 2] = match v {
            Some(v) => tensors.disjoint([k, v]),
            None => [tensors.get(k), (&mut [], 0)],
        };
        let [(keys, key_width), (values, value_width)] = &mut parts;
        let (key_width, value_width) = (*key_width, *value_width);
        for (i, tokens) in inputs.runs() {
            let Some(cache) = sequences.get_mut(i as usize).and_then(CpuSequence::kv_mut) else {
                return Err(Error::invalid(format!("sequence {i} of {}", inputs.ids.len())));
            };
            let positions = &inputs.positions[tokens.clone()];
            let keys = &keys[tokens.start * key_width..tokens.end * key_width];
            let values = &values[tokens.start * value_width..tokens.end * value_width];
            if keys.len() <= SMALL / 8 {
                for (i, &position) in positions.iter().enumerate() {
                    let value = &values[i * value_width..][..value_width];
                    cache.write(isa, layer, position as usize, &keys[i * key_width..][..key_width], value)?;
                }
                continue;
            }
            // Ascending within a sequence.
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
                    // SAFETY: a part of a head is one item, and items go to one thread each.
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
        keep(&mut self.turns, inputs.outputs);
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
        let [(q, _), (out, _), (among, _)] = match op.among {
            Some(among) => tensors.disjoint([op.q, op.out, among]),
            None => {
                let [q, out] = tensors.disjoint([op.q, op.out]);
                [q, out, (&mut [], 0)]
            }
        };
        let among = op.among.map(|_| &*among);
        let (scale, softcap, mask) = (op.scale, op.softcap, op.mask);
        let scoring = Scoring { scale, softcap, mask, slopes, distances, sinks, among, spans };
        let team = team(open)?;
        Ok(attention::attend(&team, backend.isa, &scoring, positions, slots, &source, q, out, scratch))
    }

    fn select(&mut self, sequences: &dyn Sequences<CpuSequence>, op: &Select) -> Result<bool> {
        let CpuExecutor { backend, team: open, tensors, attention, positions, slots, program, .. } = self;
        let heads = heads(program, op.layer, op.q);
        let (_, scratch) = attention.iter_mut().find(|(known, _)| *known == heads).expect("made for each shape");
        let cache = |i: u32| sequences.get(i as usize).and_then(CpuSequence::kv).expect("`begin` has looked");
        let source = LayerSource::new(backend.isa, op.layer.0 as usize, cache);
        let [(q, _), (weights, _), (out, _)] = tensors.disjoint([op.q, op.weights, op.out]);
        let team = team(open)?;
        let groups = op.groups;
        Ok(attention::select(&team, backend.isa, [positions, slots], &source, [q, weights], groups, out, scratch))
    }
}

/// Goes on with the outputs' values alone of a list, which may be empty.
fn keep<T: Copy>(rows: &mut Vec<T>, outputs: &[u32]) {
    if !rows.is_empty() {
        (0..).zip(outputs).for_each(|(to, &from)| rows[to] = rows[from as usize]);
    }
    rows.truncate(outputs.len());
}

/// The adapters of a sequence of the step.
fn adapters<S: Sequences<CpuSequence> + ?Sized>(sequences: &S, i: u32) -> &AdapterSet<CpuAdapter> {
    &sequences.get(i as usize).expect("`begin` has looked").adapters
}

/// True where the capacity of the caches is above a bound; those of a step are all on one side of it.
fn is_longer_than<S: Sequences<CpuSequence> + ?Sized>(sequences: &S, above: usize) -> bool {
    let mut all = (0..sequences.len()).filter_map(|i| sequences.get(i).and_then(CpuSequence::kv));
    all.any(|kv| kv.spec().capacity > above)
}

/// The heads that an attention works on.
fn heads(program: &Program, layer: KvLayerId, q: TensorId) -> Heads {
    let KvLayer { n_kv_heads: kv, head_dim: dim, value_dim, is_latent, .. } = program.kv_layers[layer.0 as usize];
    Heads { queries: program.width(q) / dim, kv, dim, value_dim, is_latent }
}

/// True where op `i` is a sum whose norm follows it, and the norm's result replaces the summand.
fn is_residual_norm(program: &Program, i: usize) -> bool {
    match program.ops[i..] {
        [Op::Add { x, delta, .. }, Op::Norm { x: input, out, .. }, ..] => {
            let buffer = |tensor: TensorId| program.tensors[tensor.0 as usize].buffer;
            x == input && out != x && buffer(delta) == buffer(out)
        }
        _ => false,
    }
}
