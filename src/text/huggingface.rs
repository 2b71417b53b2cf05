//! A tokenizer from Hugging Face's `tokenizer.json`. Its components (normalizers, pre-tokenizers, a model, a
//! post-processor, decoders: <https://huggingface.co/docs/tokenizers>) become steps of the one pipeline; a component
//! that has no place in it is `Unsupported` by its name, and never left out in silence.
//!
//! The vocabulary and the merges are read straight into their tables; only the small rest becomes a tree of JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::added::{Added, Token};
use super::gguf::{byte_of, ends_by_text};
use super::merge::{Atoms, Bpe, Unknown};
use super::pieces::{Behavior, Form, Prepend, Split, Step, growth, pieces};
use super::pretokenizer::GPT2;
use super::unigram::Unigram;
use super::vocab::{Kind, MAX_TOKENS, Vocab, reserve};
use super::{Model, Tokenizer, VISIBLE_SPACE, alphabet, cut_at_spaces};
use crate::error::{Error, Result, try_filled};
use crate::format::{Metadata, Strings};

pub const KEY: &str = "tokenizer.huggingface.json";

/// Text of the components that become trees; the largest published list of added tokens has 1.2 MB.
const MAX_COMPONENT: usize = 8 << 20;
/// Steps of one pipeline, each of which is a level of recursion.
const MAX_STEPS: usize = 32;
/// A text in U+2581 for spaces grows to three times its length, and by Unicode's compatibility forms up to eleven.
const MAX_GROWTH: usize = 200;

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
    let byte_level = pre_tokenizers(&component(pre_tokenizer)?, &mut cut)? || decoder.byte_level;
    if normalize.len() + cut.len() > MAX_STEPS || growth(&normalize).saturating_mul(growth(&cut)) > MAX_GROWTH {
        return Err(Error::unsupported(format!(
            "a tokenizer of more than {MAX_STEPS} steps, or one that makes a text {MAX_GROWTH} times longer"
        )));
    }
    let added = added_tokens(&component(added)?, m)?;

    let [kind, vocab, merges, unk_token, unk_id, byte_fallback, fuse_unk, whole, prefix, suffix, dropout] = members(
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
        ],
    )
    .map_err(damaged)?;
    let flag = |raw| component(raw).map(|v| v.as_bool().unwrap_or(false));
    for (name, value) in [("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)] {
        if component(value)?.as_str().is_some_and(|s| !s.is_empty()) {
            return Err(Error::unsupported(format!("the tokenizer's {name}")));
        }
    }
    if component(dropout)?.as_f64().is_some_and(|p| p > 0.0) {
        return Err(Error::unsupported("the tokenizer's dropout"));
    }
    let byte_fallback = flag(byte_fallback)?;
    let kind = component(kind)?;
    let unigram = match (kind.as_str(), merges) {
        (Some("BPE"), _) | (None, Some(_)) => false,
        (Some("Unigram"), _) => true,
        (other, _) => return Err(Error::unsupported(format!("the tokenizer model {:?}", other.unwrap_or("")))),
    };
    let mut entries = Entries::default();
    let raw_vocab = vocab.ok_or_else(|| m.error("tokenizer.json: no vocabulary"))?.get();
    serde_json::Deserializer::from_str(raw_vocab).deserialize_any(&mut entries).map_err(damaged)?;
    let vocab = vocabulary(&entries, &added, byte_level, byte_fallback)?;

    let unknown = if unigram {
        component(unk_id)?.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < vocab.len())
    } else {
        let text = component(unk_token)?;
        text.as_str().and_then(|text| entries.id_of(text, &added))
    };
    let model = if unigram {
        Model::Unigram(Unigram::new(&vocab, entries.scores_by_id(vocab.len())?, unknown)?)
    } else {
        let unknown = Unknown { id: unknown, fuse: flag(fuse_unk)? };
        let atoms = if byte_level { Atoms::Bytes } else { Atoms::Chars };
        let whole = flag(whole)?;
        if !byte_level && !whole {
            cut.extend(cut_at_spaces(&vocab)?);
        }
        let merges = merges.map_or("[]", RawValue::get);
        let n = serde_json::Deserializer::from_str(merges).deserialize_seq(Count).map_err(damaged)?;
        let mut bpe = Bpe::new(&vocab, atoms, n, unknown, whole)?;
        let mut union = Vec::new();
        let mut add = |left: &str, right: &str| {
            union.clear();
            let append = |text: &str, union: &mut Vec<u8>| {
                if byte_level {
                    return alphabet::decode(text.as_bytes(), union).map(|_| ());
                }
                reserve(union, text.len())?;
                union.extend_from_slice(text.as_bytes());
                Ok(())
            };
            append(left, &mut union)?;
            let middle = union.len();
            append(right, &mut union)?;
            bpe.add(&vocab, &union, middle)
        };
        serde_json::Deserializer::from_str(merges).deserialize_seq(Merges(&mut add)).map_err(damaged)?;
        Model::Bpe(bpe)
    };

    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    post_processors(&component(post_processor)?, &|text| entries.id_of(text, &added), &mut prefix, &mut suffix)?;
    if let Some(id) = prefix.iter().chain(&suffix).find(|&&id| id as usize >= vocab.len()) {
        return Err(m.error(format!("tokenizer.json: token {id} around a text, the vocabulary has {}", vocab.len())));
    }
    let special = Special::new(m, &vocab, |text| entries.id_of(text, &added))?;
    // What `tokenizer_config.json` says outright counts more than the post-processor.
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
        visible_space: decoder.visible_space,
        strips_first_space: decoder.strips_first_space,
        vocab,
    })
}

