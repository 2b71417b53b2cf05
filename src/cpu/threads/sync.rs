//! The primitives of the standard library that `fair_semaphore` is made of, in one place, so that a model checker can
//! stand in for them (`cpu/threads/tests.rs`).

pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Waits for a notification, or for so long. `mutex`: that of the guard, which a model checker locks again by itself.
pub fn wait_for<'a, T>(
    _mutex: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> MutexGuard<'a, T> {
    condvar.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
