//! SentencePiece's unigram model: the segmentation of a piece into tokens with the largest sum of scores (log
//! probabilities), by Viterbi's algorithm (Kudo, arXiv:1804.10959).

use crate::error::{Error, Result};
use crate::text::tokenizer::merge::Work;
use crate::text::tokenizer::trie::Trie;
use crate::text::tokenizer::vocab::{Vocab, push, reserve};

/// Difference between the lowest score and the score of an unknown character, as in SentencePiece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Maximum bytes of a token, which bounds the work at each place of a text.
const MAX_TOKEN: usize = 256;

pub struct Unigram {
    scores: Vec<f64>,
    trie: Trie,
    unknown: Option<u32>,
    unknown_score: f64,
    byte_tokens: [Option<u32>; 256],
}

/// The best path to a place in the piece.
#[derive(Clone, Copy)]
struct BestPath {
    score: f64,
    start: usize,
    id: Option<u32>,
}

impl Unigram {
    /// Creates an encoder from one score per token.
    pub fn new(vocab: &Vocab, scores: Vec<f64>, unknown: Option<u32>) -> Result<Unigram> {
        if scores.iter().any(|s| !s.is_finite()) || vocab.iter().any(|(_, bytes, _)| bytes.len() > MAX_TOKEN) {
            return Err(Error::unsupported(format!(
                "a unigram vocabulary with scores that are not finite or tokens of more than {MAX_TOKEN} bytes"
            )));
        }
        let mut trie = Trie::new(vocab)?;
        let mut worst = f64::INFINITY;
        for ((id, bytes, _), &score) in vocab.iter().zip(&scores) {
            if vocab.find(bytes) == Some(id) {
                trie.insert(bytes, id);
                worst = worst.min(score);
            }
        }
        let unknown_score = if worst.is_finite() { worst } else { 0.0 } - UNKNOWN_PENALTY;
        Ok(Unigram { scores, trie, unknown, unknown_score, byte_tokens: vocab.byte_tokens() })
    }

    pub fn encode(&self, piece: &str, work: &mut Work, out: &mut Vec<u32>) -> Result<()> {
        let bytes = piece.as_bytes();
        let mut best: Vec<BestPath> = Vec::new();
        reserve(&mut best, bytes.len() + 1)?;
        best.resize(bytes.len() + 1, BestPath { score: f64::NEG_INFINITY, start: 0, id: None });
        best[0].score = 0.0;
        for (start, c) in piece.char_indices() {
            work.tick()?;
            let so_far = best[start].score;
            let mut relax = |end: usize, score: f64, id: Option<u32>| {
                if so_far + score > best[end].score || best[end].score == f64::NEG_INFINITY {
                    best[end] = BestPath { score: so_far + score, start, id };
                }
            };
            let end = start + c.len_utf8();
            let mut whole_character = false;
            self.trie.prefixes(Trie::ROOT, &bytes[start..], |len, id| {
                whole_character |= start + len == end;
                relax(start + len, self.scores[id as usize], Some(id));
            });
            if !whole_character {
                relax(end, self.unknown_score, None);
            }
        }
        let first = out.len();
        let mut end = bytes.len();
        let mut unknown_after = false;
        while end > 0 {
            let BestPath { start, id, .. } = best[end];
            // From the last token to the first; reversed below.
            match id {
                Some(id) => push(out, id)?,
                None if bytes[start..end].iter().all(|&b| self.byte_tokens[b as usize].is_some()) => {
                    for id in bytes[start..end].iter().rev().filter_map(|&b| self.byte_tokens[b as usize]) {
                        push(out, id)?;
                    }
                }
                // A run of unknown characters is one token.
                None if unknown_after => {}
                None => {
                    if let Some(id) = self.unknown {
                        push(out, id)?;
                    }
                }
            }
            unknown_after = id.is_none();
            end = start;
        }
        out[first..].reverse();
        Ok(())
    }
}
