//! Executes steps of a program on a GPU.
//!
//! Owns the memory and the stream of an executor, its place in the program, and the steps in flight: while one runs,
//! the next can be made and submitted. Relies on `Batch::check`.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::adapted::Adapted;
use super::args::{GEMV_ROWS, JoinArgs, KvPlace, SMALL_BATCH_ROWS, StepArgs};
use super::device::CudaModel;
use super::graph::Graphs;
use super::inputs::{InputStaging, Padded, Tilings, turns_ahead};
use super::launch::{Context, CudaKernel, Current, DeviceBuffer, Event, PinnedBuffer, Stream};
use super::lower::{Answers, Lowering, StepShape};
use super::profile::Profile;
use super::rules::{Needs, StepRules};
use super::scratch::{AttentionShape, DeviceScratch, ExecutorDims};
use super::sequence::{CudaSequence, KvView, places};
use crate::error::{Error, Result, try_vec};
use crate::gpu::fuse::Fusions;
use crate::gpu::{GpuExecutor, GpuSequence, own, own_mut};
use crate::graph::device_info::Times;
use crate::graph::op::{Attend, Op, TensorId};
use crate::graph::program::Program;
use crate::graph::step::{CHOSEN_BEFORE, OpenStep, Sequences, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::quant;
use crate::sampling::{NO_TOKEN, NOT_A_NUMBER};

/// Steps in flight: one that runs, one that waits for it, one that is being made. Few, because a text that ends early
/// discards the others.
const SLOTS: usize = 3;

/// Bytes of activations that the host may queue before it waits for the device.
const TRANSFER_BYTES: usize = 256 << 10;

/// The place of each memory after those before it.
fn memory_places(recurrent: &[usize]) -> Vec<u64> {
    let place = |end: &mut u64, values: &usize| Some(std::mem::replace(end, *end + *values as u64));
    recurrent.iter().scan(0, place).collect()
}

fn is_crossing(op: &Op) -> bool {
    matches!(op, Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. })
}

/// Tells whether each token is the only one of its sequence, and where there are several all are outputs.
fn is_apart(inputs: &StepInputs) -> bool {
    let n = inputs.ids.len();
    inputs.sequences.iter().copied().eq(0..n as u32) && (n == 1 || inputs.outputs.len() == n)
}

/// Queues values for `to` from some byte on; of `transfer` some bytes are in use.
fn queue_values(
    current: &Current,
    stream: &Stream,
    to: &DeviceBuffer,
    mut offset: usize,
    transfer: &mut PinnedBuffer,
    used: &mut usize,
    values: &[f32],
) -> Result<()> {
    for piece in values.chunks(TRANSFER_BYTES / 4) {
        let bytes = size_of_val(piece);
        if *used + bytes > TRANSFER_BYTES {
            current.synchronize(stream)?;
            *used = 0;
        }
        let room = &mut transfer.bytes_mut()[*used..][..bytes];
        room.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(to, v)| *to = v.to_le_bytes());
        current.upload(stream, to, offset, transfer, *used, bytes)?;
        *used += bytes;
        offset += bytes;
    }
    Ok(())
}

