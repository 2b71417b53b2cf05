//! Tokens listed by the files next to a tokenizer: `added_tokens_decoder` and the special tokens of
//! `tokenizer_config.json`, or in older folders `added_tokens.json` and `special_tokens_map.json`. They are added as in
//! transformers: in the order of their ids, each with the id of its text in the vocabulary, or otherwise the next free
//! id.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::vocabulary::{AddedToken, Entries};
use crate::error::{Error, Result, secured};
use crate::format::Metadata;
use crate::format::json::Json;
use crate::text::tokenizer::added::WholeToken;
use crate::text::tokenizer::vocab::{MAX_TOKENS, reserve};

/// True if tokens added by other files are found in the original text, whatever these files say.
pub const PLAIN_ADDED: &str = "tokenizer.huggingface.plain_added";

/// Keys of `tokenizer_config.json` and `special_tokens_map.json` that name one special token each.
const NAMED: &[&str] = &["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Keys that list more of them, the newer one first.
const MORE: &[&str] = &["extra_special_tokens", "additional_special_tokens"];

/// The key of model-specific special tokens.
const OF_MODEL: &str = "model_specific_special_tokens";

/// Bytes of memory per byte of the files.
const WORKING: usize = 16;

/// Adds what the files list, and notes tokens that get other ids than listed.
pub(super) fn add_listed(
    m: &Metadata,
    entries: &Entries,
    added: &mut Vec<AddedToken>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let keys = ["config", "special_tokens_map", "added_tokens"].map(|name| format!("tokenizer.huggingface.{name}"));
    let sizes = keys.iter().map(|key| m.str(key).map(|text| text.map_or(0, str::len)));
    let bytes = sizes.sum::<Result<usize>>()?.saturating_mul(WORKING);
    // Hash tables of texts grow infallibly.
    secured("the added tokens", bytes, || read_and_add(m, entries, added, notes))
}

fn read_and_add(m: &Metadata, entries: &Entries, added: &mut Vec<AddedToken>, notes: &mut Vec<String>) -> Result<()> {
    let file = |key: &str, name| {
        let text = m.str(key)?.unwrap_or("{}");
        Json::parse_python(Path::new(name), text.as_bytes())
    };
    let config = file("tokenizer.huggingface.config", CONFIG)?;
    let map = file("tokenizer.huggingface.special_tokens_map", MAP)?;
    let list = file("tokenizer.huggingface.added_tokens", LIST)?;
    let is_older = config.get("added_tokens_decoder").is_none();
    let (special, n_named) = special_tokens(&config, &map, is_older)?;
    // Named tokens of `added_tokens_decoder` are special whatever their flag says.
    let n = if is_older { special.len() } else { n_named };
    let is_special: HashSet<String> = special[..n].iter().map(|token| token.content.clone()).collect();

    let mut listed: Vec<(u64, AddedToken)> = Vec::new();
    let wrong = |file, id: &str| Error::format(m.path(), format!("{file}: token {id:?} has no id below {MAX_TOKENS}"));
    if let Some(decoder) = config.get("added_tokens_decoder") {
        for (id, token) in decoder.members() {
            let n = id.parse().ok().filter(|&n: &u64| n < MAX_TOKENS as u64).ok_or_else(|| wrong(CONFIG, id))?;
            let token = AddedToken::read(token, CONFIG, "added_tokens_decoder", false)?;
            reserve(&mut listed, 1)?;
            listed.extend(token.map(|token| (n, token)));
        }
    } else {
        for (text, id) in list.members() {
            let n = id.as_u64().filter(|&n| n < MAX_TOKENS as u64).ok_or_else(|| wrong(LIST, text))?;
            reserve(&mut listed, 1)?;
            listed.push((n, AddedToken::new(text, is_special.contains(text.as_ref()))));
        }
    }
    listed.sort_by_key(|(id, _)| *id);

    let mut adding = Adding::new(entries, added)?;
    let plain = m.bool(PLAIN_ADDED)?.unwrap_or(false);
    let mut others = None;
    for (id, mut token) in listed {
        token.normalized &= !plain;
        token.token.control |= is_special.contains(&token.content);
        let content = token.content.clone();
        let given = adding.add(token, true)?;
        if u64::from(given) != id {
            others.get_or_insert((content, id, given));
        }
    }
    if let Some((content, id, given)) = others {
        let what = "added tokens have the ids that follow in the vocabulary, not those that their list tells";
        notes.push(format!("{what}: {content:?} is {given} and not {id}"));
    }
    for token in special {
        adding.add(token, false)?;
    }
    Ok(())
}

/// Returns the special tokens, and the number of named ones.
fn special_tokens(config: &Json, map: &Json, is_older: bool) -> Result<(Vec<AddedToken>, usize)> {
    // The map of an older folder takes precedence over the configuration; otherwise it is redundant.
    let mut special = Vec::new();
    let places = [(map, MAP), (config, CONFIG)];
    let places = if is_older { &places[..] } else { &places[1..] };
    for name in NAMED {
        if let Some((token, file)) = places.iter().find_map(|(json, file)| Some((json.get(name)?, file))) {
            special.extend(AddedToken::special(token, file, name)?);
        }
    }
    for (name, value) in config.members() {
        if name.ends_with("_token") && !NAMED.contains(&name.as_ref()) && value.as_str().is_some() {
            special.extend(AddedToken::special(value, CONFIG, name)?);
        }
    }
    for (_, token) in config.get(OF_MODEL).map_or(&[][..], Json::members) {
        special.extend(AddedToken::special(token, CONFIG, OF_MODEL)?);
    }
    // The first nonempty list counts, the configuration's before the map's.
    let has_some = |value: &&Json| value.as_array().is_some_and(|list| !list.is_empty()) || !value.members().is_empty();
    let lists =
        places.iter().rev().flat_map(|(json, file)| MORE.iter().map(move |name| (json.get(name), *file, *name)));
    let mut lists = lists.filter_map(|(value, file, name)| Some((value.filter(has_some)?, file, name)));
    let mut n_named = special.len();
    if let Some((value, file, name)) = lists.next() {
        let members = value.members().iter().map(|(_, token)| token);
        for token in value.as_array().unwrap_or_default().iter().chain(members) {
            special.extend(AddedToken::special(token, file, name)?);
        }
        // Tokens of an object are named too.
        n_named = if value.as_array().is_some() { n_named } else { special.len() };
    }
    Ok((special, n_named))
}

const CONFIG: &str = "tokenizer_config.json";
const MAP: &str = "special_tokens_map.json";
const LIST: &str = "added_tokens.json";

impl AddedToken {
    /// Returns the token that transformers makes of a text.
    fn new(content: &str, control: bool) -> AddedToken {
        let token = WholeToken { control, ..WholeToken::default() };
        AddedToken { content: content.to_owned(), token, normalized: !control }
    }

    /// Reads a special token, a text or an object; `None` for an empty text.
    fn special(json: &Json, file: &str, name: &str) -> Result<Option<AddedToken>> {
        AddedToken::read(json, file, name, true)
    }

    fn read(json: &Json, file: &str, name: &str, special: bool) -> Result<Option<AddedToken>> {
        let wrong = |what: &str| Error::format(Path::new(file), format!("{name:?} holds {what}"));
        if let Some(text) = json.as_str().filter(|_| special) {
            return Ok(Some(AddedToken::new(text, true)).filter(|token| !token.content.is_empty()));
        }
        let flag = |flag: &str, default: bool| match json.get(flag) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| wrong(&format!("a token whose {flag:?} is no boolean"))),
        };
        let content = json.get("content").and_then(Json::as_str).ok_or_else(|| wrong("a token without a text"))?;
        let control = special || flag("special", false)?;
        let token = WholeToken {
            id: 0,
            control,
            lstrip: flag("lstrip", false)?,
            rstrip: flag("rstrip", false)?,
            single_word: flag("single_word", false)?,
        };
        let normalized = flag("normalized", !control)?;
        Ok(Some(AddedToken { content: content.to_owned(), token, normalized }).filter(|t| !t.content.is_empty()))
    }

    fn has_flags_of(&self, other: &AddedToken) -> bool {
        let flags =
            |t: &AddedToken| (t.token.control, t.token.lstrip, t.token.rstrip, t.token.single_word, t.normalized);
        flags(self) == flags(other)
    }
}

