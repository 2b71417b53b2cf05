//! How a wait for a device passes the time: it sleeps while the work cannot have ended, polls when the end is near, and
//! sleeps again if the work takes longer.
//!
//! Polling occupies a core that the host program could use, and the driver's own waits poll for the whole duration of a
//! step, some milliseconds. The steps of a loop take about the same time, so the shorter of the last two waits predicts
//! the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A wait begins to poll `MARGIN` before the predicted end, because sleeps last longer than requested, and polls for at
/// most `POLLING`.
const MARGIN: Duration = Duration::from_micros(200);
const POLLING: Duration = Duration::from_millis(1);

/// Maximum duration of a sleep before the predicted end; the work may end sooner than predicted.
const LONG_SLEEP: Duration = Duration::from_millis(1);

/// Duration of each sleep after polling.
const SHORT_SLEEP: Duration = Duration::from_micros(100);

/// The durations of the last two waits in microseconds.
#[derive(Default)]
pub struct Pace {
    last: AtomicU64,
    before: AtomicU64,
}

impl Pace {
    /// Returns the predicted duration of the next wait.
    pub fn predicted(&self) -> Duration {
        Duration::from_micros(self.last.load(Ordering::Relaxed).min(self.before.load(Ordering::Relaxed)))
    }

    /// Records a wait that has ended.
    pub fn record(&self, waited: Duration) {
        let waited = waited.as_micros().try_into().unwrap_or(u64::MAX);
        self.before.store(self.last.swap(waited, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Returns how long to sleep before the next poll, for a wait that began `waited` ago; `None`: not at all.
pub fn sleep(waited: Duration, predicted: Duration) -> Option<Duration> {
    let near = predicted.saturating_sub(MARGIN);
    match near.checked_sub(waited) {
        Some(rest) if !rest.is_zero() => Some(rest.min(LONG_SLEEP)),
        _ if waited - near < POLLING => None,
        _ => Some(SHORT_SLEEP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_sleep_until_shortly_before_the_predicted_end() {
        let micros = Duration::from_micros;
        // Nothing is known: polls, then sleeps.
        assert_eq!(sleep(micros(0), micros(0)), None);
        assert_eq!(sleep(micros(999), micros(0)), None);
        assert_eq!(sleep(micros(1000), micros(0)), Some(micros(100)));
        // A step of 2.2 ms: two sleeps, then polls for a millisecond.
        assert_eq!(sleep(micros(0), micros(2200)), Some(micros(1000)));
        assert_eq!(sleep(micros(1100), micros(2200)), Some(micros(900)));
        assert_eq!(sleep(micros(2000), micros(2200)), None);
        assert_eq!(sleep(micros(2999), micros(2200)), None);
        assert_eq!(sleep(micros(3000), micros(2200)), Some(micros(100)));
        // Steps shorter than the margin.
        assert_eq!(sleep(micros(0), micros(150)), None);
    }

    #[test]
    fn the_shorter_of_two_waits_predicts_the_next() {
        let pace = Pace::default();
        assert_eq!(pace.predicted(), Duration::ZERO);
        for (waited, predicted) in [(30_000, 0), (2_000, 2_000), (2_100, 2_000), (40_000, 2_100), (2_200, 2_200)] {
            pace.record(Duration::from_micros(waited));
            assert_eq!(pace.predicted(), Duration::from_micros(predicted));
        }
        pace.record(Duration::MAX);
        pace.record(Duration::MAX);
        assert_eq!(pace.predicted(), Duration::from_micros(u64::MAX));
    }
}
