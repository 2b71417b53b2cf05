//! The budget of a step: says ahead of each chunk of its work whether to go on, and how long it may wait for its turn.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two looks of a waiting call at its cancels.
const LOOK: Duration = Duration::from_millis(4);

/// The bounds of the work of a call, which may be parts of several steps.
pub struct StepBudget<'a> {
    /// A request to stop at once.
    stop: &'a dyn Fn() -> bool,
    /// Time by which work shall have ended.
    until: Option<Instant>,
    /// A chunk of work was done: without one, a call with too little time would never come to an end.
    moved: Cell<bool>,
}

impl<'a> StepBudget<'a> {
    /// Work that nothing stops.
    pub fn unlimited() -> StepBudget<'static> {
        StepBudget::new(&|| false)
    }

    /// Work that goes on until `stop` says no.
    pub fn new(stop: &'a dyn Fn() -> bool) -> StepBudget<'a> {
        StepBudget { stop, until: None, moved: Cell::new(false) }
    }

    /// Work that shall end by some time as well, but for one chunk in any case.
    pub fn until(stop: &'a dyn Fn() -> bool, until: Option<Instant>) -> StepBudget<'a> {
        StepBudget { until, ..StepBudget::new(stop) }
    }

    /// True where the next chunk of work, which takes so long, is not to be begun.
    pub fn pauses(&self, expected: Duration) -> bool {
        let late = || self.until.is_some_and(|until| Instant::now() + expected > until);
        (self.stop)() || (self.moved.replace(true) && late())
    }

    /// True where the time is up, and something was done in it.
    pub fn is_over(&self) -> bool {
        self.moved.get() && self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How long to wait for a turn before this is asked again; `None`: no longer. A cancel may be fired by a signal
    /// handler, which can notify nobody, so it is looked for at intervals.
    pub fn patience(&self) -> Option<Duration> {
        let left = self.until.map_or(Some(LOOK), |until| until.checked_duration_since(Instant::now()));
        left.map(|left| left.min(LOOK)).filter(|left| !left.is_zero() && !(self.stop)())
    }

    /// True where work shall end by some time, so that what chunks take is worth measuring.
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
