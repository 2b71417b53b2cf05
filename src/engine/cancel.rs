//! Cancellation, by a caller or by a deadline. Workers poll it between chunks; nothing here blocks or owns a thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Asks a running call to stop. Firing is one atomic store, safe in any thread and in signal handlers.
#[derive(Default)]
pub struct Cancel {
    fired: AtomicBool,
    /// Deadline in units of `now`; 0: none.
    deadline: AtomicU64,
}

impl Cancel {
    pub fn fire(&self) {
        self.fired.store(true, Ordering::Relaxed);
    }

    /// Clears the request and the deadline.
    pub fn reset(&self) {
        self.fired.store(false, Ordering::Relaxed);
        self.deadline.store(0, Ordering::Relaxed);
    }

    /// Sets a deadline, immediate if zero; `None` clears it.
    pub fn set_deadline(&self, from_now: Option<Duration>) {
        let deadline = from_now.map_or(0, |time| now().saturating_add(nanoseconds(time)));
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// True if fired, or past the deadline.
    pub fn is_fired(&self) -> bool {
        self.state().is_err()
    }

    fn state(&self) -> Result<()> {
        if self.fired.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        match self.deadline.load(Ordering::Relaxed) {
            0 => Ok(()),
            deadline if now() < deadline => Ok(()),
            _ => Err(Error::Deadline),
        }
    }

    /// Fails with `Cancelled` or `Deadline` if one of `cancels` has fired.
    pub(crate) fn check(cancels: &[Option<&Cancel>]) -> Result<()> {
        cancels.iter().flatten().try_for_each(|cancel| cancel.state())
    }

    /// Returns the reason for stopping; the cancel may have been reset since.
    pub(crate) fn reason(cancels: &[Option<&Cancel>]) -> Error {
        Cancel::check(cancels).err().unwrap_or(Error::Cancelled)
    }
}

/// Nanoseconds since the first call, starting at 1.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed()).saturating_add(1)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_fires_by_itself_and_can_be_taken_back() {
        let cancel = Cancel::default();
        let state = || Cancel::check(&[None, Some(&cancel)]);
        for far in [Duration::from_secs(60), Duration::from_micros(u64::MAX - 1), Duration::MAX] {
            cancel.set_deadline(Some(far));
            assert!(state().is_ok());
        }
        cancel.set_deadline(Some(Duration::ZERO));
        assert!(matches!(state(), Err(Error::Deadline)));
        cancel.set_deadline(None);
        assert!(state().is_ok());
        cancel.set_deadline(Some(Duration::ZERO));
        cancel.fire();
        assert!(matches!(state(), Err(Error::Cancelled)));
        cancel.reset();
        assert!(state().is_ok());
    }
}
