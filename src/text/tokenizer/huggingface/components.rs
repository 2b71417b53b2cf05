//! The components of a `tokenizer.json` around its model: normalizers, pre-tokenizers, post-processors and decoders
//! become steps, tokens and flags of the pipeline.

use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::text::tokenizer::bert::{Bert, bert_normalizer, bert_pre_tokenizer};
use crate::text::tokenizer::charsmap::Charsmap;
use crate::text::tokenizer::pieces::{Behavior, Form, Prepend, Splitter, TextStep};
use crate::text::tokenizer::pipeline::{Spaces, VISIBLE_SPACE};
use crate::text::tokenizer::pretokenizer::GPT2;

fn kind_of(component: &Json) -> &str {
    component.get("type").and_then(Json::as_str).unwrap_or_default()
}

fn list<'j>(component: &'j Json, name: &str) -> &'j [Json] {
    component.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text<'j>(component: &'j Json, name: &str) -> Result<&'j str> {
    component.get(name).and_then(Json::as_str).ok_or_else(|| {
        Error::unsupported(format!("the tokenizer's component {:?} has no {name:?}", kind_of(component)))
    })
}

pub(super) fn flag(component: &Json, name: &str, default: bool) -> bool {
    component.get(name).and_then(Json::as_bool).unwrap_or(default)
}

fn unsupported<T>(what: &str, component: &Json) -> Result<T> {
    Err(Error::unsupported(format!("the {what} is {:?}, which is not supported", kind_of(component))))
}

/// Reads `{"String": …}` or `{"Regex": …}`.
fn split_by(component: &Json, behavior: Behavior, invert: bool) -> Result<Splitter> {
    let pattern = component.get("pattern").unwrap_or(&Json::Null);
    match (pattern.get("String").and_then(Json::as_str), pattern.get("Regex").and_then(Json::as_str)) {
        (Some(text), _) => Ok(Splitter::literal(text, behavior, invert)),
        (None, Some(regex)) => Splitter::pattern(regex, behavior, invert),
        (None, None) => Err(Error::unsupported(format!("the tokenizer's {:?} has no pattern", kind_of(component)))),
    }
}

/// Appends the steps of a normalizer.
pub(super) fn normalizers(component: &Json, steps: &mut Vec<TextStep>) -> Result<()> {
    if component.is_null() {
        return Ok(());
    }
    steps.push(match kind_of(component) {
        "Sequence" => return list(component, "normalizers").iter().try_for_each(|c| normalizers(c, steps)),
        "NFC" => TextStep::Normalize(Form::Nfc),
        "NFD" => TextStep::Normalize(Form::Nfd),
        "NFKC" => TextStep::Normalize(Form::Nfkc),
        "NFKD" => TextStep::Normalize(Form::Nfkd),
        "Lowercase" => TextStep::Lowercase,
        "StripAccents" => {
            let pattern = Splitter::pattern(r"\p{Mn}+", Behavior::Isolated, false)?;
            TextStep::ReplacePattern { pattern, to: String::new() }
        }
        "BertNormalizer" => {
            let lowercase = flag(component, "lowercase", true);
            return bert_normalizer(
                Bert {
                    clean: flag(component, "clean_text", true),
                    han: flag(component, "handle_chinese_chars", true),
                    accents: !flag(component, "strip_accents", lowercase),
                    lowercase,
                },
                steps,
            );
        }
        "Precompiled" => TextStep::Charsmap(Charsmap::from_base64(text(component, "precompiled_charsmap")?)?),
        "Strip" => {
            TextStep::Strip { left: flag(component, "strip_left", true), right: flag(component, "strip_right", true) }
        }
        "Prepend" => TextStep::Prepend { text: text(component, "prepend")?.to_owned(), when: Prepend::Always },
        "Replace" => {
            let to = text(component, "content")?.to_owned();
            match component.get("pattern").and_then(|p| p.get("String")).and_then(Json::as_str) {
                Some(from) => TextStep::Replace { from: from.to_owned(), to },
                None => TextStep::ReplacePattern { pattern: split_by(component, Behavior::Isolated, false)?, to },
            }
        }
        _ => return unsupported("normalizer", component),
    });
    Ok(())
}

