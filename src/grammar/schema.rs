//! Prepares JSON schemas for the parser: checks limits, and rewrites unsupported keywords as supported ones if the
//! result is exact. Uses `logic` for proofs.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::effort::Effort;
use super::keywords::{COUNTS, has_open_names};
use super::limits::{check_bounds, check_multiples, visit};
use super::pattern;
use super::rewrite::rewritten;
use crate::error::{Error, Result};

/// Maximum bytes of parts of a schema that become definitions.
const MAX_SHARED: usize = 1 << 20;

/// Returns a schema for the parser. `effort` handles keywords that cannot be compiled.
///
/// # Errors
/// `InvalidArgument` for an invalid schema, `Unsupported` for a reference to a rewritten part, `TooComplex` beyond the
/// limits.
pub fn prepared(schema: Json, space: Space, effort: &mut Effort) -> Result<Json> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::invalid("the schema is neither an object nor a boolean"));
    }
    let mut schema = schema;
    share_targets(&mut schema, false, effort)?;
    let mut schema = rewritten(schema, effort)?;
    check_bounds(&schema)?;
    check_multiples(&schema)?;
    let has_controls = check_controls(&schema, effort)?;
    if let Some(members) = schema.as_object_mut()
        && let Json::Object(options) = members.entry("x-guidance").or_insert_with(|| match space {
            Space::None => json!({"whitespace_flexible": false}),
            Space::One => json!({"whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?"}),
            // Without a bound, small models write white space forever.
            Space::Free => json!({"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,40}"}),
        })
    {
        if effort.is_best() {
            options.insert("lenient".to_owned(), json!(true));
        }
        // Otherwise a model could write a name with other escapes and bypass the name's schema.
        if !has_controls {
            options.entry("json_allowed_escapes").or_insert_with(|| json!(r#"nrbtf\""#));
        }
    }
    Ok(schema)
}

/// Returns the number of bytes of a schema as text.
pub fn length(schema: &Json) -> usize {
    schema.to_string().len()
}

/// How much of a schema is omitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Looseness {
    /// Nothing is omitted.
    Exact,
    /// Omits patterns, formats, multiples, and numbers of characters, items and members.
    Shapes,
    /// Omits everything except the names of top-level members.
    Names,
    /// Omits everything.
    Any,
}

impl Looseness {
    /// Returns the next level, which omits more.
    pub fn next(self) -> Option<Looseness> {
        match self {
            Looseness::Exact => Some(Looseness::Shapes),
            Looseness::Shapes => Some(Looseness::Names),
            Looseness::Names => Some(Looseness::Any),
            Looseness::Any => None,
        }
    }

    /// Returns the part of a schema that remains.
    pub fn of(self, mut schema: Json) -> Json {
        let kind = schema.get("type").filter(|kind| *kind == "object").cloned();
        let mut out = match self {
            Looseness::Exact => return schema,
            Looseness::Shapes => {
                loosen(&mut schema);
                return schema;
            }
            Looseness::Names => {
                let names = schema.get("properties").and_then(Json::as_object);
                let names: Map<String, Json> =
                    names.into_iter().flatten().map(|(name, _)| (name.clone(), json!({}))).collect();
                let listed = |name: &&Json| name.as_str().is_some_and(|name| names.contains_key(name));
                let required: Vec<Json> =
                    schema["required"].as_array().into_iter().flatten().filter(listed).cloned().collect();
                json!({"properties": names, "required": required})
            }
            Looseness::Any => json!({}),
        };
        if let Some(kind) = kind {
            out["type"] = kind;
        }
        out
    }

    /// Returns the log message for this level; `None` for nothing.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Looseness::Exact => None,
            Looseness::Shapes => Some("patterns, formats and sizes"),
            Looseness::Names => Some("all but the names of arguments"),
            Looseness::Any => Some("all of it"),
        }
    }
}

