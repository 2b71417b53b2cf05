//! The pace of a step: asked ahead of each share of its work, says whether to go on. Knows no device.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The bounds of the work of a call, which may be parts of several steps.
pub struct Pace<'a> {
    /// A request to stop at once.
    stop: &'a dyn Fn() -> bool,
    /// Time by which work shall have ended.
    until: Option<Instant>,
    /// A share of work was done: without one, a call with too little time would never come to an end.
    moved: Cell<bool>,
}

impl<'a> Pace<'a> {
    /// Work that goes on until `stop` says no.
    pub fn new(stop: &'a dyn Fn() -> bool) -> Pace<'a> {
        Pace { stop, until: None, moved: Cell::new(false) }
    }

    /// Work that shall end by some time as well, but for one share in any case.
    pub fn until(stop: &'a dyn Fn() -> bool, until: Option<Instant>) -> Pace<'a> {
        Pace { until, ..Pace::new(stop) }
    }

    /// True where the next share of work, which takes so long, is not to be begun.
    pub fn pauses(&self, expected: Duration) -> bool {
        let late = || self.until.is_some_and(|until| Instant::now() + expected > until);
        (self.stop)() || (self.moved.replace(true) && late())
    }

    /// True where the time is up, and something was done in it.
    pub fn is_over(&self) -> bool {
        self.moved.get() && self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// True where work shall end by some time, so that what shares take is worth measuring.
    pub fn is_timed(&self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_share_is_done_in_any_case_and_none_after_a_stop() {
        let stop = Cell::new(false);
        let asks = || stop.get();
        let pace = Pace::until(&asks, Some(Instant::now()));
        assert!(!pace.pauses(Duration::from_secs(1)) && pace.pauses(Duration::ZERO));
        let pace = Pace::until(&asks, Some(Instant::now() + Duration::from_secs(100)));
        assert!(!pace.pauses(Duration::ZERO) && !pace.pauses(Duration::ZERO) && pace.pauses(Duration::from_secs(200)));
        stop.set(true);
        assert!(pace.pauses(Duration::ZERO) && Pace::new(&asks).pauses(Duration::ZERO));
    }
}
