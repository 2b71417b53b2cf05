//! Results of self-tests and measurements of a driver's devices, kept for the process.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Verdict {
    /// Ids of the passed self-tests.
    pub passed: HashSet<u64>,
    /// The first reason why the device must not be used.
    pub failed: Option<String>,
    /// True if an optional kernel has failed a self-test, so that others replace all of them.
    pub leaves_out_optional: bool,
    /// `GpuDevice::rates`
    pub rates: Option<(f64, f64)>,
}

/// The verdicts of a driver, by ordinal.
#[derive(Default)]
pub struct Verdicts(Mutex<BTreeMap<i32, Arc<Mutex<Verdict>>>>);

impl Verdicts {
    pub fn of(&self, ordinal: i32) -> Arc<Mutex<Verdict>> {
        lock(&self.0).entry(ordinal).or_default().clone()
    }
}

/// Locks a mutex, ignoring poison.
pub fn lock<T>(verdict: &Mutex<T>) -> MutexGuard<'_, T> {
    verdict.lock().unwrap_or_else(PoisonError::into_inner)
}
