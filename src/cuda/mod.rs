//! NVIDIA GPUs: programs of ops as launches of the kernels in `kernels/`.
//!
//! This file lists and opens devices. `device` loads a model and keeps it, `executor` runs its steps; `probe` finds the
//! driver, `launch` makes every call that acts on a device, `module` names the kernels, `args` defines what they are
//! given, `variants` those of a type or width, `weights` and `sequence` lay out matrices and caches,
//! `adapter` has what is added to products, `adapted` that of a step, `inputs`, `rules` and `scratch` the
//! memory of a step, `fuse` chooses ops that share kernels, `lower` turns ops into launches, `graph` replays steps that
//! come again, `transfer` hands values from GPU to GPU, `host_way` to the host and back, `piece_way` copies
//! matrices of the host for a step, `kept` has a file of the tests that devices have passed. A model has a
//! context of its own on each: a fault costs the model its device, while other models, the CPU and the process go on.

mod adapted;
mod adapter;
#[doc(hidden)]
pub mod args;
mod device;
mod executor;
mod fuse;
mod graph;
mod host_way;
mod inputs;
mod kept;
mod launch;
mod lower;
mod module;
mod piece_way;
mod probe;
mod profile;
mod rules;
mod scratch;
mod sequence;
mod transfer;
mod variants;
mod weights;

use std::sync::{Arc, OnceLock};

pub use self::adapter::CudaAdapter;
pub use self::device::{CudaDevice, CudaModel, Uses, WGMMA};
pub use self::executor::CudaExecutor;
pub use self::host_way::HostWay;
pub use self::kept::Kept;
pub use self::module::KernelTable;
pub use self::piece_way::Pieces;
pub use self::probe::Driver;
pub use self::sequence::CudaSequence;
pub use self::transfer::Transfer;

use crate::error::{Error, Result};
use crate::graph::device_info::DeviceInfo;

static PROVIDED: OnceLock<(Arc<Driver>, &'static [u8])> = OnceLock::new();

/// Replaces the system's driver and the library's own kernels by `driver` and `image` in the whole process. Succeeds
/// once, before the first device is asked for; afterwards it returns false. Public for tests alone.
#[doc(hidden)]
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
pub fn open(ordinal: i32, uses: Uses) -> Result<Arc<CudaDevice>> {
    if let Some((driver, image)) = PROVIDED.get() {
        return CudaDevice::open(driver, ordinal, image, uses);
    }
    let unavailable = |why: String| Error::DeviceUnavailable { device: format!("cuda:{ordinal}"), why };
    let image = module::IMAGE.map_err(|why| unavailable(why.to_owned()))?;
    CudaDevice::open(&Driver::system().map_err(unavailable)?, ordinal, image, uses)
}
