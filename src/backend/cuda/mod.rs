//! NVIDIA GPUs: the verbs as launches of the kernels in `kernels/`.
//!
//! This file opens devices and performs `Backend` on them. `device` keeps a model's weights, `executor` gathers the verbs of
//! a step and runs them; `probe` finds the driver, `launch` makes every call that acts on a device, `module` names the kernels, `weights` and `kv` lay
//! out matrices and caches, `inputs` and `scratch` the memory of a step, `lower` turns verbs into launches, `graph`
//! replays steps that come again. A model has a context of its own: a fault costs the model its device, while other
//! models, the CPU and the process go on.

mod arena;
mod device;
mod executor;
mod graph;
mod inputs;
mod kv;
mod launch;
mod lower;
mod module;
mod probe;
mod profile;
mod scratch;
mod weights;

use std::sync::{Arc, OnceLock};

pub use self::device::Cuda;
pub use self::module::KernelTable;
pub use self::probe::Driver;

use self::device::{DeviceRope, DeviceWeight};
use self::executor::CudaExecutor;
use self::inputs::StepInputs;
use self::kv::CudaKv;
use self::launch::DeviceBuffer;
use self::scratch::DeviceScratch;
use super::{
    Backend, DeviceInfo, Exec, Kv, KvSpec, MatrixSource, Needs, Progress, Rope, RopeTable, Vector, Weight, Widths,
};
use crate::error::{Error, Result};

static PROVIDED: OnceLock<(Arc<Driver>, &'static [u8])> = OnceLock::new();

/// Replaces the system's driver and the library's own kernels by `driver` and `image` in the whole process. Succeeds once,
/// before the first device is asked for; afterwards it returns false.
pub fn provide(driver: Arc<Driver>, image: &'static [u8]) -> bool {
    PROVIDED.set((driver, image)).is_ok()
}

/// Lists every GPU, or one unavailable entry that says why there is none.
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
        (self.buffers.iter().map(DeviceBuffer::len).sum::<usize>() + vectors) as u64
    }
}
