//! The division of items among the shares of a task: ranges by index, and the claims by which threads take single items
//! of a range. Which thread takes an item depends on timing; the set of items does not.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unclaimed items of a share: first and end, 32 bits each. Two cache lines per share, for the adjacent-line
/// prefetcher.
#[repr(align(128))]
#[derive(Default)]
pub struct Claims(AtomicU64);

impl Claims {
    /// Sets the items.
    pub fn set(&self, units: Range<usize>) {
        assert!(u32::try_from(units.end).is_ok(), "{} items", units.end);
        self.0.store((units.start as u64) << 32 | units.end as u64, Ordering::Relaxed);
    }

    /// Claims an item from the front or from the back.
    pub fn take(&self, front: bool) -> Option<usize> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (now >> 32, now & u64::from(u32::MAX));
            if start >= end {
                return None;
            }
            let (unit, next) = if front { (start, now + (1 << 32)) } else { (end - 1, now - 1) };
            match self.0.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(unit as usize),
                Err(other) => now = other,
            }
        }
    }
}

/// Contiguous ranges of items, one per share.
#[derive(Clone, Copy, Debug)]
pub struct Partition {
    n: usize,
    align: usize,
    shares: usize,
}

impl Partition {
    /// Divides `n` items among `shares`; the length of every range except the last is a multiple of `align`.
    pub fn new(n: usize, align: usize, shares: usize) -> Partition {
        Partition { n, align: align.max(1), shares: shares.max(1) }
    }

    /// Returns the items of a share; empty if there are fewer groups of `align` items than shares.
    pub fn range(self, share: usize) -> Range<usize> {
        let groups = self.n.div_ceil(self.align);
        // No product can overflow: the first `groups % shares` shares get one more group.
        let (each, more) = (groups / self.shares, groups % self.shares);
        let at = |share: usize| (share * each + share.min(more)) * self.align;
        at(share).min(self.n)..at(share + 1).min(self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_claimed_once_from_either_end() {
        let claims = Claims::default();
        claims.set(3..6);
        assert_eq!([true, false, true, true].map(|front| claims.take(front)), [Some(3), Some(5), Some(4), None]);
    }

    #[test]
    fn partitions_cover_all_items_in_order() {
        for threads in 1..=5 {
            for n in 0..70 {
                for align in [1, 4, 16] {
                    let partition = Partition::new(n, align, threads);
                    let mut next = 0;
                    for share in 0..threads {
                        let range = partition.range(share);
                        assert_eq!(range.start, next);
                        assert!(range.len().is_multiple_of(align) || range.end == n);
                        next = range.end;
                    }
                    assert_eq!(next, n);
                }
            }
        }
    }
}