/// An executor of steps with a stream of its own.
pub struct CudaExecutor {
    /// First, because it waits for its work when it is dropped.
    stream: Stream,
    model: Arc<CudaModel>,
    program: Arc<Program>,
    /// Fusions in a part of the program, in all of it, and in all of it for steps with adapters, which add to a gate
    /// before that is one.
    fusions: [Fusions; 3],
    /// Place of `KeepOutputs`.
    keep: Option<usize>,
    /// Places of ops at which the host has a part of a step.
    crossings: Vec<usize>,
    has_head: bool,
    /// Bounds above which rotations change.
    rope_bounds: Vec<usize>,
    kv_places: Vec<KvPlace>,
    /// Places of recurrent states in a buffer of them, in values.
    memory_places: Vec<u64>,
    dims: ExecutorDims,
    /// Memory of everything in `scratch`.
    buffer: DeviceBuffer,
    scratch: DeviceScratch,
    inputs: InputStaging,
    /// `[SLOTS, max_outputs]`, the tokens that the device has chosen.
    answers: PinnedBuffer,
    /// The end of the last step of each slot.
    ended: Vec<Event>,
    /// Slot of the step that was opened last.
    slot: usize,
    /// Number of steps that were submitted and not collected, the newest ones.
    in_flight: usize,
    /// The step before has left its tokens on the device.
    leads: bool,
    /// Positions, turns ahead of them, spans and caches of the step that was begun last, where all its tokens were
    /// outputs.
    positions: Vec<u32>,
    turns: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
    caches: Vec<KvView>,
    adapted: Adapted,
    /// Values queued from the host, and the bytes taken since the last wait for the device.
    transfer: PinnedBuffer,
    transfer_used: usize,
    graphs: Graphs,
    profile: Option<Profile>,
    /// Names of the kernels that the step has launched, but for those of a record.
    launched: Vec<&'static CStr>,
    shape: StepShape,
    /// Arguments and tiles for all tokens and for the outputs alone, and the sequences of these.
    steps: [(StepArgs, Tilings); 2],
    rules: StepRules,
    kept_slots: Vec<u32>,
    /// The ops of the step that are left.
    ops: Range<usize>,
    /// The step has all ops of the program, or all up to `KeepOutputs`.
    whole: bool,
    /// No op of the step was queued.
    untouched: bool,
    /// Tokens and outputs of the step, without padding.
    rows: [usize; 2],
    /// Outputs with logits.
    outputs: usize,
    open: bool,
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
        let inputs = InputStaging::new(&current, SLOTS, limits, dims.tilings.len(), program.vocab)?;
        let answers = current.alloc_pinned(SLOTS * 4 * limits.max_outputs)?;
        let mut ended = try_vec("events", SLOTS)?;
        for _ in 0..SLOTS {
            ended.push(current.event(false)?);
        }
        let counters = (scratch.attention_counters - buffer.address()) as usize;
        current.clear(&stream, &buffer, counters, 4 * dims.counters())?;
        let shape = |weight| {
            let matrix = model.weights.matrix(weight);
            (matrix.dtype, matrix.rows)
        };
        let is_of_heads = |attend: &Attend| AttentionShape::new(program, attend).is_of_heads();
        let bound = |op: &Op| match op {
            Op::Rope { rope, .. } => rope.long.map(|(above, _)| above),
            _ => None,
        };
        Ok(CudaExecutor {
            fusions: [
                Fusions::none(program),
                device.fusions(program, shape),
                Fusions::all(program, |_, _| false, is_of_heads),
            ],
            keep: program.ops.iter().position(|op| matches!(op, Op::KeepOutputs { .. })),
            crossings: (0..program.ops.len()).filter(|&i| is_crossing(&program.ops[i])).collect(),
            has_head: matches!(program.ops.last(), Some(Op::Logits { .. })),
            rope_bounds: program.ops.iter().filter_map(bound).collect(),
            kv_places: places(&program.kv_layers)?,
            memory_places: memory_places(&program.recurrent),
            program: program.clone(),
            buffer,
            scratch,
            inputs,
            answers,
            ended,
            slot: 0,
            in_flight: 0,
            leads: false,
            positions: try_vec("outputs", limits.max_outputs)?,
            turns: try_vec("outputs", limits.max_outputs)?,
            spans: try_vec("outputs", limits.max_outputs)?,
            adapted: Adapted::default(),
            caches: Vec::new(),
            transfer: current.alloc_pinned(TRANSFER_BYTES)?,
            transfer_used: 0,
            graphs: Graphs::default(),
            profile: device.profile.then(Profile::default),
            launched: Vec::new(),
            shape: StepShape::default(),
            steps: Default::default(),
            rules: StepRules::default(),
            kept_slots: try_vec("outputs", limits.max_outputs)?,
            ops: 0..0,
            untouched: false,
            whole: false,
            rows: [0; 2],
            outputs: 0,
            open: false,
            stream,
            dims,
            model,
        })
    }

    /// The caches of the sequences of a step, which must be of this model.
    fn caches(&self, inputs: &StepInputs, sequences: &dyn Sequences<dyn GpuSequence>) -> Result<Vec<KvView>> {
        let mut caches = try_vec("a step's caches", sequences.len())?;
        for i in 0..sequences.len() {
            let of_program = (&self.program.kv_layers, &self.program.recurrent);
            let fits = |kv: &&CudaSequence| {
                Arc::ptr_eq(kv.context(), &self.model.device.context)
                    && (&kv.spec().layers, &kv.spec().recurrent) == of_program
            };
            let kv = sequences.get(i).and_then(CudaSequence::of).filter(fits);
            let kv = kv.ok_or_else(|| Error::Mismatch("a cache of another model".to_owned()))?;
            if self.program.recurrent.is_empty() {
                caches.push(kv.view(None, 0));
                continue;
            }
            let first = inputs.positions.get(inputs.sequences.partition_point(|&s| (s as usize) < i));
            let first = first.map_or(0, |&first| first as usize);
            let (from, to) = sequences.recurrent_buffers(i, first)?;
            // Those of an empty sequence are zeros, which no buffer has to hold.
            caches.push(kv.view((first > 0).then_some(from), to));
        }
        Ok(caches)
    }

    /// Number of rows that a step is computed with, where some of them may be padding: a token for each of several
    /// sequences takes as many as the next power of two, so that few records serve all batches.
    fn padded(&self, inputs: &StepInputs, ops: &Range<usize>) -> Option<usize> {
        let (n, limits) = (inputs.ids.len(), self.dims.limits);
        let pads = (3..=SMALL_BATCH_ROWS).contains(&n)
            && is_apart(inputs)
            && inputs.media.is_empty()
            && self.crossings.is_empty()
            && *ops == (0..self.program.ops.len());
        pads.then(|| n.next_power_of_two().min(limits.max_tokens).min(limits.max_outputs))
    }

    /// The place where a step without outputs ends: where rows of outputs alone go on, or behind the ops of rows of
    /// media where it has no other rows.
    fn end_without_outputs(&self, inputs: &StepInputs) -> usize {
        let (of_media, is_media) = (self.program.of_media(), inputs.media.len() == inputs.ids.len());
        match self.keep {
            _ if self.is_kept() => self.ops.start,
            _ if is_media && !of_media.is_empty() => of_media.end.max(self.ops.start),
            keep => keep.unwrap_or(self.ops.end),
        }
    }

    /// Queues the rows of media of a step, where ops read them.
    fn send_media(&mut self, current: &Current, inputs: &StepInputs) -> Result<()> {
        let width = self.program.media_width();
        if inputs.media.is_empty() || width == 0 {
            return Ok(());
        }
        let CudaExecutor { stream, transfer, transfer_used, buffer, scratch, steps, .. } = self;
        let offset = (scratch.media - buffer.address()) as usize;
        for (t, row) in inputs.media_rows() {
            let at = offset + 4 * t * width;
            queue_values(current, stream, buffer, at, transfer, transfer_used, &row[..width])?;
        }
        for (step, _) in steps {
            (step.media, step.media_width) = (scratch.media, width as u32);
        }
        Ok(())
    }

    /// Tells whether a step is the one after the last one, with the tokens that were chosen there: the device has moved
    /// ids, positions and rules on by itself.
    fn goes_on(&self, inputs: &StepInputs, caches: &[KvView]) -> bool {
        self.leads
            && self.has_head
            && inputs.ids.iter().all(|id| *id == CHOSEN_BEFORE)
            && inputs.outputs.len() == inputs.ids.len()
            && inputs.positions.iter().copied().eq(self.positions.iter().map(|position| position + 1))
            && (0..inputs.turns.len()).map(|t| turns_ahead(inputs, t)).eq(self.turns.iter().copied())
            && inputs.spans == self.spans
            && inputs.sequences == self.kept_slots
            && caches.len() == self.caches.len()
            && caches.iter().zip(&self.caches).all(|(kv, before)| kv.is_of_same(before))
    }

    /// Tells whether activations have rows for the outputs alone, which they may from the beginning in a part of a
    /// program.
    fn is_kept(&self) -> bool {
        self.keep.map_or(self.has_head, |keep| keep < self.ops.start)
    }

    /// What launches need to know of the step.
    pub(super) fn lowering<'a>(&'a mut self, current: &'a Current<'a>) -> Lowering<'a> {
        let (is_kept, shape, [all, kept]) = (self.is_kept(), self.shape, self.steps);
        let stride = self.dims.limits.max_outputs as u32;
        Lowering {
            model: &self.model,
            program: &self.program,
            fusions: &self.fusions[if self.whole { 1 + usize::from(shape.adapters != 0) } else { 0 }],
            dims: &self.dims,
            scratch: &self.scratch,
            tensors: &self.scratch.tensors[usize::from(shape.n == shape.n_outputs)],
            current,
            stream: &self.stream,
            shape: if is_kept { shape.kept() } else { shape },
            step: if is_kept { kept } else { all },
            kept_step: kept,
            answers: Answers { address: self.answers.address(), slots: SLOTS as u32, stride },
            rules: self.rules,
            adapted: &self.adapted,
            kv_places: &self.kv_places,
            memory_places: &self.memory_places,
            follows: false,
            profile: self.profile.as_mut(),
            launched: &mut self.launched,
        }
    }

    /// The token after output `i` of the step in a slot.
    fn answer(&self, slot: usize, i: usize) -> Result<u32> {
        let answers = self.answers.bytes().as_chunks().0;
        let answer = answers.get(slot * self.dims.limits.max_outputs + i).map(|b| u32::from_le_bytes(*b));
        let answer = answer.ok_or_else(|| Error::invalid(format!("output {i}")))?;
        let vocab = self.program.vocab;
        if answer as usize >= vocab && ![NO_TOKEN, NOT_A_NUMBER].contains(&answer) {
            return Err(self.context().lose(format!("token {answer} of {vocab} was chosen")));
        }
        Ok(answer)
    }

    fn check_output(&self, i: usize) -> Result<()> {
        let missing = || Error::invalid(format!("output {i} of {}", self.outputs));
        (i < self.outputs).then_some(()).ok_or_else(missing)
    }

    /// Copies values of `buffer` once all work has ended.
    fn download(&mut self, offset: usize, out: &mut [f32]) -> Result<()> {
        let context = self.model.device.context.clone();
        let (current, bytes) = (context.enter()?, size_of_val(out));
        let mut out = out.iter_mut();
        current.download(&self.stream, &self.buffer, offset, bytes, &mut self.transfer, &mut |piece| {
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

    /// The kernel that puts rows of two activations side by side.
    pub(super) fn join(&self) -> &CudaKernel<JoinArgs> {
        &self.model.device.kernels.join
    }

    pub(super) fn width(&self, tensor: TensorId) -> usize {
        self.program.width(tensor)
    }

    /// Number of outputs of the step.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Offset in `buffer` of the tokens that steps hand on.
    pub(super) fn tokens(&self) -> usize {
        (self.scratch.tokens - self.buffer.address()) as usize
    }

    /// Number of values of an activation, and its offset in `buffer`.
    pub(super) fn place(&self, tensor: TensorId) -> (usize, usize) {
        let rows = self.rows[usize::from(self.is_kept())];
        let address = self.scratch.tensors[usize::from(self.shape.n == self.shape.n_outputs)][tensor.0 as usize];
        (rows * self.program.width(tensor), (address - self.buffer.address()) as usize)
    }

    /// An executor as the type of this backend.
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
        self.check_output(i)?;
        self.answer(self.slot, i)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.finish()?;
        self.check_output(i)?;
        let vocab = self.program.vocab;
        if out.len() != vocab {
            return Err(Error::BufferTooSmall { needed: vocab, capacity: out.len() });
        }
        let offset = (self.scratch.logits - self.buffer.address()) as usize + 4 * vocab * i;
        self.download(offset, out)
    }

    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (len, offset) = self.place(tensor);
        if values.len() != len {
            return Err(Error::invalid(format!("{} values for the {len} of {tensor:?}", values.len())));
        }
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        let CudaExecutor { stream, buffer, transfer, transfer_used, .. } = self;
        queue_values(&current, stream, buffer, offset, transfer, transfer_used, values)
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
        let (width, n) = (self.program.width(tensor), self.rows[0]);
        let end = first.checked_mul(width).and_then(|values| values.checked_add(out.len()));
        if !self.program.kept.contains(&tensor) || end.is_none_or(|end| end > n * width) {
            let what = format!("{} values from row {first} of {tensor:?} on, of {n} rows of {width}", out.len());
            return Err(Error::invalid(what));
        }
        let (_, offset) = self.place(tensor);
        self.download(offset + 4 * first * width, out)
    }

    fn end(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        let idle = std::mem::take(&mut self.in_flight) == 0;
        self.leads = false;
        if open || !idle { self.finish() } else { Ok(()) }
    }
}

