//! Streaming detokenization. A token may end inside a character; the emitted text never does.

use crate::error::{Error, Result};
use crate::text::Tokenizer;

/// The state between two tokens; a copy allows undoing a token.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextStream {
    /// The incomplete character at the end.
    tail: [u8; 3],
    tail_len: usize,
    /// True if a token has yielded bytes.
    begun: bool,
}

impl TextStream {
    /// Returns a stream of tokens that begin a text.
    pub fn new() -> TextStream {
        TextStream::default()
    }

    /// Returns a stream of tokens that continue a text.
    pub fn continued() -> TextStream {
        TextStream { begun: true, ..TextStream::default() }
    }

    /// True if the last token ended within a character.
    pub fn is_in_character(&self) -> bool {
        self.tail_len > 0
    }

    /// Makes later tokens follow `tokens`, without emitting their text, except for an incomplete character. Tokens
    /// unknown to the tokenizer have no text.
    pub fn follow(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) {
        let bytes = |&id: &u32| tokenizer.decode_token(id, false).unwrap_or_default();
        self.begun |= tokens.iter().any(|id| !bytes(id).is_empty());
        // An incomplete character consists of the last three bytes at most.
        let (mut last, mut from) = ([0; 3], 3);
        'text: for id in tokens.iter().rev() {
            for &byte in bytes(id).iter().rev() {
                if from == 0 {
                    break 'text;
                }
                from -= 1;
                last[from] = byte;
            }
        }
        if from == 0 {
            self.tail_len = 0;
        }
        let mut text = String::new();
        last[from..].iter().for_each(|&byte| self.push_byte(byte, &mut text));
    }

    /// Appends the text that `id` completes to `out`; control tokens add none. Invalid bytes become U+FFFD. Nothing
    /// changes on error.
    ///
    /// # Errors
    /// The errors of `Tokenizer::decode_token`, and `OutOfMemory`.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) -> Result<()> {
        self.add(tokenizer, id, false, out)
    }

    /// Like `push`, but also adds the names of control tokens.
    pub fn push_all(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) -> Result<()> {
        self.add(tokenizer, id, true, out)
    }

    fn add(&mut self, tokenizer: &Tokenizer, id: u32, special: bool, out: &mut String) -> Result<()> {
        let mut begun = self.begun;
        let bytes = tokenizer.decode_next(id, special, &mut begun)?;
        // An invalid byte has one byte, its replacement three.
        let room = 3 * (self.tail_len + bytes.len());
        out.try_reserve(room).map_err(|_| Error::OutOfMemory { what: "text", bytes: room as u64 })?;
        self.begun = begun;
        for &b in bytes.iter() {
            self.push_byte(b, out);
        }
        Ok(())
    }

    /// Ends the text: an incomplete character becomes U+FFFD.
    pub fn flush(&mut self, out: &mut String) {
        if self.tail_len > 0 {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        *self = TextStream::default();
    }

    fn push_byte(&mut self, byte: u8, out: &mut String) {
        let mut pending = [0; 4];
        pending[..self.tail_len].copy_from_slice(&self.tail[..self.tail_len]);
        pending[self.tail_len] = byte;
        let mut rest = &pending[..=self.tail_len];
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    rest = &[];
                    break;
                }
                // The bytes before this one could still become a character, so nothing valid precedes an error.
                Err(e) => match e.error_len() {
                    Some(invalid) => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        rest = &rest[invalid..];
                    }
                    None => break,
                },
            }
        }
        self.tail_len = rest.len();
        self.tail[..rest.len()].copy_from_slice(rest);
    }
}
