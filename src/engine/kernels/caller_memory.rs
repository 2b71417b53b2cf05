//! Kernels on the caller's memory for other engines, and a device-resident KV cache without a model.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::crossover::{Crossover, Way};
use crate::cpu::attention::{self, GqaInputs, Heads};
use crate::cpu::kernels::Isa;
use crate::cpu::matmul::matvec_raw;
use crate::cpu::threads::pool::Pool;
use crate::device::sequence::Sequence;
use crate::device::{Backend, CPU_DEVICE, Executor, Load, StepBudget};
use crate::engine::network::step::Step;
use crate::error::{Error, Result, try_vec};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::{Attend, Op, TensorId};
use crate::graph::program::ProgramBuilder;
use crate::graph::sequence_spec::{KvLayer, SequenceSpec};
use crate::graph::step::StepLimits;
use crate::graph::weights::Weights;
use crate::quant;
use crate::tensor::DType;

/// Maximum head width, and maximum number of heads.
const MAX_HEADS: usize = 4096;
const MAX_HEAD_DIM: usize = 4096;

/// Grouped-query attention of one token: query head `i` reads KV head `i * n_kv_heads / n_heads`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GqaParams {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Scale of `q . k`; 0: `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// 0: selected automatically; n: entry n - 1 of `devices()`.
    pub device: u32,
}

impl GqaParams {
    pub fn q_len(&self) -> usize {
        self.n_heads * self.head_dim
    }

    pub fn kv_len(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// Rejects invalid shapes before any length is computed from them.
    pub fn check(&self) -> Result<()> {
        let Self { n_heads, n_kv_heads, head_dim, scale, .. } = *self;
        if n_heads == 0 || n_kv_heads == 0 || n_heads > MAX_HEADS || !n_heads.is_multiple_of(n_kv_heads) {
            return Err(Error::invalid(format!(
                "n_heads is {n_heads}; it must be a multiple of n_kv_heads, which is {n_kv_heads}"
            )));
        }
        if head_dim == 0 || head_dim > MAX_HEAD_DIM || !head_dim.is_multiple_of(2) {
            return Err(Error::invalid(format!("head_dim is {head_dim}; it must be even, from 2 to {MAX_HEAD_DIM}")));
        }
        if !scale.is_finite() {
            return Err(Error::invalid("scale is not a finite number"));
        }
        Ok(())
    }

    fn scale(&self) -> f32 {
        if self.scale == 0.0 { 1.0 / (self.head_dim as f32).sqrt() } else { self.scale }
    }
}

/// Attention of one token; `out`: `[n_heads * head_dim]`.
pub fn attention_gqa(params: &GqaParams, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
    params.check()?;
    match params.device {
        0 => attention_anywhere(params, inputs, out),
        CPU_DEVICE => attention_here(params, inputs, out),
        _ => attention_on_device(params, inputs, out),
    }
}

fn attention_here(params: &GqaParams, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
    let heads = Heads::new(params.n_heads, params.n_kv_heads, params.head_dim);
    // Only on the caller's thread: starting others takes longer than the work.
    let team = Arc::new(Pool::new(1)?).enter()?;
    attention::attention_gqa(&team, Isa::detect(), heads, params.scale(), inputs, out)
}

/// `y = weights x`: `rows` rows of `x.len()` values in `dtype`'s block layout.
pub fn matvec(dtype: DType, weights: &[u8], x: &[f32], y: &mut [f32]) -> Result<()> {
    matvec_raw(Isa::detect(), dtype, weights, y.len(), x, y)
}

/// Returns the number of bytes of `rows` rows of `cols` values in `dtype`'s block layout.
pub fn matrix_bytes(dtype: DType, rows: usize, cols: usize) -> Result<usize> {
    let bytes = quant::format(dtype)?.row_bytes(cols as u64)?.checked_mul(rows as u64);
    bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| Error::invalid(format!("a matrix of {rows} x {cols} is too large")))
}

/// Dequantizes whole blocks.
pub fn dequantize(dtype: DType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    quant::dequantize(dtype, blocks, out)
}

/// An open device for calls of one shape, with measured times of device and host.
struct Open {
    store: KvStore,
    times: Crossover,
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

impl Open {
    fn serves(&self, params: &GqaParams, positions: usize) -> bool {
        let GqaParams { device, .. } = self.store.params;
        GqaParams { device, ..*params } == self.store.params && self.store.spec.capacity >= positions
    }

