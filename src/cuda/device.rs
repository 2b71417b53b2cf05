//! A GPU that was opened for one model, and the model on it.
//!
//! Owns the kernels, the weights and the limits of the kernels.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use twox_hash::XxHash64;

use super::args::{NGRAM, ProjectArgs, SELECT_DIM, Segment};
use super::inputs::InputStaging;
use super::launch::{Context, CudaKernel, Stream};
use super::module::KernelTable;
use super::probe::{self, Driver};
use super::scratch::{AttentionShape, DeviceScratch, ExecutorDims, GRID_Y, ring_shared, select_shared};
use super::sequence::kv_bytes;
use super::weights::{self, DeviceWeights};
use crate::error::{Error, Result};
use crate::gpu::fuse::Fusions;
use crate::gpu::verdict::Verdict;
use crate::gpu::{GpuDevice, GpuModel, pieces, weight_layout};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::{Op, Projection, RouterScore, Routing, Select, Vector, Weight};
use crate::graph::program::Program;
use crate::graph::sequence_spec::{KvLayer, SequenceSpec};
use crate::graph::step::StepLimits;
use crate::graph::weights::{Progress, Weights};
use crate::sampling::{MAX_ENTRIES, SamplingRule};
use crate::tensor::DType;

/// Maximum key and value widths of the attention kernels.
const MAX_KEY: usize = 2048;
const MAX_VALUE: usize = 512;

/// Prefix of device names.
pub const NAME: &str = "cuda";

/// Prefixes of the names of the optional kernels.
pub const WGMMA: &str = "wgmma_";
pub const INT8: &str = "gemm_int8";

/// Maximum number of experts of a router, and maximum row length of a scan's state.
const MAX_EXPERTS: usize = 4096;
const MAX_STATE: usize = 256;

/// Maximum shared memory of key selection in bytes, available on every supported GPU.
const MAX_SELECT: usize = 96 << 10;

