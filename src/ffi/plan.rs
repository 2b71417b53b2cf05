//! The memory that a model will take, before its weights are read.

use std::ffi::c_char;

use crate::engine::Plan;
use crate::error::Error;

use super::cache::{cache_params, rz_cache_params};
use super::guard::guarded;
use super::model::{rz_model_params, with_params};
use super::source::{byte_sources, rz_source};
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::versioned;

/// Memory that a model and its caches take, in bytes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rz_plan {
    /// sizeof(rz_plan), set by the caller.
    pub struct_size: u32,
    /// Layers on a GPU.
    pub gpu_layers: u32,
    /// Weights in memory of the host, as they are packed.
    pub weights_host: u64,
    /// Weights on a device.
    pub weights_device: u64,
    /// One cache with room for all its tokens: keys, values, tokens and logits.
    pub cache_host: u64,
    /// The part of one cache that is on a device.
    pub cache_device: u64,
    /// Bytes that one more token of capacity adds to a cache.
    pub cache_token: u64,
    /// Scratch memory of a step. Models whose runtime has one thread take it for each step that runs at the same time.
    pub scratch_host: u64,
    /// The part of it that is on a device.
    pub scratch_device: u64,
    /// The most that is held while the model is loaded.
    pub load_peak_host: u64,
    /// The model, its tokenizer, scratch and all caches.
    pub total_host: u64,
    /// The part of it that is on a device.
    pub total_device: u64,
}

versioned!(rz_plan {
    struct_size,
    gpu_layers,
    weights_host,
    weights_device,
    cache_host,
    cache_device,
    cache_token,
    scratch_host,
    scratch_device,
    load_peak_host,
    total_host,
    total_device,
});

/// Tells what a load with these parameters and `n_caches` caches will take, before a weight is read: metadata and tokenizer
/// are read, and the scratch of a step and one cache are set aside for the time of the call.
///
/// Either `path`, as for rz_model_load, or `n` sources, as for rz_model_load_from; the other is NULL. `params` and
/// `cache_params` may be NULL. `out->struct_size` is set by the caller. Pages that no token has reached yet are counted as
/// taken. Not counted: the stacks of threads, and what the C library takes. Any thread. Errors: those of rz_model_load and
/// rz_cache_new; RZ_ERR_UNSUPPORTED for a device other than the CPU. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_plan(
    path: *const c_char,
    sources: *const rz_source,
    n: usize,
    params: *const rz_model_params,
    cache_params: *const rz_cache_params,
    n_caches: u32,
    out: *mut rz_plan,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out_struct(out)?;
        let cache = self::cache_params(call, cache_params)?;
        let plan = match (path.is_null(), n) {
            (false, 0) => {
                let path = call.path(path, "path")?;
                with_params(call, params, |params| Plan::of_path(path, params, &cache, n_caches))?
            }
            (true, 1..) => {
                let sources = byte_sources(call, sources, n)?;
                with_params(call, params, |params| Plan::of_sources(&sources, params, &cache, n_caches))?
            }
            _ => return Err(Error::invalid("a plan is for either a path or sources")),
        };
        out.set(rz_plan {
            struct_size: 0,
            gpu_layers: 0,
            weights_host: plan.weights,
            weights_device: 0,
            cache_host: plan.cache,
            cache_device: 0,
            cache_token: plan.cache_token,
            scratch_host: plan.scratch,
            scratch_device: 0,
            load_peak_host: plan.load_peak,
            total_host: plan.total,
            total_device: 0,
        });
        Ok(RZ_OK)
    })
}
