//! Threads for work that is done once, in pieces of milliseconds: packing weights, checksums. They are a pool of rayon,
//! and not the threads that compute, because steps of other models would wait for the pieces. Their pool is joined when
//! it is dropped.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::pool::Pool;
use super::thread::{self, Worker};
use super::watch::Role;
use crate::error::{Error, Result, try_vec};
use crate::graph::step_budget::StepBudget;
use crate::{memory, os};

/// Bytes that rayon allocates for a pool, in ways that cannot fail: the queue of each thread, and its place in the list
/// of those that free memory later.
const BYTES: usize = 64 << 10;
const BYTES_OF_THREAD: usize = 16 << 10;

/// Bytes that the system must still have free for the threads.
const NEEDED: usize = 256 << 10;

/// Who executes the pieces.
pub struct Workers {
    kind: Kind,
    /// To be joined.
    threads: Vec<Worker>,
}

enum Kind {
    Rayon(ThreadPool),
    /// The host, as it executes the shares of a step.
    Host(Arc<Pool>),
    Caller,
}

/// Bytes to secure for the life of the workers beside a pool.
pub fn bytes(pool: &Pool) -> usize {
    BYTES + BYTES_OF_THREAD * pool.threads()
}

impl Workers {
    /// As many threads as those of a pool, on the same processors. The caller works alone where the pool has no other
    /// thread, and the host's threads work where they compute.
    pub fn start(pool: &Arc<Pool>) -> Result<Workers> {
        if pool.is_of_host() {
            return Ok(Workers { kind: Kind::Host(pool.clone()), threads: Vec::new() });
        }
        let n = pool.threads();
        if n == 1 || !os::HAS_THREADS {
            return Ok(Workers { kind: Kind::Caller, threads: Vec::new() });
        }
        // Rayon has a thread-local on each of its threads, and glibc terminates the process if it has no memory for the
        // destructors, a few words each; therefore more than that is requested from the system first.
        if !memory::system_has(NEEDED) {
            return Err(Error::OutOfMemory { what: "the threads of a load", bytes: NEEDED as u64 });
        }
        let mut threads = try_vec("threads", n)?;
        let mut failure = None;
        let started = ThreadPoolBuilder::new().num_threads(n).spawn_handler(|thread| {
            let (i, watch) = (thread.index(), pool.watch(Role::Load));
            match thread::spawn_load(i, n, pool.cpu(i), move || watch.during(i, || thread.run())) {
                Ok(worker) => threads.push(worker),
                Err(e) => {
                    failure = Some(e);
                    return Err(std::io::ErrorKind::Other.into());
                }
            }
            Ok(())
        });
        match started.build() {
            Ok(pool) => Ok(Workers { kind: Kind::Rayon(pool), threads }),
            Err(e) => {
                // Those that were started end by themselves.
                threads.into_iter().for_each(Worker::join);
                Err(failure.unwrap_or_else(|| Error::invalid(format!("cannot start threads: {e}"))))
            }
        }
    }

    /// Number of threads among which the pieces are divided.
    pub fn threads(&self) -> usize {
        match &self.kind {
            Kind::Rayon(pool) => pool.current_num_threads(),
            Kind::Host(pool) => pool.threads(),
            Kind::Caller => 1,
        }
    }

    /// Calls `piece(thread, i)` for each `i` below `n`. A thread does not begin a piece within another one. An error,
    /// the first, ends the work early.
    pub fn for_each(&self, n: usize, piece: impl Fn(usize, usize) -> Result<()> + Sync) -> Result<()> {
        match &self.kind {
            Kind::Rayon(pool) => pool.install(|| {
                let pieces = (0..n).into_par_iter().with_max_len(1);
                pieces.try_for_each(|i| piece(rayon::current_thread_index().unwrap_or(0), i))
            }),
            Kind::Caller => (0..n).try_for_each(|i| piece(0, i)),
            Kind::Host(pool) => {
                let team = pool.enter_at(pool.threads(), &StepBudget::new(&|| false))?.ok_or(Error::Cancelled)?;
                let result = Mutex::new(Ok(()));
                let result_so_far = || result.lock().unwrap_or_else(PoisonError::into_inner);
                team.for_each_with(n, |share, i| {
                    let goes_on = result_so_far().is_ok();
                    if goes_on && let Err(e) = piece(share, i) {
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
        // Ends the threads of rayon, which are joined here.
        self.kind = Kind::Caller;
        self.threads.drain(..).for_each(Worker::join);
    }
}
