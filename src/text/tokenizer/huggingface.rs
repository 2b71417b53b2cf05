//! A tokenizer from Hugging Face's `tokenizer.json`. Its components (normalizers, pre-tokenizers, a model, a
//! post-processor, decoders: <https://huggingface.co/docs/tokenizers>) become steps of the pipeline; a component
//! without an equivalent is `Unsupported` by name, never silently ignored.
//!
//! Vocabulary and merges are read directly into their tables; only the small rest becomes a JSON tree.

mod components;
mod listed;
mod streaming;
mod vocabulary;

use serde::de::Deserializer;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::text::tokenizer::added::Added;
use crate::text::tokenizer::end_tokens::add_ends_by_text;
use crate::text::tokenizer::merge::{Atoms, Bpe, Unknown, WholePieces};
use crate::text::tokenizer::pieces::{growth, pieces};
use crate::text::tokenizer::pipeline::{Special, Steps, TokenModel, Tokenizer, cut_at_spaces};
use crate::text::tokenizer::unigram::Unigram;
use crate::text::tokenizer::vocab::Vocab;
use crate::text::tokenizer::wordpiece::{MAX_WORD, WordPiece};
use components::{Decoder, normalizers, post_processors, pre_tokenizers};
pub use listed::PLAIN_ADDED;
use listed::add_listed;
use streaming::{Count, Merges, members};
use vocabulary::{AddedToken, Entries, Spelling, added_tokens, vocabulary};

pub const KEY: &str = "tokenizer.huggingface.json";

/// Maximum bytes of components that become trees; the largest published list of added tokens has 1.2 MB.
const MAX_COMPONENT: usize = 8 << 20;
/// Maximum number of steps of a pipeline, each of which is a level of recursion.
const MAX_STEPS: usize = 32;
/// Maximum factor by which steps may lengthen a text. Replacing spaces by U+2581 triples the length; a SentencePiece
/// table makes a text up to sixteen times longer. Published tokenizers have two steps that triple the length, and one
/// that puts U+2581 before each piece.
const MAX_GROWTH: usize = 600;

/// The tokenization algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Bpe,
    Unigram,
    WordPiece,
}

pub fn load(m: &Metadata) -> Result<Tokenizer> {
    let text = m.require_str(KEY)?;
    let names = ["added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor", "decoder"];
    let [tokens, normalizer, pre_tokenizer, model, post_processor, decoder] =
        members(text, names).map_err(damaged(m))?;
    let (mut steps, bytes_spelt) = steps(m, [decoder, normalizer, pre_tokenizer])?;
    let mut tokens = added_tokens(&component(m, tokens)?, m)?;
    let file = Model::new(m, model, bytes_spelt)?;
    let (mut entries, mut notes) = (Entries::default(), Vec::new());
    serde_json::Deserializer::from_str(file.vocab).deserialize_any(&mut entries).map_err(damaged(m))?;
    add_listed(m, &entries, &mut tokens, &mut notes)?;
    leave_out_beyond_rows(m, &mut tokens, &mut notes)?;
    let vocab = vocabulary(&entries, &tokens, file.spelling())?;
    let id_of = |text: &str| entries.id_of(text, &tokens);
    if file.algorithm == Algorithm::Bpe && !bytes_spelt && file.whole_pieces == WholePieces::Never {
        steps.cut.extend(cut_at_spaces(&vocab)?);
    }
    let model = file.build(m, &vocab, &entries, id_of)?;
    let special = special(m, &component(m, post_processor)?, &vocab, id_of)?;
    let (added, added_normalized) = added(tokens, &steps)?;
    Ok(Tokenizer { vocab, steps, model, special, added, added_normalized, suppressed: Vec::new(), notes })
}

fn damaged(m: &Metadata) -> impl Fn(serde_json::Error) -> Error {
    |e| m.error(format!("tokenizer.json: {e}"))
}

fn component(m: &Metadata, raw: Option<&RawValue>) -> Result<Json> {
    match raw.map(RawValue::get) {
        None => Ok(Json::Null),
        Some(text) if text.len() > MAX_COMPONENT => Err(m.error(format!(
            "tokenizer.json has a component of {} bytes; it must have at most {MAX_COMPONENT}",
            text.len()
        ))),
        Some(text) => serde_json::from_str(text).map_err(damaged(m)),
    }
}

