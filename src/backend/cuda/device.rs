//! A GPU that was opened for one model, and the model on it.
//!
//! Owns the kernels, the weights and the limits of what the kernels can execute. Refuses to know how a step runs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::inputs::InputStaging;
use super::kv::{self, CudaKv};
use super::launch::{Context, Stream};
use super::module::KernelTable;
use super::probe::{self, Driver};
use super::scratch::{DeviceScratch, ExecutorDims, gemv_shared};
use super::weights::{self, DeviceWeights};
use crate::backend::batch::StepLimits;
use crate::backend::op::{Activation, Index, Mask, Op, RouterScore, Routing};
use crate::backend::program::Program;
use crate::backend::state_spec::{KvLayer, StateSpec};
use crate::backend::weights::{Progress, Weights};
use crate::backend::{DeviceInfo, DeviceKind};
use crate::error::{Error, Result};

/// Values of the longest head that attention has kernels for.
const MAX_HEAD_DIM: usize = 256;

/// A GPU without weights.
pub struct CudaDevice {
    info: DeviceInfo,
    pub(super) kernels: KernelTable,
    /// Copies of weights and caches.
    pub(super) stream: Arc<Stream>,
    /// Kernels may start before the one ahead has ended.
    pub(super) early_launch: bool,
    /// Every product goes through the tiles of prompts, whose columns are independent, and positions of attention are
    /// divided in one way: slower for single tokens, whose own kernels round activations to 8 bits.
    pub(super) fixed: bool,
    pub(super) profile: bool,
    pub(super) context: Arc<Context>,
}