/// Removes the keywords that make large automata.
fn loosen(json: &mut Json) {
    match json {
        Json::Object(members) => {
            if members.get("patternProperties").is_some_and(Json::is_object) {
                members.shift_remove("patternProperties");
                members.shift_remove("additionalProperties");
            }
            members.retain(|name, value| match &name[..] {
                "pattern" | "format" => !value.is_string(),
                "multipleOf" => !value.is_number(),
                name => !(COUNTS.contains(&name) && value.is_number()),
            });
            members.values_mut().for_each(loosen);
        }
        Json::Array(items) => items.iter_mut().for_each(loosen),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// True if values or member names have control characters that only `\u` escapes can write. Fails if an object also
/// allows other names, because a name with `\u` escapes could bypass the schema of a listed one.
fn check_controls(schema: &Json, effort: &Effort) -> Result<bool> {
    let (mut has_controls, mut has_patterns, mut is_open) = (false, false, false);
    let mut look = |text: &str| {
        has_controls |= text.contains(|c| c < ' ' && !"\u{8}\t\n\u{c}\r".contains(c) || c == '\x7f');
    };
    visit(schema, &mut |members| {
        ["const", "enum", "required"]
            .iter()
            .filter_map(|name| members.get(*name))
            .for_each(|value| each_text(value, &mut look));
        let names = members.get("properties").and_then(Json::as_object);
        names.into_iter().flat_map(Map::keys).for_each(|name| look(name));
        has_patterns |= members.get("pattern").and_then(Json::as_str).is_some_and(pattern::has_controls);
        is_open |= names.is_some_and(|names| !names.is_empty()) && has_open_names(members);
    });
    has_controls |= has_patterns;
    match has_controls && is_open && !effort.is_best() {
        true => Err(Error::unsupported(
            "the grammar: control characters in a schema need objects with \"additionalProperties\": false",
        )),
        false => Ok(has_controls),
    }
}

/// White space between the parts of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Space {
    None,
    /// An optional space after commas and colons.
    One,
    Free,
}

/// Calls `each` for all strings, including member names.
fn each_text(json: &Json, each: &mut impl FnMut(&str)) {
    match json {
        Json::String(text) => each(text),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, each)),
        Json::Object(members) => members.iter().for_each(|(name, value)| {
            each(name);
            each_text(value, each);
        }),
        _ => {}
    }
}

/// Copies two kinds of reference targets to the definitions, and redirects the references: targets that are not
/// definitions yet, and escaped targets (RFC 6901, percent-encoded fragments). The parser does not unescape references,
/// and rewriting moves parts of a schema. `root`: true to also redirect references to the whole schema, for schemas
/// that are used in parts.
pub fn share_targets(schema: &mut Json, root: bool, effort: &Effort) -> Result<()> {
    let mut found = Vec::new();
    visit(schema, &mut |members| {
        let target = members.get("$ref").and_then(Json::as_str).and_then(|target| target.strip_prefix('#'));
        found.extend(target.filter(|target| has_to_move(target, root)).map(str::to_owned));
    });
    found.sort_unstable();
    found.dedup();
    let (mut names, mut bytes) = (HashMap::new(), 0);
    for (i, target) in found.into_iter().enumerate() {
        let place = unescaped(&target).and_then(|place| schema.pointer(place.trim_end_matches('/'))).cloned();
        let place = match place {
            Some(place) => place,
            // The reference is omitted later.
            None if effort.is_best() => continue,
            None => return Err(Error::invalid(format!("the schema: \"#{target}\" is not found"))),
        };
        bytes += place.to_string().len();
        if bytes > MAX_SHARED {
            let what = format!("the schema refers to more than {MAX_SHARED} bytes of parts that are no definitions");
            return Err(Error::TooComplex(what));
        }
        let name = format!("shared-{i}");
        let definitions = schema.as_object_mut().map(|members| members.entry("$defs").or_insert_with(|| json!({})));
        if let Some(definitions) = definitions.and_then(Json::as_object_mut) {
            definitions.insert(name.clone(), place);
        }
        names.insert(format!("#{target}"), format!("#/$defs/{name}"));
    }
    if !names.is_empty() {
        rename(schema, &names);
    }
    Ok(())
}

/// True for a reference target that must become a definition.
fn has_to_move(target: &str, root: bool) -> bool {
    let name = ["/$defs/", "/definitions/"].into_iter().find_map(|folder| target.strip_prefix(folder));
    let is_root = target.is_empty() || target == "/";
    target.contains(['~', '%']) || if is_root { root } else { name.is_none_or(|name| name.contains('/')) }
}

/// Decodes a percent-encoded fragment.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = fragment.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits =
            std::str::from_utf8(after.get(..2)?).ok().filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

fn rename(json: &mut Json, names: &HashMap<String, String>) {
    match json {
        Json::Object(members) => {
            if let Some(Json::String(target)) = members.get_mut("$ref")
                && let Some(name) = names.get(target)
            {
                target.clone_from(name);
            }
            members.values_mut().for_each(|value| rename(value, names));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}
