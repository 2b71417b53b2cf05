//! Tokens as bytes: id to bytes and kind, and bytes of ordinary tokens to the id. One byte arena and tables of `u32`
//! hold a quarter of a million tokens in a few megabytes.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{Error, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// Produced by merging or segmenting text.
    Normal,
    /// A special token (`<s>`, `<|im_end|>`, `<unk>`): produced from text only if special tokens are parsed.
    Control,
    /// Found as a whole in any text, before everything else.
    UserDefined,
    /// Has bytes like a normal token, but no text produces it.
    Unreachable,
    /// Stands for one byte that no other token can spell; its bytes are that byte.
    Byte,
}

/// Maximum size of a vocabulary, and of a list of merges.
pub const MAX_TOKENS: usize = 4 << 20;

/// A hash set of indices whose keys are stored elsewhere and compared by the owner. Hashes are randomly seeded, so that
/// no file can force collisions.
pub struct HashIndex {
    table: HashTable<u32>,
    seed: RandomState,
}

impl HashIndex {
    /// Creates a set for `n` indices. `what` names them in the error for too many.
    pub fn new(what: &str, n: usize) -> Result<HashIndex> {
        if n > MAX_TOKENS {
            return Err(Error::unsupported(format!("{n} {what}, at most {MAX_TOKENS} are supported")));
        }
        let mut table = HashTable::new();
        let bytes = n as u64 * size_of::<u32>() as u64;
        // An empty table never rehashes.
        table.try_reserve(n, |_| 0).map_err(|_| Error::OutOfMemory { what: "the token table", bytes })?;
        Ok(HashIndex { table, seed: RandomState::default() })
    }

    /// Returns the index with this key that `same` accepts.
    pub fn find(&self, key: impl Hash, same: impl Fn(u32) -> bool) -> Option<u32> {
        self.table.find(self.seed.hash_one(key), |&n| same(n)).copied()
    }

    /// Adds an index whose key `find` has not found, within the capacity of `new`.
    pub fn insert(&mut self, key: impl Hash, n: u32) {
        debug_assert!(self.table.len() < self.table.capacity());
        self.table.insert_unique(self.seed.hash_one(key), n, |_| 0);
    }
}

pub struct Vocab {
    bytes: Vec<u8>,
    /// End of token `id` in `bytes`; it begins at the end of the previous one.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    /// Normal and user-defined tokens by their bytes. The first id of equal tokens wins.
    index: HashIndex,
    /// Maximum bytes of a token.
    longest: usize,
    repeated: Option<(u32, u32)>,
}

impl Vocab {
    /// Creates an empty vocabulary with capacity for `n` tokens.
    pub fn new(n: usize) -> Result<Vocab> {
        let mut v = Vocab {
            bytes: Vec::new(),
            ends: Vec::new(),
            kinds: Vec::new(),
            index: HashIndex::new("tokens", n)?,
            longest: 0,
            repeated: None,
        };
        reserve(&mut v.ends, n)?;
        reserve(&mut v.kinds, n)?;
        Ok(v)
    }

    /// Adds a token with the next id, within the capacity of `new`, and 4 GiB in total.
    pub fn push(&mut self, bytes: &[u8], kind: TokenKind) -> Result<()> {
        let id = self.push_apart(bytes, kind)?;
        if matches!(kind, TokenKind::Normal | TokenKind::UserDefined) && !bytes.is_empty() {
            match self.index.find(bytes, |other| self.bytes_of(other) == bytes) {
                Some(first) => self.repeated = self.repeated.or(Some((first, id))),
                None => self.index.insert(bytes, id),
            }
        }
        Ok(())
    }

    /// Returns the maximum bytes of a token.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the first two tokens with equal bytes; `find` returns the first one.
    pub fn repeated(&self) -> Option<(u32, u32)> {
        self.repeated
    }

    /// Like `push`, for a token that `find` never returns.
    pub fn push_apart(&mut self, bytes: &[u8], kind: TokenKind) -> Result<u32> {
        reserve(&mut self.bytes, bytes.len())?;
        let id = self.ends.len() as u32;
        let end = u32::try_from(self.bytes.len() + bytes.len())
            .map_err(|_| Error::unsupported("the vocabulary is too large; it must have at most 4 GiB"))?;
        self.bytes.extend_from_slice(bytes);
        self.ends.push(end);
        self.kinds.push(kind);
        self.longest = self.longest.max(bytes.len());
        Ok(id)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, id: u32) -> Option<(&[u8], TokenKind)> {
        self.kinds.get(id as usize).map(|&kind| (self.bytes_of(id), kind))
    }

