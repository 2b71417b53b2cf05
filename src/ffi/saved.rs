//! Caches that go to a file and come back.

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

/// Takes the next `n` bytes of what is saved. Returns 0, or the errno that ends the call with RZ_ERR_IO. Comes on the
/// thread that saves, during the call. It may call the library; a call that changes what is saved gets RZ_ERR_BUSY. It
/// must return normally: no longjmp, no C++ exception.
pub type rz_write_callback = Option<unsafe extern "C" fn(data: *const c_void, n: usize, user: *mut c_void) -> i32>;

/// Fills `out` with the next `n` bytes of what was saved. Returns 0, RZ_ERR_FORMAT if the file ends before the last of
/// these bytes (the call then fails with RZ_ERR_FORMAT), or the errno that ends the call with RZ_ERR_IO. Comes on the
/// thread that loads, during the call. It may call the library. It must return normally: no longjmp, no C++ exception.
pub type rz_read_callback = Option<unsafe extern "C" fn(out: *mut c_void, n: usize, user: *mut c_void) -> i32>;

/// Hands the cache to `write`, in pieces of at most 256 KiB, on this thread: its tokens, the logits, and what the
/// network remembers, as it lies in memory. A cache whose memory was given back (rz_cache_release) is saved without it.
///
/// The saved state can be loaded by this version of the library, on a machine of the same byte order, with the same
/// model: its weights and their types are told by a fingerprint. A checksum finds what was damaged. A model loaded with
/// RZ_MODEL_MMAP is read as a whole for its first fingerprint.
///
/// Only reads the cache, so that several calls may do so at once. `cancel` ends the call before the next piece, and may
/// be NULL. Any thread. Errors: RZ_ERR_IO (`write` returned an errno: rz_error.system_code), RZ_ERR_UNSUPPORTED for a
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

/// Makes a cache from what rz_cache_save has written, which `read` returns in the same order, in pieces of any size, on
/// this thread. What follows in it is the same, to the bit, as in the cache that was saved.
///
/// `params` may be NULL; zero in one of its fields stands for what was saved. Another capacity must have room for the
/// tokens; other types than those saved are refused. `cancel` ends the call before the next piece, and may be NULL.
/// `*out` is freed with rz_cache_free, before or after the model. Any thread. Errors: RZ_ERR_IO (`read` returned an
/// errno), RZ_ERR_FORMAT (no saved cache, or a damaged or truncated one), RZ_ERR_VERSION (saved by another version),
/// RZ_ERR_MISMATCH (another model, types, or side of the context length from which the model turns its rotary embedding
/// in another way), RZ_ERR_CONTEXT_FULL, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT,
/// RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// The error that the answer of a caller's function is, if it is none of success.
fn answer(code: i32, name: &str, n: usize) -> Result<()> {
    match code {
        0 => Ok(()),
        code => {
            let error = std::io::Error::from_raw_os_error(code);
            Err(Error::io(Path::new("a function of the caller"), &format!("cannot {name} {n} bytes"), &error))
        }
    }
}

/// The choices for what is loaded.
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
        // A function that gives less than it says leaves zeros, and not what was in memory before.
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
