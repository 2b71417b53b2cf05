//! SentencePiece's normalization table: replaces the longest matching key, of bounded length, at each place. A double
//! array (the format of Darts-clone) over the bytes of the keys, whose values are offsets in a list of zero-terminated
//! texts. The file is untrusted: an index outside the table is no match.

use crate::error::{Error, Result};
use crate::text::tokenizer::base64;

/// Maximum growth factor of a replaced text; Unicode's compatibility forms grow up to eleven times.
pub const GROWTH: usize = 16;

/// Maximum bytes of a key and of a replacement, which bound the work at each place; SentencePiece's have up to a dozen
/// characters.
const MAX_KEY: usize = 256;
const MAX_REPLACEMENT: usize = 1024;

/// Maximum bytes of a table; published ones have a quarter of a megabyte.
const MAX_BYTES: usize = 16 << 20;

pub struct Charsmap {
    units: Vec<u32>,
    texts: String,
}

impl Charsmap {
    /// Parses a table: the byte length of its double array in little-endian, the array, the texts.
    pub fn new(bytes: &[u8]) -> Result<Charsmap> {
        let damaged = || Error::unsupported(format!("a precompiled_charsmap of {} bytes that is damaged", bytes.len()));
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        let size = u32::from_le_bytes(*size) as usize;
        if bytes.len() > MAX_BYTES || size > rest.len() || !size.is_multiple_of(4) {
            return Err(damaged());
        }
        let (array, texts) = rest.split_at(size);
        let units =
            array.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])).collect();
        let texts = std::str::from_utf8(texts).map_err(|_| damaged())?.to_owned();
        Ok(Charsmap { units, texts })
    }

    /// Parses a table in base64.
    pub fn from_base64(text: &str) -> Result<Charsmap> {
        let damaged = || Error::unsupported("precompiled_charsmap is no base64");
        if text.len() > 2 * MAX_BYTES {
            return Err(damaged());
        }
        let bytes = base64::decode(text).ok_or_else(damaged)?;
        Charsmap::new(&bytes)
    }

    /// Returns the longest key that begins `text`: its length and its replacement.
    fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let offset = |unit: u32| (unit >> 10) << ((unit & 1 << 9) >> 6);
        let mut at = offset(*self.units.first()?);
        let mut found = None;
        for (&byte, len) in text.iter().zip(1..=MAX_KEY).take_while(|(byte, _)| **byte != 0) {
            at ^= u32::from(byte);
            let Some(&unit) = self.units.get(at as usize) else { break };
            if unit & (1 << 31 | 0xFF) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let place = self.units.get(at as usize).map(|value| (value & !(1 << 31)) as usize);
                found = place.and_then(|place| self.replacement(place)).map(|text| (len, text)).or(found);
            }
        }
        found
    }

    fn replacement(&self, place: usize) -> Option<&str> {
        let text = self.texts.get(place..)?;
        let len = text.bytes().take(MAX_REPLACEMENT).position(|byte| byte == 0)?;
        text.get(..len)
    }

    /// Replaces the longest key at each place.
    ///
    /// # Errors
    /// `OutOfMemory`, and `Unsupported` if the text becomes `GROWTH` times longer.
    pub fn apply(&self, text: &str) -> Result<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (len, with) = match self.longest(rest.as_bytes()) {
                // Only in a damaged table may a key end inside a character.
                Some((len, with)) if rest.is_char_boundary(len) => (len, with),
                _ => (c.len_utf8(), &rest[..c.len_utf8()]),
            };
            if out.len() + with.len() > GROWTH * (text.len() + 4) {
                return Err(Error::unsupported(format!("precompiled_charsmap makes a text {GROWTH} times longer")));
            }
            out.try_reserve(with.len())
                .map_err(|_| Error::OutOfMemory { what: "normalizing text", bytes: out.len() as u64 })?;
            out.push_str(with);
            rest = &rest[len..];
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a double array with the single key `a`, whose value is `place`: the root's children begin at 0, those of
    /// `a` at 256.
    fn table(place: u32, texts: &[u8]) -> Vec<u8> {
        let mut units = vec![0u32; 512];
        let a = u32::from(b'a');
        units[97] = a | 1 << 8 | (256 ^ 97) << 10;
        units[256] = 1 << 31 | place;
        let mut bytes = (4 * units.len() as u32).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend_from_slice(texts);
        bytes
    }

    #[test]
    fn keys_are_replaced_and_the_rest_stays() {
        let map = Charsmap::new(&table(2, b"x\0yz\0")).unwrap();
        assert_eq!(map.apply("banäna").unwrap(), "byznänyz");
        assert_eq!(map.apply("").unwrap(), "");
        // A value outside the texts, or an unterminated text, is no match.
        for map in [table(9, b"x\0"), table(1 << 30, b"x\0"), table(0, b"xyz")] {
            assert_eq!(Charsmap::new(&map).unwrap().apply("aba").unwrap(), "aba");
        }
    }

    #[test]
    fn damaged_tables_are_refused_or_match_nothing() {
        for bytes in [&b""[..], &[1, 2, 3], &[5, 0, 0, 0, 1], &[255, 255, 255, 255], &[0, 0, 0, 0, 0xFF]] {
            assert!(Charsmap::new(bytes).is_err());
        }
        assert_eq!(Charsmap::new(&[0; 4]).unwrap().apply("abc").unwrap(), "abc");
        let long = [vec![b'x'; 1000], vec![0]].concat();
        let error = Charsmap::new(&table(0, &long)).unwrap().apply("aaa").unwrap_err();
        assert!(error.to_string().contains("16 times longer"), "{error}");
    }

    #[test]
    fn base64() {
        assert!(Charsmap::from_base64("AAAA?").is_err());
        let map = Charsmap::from_base64("AAAAAA==").unwrap();
        assert!(map.units.is_empty() && map.texts.is_empty());
    }
}
