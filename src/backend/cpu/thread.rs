//! The threads of the library: `spawn` is the only place that starts one. Owns their stacks, names, signals and processors;
//! the caller of `spawn` joins them.
#![allow(unsafe_code)]

use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};

/// Most threads of a pool; a larger number is a mistake of the caller.
pub const MAX_THREADS: usize = 1024;

/// Bytes of a thread's stack: the default of std, which would otherwise look for a size in the environment.
const STACK: usize = 2 << 20;

/// Starts thread `index` of `threads`, with all signals blocked and bound to a processor that passed `check_cpus`.
pub fn spawn(
    index: usize,
    threads: usize,
    cpu: Option<u32>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(format!("realizar-{index}")).stack_size(STACK).spawn(move || {
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
