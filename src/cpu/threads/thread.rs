//! The threads of the library, all of which start here. Owns their stacks, names, signal masks and processors; the
//! caller of `spawn` joins them.

use std::cell::Cell;
use std::io;

use super::watch::Watch;
use crate::error::{Error, Result};
use crate::os;

/// Maximum number of threads of a pool; a larger number is a mistake of the caller.
pub const MAX_THREADS: usize = 1024;

/// Stack size of a thread in bytes: the default of std, which would otherwise read the environment.
const STACK: usize = 2 << 20;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// True if the calling thread belongs to the library.
pub fn is_own() -> bool {
    OWN.get()
}

/// Runs work of the library on a thread of the host, which counts as the library's own meanwhile.
pub fn as_own(work: impl FnOnce()) {
    let before = OWN.replace(true);
    work();
    OWN.set(before);
}

/// A started thread, to be joined.
pub struct Worker(os::Thread);

impl Worker {
    /// Waits for the end of the thread. Its work catches the panics of tasks, so there is no error to report.
    pub fn join(self) {
        self.0.join();
    }
}

/// Starts thread `index` of `threads`, bound to a processor that passed `check_cpus`. All signals are blocked, because
/// the host's handlers were written for its own threads.
pub fn spawn(index: usize, threads: usize, cpu: Option<u32>, work: impl FnOnce() + Send + 'static) -> Result<Worker> {
    spawn_named(format!("realizar-{index}"), index, threads, cpu, work)
}

/// `spawn` for thread `index` of a load.
pub fn spawn_load(
    index: usize,
    threads: usize,
    cpu: Option<u32>,
    work: impl FnOnce() + Send + 'static,
) -> Result<Worker> {
    spawn_named(format!("realizar-load{index}"), index, threads, cpu, work)
}

fn spawn_named(
    name: String,
    index: usize,
    threads: usize,
    cpu: Option<u32>,
    work: impl FnOnce() + Send + 'static,
) -> Result<Worker> {
    let work = move || {
        if let Some(cpu) = cpu {
            os::bind(cpu);
        }
        work()
    };
    let what = || format!("thread {index} of {threads}");
    start(name, STACK, work).map_err(|e| not_started(what(), &e))
}

/// Starts thread `index` with a stack for the deepest template or grammar.
pub fn spawn_deep(index: usize, work: impl FnOnce() + Send + 'static) -> Result<Worker> {
    start(format!("realizar-deep{index}"), LARGE_STACK, work).map_err(|e| not_started(DEEP.to_owned(), &e))
}

fn start(name: String, stack: usize, work: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
    let work = move || {
        OWN.set(true);
        work()
    };
    os::start_thread(&name, stack, Box::new(work)).map(Worker)
}

/// Name of a deep thread in errors.
const DEEP: &str = "the thread for chat templates and grammars";

fn not_started(what: String, e: &io::Error) -> Error {
    Error::Resources { what: format!("cannot start {what}: {e}"), system_code: e.raw_os_error().unwrap_or(0) }
}

/// The process in which a value was created.
pub struct Process(u32);

impl Process {
    /// Returns the calling process.
    pub fn this() -> Process {
        Process(os::process_id())
    }

    /// False in a forked child, which has none of the threads of its parent.
    pub fn is_here(&self) -> bool {
        os::process_id() == self.0
    }
}

/// A thread of the library outside the pool. The owner must end the thread's work before dropping the value, because
/// `drop` joins the thread.
pub struct Background {
    thread: Option<Worker>,
    process: Process,
}

impl Background {
    /// Starts the thread; returns `None` on a system without threads.
    pub fn start(watch: Watch, work: impl FnOnce() + Send + 'static) -> Result<Option<Background>> {
        if !os::HAS_THREADS {
            return Ok(None);
        }
        let thread = Some(spawn(0, 1, None, move || watch.during(0, work))?);
        Ok(Some(Background { thread, process: Process::this() }))
    }

    /// False in a forked child, which has no such thread.
    pub fn is_here(&self) -> bool {
        self.process.is_here()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A forked child has nothing to join.
            if self.is_here() {
                thread.join();
            }
        }
    }
}

/// Rejects processors that the calling thread may not use.
pub fn check_cpus(cpus: &[u32]) -> Result<()> {
    match os::unusable_processor(cpus) {
        None => Ok(()),
        Some(_) if !os::HAS_AFFINITY => {
            Err(Error::unsupported("binding threads to processors is not supported on this system"))
        }
        Some(cpu) => Err(Error::invalid(format!("processor {cpu} is none that this thread may use"))),
    }
}

/// Stack size in bytes for the deepest template or grammar; some systems give threads far less.
const LARGE_STACK: usize = 64 << 20;

/// Runs `work` on a new thread, which has ended when this function returns; a panic continues on the caller's thread.
/// For a forked child, which has none of the threads that a load started (`deep`).
pub fn on_new_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = || {
        OWN.set(true);
        work()
    };
    os::run_apart(LARGE_STACK, work).unwrap_or_else(|e| Err(not_started(DEEP.to_owned(), &e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_errors_and_panics_come_back() {
        let here = std::thread::current().id();
        assert_eq!(on_new_thread(|| Ok(std::thread::current().id() != here)).ok(), Some(true));
        assert!(matches!(on_new_thread(|| Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled)));
        let panic =
            std::panic::catch_unwind(|| on_new_thread(|| -> Result<()> { panic!("apart") })).expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"apart"));
    }
}
