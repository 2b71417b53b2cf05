//! WordPiece (Schuster and Nakajima, 2012) as in BERT: a word is split greedily from its start into the longest tokens,
//! and is the unknown token if that fails. In the vocabulary, tokens that begin a word are prefixed with a space, which
//! no word contains; continuations are not.

use crate::error::{Error, Result};
use crate::text::tokenizer::trie::Trie;
use crate::text::tokenizer::vocab::{TokenKind, Vocab, push};

/// Default maximum number of characters of a word; longer ones are unknown.
pub const MAX_WORD: usize = 100;

/// Maximum bytes of a token, which bounds the work at each place of a word.
const MAX_TOKEN: usize = 1024;

pub struct WordPiece {
    trie: Trie,
    /// The node of the tokens that begin a word.
    start: Option<u32>,
    unknown: Option<u32>,
    /// Maximum number of characters of a word; longer ones are unknown.
    max_word: usize,
}

impl WordPiece {
    pub fn new(vocab: &Vocab, unknown: Option<u32>, max_word: usize) -> Result<WordPiece> {
        if vocab.longest() > MAX_TOKEN {
            let longest = vocab.longest();
            return Err(Error::unsupported(format!("a token of {longest} bytes, at most {MAX_TOKEN} are supported")));
        }
        let mut trie = Trie::new(vocab)?;
        for (id, bytes, _) in vocab.iter().filter(|t| t.2 == TokenKind::Normal && !t.1.is_empty()) {
            trie.insert(bytes, id);
        }
        Ok(WordPiece { start: trie.child(Trie::ROOT, b' '), trie, unknown, max_word })
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<()> {
        let first = out.len();
        let mut rest = word.as_bytes();
        let mut node = self.start.filter(|_| word.chars().nth(self.max_word).is_none());
        while let Some(from) = node.filter(|_| !rest.is_empty()) {
            let mut longest = None;
            self.trie.prefixes(from, rest, |len, id| longest = Some((len, id)));
            let Some((len, id)) = longest else { break };
            push(out, id)?;
            rest = &rest[len..];
            node = Some(Trie::ROOT);
        }
        if !rest.is_empty() {
            out.truncate(first);
            if let Some(unknown) = self.unknown {
                push(out, unknown)?;
            }
        }
        Ok(())
    }
}
