//! Stopping a call from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Cancel;

use super::guard::{guarded, guarded_or};
use super::handle::{self, Handle, Held};
use super::status::{RZ_OK, rz_error, rz_status};

/// No limit, for times in microseconds: rz_cancel_deadline and every step with a budget. 0 means that no time is left.
pub const RZ_NO_LIMIT: u64 = u64::MAX;

/// Converts a caller's time in microseconds; `None` for RZ_NO_LIMIT.
pub(super) fn time_limit(us: u64) -> Option<Duration> {
    (us != RZ_NO_LIMIT).then(|| Duration::from_micros(us))
}

/// Cancellation flag: stops the calls that it is passed to, and every call on the caches that it is set for
/// (rz_cache_cancel_set). Any thread may fire and reset it while calls use it.
pub struct rz_cancel(pub(super) Arc<Cancel>);

impl Handle for rz_cancel {
    const NAME: &'static str = "cancel";
}

/// Returns the flag of an optional handle; `None` if the caller passed NULL.
pub(super) fn flag(cancel: &Option<Held<rz_cancel>>) -> Option<&Cancel> {
    cancel.as_deref().map(|cancel| cancel.0.as_ref())
}

/// Creates a flag that is not fired. The caller frees `*out` with rz_cancel_free. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_new(out: *mut *mut rz_cancel, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.out(out, "out")?.set_handle(rz_cancel(Arc::default()));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Any thread, except while another thread fires it. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_free(cancel: *mut rz_cancel) {
    guarded_or!((), |call| call.release(cancel))
}

/// Cancels the calls that use `cancel`. They stop generation and return RZ_ERR_CANCELLED: on a CPU within milliseconds,
/// whether they compute or wait for their turn (exception: rz_media_from_image); on a GPU after the queued step, which
/// is one token or a prefill chunk of at most 512 tokens. Later calls fail at once, until rz_cancel_reset. NULL is
/// fine. Any thread, also from a signal handler. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_fire(cancel: *mut rz_cancel) {
    // Does not use the guard, because its thread-local variables may allocate at their first use, and a signal handler
    // must not allocate. The message about a bad handle would allocate too. SAFETY: NULL or a handle, as the header
    // asks.
    if let Some(cancel) = unsafe { handle::live(cancel.cast_const()) } {
        cancel.0.fire();
    }
}

/// Sets a deadline: `cancel` fires by itself `us_from_now` microseconds from now; 0 fires at once. Once the deadline
/// has passed, calls return RZ_ERR_DEADLINE. RZ_NO_LIMIT removes the deadline, and so does rz_cancel_reset. No timer
/// thread is involved: calls check the clock whenever they check the flag. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_deadline(cancel: *mut rz_cancel, us_from_now: u64, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(cancel)?.0.set_deadline(time_limit(us_from_now));
        Ok(RZ_OK)
    })
}

/// Resets a fired flag and removes its deadline. NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_reset(cancel: *mut rz_cancel) {
    guarded_or!((), |call| {
        if let Some(cancel) = call.optional(cancel)? {
            cancel.0.reset();
        }
        Ok(())
    })
}

/// Returns 1 if `cancel` was fired or its deadline has passed, and it was not reset since; else 0, also for NULL. Any
/// thread, also from a signal handler. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_is_fired(cancel: *const rz_cancel) -> i32 {
    // Without the guard, as in `rz_cancel_fire`.
    // SAFETY: NULL or a handle, as the header asks.
    unsafe { handle::live(cancel) }.map_or(0, |cancel| i32::from(cancel.0.is_fired()))
}
