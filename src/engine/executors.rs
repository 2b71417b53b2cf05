//! The executors of a model: made as they are needed, lent to one step at a time, counted against the memory ceiling.

use std::sync::{Condvar, Mutex, PoisonError};

use super::Reservation;
use crate::backend::Executor;
use crate::error::Result;

/// An executor and the memory it is counted with.
pub struct Counted {
    pub executor: Executor,
    pub _memory: Reservation,
}

pub struct Executors {
    state: Mutex<Waiting>,
    returned: Condvar,
    limit: usize,
}

struct Waiting {
    idle: Vec<Counted>,
    made: usize,
}

impl Executors {
    /// Makes room for at most `limit` executors; later callers wait for one.
    pub fn new(limit: usize) -> Executors {
        Executors { state: Mutex::new(Waiting { idle: Vec::new(), made: 0 }), returned: Condvar::new(), limit }
    }

    pub fn take(&self, make: impl FnOnce() -> Result<Counted>) -> Result<Lent<'_>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(executor) = state.idle.pop() {
                return Ok(Lent { executors: self, executor: Some(executor) });
            }
            if state.made < self.limit {
                break;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.made += 1;
        drop(state);
        // Gives the place back should `make` fail.
        let mut lent = Lent { executors: self, executor: None };
        lent.executor = Some(make()?);
        Ok(lent)
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
        let mut state = self.executors.state.lock().unwrap_or_else(PoisonError::into_inner);
        match executor {
            Some(executor) => state.idle.push(executor),
            None => state.made -= 1,
        }
        drop(state);
        self.executors.returned.notify_one();
    }
}
