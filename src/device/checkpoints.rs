//! Checkpoints of a sequence's recurrent states. A recurrence cannot be undone, so a rewind goes to a checkpoint, and
//! the tokens after it are recomputed.
//!
//! Records, for each of a few buffers, after how many tokens its states were computed, and chooses the buffer that a
//! step overwrites. A step reads one buffer and writes another, so a failed step changes nothing.

use crate::graph::sequence_spec::RECURRENT_BUFFERS as BUFFERS;

/// For each buffer of recurrent states, the number of tokens that it has processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoints {
    positions: [Option<usize>; BUFFERS],
    /// A position whose buffer is protected.
    kept: Option<usize>,
}

impl Default for Checkpoints {
    /// The first buffer holds the zeros of an empty sequence.
    fn default() -> Checkpoints {
        let mut positions = [None; BUFFERS];
        positions[0] = Some(0);
        Checkpoints { positions, kept: None }
    }
}

impl Checkpoints {
    /// Checkpoints at the given positions.
    pub fn restored(positions: [Option<usize>; BUFFERS]) -> Checkpoints {
        Checkpoints { positions, kept: None }
    }

    /// Protects the buffer of a position.
    pub fn keep(&mut self, position: Option<usize>) {
        self.kept = position;
    }

    /// Returns the position of each buffer.
    pub fn positions(&self) -> &[Option<usize>; BUFFERS] {
        &self.positions
    }

    /// Returns the buffer with the states after exactly `len` tokens.
    pub fn at(&self, len: usize) -> Option<usize> {
        self.positions.iter().position(|p| *p == Some(len))
    }

    /// Returns the largest position up to `len`.
    pub fn newest(&self, len: usize) -> Option<usize> {
        self.positions.iter().flatten().copied().filter(|p| *p <= len).max()
    }

    /// Returns the buffers that hold a position.
    pub fn held(&self) -> impl Iterator<Item = usize> {
        (0..BUFFERS).filter(|i| self.positions[*i].is_some())
    }

