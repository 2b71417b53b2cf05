//! The size of the tables of a Vorbis stream, checked before a decoder allocates them: a few bytes may request
//! gigabytes.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::error::{Error, Result};

/// Maximum number of values in all codebooks together, several times the maximum of known encoders.
const MOST_NUMBERS: u64 = 1 << 22;

/// Bytes of the first header; next, of the name before the codebooks in the following header.
const FIRST_HEADER: usize = 30;
const NAME: usize = 7;

/// Rejects headers whose codebooks are too large or cannot be read.
pub fn check(headers: &[u8]) -> Result<()> {
    let numbers = headers.get(FIRST_HEADER + NAME..).and_then(|books| Bits { data: books, at: 0 }.numbers());
    match numbers {
        Some(numbers) if numbers <= MOST_NUMBERS => Ok(()),
        Some(_) => Err(Error::TooComplex(format!("the Ogg file has code books of more than {MOST_NUMBERS} numbers"))),
        None => {
            Err(Error::Format { path: "the Ogg file".to_owned(), what: "it ends within its code books".to_owned() })
        }
    }
}

/// A bit reader, lowest bit of each byte first.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, n: usize) -> Option<u64> {
        let bit = |at: usize| Some(u64::from(self.data.get(at / 8)? >> (at % 8) & 1));
        let value = (0..n).try_fold(0, |value, i| Some(value | bit(self.at + i)? << i));
        self.at += n;
        value
    }

    fn skip(&mut self, n: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(n).ok()?)?;
        (self.at <= 8 * self.data.len()).then_some(())
    }

    /// Counts the values of all codebooks; stops when the count exceeds the maximum.
    fn numbers(&mut self) -> Option<u64> {
        let mut all = 0;
        for _ in 0..=self.take(8)? {
            self.take(24)?;
            let (dims, entries) = (self.take(16)?, self.take(24)?);
            all += entries * dims.max(1);
            if all > MOST_NUMBERS {
                break;
            }
            if self.take(1)? == 1 {
                self.take(5)?;
                let mut done = 0;
                while done < entries {
                    done += self.take(64 - (entries - done).leading_zeros() as usize)?;
                }
            } else {
                let is_sparse = self.take(1)? == 1;
                for _ in 0..entries {
                    if !is_sparse || self.take(1)? == 1 {
                        self.take(5)?;
                    }
                }
            }
            let listed = match self.take(4)? {
                0 => continue,
                1 => roots(entries, dims),
                2 => entries * dims,
                _ => return None,
            };
            self.skip(64)?;
            let bits = self.take(4)? + 1;
            self.skip(1 + listed * bits)?;
        }
        Some(all)
    }
}

/// Returns the largest integer whose power `dims` is at most `entries`.
fn roots(entries: u64, dims: u64) -> u64 {
    let fits =
        |root: u64| (0..dims.min(64)).try_fold(1u64, |power, _| power.checked_mul(root)).is_some_and(|p| p <= entries);
    let near = libm::pow(entries as f64, 1.0 / dims.max(1) as f64) as u64;
    (near.saturating_sub(1)..=near + 1).rev().find(|root| fits(*root)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns headers with codebooks of the given entries and dimensions, with ordered code lengths.
    fn headers(books: &[(u64, u64)]) -> Vec<u8> {
        let mut bits = Vec::new();
        let mut put = |value: u64, n: usize| bits.extend((0..n).map(|i| value >> i & 1));
        put(books.len() as u64 - 1, 8);
        for (entries, dims) in books {
            put(0x564342, 24);
            put(*dims, 16);
            put(*entries, 24);
            put(1, 1);
            put(0, 5);
            put(*entries, 64 - entries.leading_zeros() as usize);
            put(0, 4);
        }
        let bytes = bits.chunks(8).map(|bits| bits.iter().enumerate().map(|(i, bit)| (*bit as u8) << i).sum());
        [vec![0; FIRST_HEADER + NAME], bytes.collect()].concat()
    }

    #[test]
    fn code_books_are_counted_before_they_are_made() {
        assert!(check(&headers(&[(1000, 4), (8, 2)])).is_ok());
        for large in [vec![(1 << 17, 32), (1 << 17, 32)], vec![(0xff_ffff, 1)], vec![(0xff_ffff, 0xffff)]] {
            assert!(matches!(check(&headers(&large)), Err(Error::TooComplex(_))), "{large:?}");
        }
        let whole = headers(&[(1000, 4), (8, 2)]);
        for end in 0..whole.len() {
            assert!(matches!(check(&whole[..end]), Err(Error::Format { .. })), "{end}");
        }
        let powers = [(81, 4, 3), (80, 4, 2), (1, 9, 1), (0, 3, 0), (1 << 24, 1, 1 << 24), (16_777_215, 2, 4095)];
        assert!(powers.iter().all(|&(entries, dims, root)| roots(entries, dims) == root));
    }
}
