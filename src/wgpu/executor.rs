//! Executes steps of a program on a GPU.
//!
//! A step writes its inputs, lowers its ops to launches, and submits the launches in short batches, of which at most
//! two are in flight, so that a renderer on the same GPU is not blocked and cancellation takes effect soon.
//! `Batch::check` has validated the inputs of each step.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::wgpu::{BindGroup, SubmissionIndex};

use super::adapter::{StepAdapter, WgpuAdapter};
use super::context::{Context, Held};
use super::device::WgpuModel;
use super::draws::Draw;
use super::inputs::{self, Masks, Placed, Sources};
use super::kernels::{Launch, submit};
use super::lower::Lowering;
use super::memory::{DeviceBuffer, bytes_of_values, read_values};
use super::scratch::Scratch;
use super::sequence::{StepCache, WgpuSequence};
use crate::error::{Error, Result, try_vec};
use crate::gpu::{GpuExecutor, GpuSequence};
use crate::graph::device_info::Times;
use crate::graph::op::{Op, RopeTable, TensorId};
use crate::graph::program::Program;
use crate::graph::step::{CHOSEN_BEFORE, OpenStep, Sequences, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::sampling::{NO_TOKEN, NOT_A_NUMBER, SamplingRule, Scratch as SamplingScratch};

/// Target duration of a submission.
const SUBMISSION: Duration = Duration::from_millis(20);
/// Number of launches per submission before a submission was measured.
const FIRST: usize = 16;

/// Maximum number of launches per submission.
const MOST: usize = 1024;

/// The most recent step. Its results remain readable after its end.
#[derive(Default)]
struct Step {
    is_open: bool,
    placed: Placed,
    /// Ops that are not yet lowered to launches.
    ops: Range<usize>,
    /// Launches that are not yet submitted.
    launches: Vec<Launch>,
    tokens: usize,
    outputs: usize,
    /// Number of outputs with logits.
    results: usize,
    capacity: usize,
    is_kept: bool,
    caches: Vec<StepCache>,
    adapters: Vec<StepAdapter>,
    /// Sampling rules of the outputs; empty: the likeliest tokens.
    draws: Vec<Option<Draw>>,
    /// The token chosen after each output; empty until the results are read.
    chosen: Vec<u32>,
}

pub struct WgpuExecutor {
    model: Arc<WgpuModel>,
    program: Arc<Program>,
    masks: Masks,
    scratch: Scratch,
    memory: DeviceBuffer,
    inputs: DeviceBuffer,
    input_words: usize,
    /// Bind group of each buffer of weights.
    groups: Vec<Held<BindGroup>>,
    /// Index of the op `KeepOutputs`.
    keep: Option<usize>,
    step: Step,
    in_flight: Vec<SubmissionIndex>,
    /// Number of launches per submission, adjusted to the measured duration of earlier submissions.
    pace: usize,
    launched: Vec<&'static str>,
    sampling: SamplingScratch,
}

impl WgpuExecutor {
    pub fn new(model: Arc<WgpuModel>, program: &Arc<Program>, limits: StepLimits) -> Result<WgpuExecutor> {
        let device = &model.device;
        let context = &device.context;
        let scratch = Scratch::new(program, limits, device.is_batch_invariant)?;
        let masks = Masks::new(program);
        let input_words = inputs::words(program, &masks, limits);
        let memory = DeviceBuffer::new(context, "activations", scratch.words)?;
        let inputs = DeviceBuffer::new(context, "a step's inputs", input_words)?;
        let mut groups = Vec::new();
        for weights in model.weights.buffers.iter().filter(|_| !context.plans()) {
            let buffers = [weights.get()?, model.weights.vectors.get()?, inputs.get()?, memory.get()?];
            groups.push(device.kernels.step_group(buffers)?);
        }
        Ok(WgpuExecutor {
            keep: program.ops.iter().position(|op| matches!(op, Op::KeepOutputs { .. })),
            program: program.clone(),
            masks,
            scratch,
            memory,
            inputs,
            input_words,
            groups,
            step: Step::default(),
            in_flight: Vec::new(),
            pace: FIRST,
            launched: Vec::new(),
            sampling: SamplingScratch::default(),
            model,
        })
    }

    fn context(&self) -> &Arc<Context> {
        &self.model.device.context
    }

    /// Returns the RoPE tables that `ops` use for sequences of this capacity.
    fn tables(&self, ops: &Range<usize>, capacity: usize) -> Vec<RopeTable> {
        let mut tables = Vec::new();
        for op in &self.program.ops[ops.clone()] {
            if let Op::Rope { rope, .. } = op {
                let long = rope.long.filter(|(above, _)| capacity > *above);
                let table = long.map_or(rope.table, |(_, table)| table);
                if !tables.contains(&table) {
                    tables.push(table);
                }
            }
        }
        tables
    }

    /// Waits until at most `most` submissions are in flight; returns false if `stop` ends the wait.
    fn drain(&mut self, most: usize, stop: &dyn Fn() -> bool) -> Result<bool> {
        while self.in_flight.len() > most {
            let oldest = self.in_flight[0].clone();
            if !self.context().wait(&oldest, stop)? {
                return Ok(false);
            }
            self.in_flight.remove(0);
        }
        Ok(true)
    }

    /// Returns the number of values of an activation, and its offset in words.
    fn place(&self, tensor: TensorId) -> (usize, usize) {
        let rows = if self.step.is_kept { self.step.outputs } else { self.step.tokens };
        (rows * self.program.width(tensor), self.scratch.tensors[tensor.0 as usize] as usize)
    }

    /// Reads or samples the tokens after all outputs.
    fn read_tokens(&mut self) -> Result<Vec<u32>> {
        let (vocab, results, scratch) = (self.program.vocab, self.step.results, &self.scratch);
        let mut runs = vec![(scratch.best as usize, results)];
        for (i, draw) in self.step.draws.iter().enumerate() {
            let at = scratch.candidates as usize + i * scratch.candidate_words;
            runs.extend(draw.as_ref().map(|draw| (at, draw.words(vocab))));
        }
        let mut words = try_vec("sampled tokens", runs.iter().map(|(_, n)| n).sum())?;
        self.memory.read(&runs, &mut |piece| {
            words.extend(piece.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            Ok(())
        })?;
        let mut candidates = words.split_off(results);
        let mut tokens = words;
        for (token, draw) in tokens.iter_mut().zip(&self.step.draws) {
            let Some(draw) = draw else { continue };
            let rest = candidates.split_off(draw.words(vocab));
            if *token != NOT_A_NUMBER {
                *token = draw.choose(&candidates, vocab, &mut self.sampling)?;
            }
            candidates = rest;
        }
        let is_wrong = |token: &&u32| **token as usize >= vocab && ![NO_TOKEN, NOT_A_NUMBER].contains(*token);
        match tokens.iter().find(is_wrong) {
            Some(token) => Err(self.context().lose(format!("token {token} of {vocab} was chosen"))),
            None => Ok(tokens),
        }
    }

    /// Appends the launches of the next op.
    fn lower_op(&mut self) -> Result<()> {
        let step = &mut self.step;
        let mut lowering = Lowering {
            kernels: &self.model.device.kernels,
            weights: &self.model.weights,
            program: &self.program,
            scratch: &self.scratch,
            masks: &self.masks,
            placed: &step.placed,
            caches: &step.caches,
            adapters: &step.adapters,
            draws: &step.draws,
            is_kept: step.is_kept,
            is_batch_invariant: self.model.device.is_batch_invariant,
            capacity: step.capacity,
            launches: &mut step.launches,
        };
        let done = lowering.lower(step.ops.start)?;
        step.is_kept = lowering.is_kept;
        step.ops.start = (step.ops.start + done).min(step.ops.end);
        Ok(())
    }

    fn check_output(&self, i: usize) -> Result<()> {
        let results = self.step.results;
        let missing = || Error::invalid(format!("output {i} does not exist; the step has {results}"));
        (i < results).then_some(()).ok_or_else(missing)
    }

    /// True if, from op `op` on, activations contain output rows only.
    fn is_kept_at(&self, op: usize) -> bool {
        self.keep.map_or(matches!(self.program.ops.last(), Some(Op::Logits { .. })), |keep| keep < op)
    }
}

impl WgpuExecutor {
    /// Returns the caches of the sequences of a step; the sequences must belong to this model.
    fn caches(&self, inputs: &StepInputs, sequences: &dyn Sequences<dyn GpuSequence>) -> Result<Vec<StepCache>> {
        let (mut caches, mut group) = (Vec::new(), 0);
        for i in 0..sequences.len() {
            let of_program = (&self.program.kv_layers, &self.program.recurrent);
            let fits = |kv: &&WgpuSequence| {
                Arc::ptr_eq(kv.context(), self.context()) && (&kv.spec().layers, &kv.spec().recurrent) == of_program
            };
            let kv = sequences.get(i).and_then(WgpuSequence::of).filter(fits);
            let kv = kv.ok_or_else(|| Error::Mismatch("the cache belongs to another model".to_owned()))?;
            let mut states = (None, 0);
            if !self.program.recurrent.is_empty() {
                let first = inputs.positions.get(inputs.sequences.partition_point(|&s| (s as usize) < i));
                let first = first.map_or(0, |&first| first as usize);
                let (from, to) = sequences.recurrent_buffers(i, first)?;
                // The states of an empty sequence are zeros.
                states = ((first > 0).then_some(from), to);
            }
            caches.push(StepCache { view: kv.view().clone(), group, states, adapters: Vec::new() });
            group += kv.view().groups.len();
        }
        Ok(caches)
    }

    /// Returns the LoRA adapters of the sequences of a step, and lists them in the caches of the step.
    fn adapters(
        &mut self,
        sequences: &dyn Sequences<dyn GpuSequence>,
        caches: &mut [StepCache],
    ) -> Result<Vec<StepAdapter>> {
        let mut adapters: Vec<StepAdapter> = Vec::new();
        let mut first = self.groups.len();
        for (i, cache) in caches.iter_mut().enumerate() {
            for (adapter, scale) in
                sequences.get(i).and_then(WgpuSequence::of).into_iter().flat_map(|kv| kv.adapters().iter())
            {
                let adapter = WgpuAdapter::own(adapter)?;
                let is_it = |known: &StepAdapter| Arc::ptr_eq(&known.adapter, &adapter);
                let at = match adapters.iter().position(is_it) {
                    Some(at) => at,
                    None => {
                        let kept = self.step.adapters.iter().position(is_it);
                        let groups = match kept.map(|at| self.step.adapters.swap_remove(at)) {
                            Some(kept) => kept.groups,
                            None => self.groups_of(&adapter)?,
                        };
                        let next = first + groups.len();
                        adapters.push(StepAdapter { adapter, groups, first });
                        first = next;
                        adapters.len() - 1
                    }
                };
                cache.adapters.push((at, *scale));
            }
        }
        Ok(adapters)
    }

    /// Creates the bind groups of an adapter's matrices.
    fn groups_of(&self, adapter: &WgpuAdapter) -> Result<Vec<Held<BindGroup>>> {
        let group = |factors: &DeviceBuffer| {
            let buffers = [factors.get()?, self.model.weights.vectors.get()?, self.inputs.get()?, self.memory.get()?];
            self.model.device.kernels.step_group(buffers)
        };
        adapter.factors.buffers.iter().map(group).collect()
    }

    /// Submits the next launches, as many as a submission has, and waits until no more than one submission is in
    /// flight; returns false if `stop` ends the wait.
    fn submit_launches(&mut self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let n = self.pace.min(self.step.launches.len());
        if n == 0 {
            return Ok(true);
        }
        let launches: Vec<Launch> = self.step.launches.drain(..n).collect();
        self.launched.extend(launches.iter().map(|launch| launch.name));
        let caches: Vec<&Held<BindGroup>> =
            self.step.caches.iter().flat_map(|cache| cache.view.groups.iter()).collect();
        let of_adapters = self.step.adapters.iter().flat_map(|adapter| &adapter.groups);
        let groups: Vec<&Held<BindGroup>> = self.groups.iter().chain(of_adapters).collect();
        let index = submit(self.context(), &launches, &groups, &caches)?;
        self.in_flight.push(index);
        let started = Instant::now();
        let ended = self.drain(1, stop)?;
        // The wait takes about as long as the previous submission, which had about as many launches.
        let took = started.elapsed().max(Duration::from_micros(100));
        if n >= self.pace {
            let wanted = n as f64 * (SUBMISSION.as_secs_f64() / took.as_secs_f64()).clamp(0.25, 2.0);
            self.pace = (wanted as usize).clamp(1, MOST);
        }
        Ok(ended)
    }
}

impl OpenStep for WgpuExecutor {
    fn token(&mut self, i: usize) -> Result<u32> {
        self.finish()?;
        self.check_output(i)?;
        if self.step.chosen.is_empty() {
            self.step.chosen = self.read_tokens()?;
        }
        Ok(self.step.chosen[i])
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        self.check_output(i)?;
        let vocab = self.program.vocab;
        if out.len() != vocab {
            return Err(Error::BufferTooSmall { needed: vocab, capacity: out.len() });
        }
        read_values(&self.memory, self.scratch.logits as usize + vocab * i, out)
    }

    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (len, at) = self.place(tensor);
        if values.len() != len {
            return Err(Error::invalid(format!("{tensor:?} needs {len} values, {} are given", values.len())));
        }
        self.memory.write(at, &bytes_of_values(values))
    }

    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        let (len, at) = self.place(tensor);
        if out.len() != len {
            return Err(Error::BufferTooSmall { needed: len, capacity: out.len() });
        }
        read_values(&self.memory, at, out)
    }

    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        let (width, n) = (self.program.width(tensor), self.step.tokens);
        let end = first.checked_mul(width).and_then(|values| values.checked_add(out.len()));
        if !self.program.kept.contains(&tensor) || end.is_none_or(|end| end > n * width) {
            let what = format!("{} values from row {first} of {tensor:?} on, of {n} rows of {width}", out.len());
            return Err(Error::invalid(what));
        }
        read_values(&self.memory, self.place(tensor).1 + first * width, out)
    }

    fn end(&mut self) -> Result<()> {
        let is_open = std::mem::take(&mut self.step.is_open);
        let result = if is_open { self.finish() } else { Ok(()) };
        self.step.caches.clear();
        self.step.launches.clear();
        result
    }
}

