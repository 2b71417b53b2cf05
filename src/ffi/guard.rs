//! The outermost frame of every export: `guarded!` and `guarded_or!` catch panics, fill in the caller's error record,
//! log lost devices and internal errors, and provide the `Call` through which arguments are read.
//! `tests/it/abi/header.rs` fails if an export does not use one of them.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::LogLevel;
use crate::error::{Error, Result};
use crate::memory;

use super::arguments::Call;
use super::faults;
use super::status::{RZ_ERR_DEVICE_LOST, RZ_ERR_PANIC, RZ_OK, rz_error, rz_status};

/// Body of an export that returns `rz_status`: `guarded!(err, |call| ...)`, the closure a `Result<rz_status>`.
macro_rules! guarded {
    ($err:expr, $body:expr) => {{
        let body = $crate::ffi::guard::body($body);
        // SAFETY: the contract of the export, which the header states, is the contract of `guard`.
        unsafe { $crate::ffi::guard::guard($err, body) }
    }};
}
pub(super) use guarded;

/// Like `guarded!`, for calls that may come before the allocator is set, and that keep no memory.
macro_rules! guarded_first {
    ($err:expr, $body:expr) => {{
        let body = $crate::ffi::guard::body($body);
        // SAFETY: as in `guarded!`.
        unsafe { $crate::ffi::guard::guard_first($err, body) }
    }};
}
pub(super) use guarded_first;

/// Body of an export without a status: `guarded_or!(fallback, |call| ...)` returns `fallback` on any failure.
macro_rules! guarded_or {
    ($fallback:expr, $body:expr) => {{
        let body = $crate::ffi::guard::body($body);
        // SAFETY: the contract of the export, which the header states, is the contract of `guard_or`.
        unsafe { $crate::ffi::guard::guard_or($fallback, body) }
    }};
}
pub(super) use guarded_or;

/// True after the first call that may have allocated memory.
pub(super) static CALLED: AtomicBool = AtomicBool::new(false);

/// Fixes the type of an export's closure, outside of the `unsafe` block in the macros.
pub(super) fn body<T, F: FnOnce(&Call) -> Result<T>>(body: F) -> F {
    body
}

/// Runs the body of an export, and returns its status and writes it to `err`.
///
/// # Safety
/// Every pointer that `body` passes to its `Call`, and `err`, must be NULL or as the header says: readable (and
/// writable if it is not `const`) for its type and stated length while the call runs. Handles must not be freed.
pub(super) unsafe fn guard(err: *mut rz_error, body: impl FnOnce(&Call) -> Result<rz_status>) -> rz_status {
    CALLED.store(true, Ordering::Release);
    let _user = memory::User::enter();
    let body = |call: &Call| match memory::begin() {
        true => body(call),
        false => Err(Error::OutOfMemory { what: "the reserve of the library", bytes: memory::RESERVE as u64 }),
    };
    // SAFETY: the contract of this function.
    unsafe { guard_first(err, body) }
}

/// Like `guard`, without a reserve of memory.
///
/// # Safety
/// As for `guard`.
pub(super) unsafe fn guard_first(err: *mut rz_error, body: impl FnOnce(&Call) -> Result<rz_status>) -> rz_status {
    // SAFETY: the contract of this function is that of `Call::new`.
    let call = unsafe { Call::new() };
    let run = |call: &Call| match body(call) {
        Ok(status) => rz_error::success(status),
        Err(error) if call.is_answered_by(&error) => rz_error::success(RZ_OK),
        Err(error) => rz_error::failure(&error),
    };
    let record = caught(&call, run, |panic| panic);
    report(&call, &record);
    let status = record.code;
    if !err.is_null() && err.is_aligned() {
        // SAFETY: not NULL, aligned, and writable by the contract of this function.
        unsafe { err.write(record) };
    }
    status
}

/// Like `guard`, for exports that cannot report a failure.
///
/// # Safety
/// As for `guard`.
pub(super) unsafe fn guard_or<T>(fallback: T, body: impl FnOnce(&Call) -> Result<T>) -> T {
    CALLED.store(true, Ordering::Release);
    let _user = memory::User::enter();
    // Without a reserve, the export still frees objects and returns what exists.
    memory::begin();
    // SAFETY: as in `guard`.
    let call = unsafe { Call::new() };
    let panicked = |panic: rz_error| {
        report(&call, &panic);
        None
    };
    caught(&call, |call| body(call).ok(), panicked).unwrap_or(fallback)
}

/// Logs failures that the caller has not caused.
fn report(call: &Call, record: &rz_error) {
    if [RZ_ERR_PANIC, RZ_ERR_DEVICE_LOST].contains(&record.code)
        && let Some(runtime) = call.runtime()
    {
        runtime.log(LogLevel::Error, &record.text());
    }
}

thread_local! {
    // Neither variable has a destructor, because a registered destructor of a caller's thread would keep the library
    // mapped.
    /// Number of calls in progress on this thread; more than one if a callback calls the library.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The last panic that the hook has recorded.
    static PANIC: RefCell<Option<rz_error>> = const { RefCell::new(None) };
}

/// Returns the result of `body`, or its panic, which is not printed.
pub(super) fn silently<T>(body: impl FnOnce() -> T) -> std::thread::Result<T> {
    silence_own_panics();
    DEPTH.set(DEPTH.get().saturating_add(1));
    // If the closure panics while it changes an object, the object's lock is poisoned, so no call can see it half
    // changed.
    let result = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get().saturating_sub(1));
    result
}

