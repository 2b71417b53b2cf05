//! The memory that a model will take, before its weights are read.

use std::ffi::c_char;

use crate::engine::Plan;

use super::cache::{cache_params, rz_cache_params};
use super::guard::guarded;
use super::model::{rz_model_params, with_params};
use super::source::{Files, files, rz_source};
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Memory that a model and its caches take, in bytes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rz_model_plan {
    /// sizeof(rz_model_plan), set by the caller.
    pub struct_size: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Weights in memory of the host, as they are packed.
    pub weights_host: u64,
    /// Weights on GPUs.
    pub weights_device: u64,
    /// One cache with room for all its tokens: keys, values, tokens and logits.
    pub cache_host: u64,
    /// The part of one cache that is on GPUs.
    pub cache_device: u64,
    /// Bytes that one more token of capacity adds to a cache.
    pub cache_token: u64,
    /// Scratch memory of a step. Models whose runtime has one thread take it for each step that runs at the same time.
    pub scratch_host: u64,
    /// The part of it that is on GPUs.
    pub scratch_device: u64,
    /// The most that is held while the model is loaded.
    pub load_peak_host: u64,
    /// The model, its tokenizer, scratch and all caches.
    pub total_host: u64,
    /// The part of it that is on GPUs.
    pub total_device: u64,
    /// The first of the layers on GPUs whose experts are on the CPU, from 0.
    pub experts_host_first: u32,
    /// Layers from `experts_host_first` to the last whose experts are on the CPU; 0: there are none.
    pub experts_host_layers: u32,
    /// The part of weights_host that is experts of layers on GPUs.
    pub experts_host: u64,
    /// The part of weights_device that is experts.
    pub experts_device: u64,
}

/// The part of a plan that is on one GPU, in bytes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rz_model_plan_device {
    /// sizeof(rz_model_plan_device), set by the caller in every element of the array.
    pub struct_size: u32,
    /// Index of the device.
    pub device: u32,
    /// Number of layers on the GPU.
    pub n_layers: u32,
    /// 0.
    pub reserved: u32,
    /// The part of rz_model_plan.weights_device.
    pub weights: u64,
    /// The part of rz_model_plan.cache_device.
    pub cache: u64,
    /// The part of rz_model_plan.scratch_device.
    pub scratch: u64,
    /// The part of rz_model_plan.total_device.
    pub total: u64,
}

/// Tells what a load with these parameters and `n_caches` caches will take, before a weight is read: metadata and
/// tokenizer are read, and the scratch of a step and one cache are set aside on the host for the time of the call. On a
/// GPU nothing is set aside: a context is made, which takes what its driver takes, and the layers are placed by the
/// memory that is free now, so that a load that finds less places fewer, or is RZ_ERR_DEVICE_OUT_OF_MEMORY where their
/// number was given.
///
/// Either `path`, NUL-terminated, is given, as for rz_model_load, or `n` sources are, as for rz_model_load_from: `path`
/// may be NULL, and is with sources. `params` and `cache_params` may be NULL. The caller sets `out->struct_size`.
///
/// `devices`, an array of `capacity` elements whose struct_size the caller has set, receives one element for each GPU
/// that has layers, in the order of the layers. `*n_devices` receives the number of these GPUs, at most RZ_DEVICES_MAX.
/// `devices` and `n_devices` may be NULL with a `capacity` of 0; otherwise too small a `capacity` is
/// RZ_ERR_BUFFER_TOO_SMALL.
///
/// Pages that no token has reached yet are counted as taken, and so is page-locked memory of the host. Not counted: the
/// stacks of threads, what the C library takes, and what a driver takes for itself. The plan has its numbers even if
/// they exceed the memory of this machine or rz_runtime_params.memory_limit: it reserves nothing. A ceiling of
/// `total_host` suffices for the load and the cache; `load_peak_host` is not counted against it. Any thread. Errors: as
/// for rz_model_load and rz_cache_new except RZ_ERR_LIMIT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_plan_get(
    path: *const c_char,
    sources: *const rz_source,
    n: usize,
    params: *const rz_model_params,
    cache_params: *const rz_cache_params,
    n_caches: u32,
    out: *mut rz_model_plan,
    devices: *mut rz_model_plan_device,
    capacity: usize,
    n_devices: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out_struct(out)?;
        let devices = call.out_structs(devices, capacity, n_devices, ["devices", "n_devices"])?;
        let cache = self::cache_params(call, cache_params)?;
        let files = files(call, path, sources, n)?;
        let plan = with_params(call, params, |params| match &files {
            Files::Path(path) => Plan::of_path(path, params, &cache, n_caches),
            Files::Sources(sources) => Plan::of_sources(sources, params, &cache, n_caches),
        })?;
        devices.set(plan.gpus.iter().map(|gpu| rz_model_plan_device {
            struct_size: 0,
            device: gpu.device,
            n_layers: gpu.layers,
            reserved: 0,
            weights: gpu.weights,
            cache: gpu.cache,
            scratch: gpu.scratch,
            total: gpu.total,
        }))?;
        out.set(rz_model_plan {
            struct_size: 0,
            gpu_layers: plan.gpu_layers,
            weights_host: plan.weights.host,
            weights_device: plan.weights.device,
            cache_host: plan.cache.host,
            cache_device: plan.cache.device,
            cache_token: plan.cache_token,
            scratch_host: plan.scratch.host,
            scratch_device: plan.scratch.device,
            load_peak_host: plan.load_peak,
            total_host: plan.total.host,
            total_device: plan.total.device,
            experts_host_first: plan.expert_layers.start,
            experts_host_layers: count(plan.expert_layers.len()),
            experts_host: plan.experts.host,
            experts_device: plan.experts.device,
        });
        Ok(RZ_OK)
    })
}
