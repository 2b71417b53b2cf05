//! Executes steps of a program on a GPU.
//!
//! Owns the memory and the stream of an executor, its progress in the program, and the steps in flight: while one step
//! runs, the next step can be prepared and submitted. `Batch::check` has validated the inputs of each step.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::adapted::Adapted;
use super::args::{GEMV_ROWS, JoinArgs, SMALL_BATCH_ROWS};
use super::device::CudaModel;
use super::graph::Graphs;
use super::inputs::{InputStaging, Padded};
use super::launch::{Context, CudaKernel, Current, DeviceBuffer, Stream};
use super::lower::{Lowering, StepShape, TileCounts};
use super::prepared::{PreparedProgram, has_single_tokens};
use super::profile::Profile;
use super::rules::Needs;
use super::scratch::{DeviceScratch, ExecutorDims};
use super::sequence::{CudaSequence, KvView};
use super::steps::{CudaStep, Flight, LastTokens, SLOTS, Stage};
use super::upload::UploadQueue;
use crate::error::{Error, Result, try_vec};
use crate::gpu::{GpuExecutor, GpuSequence, own, own_mut};
use crate::graph::device_info::Times;
use crate::graph::op::{Op, TensorId};
use crate::graph::program::Program;
use crate::graph::step::{CHOSEN_BEFORE, OpenStep, Sequences, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::quant;
use crate::sampling::{NO_TOKEN, NOT_A_NUMBER};

/// An executor of steps with its own stream.
pub struct CudaExecutor {
    /// First field, because its drop waits for the work.
    stream: Stream,
    model: Arc<CudaModel>,
    prepared: PreparedProgram,
    dims: ExecutorDims,
    /// Memory of everything in `scratch`.
    buffer: DeviceBuffer,
    scratch: DeviceScratch,
    inputs: InputStaging,
    adapted: Adapted,
    uploads: UploadQueue,
    stage: Stage,
    step: CudaStep,
    /// The tokens of `step`.
    last: LastTokens,
    flight: Flight,
    graphs: Graphs,
    profile: Option<Profile>,
    /// Names of the kernels that the step has launched, except kernels of CUDA graphs.
    launched: Vec<&'static CStr>,
}

impl CudaExecutor {
    pub fn new(model: Arc<CudaModel>, program: &Arc<Program>, limits: StepLimits) -> Result<CudaExecutor> {
        let device = &model.device;
        let dims = device.dims(program, limits)?;
        let (_, bytes) = DeviceScratch::at(0, &dims, program)?;
        let context = device.context.clone();
        let current = context.enter()?;
        let stream = current.stream()?;
        let buffer = current.alloc("activations", bytes)?;
        let (scratch, _) = DeviceScratch::at(buffer.address(), &dims, program)?;
        let inputs = InputStaging::new(&current, SLOTS, &dims, program.vocab)?;
        let flight = Flight::new(&current, limits.max_outputs)?;
        let counters = (scratch.attention_counters - buffer.address()) as usize;
        current.clear(&stream, &buffer, counters, 4 * dims.counters())?;
        Ok(CudaExecutor {
            prepared: PreparedProgram::new(&model, program)?,
            buffer,
            scratch,
            inputs,
            adapted: Adapted::new(limits.max_tokens),
            uploads: UploadQueue::new(&current)?,
            stage: Stage::Idle,
            step: CudaStep::default(),
            last: LastTokens::new(limits.max_outputs)?,
            flight,
            graphs: Graphs::default(),
            profile: device.profile.then(Profile::default),
            launched: Vec::new(),
            stream,
            dims,
            model,
        })
    }

    /// Returns the caches of the sequences of a step, which must belong to this model.
    fn caches(&self, inputs: &StepInputs, sequences: &dyn Sequences<dyn GpuSequence>) -> Result<Vec<KvView>> {
        let mut caches = try_vec("a step's caches", sequences.len())?;
        for i in 0..sequences.len() {
            let of_program = (&self.prepared.program.kv_layers, &self.prepared.program.recurrent);
            let fits = |kv: &&CudaSequence| {
                Arc::ptr_eq(kv.context(), &self.model.device.context)
                    && (&kv.spec().layers, &kv.spec().recurrent) == of_program
            };
            let kv = sequences.get(i).and_then(CudaSequence::of).filter(fits);
            let kv = kv.ok_or_else(|| Error::Mismatch("the cache belongs to another model".to_owned()))?;
            if self.prepared.program.recurrent.is_empty() {
                caches.push(kv.view(None, 0));
                continue;
            }
            let first = inputs.positions.get(inputs.sequences.partition_point(|&s| (s as usize) < i));
            let first = first.map_or(0, |&first| first as usize);
            let (from, to) = sequences.recurrent_buffers(i, first)?;
            // The states of an empty sequence are zeros, which need no buffer.
            caches.push(kv.view((first > 0).then_some(from), to));
        }
        Ok(caches)
    }

    /// Queues the copy of a step's media rows, if ops read them.
    fn send_media(&mut self, current: &Current, inputs: &StepInputs) -> Result<()> {
        let width = self.prepared.program.media_width();
        if inputs.media.is_empty() || width == 0 {
            return Ok(());
        }
        let offset = (self.scratch.media - self.buffer.address()) as usize;
        for (t, row) in inputs.media_rows() {
            let to = self.buffer.at(offset + 4 * t * width);
            self.uploads.queue(current, &self.stream, to, &row[..width])?;
        }
        for tokens in [&mut self.step.sent.all, &mut self.step.sent.kept] {
            (tokens.args.media, tokens.args.media_width) = (self.scratch.media, width as u32);
        }
        Ok(())
    }

    /// Returns the shape of a new step. `padded`: number of rows including padding; `goes_on`: true if the step
    /// continues from the previous one.
    fn shape(&self, inputs: &StepInputs, caches: &[KvView], padded: Option<usize>, goes_on: bool) -> StepShape {
        let (sent, device) = (&self.step.sent, &self.model.device);
        let longest = inputs.positions.iter().max().map_or(1, |p| p + 1);
        let is_longer = |bound: &usize| caches.iter().any(|kv| kv.capacity() > *bound);
        StepShape {
            needs: match (goes_on, self.prepared.has_head) {
                (true, _) => self.step.shape.needs,
                (false, true) => Needs::of(inputs.rules, self.prepared.program.vocab),
                (false, false) => Needs::default(),
            },
            n: padded.unwrap_or(inputs.ids.len()),
            n_outputs: padded.unwrap_or(inputs.outputs.len()),
            tiles: TileCounts::of(&sent.all),
            n_slots: caches.len(),
            padded: padded.is_some(),
            // 4-bit caches need a Hadamard transform of queries between their norms and attention.
            single_tokens: has_single_tokens(inputs) && caches.iter().all(|kv| kv.k_type() != quant::Q4_0),
            kept_tiles: TileCounts::of(&sent.kept),
            reach: self.dims.reach(longest),
            halves: caches.iter().all(|kv| (kv.k_type(), kv.v_type()) == (quant::F16, quant::F16)),
            fours: [
                caches.iter().any(|kv| kv.k_type() == quant::Q4_0),
                caches.iter().any(|kv| kv.v_type() == quant::Q4_0),
            ],
            longer_than: self.prepared.rope_bounds.iter().copied().filter(is_longer).max(),
            has_rope_positions: !inputs.rope_positions.is_empty(),
            spans: !inputs.spans.is_empty(),
            separate: inputs.separate && (2..=GEMV_ROWS).contains(&inputs.ids.len()) && !device.is_batch_invariant,
            adapters: self.adapted.key,
        }
    }

    /// Returns the context for launches of the step.
    pub(super) fn lowering<'a>(&'a mut self, current: &'a Current<'a>) -> Lowering<'a> {
        let CudaStep { shape, sent, is_whole, .. } = self.step;
        let is_kept = self.is_kept();
        Lowering {
            model: &self.model,
            program: &self.prepared.program,
            fusions: self.prepared.fusions(is_whole, shape.adapters != 0),
            dims: &self.dims,
            scratch: &self.scratch,
            tensors: self.scratch.tensors(shape.keeps_all()),
            current,
            stream: &self.stream,
            shape: if is_kept { shape.kept() } else { shape },
            step: if is_kept { sent.kept } else { sent.all },
            kept_step: sent.kept,
            sampled: self.flight.sampled(),
            rules: sent.rules,
            adapted: &self.adapted,
            kv_places: &self.prepared.kv_places,
            recurrent_offsets: &self.prepared.recurrent_offsets,
            follows: false,
            profile: self.profile.as_mut(),
            launched: &mut self.launched,
        }
    }

    /// True if activations now hold only output rows.
    fn is_kept(&self) -> bool {
        self.prepared.is_kept(self.step.ops.start)
    }

    /// Returns the token after output `i` of the step in a slot.
    fn sampled_token(&self, slot: usize, i: usize) -> Result<u32> {
        let (token, vocab) = (self.flight.sampled_token(slot, i)?, self.prepared.program.vocab);
        if token as usize >= vocab && ![NO_TOKEN, NOT_A_NUMBER].contains(&token) {
            return Err(self.context().lose(format!("token {token} of {vocab} was chosen")));
        }
        Ok(token)
    }

    /// Copies values of `buffer` to the host after all work has ended.
    fn download(&mut self, offset: usize, out: &mut [f32]) -> Result<()> {
        let context = self.model.device.context.clone();
        let (current, bytes) = (context.enter()?, size_of_val(out));
        let mut out = out.iter_mut();
        current.download(&self.stream, self.buffer.at(offset), bytes, self.uploads.memory(), &mut |piece| {
            piece.as_chunks().0.iter().zip(&mut out).for_each(|(bytes, to)| *to = f32::from_le_bytes(*bytes));
            Ok(())
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.model.device.context
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn buffer(&self) -> &DeviceBuffer {
        &self.buffer
    }

    /// Returns the kernel that joins rows of two activations.
    pub(super) fn join(&self) -> &CudaKernel<JoinArgs> {
        &self.model.device.kernels.join
    }

    pub(super) fn width(&self, tensor: TensorId) -> usize {
        self.prepared.program.width(tensor)
    }

    /// Returns the number of outputs of the step that have logits.
    pub(super) fn results(&self) -> usize {
        self.step.results
    }

    /// Returns the offset in `buffer` of the sampled tokens.
    pub(super) fn tokens(&self) -> usize {
        (self.scratch.tokens - self.buffer.address()) as usize
    }

    /// Returns the number of values of an activation, and its offset in `buffer`.
    pub(super) fn place(&self, tensor: TensorId) -> (usize, usize) {
        let rows = if self.is_kept() { self.step.outputs } else { self.step.tokens };
        let address = self.scratch.tensors(self.step.shape.keeps_all())[tensor.0 as usize];
        (rows * self.width(tensor), (address - self.buffer.address()) as usize)
    }

    /// Downcasts an executor to the type of this backend.
    pub(super) fn of(executor: &dyn GpuExecutor) -> Result<&CudaExecutor> {
        own(executor, "an executor")
    }

    pub(super) fn of_mut(executor: &mut dyn GpuExecutor) -> Result<&mut CudaExecutor> {
        own_mut(executor, "an executor")
    }
}

impl OpenStep for CudaExecutor {
    fn token(&mut self, i: usize) -> Result<u32> {
        self.finish()?;
        self.step.check_output(i)?;
        self.sampled_token(self.flight.slot(), i)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        self.step.check_output(i)?;
        let vocab = self.prepared.program.vocab;
        if out.len() != vocab {
            return Err(Error::BufferTooSmall { needed: vocab, capacity: out.len() });
        }
        let offset = (self.scratch.logits - self.buffer.address()) as usize + 4 * vocab * i;
        self.download(offset, out)
    }

    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (len, offset) = self.place(tensor);
        if values.len() != len {
            return Err(Error::invalid(format!("{tensor:?} needs {len} values, {} are given", values.len())));
        }
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        self.uploads.queue(&current, &self.stream, self.buffer.at(offset), values)
    }

    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        let (len, offset) = self.place(tensor);
        if out.len() != len {
            return Err(Error::BufferTooSmall { needed: len, capacity: out.len() });
        }
        self.download(offset, out)
    }

    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        let (width, n) = (self.width(tensor), self.step.tokens);
        let end = first.checked_mul(width).and_then(|values| values.checked_add(out.len()));
        if !self.prepared.program.kept.contains(&tensor) || end.is_none_or(|end| end > n * width) {
            let what = format!("{} values from row {first} of {tensor:?} on, of {n} rows of {width}", out.len());
            return Err(Error::invalid(what));
        }
        let (_, offset) = self.place(tensor);
        self.download(offset + 4 * first * width, out)
    }

    fn end(&mut self) -> Result<()> {
        let is_open = matches!(std::mem::replace(&mut self.stage, Stage::Idle), Stage::Open { .. });
        let is_in_flight = self.flight.abandon();
        if is_open || is_in_flight { self.finish() } else { Ok(()) }
    }
}

