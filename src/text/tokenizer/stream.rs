//! Text out of tokens one at a time. A token may end inside a character; what is handed on never does.

use crate::error::{Error, Result};
use crate::text::Tokenizer;

/// The state between two tokens. A copy of it is a way to take a token back.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextStream {
    /// The incomplete character at the end.
    tail: [u8; 3],
    tail_len: usize,
    /// A token has yielded bytes.
    begun: bool,
}

impl TextStream {
    /// A stream of tokens that begin a text.
    pub fn new() -> TextStream {
        TextStream::default()
    }

    /// A stream of tokens that go on with a text.
    pub fn continued() -> TextStream {
        TextStream { begun: true, ..TextStream::default() }
    }

    /// True where the last token has ended within a character.
    pub fn is_in_character(&self) -> bool {
        self.tail_len > 0
    }

    /// Puts `tokens` ahead of those to come without their text, but for a character that they leave incomplete. Those
    /// that the tokenizer does not know have no text.
    pub fn follow(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) {
        let bytes = |&id: &u32| tokenizer.decode_token(id, false).unwrap_or_default();
        self.begun |= tokens.iter().any(|id| !bytes(id).is_empty());
        // What is incomplete at the end are the last three bytes at most, whatever comes before them.
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

    /// Appends to `out` the text that `id` completes; control tokens add none. Bytes that can never become a
    /// character become U+FFFD. Nothing changes on an error.
    ///
    /// # Errors
    /// The errors of `Tokenizer::decode_token`, and `OutOfMemory`.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) -> Result<()> {
        self.add(tokenizer, id, false, out)
    }

    /// `push` that adds the names of control tokens too.
    pub fn push_all(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) -> Result<()> {
        self.add(tokenizer, id, true, out)
    }

    fn add(&mut self, tokenizer: &Tokenizer, id: u32, special: bool, out: &mut String) -> Result<()> {
        let mut begun = self.begun;
        let bytes = tokenizer.decode_next(id, special, &mut begun)?;
        // An invalid byte is one and its replacement three.
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
