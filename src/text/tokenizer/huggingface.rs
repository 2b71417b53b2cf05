//! A tokenizer from Hugging Face's `tokenizer.json`. Its components (normalizers, pre-tokenizers, a model, a
//! post-processor, decoders: <https://huggingface.co/docs/tokenizers>) become steps of the one pipeline; a component
//! that has no place in it is `Unsupported` by its name, and never left out in silence.
//!
//! The vocabulary and the merges are read straight into their tables; only the small rest becomes a tree of JSON.

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
use crate::text::tokenizer::byte_level;
use crate::text::tokenizer::end_tokens::add_ends_by_text;
use crate::text::tokenizer::merge::{Atoms, Bpe, Unknown, WholePieces};
use crate::text::tokenizer::pieces::{growth, pieces};
use crate::text::tokenizer::pipeline::{TokenModel, Tokenizer, cut_at_spaces};
use crate::text::tokenizer::unigram::Unigram;
use crate::text::tokenizer::vocab::{Vocab, reserve};
use crate::text::tokenizer::wordpiece::{MAX_WORD, WordPiece};
use components::{Decoder, normalizers, post_processors, pre_tokenizers};
pub use listed::PLAIN_ADDED;
use listed::add_listed;
use streaming::{Count, Merges, members};
use vocabulary::{AddedToken, Entries, Spelling, added_tokens, vocabulary};

pub const KEY: &str = "tokenizer.huggingface.json";

/// Text of the components that become trees; the largest published list of added tokens has 1.2 MB.
const MAX_COMPONENT: usize = 8 << 20;
/// Steps of one pipeline, each of which is a level of recursion.
const MAX_STEPS: usize = 32;
/// A text in U+2581 for spaces grows to three times its length, and by a table of SentencePiece's up to sixteen;
/// published tokenizers have two steps of the first kind, and one that puts U+2581 before each piece.
const MAX_GROWTH: usize = 600;

/// The method by which a model makes tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Bpe,
    Unigram,
    WordPiece,
}