    /// Returns the normal or user-defined token with these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        self.index.find(bytes, |id| self.bytes_of(id) == bytes)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], TokenKind)> + Clone {
        self.kinds.iter().zip(0..).map(|(&kind, id)| (id, self.bytes_of(id), kind))
    }

    /// Returns the token of each byte, among tokens of kind `Byte`.
    pub fn byte_tokens(&self) -> [Option<u32>; 256] {
        let mut table = [None; 256];
        for (id, bytes, _) in self.iter().filter(|t| t.2 == TokenKind::Byte) {
            if let &[b] = bytes {
                table[b as usize].get_or_insert(id);
            }
        }
        table
    }

    fn bytes_of(&self, id: u32) -> &[u8] {
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.bytes[start as usize..self.ends[id as usize] as usize]
    }
}

/// Reserves capacity for `more` elements, or fails with `OutOfMemory`.
pub fn reserve<T>(v: &mut Vec<T>, more: usize) -> Result<()> {
    v.try_reserve(more).map_err(|_| Error::OutOfMemory {
        what: "tokens",
        bytes: (v.len() as u64 + more as u64).saturating_mul(size_of::<T>() as u64),
    })
}

/// Appends a token, or fails with `OutOfMemory`.
pub fn push(out: &mut Vec<u32>, id: u32) -> Result<()> {
    reserve(out, 1)?;
    out.push(id);
    Ok(())
}

/// Appends tokens, or fails with `OutOfMemory`.
pub fn extend(out: &mut Vec<u32>, ids: &[u32]) -> Result<()> {
    reserve(out, ids.len())?;
    out.extend_from_slice(ids);
    Ok(())
}

/// Returns the byte of a text like `<0x0A>` in SentencePiece vocabularies.
pub fn byte_of(text: &[u8]) -> Option<u8> {
    let [high, low] = text.strip_prefix(b"<0x")?.strip_suffix(b">")? else { return None };
    let digit = |c: u8| char::from(c).to_digit(16);
    u8::try_from(16 * digit(*high)? + digit(*low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_pushed() {
        let mut v = Vocab::new(5000).unwrap();
        for i in 0..5000u32 {
            v.push(format!("token number {i}").as_bytes(), TokenKind::Normal).unwrap();
        }
        for i in 0..5000u32 {
            assert_eq!(v.find(format!("token number {i}").as_bytes()), Some(i));
        }
        assert_eq!(v.find(b"token number 5000"), None);
        assert_eq!(v.find(b""), None);
        assert_eq!(v.get(7), Some((&b"token number 7"[..], TokenKind::Normal)));
        assert_eq!(v.get(5000), None);
    }

    #[test]
    fn bytes_are_spelt_by_two_digits() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(format!("<0x{byte:02X}>").as_bytes()), Some(byte));
            assert_eq!(byte_of(format!("<0x{byte:02x}>").as_bytes()), Some(byte));
        }
        for text in ["<0x+F>", "<0x-1>", "<0x F>", "<0xF>", "<0x0FF>", "<0xFG>", "<0X0F>", "<0x0F", "0x0F>", "<0x>", ""]
        {
            assert_eq!(byte_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(byte_of(b"<0x\xc3\xa9>"), None);
    }

    #[test]
    fn the_first_of_equal_tokens_wins_and_control_tokens_are_not_text() {
        let mut v = Vocab::new(4).unwrap();
        for (bytes, kind) in [
            ("<s>", TokenKind::Control),
            ("a", TokenKind::Byte),
            ("a", TokenKind::Normal),
            ("a", TokenKind::UserDefined),
        ] {
            v.push(bytes.as_bytes(), kind).unwrap();
        }
        assert_eq!(v.find(b"<s>"), None);
        assert_eq!((v.find(b"a"), v.repeated()), (Some(2), Some((2, 3))));
        assert_eq!(v.byte_tokens()[usize::from(b'a')], Some(1));
    }
}
