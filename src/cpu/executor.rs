//! Executes the steps of a program on the CPU. Owns the activations and all other memory of a step, so that no op
//! allocates. Relies on `Program::check` for shapes.

mod execute;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cpu::CpuBackend;
use crate::cpu::adapter::CpuAdapter;
use crate::cpu::attention::{AttentionScratch, Heads};
use crate::cpu::kernels::elementwise;
use crate::cpu::kv::CpuKv;
use crate::cpu::matmul::plan::{MatmulWorkspace, OpChunk, ProductCursor};
use crate::cpu::memory::Floats;
use crate::cpu::ops::adapt::Adapted;
use crate::cpu::ops::experts::ExpertScratch;
use crate::cpu::ops::heads::HeadScratch;
use crate::cpu::ops::rope::Angles;
use crate::cpu::sequence::CpuSequence;
use crate::cpu::tensors::StepTensors;
use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::op::{KvLayerId, Op, TensorId};
use crate::graph::program::{Program, TensorSpec};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::step::{OpenStep, Sequences, SequencesMut, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;

pub struct CpuExecutor {
    backend: Arc<CpuBackend>,
    program: Arc<Program>,
    /// Number of threads for which scratch is allocated.
    threads: usize,
    /// True for each op that is a sum normalized by the next op: both are one pass over memory.
    residual_norms: Vec<bool>,
    /// The team that computes, while a step runs.
    team: Option<Team>,
    /// True while a step has begun and not ended.
    open: bool,
    /// True if another step has waited for the threads during this one.
    was_waited_for: bool,
    /// Remaining ops of the step; next, the position in the first of them.
    ops: Range<usize>,
    cursor: OpCursor,
    /// Expected seconds for a chunk of each op, from recent runs: for one row, few rows and many rows.
    expected: [Vec<f32>; 3],
    tensors: StepTensors,
    /// `[rows]`, of the tokens in the activations; next, their slots.
    positions: Vec<u32>,
    slots: Vec<u32>,
    /// M-RoPE positions of the tokens, or empty; next, spans.
    rope_positions: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
    /// Rotary tables, by `RopeTable`.
    angles: Vec<Angles>,
    products: MatmulWorkspace,
    /// One entry per shape of heads.
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

/// The position in an op that is split into chunks.
#[derive(Default)]
struct OpCursor {
    /// Number of completed groups of products, or experts.
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
            rope_positions: try_vec("rope_positions", max_tokens)?,
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

    /// False if the pool now has more threads than there is scratch for.
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
            return Err(Error::Mismatch("the cache belongs to another device".to_owned()));
        }
        self.tensors.n = inputs.ids.len();
        self.positions.clear();
        self.positions.extend_from_slice(inputs.positions);
        self.slots.clear();
        self.slots.extend_from_slice(inputs.sequences);
        self.rope_positions.clear();
        self.rope_positions.extend_from_slice(inputs.rope_positions);
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
            if !self.acquire_team(budget)? || budget.pauses(Duration::from_secs_f32(self.expected[class][at])) {
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
                (Op::OfMedia { ops }, _) => {
                    if inputs.media.len() == inputs.ids.len() && inputs.outputs.is_empty() {
                        self.ops.end = self.ops.end.min(self.ops.start + 1 + ops);
                    }
                    if inputs.media.is_empty() { (1 + ops).min(self.ops.len()) } else { 1 }
                }
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

    /// Acquires the threads for the next chunk, after other steps if this one has used up its time. Returns false if
    /// `budget` ends the wait.
    fn acquire_team(&mut self, budget: &StepBudget) -> Result<bool> {
        if self.team.as_ref().is_some_and(Team::is_over) {
            self.was_waited_for = true;
            self.team = None;
        }
        if self.team.is_none() {
            self.team = self.backend.pool.enter_at(self.threads, budget)?;
        }
        Ok(self.team.is_some())
    }

    /// Executes `n` items of other work on the threads of the step. Returns false, without executing any, if `budget`
    /// ends the wait for the threads.
    pub fn run_on_team(&mut self, n: usize, budget: &StepBudget, item: &(dyn Fn(usize) + Sync)) -> Result<bool> {
        let has_team = self.acquire_team(budget)?;
        if let Some(team) = self.team.take() {
            team.for_each(n, item);
        }
        self.backend.pool.take_fault()?;
        Ok(has_team)
    }

    /// Returns the logits of output `i` of the last step.
    fn output(&self, i: usize) -> Result<&[f32]> {
        if i >= self.outputs {
            return Err(Error::invalid(format!("output {i} does not exist; the step has {}", self.outputs)));
        }
        let vocab = self.program.vocab;
        Ok(&self.logits[i * vocab..(i + 1) * vocab])
    }

    /// Returns the current number of rows of the activations.
    pub fn rows(&self) -> usize {
        self.tensors.n
    }
}

impl OpenStep for CpuExecutor {
    /// Returns the argmax of the logits of output `i`.
    fn token(&mut self, i: usize) -> Result<u32> {
        Ok(elementwise::argmax(self.backend.isa, self.output(i)?) as u32)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        let logits = self.output(i)?;
        if out.len() != logits.len() {
            return Err(Error::BufferTooSmall { needed: logits.len(), capacity: out.len() });
        }
        out.copy_from_slice(logits);
        Ok(())
    }

    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (to, _) = self.tensors.get(tensor);
        if to.len() != values.len() {
            return Err(Error::invalid(format!("{tensor:?} needs {1} values, {0} are given", values.len(), to.len())));
        }
        to.copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        let (from, _) = self.tensors.get(tensor);
        if from.len() != out.len() {
            return Err(Error::BufferTooSmall { needed: from.len(), capacity: out.len() });
        }
        out.copy_from_slice(from);
        Ok(())
    }

    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        let TensorSpec { width, buffer } = self.tensors.spec(tensor);
        let from = first.checked_mul(width).and_then(|from| self.tensors.buffers[buffer].get(from..)?.get(..out.len()));
        match from.filter(|_| self.program.kept.contains(&tensor)) {
            Some(from) => out.copy_from_slice(from),
            None => return Err(Error::invalid(format!("rows of {tensor:?} from {first} on cannot be read"))),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.open = false;
        Ok(())
    }
}

/// Returns the adapters of a sequence of the step.
fn adapters<S: Sequences<CpuSequence> + ?Sized>(sequences: &S, i: u32) -> &AdapterSet<CpuAdapter> {
    &sequences.get(i as usize).expect("`begin` has looked").adapters
}

/// Returns the head shape of an attention op.
fn heads(program: &Program, layer: KvLayerId, q: TensorId) -> Heads {
    let KvLayer { n_kv_heads: kv, head_dim: dim, value_dim, is_latent, .. } = program.kv_layers[layer.0 as usize];
    Heads { queries: program.width(q) / dim, kv, dim, value_dim, is_latent }
}

/// True if op `i` is a sum followed by its norm, and the norm's result overwrites the summand.
fn is_residual_norm(program: &Program, i: usize) -> bool {
    match program.ops[i..] {
        [Op::Add { x, delta, .. }, Op::Norm { x: input, out, .. }, ..] => {
            let buffer = |tensor: TensorId| program.tensors[tensor.0 as usize].buffer;
            x == input && out != x && buffer(delta) == buffer(out)
        }
        _ => false,
    }
}