/// Returns the result of `body`; after a panic, the result of `panicked`.
fn caught<T>(call: &Call, body: impl FnOnce(&Call) -> T, panicked: impl FnOnce(rz_error) -> T) -> T {
    PANIC.set(None);
    silently(|| body(call)).unwrap_or_else(|payload| {
        // For a panic of a worker, the hook ran on the worker; only the payload reaches this thread.
        let text = match payload.downcast_ref::<String>() {
            Some(text) => text,
            None => payload.downcast_ref::<&str>().copied().unwrap_or("of unknown origin"),
        };
        let said = || rz_error::describe(RZ_ERR_PANIC, 0, format_args!("internal error: {text}"));
        let panic = PANIC.take().unwrap_or_else(said);
        faults::end(&panic.text());
        panicked(panic)
    })
}

/// Installs a panic hook that does not print panics of calls, and records their messages. It passes all other panics,
/// of a Rust program that links this crate, to the previous hook.
fn silence_own_panics() {
    type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;
    // Stored in a static, so that the hook is a closure without captures: nothing stays on the heap when the library is
    // unloaded.
    static PREVIOUS: OnceLock<Hook> = OnceLock::new();
    PREVIOUS.get_or_init(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(|info| {
            let is_worker = crate::engine::is_own_thread;
            if DEPTH.get() > 0 {
                PANIC.set(Some(rz_error::describe(RZ_ERR_PANIC, 0, format_args!("internal error: {info}"))));
            } else if !is_worker()
                && let Some(previous) = PREVIOUS.get()
            {
                previous(info);
            }
        }));
        previous
    });
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::{Runtime, RuntimeParams};
    use crate::ffi::handle::{Handle, into_raw};
    use crate::ffi::lock::Lock;
    use crate::ffi::status::{RZ_ERR_INVALID_ARGUMENT, RZ_ERR_POISONED, RZ_OK};

    struct Counter(Lock<u32>, Option<Arc<Runtime>>);

    impl Handle for Counter {
        const NAME: &'static str = "counter";

        fn runtime(&self) -> Option<&Arc<Runtime>> {
            self.1.as_ref()
        }
    }

    fn counter() -> *mut Counter {
        into_raw(Counter(Lock::new(0), None))
    }

    fn count(counter: *mut Counter, panics: bool, err: *mut rz_error) -> rz_status {
        guarded!(err, |call| {
            let counter = call.handle(counter)?;
            let mut n = counter.0.take(Counter::NAME)?;
            *n += 1;
            assert!(!panics, "the counter broke");
            Ok(RZ_OK)
        })
    }

    fn free(counter: *mut Counter) {
        guarded_or!((), |call| call.release(counter));
    }

    #[test]
    fn a_panic_poisons_one_handle() {
        let mut err = rz_error::success(0);
        let (broken, other) = (counter(), counter());
        assert_eq!(count(broken, false, &mut err), RZ_OK);
        assert_eq!(count(broken, true, &mut err), RZ_ERR_PANIC);
        assert!(err.text().contains("the counter broke") && err.text().contains("guard.rs:"), "{}", err.text());
        assert_eq!(count(broken, false, &mut err), RZ_ERR_POISONED);
        let message = err.text();
        assert!(message.starts_with("counter ") && message.contains("the counter broke"), "{message}");
        assert_eq!(count(other, false, &mut err), RZ_OK);
        assert_eq!((err.code, err.text()), (RZ_OK, String::new()));
        free(broken);
        free(other);
        free(null_mut());
    }

    #[test]
    fn a_panic_is_logged() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let ear = heard.clone();
        let log = Box::new(move |level, message: &str| {
            assert_eq!(level, LogLevel::Error);
            ear.lock().expect("no panic").push(message.to_owned());
        });
        let runtime =
            Runtime::new(RuntimeParams { threads: 1, log: Some(log), ..Default::default() }).expect("a runtime");
        let broken = into_raw(Counter(Lock::new(0), Some(runtime)));
        assert_eq!(count(broken, true, null_mut()), RZ_ERR_PANIC);
        assert_eq!(count(broken, true, null_mut()), RZ_ERR_POISONED);
        free(broken);
        let heard = heard.lock().expect("no panic");
        assert!(heard.len() == 1 && heard[0].contains("the counter broke"), "{heard:?}");
    }

    #[test]
    fn a_panic_without_a_status_gives_the_fallback() {
        assert_eq!(guarded_or!(7, |_call| -> Result<u32> { panic!("inside") }), 7);
        assert_eq!(guarded_or!(7, |_call| Err::<u32, _>(Error::Cancelled)), 7);
        assert_eq!(guarded_or!(7, |_call| Ok(8)), 8);
    }

    #[test]
    fn a_panic_of_a_worker_says_what_it_was() {
        let worker = || std::thread::Builder::new().name("realizar-7".into()).spawn(|| panic!("share {}", 7));
        let mut err = rz_error::success(0);
        let status = guarded!(&mut err, |_call| match worker().expect("a thread").join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => Ok(RZ_OK),
        });
        assert_eq!((status, err.text().as_str()), (RZ_ERR_PANIC, "internal error: share 7"));
    }

    #[test]
    fn a_panic_within_a_callback_within_a_call_stays_there() {
        let mut inner = rz_error::success(0);
        let outer = guarded!(null_mut(), |_call| {
            let broken = counter();
            assert_eq!(count(broken, true, &mut inner), RZ_ERR_PANIC);
            free(broken);
            Ok(RZ_OK)
        });
        assert_eq!(outer, RZ_OK);
    }

    #[test]
    fn a_misaligned_record_is_left_alone() {
        let mut bytes = [0u64; 65];
        let odd = bytes.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<rz_error>();
        assert_eq!(count(null_mut(), false, odd), RZ_ERR_INVALID_ARGUMENT);
        assert_eq!(bytes, [0; 65]);
    }
}