impl GpuExecutor for WgpuExecutor {
    fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<dyn GpuSequence>,
        ops: Range<usize>,
    ) -> Result<()> {
        if inputs.ids.contains(&CHOSEN_BEFORE) {
            return Err(Error::unsupported("pipelined steps are not supported on this GPU"));
        }
        let vocab = self.program.vocab;
        let draw = |rule: &Option<SamplingRule>| rule.map_or(Ok(None), |rule| Draw::new(&rule, vocab));
        let draws = inputs.rules.iter().map(draw).collect::<Result<Vec<_>>>()?;
        // Unfinished submissions of an abandoned step may still read the inputs that are replaced now.
        self.drain(0, &|| false)?;
        let mut caches = self.caches(inputs, sequences)?;
        let adapters = self.adapters(sequences, &mut caches)?;
        let capacity = (0..sequences.len()).filter_map(|i| sequences.get(i)).map(|kv| kv.spec().capacity).max();
        let capacity = capacity.unwrap_or(0);
        let (tables, media_width) = (self.tables(&ops, capacity), self.program.media_width());
        let sources = Sources {
            inputs,
            masks: &self.masks,
            weights: &self.model.weights,
            tables: &tables,
            media_width,
            draws: &draws,
        };
        let (placed, words) = sources.place(self.input_words)?;
        if words.len() > self.input_words {
            return Err(Error::invalid("the inputs of a step are larger than its limits"));
        }
        self.inputs.write(0, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())?;
        self.launched.clear();
        let is_kept = self.is_kept_at(ops.start);
        let mut ops = ops;
        if inputs.outputs.is_empty() {
            let of_media = self.program.of_media();
            let end = match self.keep {
                _ if is_kept => ops.start,
                _ if inputs.media.len() == inputs.ids.len() && !of_media.is_empty() => of_media.end.max(ops.start),
                keep => keep.unwrap_or(ops.end),
            };
            ops.end = ops.end.min(end);
        }
        let (tokens, outputs) = (inputs.ids.len(), inputs.outputs.len());
        self.step = Step {
            is_open: true,
            placed,
            ops,
            launches: Vec::new(),
            tokens,
            outputs,
            results: 0,
            capacity,
            is_kept,
            caches,
            adapters,
            draws,
            chosen: Vec::new(),
        };
        Ok(())
    }

    fn advance(&mut self, budget: &StepBudget) -> Result<bool> {
        if !self.step.is_open {
            return Err(Error::invalid("no step is open"));
        }
        let stop = &|| budget.pauses(Duration::ZERO);
        while !(self.step.ops.is_empty() && self.step.launches.is_empty()) {
            if stop() {
                self.submit_launches(&|| false)?;
                return Ok(false);
            }
            if self.step.ops.is_empty() || self.step.launches.len() >= self.pace {
                self.submit_launches(stop)?;
            } else {
                self.lower_op()?;
            }
        }
        if matches!(self.program.ops.last(), Some(Op::Logits { .. })) && self.step.ops.end == self.program.ops.len() {
            self.step.results = self.step.outputs;
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        self.drain(0, &|| false).map(|_| ())
    }

    fn ahead(&self) -> usize {
        0
    }

    fn graph_bytes(&self) -> u64 {
        0
    }

    fn follows(&self) -> bool {
        false
    }

    fn submit(&mut self) -> Result<()> {
        Err(Error::unsupported("pipelined steps are not supported on this GPU"))
    }

    fn collect(&mut self, _tokens: &mut [u32]) -> Result<()> {
        Err(Error::invalid("no step was submitted"))
    }

    fn crossing(&self) -> Option<Op> {
        None
    }

    fn pass_crossing(&mut self) {}

    fn rows(&self, tensor: TensorId) -> usize {
        self.place(tensor).0 / self.program.width(tensor).max(1)
    }

    fn kernels(&self) -> Vec<&'static str> {
        self.launched.clone()
    }

    fn times(&mut self) -> Times {
        Times::default()
    }
}
