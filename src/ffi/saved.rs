//! Saving and loading KV caches.

use std::ffi::c_void;
use std::path::Path;

use crate::engine::Cancel;
use crate::engine::saved::{self, RestoreParams};
use crate::error::{Error, Result};

use super::cache::{rz_cache, rz_cache_params};
use super::cancel::{flag, rz_cancel};
use super::element::cache_type;
use super::guard::guarded;
use super::model::rz_model;
use super::status::{RZ_ERR_FORMAT, RZ_OK, rz_error, rz_status};

/// Receives the next `n` bytes of saved state. Returns 0, or an errno (the call then fails with RZ_ERR_IO). Runs on the
/// saving thread, during the call. It may call the library; a call that changes the saved object gets RZ_ERR_BUSY. It
/// must return normally: no longjmp, no C++ exception.
pub type rz_write_callback = Option<unsafe extern "C" fn(data: *const c_void, n: usize, user: *mut c_void) -> i32>;

/// Fills `out` with the next `n` bytes of saved state. Returns 0; RZ_ERR_FORMAT if the file ends before the last of
/// these bytes (the call then fails with RZ_ERR_FORMAT); or an errno (the call then fails with RZ_ERR_IO). Runs on the
/// loading thread, during the call. It may call the library. It must return normally: no longjmp, no C++ exception.
pub type rz_read_callback = Option<unsafe extern "C" fn(out: *mut c_void, n: usize, user: *mut c_void) -> i32>;

/// Saves the cache through `write`, in chunks of at most 256 KiB, on this thread: the tokens, the logits, and the KV
/// cache and recurrent state as they are in memory. A released cache (rz_cache_release) is saved without keys and
/// values.
///
/// The saved state can be loaded by this version of the library, on a machine of the same byte order, with the same
/// model and the same division of its layers among CPU and GPUs. A fingerprint of the weights and their types
/// identifies both. A checksum detects damage. If the model is loaded with RZ_MODEL_MMAP, its fingerprint is computed
/// when it is first needed, which reads the whole model.
///
/// Only reads the cache: several such calls may run at once. `cancel` ends the call before the next chunk, and may be
/// NULL. Any thread. Errors: RZ_ERR_IO (`write` returned an errno: rz_error.system_code), RZ_ERR_UNSUPPORTED for a
/// cache with adapters, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_save(
    cache: *const rz_cache,
    write: rz_write_callback,
    user: *mut c_void,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let cancel = call.optional(cancel)?;
        let mut write = writer(write, user, flag(&cancel))?;
        cache.read(|session| saved::save(session, &mut write))?;
        Ok(RZ_OK)
    })
}

/// Creates a cache from the state that rz_cache_save has written; `read` returns it in the same order, in chunks of any
/// size, on this thread. The new cache continues bit-identically to the saved cache.
///
/// `params` may be NULL; zero in one of its fields means the saved value. Another capacity must be large enough for the
/// tokens; types other than the saved types are rejected. `cancel` ends the call before the next chunk, and may be
/// NULL. The caller frees `*out` with rz_cache_free, before or after the model. Any thread. Errors: RZ_ERR_IO (`read`
/// returned an errno), RZ_ERR_FORMAT (not a saved cache, or a damaged or truncated one), RZ_ERR_VERSION (saved by
/// another version), RZ_ERR_MISMATCH (another model, other types, or a capacity for which the model scales its rotary
/// positions differently), RZ_ERR_CONTEXT_FULL, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE,
/// RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_load(
    model: *const rz_model,
    params: *const rz_cache_params,
    read: rz_read_callback,
    user: *mut c_void,
    cancel: *const rz_cancel,
    out: *mut *mut rz_cache,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let params = restore_params(&call.params(params)?)?;
        let cancel = call.optional(cancel)?;
        let mut read = reader(read, user, flag(&cancel))?;
        out.set_handle(rz_cache::new(saved::load(&model.0, &params, &mut read)?));
        Ok(RZ_OK)
    })
}

/// Fails if the result of a caller's callback is not success.
fn answer(code: i32, name: &str, n: usize) -> Result<()> {
    match code {
        0 => Ok(()),
        code => {
            let error = std::io::Error::from_raw_os_error(code);
            Err(Error::io(Path::new("a function of the caller"), &format!("cannot {name} {n} bytes"), &error))
        }
    }
}

/// Parameters for a load of saved state.
pub(super) fn restore_params(params: &rz_cache_params) -> Result<RestoreParams> {
    Ok(RestoreParams {
        adapters: 0,
        capacity: (params.capacity != 0).then_some(params.capacity),
        k_type: cache_type(params.k_type, "rz_cache_params.k_type")?,
        v_type: cache_type(params.v_type, "rz_cache_params.v_type")?,
    })
}

/// Wraps the caller's write function; fails when `cancel` is fired.
pub(super) fn writer(
    write: rz_write_callback,
    user: *mut c_void,
    cancel: Option<&Cancel>,
) -> Result<impl FnMut(&[u8]) -> Result<()>> {
    let write = write.ok_or_else(|| Error::invalid("write is NULL"))?;
    Ok(move |bytes: &[u8]| {
        Cancel::check(&[cancel])?;
        // SAFETY: the header asks for a function that may be called so during the call.
        let code = unsafe { write(bytes.as_ptr().cast(), bytes.len(), user) };
        answer(code, "write", bytes.len())
    })
}

/// Wraps the caller's read function; fails when `cancel` is fired.
pub(super) fn reader(
    read: rz_read_callback,
    user: *mut c_void,
    cancel: Option<&Cancel>,
) -> Result<impl FnMut(&mut [u8]) -> Result<()>> {
    let read = read.ok_or_else(|| Error::invalid("read is NULL"))?;
    Ok(move |bytes: &mut [u8]| {
        Cancel::check(&[cancel])?;
        // If the function writes fewer bytes than it reports, the others are zero, instead of earlier contents of the
        // memory.
        bytes.fill(0);
        // SAFETY: as in `writer`.
        let code = unsafe { read(bytes.as_mut_ptr().cast(), bytes.len(), user) };
        if code == RZ_ERR_FORMAT {
            let what = format!("cannot read {} bytes: the file has fewer bytes left", bytes.len());
            return Err(Error::format(Path::new("a function of the caller"), what));
        }
        answer(code, "read", bytes.len())
    })
}