pub fn load(m: &Metadata) -> Result<Tokenizer> {
    let text = m.require_str(KEY)?;
    let damaged = |e: serde_json::Error| m.error(format!("tokenizer.json: {e}"));
    let [added, normalizer, pre_tokenizer, model, post_processor, decoder] =
        members(text, ["added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor", "decoder"])
            .map_err(damaged)?;
    let component = |raw: Option<&RawValue>| match raw.map(RawValue::get) {
        None => Ok(Json::Null),
        Some(text) if text.len() > MAX_COMPONENT => {
            Err(m.error(format!("tokenizer.json: a component of {} bytes, at most {MAX_COMPONENT}", text.len())))
        }
        Some(text) => serde_json::from_str(text).map_err(damaged),
    };
    let decoder = Decoder::new(&component(decoder)?)?;
    let mut normalize = Vec::new();
    normalizers(&component(normalizer)?, &mut normalize)?;
    let mut cut = Vec::new();
    let bytes_spelt = pre_tokenizers(&component(pre_tokenizer)?, &mut cut)? || decoder.byte_level;
    if normalize.len() + cut.len() > MAX_STEPS || growth(&normalize).saturating_mul(growth(&cut)) > MAX_GROWTH {
        return Err(Error::unsupported(format!(
            "a tokenizer of more than {MAX_STEPS} steps, or one that makes a text {MAX_GROWTH} times longer"
        )));
    }
    let mut added = added_tokens(&component(added)?, m)?;

    let [kind, vocab, merges, unk_token, unk_id, byte_fallback, fuse_unk, whole, prefix, suffix, dropout, max_word] =
        members(
            model.map_or("{}", RawValue::get),
            [
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
            ],
        )
        .map_err(damaged)?;
    let flag = |raw| component(raw).map(|v| v.as_bool().unwrap_or(false));
    if component(dropout)?.as_f64().is_some_and(|p| p > 0.0) {
        return Err(Error::unsupported("the tokenizer's dropout"));
    }
    let byte_fallback = flag(byte_fallback)?;
    let kind = component(kind)?;
    let algorithm = match (kind.as_str(), merges) {
        (Some("BPE"), _) | (None, Some(_)) => Algorithm::Bpe,
        (Some("Unigram"), _) => Algorithm::Unigram,
        (Some("WordPiece"), _) => Algorithm::WordPiece,
        (other, _) => return Err(Error::unsupported(format!("the tokenizer model {:?}", other.unwrap_or("")))),
    };
    let prefix = component(prefix)?;
    let spelling = match algorithm {
        Algorithm::WordPiece => Spelling::WordParts(prefix.as_str().unwrap_or("##")),
        _ if bytes_spelt => Spelling::Bytes,
        _ => Spelling::Text { byte_fallback },
    };
    let parts = if algorithm == Algorithm::WordPiece { &Json::Null } else { &prefix };
    for (name, value) in [("continuing_subword_prefix", parts), ("end_of_word_suffix", &component(suffix)?)] {
        if value.as_str().is_some_and(|s| !s.is_empty()) {
            return Err(Error::unsupported(format!("the tokenizer's {name}")));
        }
    }
    let mut entries = Entries::default();
    let raw_vocab = vocab.ok_or_else(|| m.error("tokenizer.json: no vocabulary"))?.get();
    serde_json::Deserializer::from_str(raw_vocab).deserialize_any(&mut entries).map_err(damaged)?;
    let mut notes = Vec::new();
    add_listed(m, &entries, &mut added, &mut notes)?;
    leave_out_beyond_rows(m, &mut added, &mut notes)?;
    let vocab = vocabulary(&entries, &added, spelling)?;

    let unknown = match algorithm {
        Algorithm::Unigram => component(unk_id)?.as_u64().and_then(|id| u32::try_from(id).ok()),
        _ => component(unk_token)?.as_str().and_then(|text| entries.id_of(text, &added)),
    };
    if let Some(id) = unknown.filter(|&id| id as usize >= vocab.len()) {
        return Err(m.error(format!("tokenizer.json: the unknown token is {id}, the vocabulary has {}", vocab.len())));
    }
    let model = match algorithm {
        Algorithm::Unigram => TokenModel::Unigram(Unigram::new(&vocab, entries.scores_by_id(vocab.len())?, unknown)?),
        Algorithm::WordPiece => {
            let max_word = component(max_word)?.as_u64().map_or(MAX_WORD, |n| n as usize);
            TokenModel::WordPiece(WordPiece::new(&vocab, unknown, max_word)?)
        }
        Algorithm::Bpe => {
            let unknown = Unknown { id: unknown, fuse: flag(fuse_unk)? };
            let atoms = if bytes_spelt { Atoms::Bytes } else { Atoms::Chars };
            let whole = if flag(whole)? { WholePieces::Any } else { WholePieces::Never };
            if !bytes_spelt && whole == WholePieces::Never {
                cut.extend(cut_at_spaces(&vocab)?);
            }
            let bpe = byte_pairs(merges, &vocab, atoms, unknown, whole, &damaged)?;
            TokenModel::Bpe(bpe)
        }
    };

    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    post_processors(&component(post_processor)?, &|text| entries.id_of(text, &added), &mut prefix, &mut suffix)?;
    if let Some(id) = prefix.iter().chain(&suffix).find(|&&id| id as usize >= vocab.len()) {
        return Err(m.error(format!("tokenizer.json: token {id} around a text, the vocabulary has {}", vocab.len())));
    }
    let special = Special::new(m, &vocab, |text| entries.id_of(text, &added))?;
    // `tokenizer_config.json` is more explicit than the post-processor and counts more.
    for (name, id, around) in [("bos", special.bos, &mut prefix), ("eos", special.eos, &mut suffix)] {
        match (m.bool(&format!("tokenizer.ggml.add_{name}_token"))?, id) {
            (Some(true), Some(id)) => *around = vec![id],
            (Some(false), _) => around.clear(),
            (Some(true), None) | (None, _) => {}
        }
    }
    let (plain, normalized): (Vec<_>, Vec<_>) = added.into_iter().partition(|a| !a.normalized);
    let mut normal_texts = Vec::new();
    for a in &normalized {
        let mut text = String::new();
        pieces(&normalize, &a.content, true, &mut |piece, _| {
            text.push_str(piece);
            Ok(())
        })?;
        normal_texts.push(text);
    }
    let search = |texts: &mut dyn Iterator<Item = (&str, &AddedToken)>| {
        let tokens: Vec<_> = texts.map(|(text, a)| (text.as_bytes(), a.token.clone())).collect();
        Added::new(tokens.iter().cloned())
    };
    Ok(Tokenizer {
        added: search(&mut plain.iter().map(|a| (a.content.as_str(), a)))?,
        normalize,
        added_normalized: search(&mut normal_texts.iter().map(String::as_str).zip(&normalized))?,
        cut,
        model,
        prefix,
        suffix,
        bos: special.bos,
        eos: special.eos,
        ends: special.ends,
        suppressed: Vec::new(),
        spaces: decoder.spaces,
        strips_first_space: decoder.strips_first_space,
        notes,
        vocab,
    })
}

