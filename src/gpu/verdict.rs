//! What a process has found out about the devices of a driver: results of self-tests, and measurements.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Verdict {
    /// Numbers of the self-tests that the device has passed.
    pub passed: HashSet<u64>,
    /// The first reason why the device must not be used.
    pub failed: Option<String>,
    /// The optional kernel has failed a self-test; other kernels stand in for it.
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

/// Locks what a panic leaves usable.
pub fn lock<T>(verdict: &Mutex<T>) -> MutexGuard<'_, T> {
    verdict.lock().unwrap_or_else(PoisonError::into_inner)
}