/// Appends the steps of a pre-tokenizer; returns true if text finally becomes bytes.
pub(super) fn pre_tokenizers(component: &Json, steps: &mut Vec<TextStep>) -> Result<bool> {
    let split = |pattern: &str, behavior, invert| Splitter::pattern(pattern, behavior, invert).map(TextStep::Split);
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
                steps.push(TextStep::Prepend { text: " ".to_owned(), when: Prepend::Missing });
            }
            if flag(component, "use_regex", true) {
                steps.push(split(GPT2, Behavior::Isolated, false)?);
            }
            return Ok(true);
        }
        "Split" => {
            let behavior = behavior(component)?;
            steps.push(TextStep::Split(split_by(component, behavior, flag(component, "invert", false))?));
        }
        "Digits" => {
            let each = flag(component, "individual_digits", false);
            steps.push(split(r"\p{N}", if each { Behavior::Isolated } else { Behavior::Contiguous }, false)?);
        }
        "Punctuation" => steps.push(split(r"[\p{P}!-/:-@\[-`{-~]", behavior(component)?, false)?),
        "Whitespace" => steps.push(split(r"\w+|[^\w\s]+", Behavior::Removed, true)?),
        "BertPreTokenizer" => bert_pre_tokenizer(steps)?,
        "WhitespaceSplit" => steps.push(split(r"\s+", Behavior::Removed, false)?),
        "Metaspace" => {
            let replacement = component.get("replacement").and_then(Json::as_str).unwrap_or(VISIBLE_SPACE);
            steps.push(TextStep::Replace { from: " ".to_owned(), to: replacement.to_owned() });
            if let Some(when) = metaspace_prefix(component)? {
                steps.push(TextStep::Prepend { text: replacement.to_owned(), when });
            }
            if flag(component, "split", true) {
                steps.push(TextStep::Split(Splitter::literal(replacement, Behavior::MergedWithNext, false)));
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
        Some(other) => {
            return Err(Error::unsupported(format!(
                "the behavior of a pre-tokenizer is {other:?}, which is not supported"
            )));
        }
    })
}

/// Reads `prepend_scheme`, or `add_prefix_space` in older files.
fn metaspace_prefix(component: &Json) -> Result<Option<Prepend>> {
    match component.get("prepend_scheme").and_then(Json::as_str) {
        Some("always") => Ok(Some(Prepend::Missing)),
        Some("first") => Ok(Some(Prepend::MissingAtStart)),
        Some("never") => Ok(None),
        None => Ok(flag(component, "add_prefix_space", true).then_some(Prepend::Missing)),
        Some(other) => Err(Error::unsupported(format!(
            "the prefix of the tokenizer's Metaspace is {other:?}, which is not supported"
        ))),
    }
}

/// Appends the tokens that a post-processor puts before and after a text.
pub(super) fn post_processors(
    component: &Json,
    id_of: &dyn Fn(&str) -> Option<u32>,
    prefix: &mut Vec<u32>,
    suffix: &mut Vec<u32>,
) -> Result<()> {
    let known = |name: &str| {
        id_of(name).ok_or_else(|| Error::unsupported(format!("the vocabulary has no special token {name:?}")))
    };
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

/// Properties of decoding.
pub(super) struct Decoder {
    pub byte_level: bool,
    pub spaces: Spaces,
    /// True if decoding removes the space that the tokenizer put before a text.
    pub strips_first_space: bool,
}

impl Decoder {
    pub fn new(component: &Json) -> Result<Decoder> {
        let mut decoder = Decoder { byte_level: false, spaces: Spaces::Plain, strips_first_space: false };
        decoder.add(component)?;
        Ok(decoder)
    }

    fn add(&mut self, component: &Json) -> Result<()> {
        match kind_of(component) {
            "" | "Fuse" | "ByteFallback" => {}
            "Sequence" => list(component, "decoders").iter().try_for_each(|c| self.add(c))?,
            "ByteLevel" => self.byte_level = true,
            "WordPiece" => {
                self.spaces = Spaces::Words { clean: flag(component, "cleanup", true) };
                self.strips_first_space = true;
            }
            "Metaspace" => {
                self.spaces = Spaces::Visible;
                self.strips_first_space = metaspace_prefix(component)?.is_some();
            }
            "Replace" => {
                let from = component.get("pattern").and_then(|p| p.get("String")).and_then(Json::as_str);
                match (from, text(component, "content")?) {
                    (Some(VISIBLE_SPACE), " ") => self.spaces = Spaces::Visible,
                    _ => return unsupported("decoder that makes something else than spaces", component),
                }
            }
            "Strip" => {
                let count = |name| component.get(name).and_then(Json::as_u64).unwrap_or(0);
                match (text(component, "content")?, count("start"), count("stop")) {
                    (_, 0, 0) => {}
                    (" ", 1, 0) => self.strips_first_space = true,
                    _ => return unsupported("decoder that takes away more than a space", component),
                }
            }
            _ => return unsupported("decoder", component),
        }
        Ok(())
    }
}