/// Leaves out added tokens for which the model has no embeddings, where its configuration tells how many it has.
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

/// Byte-pair encoding by the merges of a file, `["a b", ...]` or `[["a", "b"], ...]`.
fn byte_pairs(
    merges: Option<&RawValue>,
    vocab: &Vocab,
    atoms: Atoms,
    unknown: Unknown,
    whole_pieces: WholePieces,
    damaged: &dyn Fn(serde_json::Error) -> Error,
) -> Result<Bpe> {
    let read = || serde_json::Deserializer::from_str(merges.map_or("[]", RawValue::get));
    let bytes_spelt = matches!(atoms, Atoms::Bytes);
    let n = read().deserialize_seq(Count).map_err(damaged)?;
    let mut bpe = Bpe::new(vocab, atoms, n, unknown, whole_pieces)?;
    let mut union = Vec::new();
    let append = |text: &str, union: &mut Vec<u8>| {
        if bytes_spelt {
            return byte_level::decode(text.as_bytes(), union).map(|_| ());
        }
        reserve(union, text.len())?;
        union.extend_from_slice(text.as_bytes());
        Ok(())
    };
    let add = |left: &str, right: &str| {
        union.clear();
        append(left, &mut union)?;
        let middle = union.len();
        append(right, &mut union)?;
        bpe.add(vocab, &union, middle)
    };
    read().deserialize_seq(Merges(add)).map_err(damaged)?;
    Ok(bpe)
}

/// The tokens that begin and end a text, from the configuration beside the tokenizer.
struct Special {
    bos: Option<u32>,
    eos: Option<u32>,
    ends: Vec<u32>,
}

impl Special {
    fn new(m: &Metadata, vocab: &Vocab, id_of: impl Fn(&str) -> Option<u32>) -> Result<Special> {
        let named = |name: &str| -> Result<Option<u32>> {
            if let Some(id) = m.str(&format!("tokenizer.huggingface.{name}_token"))?.and_then(&id_of) {
                return Ok(Some(id));
            }
            m.u32(&format!("tokenizer.ggml.{name}_token_id"))
        };
        let (bos, eos) = (named("bos")?, named("eos")?);
        let listed = m.u32s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default();
        let mut ends: Vec<u32> = listed.into_iter().chain(m.u32("tokenizer.ggml.eos_token_id")?).chain(eos).collect();
        if let Some(id) = ends.iter().copied().chain(bos).find(|&id| id as usize >= vocab.len()) {
            return Err(m.error(format!("a special token is {id}, the vocabulary has {} tokens", vocab.len())));
        }
        add_ends_by_text(vocab, &mut ends);
        Ok(Special { bos, eos, ends })
    }
}