    /// Drops checkpoints after `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        self.positions.iter_mut().filter(|p| p.is_some_and(|p| p > len)).for_each(|p| *p = None);
    }

    /// Returns the buffer for the step after `len` tokens to write: an unused one, otherwise the unprotected checkpoint
    /// before position `committed` whose loss costs rewinds least.
    ///
    /// Without the checkpoint at `p`, between neighbors `a` and `b`, a rewind to `p..b` recomputes `p - a` more tokens.
    /// Rewinds to `r` are assumed to have frequency `1 / (len - r + 1)`, which puts many checkpoints near the end.
    pub fn target(&self, len: usize, committed: usize) -> usize {
        if let Some(unused) = self.positions.iter().position(Option::is_none) {
            return unused;
        }
        let age = |p: usize| (len.saturating_sub(p) + 1) as f64;
        let loss = |i: usize| {
            let p = self.positions[i].filter(|p| *p < committed)?;
            let others = || self.positions.iter().flatten().copied();
            let ahead = others().filter(|q| *q < p).max().unwrap_or(0);
            let after = others().filter(|q| *q > p).min()?;
            Some((p - ahead) as f64 * libm::log(age(p) / age(after)))
        };
        let is_kept = |i: usize| self.kept.is_some() && self.positions[i] == self.kept;
        let losses = (0..BUFFERS).filter_map(|i| Some((i, is_kept(i), loss(i)?)));
        losses.min_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2))).map_or(0, |(i, ..)| i)
    }

    /// Invalidates the buffer that the step after `len` tokens writes, until `commit`.
    pub fn begin(&mut self, len: usize, committed: usize) {
        let target = self.target(len, committed);
        self.positions[target] = None;
    }

    /// Commits the step of `n` tokens after `len`, once.
    pub fn commit(&mut self, len: usize, n: usize) {
        if self.at(len + n).is_none() {
            let target = self.target(len, len);
            self.positions[target] = Some(len + n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(c: &Checkpoints) -> Vec<usize> {
        let mut held: Vec<usize> = c.positions.iter().flatten().copied().collect();
        held.sort_unstable();
        held
    }

    fn advance(c: &mut Checkpoints, len: &mut usize, n: usize) {
        let (from, to) = (c.at(*len).unwrap(), c.target(*len, *len));
        c.begin(*len, *len);
        assert!(from != to && c.at(*len) == Some(from) && c.target(*len, *len) == to);
        c.commit(*len, n);
        *len += n;
        assert_eq!(c.at(*len), Some(to));
    }

    #[test]
    fn the_last_tokens_are_kept_and_older_ones_at_a_distance() {
        let (mut c, mut len) = (Checkpoints::default(), 0);
        for n in [512, 512, 300] {
            advance(&mut c, &mut len, n);
        }
        for _ in 0..500 {
            advance(&mut c, &mut len, 1);
            assert_eq!(c.newest(len - 1), Some(len - 1));
        }
        let held = positions(&c);
        assert_eq!(held.len(), BUFFERS);
        // A rewind to any place recomputes less than a third of the sequence.
        for r in 0..len {
            assert!(3 * (r - c.newest(r).unwrap_or(0)) < len, "{held:?}");
        }
    }

    #[test]
    fn a_rewind_forgets_what_stands_behind_it() {
        let (mut c, mut len) = (Checkpoints::default(), 0);
        for n in [10, 10, 10] {
            advance(&mut c, &mut len, n);
        }
        c.truncate(25);
        assert_eq!((c.newest(25), c.at(25), c.at(30)), (Some(20), None, None));
        len = 20;
        advance(&mut c, &mut len, 5);
        assert_eq!(positions(&c), [0, 10, 20, 25]);
    }

    #[test]
    fn a_step_that_fails_leaves_what_it_read() {
        let (mut c, mut len) = (Checkpoints::default(), 0);
        for _ in 0..20 {
            advance(&mut c, &mut len, 3);
        }
        let from = c.at(len);
        c.begin(len, len);
        c.begin(len, len);
        assert_eq!(c.at(len), from);
        assert_eq!(positions(&c).len(), BUFFERS - 1);
    }

    /// Single-token steps, up to three in flight.
    #[test]
    fn what_is_committed_outlasts_the_steps_ahead() {
        steps_ahead(None);
    }

    #[test]
    fn what_is_kept_outlasts_all_steps() {
        assert!(steps_ahead(Some(500)).at(500).is_some());
        let (mut c, mut len) = (Checkpoints::default(), 0);
        for (n, kept) in [(300, None), (20, Some(300)), (7, Some(300))] {
            c.keep(kept);
            advance(&mut c, &mut len, n);
        }
        (0..2000).for_each(|_| advance(&mut c, &mut len, 1));
        assert_eq!((c.newest(len - 1), c.newest(310)), (Some(len - 1), Some(300)));
        // A position without a checkpoint protects nothing.
        c.keep(Some(301));
        (0..2000).for_each(|_| advance(&mut c, &mut len, 1));
        assert_eq!(c.at(300), None);
    }

    fn steps_ahead(kept: Option<usize>) -> Checkpoints {
        let (mut c, mut len) = (Checkpoints::default(), 0);
        c.keep(kept);
        advance(&mut c, &mut len, 500);
        for round in 0..300 {
            let committed = len;
            for ahead in 0..1 + round % 3 {
                let at = committed + ahead;
                assert!(c.at(at).is_some() && c.at(at) != Some(c.target(at, committed)), "{committed}, {ahead}");
                c.begin(at, committed);
                c.commit(at, 1);
                assert!((committed..=at + 1).all(|p| c.at(p).is_some()));
            }
            len += 1;
            c.commit(committed, 1);
            c.truncate(len);
            assert!(c.at(len).is_some());
        }
        let held = positions(&c);
        assert!(held.len() > BUFFERS - 3 && held.is_sorted_by(|a, b| a < b), "{held:?}");
        c
    }
}
