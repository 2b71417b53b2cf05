//! NVIDIA GPUs: programs of ops as launches of the kernels in `kernels/`.
//!
//! This file lists and opens devices. `probe` finds the driver; `launch` makes every call that acts on a device;
//! `module` names the kernels, `args` defines their arguments, `variants` selects them by type and width. `device`
//! loads a model, `model` creates its objects, `weights` and `sequence` lay out matrices and caches, `adapter` holds
//! LoRA factors. `executor` runs steps: `prepared` is computed once per program; `inputs`, `rules`, `upload`, `adapted`
//! and `scratch` are the memory of a step; `lower` turns ops into launches, `graph` replays repeated steps, `steps`
//! tracks steps in flight. `transfer` copies values between GPUs, `host_transfer` to the host and back, `piece_stream`
//! streams host matrices for a step. A model has a separate context on each device: a fault costs the model its device,
//! while other models, the CPU and the process continue.

mod adapted;
mod adapter;
#[doc(hidden)]
pub mod args;
mod device;
mod executor;
mod graph;
mod host_transfer;
mod inputs;
mod launch;
mod lower;
mod model;
mod module;
mod piece_stream;
mod prepared;
mod probe;
mod profile;
mod rules;
mod scratch;
mod sequence;
mod steps;
mod transfer;
mod upload;
mod variants;
mod weights;

use std::sync::{Arc, OnceLock};

pub use self::device::{CudaDevice, CudaModel, INT8, WGMMA};
pub use self::module::KernelTable;
pub use self::probe::Driver;

use self::device::NAME;
use crate::error::{Error, Result};
use crate::gpu::{GpuDevice, GpuDriver};
use crate::graph::device_info::DeviceInfo;
use crate::graph::load_options::LoadOptions;

/// The driver of NVIDIA GPUs.
pub struct Cuda;

impl GpuDriver for Cuda {
    fn name(&self) -> &'static str {
        NAME
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        devices()
    }

    fn open(&self, ordinal: i32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>> {
        Ok(open(ordinal, options)?)
    }
}

static PROVIDED: OnceLock<(Arc<Driver>, &'static [u8])> = OnceLock::new();

/// Replaces the system's driver and the library's own kernels by `driver` and `image` in the whole process. Succeeds
/// once, before the first device is requested; afterwards it returns false. Public only for tests.
#[doc(hidden)]
pub fn provide(driver: Arc<Driver>, image: &'static [u8]) -> bool {
    PROVIDED.set((driver, image)).is_ok()
}

/// Lists every GPU, or one unavailable entry with the reason why there is none.
pub fn devices() -> Vec<DeviceInfo> {
    match PROVIDED.get() {
        Some((driver, _)) => probe::list(&Ok(driver.clone()), Ok(0)),
        None => probe::list(&Driver::system(), module::IMAGE.map(|_| module::COMPILER)),
    }
}

/// Opens GPU `ordinal` for one model.
pub fn open(ordinal: i32, options: &LoadOptions) -> Result<Arc<CudaDevice>> {
    if let Some((driver, image)) = PROVIDED.get() {
        return CudaDevice::open(driver, ordinal, image, options);
    }
    let unavailable = |why: String| Error::DeviceUnavailable { device: format!("cuda:{ordinal}"), why };
    let image = module::IMAGE.map_err(|why| unavailable(why.to_owned()))?;
    CudaDevice::open(&Driver::system().map_err(unavailable)?, ordinal, image, options)
}
