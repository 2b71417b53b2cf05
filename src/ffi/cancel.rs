//! Stopping a call from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Cancel;

use super::guard::{guarded, guarded_or};
use super::handle::{self, Handle, Held};
use super::status::{RZ_OK, rz_error, rz_status};

/// A time in microseconds that is no limit: of rz_cancel_deadline and of every step with a budget. 0 says that no time
/// is left.
pub const RZ_NO_LIMIT: u64 = u64::MAX;

/// The time that a caller gives, if it is one.
pub(super) fn time_limit(us: u64) -> Option<Duration> {
    (us != RZ_NO_LIMIT).then(|| Duration::from_micros(us))
}

/// A flag that stops the calls it was given to, and every call on the caches it was set for (rz_cache_cancel_set). May
/// be fired and reset from any thread while calls use it.
pub struct rz_cancel(pub(super) Arc<Cancel>);

impl Handle for rz_cancel {
    const NAME: &'static str = "cancel";
}

/// Returns the flag of an optional handle; `None` if the caller passed NULL.
pub(super) fn flag(cancel: &Option<Held<rz_cancel>>) -> Option<&Cancel> {
    cancel.as_deref().map(|cancel| cancel.0.as_ref())
}

/// Makes a flag that is not fired. `*out` is freed with rz_cancel_free. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_new(out: *mut *mut rz_cancel, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.out(out, "out")?.set_handle(rz_cancel(Arc::default()));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Any thread, except while another one fires it. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_free(cancel: *mut rz_cancel) {
    guarded_or!((), |call| call.release(cancel))
}

/// Asks the calls that heed `cancel` to stop, which they do with RZ_ERR_CANCELLED after the share of work at hand:
/// within milliseconds on a CPU, whether they compute or wait for their turn; on a GPU after the step that is queued
/// there, which is a token or a piece of a prompt of at most 512 tokens. Calls that begin later stop at once, until
/// rz_cancel_reset. NULL is fine. Any thread, a signal handler included. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_fire(cancel: *mut rz_cancel) {
    // Without the guard, whose thread-local variables may allocate at their first use: not allowed in a signal handler.
    // Neither is the message of a bad handle.
    // SAFETY: NULL or a handle, as the header asks.
    if let Some(cancel) = unsafe { handle::live(cancel.cast_const()) } {
        cancel.0.fire();
    }
}

/// Has `cancel` fire by itself `us_from_now` microseconds from now, with 0 at once: a deadline that has passed.
/// RZ_NO_LIMIT takes that back, and so does rz_cancel_reset. Calls that heed it then end as if it were fired, with
/// RZ_ERR_DEADLINE. No thread waits for the time: each call looks at the clock where it looks at the flag. Any thread.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_deadline(cancel: *mut rz_cancel, us_from_now: u64, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(cancel)?.0.set_deadline(time_limit(us_from_now));
        Ok(RZ_OK)
    })
}

/// Makes a fired flag fit for use again, and takes its deadline back. NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_reset(cancel: *mut rz_cancel) {
    guarded_or!((), |call| {
        if let Some(cancel) = call.optional(cancel)? {
            cancel.0.reset();
        }
        Ok(())
    })
}

/// 1 if `cancel` was fired, or its deadline has passed, and it was not reset since; else 0, also for NULL. Any thread,
/// a signal handler included. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cancel_is_fired(cancel: *const rz_cancel) -> i32 {
    // Without the guard, as in `rz_cancel_fire`.
    // SAFETY: NULL or a handle, as the header asks.
    unsafe { handle::live(cancel) }.map_or(0, |cancel| i32::from(cancel.0.is_fired()))
}
