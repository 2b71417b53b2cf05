//! NVIDIA GPUs: the verbs as launches of the kernels in `kernels/`.
//!
//! This file owns what a model keeps on a device and the state of a step. `probe` finds the driver, `launch` makes every
//! call that acts on a device, `module` names the kernels, `memory` lays out weights and caches, `lower` turns verbs into
//! launches, `graph` replays steps that come again. A model has a context of its own: a fault costs the model its
//! device, while other models, the CPU and the process go on.
//!
//! Verbs are gathered and run when a result is asked for or the step ends. What changes from step to step is copied into
//! one place in device memory first, so that a step of one token can be replayed whatever its token, position and cache.

mod graph;
mod launch;
mod lower;
mod memory;
mod module;
mod probe;
mod profile;

use std::sync::{Arc, OnceLock};

pub use self::module::Kernels;
pub use self::probe::Driver;

use self::graph::Graphs;
use self::launch::{Buffer, Context, Current, Event, Pinned, Stream};
use self::lower::{
    ACTS, ARGMAX_BLOCKS, Dims, FIXED_SPLITS, Lowering, MAX_SEGMENTS, Projections, Scratch, Shape, State, TILE_ROWS,
    Verb,
};
use self::memory::{Arena, CudaKv};
use self::module::{KvView, Matrix, Place, Step, Tile};
use self::probe::Address;
use self::profile::Profile;
use super::{
    Act, Activation, Attention, Backend, Batch, DeviceInfo, DeviceKind, Exec, Experts, FOLLOWING, Kv, KvSpec,
    MatrixSource, Needs, Norm, Options, Progress, Projection, Rope, RopePairs, RopeTable, Routing, Times, Vector,
    Weight, Widths,
};
use crate::error::{Error, Result, try_vec};
use crate::quant;

