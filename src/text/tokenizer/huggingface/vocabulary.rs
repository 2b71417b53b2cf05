//! The tokens of a `tokenizer.json`: the model's, read directly into tables, and added ones.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::components::flag;
use crate::error::{Error, Result, try_filled};
use crate::format::{Metadata, Strings};
use crate::text::tokenizer::added::WholeToken;
use crate::text::tokenizer::byte_level;
use crate::text::tokenizer::vocab::{MAX_TOKENS, TokenKind, Vocab, byte_of, reserve};

pub(super) struct AddedToken {
    pub content: String,
    pub token: WholeToken,
    /// True if found in normalized text.
    pub normalized: bool,
}

pub(super) fn added_tokens(component: &Json, m: &Metadata) -> Result<Vec<AddedToken>> {
    let mut tokens = Vec::new();
    for t in component.as_array().map_or(&[][..], Vec::as_slice) {
        let id = t.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
        let content = t.get("content").and_then(Json::as_str);
        let (Some(id), Some(content)) = (id.filter(|&id| (id as usize) < MAX_TOKENS), content) else {
            return Err(m.error("tokenizer.json has an added token without an id or a text"));
        };
        let control = flag(t, "special", false);
        let token = WholeToken {
            id,
            control,
            lstrip: flag(t, "lstrip", false),
            rstrip: flag(t, "rstrip", false),
            single_word: flag(t, "single_word", false),
        };
        tokens.push(AddedToken { content: content.to_owned(), token, normalized: flag(t, "normalized", !control) });
    }
    Ok(tokens)
}

/// The tokens of the model, in file order.
#[derive(Default)]
pub(super) struct Entries {
    texts: Strings,
    ids: Vec<u32>,
    /// Scores of a unigram model, in the order of `texts`.
    scores: Vec<f64>,
}

impl Entries {
    fn push<E: serde::de::Error>(&mut self, text: &str, id: u64, score: Option<f64>) -> Result<(), E> {
        let id = u32::try_from(id).ok().filter(|&id| (id as usize) < MAX_TOKENS);
        let id = id.ok_or_else(|| E::custom(format!("the token {text:?} has an id that is too large")))?;
        if self.ids.len() == MAX_TOKENS {
            return Err(E::custom("too many tokens"));
        }
        self.texts.push(text.as_bytes()).map_err(E::custom)?;
        reserve(&mut self.ids, 1).map_err(E::custom)?;
        self.ids.push(id);
        if let Some(score) = score {
            reserve(&mut self.scores, 1).map_err(E::custom)?;
            self.scores.push(score);
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the ids by their texts; the first of equal texts counts.
    pub fn by_text(&self) -> Result<HashMap<&[u8], u32>> {
        let mut ids = HashMap::new();
        let bytes = self.len() as u64 * size_of::<(&[u8], u32)>() as u64;
        ids.try_reserve(self.len()).map_err(|_| Error::OutOfMemory { what: "tokens", bytes })?;
        for (text, &id) in self.texts.iter().zip(&self.ids) {
            ids.entry(text).or_insert(id);
        }
        Ok(ids)
    }

    pub fn id_of(&self, text: &str, added: &[AddedToken]) -> Option<u32> {
        let added = added.iter().find(|a| a.content == text).map(|a| a.token.id);
        added.or_else(|| self.texts.iter().zip(&self.ids).find(|(t, _)| *t == text.as_bytes()).map(|(_, &id)| id))
    }

    pub fn scores_by_id(&self, n: usize) -> Result<Vec<f64>> {
        let mut scores = try_filled("scores", n, 0.0)?;
        for (&id, &score) in self.ids.iter().zip(&self.scores) {
            if let Some(slot) = scores.get_mut(id as usize) {
                *slot = score;
            }
        }
        Ok(scores)
    }
}

/// Reads `{"text": id, …}` of BPE and `[["text", score], …]` of a unigram model.
impl<'de> Visitor<'de> for &mut Entries {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((text, id)) = map.next_entry::<Cow<'de, str>, u64>()? {
            self.push(&text, id, None)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some((text, score)) = list.next_element::<(Cow<'de, str>, f64)>()? {
            self.push(&text, self.ids.len() as u64, Some(score))?;
        }
        Ok(())
    }
}

/// The spelling of a model's tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling<'a> {
    /// The byte-level alphabet.
    Bytes,
    Text {
        /// True if bytes are spelled `<0xNN>`.
        byte_fallback: bool,
    },
    /// Words, and continuations with this prefix.
    WordParts(&'a str),
}

/// Builds the vocabulary in the order of ids. An id without a token is a control token without text.
pub(super) fn vocabulary(entries: &Entries, added: &[AddedToken], spelling: Spelling) -> Result<Vocab> {
    const NOWHERE: u32 = u32::MAX;
    let largest = entries.ids.iter().chain(added.iter().map(|a| &a.token.id)).max();
    let n = largest.map_or(0, |&id| id as usize + 1);
    // Ids far beyond the number of tokens would let a small file allocate a large table.
    if n > 2 * (entries.ids.len() + added.len()) + 65_536 {
        return Err(Error::unsupported(format!(
            "the vocabulary has few tokens, with ids up to {n}; ids must be dense"
        )));
    }
    let mut places = try_filled("token ids", n, NOWHERE)?;
    for (&id, place) in entries.ids.iter().zip(0..) {
        places[id as usize] = place;
    }
    let mut added_places = try_filled("token ids", n, NOWHERE)?;
    for (a, place) in added.iter().zip(0..) {
        added_places[a.token.id as usize] = place;
    }
    let mut vocab = Vocab::new(n)?;
    let mut bytes = Vec::new();
    for (&place, &added_place) in places.iter().zip(&added_places) {
        let text = entries.texts.get(place as usize);
        match (added.get(added_place as usize), text) {
            (Some(a), _) => {
                let kind = if a.token.control { TokenKind::Control } else { TokenKind::UserDefined };
                // The model produces only its own tokens.
                match text {
                    Some(_) => vocab.push(a.content.as_bytes(), kind)?,
                    None => _ = vocab.push_apart(a.content.as_bytes(), kind)?,
                }
            }
            (None, None) => vocab.push(&[], TokenKind::Control)?,
            (None, Some(text)) => match spelling {
                Spelling::Bytes => {
                    bytes.clear();
                    let reachable = byte_level::decode(text, &mut bytes)?;
                    vocab.push(&bytes, if reachable { TokenKind::Normal } else { TokenKind::Unreachable })?;
                }
                Spelling::Text { byte_fallback } => match byte_of(text).filter(|_| byte_fallback) {
                    Some(byte) => vocab.push(&[byte], TokenKind::Byte)?,
                    None => vocab.push(text, TokenKind::Normal)?,
                },
                Spelling::WordParts(prefix) => match text.strip_prefix(prefix.as_bytes()) {
                    Some(part) => vocab.push(part, TokenKind::Normal)?,
                    None => vocab.push(&[b" ", text].concat(), TokenKind::Normal)?,
                },
            },
        }
    }
    Ok(vocab)
}