/// The added tokens by their texts, and the next new id.
struct Adding<'a> {
    added: &'a mut Vec<AddedToken>,
    places: HashMap<String, usize>,
    in_model: HashMap<&'a [u8], u32>,
    entries: &'a Entries,
    next: u32,
}

impl<'a> Adding<'a> {
    fn new(entries: &'a Entries, added: &'a mut Vec<AddedToken>) -> Result<Adding<'a>> {
        let places = added.iter().enumerate().map(|(i, token)| (token.content.clone(), i)).collect();
        let n = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let next = added.iter().map(|token| token.token.id + 1).max().unwrap_or(0).max(n);
        Ok(Adding { added, places, in_model: HashMap::new(), entries, next })
    }

    /// Adds a token, or if `replaces` is set updates the flags of the token with the same text; returns its id.
    fn add(&mut self, token: AddedToken, replaces: bool) -> Result<u32> {
        if let Some(&place) = self.places.get(&token.content) {
            let known = &mut self.added[place];
            let id = known.token.id;
            if replaces && !known.has_flags_of(&token) {
                *known = token;
                known.token.id = id;
            }
            return Ok(id);
        }
        if self.in_model.is_empty() {
            self.in_model = self.entries.by_text()?;
        }
        let id = self.in_model.get(token.content.as_bytes()).copied().unwrap_or(self.next);
        if id == self.next {
            self.next += 1;
        }
        reserve(self.added, 1)?;
        self.places.insert(token.content.clone(), self.added.len());
        self.added.push(AddedToken { token: WholeToken { id, ..token.token }, ..token });
        Ok(id)
    }
}