static PROVIDED: OnceLock<(Arc<Driver>, &'static [u8])> = OnceLock::new();

/// Uses `driver` and the kernels in `image` in the place of the system's driver and the library's own kernels, everywhere in
/// this process. Once, before the first device is asked for; later it is refused with false.
pub fn provide(driver: Arc<Driver>, image: &'static [u8]) -> bool {
    PROVIDED.set((driver, image)).is_ok()
}

/// Every GPU, or one unavailable entry that says why there is none.
pub fn devices() -> Vec<DeviceInfo> {
    match PROVIDED.get() {
        Some((driver, _)) => probe::list(&Ok(driver.clone()), Ok(0)),
        None => probe::list(&Driver::system(), module::IMAGE.map(|_| module::COMPILER)),
    }
}

/// Opens GPU `ordinal` for one model.
pub fn open(ordinal: i32) -> Result<Cuda> {
    if let Some((driver, image)) = PROVIDED.get() {
        return Cuda::open(driver, ordinal, image);
    }
    let unavailable = |why: String| Error::DeviceUnavailable { device: format!("cuda:{ordinal}"), why };
    let image = module::IMAGE.map_err(|why| unavailable(why.to_owned()))?;
    Cuda::open(&Driver::system().map_err(unavailable)?, ordinal, image)
}

/// A GPU with the weights of one model.
pub struct Cuda {
    info: DeviceInfo,
    weights: Vec<Held>,
    vectors: Vec<(Buffer, usize)>,
    ropes: Vec<HeldRope>,
    /// Of the matrices, one for each upload.
    buffers: Vec<Buffer>,
    kernels: Kernels,
    stream: Arc<Stream>,
    /// Kernels may start before the one ahead has ended.
    early_launch: bool,
    /// One way to compute a row, whatever its company.
    fixed: bool,
    profile: bool,
    context: Arc<Context>,
}

struct Held {
    matrix: Matrix,
    /// Without padding.
    cols: usize,
}

struct HeldRope {
    order: RopePairs,
    pairs: usize,
    inv_freq: Address,
    magnitude: f32,
    _buffer: Buffer,
}

impl Cuda {
    /// `image` holds the compiled kernels.
    pub fn open(driver: &Arc<Driver>, ordinal: i32, image: &'static [u8]) -> Result<Cuda> {
        let context = Context::new(driver, ordinal)?;
        let properties = &context.properties;
        if let Some(why) = probe::why_unusable(driver, properties, Ok(0)) {
            return Err(Error::DeviceUnavailable { device: context.device.clone(), why });
        }
        let current = context.enter()?;
        let kernels = Kernels::load(&current, image)?;
        let k = &kernels;
        for kernel in
            [&k.attend_64, &k.attend_64_any, &k.attend_128, &k.attend_128_any, &k.attend_256, &k.attend_256_any]
        {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        for kernel in [&k.gemv, &k.gemm_16, &k.gemm_64, &k.gemm_128] {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        let info = DeviceInfo {
            name: format!("{} {}", context.device, properties.name),
            kind: DeviceKind::Cuda,
            isa: properties.isa(),
            memory_total: properties.memory,
            memory_free: current.memory_free()?,
            unavailable: String::new(),
        };
        let stream = Arc::new(current.stream()?);
        // Kernels written out for less do not wait for the one ahead. Recording early starts came with CUDA 12.3.
        let early_launch = current.compiled_for(&k.gemv)? >= 90 && context.driver_version() >= 12_030;
        drop(current);
        let (weights, vectors, ropes, buffers) = Default::default();
        Ok(Cuda {
            info,
            weights,
            vectors,
            ropes,
            buffers,
            kernels,
            stream,
            early_launch,
            fixed: false,
            profile: false,
            context,
        })
    }

    /// `fixed`: every product goes through the tiles of prompts, whose columns do not meet, and positions are dealt out in one
    /// way. Slower for single tokens, whose own kernels round activations to 8 bits.
    pub fn with(self, options: Options) -> Cuda {
        Cuda { fixed: options.fixed, profile: options.profile, ..self }
    }

    /// Bytes a second, read and written, at which the device copies `bytes` bytes: the roof of what memory limits.
    pub fn copy_rate(&self, bytes: usize) -> Result<f64> {
        const COPIES: usize = 10;
        let current = self.context.enter()?;
        let (to, from) = (current.alloc("a copy", bytes)?, current.alloc("a copy", bytes)?);
        current.clear(&self.stream, &from, 0, bytes)?;
        current.copy(&self.stream, (&to, 0), (&from, 0), bytes)?;
        current.synchronize(&self.stream)?;
        let start = std::time::Instant::now();
        for _ in 0..COPIES {
            current.copy(&self.stream, (&to, 0), (&from, 0), bytes)?;
        }
        current.synchronize(&self.stream)?;
        Ok((2 * COPIES * bytes) as f64 / start.elapsed().as_secs_f64())
    }

    fn weight(&self, weight: Weight) -> Result<&Held> {
        self.weights.get(weight.0 as usize).ok_or_else(|| Error::invalid(format!("{weight:?} was not uploaded")))
    }

    /// Address and length.
    fn vector(&self, vector: Vector) -> Result<(Address, usize)> {
        let held = self.vectors.get(vector.0 as usize);
        held.map(|(b, len)| (b.address(), *len)).ok_or_else(|| Error::invalid(format!("{vector:?} was not uploaded")))
    }

    fn rope(&self, table: RopeTable) -> Result<&HeldRope> {
        self.ropes.get(table.0 as usize).ok_or_else(|| Error::invalid(format!("{table:?} was not uploaded")))
    }

    fn upload_bytes(&self, what: &str, bytes: &[u8]) -> Result<Buffer> {
        let current = self.context.enter()?;
        let buffer = current.alloc(what, bytes.len())?;
        current.upload_now(&self.stream, &buffer, 0, bytes)?;
        Ok(buffer)
    }
}

impl Backend for Cuda {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn upload_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64> {
        memory::upload_bytes(sources)
    }

    fn upload_host_bytes(&self, _sources: &[&dyn MatrixSource]) -> Result<u64> {
        Ok(0)
    }

    fn upload(&mut self, sources: &[&dyn MatrixSource], progress: &mut Progress) -> Result<Vec<Weight>> {
        let (buffer, matrices) = memory::upload(&self.context, sources, progress)?;
        let first = self.weights.len() as u32;
        for (matrix, source) in matrices.into_iter().zip(sources) {
            self.weights.push(Held { matrix, cols: source.cols() });
        }
        self.buffers.push(buffer);
        Ok((first..self.weights.len() as u32).map(Weight).collect())
    }

    fn upload_vector(&mut self, values: &[f32]) -> Result<Vector> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let buffer = Cuda::upload_bytes(self, "a vector", &bytes)?;
        self.vectors.push((buffer, values.len()));
        Ok(Vector(self.vectors.len() as u32 - 1))
    }

    fn upload_rope(&mut self, rope: &Rope) -> Result<RopeTable> {
        let bytes: Vec<u8> = rope.inv_freq.iter().flat_map(|f| f.to_le_bytes()).collect();
        let buffer = Cuda::upload_bytes(self, "a rotary table", &bytes)?;
        let (order, pairs, magnitude) = (rope.pairs, rope.inv_freq.len(), rope.magnitude);
        self.ropes.push(HeldRope { order, pairs, inv_freq: buffer.address(), magnitude, _buffer: buffer });
        Ok(RopeTable(self.ropes.len() as u32 - 1))
    }

    fn working_bytes(&self, needs: &Needs) -> Result<u64> {
        let Needs { kv, widths, head_dim, max_tokens, max_outputs } = needs;
        let dims = Dims::new(widths, *head_dim, *max_tokens, *max_outputs)?;
        let (_, scratch) = self.scratch(&dims, *max_tokens, *max_outputs)?;
        Ok(memory::kv_bytes(kv)? + (scratch + step_bytes(*max_tokens, *max_outputs)) as u64)
    }

    fn new_kv(&self, spec: &KvSpec) -> Result<Box<dyn Kv>> {
        Ok(Box::new(CudaKv::new(&self.context, &self.stream, spec)?))
    }

    fn new_exec(
        self: Arc<Self>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<Box<dyn Exec>> {
        Ok(Box::new(CudaExec::new(self, widths, head_dim, max_tokens, max_outputs)?))
    }

    fn weight_bytes(&self) -> u64 {
        let vectors = self.vectors.iter().map(|(buffer, _)| buffer.len()).sum::<usize>();
        (self.buffers.iter().map(Buffer::len).sum::<usize>() + vectors) as u64
    }
}

impl Cuda {
    /// Parts of attention that a performer has room for: two blocks a processor, in every way to divide them that
    /// `CudaExec::splits` chooses.
    fn max_parts(&self, dims: &Dims) -> usize {
        let parts = 4 * self.context.properties.multiprocessors as usize;
        // Room for one tile at least.
        if self.fixed { parts.max(FIXED_SPLITS * dims.attention_rows()) } else { parts }
    }

    /// What a performer computes in: offsets for addresses, and bytes in all.
    fn scratch(&self, dims: &Dims, max_tokens: usize, max_outputs: usize) -> Result<(Scratch, usize)> {
        let (w, max_parts) = (&dims.widths, self.max_parts(dims));
        let widest = [w.hidden, w.q, w.ffn].into_iter().max().unwrap_or(0).next_multiple_of(32);
        let (rows, picks) = (max_tokens.max(max_outputs), max_tokens.saturating_mul(w.n_experts_used));
        let expert_halves = picks.saturating_mul(w.expert_ffn.next_multiple_of(32));
        let mut arena = Arena::default();
        let mut acts = [0; ACTS];
        for (act, width) in acts.iter_mut().zip(dims.max_widths) {
            *act = arena.add(max_tokens.saturating_mul(width), 4)? as Address;
        }
        let counters = arena.add(max_parts + max_outputs, 4)? as Address;
        let scratch = Scratch {
            acts,
            halves: arena.add(rows.saturating_mul(widest).max(expert_halves), 2)? as Address,
            row_scales: arena.add(rows.max(picks), 4)? as Address,
            expert_order: arena.add(picks, 4)? as Address,
            expert_starts: arena.add(w.n_experts + 1, 4)? as Address,
            experts: arena.add(picks, 4)? as Address,
            expert_weights: arena.add(picks, 4)? as Address,
            expert_gate: arena.add(picks.saturating_mul(w.expert_ffn), 4)? as Address,
            expert_up: arena.add(picks.saturating_mul(w.expert_ffn), 4)? as Address,
            expert_out: arena.add(picks.saturating_mul(w.hidden), 4)? as Address,
            partials: arena.add(max_parts * TILE_ROWS * (2 + dims.head_dim), 4)? as Address,
            attention_counters: counters,
            logits: arena.add(max_outputs.saturating_mul(w.vocab), 4)? as Address,
            best: arena.add(max_outputs * ARGMAX_BLOCKS, 4)? as Address,
            best_at: arena.add(max_outputs * ARGMAX_BLOCKS, 4)? as Address,
            argmax_counters: counters + 4 * max_parts as Address,
            tokens: arena.add(max_outputs, 4)? as Address,
        };
        Ok((scratch, arena.bytes()))
    }
}

/// Ids, positions, slots, outputs, tiles and caches of a step, and positions, slots and tiles of its outputs, each at a
/// multiple of 16 bytes.
fn step_bytes(max_tokens: usize, max_outputs: usize) -> usize {
    let (token, output) = (3 * 4 + size_of::<Tile>() + size_of::<KvView>(), 3 * 4 + size_of::<Tile>());
    16 + max_tokens * token + max_outputs * output + 9 * 16
}

/// Steps that share the host's side of a performer: one that runs, one that waits for it, one that is being made. Few,
/// because a text that ends leaves the others to be thrown away.
const SLOTS: usize = 3;

/// Bytes of activations that the host hands over without waiting.
const ROOM: usize = 256 << 10;

/// A performer of steps, with a stream of its own.
struct CudaExec {
    /// First, because it waits for its work when it is dropped.
    stream: Stream,
    cuda: Arc<Cuda>,
    dims: Dims,
    max_tokens: usize,
    max_outputs: usize,
    /// What the parts of `scratch` lie in.
    buffer: Buffer,
    scratch: Scratch,
    /// Attention's parts that fit into the scratch.
    max_parts: usize,
    /// What a step brings along, here one after another for each slot, and on the device.
    staging: Pinned,
    inputs: Buffer,
    /// `[SLOTS, max_outputs]`, where the device writes each arg-max.
    answers: Pinned,
    /// Behind the last step of each slot.
    ended: Vec<Event>,
    /// Of the step that was opened last.
    slot: usize,
    /// Slots whose steps were submitted and not collected: the newest ones, in order.
    under_way: usize,
    /// The step before has left an arg-max.
    leads: bool,
    /// Activations on their way from the host, and how much of it is taken since the device was last waited for.
    room: Pinned,
    room_used: usize,
    verbs: Vec<Verb>,
    graphs: Graphs,
    profile: Option<Profile>,
    shape: Shape,
    /// The layers of the step's caches.
    places: Vec<Place>,
    step: Step,
    kept_step: Step,
    kept_slots: Vec<u32>,
    /// Bytes of `staging` that the device has not got yet.
    fresh: usize,
    state: State,
    open: bool,
}

/// Lays the arrays of a step out one after another and writes them.
struct Writer<'a> {
    bytes: &'a mut [u8],
    base: Address,
    at: usize,
}

impl Writer<'_> {
    /// Begins an array; its address.
    fn array(&mut self) -> Address {
        self.at = self.at.next_multiple_of(16);
        self.base + self.at as Address
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn words(&mut self, words: &[u32]) -> Address {
        let address = self.array();
        words.iter().for_each(|w| self.put(w.to_le_bytes()));
        address
    }

    fn tiles(&mut self, slots: &[u32], most: usize) -> Address {
        let address = self.array();
        for tile in tiles(slots, most) {
            [tile.first, tile.count, tile.slot, tile.pad].iter().for_each(|w| self.put(w.to_le_bytes()));
        }
        address
    }

    fn kvs(&mut self, caches: &[&CudaKv]) -> Address {
        let address = self.array();
        for view in caches.iter().map(|kv| kv.view()) {
            [view.k, view.v, view.k_scales, view.v_scales].iter().for_each(|a| self.put(a.to_le_bytes()));
            let words = [view.capacity, view.ring, view.stride, view.k_type, view.v_type, view.pad];
            words.iter().for_each(|w| self.put(w.to_le_bytes()));
        }
        address
    }
}

/// Tiles of attention: up to `most` tokens of one sequence.
fn tiles(slots: &[u32], most: usize) -> impl Iterator<Item = Tile> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let slot = *slots.get(first)?;
        let count = slots[first..].iter().take(most).take_while(|&&s| s == slot).count();
        let tile = Tile { first: first as u32, count: count as u32, slot, pad: 0 };
        first += count;
        Some(tile)
    })
}

