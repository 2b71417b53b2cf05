//! Executes the verbs of steps on a GPU.
//!
//! Verbs are gathered and launched when a result is asked for or the step ends. Owns the memory and the stream of an
//! executor, the check of a batch against them, and the steps in flight: while one runs, the next can be made and submitted.
//! Refuses to know which kernels a verb becomes.

use std::sync::Arc;

use super::device::Cuda;
use super::graph::Graphs;
use super::inputs::StepInputs;
use super::kv::CudaKv;
use super::launch::{Current, DeviceBuffer, Event, PinnedBuffer, Stream};
use super::lower::{ActivationState, Lowering, MAX_SEGMENTS, Projections, StepShape, Verb};
use super::module::{KvLayer, StepArgs};
use super::probe::Address;
use super::profile::Profile;
use super::scratch::{DeviceScratch, ExecutorDims};
use crate::backend::{
    Act, Activation, Attention, Batch, Exec, Experts, FOLLOWING, Kv, Norm, Projection, RopeTable, Routing, Times,
    Vector, Weight,
};
use crate::error::{Error, Result, try_vec};
use crate::quant;

/// Steps in flight: one that runs, one that waits for it, one that is being made. Few, because a text that ends early
/// discards the others.
const SLOTS: usize = 3;

/// Bytes of activations that the host may queue before it waits for the device.
const TRANSFER_BYTES: usize = 256 << 10;

/// An executor of steps with a stream of its own.
pub struct CudaExecutor {
    /// First, because it waits for its work when it is dropped.
    stream: Stream,
    cuda: Arc<Cuda>,
    dims: ExecutorDims,
    /// Memory of everything in `scratch`.
    buffer: DeviceBuffer,
    scratch: DeviceScratch,
    inputs: StepInputs,
    /// `[SLOTS, max_outputs]`, the arg-maxes that the device writes.
    answers: PinnedBuffer,
    /// For each slot the end of its last step.
    ended: Vec<Event>,
    /// Slot of the step that was opened last.
    slot: usize,
    /// Number of steps that were submitted and not collected, the newest ones.
    in_flight: usize,
    /// The step before has left an arg-max on the device.
    leads: bool,
    /// Activations queued from the host, and the bytes taken since the last wait for the device.
    transfer: PinnedBuffer,
    transfer_used: usize,
    verbs: Vec<Verb>,
    graphs: Graphs,
    profile: Option<Profile>,
    shape: StepShape,
    /// Layers of the step's caches.
    kv_layers: Vec<KvLayer>,
    step: StepArgs,
    /// Arguments for the outputs alone, and their sequences.
    kept_step: StepArgs,
    kept_slots: Vec<u32>,
    state: ActivationState,
    open: bool,
}

impl CudaExecutor {
    pub fn new(cuda: Arc<Cuda>, dims: ExecutorDims) -> Result<CudaExecutor> {
        let (_, bytes) = DeviceScratch::at(0, &dims)?;
        let context = cuda.context.clone();
        let current = context.enter()?;
        let stream = current.stream()?;
        let buffer = current.alloc("activations", bytes)?;
        let (scratch, _) = DeviceScratch::at(buffer.address(), &dims)?;
        let inputs = StepInputs::new(&current, SLOTS, dims.max_tokens, dims.max_outputs)?;
        let answers = current.alloc_pinned(SLOTS * 4 * dims.max_outputs)?;
        let mut ended = try_vec("events", SLOTS)?;
        for _ in 0..SLOTS {
            ended.push(current.event(false)?);
        }
        let counters = (scratch.attention_counters - buffer.address()) as usize;
        current.clear(&stream, &buffer, counters, 4 * dims.counters())?;
        Ok(CudaExecutor {
            buffer,
            state: ActivationState::new(&dims, &scratch),
            scratch,
            inputs,
            answers,
            ended,
            slot: 0,
            in_flight: 0,
            leads: false,
            transfer: current.alloc_pinned(TRANSFER_BYTES)?,
            transfer_used: 0,
            verbs: try_vec("verbs", 256)?,
            graphs: Graphs::default(),
            profile: cuda.profile.then(Profile::default),
            shape: StepShape::default(),
            kv_layers: Vec::new(),
            step: StepArgs::default(),
            kept_step: StepArgs::default(),
            kept_slots: try_vec("outputs", dims.max_outputs)?,
            open: false,
            stream,
            dims,
            cuda,
        })
    }

