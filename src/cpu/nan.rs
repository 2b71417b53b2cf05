//! NaN and infinity from weights to results. Integers represent neither, so keys, values and queries are checked before
//! they are converted to integers: a row of attention is NaN if its query, or a key or value that it attends to, has an
//! infinity or NaN. Products with a NaN weight may be infinite.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// True if one of some values is NaN.
pub fn has_nan(x: &[f32]) -> bool {
    // No branch per value, so that compilers vectorize the loop.
    x.chunks(1024).any(|x| x.iter().fold(0, |any, x| any | u32::from(x.is_nan())) != 0)
}

/// True if all of some values are finite.
pub fn all_finite(x: &[f32]) -> bool {
    x.chunks(1024).all(|x| x.iter().fold(0, |any, x| any | u32::from(!x.is_finite())) == 0)
}

/// The range of positions of one layer of a sequence from the first to the last with an infinity or NaN in its key or
/// value. Several threads may add positions.
pub struct NanRange {
    first: AtomicUsize,
    end: AtomicUsize,
}

impl Default for NanRange {
    fn default() -> Self {
        NanRange { first: AtomicUsize::new(usize::MAX), end: AtomicUsize::new(0) }
    }
}

impl NanRange {
    /// Adds a position.
    pub fn add(&self, position: usize) {
        self.first.fetch_min(position, Ordering::Relaxed);
        self.end.fetch_max(position + 1, Ordering::Relaxed);
    }

    /// Discards positions from `len` on.
    pub fn truncate(&self, len: usize) {
        let Range { start, end } = self.get();
        if len < end {
            self.first.store(if start < len { start } else { usize::MAX }, Ordering::Relaxed);
            self.end.store(if start < len { len } else { 0 }, Ordering::Relaxed);
        }
    }

    /// Returns the range, empty if there is none.
    pub fn get(&self) -> Range<usize> {
        self.first.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    /// Returns an independent copy with the positions below `len`.
    pub fn fork(&self, len: usize) -> NanRange {
        let Range { start, end } = self.get();
        let fork = NanRange { first: AtomicUsize::new(start), end: AtomicUsize::new(end) };
        fork.truncate(len);
        fork
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_forgets_what_a_sequence_forgets() {
        let range = NanRange::default();
        assert!(range.get().is_empty());
        range.add(7);
        range.add(3);
        assert_eq!((range.get(), range.fork(5).get()), (3..8, 3..5));
        assert!(range.fork(3).get().is_empty());
        range.truncate(8);
        assert_eq!(range.get(), 3..8);
        range.truncate(2);
        range.add(9);
        assert_eq!(range.get(), 9..10);
    }

    #[test]
    fn nan_is_found_wherever_it_is() {
        let mut x = vec![f32::MAX; 2500];
        assert!(!has_nan(&x) && !has_nan(&[]) && all_finite(&x) && all_finite(&[]));
        for i in [0, 1023, 1024, 2499] {
            for (value, is_nan) in [(-f32::NAN, true), (f32::INFINITY, false), (f32::NEG_INFINITY, false)] {
                x[i] = value;
                assert!(has_nan(&x) == is_nan && !all_finite(&x));
            }
            x[i] = f32::MIN;
        }
    }
}