/// Returns the steps of the decoder, the normalizer and the pre-tokenizer, and true if tokens are in the byte-level
/// alphabet.
fn steps(m: &Metadata, components: [Option<&RawValue>; 3]) -> Result<(Steps, bool)> {
    let [decoder, normalizer, pre_tokenizer] = components;
    let Decoder { byte_level, spaces, strips_first_space } = Decoder::new(&component(m, decoder)?)?;
    let (mut normalize, mut cut) = (Vec::new(), Vec::new());
    normalizers(&component(m, normalizer)?, &mut normalize)?;
    let bytes_spelt = pre_tokenizers(&component(m, pre_tokenizer)?, &mut cut)? || byte_level;
    if normalize.len() + cut.len() > MAX_STEPS || growth(&normalize).saturating_mul(growth(&cut)) > MAX_GROWTH {
        return Err(Error::unsupported(format!(
            "the tokenizer has too many steps or makes texts too long; it must have at most {MAX_STEPS} steps and make no text {MAX_GROWTH} times longer"
        )));
    }
    Ok((Steps { normalize, cut, spaces, strips_first_space }, bytes_spelt))
}

/// The model of the file, without vocabulary and merges.
struct Model<'a> {
    algorithm: Algorithm,
    vocab: &'a str,
    merges: &'a str,
    /// The text of the unknown token, or its id.
    unknown: Json,
    fuses_unknown: bool,
    bytes_spelt: bool,
    byte_fallback: bool,
    whole_pieces: WholePieces,
    /// The prefix of tokens that do not begin a word.
    prefix: Json,
    /// The suffix of tokens that end a word.
    suffix: String,
    max_word: usize,
}

impl<'a> Model<'a> {
    fn new(m: &Metadata, model: Option<&'a RawValue>, bytes_spelt: bool) -> Result<Model<'a>> {
        let model = model.map_or("{}", RawValue::get);
        let names = [
            "type",
            "vocab",
            "merges",
            "unk_token",
            "unk_id",
            "byte_fallback",
            "fuse_unk",
            "ignore_merges",
            "continuing_subword_prefix",
            "end_of_word_suffix",
            "dropout",
            "max_input_chars_per_word",
        ];
        let [kind, vocab, merges, unk_token, unk_id, byte_fallback, fuse_unk, whole, prefix, suffix, dropout, max_word] =
            members(model, names).map_err(damaged(m))?;
        let flag = |raw| component(m, raw).map(|v| v.as_bool().unwrap_or(false));
        if component(m, dropout)?.as_f64().is_some_and(|p| p > 0.0) {
            return Err(Error::unsupported("the tokenizer has dropout; it must have none"));
        }
        let kind = component(m, kind)?;
        let algorithm = match (kind.as_str(), merges) {
            (Some("BPE"), _) | (None, Some(_)) => Algorithm::Bpe,
            (Some("Unigram"), _) => Algorithm::Unigram,
            (Some("WordPiece"), _) => Algorithm::WordPiece,
            (other, _) => {
                return Err(Error::unsupported(format!(
                    "the model of the tokenizer is {:?}, which is not supported",
                    other.unwrap_or("")
                )));
            }
        };
        let prefix = component(m, prefix)?;
        let parts = if algorithm == Algorithm::WordPiece { &Json::Null } else { &prefix };
        let suffix = component(m, suffix)?.as_str().unwrap_or_default().to_owned();
        let plain = Json::String(if algorithm == Algorithm::Bpe && bytes_spelt { "" } else { &suffix }.to_owned());
        for (name, value) in [("continuing_subword_prefix", parts), ("end_of_word_suffix", &plain)] {
            if value.as_str().is_some_and(|s| !s.is_empty()) {
                return Err(Error::unsupported(format!("the tokenizer has {name}, which is not supported")));
            }
        }
        Ok(Model {
            algorithm,
            vocab: vocab.ok_or_else(|| m.error("tokenizer.json has no vocabulary"))?.get(),
            merges: merges.map_or("[]", RawValue::get),
            unknown: component(m, if algorithm == Algorithm::Unigram { unk_id } else { unk_token })?,
            fuses_unknown: flag(fuse_unk)?,
            bytes_spelt,
            byte_fallback: flag(byte_fallback)?,
            whole_pieces: if flag(whole)? { WholePieces::Any } else { WholePieces::Never },
            prefix,
            suffix,
            max_word: component(m, max_word)?.as_u64().map_or(MAX_WORD, |n| n as usize),
        })
    }

    fn spelling(&self) -> Spelling<'_> {
        match self.algorithm {
            Algorithm::WordPiece => Spelling::WordParts(self.prefix.as_str().unwrap_or("##")),
            _ if self.bytes_spelt => Spelling::Bytes,
            _ => Spelling::Text { byte_fallback: self.byte_fallback },
        }
    }

