//! Tokenization by merging neighbors: byte-pair encoding with ranked merges (Sennrich et al., arXiv:1508.07909), and
//! SentencePiece's variant, which merges the pair whose union is the best-scored token (arXiv:1808.06226). Both take
//! the best pair first, ties from the left. A heap over a linked list takes O(n log n) for a piece of any length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Error, Result};
use crate::text::tokenizer::byte_level;
use crate::text::tokenizer::vocab::{HashIndex, Vocab, push, reserve};

/// Polled during long work; an error ends it.
pub type Check<'c> = &'c dyn Fn() -> Result<()>;

/// Number of small work units (a symbol, a merge, a piece of text) between two polls of a `Check`.
const CHECK_EVERY: u32 = 4096;

const NONE: u32 = u32::MAX;

/// A symbol: a range of the piece. Its index never changes; an absorbed symbol has length 0.
#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    len: u32,
    prev: u32,
    next: u32,
    /// `NONE` if no token has these bytes.
    id: u32,
}

/// Two neighbors that may merge. The order of the fields is the order of merging.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MergeCandidate {
    key: u32,
    left: u32,
    right: u32,
    /// Byte length of both symbols. The pair is stale if it differs from the list.
    len: u32,
    id: u32,
}

/// Scratch memory of an encoding, reused for each piece.
pub struct Work<'c> {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<MergeCandidate>>,
    check: Check<'c>,
    unchecked: u32,
}

impl<'c> Work<'c> {
    pub fn new(check: Check<'c>) -> Work<'c> {
        Work { symbols: Vec::new(), queue: BinaryHeap::new(), check, unchecked: 0 }
    }

    /// Counts a small work unit.
    ///
    /// # Errors
    /// The error of the `Check`.
    pub fn tick(&mut self) -> Result<()> {
        self.unchecked += 1;
        if self.unchecked < CHECK_EVERY {
            return Ok(());
        }
        self.unchecked = 0;
        (self.check)()
    }

    /// Appends a symbol to the piece.
    fn push(&mut self, start: usize, len: usize, id: Option<u32>) -> Result<()> {
        self.tick()?;
        reserve(&mut self.symbols, 1)?;
        let n = self.symbols.len() as u32;
        if let Some(last) = self.symbols.last_mut() {
            last.next = n;
        }
        let prev = n.checked_sub(1).unwrap_or(NONE);
        self.symbols.push(Symbol { start: start as u32, len: len as u32, prev, next: NONE, id: id.unwrap_or(NONE) });
        Ok(())
    }

    /// Merges until no pair is left for which `rule` returns a key (smallest first) and a token.
    fn run(&mut self, rule: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) -> Result<()> {
        self.queue.clear();
        for left in 1..self.symbols.len() as u32 {
            self.tick()?;
            self.propose(left - 1, left, &rule)?;
        }
        while let Some(Reverse(c)) = self.queue.pop() {
            self.tick()?;
            let (left, right) = (self.symbols[c.left as usize], self.symbols[c.right as usize]);
            if left.len == 0 || left.next != c.right || left.len + right.len != c.len {
                continue;
            }
            self.symbols[c.left as usize] = Symbol { len: c.len, next: right.next, id: c.id, ..left };
            self.symbols[c.right as usize].len = 0;
            if right.next != NONE {
                self.symbols[right.next as usize].prev = c.left;
                self.propose(c.left, right.next, &rule)?;
            }
            if left.prev != NONE {
                self.propose(left.prev, c.left, &rule)?;
            }
        }
        Ok(())
    }

    fn propose(&mut self, left: u32, right: u32, rule: &impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) -> Result<()> {
        let (l, r) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if let Some((key, id)) = rule(l, r) {
            let candidate = MergeCandidate { key, left, right, len: l.len + r.len, id };
            let bytes = self.queue.len() as u64 * size_of::<MergeCandidate>() as u64;
            self.queue.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "merging tokens", bytes })?;
            self.queue.push(Reverse(candidate));
        }
        Ok(())
    }

    fn merged(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| s.len > 0)
    }
}

/// The units that merging starts from.
pub enum Atoms {
    /// Every byte is a token; files spell them in the byte-level alphabet.
    Bytes,
    /// Every character is a token; others become `<0xNN>` tokens.
    Chars,
}

struct Merge {
    left: u32,
    right: u32,
    merged: u32,
}

/// The token for characters that no token spells.
#[derive(Default)]
pub struct Unknown {
    pub id: Option<u32>,
    /// True if a run of unknown characters becomes one token.
    pub fuse: bool,
}

/// Pieces that are a token as a whole, taken without merging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WholePieces {
    Never,
    Any,
    /// Runs of newlines.
    Newlines,
}

/// Byte-pair encoding with ranked merges.
pub struct Bpe {
    atoms: Atoms,
    /// Merges in order of rank.
    merges: Vec<Merge>,
    index: HashIndex,
    byte_tokens: [Option<u32>; 256],
    /// The token of each byte at the end of a piece, if such tokens have a suffix.
    last_tokens: Option<Box<[Option<u32>; 256]>>,
    unknown: Unknown,
    whole_pieces: WholePieces,
}

impl Bpe {
    /// Creates an encoder with capacity for `n` merges.
    pub fn new(vocab: &Vocab, atoms: Atoms, n: usize, unknown: Unknown, whole_pieces: WholePieces) -> Result<Bpe> {
        let byte_tokens = match atoms {
            Atoms::Bytes => std::array::from_fn(|b| vocab.find(&[b as u8])),
            Atoms::Chars => vocab.byte_tokens(),
        };
        let mut merges = Vec::new();
        reserve(&mut merges, n)?;
        let index = HashIndex::new("merges", n)?;
        Ok(Bpe { atoms, merges, index, byte_tokens, last_tokens: None, unknown, whole_pieces })
    }