/// A kernel for prompts that only some architectures have.
#[derive(Clone, Copy)]
pub(super) enum PromptKernel<'a> {
    /// For all types.
    Wgmma(&'a CudaKernel<ProjectArgs>),
    /// For types with blocks, on input in bytes.
    Bytes(&'a CudaKernel<ProjectArgs>),
}

/// A GPU without weights.
pub struct CudaDevice {
    info: DeviceInfo,
    pub(super) kernels: KernelTable,
    /// Stream for copies of weights and caches.
    pub(super) stream: Arc<Stream>,
    /// True if kernels may start before the previous one has ended (programmatic dependent launch).
    pub(super) early_launch: bool,
    /// True for batch-invariant results: every product uses the kernels for few rows, and attention always splits
    /// positions the same way. Slower for prompts, because the kernels for few rows read weights more often.
    pub(super) is_batch_invariant: bool,
    pub(super) profile: bool,
    pub(super) context: Arc<Context>,
    image: &'static [u8],
}

impl CudaDevice {
    /// Opens device `ordinal` with the compiled kernels in `image`.
    pub fn open(
        driver: &Arc<Driver>,
        ordinal: i32,
        image: &'static [u8],
        &LoadOptions { deterministic, profile, plan, .. }: &LoadOptions,
    ) -> Result<Arc<CudaDevice>> {
        let context = Context::new(driver, ordinal, plan)?;
        let properties = &context.properties;
        if let Some(why) = probe::why_unusable(driver, properties, Ok(0)) {
            return Err(Error::DeviceUnavailable { device: context.device.clone(), why });
        }
        let current = context.enter()?;
        let kernels = KernelTable::load(&current, image)?;
        let k = &kernels;
        let attention = k.attention().into_iter().flat_map(|k| [k.few_tokens, k.many_tokens]);
        let attention = attention.flat_map(|kernels| kernels.all());
        for kernel in attention.chain([&k.attend_wide, &k.attend_wide_any, &k.attend_among]) {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        for kernel in k.attention_single().into_iter().flat_map(|(_, kernels)| kernels.all()) {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        for kernel in k.products() {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        for kernel in k.sums_of_picks() {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        current.allow_shared(&k.choose_keys, properties.shared_per_block)?;
        for kernel in [&k.delta_chunks_128, &k.delta_chunks_256] {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        for kernel in [&k.scan_chunks_128, &k.scan_chunks_256] {
            current.allow_shared(kernel, properties.shared_per_block)?;
        }
        let info = DeviceInfo {
            name: format!("{} {}", context.device, properties.name),
            id: driver.id(ordinal),
            kind: DeviceKind::Gpu,
            isa: properties.isa(),
            memory_total: properties.memory,
            memory_free: current.memory_free()?,
            unavailable: String::new(),
        };
        let stream = Arc::new(current.stream()?);
        // Code for older architectures does not wait for the previous kernel. CUDA graphs support early starts from
        // CUDA 12.3 on.
        let early_launch = current.compiled_for(&k.prepare)? >= 90 && context.driver_version() >= 12_030;
        drop(current);
        Ok(Arc::new(CudaDevice {
            info,
            kernels,
            stream,
            early_launch,
            is_batch_invariant: deterministic,
            profile,
            context,
            image,
        }))
    }

    /// Returns the fusions of ops; `shape` returns type and rows of a matrix.
    pub(super) fn fusions<S: PartialEq>(&self, program: &Program, shape: impl Fn(Weight) -> S) -> Fusions {
        // Steps with adapters never fuse gates; if `is_batch_invariant`, other steps must be bit-identical to them.
        let is_gate =
            |gate: &Projection, up: &Projection| !self.is_batch_invariant && shape(gate.weight) == shape(up.weight);
        Fusions::all(program, is_gate, |attend| AttentionShape::new(program, attend).is_of_heads())
    }

    /// Returns the kernel with rings for one input row of some matrices, and its shared memory, if two of its blocks
    /// fit on a multiprocessor: one for each of two kernels that overlap.
    pub(super) fn ring(&self, segments: &[Segment]) -> Option<(&CudaKernel<ProjectArgs>, usize)> {
        let kernel = self.kernels.ring(segments.iter().map(|s| s.w.dtype()))?;
        let mut sizes = segments.iter().map(|s| ring_shared(s.w.dtype(), s.w.cols as usize));
        let shared = sizes.try_fold(0, |most, bytes| Some(bytes?.max(most)))?;
        self.context.properties.fits_twice(shared).then_some((kernel, shared))
    }

    /// Returns the optional kernel for prompts, which the image has if it is the best one of this architecture, unless
    /// it has failed a self-test. Only the host emulation has several.
    pub(super) fn prompt_kernel(&self) -> Option<PromptKernel<'_>> {
        let [wgmma, bytes] = [&self.kernels.wgmma_256, &self.kernels.gemm_int8].map(|kernel| self.optional(kernel));
        wgmma.map(PromptKernel::Wgmma).or(bytes.map(PromptKernel::Bytes))
    }

    /// Returns a kernel that only some architectures have, unless one of these has failed a self-test.
    pub(super) fn optional<'a>(
        &self,
        kernel: &'a Option<CudaKernel<ProjectArgs>>,
    ) -> Option<&'a CudaKernel<ProjectArgs>> {
        kernel.as_ref().filter(|_| !self.verdict().leaves_out_optional)
    }

    fn measure_rates(&self) -> Result<(f64, f64)> {
        const BYTES: usize = 64 << 20;
        const LAUNCHES: u32 = 64;
        let rate = self.copy_rate(BYTES)?;
        let current = self.context.enter()?;
        let few = current.alloc("a measurement", 256)?;
        let started = Instant::now();
        for _ in 0..LAUNCHES {
            current.clear(&self.stream, &few, 0, 256)?;
        }
        current.synchronize(&self.stream)?;
        Ok((rate, started.elapsed().as_secs_f64() / f64::from(LAUNCHES)))
    }

    /// Measures the copy bandwidth of the device for `bytes` bytes, in bytes per second read and written; public for
    /// benches.
    #[doc(hidden)]
    pub fn copy_rate(&self, bytes: usize) -> Result<f64> {
        const COPIES: usize = 10;
        let current = self.context.enter()?;
        let (to, from) = (current.alloc("a copy", bytes)?, current.alloc("a copy", bytes)?);
        current.clear(&self.stream, &from, 0, bytes)?;
        current.copy(&self.stream, to.at(0), from.at(0), bytes)?;
        current.synchronize(&self.stream)?;
        let start = Instant::now();
        for _ in 0..COPIES {
            current.copy(&self.stream, to.at(0), from.at(0), bytes)?;
        }
        current.synchronize(&self.stream)?;
        Ok((2 * COPIES * bytes) as f64 / start.elapsed().as_secs_f64())
    }

    /// Returns the dimensions of an executor on this device.
    pub(super) fn dims(&self, program: &Program, limits: StepLimits) -> Result<ExecutorDims> {
        ExecutorDims::new(program, limits, self.context.properties.multiprocessors, self.is_batch_invariant)
    }
}

impl GpuDevice for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn driver(&self) -> &'static str {
        NAME
    }

    fn ordinal(&self) -> i32 {
        self.context.ordinal
    }

    fn supports(&self, program: &Program, weights: &Weights, ops: Range<usize>) -> Result<()> {
        let mut layers: Vec<KvLayer> = Vec::new();
        for op in &program.ops[ops] {
            if let Some(what) = lacking(program, weights, op)? {
                return Err(Error::unsupported(format!("{what} are not supported on a GPU")));
            }
            let mut op = op.clone();
            layers.extend(op.layer_mut().and_then(|state| program.kv_layers.get(state.0 as usize)));
        }
        if layers.iter().any(|l| l.pool > 1 && (l.n_kv_heads > 1 || !l.is_latent)) {
            return Err(Error::unsupported("compressed keys of several heads are not supported on a GPU"));
        }
        if let Some(l) = layers.iter().find(|l| l.head_dim > MAX_KEY || l.value_dim > MAX_VALUE) {
            let most = format!("at most {MAX_KEY} and {MAX_VALUE} are supported");
            let what = format!("keys have {} and values {} numbers per head; on a GPU {most}", l.head_dim, l.value_dim);
            return Err(Error::unsupported(what));
        }
        Ok(())
    }

    fn weight_bytes(&self, weights: &Weights) -> Result<u64> {
        weight_layout::bytes(weights)
    }

    fn cache_bytes(&self, cache: &SequenceSpec) -> Result<u64> {
        kv_bytes(cache)
    }

    fn working_bytes(&self, program: &Program, cache: &SequenceSpec, limits: StepLimits) -> Result<u64> {
        let dims = self.dims(program, limits)?;
        let (_, scratch) = DeviceScratch::at(0, &dims, program)?;
        let inputs = InputStaging::bytes(&dims, program.vocab);
        let pieces = 2 * pieces::piece_of(program).unwrap_or(0);
        Ok(kv_bytes(cache)? + (scratch + pieces + inputs) as u64)
    }

    fn load(
        self: Arc<Self>,
        program: &Program,
        weights: &Weights,
        progress: &mut Progress,
    ) -> Result<Arc<dyn GpuModel>> {
        self.supports(program, weights, 0..program.ops.len())?;
        let weights = weights::upload(&self.context, weights, progress).inspect_err(|e| {
            // Fail later loads at once; each would hang until the time limit.
            if let Error::DeviceLost { why, .. } = e
                && self.context.has_timed_out()
            {
                self.fail(format!("an upload has hung: {why}"));
            }
        })?;
        Ok(Arc::new(CudaModel { weights, device: self }))
    }

    fn groups(&self, program: &Program, weights: &Weights) -> Result<Vec<Vec<usize>>> {
        let mut shapes = Vec::with_capacity(weights.matrices.len());
        for matrix in &weights.matrices {
            shapes.push((self.stored_type(matrix.dtype())?, matrix.rows()));
        }
        Ok(self.fusions(program, |weight| shapes.get(weight.0 as usize)).groups(program))
    }

    fn stored_type(&self, dtype: DType) -> Result<DType> {
        Ok(weight_layout::stored_format(dtype)?.dtype)
    }

    fn is_deterministic(&self) -> bool {
        self.is_batch_invariant
    }

    fn plans(&self) -> bool {
        self.context.plans()
    }

    fn chooses(&self, rule: &SamplingRule) -> bool {
        rule.entries() <= MAX_ENTRIES && rule.params.suits_devices()
    }

    fn verdict(&self) -> MutexGuard<'_, Verdict> {
        self.context.verdict()
    }

    fn identity(&self) -> Option<u64> {
        let (driver, uuid) = self.context.identity()?;
        let mut hash = XxHash64::with_seed(driver as u64);
        hash.write(&uuid);
        hash.write(env!("CARGO_PKG_VERSION").as_bytes());
        hash.write(self.image);
        Some(hash.finish())
    }

    fn optional_kernels(&self) -> Option<&'static str> {
        self.prompt_kernel().map(|kernel| match kernel {
            PromptKernel::Wgmma(_) => WGMMA,
            PromptKernel::Bytes(_) => INT8,
        })
    }

    fn rates(&self) -> Result<(f64, f64)> {
        let known = self.verdict().rates;
        if let Some(known) = known {
            return Ok(known);
        }
        let rates = self.measure_rates().map_err(|e| match e {
            Error::DeviceLost { why, .. } => self.fail(format!("measuring its rates failed: {why}")),
            e => e,
        })?;
        self.verdict().rates = Some(rates);
        Ok(rates)
    }
}

