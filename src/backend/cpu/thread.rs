//! The threads of the library, which start here alone. Owns their stacks, names, signals and processors;
//! the caller of `spawn` joins them.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};

/// Most threads of a pool; a larger number is a mistake of the caller.
pub const MAX_THREADS: usize = 1024;

/// Bytes of a thread's stack: the default of std, which would otherwise look for a size in the environment.
const STACK: usize = 2 << 20;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is one of the library's.
pub fn is_own() -> bool {
    OWN.get()
}

/// Starts thread `index` of `threads`, with all signals blocked and bound to a processor that passed `check_cpus`.
pub fn spawn(
    index: usize,
    threads: usize,
    cpu: Option<u32>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(format!("realizar-{index}")).stack_size(STACK).spawn(move || {
        OWN.set(true);
        block_signals();
        if let Some(cpu) = cpu {
            bind(cpu);
        }
        work()
    });
    thread.map_err(|e| Error::Io {
        path: format!("thread {index} of {threads}"),
        what: format!("cannot be started: {e}"),
        system_code: e.raw_os_error().unwrap_or(0),
    })
}

/// Blocks all signals of the calling thread: the host's handlers were written for its own threads.
#[cfg(unix)]
fn block_signals() {
    // SAFETY: both functions only write to the set given to them, and a thread may always change its own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
fn block_signals() {}

/// Refuses processors that the calling thread may not use.
#[cfg(target_os = "linux")]
pub fn check_cpus(cpus: &[u32]) -> Result<()> {
    // SAFETY: a `cpu_set_t` of zeros is the empty set, and the call writes no more than its size.
    let allowed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        set
    };
    let usable = |cpu: u32| {
        // SAFETY: the bit lies within the set.
        cpu < libc::CPU_SETSIZE as u32 && unsafe { libc::CPU_ISSET(cpu as usize, &allowed) }
    };
    match cpus.iter().find(|cpu| !usable(**cpu)) {
        Some(cpu) => Err(Error::invalid(format!("processor {cpu} is none that this thread may use"))),
        None => Ok(()),
    }
}

/// Binds the calling thread to a processor that passed `check_cpus`.
#[cfg(target_os = "linux")]
fn bind(cpu: u32) {
    // SAFETY: the bit lies within the set, and a thread may always narrow its own affinity.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

#[cfg(not(target_os = "linux"))]
pub fn check_cpus(cpus: &[u32]) -> Result<()> {
    match cpus.is_empty() {
        true => Ok(()),
        false => Err(Error::unsupported("binding threads to processors is not supported on this system")),
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_cpu: u32) {}

/// Room for the deepest template or grammar; some systems give threads far less.
#[cfg(unix)]
const LARGE_STACK: usize = 32 << 20;

/// Runs `work` on a thread of its own, which has ended when this returns; a panic goes on here. std leaves a destructor on
/// every thread that starts others, and the interpreter of chat templates on every thread that runs one: on a thread of the
/// caller's that lives on they would keep the library mapped after `dlclose`.
#[cfg(unix)]
pub fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    use std::panic::resume_unwind;
    use std::ptr::null_mut;

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
        libc::pthread_attr_setstacksize(&mut attributes, LARGE_STACK);
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
        use std::panic::{AssertUnwindSafe, catch_unwind};
        // SAFETY: the task that `apart` handed to `pthread_create`, which it leaves alone until this thread has ended.
        let task = unsafe { &mut *task.cast::<Task<F, T>>() };
        OWN.set(true);
        // Nothing that unwinds leaves half changed: the panic goes on where the result is taken.
        task.result = task.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
        std::ptr::null_mut()
    }
    run::<F, T>
}

/// Elsewhere threads leave nothing behind that matters.
#[cfg(not(unix))]
pub fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    work()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn results_errors_and_panics_come_back() {
        let here = std::thread::current().id();
        assert_eq!(apart(|| Ok(std::thread::current().id() != here)).ok(), Some(true));
        assert!(matches!(apart(|| Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled)));
        let panic = std::panic::catch_unwind(|| apart(|| -> Result<()> { panic!("apart") })).expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"apart"));
    }
}