impl GpuExecutor for CudaExecutor {
    fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<dyn GpuSequence>,
        ops: Range<usize>,
    ) -> Result<()> {
        if self.in_flight == SLOTS {
            return Err(Error::invalid(format!("{} steps are under way", self.in_flight)));
        }
        let context = self.model.device.context.clone();
        // Reported now where the device is gone, before a caller has put work into the step.
        let current = context.enter()?;
        // The inputs of a step that was abandoned may still be on their way.
        if std::mem::take(&mut self.open) {
            current.synchronize(&self.stream)?;
            self.leads = false;
        }
        let mut caches = self.caches(inputs, sequences)?;
        let padded = self.padded(inputs, &ops);
        let n_slots = padded.unwrap_or(caches.len());
        if let Some(padding) = caches.first().map(KvView::padding) {
            caches.resize(n_slots, padding);
        }
        let goes_on = self.goes_on(inputs, &caches);
        self.slot = (self.slot + 1) % SLOTS;
        if goes_on {
            // Everything else has moved on where it is.
            if !self.program.recurrent.is_empty() {
                self.inputs.send_caches(&current, &self.stream, self.slot, &caches)?;
            }
        } else {
            let follows = inputs.ids.contains(&CHOSEN_BEFORE);
            if follows && (!inputs.rules.is_empty() || self.shape.needs != Needs::default()) {
                return Err(Error::invalid("rules of a step ahead that is not the one behind the last"));
            }
            self.kept_slots.clear();
            self.kept_slots.extend(inputs.outputs.iter().map(|&t| inputs.sequences[t as usize]));
            let padding = padded.map(|rows| (Padded::new(inputs), rows));
            let sent = padding.as_ref().map_or(*inputs, |(padding, rows)| padding.inputs(*rows, inputs));
            let (kept, tilings) = (&self.kept_slots[..], &self.dims.tilings[..]);
            (self.steps, self.rules) =
                self.inputs.send(&current, &self.stream, self.slot, &sent, kept, &caches, tilings)?;
            self.send_media(&current, inputs)?;
        }
        let CudaExecutor { stream, dims, adapted, buffer, scratch, transfer, transfer_used, .. } = self;
        let own = (scratch.adapters.factors - buffer.address()) as usize;
        adapted.begin(&current, stream, dims.limits.max_tokens, sequences, n_slots, |to, factors| {
            let (to, offset) = to.map_or((&*buffer, own), |to| (to, 0));
            queue_values(&current, stream, to, offset, transfer, transfer_used, factors)
        })?;
        let longest = inputs.positions.iter().max().map_or(1, |p| p + 1);
        let [n_tiles, kept_tiles] = self.steps.map(|(_, tilings)| tilings.map(|tiling| tiling.n as usize));
        let needs = match (goes_on, self.has_head) {
            (true, _) => self.shape.needs,
            (false, true) => Needs::of(inputs.rules, self.program.vocab),
            (false, false) => Needs::default(),
        };
        let is_longer = |bound: &usize| caches.iter().any(|kv| kv.capacity() > *bound);
        self.shape = StepShape {
            needs,
            n: padded.unwrap_or(inputs.ids.len()),
            n_outputs: padded.unwrap_or(inputs.outputs.len()),
            n_tiles,
            n_slots,
            padded: padded.is_some(),
            // Queries are turned between their norms and attention.
            alone: is_apart(inputs) && caches.iter().all(|kv| kv.k_type() != quant::Q4_0),
            kept_tiles,
            reach: self.dims.reach(longest),
            halves: caches.iter().all(|kv| (kv.k_type(), kv.v_type()) == (quant::F16, quant::F16)),
            fours: [
                caches.iter().any(|kv| kv.k_type() == quant::Q4_0),
                caches.iter().any(|kv| kv.v_type() == quant::Q4_0),
            ],
            longer_than: self.rope_bounds.iter().copied().filter(is_longer).max(),
            turns: !inputs.turns.is_empty(),
            spans: !inputs.spans.is_empty(),
            separate: inputs.separate && (2..=GEMV_ROWS).contains(&inputs.ids.len()) && !self.model.device.fixed,
            adapters: self.adapted.key,
        };
        self.positions.clear();
        self.turns.clear();
        self.spans.clear();
        if inputs.outputs.len() == inputs.ids.len() {
            self.positions.extend_from_slice(inputs.positions);
            self.turns.extend((0..inputs.turns.len()).map(|t| turns_ahead(inputs, t)));
            self.spans.extend_from_slice(inputs.spans);
        }
        self.caches = caches;
        self.rows = [inputs.ids.len(), inputs.outputs.len()];
        self.launched.clear();
        (self.whole, self.ops) = (ops == (0..self.program.ops.len()), ops);
        if inputs.outputs.is_empty() {
            self.ops.end = self.ops.end.min(self.end_without_outputs(inputs));
        }
        (self.untouched, self.outputs, self.open) = (true, 0, true);
        Ok(())
    }

    fn advance(&mut self, budget: &StepBudget) -> Result<bool> {
        let stop = &|| budget.pauses(Duration::ZERO);
        if !self.open {
            return Err(Error::invalid("no step is open"));
        }
        let next = self.crossings.partition_point(|at| *at < self.ops.start);
        let end = self.crossings.get(next).map_or(self.ops.end, |at| self.ops.end.min(*at));
        if self.ops.start == end {
            return Ok(true);
        }
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        let (shape, (all, _)) = (self.shape, self.steps[0]);
        let is_one = self.whole && self.crossings.is_empty();
        let most = if shape.padded { SMALL_BATCH_ROWS } else { GEMV_ROWS };
        let records = self.untouched && is_one && shape.n <= most && self.profile.is_none() && all.media == 0;
        let (ops, mut graphs) = (self.ops.clone(), std::mem::take(&mut self.graphs));
        let mut lowering = self.lowering(&current);
        let stream = lowering.stream;
        let mut launch = |stop: &dyn Fn() -> bool| {
            lowering.follows = false;
            lowering.run(ops.start..end, stop)
        };
        // A record stands for a whole step.
        let recorded = match records && !stop() {
            true => graphs.queue(&current, stream, &ops, shape, || launch(&|| false).map(|_| ())),
            false => Ok(false),
        };
        let start = recorded.and_then(|recorded| if recorded { Ok(ops.end) } else { launch(stop) });
        self.graphs = graphs;
        self.ops.start = start?;
        self.untouched = false;
        let done = self.ops.start == end;
        if self.ops.is_empty() && matches!(self.program.ops[..self.ops.end].last(), Some(Op::Logits { .. })) {
            self.outputs = self.rows[1];
        }
        Ok(done)
    }

    fn finish(&mut self) -> Result<()> {
        let context = self.model.device.context.clone();
        let current = context.enter()?;
        current.synchronize(&self.stream)?;
        self.transfer_used = 0;
        self.profile.as_mut().map_or(Ok(()), |profile| profile.settle(&current))
    }

    fn crossing(&self) -> Option<Op> {
        self.program.ops[..self.ops.end].get(self.ops.start).filter(|op| is_crossing(op)).cloned()
    }

    fn rows(&self, tensor: TensorId) -> usize {
        self.place(tensor).0 / self.program.width(tensor).max(1)
    }

    fn pass_crossing(&mut self) {
        self.ops.start += usize::from(self.crossing().is_some());
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
        self.leads
    }

    fn submit(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.open) {
            return Err(Error::invalid("no step is open"));
        }
        if self.has_head {
            self.check_output(0)?;
        }
        let context = self.model.device.context.clone();
        context.enter()?.record(&self.stream, &self.ended[self.slot])?;
        self.in_flight += 1;
        self.leads = true;
        Ok(())
    }

    fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        let Some(newer) = self.in_flight.checked_sub(1) else {
            return Err(Error::invalid("no step was submitted"));
        };
        let slot = (self.slot + SLOTS - newer) % SLOTS;
        self.model.device.context.enter()?.wait(&self.ended[slot])?;
        self.in_flight = newer;
        tokens.iter_mut().enumerate().try_for_each(|(i, token)| self.answer(slot, i).map(|answer| *token = answer))
    }
}
