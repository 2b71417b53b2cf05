//! Memory planning: the memory that a model will take, without reading its weights.

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
    /// Number of layers on GPUs.
    pub gpu_layers: u32,
    /// Weights in host memory, as they are packed.
    pub weights_host: u64,
    /// Weights on GPUs.
    pub weights_device: u64,
    /// Host memory of one KV cache at full capacity: keys, values, tokens and logits.
    pub cache_host: u64,
    /// GPU memory of one KV cache at full capacity.
    pub cache_device: u64,
    /// Bytes that one more token of capacity adds to a cache.
    pub cache_token: u64,
    /// Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to eight
    /// concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each concurrent step
    /// takes this much.
    pub scratch_host: u64,
    /// Scratch memory on GPUs.
    pub scratch_device: u64,
    /// Peak host memory during the load.
    pub load_peak_host: u64,
    /// Total host memory: the model, its tokenizer, scratch memory and all caches.
    pub total_host: u64,
    /// Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it records
    /// repeated steps of one token (CUDA graphs).
    pub total_device: u64,
    /// First GPU layer whose experts are on the CPU, from 0.
    pub experts_host_first: u32,
    /// Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none.
    pub experts_host_layers: u32,
    /// Part of weights_host: experts of layers on GPUs.
    pub experts_host: u64,
    /// Part of weights_device: experts.
    pub experts_device: u64,
}

/// Part of a plan on one GPU, in bytes. Since 0.1.0.
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
    /// Part of rz_model_plan.weights_device.
    pub weights: u64,
    /// Part of rz_model_plan.cache_device.
    pub cache: u64,
    /// Part of rz_model_plan.scratch_device.
    pub scratch: u64,
    /// Part of rz_model_plan.total_device.
    pub total: u64,
}

/// Computes the memory that a load with these parameters and `n_caches` caches will take, before weights are read. The
/// call reads metadata and tokenizer, and temporarily reserves the scratch memory of a step and one cache on the host.
/// On a GPU it reserves nothing, but it creates a context, which takes memory for the driver. Layers are placed by the
/// memory that is free now: a later load that finds less memory places fewer layers, or fails with
/// RZ_ERR_DEVICE_OUT_OF_MEMORY if rz_model_params.gpu_layers was set.
///
/// The model is either `path` (NUL-terminated, as for rz_model_load) or `n` sources (as for rz_model_load_from, with
/// `path` NULL). `path`, `params` and `cache_params` may be NULL. The caller sets `out->struct_size`.
///
/// `devices`, an array of `capacity` elements whose struct_size the caller has set, receives one element for each GPU
/// that has layers, in the order of the layers. `*n_devices` receives the number of these GPUs, at most RZ_DEVICES_MAX.
/// `devices` and `n_devices` may be NULL with a `capacity` of 0; otherwise, if `capacity` is too small, the call
/// returns RZ_ERR_BUFFER_TOO_SMALL.
///
/// The plan counts KV cache pages that no token has reached yet, and page-locked host memory. It does not count thread
/// stacks, the C library, and the driver. The numbers may exceed the memory of this machine or
/// rz_runtime_params.memory_limit: a plan reserves nothing. A memory limit of `total_host` suffices for the load and
/// the caches; `load_peak_host` does not count against the limit. Any thread. Errors: as for rz_model_load and
/// rz_cache_new except RZ_ERR_LIMIT. Since 0.1.0.
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
