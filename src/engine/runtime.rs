//! Workers, memory limit and log, shared by models.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::cancel::Cancel;
use crate::cpu::threads::deep::DeepThreads;
use crate::cpu::threads::pool::{HostParallel, Pool};
use crate::cpu::threads::thread::on_new_thread;
use crate::cpu::threads::watch::{OnThread, Role, Watch};
use crate::device::StepBudget;
use crate::error::{Error, Result, check_memory};
use crate::text::prepare_thread;

/// Severity of a log message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    Error = 1,
    Warning = 2,
    Info = 3,
}

pub type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

#[derive(Default)]
pub struct RuntimeParams {
    /// Number of compute threads: the caller's and `threads` - 1 workers; 0: one per available processor, or per fast
    /// core on hybrid CPUs.
    pub threads: u32,
    /// Runs computation on the host's threads instead of workers; `threads` is then the number of chunks per task.
    pub parallel: Option<HostParallel>,
    /// Processors to bind workers to, one processor per worker in turn; empty: workers are not bound.
    pub cpus: Vec<u32>,
    /// Limit of host memory for weights and caches, in bytes; 0: none.
    pub memory_limit: u64,
    pub log: Option<Log>,
    /// Called on each library thread at its start and at its end.
    pub on_thread: Option<OnThread>,
}

/// State of a runtime. Sizes are bytes of memory that counts against the limit.
pub struct RuntimeInfo {
    /// Number of compute threads, including the caller's.
    pub threads: usize,
    pub template_threads: usize,
    pub memory_used: u64,
    pub memory_peak: u64,
    /// 0: none.
    pub memory_limit: u64,
}

/// Converts a caller's limit, where 0 is none.
fn limit(bytes: u64) -> u64 {
    if bytes == 0 { u64::MAX } else { bytes }
}

/// Workers, memory limit and log, shared by models.
pub struct Runtime {
    pub(crate) pool: Arc<Pool>,
    /// `u64::MAX`: none.
    memory_limit: AtomicU64,
    memory_used: AtomicU64,
    /// Peak of `memory_used`.
    memory_peak: AtomicU64,
    log: Option<Log>,
    on_thread: Option<OnThread>,
    /// Started by the first load of a model with a tokenizer.
    deep: OnceLock<DeepThreads>,
}

impl Runtime {
    pub fn new(params: RuntimeParams) -> Result<Arc<Runtime>> {
        let threads = params.threads as usize;
        let pool = Arc::new(match params.parallel {
            Some(_) if !params.cpus.is_empty() => {
                return Err(Error::invalid("rz_runtime_params.cpus and parallel are both set; set one"));
            }
            Some(parallel) => Pool::of_host(threads, parallel)?,
            None => Pool::watched(threads, &params.cpus, Watch::new(params.on_thread.clone(), Role::Compute))?,
        });
        Ok(Arc::new(Runtime {
            pool,
            memory_limit: AtomicU64::new(limit(params.memory_limit)),
            memory_used: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            log: params.log,
            on_thread: params.on_thread,
            deep: OnceLock::new(),
        }))
    }

    /// Changes the number of threads for later steps; 0: as in `RuntimeParams::threads`.
    pub fn set_threads(&self, threads: u32) -> Result<()> {
        self.pool.set_threads(threads as usize)
    }

    /// Changes the memory limit; 0: none. Memory in use stays, even above the limit.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.memory_limit.store(limit(bytes), Ordering::Relaxed);
    }

    pub fn info(&self) -> RuntimeInfo {
        let limit = self.memory_limit();
        // Read in this order, so that the peak is at least the use.
        let memory_used = self.memory_used.load(Ordering::Relaxed);
        RuntimeInfo {
            threads: self.pool.threads(),
            template_threads: self.deep.get().map_or(0, DeepThreads::count),
            memory_used,
            memory_peak: self.memory_peak.load(Ordering::Relaxed).max(memory_used),
            memory_limit: if limit == u64::MAX { 0 } else { limit },
        }
    }

    fn memory_limit(&self) -> u64 {
        self.memory_limit.load(Ordering::Relaxed)
    }

    /// Starts the threads that render templates and compile grammars, unless started: one if the host's threads
    /// compute, otherwise one per compute thread, at most four.
    pub(crate) fn start_deep(&self) -> Result<()> {
        if self.deep.get().is_none() {
            let n = if self.is_of_host() { 1 } else { self.pool.threads() };
            if let Some(deep) = DeepThreads::start(n, &self.watch(Role::Template), prepare_thread)? {
                // If two loads run concurrently, the threads of one of them end.
                let _ = self.deep.set(deep);
            }
        }
        Ok(())
    }

    /// Runs `work`, which recurses deeply or renders a template, on a thread with a large stack. `cancels` end the wait
    /// for a thread; `work` must bound its own time.
    pub fn run_deep<T: Send>(&self, cancels: &[Option<&Cancel>], work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        Cancel::check(cancels)?;
        match self.deep.get().filter(|deep| deep.are_here()) {
            Some(deep) => {
                let stop = || Cancel::check(cancels).is_err();
                let result = deep.run(|| StepBudget::new(&stop).patience(), work)?;
                result.ok_or_else(|| Cancel::reason(cancels))
            }
            None => on_new_thread(work),
        }
    }

    /// Returns the host's callbacks for threads with a role.
    pub(crate) fn watch(&self, role: Role) -> Watch {
        Watch::new(self.on_thread.clone(), role)
    }

    /// True if the host's threads compute instead of workers.
    pub fn is_of_host(&self) -> bool {
        self.pool.is_of_host()
    }

    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if let Some(log) = &self.log {
            log(level, message);
        }
    }

    /// Replaces the remaining bytes in an error by the whole limit.
    pub(super) fn with_limit(&self, error: Error) -> Error {
        match error {
            Error::Limit { what, needed, left, .. } => Error::Limit { what, needed, left, limit: self.memory_limit() },
            other => other,
        }
    }

    /// Returns the number of bytes left below the limit.
    pub(super) fn memory_left(&self) -> u64 {
        self.memory_limit().saturating_sub(self.memory_used.load(Ordering::Relaxed))
    }

    /// Counts `bytes` against the limit until the reservation is dropped.
    pub(super) fn reserve(self: &Arc<Self>, what: &'static str, bytes: u64) -> Result<Reservation> {
        let limit = self.memory_limit();
        let used = |u: u64| u.checked_add(bytes).filter(|&sum| sum <= limit || bytes == 0);
        match self.memory_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used) {
            Ok(u) => {
                self.memory_peak.fetch_max(u.saturating_add(bytes), Ordering::Relaxed);
                Ok(Reservation { runtime: self.clone(), bytes })
            }
            Err(u) => {
                // If memory ran out while the size was computed, the size exceeds any limit.
                check_memory(what)?;
                Err(Error::Limit { what, needed: bytes, left: limit.saturating_sub(u), limit })
            }
        }
    }
}

/// Bytes counted against a runtime's limit.
pub(super) struct Reservation {
    runtime: Arc<Runtime>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.runtime.memory_used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