    fn build(
        &self,
        m: &Metadata,
        vocab: &Vocab,
        entries: &Entries,
        id_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<TokenModel> {
        let n = vocab.len();
        let id = match self.algorithm {
            Algorithm::Unigram => self.unknown.as_u64().and_then(|id| u32::try_from(id).ok()),
            _ => self.unknown.as_str().and_then(id_of),
        };
        if let Some(id) = id.filter(|&id| id as usize >= n) {
            return Err(m.error(format!("tokenizer.json: the unknown token is {id}, the vocabulary has {n}")));
        }
        Ok(match self.algorithm {
            Algorithm::Unigram => TokenModel::Unigram(Unigram::new(vocab, entries.scores_by_id(n)?, id)?),
            Algorithm::WordPiece => TokenModel::WordPiece(WordPiece::new(vocab, id, self.max_word)?),
            Algorithm::Bpe => {
                let read = || serde_json::Deserializer::from_str(self.merges);
                let n = read().deserialize_seq(Count).map_err(damaged(m))?;
                let atoms = if self.bytes_spelt { Atoms::Bytes } else { Atoms::Chars };
                let unknown = Unknown { id, fuse: self.fuses_unknown };
                let mut bpe = Bpe::new(vocab, atoms, n, unknown, self.whole_pieces)?;
                if !self.suffix.is_empty() {
                    bpe.end_with(vocab, &self.suffix);
                }
                let mut union = Vec::new();
                let add = |left: &str, right: &str| bpe.add(vocab, [left.as_bytes(), right.as_bytes()], &mut union);
                read().deserialize_seq(Merges(add)).map_err(damaged(m))?;
                TokenModel::Bpe(bpe)
            }
        })
    }
}

/// Returns the searches in the original and in the normalized text.
fn added(all: Vec<AddedToken>, steps: &Steps) -> Result<(Added, Added)> {
    let (plain, normalized): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| !a.normalized);
    let plain = plain.iter().map(|a| (a.content.as_bytes(), a.token.clone()));
    let mut texts = Vec::new();
    for a in &normalized {
        let mut text = String::new();
        pieces(&steps.normalize, &a.content, true, &mut |piece, _| {
            text.push_str(piece);
            Ok(())
        })?;
        texts.push(text);
    }
    let normalized = texts.iter().zip(&normalized).map(|(text, a)| (text.as_bytes(), a.token.clone()));
    Ok((Added::new(plain)?, Added::new(normalized)?))
}

/// Omits added tokens without embeddings, if the configuration declares the number of embeddings.
fn leave_out_beyond_rows(m: &Metadata, added: &mut Vec<AddedToken>, notes: &mut Vec<String>) -> Result<()> {
    let arch = m.str("general.architecture")?.unwrap_or_default();
    let Some(rows) = m.u64(&format!("{arch}.vocab_size"))? else { return Ok(()) };
    let mut first = None;
    let before = added.len();
    added.retain(|a| {
        let has_row = u64::from(a.token.id) < rows;
        if !has_row {
            first.get_or_insert_with(|| (a.content.clone(), a.token.id));
        }
        has_row
    });
    if let Some((content, id)) = first {
        let n = before - added.len();
        notes.push(format!(
            "added tokens that are left out, because the model has {rows}: {n}, {content:?} with the id {id}"
        ));
    }
    Ok(())
}

/// Returns the BOS and EOS tokens from the post-processor and the configuration files; the files are more explicit and
/// take precedence.
fn special(m: &Metadata, post_processor: &Json, vocab: &Vocab, id_of: impl Fn(&str) -> Option<u32>) -> Result<Special> {
    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    post_processors(post_processor, &id_of, &mut prefix, &mut suffix)?;
    let n = vocab.len();
    if let Some(id) = prefix.iter().chain(&suffix).find(|&&id| id as usize >= n) {
        return Err(m.error(format!("tokenizer.json: token {id} around a text, the vocabulary has {n}")));
    }
    let named = |name: &str| -> Result<Option<u32>> {
        if let Some(id) = m.str(&format!("tokenizer.huggingface.{name}_token"))?.and_then(&id_of) {
            return Ok(Some(id));
        }
        m.u32(&format!("tokenizer.ggml.{name}_token_id"))
    };
    let (bos, eos) = (named("bos")?, named("eos")?);
    let listed = m.u32s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default();
    let mut ends: Vec<u32> = listed.into_iter().chain(m.u32("tokenizer.ggml.eos_token_id")?).chain(eos).collect();
    if let Some(id) = ends.iter().copied().chain(bos).find(|&id| id as usize >= n) {
        return Err(m.error(format!("a special token is {id}, the vocabulary has {n} tokens")));
    }
    add_ends_by_text(vocab, &mut ends);
    for (name, id, around) in [("bos", bos, &mut prefix), ("eos", eos, &mut suffix)] {
        match (m.bool(&format!("tokenizer.ggml.add_{name}_token"))?, id) {
            (Some(true), Some(id)) => *around = vec![id],
            (Some(false), _) => around.clear(),
            (Some(true), None) | (None, _) => {}
        }
    }
    Ok(Special { bos, eos, prefix, suffix, ends })
}