    fn attention(&mut self, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
        self.store.truncate(0)?;
        self.store.fill(inputs.k_cache, inputs.v_cache)?;
        self.store.attend(0, inputs.q, inputs.current_k, inputs.current_v, out).map(|_| ())
    }
}

impl GqaInputs<'_> {
    /// Returns the number of positions, including the current one.
    fn positions(&self) -> usize {
        self.k_cache.len() / self.current_k.len() + 1
    }
}

/// `attention_gqa` on a device with memory of its own: copies all inputs there and the result back. Opening a device
/// takes longer than many calls, so the last one stays open for calls of the same shape.
fn attention_on_device(params: &GqaParams, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
    let positions = inputs.positions();
    // After a panic the state of the store is unknown.
    let mut open = OPEN.lock().unwrap_or_else(|poisoned| {
        OPEN.clear_poison();
        let mut open = poisoned.into_inner();
        *open = None;
        open
    });
    if open.as_ref().is_some_and(|o| o.serves(params, positions) && o.store.params.device == params.device) {
        return attention_when_open(&mut open, inputs, out);
    }
    // The new device may need the memory of the previous one.
    *open = None;
    let store = KvStore::with_steps(params, 1, positions.next_power_of_two(), quant::F32, FILL_STEP)?;
    let mut fresh = Open { store, times: Crossover::new() };
    // Not measured, because a new device is slow at first.
    fresh.attention(inputs, out)?;
    *open = Some(fresh);
    Ok(())
}

/// Computes on the open device; closes it on failure.
fn attention_when_open(open: &mut MutexGuard<Option<Open>>, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
    let Some(mut device) = open.take() else { return Err(Error::invalid("no device is open")) };
    let started = Instant::now();
    device.attention(inputs, out)?;
    device.times.record(Way::OnDevice, inputs.positions(), started.elapsed());
    **open = Some(device);
    Ok(())
}

/// Computes on the open device if it was faster for this length, otherwise on the host. Never opens a device, waits for
/// one, or fails because of one.
fn attention_anywhere(params: &GqaParams, inputs: GqaInputs, out: &mut [f32]) -> Result<()> {
    let positions = inputs.positions();
    let choice = OPEN.try_lock().ok().and_then(|mut open| {
        let way = open.as_ref().filter(|o| o.serves(params, positions))?.times.choose(positions);
        Some(way == Way::OnDevice && attention_when_open(&mut open, inputs, out).is_ok())
    });
    if choice == Some(true) {
        return Ok(());
    }
    let started = Instant::now();
    attention_here(params, inputs, out)?;
    if choice.is_some()
        && let Ok(mut open) = OPEN.try_lock()
        && let Some(open) = open.as_mut().filter(|o| o.serves(params, positions))
    {
        open.times.record(Way::OnHost, positions, started.elapsed());
    }
    Ok(())
}

/// Positions per transfer to a device.
const FILL_STEP: usize = 256;
const ZEROS: [u32; FILL_STEP] = [0; FILL_STEP];

/// The KV cache of several layers, resident on a device: appends one position per layer and attends over all.
pub struct KvStore {
    params: GqaParams,
    spec: SequenceSpec,
    /// One sequence per layer, because a caller may fill them in any order.
    layers: Vec<Sequence>,
    step: Step,
    q: TensorId,
    k: TensorId,
    v: TensorId,
    out: TensorId,
}

/// Ops of the program that write keys and values, and ops that read them.
const STORE: Range<usize> = 0..1;
const ATTEND: Range<usize> = 0..2;

impl KvStore {
    pub fn new(params: &GqaParams, n_layers: usize, capacity: usize, dtype: DType) -> Result<KvStore> {
        KvStore::with_steps(params, n_layers, capacity, dtype, 1)
    }