impl CudaDevice {
    /// Opens device `ordinal` with the compiled kernels in `image`.
    pub fn open(
        driver: &Arc<Driver>,
        ordinal: i32,
        image: &'static [u8],
        deterministic: bool,
        profile: bool,
    ) -> Result<CudaDevice> {
        let context = Context::new(driver, ordinal)?;
        let properties = &context.properties;
        if let Some(why) = probe::why_unusable(driver, properties, Ok(0)) {
            return Err(Error::DeviceUnavailable { device: context.device.clone(), why });
        }
        let current = context.enter()?;
        let kernels = KernelTable::load(&current, image)?;
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
        // Code for older architectures does not wait for the kernel ahead. Early starts can be recorded from CUDA 12.3 on.
        let early_launch = current.compiled_for(&k.gemv)? >= 90 && context.driver_version() >= 12_030;
        drop(current);
        Ok(CudaDevice { info, kernels, stream, early_launch, fixed: deterministic, profile, context })
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Fails with the reason why the kernels cannot execute some ops of a program.
    pub fn supports(&self, program: &Program, weights: &Weights, ops: Range<usize>) -> Result<()> {
        let shared = self.context.properties.shared_per_block as usize;
        let mut layers: Vec<KvLayer> = Vec::new();
        let mut queries = Vec::new();
        for op in &program.ops[ops] {
            if let Some(what) = lacking(program, weights, op)? {
                return Err(Error::unsupported(format!("{what} on a GPU")));
            }
            let mut op = op.clone();
            layers.extend(op.state_mut().and_then(|state| program.states.get(state.0 as usize)));
            if let Op::Attend(a) = &op {
                queries.push(program.width(a.q));
            }
            // Activations of one token are prepared in shared memory.
            let (mut plain, mut blocks, mut cols) = (false, false, 0);
            let mut matrices = Vec::new();
            op.for_each_product(|weight| matrices.push(weight));
            for weight in matrices {
                cols = cols.max(weights.shape(weight)?.1);
                let format = weights::stored_format(weights.matrices[weight.0 as usize].dtype())?;
                *(if format.block_len == 1 { &mut plain } else { &mut blocks }) = true;
            }
            let needed = gemv_shared(cols, plain, blocks);
            if needed > shared && !self.fixed {
                let device = &self.context.device;
                let what = format!("{needed} bytes of shared memory for one block, {device} has {shared}");
                return Err(Error::unsupported(format!("{what}: the model is too wide")));
            }
        }
        if layers.iter().any(|l| l.is_latent || l.value_dim != l.head_dim) {
            return Err(Error::unsupported("keys and values of different widths on a GPU"));
        }
        if let Some(long) = layers.iter().map(|l| l.head_dim).find(|&dim| dim > MAX_HEAD_DIM) {
            return Err(Error::unsupported(format!("heads of {long} values on a GPU, {MAX_HEAD_DIM} are the most")));
        }
        if layers.is_empty() && !program.memories.is_empty() {
            return Err(Error::unsupported("layers without keys and values on a GPU"));
        }
        let shapes = layers.windows(2).all(|l| (l[0].n_kv_heads, l[0].head_dim) == (l[1].n_kv_heads, l[1].head_dim));
        if !shapes || queries.windows(2).any(|q| q[0] != q[1]) {
            return Err(Error::unsupported("layers with heads of different shapes on a GPU"));
        }
        Ok(())
    }

    /// Bytes that weights take.
    pub fn weight_bytes(&self, weights: &Weights) -> Result<u64> {
        weights::bytes(weights)
    }

    /// Bytes of a cache and of an executor.
    pub fn working_bytes(&self, program: &Program, cache: &StateSpec, limits: StepLimits) -> Result<u64> {
        let dims = self.dims(program, limits)?;
        let (_, scratch) = DeviceScratch::at(0, &dims, program)?;
        Ok(kv::kv_bytes(cache)? + (scratch + InputStaging::bytes(limits)) as u64)
    }

    /// Brings the weights of a program to the device.
    pub fn load(self, program: &Program, weights: &Weights, progress: &mut Progress) -> Result<CudaModel> {
        self.supports(program, weights, 0..program.ops.len())?;
        let weights = weights::upload(&self.context, weights, progress)?;
        Ok(CudaModel { weights, device: self })
    }

    /// Measures the bytes a second, read and written, at which the device copies `bytes` bytes.
    pub fn copy_rate(&self, bytes: usize) -> Result<f64> {
        const COPIES: usize = 10;
        let current = self.context.enter()?;
        let (to, from) = (current.alloc("a copy", bytes)?, current.alloc("a copy", bytes)?);
        current.clear(&self.stream, &from, 0, bytes)?;
        current.copy(&self.stream, (&to, 0), (&from, 0), bytes)?;
        current.synchronize(&self.stream)?;
        let start = Instant::now();
        for _ in 0..COPIES {
            current.copy(&self.stream, (&to, 0), (&from, 0), bytes)?;
        }
        current.synchronize(&self.stream)?;
        Ok((2 * COPIES * bytes) as f64 / start.elapsed().as_secs_f64())
    }

    /// Dimensions of an executor on this device.
    pub(super) fn dims(&self, program: &Program, limits: StepLimits) -> Result<ExecutorDims> {
        ExecutorDims::new(program, limits, self.context.properties.multiprocessors, self.fixed)
    }
}

/// The part of an op that there are no kernels for.
fn lacking(program: &Program, weights: &Weights, op: &Op) -> Result<Option<&'static str>> {
    let routing_is_known = |r: &Routing| {
        r.score != RouterScore::Sigmoid && r.bias.is_none() && r.groups == 1 && r.scale == 1.0 && !r.on_input
    };
    Ok(match op {
        Op::ScaleByPosition { .. } => Some("queries that grow with their position"),
        Op::ScaleColumns { .. } => Some("factors of columns"),
        Op::Conv(_) => Some("convolutions"),
        Op::DeltaRule(_) => Some("delta rules"),
        Op::Scan(_) => Some("scans"),
        Op::Glu { activation: Activation::Identity | Activation::Sigmoid | Activation::Softplus, .. } => {
            Some("gates of recurrent networks")
        }
        Op::Clamp { .. } => Some("clamped activations"),
        Op::Gate { .. } => Some("gates by a sigmoid"),
        Op::ProjectHeads { .. } => Some("products head by head"),
        Op::JoinHeads { .. } => Some("heads of two parts"),
        Op::Slice { .. } => Some("parts of activations"),
        Op::Rope { first: 1.., .. } => Some("rotations of the end of a head"),
        Op::StoreKv { v: None, .. } => Some("latent attention"),
        Op::Norm { norm, x, .. } => match norm.weight {
            None => Some("norms without weights"),
            Some(v) if weights.vector(v)?.len() != norm.group && program.width(*x) != norm.group => {
                Some("norms of heads with a weight for each head")
            }
            Some(_) => None,
        },
        Op::Attend(a) if a.slopes.is_some() => Some("attention with linear biases"),
        Op::Attend(a) if a.sinks.is_some() => Some("attention with sinks"),
        Op::Attend(a) if matches!(a.mask, Mask::Chunk(_)) => Some("attention within chunks"),
        Op::Attend(a) if !a.mask.is_causal() => Some("attention to later tokens"),
        Op::Embed { index: Index::Zero, .. } => Some("the embedding of a type of tokens"),
        Op::Glu { activation: Activation::ClampedSwiglu, .. } => Some("the clamped SwiGLU"),
        Op::Experts(e) if !routing_is_known(&e.routing) => Some("this routing to experts"),
        Op::Experts(e) if e.gate.is_none() || e.gate == Some(e.up) => Some("this layout of experts"),
        Op::Experts(e) if e.biases.iter().chain(&e.scales).any(Option::is_some) => {
            Some("experts with biases or factors")
        }
        Op::Experts(e) if e.activation == Activation::ClampedSwiglu => Some("the clamped SwiGLU"),
        _ => None,
    })
}

/// A GPU with the weights of one model.
pub struct CudaModel {
    pub(super) weights: DeviceWeights,
    pub(super) device: CudaDevice,
}

impl CudaModel {
    pub fn device(&self) -> &DeviceInfo {
        &self.device.info
    }

    pub fn weight_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    /// An empty cache.
    pub fn new_kv(&self, spec: &StateSpec) -> Result<CudaKv> {
        CudaKv::new(&self.device.context, &self.device.stream, spec)
    }
}
