//! Work on a thread of its own, which ends with it. std leaves a destructor on every thread that starts others, and the
//! interpreter of chat templates on every thread that runs one; on a thread of the caller's that lives on, they would keep
//! the library mapped after `dlclose`.

use crate::error::Result;

/// Room for the deepest template; some systems give threads far less.
#[cfg(unix)]
const STACK: usize = 8 << 20;

/// The result of `work`, done on a thread that has ended when this returns. Its panic goes on here.
#[cfg(unix)]
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    use std::panic::resume_unwind;
    use std::ptr::null_mut;

    use crate::error::Error;

    let mut task = Task { work: Some(work), result: None };
    let run = run_for(&task);
    // SAFETY: signal sets are plain memory, filled before they are read. The new thread inherits blocked signals, so that
    // the host's handlers never run on it. It alone uses `task`, which lives here until it was joined.
    let refusal = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let (mut thread, mut attributes) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        let refusal = libc::pthread_create(&mut thread, &attributes, run, (&raw mut task).cast());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        if refusal == 0 {
            libc::pthread_join(thread, null_mut());
        }
        refusal
    };
    match task.result {
        Some(result) => result.unwrap_or_else(|panic| resume_unwind(panic)),
        None => {
            let what = std::io::Error::from_raw_os_error(refusal).to_string();
            Err(Error::Io { path: "a thread".to_owned(), what, system_code: refusal })
        }
    }
}

#[cfg(unix)]
struct Task<F, T> {
    work: Option<F>,
    result: Option<std::thread::Result<Result<T>>>,
}

#[cfg(unix)]
type Start = extern "C" fn(*mut std::ffi::c_void) -> *mut std::ffi::c_void;

/// The start routine for tasks of this type.
#[cfg(unix)]
fn run_for<F: FnOnce() -> Result<T>, T>(_task: &Task<F, T>) -> Start {
    extern "C" fn run<F: FnOnce() -> Result<T>, T>(task: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
        // SAFETY: the task that `apart` handed to `pthread_create`, which it leaves alone until this thread has ended.
        let task = unsafe { &mut *task.cast::<Task<F, T>>() };
        task.result = task.work.take().map(super::guard::silently);
        std::ptr::null_mut()
    }
    run::<F, T>
}

/// Elsewhere threads leave nothing behind that matters.
#[cfg(not(unix))]
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    work()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn results_errors_and_panics_come_back() {
        let here = std::thread::current().id();
        assert_eq!(apart(|| Ok(std::thread::current().id() != here)).ok(), Some(true));
        assert!(matches!(apart(|| Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled)));
        let panic = std::panic::catch_unwind(|| apart(|| -> Result<()> { panic!("apart") })).expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"apart"));
    }
}
