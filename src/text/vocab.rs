//! Tokens as bytes: id to bytes and kind, and ordinary bytes back to the id.
//! One arena of bytes and tables of `u32` hold a quarter of a million tokens in a few megabytes.
//! Knows nothing of how text becomes tokens.

use std::hash::{BuildHasher, RandomState};

use crate::error::{Error, Result, try_filled};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reached by merging or segmenting text.
    Normal,
    /// Steers the model (`<s>`, `<|im_end|>`, `<unk>`): never made from a user's text unless special text is parsed.
    Control,
    /// Found as a whole in any text, before everything else.
    UserDefined,
    /// Has bytes as a normal token has, but is made from no text.
    Unreachable,
    /// Stands for one byte that no other token can spell; its bytes are that byte.
    Byte,
}

/// An open-addressing set of numbers whose keys lie elsewhere: the caller hashes and compares.
/// The hash is seeded by chance, so that no file can be made whose keys all collide.
pub struct Index {
    /// A number, and above it bits of its hash: a slot of another key is passed over without a look at that key.
    slots: Vec<u32>,
    seed: u64,
    factor: u64,
}

const NUMBER_BITS: u32 = 22;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
const EMPTY: u32 = u32::MAX;

impl Index {
    /// Numbers below this one can be put.
    pub const LIMIT: usize = NUMBER as usize;

    /// Room for `n` numbers at a load of at most two thirds. `what` names them in the error for too many.
    pub fn new(what: &str, n: usize) -> Result<Index> {
        if n > Self::LIMIT {
            return Err(Error::unsupported(format!("{n} {what}, at most {} are supported", Self::LIMIT)));
        }
        let slots = (n + n / 2 + 1).next_power_of_two();
        let random = RandomState::new();
        let (seed, factor) = (random.hash_one(0), random.hash_one(1) | 1);
        Ok(Index { slots: try_filled("the token table", slots, EMPTY)?, seed, factor })
    }

    pub fn hash_pair(&self, a: u32, b: u32) -> u64 {
        self.fold(self.seed ^ (u64::from(a) << 32 | u64::from(b)))
    }

    pub fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        let start = self.fold(self.seed ^ bytes.len() as u64);
        let h = words.iter().fold(start, |h, w| self.fold(h ^ u64::from_le_bytes(*w)));
        self.fold(h ^ u64::from_le_bytes(last))
    }

    /// The number of this hash that `same` accepts, or else the free slot where it belongs.
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return Err(at);
            }
            if (slot ^ tag(hash)) & !NUMBER == 0 && same(slot & NUMBER) {
                return Ok(slot & NUMBER);
            }
            at = (at + 1) & mask;
        }
    }

    /// `slot` comes from `find` with the same hash; no more numbers are put than `new` was told.
    pub fn put(&mut self, slot: usize, hash: u64, n: u32) {
        self.slots[slot] = tag(hash) & !NUMBER | n;
    }

    /// Both halves of a 128-bit product: every input bit reaches every output bit.
    fn fold(&self, x: u64) -> u64 {
        let p = u128::from(x) * u128::from(self.factor);
        p as u64 ^ (p >> 64) as u64
    }
}

/// Taken from the end of the hash that does not choose the slot.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

pub struct Vocab {
    bytes: Vec<u8>,
    /// Where token `id` ends in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    /// Normal and user-defined tokens by their bytes. Of tokens with the same bytes the first id wins.
    index: Index,
    /// Bytes of the longest token.
    longest: usize,
}

impl Vocab {
    /// An empty vocabulary with room for `n` tokens.
    pub fn new(n: usize) -> Result<Vocab> {
        let mut v = Vocab {
            bytes: Vec::new(),
            ends: Vec::new(),
            kinds: Vec::new(),
            index: Index::new("tokens", n)?,
            longest: 0,
        };
        reserve(&mut v.ends, n)?;
        reserve(&mut v.kinds, n)?;
        Ok(v)
    }

    /// The next id. At most as many as `new` was told; in all less than 4 GiB.
    pub fn push(&mut self, bytes: &[u8], kind: Kind) -> Result<()> {
        reserve(&mut self.bytes, bytes.len())?;
        let id = self.ends.len() as u32;
        let end = u32::try_from(self.bytes.len() + bytes.len())
            .map_err(|_| Error::unsupported("a vocabulary of more than 4 GiB"))?;
        self.bytes.extend_from_slice(bytes);
        self.ends.push(end);
        self.kinds.push(kind);
        self.longest = self.longest.max(bytes.len());
        if matches!(kind, Kind::Normal | Kind::UserDefined) && !bytes.is_empty() {
            let hash = self.index.hash_bytes(bytes);
            if let Err(slot) = self.index.find(hash, |other| self.bytes_of(other) == bytes) {
                self.index.put(slot, hash, id);
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, id: u32) -> Option<(&[u8], Kind)> {
        self.kinds.get(id as usize).map(|&kind| (self.bytes_of(id), kind))
    }

    /// The normal or user-defined token with these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        self.index.find(self.index.hash_bytes(bytes), |id| self.bytes_of(id) == bytes).ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], Kind)> + Clone {
        self.kinds.iter().zip(0..).map(|(&kind, id)| (id, self.bytes_of(id), kind))
    }

    /// The token of each byte, among those of kind `Byte`.
    pub fn byte_tokens(&self) -> [Option<u32>; 256] {
        let mut table = [None; 256];
        for (id, bytes, _) in self.iter().filter(|t| t.2 == Kind::Byte) {
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

/// Room for `more` elements, or `OutOfMemory`.
pub fn reserve<T>(v: &mut Vec<T>, more: usize) -> Result<()> {
    v.try_reserve(more).map_err(|_| Error::OutOfMemory {
        what: "tokens",
        bytes: (v.len() as u64 + more as u64).saturating_mul(size_of::<T>() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_pushed() {
        let mut v = Vocab::new(5000).unwrap();
        for i in 0..5000u32 {
            v.push(format!("token number {i}").as_bytes(), Kind::Normal).unwrap();
        }
        for i in 0..5000u32 {
            assert_eq!(v.find(format!("token number {i}").as_bytes()), Some(i));
        }
        assert_eq!(v.find(b"token number 5000"), None);
        assert_eq!(v.find(b""), None);
        assert_eq!(v.get(7), Some((&b"token number 7"[..], Kind::Normal)));
        assert_eq!(v.get(5000), None);
    }

    #[test]
    fn the_first_of_equal_tokens_wins_and_control_tokens_are_not_text() {
        let mut v = Vocab::new(4).unwrap();
        for (bytes, kind) in [("<s>", Kind::Control), ("a", Kind::Byte), ("a", Kind::Normal), ("a", Kind::UserDefined)]
        {
            v.push(bytes.as_bytes(), kind).unwrap();
        }
        assert_eq!(v.find(b"<s>"), None);
        assert_eq!(v.find(b"a"), Some(2));
        assert_eq!(v.byte_tokens()[usize::from(b'a')], Some(1));
    }
}