/// Returns the part of an op that no kernel supports, if any.
fn lacking(program: &Program, weights: &Weights, op: &Op) -> Result<Option<&'static str>> {
    let len = |v: Option<Vector>| v.map_or(Ok(None), |v| weights.vector(v).map(|values| Some(values.len())));
    let routing_is_known = |r: &Routing| match r.score {
        RouterScore::SoftmaxOfChosen => r.bias.is_none() && r.groups == 1 && r.by_id.is_none(),
        RouterScore::Softmax | RouterScore::Sigmoid | RouterScore::RootOfSoftplus | RouterScore::SparseMixer => true,
    };
    let width = |tensor| program.width(tensor);
    let chooses = |s: &Select| {
        let KvLayer { head_dim: dim, is_latent, .. } = program.kv_layers[s.layer.0 as usize];
        let (heads, size) = (width(s.weights), s.groups.size());
        // Selection needs unrotated keys, but 4-bit caches rotate the keys of layers that are not latent.
        is_latent && dim <= SELECT_DIM && select_shared(width(s.out) / size, heads, dim) <= MAX_SELECT
    };
    Ok(match op {
        Op::Norm { norm, .. } if norm.bias.is_some() && len(norm.bias)? != len(norm.weight)?.or(Some(norm.group)) => {
            Some("norms whose bias is not as long as their weights")
        }
        Op::EmbedNgrams(e) if e.multipliers.len() > NGRAM => Some("embeddings of more than 8 ids"),
        Op::Select(s) if !chooses(s) => Some("such selections of positions"),
        Op::Attend(a) if a.among.is_some() && (a.slopes.is_some() || a.distances.is_some()) => {
            Some("scores by distances of chosen positions")
        }
        Op::Scan(s) if s.state > MAX_STATE => Some("scans with more than 256 numbers a channel"),
        Op::ProjectHeads { heads, .. } if *heads > GRID_Y => Some("products of more than 65535 heads"),
        Op::Experts(e) if !routing_is_known(&e.routing) => Some("experts with this routing"),
        Op::Experts(e) if e.n_experts > MAX_EXPERTS => Some("more than 4096 experts"),
        _ => None,
    })
}

/// A GPU with the weights of one model.
pub struct CudaModel {
    pub(super) weights: DeviceWeights,
    pub(super) device: Arc<CudaDevice>,
}