impl CudaExec {
    fn new(
        cuda: Arc<Cuda>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<CudaExec> {
        let dims = Dims::new(widths, head_dim, max_tokens, max_outputs)?;
        let (mut scratch, bytes) = cuda.scratch(&dims, max_tokens, max_outputs)?;
        let step_bytes = step_bytes(max_tokens, max_outputs);
        let context = cuda.context.clone();
        let current = context.enter()?;
        let stream = current.stream()?;
        let buffer = current.alloc("activations", bytes)?;
        let inputs = current.alloc("a step's inputs", step_bytes)?;
        let staging = current.alloc_pinned(SLOTS * step_bytes)?;
        let answers = current.alloc_pinned(SLOTS * 4 * max_outputs)?;
        let mut ended = try_vec("events", SLOTS)?;
        for _ in 0..SLOTS {
            ended.push(current.event(false)?);
        }
        let max_parts = cuda.max_parts(&dims);
        current.clear(&stream, &buffer, scratch.attention_counters as usize, 4 * (max_parts + max_outputs))?;
        let base = buffer.address();
        for part in scratch.acts.iter_mut().chain([
            &mut scratch.halves,
            &mut scratch.row_scales,
            &mut scratch.experts,
            &mut scratch.expert_order,
            &mut scratch.expert_starts,
            &mut scratch.expert_weights,
            &mut scratch.expert_gate,
            &mut scratch.expert_up,
            &mut scratch.expert_out,
            &mut scratch.partials,
            &mut scratch.attention_counters,
            &mut scratch.logits,
            &mut scratch.best,
            &mut scratch.best_at,
            &mut scratch.argmax_counters,
            &mut scratch.tokens,
        ]) {
            *part += base;
        }
        Ok(CudaExec {
            max_tokens,
            max_outputs,
            buffer,
            state: State { acts: scratch.acts, kept: false, widths: dims.max_widths, skipped: 0, outputs: 0 },
            scratch,
            max_parts,
            staging,
            inputs,
            answers,
            ended,
            slot: 0,
            under_way: 0,
            leads: false,
            room: current.alloc_pinned(ROOM)?,
            room_used: 0,
            verbs: try_vec("verbs", 256)?,
            graphs: Graphs::default(),
            profile: cuda.profile.then(Profile::default),
            shape: Shape::default(),
            places: Vec::new(),
            step: Step::default(),
            kept_step: Step::default(),
            kept_slots: try_vec("outputs", max_outputs)?,
            fresh: 0,
            open: false,
            stream,
            dims,
            cuda,
        })
    }

    /// The caches of a batch, checked against it and this exec.
    fn caches<'b>(&self, batch: &'b Batch) -> Result<Vec<&'b CudaKv>> {
        let n = batch.ids.len();
        if n == 0 || n > self.max_tokens || batch.outputs.len() > self.max_outputs || batch.kvs.len() > self.max_tokens
        {
            return Err(Error::invalid(format!(
                "a step of {n} tokens, {} outputs and {} caches; 1 to {} and 0 to {} fit",
                batch.outputs.len(),
                batch.kvs.len(),
                self.max_tokens,
                self.max_outputs
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
                    && caches.first().is_none_or(|first: &&CudaKv| first.places() == own.places())
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

    /// Shares into which the positions of a tile are cut, so that every processor has work; 0 where tiles suffice. It
    /// changes only where the longest context passes a power of two, because every other one is another record.
    fn splits(&self, n_tiles: usize, longest: u32) -> usize {
        if self.cuda.fixed {
            return FIXED_SPLITS;
        }
        let blocks = n_tiles * self.dims.attention_rows();
        if blocks == 0 || blocks > self.max_parts / 2 {
            return 0;
        }
        (longest as usize).div_ceil(64).next_power_of_two().min((self.max_parts / 2).div_ceil(blocks))
    }

    /// Queues the verbs gathered so far. `fuse`: they may share kernels, and results that nobody reads need not exist.
    fn flush(&mut self, current: &Current, fuse: bool) -> Result<()> {
        if self.verbs.is_empty() {
            return Ok(());
        }
        let CudaExec {
            cuda, dims, scratch, stream, staging, inputs, verbs, places, state, fresh, graphs, profile, ..
        } = self;
        let (mut shape, mut step, kept_step) = (self.shape, self.step, self.kept_step);
        if state.kept {
            (shape, step) = (shape.kept(), kept_step);
        }
        let bytes = std::mem::take(fresh);
        // Not part of a record, because steps bring their inputs along in different slots.
        if bytes > 0 {
            current.upload(stream, inputs, 0, staging, self.slot * inputs.len(), bytes)?;
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
                answers: inputs.address(),
                max_parts: self.max_parts,
                places,
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
        let result = match fuse && bytes > 0 && shape.n == 1 && !cuda.profile {
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

    /// Runs what was gathered and waits for it.
    fn finish(&mut self, fuse: bool) -> Result<()> {
        let context = self.cuda.context.clone();
        let current = context.enter()?;
        self.flush(&current, fuse)?;
        current.synchronize(&self.stream)?;
        self.room_used = 0;
        self.profile.as_mut().map_or(Ok(()), |profile| profile.settle(&current))
    }

    /// Rows of a table exist for all of `rows`.
    fn check_rows(&self, table: Weight, rows: &[u32]) -> Result<()> {
        let n = self.cuda.weight(table)?.matrix.rows;
        let leads = self.leads;
        match rows.iter().find(|&&row| row >= n && !(row == FOLLOWING && leads)) {
            Some(row) => Err(Error::invalid(format!("row {row} of an embedding with {n}"))),
            None => Ok(()),
        }
    }

    /// Where an activation of the batch lies in `buffer`, and its bytes.
    fn place(&self, act: Act, len: usize) -> Result<usize> {
        let n = if self.state.kept { self.shape.n_outputs } else { self.shape.n };
        let expected = n * self.state.widths[act as usize];
        if len != expected {
            return Err(Error::invalid(format!("{len} values for the {expected} of {act:?}")));
        }
        Ok((self.state.acts[act as usize] - self.buffer.address()) as usize)
    }

    /// What the step of a slot chose.
    fn answer(&self, slot: usize, i: usize) -> Result<u32> {
        let answers = self.answers.bytes().as_chunks().0;
        let answer = answers.get(slot * self.max_outputs + i).map(|b| u32::from_le_bytes(*b));
        answer.ok_or_else(|| Error::invalid(format!("output {i}")))
    }

    fn check_output(&self, i: usize) -> Result<()> {
        match i < self.state.outputs {
            true => Ok(()),
            false => Err(Error::invalid(format!("output {i} of {}", self.state.outputs))),
        }
    }
}

impl Exec for CudaExec {
    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn begin(&mut self, batch: &Batch) -> Result<()> {
        self.open = false;
        self.verbs.clear();
        if self.under_way == SLOTS {
            return Err(Error::invalid(format!("{} steps are under way", self.under_way)));
        }
        let (acts, widths) = (self.scratch.acts, self.dims.max_widths);
        self.state = State { acts, kept: false, widths, skipped: 0, outputs: 0 };
        let caches = self.caches(batch)?;
        if caches.first().is_some_and(|kv| kv.places() != self.places) {
            self.graphs = Graphs::default();
            self.places = caches[0].places().to_vec();
        }
        let most = self.dims.tile_tokens();
        self.kept_slots.clear();
        self.kept_slots.extend(batch.outputs.iter().map(|&t| batch.slots[t as usize]));
        let (n_tiles, kept_tiles) = (tiles(batch.slots, most).count(), tiles(&self.kept_slots, most).count());
        let longest = batch.positions.iter().max().map_or(1, |p| p + 1);
        self.shape = Shape {
            n: batch.ids.len(),
            n_outputs: batch.outputs.len(),
            n_tiles,
            n_slots: caches.len(),
            splits: self.splits(n_tiles, longest),
            kept_tiles,
            kept_splits: self.splits(kept_tiles, longest),
            halves: caches.iter().all(|kv| (kv.spec().k_type, kv.spec().v_type) == (quant::F16, quant::F16)),
        };
        self.slot = (self.slot + 1) % SLOTS;
        let answers = self.answers.address() + (4 * self.max_outputs * self.slot) as Address;
        let bytes = &mut self.staging.bytes_mut()[self.slot * self.inputs.len()..][..self.inputs.len()];
        let mut writer = Writer { bytes, base: self.inputs.address(), at: 0 };
        // First, where every step has it.
        writer.put(answers.to_le_bytes());
        self.step = Step {
            ids: writer.words(batch.ids),
            positions: writer.words(batch.positions),
            slots: writer.words(batch.slots),
            outputs: writer.words(batch.outputs),
            tiles: writer.tiles(batch.slots, most),
            kvs: writer.kvs(&caches),
            n: self.shape.n as u32,
            n_outputs: self.shape.n_outputs as u32,
            n_tiles: n_tiles as u32,
            pad: 0,
        };
        if self.shape.n_outputs < self.shape.n {
            let positions = writer.array();
            batch.outputs.iter().for_each(|&t| writer.put(batch.positions[t as usize].to_le_bytes()));
            self.kept_step = Step {
                positions,
                slots: writer.words(&self.kept_slots),
                tiles: writer.tiles(&self.kept_slots, most),
                n: self.shape.n_outputs as u32,
                n_tiles: kept_tiles as u32,
                ..self.step
            };
        }
        self.fresh = writer.at;
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
        let mut offset = self.place(act, values.len())?;
        self.state.skipped &= !(1 << act as u16);
        for piece in values.chunks(ROOM / 4) {
            let bytes = size_of_val(piece);
            if self.room_used + bytes > ROOM {
                current.synchronize(&self.stream)?;
                self.room_used = 0;
            }
            let room = &mut self.room.bytes_mut()[self.room_used..][..bytes];
            room.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(to, v)| *to = v.to_le_bytes());
            current.upload(&self.stream, &self.buffer, offset, &self.room, self.room_used, bytes)?;
            self.room_used += bytes;
            offset += bytes;
        }
        Ok(())
    }

    /// After kernels were shared (by `argmax`, `read_logits` or `end`) some activations were never written: a `Mismatch`.
    fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        self.finish(false)?;
        let offset = self.place(act, out.len())?;
        if self.state.skipped & 1 << act as u16 != 0 {
            return Err(Error::Mismatch(format!("{act:?} was not kept by this step")));
        }
        self.cuda.context.enter()?.download(&self.stream, &self.buffer, offset, out)
    }

    fn end(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        let idle = std::mem::take(&mut self.under_way) == 0;
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
        self.under_way += 1;
        self.leads = true;
        Ok(())
    }

    fn collect(&mut self) -> Result<u32> {
        let Some(newer) = self.under_way.checked_sub(1) else {
            return Err(Error::invalid("no step was submitted"));
        };
        let slot = (self.slot + SLOTS - newer) % SLOTS;
        self.cuda.context.enter()?.wait(&self.ended[slot])?;
        self.under_way = newer;
        self.answer(slot, 0)
    }
}
