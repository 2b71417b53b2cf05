//! A GPU with what one model keeps on it: weights, vectors, rotary tables.
//!
//! Owns the handles that `Backend` gives out. Relies on `weights` and `kv` for layouts. Refuses to know how a step runs.

use std::sync::Arc;

use super::executor::CudaExecutor;
use super::inputs::StepInputs;
use super::kv::{self, CudaKv};
use super::launch::{Buffer, Context, Stream};
use super::module::{DeviceMatrix, KernelTable};
use super::probe::{self, Address, Driver};
use super::scratch::{DeviceScratch, ExecutorDims};
use super::weights;
use crate::backend::{
    Backend, DeviceInfo, DeviceKind, Exec, Kv, KvSpec, MatrixSource, Needs, Options, Progress, Rope, RopePairs,
    RopeTable, Vector, Weight, Widths,
};
use crate::error::{Error, Result};

/// A GPU with the weights of one model.
pub struct Cuda {
    info: DeviceInfo,
    weights: Vec<DeviceWeight>,
    /// Vectors with their lengths.
    vectors: Vec<(Buffer, usize)>,
    ropes: Vec<DeviceRope>,
    /// Memory of the matrices, one buffer for each upload.
    buffers: Vec<Buffer>,
    pub(super) kernels: KernelTable,
    stream: Arc<Stream>,
    /// KernelTable may start before the one ahead has ended.
    pub(super) early_launch: bool,
    /// A row is computed in one way, whatever else is in the batch.
    pub(super) fixed: bool,
    pub(super) profile: bool,
    pub(super) context: Arc<Context>,
}

/// A matrix with its number of columns before padding.
pub struct DeviceWeight {
    pub matrix: DeviceMatrix,
    pub cols: usize,
}

/// A rotary table.
pub struct DeviceRope {
    pub order: RopePairs,
    pub pairs: usize,
    /// `[pairs]`, double precision.
    pub inv_freq: Address,
    pub magnitude: f32,
    _buffer: Buffer,
}

impl Cuda {
    /// Opens device `ordinal` with the compiled kernels in `image`.
    pub fn open(driver: &Arc<Driver>, ordinal: i32, image: &'static [u8]) -> Result<Cuda> {
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
        // KernelTable written out for less do not wait for the one ahead. Recording early starts came with CUDA 12.3.
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

    /// Sets the options. With `fixed`, every product goes through the tiles of prompts, whose columns are independent, and
    /// positions of attention are divided in one way: slower for single tokens, whose own kernels round activations to 8 bits.
    pub fn with(self, options: Options) -> Cuda {
        Cuda { fixed: options.fixed, profile: options.profile, ..self }
    }

    /// Measures the bytes a second, read and written, at which the device copies `bytes` bytes.
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

    pub(super) fn weight(&self, weight: Weight) -> Result<&DeviceWeight> {
        self.weights.get(weight.0 as usize).ok_or_else(|| Error::invalid(format!("{weight:?} was not uploaded")))
    }

    /// Address and length of a vector.
    pub(super) fn vector(&self, vector: Vector) -> Result<(Address, usize)> {
        let held = self.vectors.get(vector.0 as usize);
        held.map(|(b, len)| (b.address(), *len)).ok_or_else(|| Error::invalid(format!("{vector:?} was not uploaded")))
    }

    pub(super) fn rope(&self, table: RopeTable) -> Result<&DeviceRope> {
        self.ropes.get(table.0 as usize).ok_or_else(|| Error::invalid(format!("{table:?} was not uploaded")))
    }

    /// Dimensions of an executor on this device.
    fn dims(&self, widths: &Widths, head_dim: usize, max_tokens: usize, max_outputs: usize) -> Result<ExecutorDims> {
        let multiprocessors = self.context.properties.multiprocessors;
        ExecutorDims::new(widths, head_dim, max_tokens, max_outputs, multiprocessors, self.fixed)
    }

    fn upload_array(&self, what: &str, bytes: &[u8]) -> Result<Buffer> {
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
        weights::upload_bytes(sources)
    }

    fn upload_host_bytes(&self, _sources: &[&dyn MatrixSource]) -> Result<u64> {
        Ok(0)
    }

    fn upload(&mut self, sources: &[&dyn MatrixSource], progress: &mut Progress) -> Result<Vec<Weight>> {
        let (buffer, matrices) = weights::upload(&self.context, sources, progress)?;
        let first = self.weights.len() as u32;
        for (matrix, source) in matrices.into_iter().zip(sources) {
            self.weights.push(DeviceWeight { matrix, cols: source.cols() });
        }
        self.buffers.push(buffer);
        Ok((first..self.weights.len() as u32).map(Weight).collect())
    }

    fn upload_vector(&mut self, values: &[f32]) -> Result<Vector> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let buffer = self.upload_array("a vector", &bytes)?;
        self.vectors.push((buffer, values.len()));
        Ok(Vector(self.vectors.len() as u32 - 1))
    }

    fn upload_rope(&mut self, rope: &Rope) -> Result<RopeTable> {
        let bytes: Vec<u8> = rope.inv_freq.iter().flat_map(|f| f.to_le_bytes()).collect();
        let buffer = self.upload_array("a rotary table", &bytes)?;
        let (order, pairs, magnitude) = (rope.pairs, rope.inv_freq.len(), rope.magnitude);
        self.ropes.push(DeviceRope { order, pairs, inv_freq: buffer.address(), magnitude, _buffer: buffer });
        Ok(RopeTable(self.ropes.len() as u32 - 1))
    }

    fn working_bytes(&self, needs: &Needs) -> Result<u64> {
        let Needs { kv, widths, head_dim, max_tokens, max_outputs } = needs;
        let dims = self.dims(widths, *head_dim, *max_tokens, *max_outputs)?;
        let (_, scratch) = DeviceScratch::at(0, &dims)?;
        Ok(kv::kv_bytes(kv)? + (scratch + StepInputs::bytes(*max_tokens, *max_outputs)) as u64)
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
        let dims = self.dims(widths, head_dim, max_tokens, max_outputs)?;
        Ok(Box::new(CudaExecutor::new(self, dims)?))
    }

    fn weight_bytes(&self) -> u64 {
        let vectors = self.vectors.iter().map(|(buffer, _)| buffer.len()).sum::<usize>();
        (self.buffers.iter().map(Buffer::len).sum::<usize>() + vectors) as u64
    }
}
