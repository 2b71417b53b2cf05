//! GPUs of all vendors through wgpu: executes programs of ops as launches of the WGSL kernels in `kernels/wgsl/`.
//!
//! This file lists and opens devices. `probe` finds adapters; `context` opens a device and guards every call into wgpu;
//! `memory` has buffers; `kernels` compiles kernels and submits launches. `device` decides what is supported and loads
//! a model, `model` creates executors and sequences, `weights` and `sequence` lay out weights and KV caches. `executor`
//! runs steps: `inputs` and `scratch` lay out the memory of a step, `lower` lowers ops to launches, `draws` samples
//! tokens. `adapter` has LoRA adapters. Each model opens its own device: if the device fails, this model loses it,
//! while other models, the CPU and the process continue.

mod adapter;
mod context;
mod device;
mod draws;
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

/// The driver for all GPUs that wgpu finds.
pub struct Wgpu;

impl GpuDriver for Wgpu {
    fn name(&self) -> &'static str {
        probe::NAME
    }

    /// False, because this backend has not been measured on any hardware.
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

/// Allows software drivers, which compute on the CPU. Public only for tests.
#[doc(hidden)]
pub fn allow_software() {
    probe::allow_software();
}

/// Limits the multiplications of a launch, if its rows can be divided. Public only for tests.
#[doc(hidden)]
pub fn limit_work(most: usize) {
    lower::limit_work(most);
}