// ---- components

fn kind_of(component: &Json) -> &str {
    component.get("type").and_then(Json::as_str).unwrap_or_default()
}

fn list<'j>(component: &'j Json, name: &str) -> &'j [Json] {
    component.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text<'j>(component: &'j Json, name: &str) -> Result<&'j str> {
    component
        .get(name)
        .and_then(Json::as_str)
        .ok_or_else(|| Error::unsupported(format!("a component {:?} without {name:?}", kind_of(component))))
}

fn flag(component: &Json, name: &str, default: bool) -> bool {
    component.get(name).and_then(Json::as_bool).unwrap_or(default)
}

fn unsupported<T>(what: &str, component: &Json) -> Result<T> {
    Err(Error::unsupported(format!("the {what} {:?}", kind_of(component))))
}

/// `{"String": …}` or `{"Regex": …}`.
fn split_by(component: &Json, behavior: Behavior, invert: bool) -> Result<Split> {
    let pattern = component.get("pattern").unwrap_or(&Json::Null);
    match (pattern.get("String").and_then(Json::as_str), pattern.get("Regex").and_then(Json::as_str)) {
        (Some(text), _) => Ok(Split::literal(text, behavior, invert)),
        (None, Some(regex)) => Split::pattern(regex, behavior, invert),
        (None, None) => Err(Error::unsupported(format!("a {:?} without a pattern", kind_of(component)))),
    }
}

fn normalizers(component: &Json, steps: &mut Vec<Step>) -> Result<()> {
    if component.is_null() {
        return Ok(());
    }
    steps.push(match kind_of(component) {
        "Sequence" => return list(component, "normalizers").iter().try_for_each(|c| normalizers(c, steps)),
        "NFC" => Step::Normalize(Form::Nfc),
        "NFD" => Step::Normalize(Form::Nfd),
        "NFKC" => Step::Normalize(Form::Nfkc),
        "NFKD" => Step::Normalize(Form::Nfkd),
        "Lowercase" => Step::Lowercase,
        "Strip" => {
            Step::Strip { left: flag(component, "strip_left", true), right: flag(component, "strip_right", true) }
        }
        "Prepend" => Step::Prepend { text: text(component, "prepend")?.to_owned(), when: Prepend::Always },
        "Replace" => {
            let to = text(component, "content")?.to_owned();
            match component.get("pattern").and_then(|p| p.get("String")).and_then(Json::as_str) {
                Some(from) => Step::Replace { from: from.to_owned(), to },
                None => Step::ReplacePattern { pattern: split_by(component, Behavior::Isolated, false)?, to },
            }
        }
        _ => return unsupported("normalizer", component),
    });
    Ok(())
}

