//! The executors of a model: made as they are needed, lent to one step at a time, counted against the memory ceiling.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Reservation;
use crate::backend::Executor;
use crate::backend::cpu::pool::Pool;
use crate::error::Result;

/// An executor and the memory it is counted with.
pub struct Counted {
    pub executor: Executor,
    pub _memory: Reservation,
}

pub struct Executors {
    state: Mutex<Lending>,
    returned: Condvar,
    pool: Arc<Pool>,
}

struct Lending {
    idle: Vec<Counted>,
    /// Number of those that are lent to calls.
    lent: usize,
}

impl Lending {
    /// An idle executor; those that are too small for the threads there are now are dropped.
    fn pop(&mut self) -> Option<Counted> {
        self.idle.retain(|counted| counted.executor.fits_threads());
        self.idle.pop()
    }
}

impl Executors {
    /// Executors whose steps the pool computes.
    pub fn new(pool: &Arc<Pool>) -> Executors {
        let state = Mutex::new(Lending { idle: Vec::new(), lent: 0 });
        Executors { state, returned: Condvar::new(), pool: pool.clone() }
    }

    /// Lends an executor for a call. Workers are shared by all steps, so that a second step would only wait with scratch of
    /// its own: it waits here.
    pub fn take(&self, make: impl FnOnce() -> Result<Counted>) -> Result<Lent<'_>> {
        let mut state = self.lock();
        while state.lent > 0 && self.pool.is_waited_for() {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        let idle = state.pop();
        drop(state);
        // Gives the place back should `make` fail.
        let mut lent = Lent { executors: self, executor: idle };
        if lent.executor.is_none() {
            lent.executor = Some(make()?);
        }
        Ok(lent)
    }

    /// Hands an executor out that no call waits for, because its step may be paused for as long as the caller likes.
    pub fn take_apart(&self, make: impl FnOnce() -> Result<Counted>) -> Result<Counted> {
        let idle = self.lock().pop();
        idle.map_or_else(make, Ok)
    }

    /// Takes such an executor back.
    pub fn give_back(&self, executor: Counted) {
        self.lock().idle.push(executor);
    }

    fn lock(&self) -> MutexGuard<'_, Lending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An executor until it is given back.
pub struct Lent<'a> {
    executors: &'a Executors,
    executor: Option<Counted>,
}

impl Lent<'_> {
    pub fn get(&mut self) -> &mut Executor {
        &mut self.executor.as_mut().expect("present until this is dropped").executor
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // After a panic an executor is in an unknown state.
        let executor = self.executor.take().filter(|_| !std::thread::panicking());
        let mut state = self.executors.lock();
        state.idle.extend(executor);
        state.lent -= 1;
        drop(state);
        self.executors.returned.notify_one();
    }
}