    /// Checks a batch against this executor and returns its caches.
    fn caches<'b>(&self, batch: &'b Batch) -> Result<Vec<&'b CudaKv>> {
        let n = batch.ids.len();
        if n == 0
            || n > self.dims.max_tokens
            || batch.outputs.len() > self.dims.max_outputs
            || batch.kvs.len() > self.dims.max_tokens
        {
            return Err(Error::invalid(format!(
                "a step of {n} tokens, {} outputs and {} caches; 1 to {} and 0 to {} fit",
                batch.outputs.len(),
                batch.kvs.len(),
                self.dims.max_tokens,
                self.dims.max_outputs
            )));
        }
        if batch.positions.len() != n || batch.slots.len() != n {
            let (positions, slots) = (batch.positions.len(), batch.slots.len());
            return Err(Error::invalid(format!("{n} ids, {positions} positions, {slots} slots")));
        }
        if !batch.outputs.is_sorted_by(|a, b| a < b) || batch.outputs.last().is_some_and(|&last| last as usize >= n) {
            return Err(Error::invalid(format!("outputs {:?} of {n} tokens", batch.outputs)));
        }
        let mut caches = try_vec("a step's caches", batch.kvs.len())?;
        for kv in batch.kvs.iter() {
            let fits = |own: &&CudaKv| {
                let (spec, dims) = (own.spec(), &self.dims);
                Arc::ptr_eq(own.context(), &self.cuda.context)
                    && (spec.n_kv_heads, spec.head_dim) == (dims.kv_heads, dims.head_dim)
                    && caches.first().is_none_or(|first: &&CudaKv| first.layers() == own.layers())
            };
            match kv.own::<CudaKv>().filter(fits) {
                Some(own) => caches.push(own),
                None => return Err(Error::Mismatch(format!("a cache of {:?} with another model", kv.spec()))),
            }
        }
        for (&position, &slot) in batch.positions.iter().zip(batch.slots) {
            let Some(kv) = caches.get(slot as usize) else {
                return Err(Error::invalid(format!("slot {slot} of {} caches", caches.len())));
            };
            let capacity = kv.spec().capacity;
            if position as usize >= capacity {
                return Err(Error::ContextFull { len: position as usize, capacity, more: 1 });
            }
        }
        let ascend = |i: usize| batch.slots[i] != batch.slots[i - 1] || batch.positions[i] > batch.positions[i - 1];
        if !(1..n).all(ascend) {
            return Err(Error::invalid("the tokens of a sequence are not in order"));
        }
        Ok(caches)
    }

    /// Queues the verbs gathered so far; with `fuse` they may share kernels, which leaves out results that nobody reads.
    fn flush(&mut self, current: &Current, fuse: bool) -> Result<()> {
        if self.verbs.is_empty() {
            return Ok(());
        }
        // Not part of a record, because steps have their inputs in different slots.
        let whole = self.inputs.upload(current, &self.stream, self.slot)?;
        let CudaExecutor { cuda, dims, scratch, stream, inputs, verbs, kv_layers, state, graphs, profile, .. } = self;
        let (mut shape, mut step, kept_step) = (self.shape, self.step, self.kept_step);
        if state.kept {
            (shape, step) = (shape.kept(), kept_step);
        }
        let mut launch = || {
            let mut lowering = Lowering {
                cuda,
                dims,
                scratch,
                current,
                stream,
                shape,
                step,
                kept_step,
                answers: inputs.answers(),
                kv_layers,
                state: *state,
                fuse,
                pending: None,
                follows: false,
                profile: profile.as_mut(),
            };
            lowering.run(verbs)?;
            Ok(lowering.state)
        };
        // A record stands for a whole step.
        let result = match fuse && whole && shape.n == 1 && !cuda.profile {
            true => graphs.run(current, stream, shape, verbs, launch),
            false => launch(),
        };
        self.verbs.clear();
        self.state = result?;
        Ok(())
    }

    fn push(&mut self, verb: Verb) -> Result<()> {
        if !self.open {
            return Err(Error::invalid("no step is open"));
        }
        self.verbs.push(verb);
        Ok(())
    }

    /// Queues the verbs gathered so far and waits for their end.
    fn finish(&mut self, fuse: bool) -> Result<()> {
        let context = self.cuda.context.clone();
        let current = context.enter()?;
        self.flush(&current, fuse)?;
        current.synchronize(&self.stream)?;
        self.transfer_used = 0;
        self.profile.as_mut().map_or(Ok(()), |profile| profile.settle(&current))
    }

    /// Checks that `table` has all of `rows`.
    fn check_rows(&self, table: Weight, rows: &[u32]) -> Result<()> {
        let n = self.cuda.weight(table)?.matrix.rows;
        let leads = self.leads;
        match rows.iter().find(|&&row| row >= n && !(row == FOLLOWING && leads)) {
            Some(row) => Err(Error::invalid(format!("row {row} of an embedding with {n}"))),
            None => Ok(()),
        }
    }

    /// Offset in `buffer` of an activation of `len` values.
    fn offset(&self, act: Act, len: usize) -> Result<usize> {
        let n = if self.state.kept { self.shape.n_outputs } else { self.shape.n };
        let expected = n * self.state.widths[act as usize];
        if len != expected {
            return Err(Error::invalid(format!("{len} values for the {expected} of {act:?}")));
        }
        Ok((self.state.acts[act as usize] - self.buffer.address()) as usize)
    }

    /// The arg-max of output `i` of the step in a slot.
    fn answer(&self, slot: usize, i: usize) -> Result<u32> {
        let answers = self.answers.bytes().as_chunks().0;
        let answer = answers.get(slot * self.dims.max_outputs + i).map(|b| u32::from_le_bytes(*b));
        answer.ok_or_else(|| Error::invalid(format!("output {i}")))
    }

    fn check_output(&self, i: usize) -> Result<()> {
        match i < self.state.outputs {
            true => Ok(()),
            false => Err(Error::invalid(format!("output {i} of {}", self.state.outputs))),
        }
    }
}

