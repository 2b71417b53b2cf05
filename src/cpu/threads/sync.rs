//! The synchronization primitives of `fair_semaphore` and `pool`, in one place, so that a model checker can replace
//! them (`cpu/threads/tests.rs`).

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub use std::thread::yield_now;
use std::time::Duration;

pub use super::thread::{Worker, spawn};

/// Number of reads of the epoch before a worker yields its time slice: some 50 microseconds, longer than the serial
/// work between two ops, too short to cost noticeable energy.
const SPINS: usize = 2000;
/// Number of reads if there are more threads than processors: a spinning thread would keep the thread it waits for from
/// running.
const SPINS_OVERSUBSCRIBED: usize = 8;
/// Number of yields before a worker parks.
pub const YIELDS: usize = 32;

/// Returns the number of reads of the epoch before a worker yields its time slice.
pub fn spins(is_oversubscribed: bool) -> usize {
    if is_oversubscribed { SPINS_OVERSUBSCRIBED } else { SPINS }
}

/// Waits for a notification for at most `time`. `mutex` is the guard's mutex, which a model checker locks again itself.
pub fn wait_for<'a, T>(
    _mutex: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> MutexGuard<'a, T> {
    condvar.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
