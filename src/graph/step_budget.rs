//! The budget of a step: decides before each chunk of work whether to continue, and how long to wait for a permit.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Polling interval of cancels in a waiting call.
const LOOK: Duration = Duration::from_millis(4);

/// The limits of a call's work, which may span several steps.
pub struct StepBudget<'a> {
    /// Returns true to stop at once.
    stop: &'a dyn Fn() -> bool,
    /// Deadline of the work.
    until: Option<Instant>,
    /// True once a chunk is done: every call does at least one, so that calls with too little time still make progress.
    moved: Cell<bool>,
}

impl<'a> StepBudget<'a> {
    /// No limits.
    pub fn unlimited() -> StepBudget<'static> {
        StepBudget::new(&|| false)
    }

    /// Work until `stop` returns true.
    pub fn new(stop: &'a dyn Fn() -> bool) -> StepBudget<'a> {
        StepBudget { stop, until: None, moved: Cell::new(false) }
    }

    /// Work until `stop` or a deadline, but at least one chunk.
    pub fn until(stop: &'a dyn Fn() -> bool, until: Option<Instant>) -> StepBudget<'a> {
        StepBudget { until, ..StepBudget::new(stop) }
    }

    /// True if the next chunk, expected to take `expected`, must not begin.
    pub fn pauses(&self, expected: Duration) -> bool {
        let late = || self.until.is_some_and(|until| Instant::now() + expected > until);
        (self.stop)() || (self.moved.replace(true) && late())
    }

    /// True if the time is up and some work was done.
    pub fn is_over(&self) -> bool {
        self.moved.get() && self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How long to wait for a permit before calling this again; `None`: stop waiting. Cancels are polled, because a
    /// signal handler that fires one cannot notify.
    pub fn patience(&self) -> Option<Duration> {
        let left = self.until.map_or(Some(LOOK), |until| until.checked_duration_since(Instant::now()));
        left.map(|left| left.min(LOOK)).filter(|left| !left.is_zero() && !(self.stop)())
    }

    /// True if there is a deadline, which makes measuring chunks worthwhile.
    pub fn is_timed(&self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_chunk_is_done_in_any_case_and_none_after_a_stop() {
        let stop = Cell::new(false);
        let asks = || stop.get();
        let budget = StepBudget::until(&asks, Some(Instant::now()));
        assert!(!budget.pauses(Duration::from_secs(1)) && budget.pauses(Duration::ZERO));
        let budget = StepBudget::until(&asks, Some(Instant::now() + Duration::from_secs(100)));
        assert!(
            !budget.pauses(Duration::ZERO) && !budget.pauses(Duration::ZERO) && budget.pauses(Duration::from_secs(200))
        );
        stop.set(true);
        assert!(budget.pauses(Duration::ZERO) && StepBudget::new(&asks).pauses(Duration::ZERO));
    }

    #[test]
    fn waits_end_with_the_time_and_with_a_stop() {
        let stop = Cell::new(false);
        let asks = || stop.get();
        let now = Instant::now();
        assert_eq!(StepBudget::new(&asks).patience(), Some(LOOK));
        assert_eq!(StepBudget::until(&asks, Some(now)).patience(), None);
        assert!(StepBudget::until(&asks, Some(now + LOOK / 2)).patience().is_none_or(|wait| wait <= LOOK / 2));
        assert_eq!(StepBudget::until(&asks, Some(now + Duration::from_secs(100))).patience(), Some(LOOK));
        stop.set(true);
        assert_eq!(StepBudget::new(&asks).patience(), None);
    }
}
