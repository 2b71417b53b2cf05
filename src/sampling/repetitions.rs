//! Repetitions of the newest tokens.

use super::candidates::reserve;
use super::params::{MAX_REPETITION, SamplerParams};
use super::rule::NO_TOKEN;
use crate::error::Result;

/// A media row, which never repeats.
const MEDIA_ROW: u32 = NO_TOKEN - 1;

/// Tokens so far, oldest first, in two parts.
pub(super) type Recent<'a> = [&'a [u32]; 2];

/// Finds repetitions of the newest tokens in linear time.
#[derive(Debug, Default)]
pub(super) struct Repetitions {
    /// Element i, from 1 on: length of the longest common suffix of the text and the text without its last i tokens.
    lengths: Vec<u32>,
}

impl Repetitions {
    pub fn reserve(&mut self) -> Result<()> {
        reserve(&mut self.lengths, MAX_REPETITION)
    }

    /// Calls `found` for each of the last `window` tokens, newest first, with the number of tokens before it that equal
    /// the last tokens of the text, at most `longest` and `MAX_REPETITION`.
    pub fn each(&mut self, recent: Recent, window: usize, longest: usize, mut found: impl FnMut(u32, u32)) {
        let at = |i: usize| from_end(recent, i);
        let len = window.min(recent[0].len() + recent[1].len());
        let most = longest.min(len).min(MAX_REPETITION);
        self.lengths.clear();
        self.lengths.push(0);
        // The Z algorithm on the reversed text: its tokens `left..right` equal its tokens `0..right - left`.
        let (mut left, mut right) = (0, 0);
        for i in 1..=len {
            let mut n = if i < right { (self.lengths[i - left] as usize).min(right - i) } else { 0 };
            if i + n >= right {
                while n < most && i + n < len && at(i + n) == at(n) && at(n) < Some(MEDIA_ROW) {
                    n += 1;
                }
                (left, right) = (i, i + n);
            }
            if i < most {
                self.lengths.push(n.min(most - i) as u32);
            }
            if let Some(token) = at(i - 1) {
                found(token, n as u32);
            }
        }
    }
}

fn from_end([before, last]: Recent, i: usize) -> Option<u32> {
    match i.checked_sub(last.len()) {
        Some(i) => before.iter().rev().nth(i).copied(),
        None => last.iter().rev().nth(i).copied(),
    }
}

/// True if the tokens without the last `skipped` end with a sequence.
pub(super) fn ends_with(recent: Recent, skipped: usize, sequence: &[u32]) -> bool {
    sequence.iter().rev().enumerate().all(|(i, token)| from_end(recent, skipped + i) == Some(*token))
}

/// Returns the number of tokens after the last occurrence of any of the sequences, at most `window`.
pub(super) fn length_after(sequences: &[Vec<u32>], recent: Recent, window: usize) -> usize {
    let len = window.min(recent[0].len() + recent[1].len());
    let is_after = |n: &usize| sequences.iter().any(|sequence| ends_with(recent, *n, sequence));
    (0..len).find(is_after).unwrap_or(len)
}

/// DRY's penalty of a token that extends a repetition of `length` tokens.
pub(super) fn dry_penalty(params: &SamplerParams, length: u32) -> f32 {
    let (mut penalty, mut factor) = (f64::from(params.dry_multiplier), f64::from(params.dry_base));
    let mut power = length - params.dry_allowed_length;
    while power > 0 {
        penalty *= if power % 2 == 1 { factor } else { 1.0 };
        factor = (factor * factor).min(f64::from(f32::MAX));
        power /= 2;
    }
    penalty.min(f64::from(f32::MAX)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn repetitions_are_those_of_a_plain_search(
            tokens in prop::collection::vec(0u32..3, 0..60),
            split in 0usize..60,
            window in prop_oneof![Just(usize::MAX), 0usize..70],
            longest in prop_oneof![Just(usize::MAX), 0usize..20],
        ) {
            let (before, last) = tokens.split_at(split.min(tokens.len()));
            let mut found = Vec::new();
            Repetitions::default().each([before, last], window, longest, |id, n| found.push((id, n as usize)));
            let seen = &tokens[tokens.len().saturating_sub(window)..];
            let expected = (0..seen.len()).rev().map(|end| {
                let pairs = seen[..end].iter().rev().zip(seen.iter().rev());
                (seen[end], pairs.take(longest).take_while(|(a, b)| a == b).count())
            });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn breakers_are_found_over_both_parts() {
        let recent: Recent = [&[1, 2, 3], &[4, 5]];
        let after = |sequences: &[&[u32]], window| {
            length_after(&sequences.iter().map(|s| s.to_vec()).collect::<Vec<_>>(), recent, window)
        };
        assert_eq!(after(&[], usize::MAX), 5);
        assert_eq!(after(&[&[3, 4]], usize::MAX), 1);
        assert_eq!(after(&[&[3, 4], &[5]], usize::MAX), 0);
        assert_eq!((after(&[&[1]], usize::MAX), after(&[&[1]], 4), after(&[&[4, 3]], 9)), (4, 4, 5));
    }

    #[test]
    fn the_penalty_of_dry_is_a_power() {
        let params = SamplerParams { dry_multiplier: 0.8, ..Default::default() }.checked().unwrap();
        for length in 2..60 {
            let expected = f64::from(0.8f32) * 1.75f64.powi(length as i32 - 2);
            assert!((f64::from(dry_penalty(&params, length)) / expected - 1.0).abs() < 1e-6);
        }
        assert_eq!(dry_penalty(&params, 4096), f32::MAX);
    }
}
