//! LoRA adapters, and the caches that use them.

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

/// LoRA adapter of one model (low-rank adaptation, arXiv 2106.09685): it has two low-rank factors A and B for each of
/// some weight matrices W, and the product `W x` becomes `W x + scale * alpha / rank * B (A x)`. The model's weights do
/// not change. Immutable: any number of threads and caches may use it at once. Reference-counted: it may be freed
/// before the objects that use it.
pub struct rz_adapter(Arc<Adapter>);

impl Handle for rz_adapter {
    const NAME: &'static str = "adapter";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.model().runtime())
    }
}

/// Parameters of rz_adapter_load and rz_adapter_load_from. Zero in a field, or NULL instead of the struct, means the
/// default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_adapter_params {
    /// sizeof(rz_adapter_params).
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    /// Cancels the load when fired; may be NULL.
    pub cancel: *const rz_cancel,
}

/// Loads a LoRA adapter for `model`.
///
/// `path`, NUL-terminated, names a GGUF file of an adapter, or a PEFT folder with adapter_config.json and
/// adapter_model.safetensors; the format may differ from the model's. Every key of the configuration and every tensor
/// is checked: anything that would change a result and is not implemented is rejected, and the error names it. Factors
/// of embeddings and of experts are not implemented.
///
/// Factors keep their types in memory, with one exception: single-precision factors become half precision, unless the
/// weight itself is single precision. Factors and some scratch memory count against rz_runtime_params.memory_limit.
/// `params` may be NULL. The caller frees `*out` with rz_adapter_free, before or after the model and the caches that
/// use it. Any thread; blocks while the file is read.
///
/// Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_FORMAT (damaged, not an adapter, one of two
/// factors missing, values that are not finite), RZ_ERR_MISMATCH (an adapter of another model; the message names the
/// tensor, the expected and the actual shape), RZ_ERR_UNSUPPORTED (not implemented, such as DoRA or trained biases),
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST and RZ_ERR_DEVICE_UNAVAILABLE (failed self-test of adapter products)
/// for layers on a GPU, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT
/// for a model without weights, RZ_ERR_VERSION (unknown flags). Since 0.1.0.
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
/// folder under their names, adapter_config.json and adapter_model.safetensors. `params` may be NULL. The caller frees
/// `*out` with rz_adapter_free. Any thread. Errors: as for rz_adapter_load and rz_model_load_from. Since 0.1.0.
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

/// Frees the handle; NULL is fine. Caches that use the adapter keep it. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_adapter_free(adapter: *mut rz_adapter) {
    guarded_or!((), |call| call.release(adapter))
}

/// Sets the LoRA adapters of a cache for all later steps: `n` adapters, each with a scale. An `n` of 0 removes all
/// adapters. If `scales` is NULL, each scale is 1. A scale may be negative, and a scale of 0 turns its adapter off.
///
/// Clears the cache, because its contents were computed with other adapters. Later forks use the adapters too, and the
/// cache keeps the adapters alive. Caches with different adapters, or with none, can share one batch: rz_decode_batch
/// and rz_jobs_step group them. Results depend neither on other sequences of a batch nor on threads nor on prompt
/// chunks. A cache with adapters cannot be saved. Any thread.
///
/// Errors: RZ_ERR_BUSY while a call changes the cache or a job holds it, RZ_ERR_MISMATCH for an adapter of another
/// model, RZ_ERR_INVALID_ARGUMENT for a scale that is not finite, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// Returns the caller's adapters with their scales; each scale is 1 if `scales` is NULL.
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