    fn with_steps(
        params: &GqaParams,
        n_layers: usize,
        capacity: usize,
        dtype: DType,
        max_tokens: usize,
    ) -> Result<KvStore> {
        params.check()?;
        if n_layers == 0 || n_layers > 1024 || capacity == 0 || u32::try_from(capacity).is_err() {
            return Err(Error::invalid(format!("{n_layers} layers of {capacity} positions are too many for memory")));
        }
        let (n_kv_heads, head_dim) = (params.n_kv_heads, params.head_dim);
        let mut builder = ProgramBuilder::default();
        let [q, k, v, out] =
            [params.q_len(), params.kv_len(), params.kv_len(), params.q_len()].map(|w| builder.tensor(w));
        let shape = KvLayer::new(n_kv_heads, head_dim, 0);
        let layer = builder.kv_layer(shape);
        builder.push(Op::StoreKv { layer, k, v: Some(v) });
        builder.push(Op::Attend(Attend::new(layer, q, out, params.scale())));
        builder.end_layer(0);
        let program = Arc::new(builder.finish(0, &[q, k, v, out]));
        let (layers, recurrent) = (vec![shape], vec![]);
        let spec = SequenceSpec { layers, recurrent, capacity, k_type: dtype, v_type: dtype, max_step: max_tokens };
        let limits = StepLimits { max_tokens, max_outputs: 0 };
        let options = LoadOptions { device: params.device, gpu_layers: 1, ..LoadOptions::default() };
        let load = Load::new(&options, limits, spec.clone());
        let pool = Arc::new(Pool::new(1)?);
        let backend = Backend::load(&program, &Weights::default(), &pool, &load, &mut |_, _| Ok(()))?;
        let executor = backend.new_executor(&program, limits)?;
        let mut layers = try_vec("the layers of a store", n_layers)?;
        for _ in 0..n_layers {
            layers.push(backend.new_sequence(&spec)?);
        }
        let step = Step::new(executor, max_tokens)?;
        Ok(KvStore { params: *params, spec, layers, step, q, k, v, out })
    }

    pub fn params(&self) -> &GqaParams {
        &self.params
    }

    /// Returns the number of positions of a layer.
    pub fn len(&self, layer: u32) -> Result<u32> {
        let (found, n) = (self.layers.get(layer as usize), self.layers.len());
        let len = found.map(|layer| layer.len() as u32);
        len.ok_or_else(|| Error::invalid(format!("layer is {layer}; it must be below {n}")))
    }

    /// Runs ops for `n` more positions of a layer. `before` writes activations, `after` reads them.
    fn step(
        &mut self,
        layer: u32,
        ops: Range<usize>,
        n: usize,
        before: impl FnOnce(&mut Executor) -> Result<()>,
        after: impl FnOnce(&mut Executor) -> Result<()>,
    ) -> Result<()> {
        let KvStore { layers, step, .. } = self;
        let (layers, whole) = (&mut [&mut layers[layer as usize]], StepBudget::unlimited());
        let done = step.clear().add(&ZEROS[..n], 0).advance(layers, ops, &[], before, &whole);
        let result = done.and_then(|_| after(&mut step.executor));
        step.executor.end().and(result)?;
        self.layers[layer as usize].commit(n);
        Ok(())
    }

    /// Appends any number of positions to layer 0: `[n][n_kv_heads * head_dim]`.
    fn fill(&mut self, keys: &[f32], values: &[f32]) -> Result<()> {
        let (width, k, v) = (self.params.kv_len(), self.k, self.v);
        for (keys, values) in keys.chunks(FILL_STEP * width).zip(values.chunks(FILL_STEP * width)) {
            let write = |executor: &mut Executor| executor.write(k, keys).and(executor.write(v, values));
            self.step(0, STORE, keys.len() / width, write, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Appends one position to a layer and attends over all of it. Returns the layer's new length.
    pub fn attend(&mut self, layer: u32, q: &[f32], k: &[f32], v: &[f32], out: &mut [f32]) -> Result<u32> {
        let (len, capacity) = (self.len(layer)?, self.spec.capacity);
        if len as usize >= capacity {
            return Err(Error::ContextFull { what: "the text", held: len as usize, more: 1, capacity });
        }
        let tensors = [(self.q, q), (self.k, k), (self.v, v)];
        let (write, to) = (
            |executor: &mut Executor| tensors.iter().try_for_each(|(tensor, values)| executor.write(*tensor, values)),
            self.out,
        );
        self.step(layer, ATTEND, 1, write, |executor| executor.read(to, out))?;
        Ok(len + 1)
    }

    /// Truncates every layer to `len` positions.
    pub fn truncate(&mut self, len: u32) -> Result<()> {
        let longest = self.layers.iter().map(Sequence::len).max().unwrap_or(0);
        if len as usize > longest {
            return Err(Error::invalid(format!("the store holds {longest} positions, it can't be cut to {len}")));
        }
        self.layers.iter_mut().for_each(|layer| layer.truncate(len as usize));
        Ok(())
    }
}
