//! The pool of executors of a program: created on demand, acquired by one step at a time, counted against the memory
//! limit.
//!
//! The workers compute one step at a time, so more executors would only take more memory: calls wait here for a permit,
//! in order of arrival, no longer than their budget allows. On the CPU a long step yields the workers between chunks,
//! so small steps have a small executor in addition.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::step::Step;
use crate::cpu::threads::fair_semaphore::FairSemaphore;
use crate::cpu::threads::pool::Pool;
use crate::device::StepBudget;
use crate::engine::runtime::Reservation;
use crate::error::{Error, Result};
use crate::graph::step::StepLimits;

/// Limits of a small executor, and number of small executors in use at a time.
const FEW: StepLimits = StepLimits { max_tokens: 16, max_outputs: 16 };
const MOST_FEW: usize = 8;

/// A step with its executor, and the memory reservation of both.
pub struct Counted {
    pub step: Step,
    pub _memory: Reservation,
}

pub struct Executors {
    full: Arc<ExecutorPool>,
    /// Small executors; `None` if steps do not yield to others.
    few: Option<Arc<ExecutorPool>>,
    pool: Arc<Pool>,
}

/// A pool of executors of one size.
struct ExecutorPool {
    limits: StepLimits,
    permits: FairSemaphore,
    idle: Mutex<Vec<Counted>>,
}

impl ExecutorPool {
    fn new(limits: StepLimits, most: usize) -> Arc<ExecutorPool> {
        Arc::new(ExecutorPool { limits, permits: FairSemaphore::new(most), idle: Mutex::new(Vec::new()) })
    }

    /// Takes an idle executor; drops executors that are too small for the present number of threads.
    fn pop(&self) -> Option<Counted> {
        let mut idle = self.lock();
        idle.retain(|counted| counted.step.executor.fits_threads());
        idle.pop()
    }

    /// Hands an executor to the holder of a permit. `counted`: true if the executor's drop releases the permit.
    fn acquire(self: &Arc<Self>, counted: bool, make: impl FnOnce(StepLimits) -> Result<Counted>) -> Result<Acquired> {
        // Releases the permit if `make` fails.
        let mut acquired = Acquired { pool: self.clone(), counted, work: self.pop() };
        if acquired.work.is_none() {
            acquired.work = Some(make(self.limits)?);
        }
        acquired.step().clear();
        Ok(acquired)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Counted>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executors {
    /// Creates an empty pool for steps up to `limits`. `pauses`: true if steps yield the workers between chunks.
    pub fn new(pool: &Arc<Pool>, limits: StepLimits, pauses: bool) -> Executors {
        let few = StepLimits { max_outputs: FEW.max_outputs.min(limits.max_outputs), ..FEW };
        Executors {
            full: ExecutorPool::new(limits, 1),
            few: pauses.then(|| ExecutorPool::new(few, MOST_FEW)),
            pool: pool.clone(),
        }
    }

    /// Acquires an executor for a step of `tokens` tokens; `None` if `budget` ends the wait.
    pub fn acquire(
        &self,
        tokens: usize,
        budget: &StepBudget,
        make: impl Fn(StepLimits) -> Result<Counted>,
    ) -> Result<Option<Acquired>> {
        self.pool.check_not_within_share()?;
        if !self.pool.is_shared() {
            return self.full.acquire(false, make).map(Some);
        }
        let is_urgent = budget.is_timed();
        if !self.full.permits.try_acquire(is_urgent) {
            if let Some(few) = self.few.as_ref().filter(|few| tokens <= few.limits.max_tokens) {
                if !few.permits.acquire(is_urgent, || budget.patience())? {
                    return Ok(None);
                }
                match few.acquire(true, &make) {
                    // Without memory for a small executor, the call waits for the full one.
                    Err(Error::Limit { .. } | Error::OutOfMemory { .. }) => {}
                    acquired => return acquired.map(Some),
                }
            }
            if !self.full.permits.acquire(is_urgent, || budget.patience())? {
                return Ok(None);
            }
        }
        self.full.acquire(true, make).map(Some)
    }

    /// True if a call waits for a full-size executor.
    pub fn is_waited_for(&self) -> bool {
        self.full.permits.waiting() > 0
    }

    /// Acquires an executor without a permit, because the caller may pause its step for any time.
    pub fn acquire_unqueued(&self, make: impl FnOnce(StepLimits) -> Result<Counted>) -> Result<Acquired> {
        self.pool.check_not_within_share()?;
        self.full.acquire(false, make)
    }
}

/// A step with its executor; returned to the pool on drop.
pub struct Acquired {
    pool: Arc<ExecutorPool>,
    counted: bool,
    /// `Some` until drop.
    work: Option<Counted>,
}

impl Acquired {
    pub fn step(&mut self) -> &mut Step {
        &mut self.work.as_mut().expect("present until this is dropped").step
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        // After a panic the state of an executor is unknown.
        if let Some(mut work) = self.work.take().filter(|_| !std::thread::panicking()) {
            // Device work must end before the memory that it writes is reused. The result is discarded.
            let _ = work.step.executor.end();
            self.pool.lock().push(work);
        }
        if self.counted {
            self.pool.permits.release();
        }
    }
}