impl GpuExecutor for CudaExecutor {
    fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<dyn GpuSequence>,
        ops: Range<usize>,
    ) -> Result<()> {
        self.flight.check_room()?;
        let context = self.model.device.context.clone();
        // A lost device is reported now, before a caller has put work into the step.
        let current = context.enter()?;
        // The inputs of an abandoned step may still be in transfer.
        if let Stage::Open { .. } = self.stage {
            self.stage = Stage::Idle;
            current.synchronize(&self.stream)?;
        }
        let mut caches = self.caches(inputs, sequences)?;
        let padded = self.prepared.padded(inputs, &ops, self.dims.limits);
        let n_slots = padded.unwrap_or(caches.len());
        if let Some(padding) = caches.first().map(KvView::padding) {
            caches.resize(n_slots, padding);
        }
        let goes_on = self.stage.follows() && self.prepared.has_head && self.last.lead_to(inputs, &caches);
        let slot = self.flight.next_slot();
        if goes_on {
            // The device itself has advanced all inputs except the recurrent buffers.
            if !self.prepared.program.recurrent.is_empty() {
                self.inputs.send_caches(&current, &self.stream, slot, &caches)?;
            }
        } else {
            let follows = inputs.ids.contains(&CHOSEN_BEFORE);
            if follows && (!inputs.rules.is_empty() || self.step.shape.needs != Needs::default()) {
                return Err(Error::invalid("rules of a step ahead that does not follow the last"));
            }
            let padding = padded.map(|rows| (Padded::new(inputs), rows));
            let sent = padding.as_ref().map_or(*inputs, |(padding, rows)| padding.inputs(*rows, inputs));
            self.step.sent = self.inputs.send(&current, &self.stream, slot, &sent, &caches)?;
            self.send_media(&current, inputs)?;
        }
        let CudaExecutor { stream, adapted, buffer, scratch, uploads, .. } = self;
        let own = buffer.at((scratch.adapters.factors - buffer.address()) as usize);
        adapted.begin(&current, stream, sequences, n_slots, |to, factors| {
            uploads.queue(&current, stream, to.map_or(own, |to| to.at(0)), factors)
        })?;
        let shape = self.shape(inputs, &caches, padded, goes_on);
        self.launched.clear();
        self.step = CudaStep {
            shape,
            sent: self.step.sent,
            is_whole: self.prepared.is_whole(&ops),
            tokens: inputs.ids.len(),
            outputs: inputs.outputs.len(),
            results: 0,
            ops,
        };
        if inputs.outputs.is_empty() {
            let end = self.prepared.end_without_outputs(inputs, &self.step.ops);
            self.step.ops.end = self.step.ops.end.min(end);
        }
        self.last.set(inputs, caches);
        self.stage = Stage::Open { is_untouched: true, follows: self.stage.follows() };
        Ok(())
    }

    fn advance(&mut self, budget: &StepBudget) -> Result<bool> {
        let stop = &|| budget.pauses(Duration::ZERO);
        let Stage::Open { is_untouched, follows } = self.stage else {
            return Err(Error::invalid("no step is open"));
        };
        let ops = self.step.ops.clone();
        let end = self.prepared.end_on_device(&ops);
        if ops.start == end {
            return Ok(true);
        }
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        let CudaStep { shape, sent, is_whole, .. } = self.step;
        let is_one = is_whole && self.prepared.is_of_device();
        let most = if shape.padded { SMALL_BATCH_ROWS } else { GEMV_ROWS };
        let records = is_untouched && is_one && shape.n <= most && self.profile.is_none() && sent.all.args.media == 0;
        let mut graphs = std::mem::take(&mut self.graphs);
        let mut lowering = self.lowering(&current);
        let stream = lowering.stream;
        let mut launch = |stop: &dyn Fn() -> bool| {
            lowering.follows = false;
            lowering.run(ops.start..end, stop)
        };
        // A CUDA graph covers a whole step.
        let recorded = match records && !stop() {
            true => graphs.queue(&current, stream, &ops, shape, || launch(&|| false).map(|_| ())),
            false => Ok(false),
        };
        let start = recorded.and_then(|recorded| if recorded { Ok(ops.end) } else { launch(stop) });
        self.graphs = graphs;
        self.step.ops.start = start?;
        self.stage = Stage::Open { is_untouched: false, follows };
        let last = self.prepared.program.ops[..ops.end].last();
        if self.step.ops.is_empty() && matches!(last, Some(Op::Logits { .. })) {
            self.step.results = self.step.outputs;
        }
        Ok(self.step.ops.start == end)
    }

    fn finish(&mut self) -> Result<()> {
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        current.synchronize(&self.stream)?;
        self.uploads.restart();
        self.profile.as_mut().map_or(Ok(()), |profile| profile.settle(&current))
    }

    fn graph_bytes(&self) -> u64 {
        if self.prepared.is_of_device() { Graphs::bytes(self.prepared.launches(), self.dims.reaches()) } else { 0 }
    }

    fn crossing(&self) -> Option<Op> {
        self.prepared.crossing(&self.step.ops).cloned()
    }

    fn rows(&self, tensor: TensorId) -> usize {
        self.place(tensor).0 / self.width(tensor).max(1)
    }

    fn pass_crossing(&mut self) {
        self.step.ops.start += usize::from(self.prepared.crossing(&self.step.ops).is_some());
    }

    fn kernels(&self) -> Vec<&'static str> {
        self.launched.iter().map(|name| name.to_str().unwrap_or_default()).collect()
    }

    fn times(&mut self) -> Times {
        self.profile.as_mut().map_or_else(Times::default, Profile::take)
    }

    fn ahead(&self) -> usize {
        if self.model.device.profile { 0 } else { SLOTS }
    }

    fn follows(&self) -> bool {
        self.stage.follows()
    }

    fn submit(&mut self) -> Result<()> {
        let Stage::Open { .. } = self.stage else {
            return Err(Error::invalid("no step is open"));
        };
        self.stage = Stage::Idle;
        if self.prepared.has_head {
            self.step.check_output(0)?;
        }
        let context = self.model.device.context.clone();
        self.flight.submit(&context.enter()?, &self.stream)?;
        self.stage = Stage::Submitted;
        Ok(())
    }

    fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        let context = self.model.device.context.clone();
        let slot = self.flight.land(&context.enter()?)?;
        tokens
            .iter_mut()
            .enumerate()
            .try_for_each(|(i, token)| self.sampled_token(slot, i).map(|sampled| *token = sampled))
    }
}
