//! The executors of a program: made as they are needed, lent to one step at a time, counted against the memory ceiling.
//!
//! The workers compute one step at a time, so that more executors would only be more memory: calls wait for one here,
//! in the order of arrival, no longer than their budget allows. On the CPU a step that goes on for long lets others
//! have the workers between its shares, so that a step of few tokens has an executor for such beside it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::step::Step;
use crate::cpu::threads::fair_semaphore::FairSemaphore;
use crate::cpu::threads::pool::Pool;
use crate::device::StepBudget;
use crate::engine::runtime::Reservation;
use crate::error::{Error, Result};
use crate::graph::step::StepLimits;

/// The room of an executor for few tokens, and the number of those that are lent at a time.
const FEW: StepLimits = StepLimits { max_tokens: 16, max_outputs: 16 };
const MOST_FEW: usize = 8;

/// A step with an executor, and the memory it is counted with.
pub struct Counted {
    pub step: Step,
    pub _memory: Reservation,
}

pub struct Executors {
    full: Arc<Shelf>,
    /// `None` where steps do not pause for others.
    few: Option<Arc<Shelf>>,
    pool: Arc<Pool>,
}

/// Executors of one size.
struct Shelf {
    limits: StepLimits,
    turns: FairSemaphore,
    idle: Mutex<Vec<Counted>>,
}

impl Shelf {
    fn new(limits: StepLimits, most: usize) -> Arc<Shelf> {
        Arc::new(Shelf { limits, turns: FairSemaphore::new(most), idle: Mutex::new(Vec::new()) })
    }

    /// An idle executor; those that are too small for the threads there are now are dropped.
    fn pop(&self) -> Option<Counted> {
        let mut idle = self.lock();
        idle.retain(|counted| counted.step.executor.fits_threads());
        idle.pop()
    }

    /// Lends an executor to who has a turn, where turns are `counted`.
    fn lend(self: &Arc<Self>, counted: bool, make: impl FnOnce(StepLimits) -> Result<Counted>) -> Result<Lent> {
        // Gives the turn back should `make` fail.
        let mut lent = Lent { shelf: self.clone(), counted, work: self.pop() };
        if lent.work.is_none() {
            lent.work = Some(make(self.limits)?);
        }
        lent.step().clear();
        Ok(lent)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Counted>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executors {
    /// Executors with room for `limits`, whose steps the pool computes. `pauses`: they let others have the workers in
    /// between.
    pub fn new(pool: &Arc<Pool>, limits: StepLimits, pauses: bool) -> Executors {
        let few = StepLimits { max_outputs: FEW.max_outputs.min(limits.max_outputs), ..FEW };
        Executors { full: Shelf::new(limits, 1), few: pauses.then(|| Shelf::new(few, MOST_FEW)), pool: pool.clone() }
    }

    /// Lends an executor for a step of so many tokens; `None` where `budget` ends the wait for one.
    pub fn take(
        &self,
        tokens: usize,
        budget: &StepBudget,
        make: impl Fn(StepLimits) -> Result<Counted>,
    ) -> Result<Option<Lent>> {
        self.pool.check_not_within_share()?;
        if !self.pool.is_waited_for() {
            return self.full.lend(false, make).map(Some);
        }
        let is_urgent = budget.is_timed();
        if !self.full.turns.try_acquire(is_urgent) {
            if let Some(few) = self.few.as_ref().filter(|few| tokens <= few.limits.max_tokens) {
                if !few.turns.acquire(is_urgent, || budget.patience())? {
                    return Ok(None);
                }
                match few.lend(true, &make) {
                    // Without memory for a second executor the first one is waited for.
                    Err(Error::Limit { .. } | Error::OutOfMemory { .. }) => {}
                    lent => return lent.map(Some),
                }
            }
            if !self.full.turns.acquire(is_urgent, || budget.patience())? {
                return Ok(None);
            }
        }
        self.full.lend(true, make).map(Some)
    }

    /// True where a call waits for an executor of full size.
    pub fn is_waited_for(&self) -> bool {
        self.full.turns.waiting() > 0
    }

    /// Lends an executor that no call waits for, because its step may be paused for as long as the caller likes.
    pub fn take_apart(&self, make: impl FnOnce(StepLimits) -> Result<Counted>) -> Result<Lent> {
        self.pool.check_not_within_share()?;
        self.full.lend(false, make)
    }
}

/// An empty step with an executor, until that is given back.
pub struct Lent {
    shelf: Arc<Shelf>,
    counted: bool,
    /// Present until this is dropped.
    work: Option<Counted>,
}

impl Lent {
    pub fn step(&mut self) -> &mut Step {
        &mut self.work.as_mut().expect("present until this is dropped").step
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a panic an executor is in an unknown state.
        if let Some(mut work) = self.work.take().filter(|_| !std::thread::panicking()) {
            // Work on a device must have ended before the memory that it writes is used again; the result of what was
            // abandoned is not wanted.
            let _ = work.step.executor.end();
            self.shelf.lock().push(work);
        }
        if self.counted {
            self.shelf.turns.release();
        }
    }
}
