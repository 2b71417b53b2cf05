//! The merges of a vocabulary that has ranks and no merges: each way in which a token is two others, in the order of
//! its rank and then of theirs.

use std::collections::HashMap;

use crate::error::{Error, Result, try_vec};

/// Bytes of the longest token, which bounds the ways to divide one.
const MAX_TOKEN: usize = 256;

/// The merges of `tokens`, which are in the order of their ranks, as pairs of places in that list. `cuts`: whether a
/// token may be cut ahead of a byte.
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