/// Whether text becomes bytes in the end.
fn pre_tokenizers(component: &Json, steps: &mut Vec<Step>) -> Result<bool> {
    let split = |pattern: &str, behavior, invert| Split::pattern(pattern, behavior, invert).map(Step::Split);
    match kind_of(component) {
        _ if component.is_null() => {}
        "Sequence" => {
            let mut byte_level = false;
            for c in list(component, "pretokenizers") {
                byte_level |= pre_tokenizers(c, steps)?;
            }
            return Ok(byte_level);
        }
        "ByteLevel" => {
            if flag(component, "add_prefix_space", true) {
                steps.push(Step::Prepend { text: " ".to_owned(), when: Prepend::Missing });
            }
            if flag(component, "use_regex", true) {
                steps.push(split(GPT2, Behavior::Isolated, false)?);
            }
            return Ok(true);
        }
        "Split" => {
            let behavior = behavior(component)?;
            steps.push(Step::Split(split_by(component, behavior, flag(component, "invert", false))?));
        }
        "Digits" => {
            let each = flag(component, "individual_digits", false);
            steps.push(split(r"\p{N}", if each { Behavior::Isolated } else { Behavior::Contiguous }, false)?);
        }
        "Punctuation" => steps.push(split(r"[\p{P}!-/:-@\[-`{-~]", behavior(component)?, false)?),
        "Whitespace" => steps.push(split(r"\w+|[^\w\s]+", Behavior::Removed, true)?),
        "WhitespaceSplit" => steps.push(split(r"\s+", Behavior::Removed, false)?),
        "Metaspace" => {
            let replacement = component.get("replacement").and_then(Json::as_str).unwrap_or(VISIBLE_SPACE);
            steps.push(Step::Replace { from: " ".to_owned(), to: replacement.to_owned() });
            if let Some(when) = metaspace_prefix(component)? {
                steps.push(Step::Prepend { text: replacement.to_owned(), when });
            }
            if flag(component, "split", true) {
                steps.push(Step::Split(Split::literal(replacement, Behavior::MergedWithNext, false)));
            }
        }
        _ => return unsupported("pre-tokenizer", component),
    }
    Ok(false)
}

fn behavior(component: &Json) -> Result<Behavior> {
    Ok(match component.get("behavior").and_then(Json::as_str) {
        Some("Isolated") | None => Behavior::Isolated,
        Some("Removed") => Behavior::Removed,
        Some("MergedWithPrevious") => Behavior::MergedWithPrevious,
        Some("MergedWithNext") => Behavior::MergedWithNext,
        Some("Contiguous") => Behavior::Contiguous,
        Some(other) => return Err(Error::unsupported(format!("splitting that leaves {other:?}"))),
    })
}

/// `prepend_scheme`, and `add_prefix_space` as older files say it.
fn metaspace_prefix(component: &Json) -> Result<Option<Prepend>> {
    match component.get("prepend_scheme").and_then(Json::as_str) {
        Some("always") => Ok(Some(Prepend::Missing)),
        Some("first") => Ok(Some(Prepend::MissingAtStart)),
        Some("never") => Ok(None),
        None => Ok(flag(component, "add_prefix_space", true).then_some(Prepend::Missing)),
        Some(other) => Err(Error::unsupported(format!("the prefix {other:?} of a Metaspace"))),
    }
}

/// The tokens around a text.
fn post_processors(
    component: &Json,
    id_of: &dyn Fn(&str) -> Option<u32>,
    prefix: &mut Vec<u32>,
    suffix: &mut Vec<u32>,
) -> Result<()> {
    let known = |name: &str| id_of(name).ok_or_else(|| Error::unsupported(format!("the special token {name:?}")));
    match kind_of(component) {
        "" | "ByteLevel" => {}
        "Sequence" => {
            for c in list(component, "processors") {
                post_processors(c, id_of, prefix, suffix)?;
            }
        }
        "TemplateProcessing" => {
            let mut after = false;
            for item in list(component, "single") {
                after |= item.get("Sequence").is_some();
                let name = item.get("SpecialToken").and_then(|t| t.get("id")).and_then(Json::as_str);
                let Some(name) = name else { continue };
                let around = if after { &mut *suffix } else { &mut *prefix };
                let special = component.get("special_tokens").and_then(|t| t.get(name)).unwrap_or(&Json::Null);
                let ids = list(special, "ids").iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
                around.extend(ids);
            }
        }
        "RobertaProcessing" | "BertProcessing" => {
            for (name, around) in [("cls", prefix), ("sep", suffix)] {
                let token = list(component, name).first().and_then(Json::as_str).unwrap_or_default();
                around.push(known(token)?);
            }
        }
        _ => return unsupported("post-processor", component),
    }
    Ok(())
}