impl Exec for CudaExecutor {
    fn max_tokens(&self) -> usize {
        self.dims.max_tokens
    }

    fn begin(&mut self, batch: &Batch) -> Result<()> {
        self.open = false;
        self.verbs.clear();
        if self.in_flight == SLOTS {
            return Err(Error::invalid(format!("{} steps are under way", self.in_flight)));
        }
        self.state = ActivationState::new(&self.dims, &self.scratch);
        let caches = self.caches(batch)?;
        if caches.first().is_some_and(|kv| kv.layers() != self.kv_layers) {
            self.graphs = Graphs::default();
            self.kv_layers = caches[0].layers().to_vec();
        }
        self.kept_slots.clear();
        self.kept_slots.extend(batch.outputs.iter().map(|&t| batch.slots[t as usize]));
        self.slot = (self.slot + 1) % SLOTS;
        let answers = self.answers.address() + (4 * self.dims.max_outputs * self.slot) as Address;
        let most = self.dims.tile_tokens();
        (self.step, self.kept_step) = self.inputs.write(self.slot, answers, batch, &self.kept_slots, &caches, most);
        let longest = batch.positions.iter().max().map_or(1, |p| p + 1);
        let (n_tiles, kept_tiles) = (self.step.n_tiles as usize, self.kept_step.n_tiles as usize);
        self.shape = StepShape {
            n: batch.ids.len(),
            n_outputs: batch.outputs.len(),
            n_tiles,
            n_slots: caches.len(),
            splits: self.dims.splits(n_tiles, longest),
            kept_tiles,
            kept_splits: self.dims.splits(kept_tiles, longest),
            halves: caches.iter().all(|kv| (kv.spec().k_type, kv.spec().v_type) == (quant::F16, quant::F16)),
        };
        // Told now where the device is gone, before a caller has put work into the step.
        drop(self.cuda.context.enter()?);
        self.open = true;
        Ok(())
    }

    fn embed(&mut self, batch: &Batch, table: Weight, scale: f32) -> Result<()> {
        self.check_rows(table, batch.ids)?;
        self.push(Verb::Embed { table, scale })
    }

    fn embed_positions(&mut self, batch: &Batch, table: Weight) -> Result<()> {
        self.check_rows(table, batch.positions)?;
        self.push(Verb::EmbedPositions { table })
    }

    fn norm(&mut self, norm: &Norm, input: Act, out: Act) -> Result<()> {
        self.push(Verb::Norm { norm: *norm, input, out })
    }

    fn add(&mut self, x: Act, delta: Act, scale: f32) -> Result<()> {
        self.push(Verb::Add { x, delta, scale })
    }

    fn add_norm(&mut self, x: Act, delta: Act, scale: f32, norm: &Norm, out: Act) -> Result<()> {
        self.push(Verb::AddNorm { x, delta, scale, norm: *norm, out })
    }

    fn project(&mut self, input: Act, projections: &[Projection]) -> Result<()> {
        for projections in projections.chunks(MAX_SEGMENTS) {
            let mut all = [projections[0]; MAX_SEGMENTS];
            all[..projections.len()].copy_from_slice(projections);
            self.push(Verb::Project(Projections { input, n: projections.len(), all }))?;
        }
        Ok(())
    }

