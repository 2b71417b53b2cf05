//! Prompt-lookup drafts: the tokens that followed an earlier occurrence of the last tokens.

use crate::graph::step::MEDIA_ROW;

/// Number of tokens at the end of the history that are searched, and maximum length of a match.
const WINDOW: usize = 1 << 16;
const LONGEST: usize = 16;

/// Finds the longest earlier occurrence of the end of `history`; of several, the latest. Returns the index after the
/// match and its length. Media rows never match. Runs in linear time.
pub fn find(history: &[u32]) -> Option<(usize, usize)> {
    let (&last, before) = history.split_last()?;
    let first = history.len().saturating_sub(WINDOW);
    let mut best = None;
    for at in (first..before.len()).rev().filter(|&at| before[at] == last) {
        let ends = history[..=at].iter().rev().zip(history.iter().rev());
        let len = ends.take(LONGEST).take_while(|(a, b)| a == b && **a != MEDIA_ROW).count();
        if best.is_none_or(|(_, longest)| len > longest) {
            best = Some((at + 1, len));
            if len == LONGEST {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_wins_then_the_last() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[1]), None);
        assert_eq!(find(&[1, 2, 3]), None);
        assert_eq!(find(&[7, 7]), Some((1, 1)));
        assert_eq!(find(&[1, 2, 3, 9, 2, 3, 1, 2, 3]), Some((3, 3)));
        assert_eq!(find(&[2, 3, 4, 2, 3, 5, 2, 3]), Some((5, 2)));
        assert_eq!(find(&[2, MEDIA_ROW, 4, 9, 2, MEDIA_ROW, 4]), Some((3, 1)));
        let mut long: Vec<u32> = (0..100).chain(0..50).collect();
        assert_eq!(find(&long), Some((50, LONGEST)));
        // The search finds nothing outside the window.
        long.extend(200..200 + WINDOW as u32);
        long.push(60);
        assert_eq!(find(&long), None);
    }
}
