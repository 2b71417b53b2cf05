//! The locks of mutable handles. A call tries to take a lock and never waits for it. A panic under a lock leaves the
//! locked object in an unknown state: all later calls get `Poisoned` with the number of that panic.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use super::faults;
use crate::error::{Error, Result};

/// The number of the panic after which an object is unusable; 0: none.
#[derive(Default)]
struct Fault(AtomicU32);

impl Fault {
    fn error(&self, what: &'static str) -> Error {
        Error::Poisoned { what, fault: self.0.load(Ordering::Acquire) }
    }

    /// Returns the guard of an object, or an error: another call has the lock, or a call has panicked.
    fn taken<G>(&self, attempt: Result<G, TryLockError<G>>, what: &'static str) -> Result<G> {
        attempt.map_err(|refusal| match refusal {
            TryLockError::WouldBlock => Error::Busy(what),
            TryLockError::Poisoned(_) => self.error(what),
        })
    }
}

/// An object that one call may change at a time.
pub(super) struct Lock<T> {
    object: Mutex<T>,
    fault: Fault,
}

impl<T> Lock<T> {
    pub(super) fn new(object: T) -> Lock<T> {
        Lock { object: Mutex::new(object), fault: Fault::default() }
    }

    /// Takes the lock. `what`: the object's name in messages.
    pub(super) fn take(&self, what: &'static str) -> Result<Taken<'_, MutexGuard<'_, T>>> {
        let guard = self.fault.taken(self.object.try_lock(), what)?;
        Ok(Taken { guard, fault: &self.fault })
    }

    /// Fails if a panic has left the object unusable. Never fails because of another call.
    pub(super) fn sound(&self, what: &'static str) -> Result<()> {
        if self.object.is_poisoned() { Err(self.fault.error(what)) } else { Ok(()) }
    }

    /// Returns the object, to which the caller has exclusive access, and the error of the panic that has left it
    /// unusable.
    pub(super) fn parts(&mut self, what: &'static str) -> (&mut T, Result<()>) {
        let sound = self.sound(what);
        (self.object.get_mut().unwrap_or_else(PoisonError::into_inner), sound)
    }
}

/// An object that one call may change, or several may read, at a time.
pub(super) struct SharedLock<T> {
    object: RwLock<T>,
    fault: Fault,
}

impl<T> SharedLock<T> {
    pub(super) fn new(object: T) -> SharedLock<T> {
        SharedLock { object: RwLock::new(object), fault: Fault::default() }
    }

    /// Fails if a panic has left the object unusable. Never fails because of another call.
    pub(super) fn sound(&self, what: &'static str) -> Result<()> {
        if self.object.is_poisoned() { Err(self.fault.error(what)) } else { Ok(()) }
    }

    pub(super) fn read(&self, what: &'static str) -> Result<RwLockReadGuard<'_, T>> {
        self.fault.taken(self.object.try_read(), what)
    }

    pub(super) fn take(&self, what: &'static str) -> Result<Taken<'_, RwLockWriteGuard<'_, T>>> {
        let guard = self.fault.taken(self.object.try_write(), what)?;
        Ok(Taken { guard, fault: &self.fault })
    }

    /// Takes the lock of an object, and waits for readers, which hold the lock only for a moment.
    pub(super) fn take_after_readers(&self, what: &'static str) -> Result<Taken<'_, RwLockWriteGuard<'_, T>>> {
        loop {
            match self.take(what) {
                // No call waits for this lock, so `read` succeeds unless another call changes the object.
                Err(Error::Busy(_)) if self.read(what).is_ok() => std::thread::yield_now(),
                taken => return taken,
            }
        }
    }

    /// Replaces the object, once readers have ended.
    pub(super) fn set(&self, object: T) {
        *self.object.write().unwrap_or_else(PoisonError::into_inner) = object;
    }
}

/// A lock that a call has taken.
pub(super) struct Taken<'a, G> {
    guard: G,
    fault: &'a Fault,
}

impl<G: Deref> Deref for Taken<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Taken<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<G> Drop for Taken<'_, G> {
    fn drop(&mut self) {
        // Before the guard poisons the lock, so that a call that finds the lock poisoned finds the number too.
        if std::thread::panicking() {
            self.fault.0.store(faults::current(), Ordering::Release);
        }
    }
}
