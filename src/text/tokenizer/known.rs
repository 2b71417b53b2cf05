//! Cache of the last prompt's texts and their tokens. A prompt repeats most of the previous one, and only new text is
//! tokenized.

use std::collections::HashMap;

use super::vocab::extend;
use crate::error::Result;

/// Texts between control tokens, with their tokens.
#[derive(Default)]
pub struct KnownTexts {
    now: HashMap<Box<str>, Box<[u32]>>,
    before: HashMap<Box<str>, Box<[u32]>>,
}

impl KnownTexts {
    /// Begins another prompt. Texts in neither this prompt nor the last one are dropped.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Appends the tokens of a text to `out`; `encode` appends them if the text is new.
    pub(super) fn append(
        &mut self,
        text: &str,
        out: &mut Vec<u32>,
        encode: impl FnOnce(&mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        if let Some((text, tokens)) = self.before.remove_entry(text) {
            self.now.insert(text, tokens);
        }
        if let Some(tokens) = self.now.get(text) {
            return extend(out, tokens);
        }
        let from = out.len();
        encode(out)?;
        self.now.insert(text.into(), out[from..].into());
        Ok(())
    }
}
