//! GPUs of every maker through wgpu: programs of ops as launches of the WGSL kernels in `kernels/wgsl/`.
//!
//! This file lists and opens devices. `probe` finds adapters; `context` opens a device and guards every call into wgpu;
//! `memory` has buffers, `kernels` compiles and submits launches. `device` says what is supported and loads a model,
//! `model` creates its objects, `weights` and `sequence` lay out matrices and caches. `executor` runs steps: `inputs`
//! and `scratch` are the memory of a step, `lower` turns ops into launches. A model has a device of its own: a fault
//! costs the model its device, while other models, the CPU and the process continue.

mod context;
mod device;
mod executor;
mod inputs;
mod kernels;
mod lower;
mod memory;
mod model;
mod probe;
mod scratch;
mod sequence;
mod weights;

use std::sync::Arc;

use crate::error::Result;
use crate::gpu::{GpuDevice, GpuDriver};
use crate::graph::device_info::DeviceInfo;
use crate::graph::load_options::LoadOptions;

/// The name of the driver, which stands for Metal, Vulkan and DX12.
const NAME: &str = "wgpu";

/// Offset that stands for a vector or activation that is not there.
const NONE: u32 = u32::MAX;

/// The driver of all GPUs that wgpu finds.
pub struct Wgpu;

impl GpuDriver for Wgpu {
    fn name(&self) -> &'static str {
        NAME
    }

    /// No hardware has been measured with it.
    fn is_automatic(&self) -> bool {
        false
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        probe::list()
    }

    fn open(&self, ordinal: i32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>> {
        Ok(device::WgpuDevice::open(ordinal, options)?)
    }
}

/// Makes software drivers available, which compute on the CPU. Public only for tests.
#[doc(hidden)]
pub fn allow_software() {
    probe::allow_software();
}
