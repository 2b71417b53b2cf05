//! Derives the merges of a vocabulary that has only ranks: every split of a token into two others, ordered by the rank
//! of the token, then by the ranks of the two.

use std::collections::HashMap;

use crate::error::{Error, Result, try_vec};

/// Maximum bytes of a token, which bounds the number of splits.
const MAX_TOKEN: usize = 256;

/// Returns the merges of `tokens`, which are ordered by rank, as pairs of indices. `cuts`: true if a token may be split
/// before a byte.
pub fn merges(tokens: &[&[u8]], cuts: impl Fn(u8) -> bool) -> Result<Vec<(usize, usize)>> {
    let mut ranks: HashMap<&[u8], usize> = HashMap::new();
    let bytes = tokens.len() as u64 * 48;
    ranks.try_reserve(tokens.len()).map_err(|_| Error::OutOfMemory { what: "tokens", bytes })?;
    for (rank, token) in tokens.iter().enumerate() {
        if token.len() > MAX_TOKEN {
            let len = token.len();
            return Err(Error::unsupported(format!("a token of {len} bytes, at most {MAX_TOKEN} are supported")));
        }
        ranks.entry(token).or_insert(rank);
    }
    let mut all = try_vec("merges", tokens.len())?;
    for token in tokens {
        let from = all.len();
        for at in (1..token.len()).filter(|&at| cuts(token[at])) {
            if let (Some(&left), Some(&right)) = (ranks.get(&token[..at]), ranks.get(&token[at..])) {
                all.push((left, right));
            }
        }
        all[from..].sort_unstable();
    }
    Ok(all)
}
