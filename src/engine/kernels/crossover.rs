//! Selects the faster of host and device from measured times.

use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Always available.
    OnHost,
    OnDevice,
}

/// Minimum time of host and device for each size class (power of two).
pub struct Crossover([[Option<Duration>; 2]; usize::BITS as usize]);

fn class(size: usize) -> usize {
    size.max(1).ilog2() as usize
}

impl Crossover {
    pub fn new() -> Crossover {
        Crossover([[None; 2]; usize::BITS as usize])
    }

    pub fn record(&mut self, way: Way, size: usize, took: Duration) {
        let best = &mut self.0[class(size)][way as usize];
        *best = Some(best.map_or(took, |best| best.min(took)));
    }

    /// Returns the faster of host and device for `size`. Without measurements, returns the host. The device is tried
    /// once after that, unless it took longer for a smaller size than the host takes for this size.
    pub fn choose(&self, size: usize) -> Way {
        let class = class(size);
        let away = match self.0[class] {
            [None, _] => return Way::OnHost,
            [_, Some(away)] => Some(away),
            [_, None] => self.0[..class].iter().filter_map(|times| times[1]).max(),
        };
        // `None` orders before any time.
        if away < self.0[class][0] { Way::OnDevice } else { Way::OnHost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Way::{OnDevice, OnHost};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_faster_way_is_chosen_class_by_class() {
        let mut times = Crossover::new();
        for (size, here, away, expected) in [(1, 1, 9, OnHost), (100, 5, 10, OnHost), (1000, 50, 12, OnDevice)] {
            times.record(OnHost, size, ms(here));
            times.record(OnDevice, size, ms(away));
            assert_eq!(times.choose(size), expected);
        }
        assert_eq!([64, 127, 512, 1023].map(|size| times.choose(size)), [OnHost, OnHost, OnDevice, OnDevice]);
        // The minimum counts, so a disturbed call decides nothing.
        times.record(OnHost, 1000, ms(11));
        times.record(OnHost, 1000, ms(80));
        assert_eq!(times.choose(1000), OnHost);
    }

    #[test]
    fn what_was_not_measured_is_tried_where_it_could_win() {
        let mut times = Crossover::new();
        for size in [0, 7, usize::MAX] {
            assert_eq!(times.choose(size), OnHost);
            times.record(OnHost, size, ms(20));
            assert_eq!(times.choose(size), OnDevice);
        }
        times.record(OnDevice, 64, ms(30));
        assert_eq!([7, usize::MAX].map(|size| times.choose(size)), [OnDevice, OnHost]);
        times.record(OnDevice, 7, ms(20));
        assert_eq!(times.choose(7), OnHost);
    }
}
