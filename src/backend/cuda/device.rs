//! A GPU with what one model keeps on it: kernels, weights, vectors, rotary tables.
//!
//! Owns the arrays behind the handles that `Backend` gives out. Refuses to know what is computed with them.

use std::sync::Arc;

use super::launch::{Context, DeviceBuffer, Stream};
use super::module::{DeviceMatrix, KernelTable};
use super::probe::{self, Address, Driver};
use super::scratch::ExecutorDims;
use crate::backend::{DeviceInfo, DeviceKind, Options, RopePairs, RopeTable, Vector, Weight, Widths};
use crate::error::{Error, Result};

/// A GPU with the weights of one model.
pub struct Cuda {
    pub(super) info: DeviceInfo,
    pub(super) weights: Vec<DeviceWeight>,
    /// Vectors with their lengths.
    pub(super) vectors: Vec<(DeviceBuffer, usize)>,
    pub(super) ropes: Vec<DeviceRope>,
    /// Memory of the matrices, one buffer for each upload.
    pub(super) buffers: Vec<DeviceBuffer>,
    pub(super) kernels: KernelTable,
    /// Copies of weights and caches.
    pub(super) stream: Arc<Stream>,
    /// Kernels may start before the one ahead has ended.
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
    pub(super) _buffer: DeviceBuffer,
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
        // Code for older architectures does not wait for the kernel ahead. Early starts can be recorded from CUDA 12.3 on.
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
    pub(super) fn dims(
        &self,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<ExecutorDims> {
        let multiprocessors = self.context.properties.multiprocessors;
        ExecutorDims::new(widths, head_dim, max_tokens, max_outputs, multiprocessors, self.fixed)
    }

    /// Copies `bytes` to a buffer of their own.
    pub(super) fn upload_array(&self, what: &str, bytes: &[u8]) -> Result<DeviceBuffer> {
        let current = self.context.enter()?;
        let buffer = current.alloc(what, bytes.len())?;
        current.upload_now(&self.stream, &buffer, 0, bytes)?;
        Ok(buffer)
    }
}
