//! Low-rank adapters, and the caches that use them.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{Adapter, Cancel, Runtime};
use crate::error::{Error, Result, try_filled, try_vec};

use super::arguments::Call;
use super::cache::rz_cache;
use super::cancel::{flag, rz_cancel};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::model::rz_model;
use super::source::{byte_sources, rz_source};
use super::status::{RZ_OK, rz_error, rz_status};

/// A low-rank adapter (LoRA, arXiv 2106.09685) of one model: for some of its matrices W two narrow ones, so that their
/// products become `W x + scale * alpha / rank * B (A x)`. The model's weights stay as they are. Immutable: any number
/// of threads and caches may use it at once. Counts its users, so it may be freed before them.
pub struct rz_adapter(Arc<Adapter>);

impl Handle for rz_adapter {
    const NAME: &'static str = "adapter";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.model().runtime())
    }
}

/// Parameters of rz_adapter_load and rz_adapter_load_from. Zero in a field, or NULL for all of them, stands for the
/// default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_adapter_params {
    /// sizeof(rz_adapter_params).
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    /// Cancels the load when it is fired; NULL: none.
    pub cancel: *const rz_cancel,
}

/// Loads an adapter for `model`.
///
/// `path`, NUL-terminated, names a GGUF file of an adapter, or a folder of PEFT with adapter_config.json and
/// adapter_model.safetensors, whichever of the two kinds of files the model came from. Every key of the configuration
/// and every tensor is accounted for: what would change a result and is not implemented is refused by name. Factors of
/// embeddings and of experts are not implemented.
///
/// Factors keep their types in memory, but for those of single precision beside weights of other types, which become
/// halves; they and some scratch count against rz_runtime_params.memory_limit. `params` may be NULL. `*out` is freed
/// with rz_adapter_free, before or after the model and the caches that use it. Any thread; takes as long as reading the
/// file does.
///
/// Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_FORMAT (damaged, no adapter, a factor without
/// the other, values that are not finite), RZ_ERR_MISMATCH (an adapter of another model; the message names the tensor,
/// what was expected and what was found), RZ_ERR_UNSUPPORTED (what is not implemented, such as DoRA or trained biases),
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST and RZ_ERR_DEVICE_UNAVAILABLE (it fails a test of such products) for
/// layers on a GPU, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT for
/// a model without weights, RZ_ERR_VERSION (unknown flags). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_adapter_load(
    model: *const rz_model,
    path: *const c_char,
    params: *const rz_adapter_params,
    out: *mut *mut rz_adapter,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let path = call.path(path, "path")?;
        let out = call.out(out, "out")?;
        out.set_handle(load(call, params, |cancel| Adapter::load(&model.0, path, cancel))?);
        Ok(RZ_OK)
    })
}

/// Like rz_adapter_load, but reads `n` sources, as rz_model_load_from does: one GGUF file, or the files of a PEFT
/// folder under their names, adapter_config.json and adapter_model.safetensors. `params` may be NULL. `*out` is freed
/// with rz_adapter_free. Any thread. Errors: those of rz_adapter_load and rz_model_load_from. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_adapter_load_from(
    model: *const rz_model,
    sources: *const rz_source,
    n: usize,
    params: *const rz_adapter_params,
    out: *mut *mut rz_adapter,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let sources = byte_sources(call, sources, n)?;
        out.set_handle(load(call, params, |cancel| Adapter::load_from(&model.0, &sources, cancel))?);
        Ok(RZ_OK)
    })
}

fn load(
    call: &Call,
    params: *const rz_adapter_params,
    load: impl FnOnce(Option<&Cancel>) -> Result<Arc<Adapter>>,
) -> Result<rz_adapter> {
    let params: rz_adapter_params = call.params(params)?;
    call.flags(params.flags, 0, "rz_adapter_params.flags")?;
    let cancel = call.optional(params.cancel)?;
    Ok(rz_adapter(load(flag(&cancel))?))
}

/// Frees the handle; NULL is fine. Caches that use the adapter go on. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_adapter_free(adapter: *mut rz_adapter) {
    guarded_or!((), |call| call.release(adapter))
}

/// Has the cache use `n` adapters from now on, each multiplied by its scale, one after the other; with `n` 0 none.
/// `scales` may be NULL, which stands for 1 each; a scale may be negative, and one of 0 leaves its adapter out.
///
/// Empties the cache unless it is empty: what it holds was computed with other adapters. Forks that are made later use
/// them too, and the cache keeps them alive. Caches with different adapters, or with none, work in one batch:
/// rz_decode_batch and rz_jobs_step group them. A result depends neither on the others in a batch nor on threads nor on
/// how a prompt was cut. A cache with adapters cannot be saved. Any thread.
///
/// Errors: RZ_ERR_BUSY while a call changes the cache or a job has it, RZ_ERR_MISMATCH for an adapter of another model,
/// RZ_ERR_INVALID_ARGUMENT for a scale that is not finite, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_adapters_set(
    cache: *mut rz_cache,
    adapters: *const *mut rz_adapter,
    scales: *const f32,
    n: usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let (adapters, scales) = adapters_of(call, adapters, scales, n)?;
        cache.change(|session| session.set_adapters(&adapters, &scales))?;
        Ok(RZ_OK)
    })
}

/// Adapters of the caller and the factor of each, 1 where `scales` is NULL.
pub(super) fn adapters_of(
    call: &Call,
    adapters: *const *mut rz_adapter,
    scales: *const f32,
    n: usize,
) -> Result<(Vec<Arc<Adapter>>, Vec<f32>)> {
    let handles = call.slice(adapters, n, "adapters")?;
    let mut factors = try_filled("scales", n, 1f32)?;
    if !scales.is_null() {
        factors.copy_from_slice(call.slice(scales, n, "scales")?);
    }
    let mut out = try_vec("adapters", n)?;
    for (i, &handle) in handles.iter().enumerate() {
        let of = |error| match error {
            Error::InvalidArgument(what) => Error::InvalidArgument(format!("adapters[{i}]: {what}")),
            other => other,
        };
        let adapter: Result<_> = call.handle(handle);
        out.push(adapter.map_err(of)?.0.clone());
    }
    Ok((out, factors))
}