    /// Marks the last byte of each piece by a suffix, as CLIP does.
    pub fn end_with(&mut self, vocab: &Vocab, suffix: &str) {
        let token = |byte: usize| vocab.find(&[&[byte as u8], suffix.as_bytes()].concat());
        self.last_tokens = Some(Box::new(std::array::from_fn(token)));
    }

    /// Adds the next best merge, within the capacity of `new`. Ignores repeated merges, and merges whose halves or
    /// union are special tokens. `halves`: as spelled in the file; `union`: scratch.
    pub fn add(&mut self, vocab: &Vocab, halves: [&[u8]; 2], union: &mut Vec<u8>) -> Result<()> {
        union.clear();
        let mut middle = 0;
        for half in halves {
            middle = union.len();
            match self.atoms {
                Atoms::Bytes => _ = byte_level::decode(half, union)?,
                Atoms::Chars => {
                    reserve(union, half.len())?;
                    union.extend_from_slice(half);
                }
            }
        }
        let (left, right) = union.split_at(middle);
        if let (Some(left), Some(right), Some(merged)) = (vocab.find(left), vocab.find(right), vocab.find(union))
            && self.find(left, right).is_none()
        {
            self.index.insert(pair(left, right), self.merges.len() as u32);
            self.merges.push(Merge { left, right, merged });
        }
        Ok(())
    }

    pub fn encode(&self, vocab: &Vocab, piece: &str, work: &mut Work, out: &mut Vec<u32>) -> Result<()> {
        let whole = match self.whole_pieces {
            WholePieces::Never => false,
            WholePieces::Any => true,
            WholePieces::Newlines => piece.bytes().all(|b| b == b'\n'),
        };
        if whole && let Some(id) = vocab.find(piece.as_bytes()) {
            return push(out, id);
        }
        work.symbols.clear();
        match self.atoms {
            Atoms::Bytes => {
                let last = piece.len().saturating_sub(1);
                for (i, b) in piece.bytes().enumerate() {
                    let tokens = self.last_tokens.as_deref().filter(|_| i == last).unwrap_or(&self.byte_tokens);
                    work.push(i, 1, tokens[b as usize])?;
                }
            }
            Atoms::Chars => {
                for (i, c) in piece.char_indices() {
                    let len = c.len_utf8();
                    work.push(i, len, vocab.find(&piece.as_bytes()[i..i + len]))?;
                }
            }
        }
        work.run(|l, r| {
            let rank = self.find(l.id, r.id)?;
            Some((rank, self.merges[rank as usize].merged))
        })?;
        spell(work, piece, &self.byte_tokens, &self.unknown, out)
    }

    /// Returns the rank of a merge.
    fn find(&self, left: u32, right: u32) -> Option<u32> {
        self.index.find(pair(left, right), |rank| {
            let m = &self.merges[rank as usize];
            (m.left, m.right) == (left, right)
        })
    }
}

/// Packs both ids into one number, which hashes faster than two.
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Merging by the score of the union, as SentencePiece does.
pub struct Spm {
    /// A key per token that increases as the score decreases.
    keys: Vec<u32>,
    byte_tokens: [Option<u32>; 256],
    unknown: Unknown,
}

impl Spm {
    /// Creates an encoder from one score per token, none of them NaN.
    pub fn new(vocab: &Vocab, scores: &[f32], unknown: Unknown) -> Result<Spm> {
        let mut keys = Vec::new();
        reserve(&mut keys, scores.len())?;
        keys.extend(scores.iter().map(|&s| descending(s)));
        Ok(Spm { keys, byte_tokens: vocab.byte_tokens(), unknown })
    }

    pub fn encode(&self, vocab: &Vocab, piece: &str, work: &mut Work, out: &mut Vec<u32>) -> Result<()> {
        let bytes = piece.as_bytes();
        work.symbols.clear();
        for (i, c) in piece.char_indices() {
            let len = c.len_utf8();
            work.push(i, len, vocab.find(&bytes[i..i + len]))?;
        }
        work.run(|l, r| {
            let id = vocab.find(&bytes[l.start as usize..(r.start + r.len) as usize])?;
            Some((*self.keys.get(id as usize)?, id))
        })?;
        spell(work, piece, &self.byte_tokens, &self.unknown, out)
    }
}

/// Appends the tokens of the merged symbols. For a symbol without a token, appends its byte tokens or, without those,
/// the unknown token.
fn spell(
    work: &Work,
    piece: &str,
    byte_tokens: &[Option<u32>; 256],
    unknown: &Unknown,
    out: &mut Vec<u32>,
) -> Result<()> {
    let mut fused = false;
    for s in work.merged() {
        let was_unknown = std::mem::take(&mut fused);
        if s.id != NONE {
            push(out, s.id)?;
            continue;
        }
        let bytes = &piece.as_bytes()[s.start as usize..][..s.len as usize];
        if bytes.iter().all(|&b| byte_tokens[b as usize].is_some()) {
            for id in bytes.iter().filter_map(|&b| byte_tokens[b as usize]) {
                push(out, id)?;
            }
        } else if let Some(id) = unknown.id {
            fused = unknown.fuse;
            if !(fused && was_unknown) {
                push(out, id)?;
            }
        }
    }
    Ok(())
}

/// Maps floats to integers in reverse order: the best score has the smallest key.
fn descending(score: f32) -> u32 {
    // -0.0 and 0.0 are one score.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { bits } else { !(bits | 1 << 31) }
}
