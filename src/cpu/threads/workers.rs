//! Threads for long work outside of steps: packing weights, computing digests and checksums. They are a rayon thread
//! pool for one call, separate from the threads that compute, so that steps of other models do not wait.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::pool::Pool;
use super::thread::{self, Process, Worker};
use super::watch::Role;
use crate::error::{Error, Result, secured, try_vec};
use crate::graph::step_budget::StepBudget;
use crate::{memory, os};

/// Bytes that rayon allocates infallibly for a thread pool; next, per thread: its deque and its entry in the list of
/// crossbeam-epoch.
const BYTES: usize = 64 << 10;
const BYTES_OF_THREAD: usize = 16 << 10;

/// Bytes that the system must be able to allocate before threads start.
const NEEDED: usize = 256 << 10;

/// The threads that execute work items in parallel.
pub struct Workers {
    kind: Kind,
    /// Threads of the rayon pool, joined on drop.
    threads: Vec<Worker>,
    process: Process,
}

enum Kind {
    Rayon(ThreadPool),
    /// The host's threads, which also execute steps, and their number of shares.
    Host(Arc<Pool>, usize),
    Caller,
}

impl Workers {
    /// Calls `work` with as many threads as `pool` has, on the same processors: rayon threads, the host's threads, or
    /// only the caller if there is one thread.
    pub fn with<T>(pool: &Arc<Pool>, work: impl FnOnce(&Workers) -> Result<T>) -> Result<T> {
        let n = pool.threads();
        let without = |kind| Workers { kind, threads: Vec::new(), process: Process::this() };
        if pool.is_of_host() {
            return work(&without(Kind::Host(pool.clone(), n)));
        }
        // A read callback may call the library from a work item of another load. Such a call works on its own thread:
        // while rayon waits for another pool, it begins more items of the outer load.
        if n == 1 || !os::HAS_THREADS || rayon::current_thread_index().is_some() {
            return work(&without(Kind::Caller));
        }
        secured("threads", BYTES + BYTES_OF_THREAD * n, || work(&Workers::start(pool, n)?))
    }

    fn start(pool: &Pool, n: usize) -> Result<Workers> {
        // The thread-locals of rayon have destructors, and glibc terminates the process if it cannot allocate the few
        // words to register one. Therefore check first that the system has memory.
        if !memory::system_has(NEEDED) {
            return Err(Error::OutOfMemory { what: "the threads of a load", bytes: NEEDED as u64 });
        }
        let mut threads = try_vec("threads", n)?;
        let mut failure = None;
        let started = ThreadPoolBuilder::new().num_threads(n).spawn_handler(|thread| {
            let (i, watch) = (thread.index(), pool.watch(Role::Load));
            match thread::spawn_load(i, n, pool.cpu_of_load(i), move || watch.during(i, || thread.run())) {
                Ok(worker) => threads.push(worker),
                Err(e) => {
                    failure = Some(e);
                    return Err(std::io::ErrorKind::Other.into());
                }
            }
            Ok(())
        });
        match started.build() {
            Ok(pool) => Ok(Workers { kind: Kind::Rayon(pool), threads, process: Process::this() }),
            Err(e) => {
                // `build` has asked the started threads to end.
                threads.into_iter().for_each(Worker::join);
                let what = || format!("cannot start the threads of a load: {e}");
                Err(failure.unwrap_or_else(|| Error::Resources { what: what(), system_code: 0 }))
            }
        }
    }

    /// Returns the number of threads; thread numbers in `for_each` are below it.
    pub fn threads(&self) -> usize {
        match &self.kind {
            Kind::Rayon(pool) => pool.current_num_threads(),
            Kind::Host(_, shares) => *shares,
            Kind::Caller => 1,
        }
    }

    /// Calls `piece(thread, i)` for each `i` below `n`, at most one at a time for each `thread`. After an error no new
    /// calls begin, and one of the errors is returned.
    pub fn for_each(&self, n: usize, piece: impl Fn(usize, usize) -> Result<()> + Sync) -> Result<()> {
        match &self.kind {
            Kind::Rayon(pool) if self.process.is_here() => pool.install(|| {
                let pieces = (0..n).into_par_iter().with_max_len(1);
                pieces.try_for_each(|i| piece(rayon::current_thread_index().unwrap_or(0), i))
            }),
            // A forked child has no other threads.
            Kind::Rayon(_) | Kind::Caller => (0..n).try_for_each(|i| piece(0, i)),
            Kind::Host(pool, shares) => {
                let team = pool.enter_at(*shares, &StepBudget::unlimited())?.ok_or(Error::Cancelled)?;
                let result = Mutex::new(Ok(()));
                let result_so_far = || result.lock().unwrap_or_else(PoisonError::into_inner);
                team.for_each_with(n, |share, i| {
                    let continues = result_so_far().is_ok();
                    if continues && let Err(e) = piece(share, i) {
                        *result_so_far() = Err(e);
                    }
                });
                pool.take_fault()?;
                result.into_inner().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if self.process.is_here() {
            // Ends the threads of rayon, which are joined here.
            self.kind = Kind::Caller;
            self.threads.drain(..).for_each(Worker::join);
        } else {
            // A forked child has nothing to end or to join.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(std::mem::replace(&mut self.kind, Kind::Caller));
        }
    }
}