    fn rope(&mut self, table: RopeTable) -> Result<()> {
        match self.cuda.rope(table)?.pairs {
            0 => Ok(()),
            _ => self.push(Verb::Rope(table)),
        }
    }

    fn kv_write(&mut self, _batch: &mut Batch, layer: usize) -> Result<()> {
        self.push(Verb::KvWrite { layer })
    }

    fn keep_outputs(&mut self, batch: &Batch) -> Result<()> {
        match (1..batch.ids.len()).contains(&batch.outputs.len()) && !self.state.kept {
            true => self.push(Verb::KeepOutputs),
            false => Ok(()),
        }
    }

    fn attend(&mut self, _batch: &Batch, attention: &Attention) -> Result<()> {
        self.push(Verb::Attend(*attention))
    }

    fn glu(&mut self, activation: Activation, gated: bool) -> Result<()> {
        self.push(Verb::Glu { activation, gated })
    }

    fn route(&mut self, routing: &Routing) -> Result<()> {
        self.push(Verb::Route(*routing))
    }

    fn experts(&mut self, experts: &Experts) -> Result<()> {
        self.push(Verb::Experts(*experts))
    }

    fn logits(&mut self, _batch: &Batch, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        self.push(Verb::Logits { head, bias, scale, softcap })
    }

    fn argmax(&mut self, i: usize) -> Result<u32> {
        self.finish(true)?;
        self.check_output(i)?;
        self.answer(self.slot, i)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.finish(true)?;
        self.check_output(i)?;
        let vocab = self.dims.widths.vocab;
        if out.len() != vocab {
            return Err(Error::BufferTooSmall { needed: vocab, capacity: out.len() });
        }
        let offset = (self.scratch.logits - self.buffer.address()) as usize + 4 * vocab * i;
        self.cuda.context.enter()?.download(&self.stream, &self.buffer, offset, out)
    }

    fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        let context = self.cuda.context.clone();
        let current = context.enter()?;
        self.flush(&current, false)?;
        let mut offset = self.offset(act, values.len())?;
        self.state.skipped &= !(1 << act as u16);
        for piece in values.chunks(TRANSFER_BYTES / 4) {
            let bytes = size_of_val(piece);
            if self.transfer_used + bytes > TRANSFER_BYTES {
                current.synchronize(&self.stream)?;
                self.transfer_used = 0;
            }
            let transfer = &mut self.transfer.bytes_mut()[self.transfer_used..][..bytes];
            transfer.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(to, v)| *to = v.to_le_bytes());
            current.upload(&self.stream, &self.buffer, offset, &self.transfer, self.transfer_used, bytes)?;
            self.transfer_used += bytes;
            offset += bytes;
        }
        Ok(())
    }

    /// Fails with `Mismatch` for an activation that a shared kernel (of `argmax`, `read_logits` or `end`) left out.
    fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        self.finish(false)?;
        let offset = self.offset(act, out.len())?;
        if self.state.skipped & 1 << act as u16 != 0 {
            return Err(Error::Mismatch(format!("{act:?} was not kept by this step")));
        }
        self.cuda.context.enter()?.download(&self.stream, &self.buffer, offset, out)
    }

    fn end(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        let idle = std::mem::take(&mut self.in_flight) == 0;
        self.leads = false;
        if open || !idle { self.finish(true) } else { Ok(()) }
    }

    fn times(&mut self) -> Times {
        self.profile.as_mut().map_or_else(Times::default, Profile::take)
    }

    fn ahead(&self) -> usize {
        if self.cuda.profile { 0 } else { SLOTS }
    }

    fn submit(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.open) {
            return Err(Error::invalid("no step is open"));
        }
        let context = self.cuda.context.clone();
        let current = context.enter()?;
        self.flush(&current, true)?;
        self.check_output(0)?;
        current.record(&self.stream, &self.ended[self.slot])?;
        self.in_flight += 1;
        self.leads = true;
        Ok(())
    }

    fn collect(&mut self) -> Result<u32> {
        let Some(newer) = self.in_flight.checked_sub(1) else {
            return Err(Error::invalid("no step was submitted"));
        };
        let slot = (self.slot + SLOTS - newer) % SLOTS;
        self.cuda.context.enter()?.wait(&self.ended[slot])?;
        self.in_flight = newer;
        self.answer(slot, 0)
    }
}