#[derive(Default)]
struct Decoder {
    byte_level: bool,
    visible_space: bool,
    strips_first_space: bool,
}

impl Decoder {
    fn new(component: &Json) -> Result<Decoder> {
        let mut decoder = Decoder::default();
        decoder.add(component)?;
        Ok(decoder)
    }

    fn add(&mut self, component: &Json) -> Result<()> {
        match kind_of(component) {
            "" | "Fuse" | "ByteFallback" => {}
            "Sequence" => list(component, "decoders").iter().try_for_each(|c| self.add(c))?,
            "ByteLevel" => self.byte_level = true,
            "Metaspace" => {
                self.visible_space = true;
                self.strips_first_space = metaspace_prefix(component)?.is_some();
            }
            "Replace" => {
                let from = component.get("pattern").and_then(|p| p.get("String")).and_then(Json::as_str);
                match (from, text(component, "content")?) {
                    (Some(VISIBLE_SPACE), " ") => self.visible_space = true,
                    _ => return unsupported("decoder that makes something else than spaces:", component),
                }
            }
            "Strip" => {
                let count = |name| component.get(name).and_then(Json::as_u64).unwrap_or(0);
                match (text(component, "content")?, count("start"), count("stop")) {
                    (_, 0, 0) => {}
                    (" ", 1, 0) => self.strips_first_space = true,
                    _ => return unsupported("decoder that takes away more than a space:", component),
                }
            }
            _ => return unsupported("decoder", component),
        }
        Ok(())
    }
}

/// What begins and ends a text, from the configuration beside the tokenizer.
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
        let more = m.u64s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default();
        let one = m.u64("tokenizer.ggml.eos_token_id")?;
        let mut ends: Vec<u32> = Vec::new();
        for id in more.into_iter().chain(one).chain(eos.map(u64::from)).chain(bos.map(u64::from)) {
            if id >= vocab.len() as u64 {
                return Err(m.error(format!("a special token is {id}, the vocabulary has {} tokens", vocab.len())));
            }
        }
        let more = m.u64s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default();
        ends.extend(more.into_iter().chain(one).map(|id| id as u32).chain(eos));
        ends_by_text(vocab, &mut ends);
        Ok(Special { bos, eos, ends })
    }
}

// ---- vocabulary

struct AddedToken {
    content: String,
    token: Token,
    /// Found in normalised text.
    normalized: bool,
}

fn added_tokens(component: &Json, m: &Metadata) -> Result<Vec<AddedToken>> {
    let mut tokens = Vec::new();
    for t in component.as_array().map_or(&[][..], Vec::as_slice) {
        let id = t.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
        let content = t.get("content").and_then(Json::as_str);
        let (Some(id), Some(content)) = (id.filter(|&id| (id as usize) < MAX_TOKENS), content) else {
            return Err(m.error("tokenizer.json: an added token without an id or a text"));
        };
        let control = flag(t, "special", false);
        let token = Token {
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

/// The tokens of the model, as they stand in the file.
#[derive(Default)]
struct Entries {
    texts: Strings,
    ids: Vec<u32>,
    /// Of a unigram model.
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

    fn id_of(&self, text: &str, added: &[AddedToken]) -> Option<u32> {
        let added = added.iter().find(|a| a.content == text).map(|a| a.token.id);
        added.or_else(|| self.texts.iter().zip(&self.ids).find(|(t, _)| *t == text.as_bytes()).map(|(_, &id)| id))
    }

    fn scores_by_id(&self, n: usize) -> Result<Vec<f64>> {
        let mut scores = try_filled("scores", n, 0.0)?;
        for (&id, &score) in self.ids.iter().zip(&self.scores) {
            if let Some(slot) = scores.get_mut(id as usize) {
                *slot = score;
            }
        }
        Ok(scores)
    }
}

/// `{"text": id, …}` of byte-pair encoding and `[["text", score], …]` of a unigram model, by the way.
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

/// Tokens in the order of their ids. An id that nothing names is a control token without text.
fn vocabulary(entries: &Entries, added: &[AddedToken], byte_level: bool, byte_fallback: bool) -> Result<Vocab> {
    const NOWHERE: u32 = u32::MAX;
    let largest = entries.ids.iter().chain(added.iter().map(|a| &a.token.id)).max();
    let n = largest.map_or(0, |&id| id as usize + 1);
    // Ids far beyond the number of tokens would let a small file ask for a large table.
    if n > 2 * (entries.ids.len() + added.len()) + 65_536 {
        return Err(Error::unsupported(format!("a vocabulary of few tokens with ids up to {n}")));
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
                let kind = if a.token.control { Kind::Control } else { Kind::UserDefined };
                vocab.push(a.content.as_bytes(), kind)?;
            }
            (None, None) => vocab.push(&[], Kind::Control)?,
            (None, Some(text)) if byte_level => {
                bytes.clear();
                let reachable = alphabet::decode(text, &mut bytes)?;
                vocab.push(&bytes, if reachable { Kind::Normal } else { Kind::Unreachable })?;
            }
            (None, Some(text)) => match byte_of(text).filter(|_| byte_fallback) {
                Some(byte) => vocab.push(&[byte], Kind::Byte)?,
                None => vocab.push(text, Kind::Normal)?,
            },
        }
    }
    Ok(vocab)
}

// ---- reading without a tree

/// The members of an object that are asked for; the first of each name counts, and an absent or `null` one is none.
fn members<'j, const N: usize>(
    json: &'j str,
    names: [&'static str; N],
) -> Result<[Option<&'j RawValue>; N], serde_json::Error> {
    struct Members<const N: usize>([&'static str; N]);
    impl<'de, const N: usize> Visitor<'de> for Members<N> {
        type Value = [Option<&'de RawValue>; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = [None; N];
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                match self.0.iter().position(|n| *n == name) {
                    Some(i) if found[i].is_none() => found[i] = Some(map.next_value::<&'de RawValue>()?),
                    _ => _ = map.next_value::<IgnoredAny>()?,
                }
            }
            Ok(found.map(|raw| raw.filter(|raw| raw.get() != "null")))
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = deserializer.deserialize_map(Members(names))?;
    deserializer.end()?;
    Ok(found)
}

/// The length of a list.
struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut n = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            n += 1;
        }
        Ok(n)
    }
}

/// Hands on each merge of `["a b", …]` or `[["a", "b"], …]`.
struct Merges<F>(F);

impl<'de, F: FnMut(&str, &str) -> Result<()>> Visitor<'de> for Merges<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Merge(&mut self.0))?.is_some() {}
        Ok(())
    }
}

struct Merge<'f, F>(&'f mut F);

impl<'de, F: FnMut(&str, &str) -> Result<()>> DeserializeSeed<'de> for Merge<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str, &str) -> Result<()>> Visitor<'de> for Merge<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: serde::de::Error>(self, merge: &str) -> Result<(), E> {
        match merge.split_once(' ') {
            Some((left, right)) => (self.0)(left, right).map_err(E::custom),
            None => Err(E::custom(format!("the merge {merge:?} of one token"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<(), A::Error> {
        let left = pair.next_element::<Cow<'de, str>>()?;
        let right = pair.next_element::<Cow<'de, str>>()?;
        match (left, right, pair.next_element::<IgnoredAny>()?) {
            (Some(left), Some(right), None) => (self.0)(&left, &right).map_err(A::Error::custom),
            _ => Err(A::Error::custom("a merge of other than two tokens")),
        }
    }
}
