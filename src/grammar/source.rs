//! The kinds of grammars, each read into the one form that the parser takes, and the bounds on what a caller may give.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value as Json, json};

use super::{gbnf, tools};
use crate::error::{Error, Result};
use crate::text::{Reply, Tokenizer, parse_json};

/// Longest text of a grammar.
const MAX_TEXT: usize = 256 << 10;
/// Most names in one list of required members; time grows with their square.
const MAX_REQUIRED: usize = 2000;
/// Levels of objects and lists that references reach one behind another: each is a level of recursion.
const MAX_LEVELS: usize = 4000;

/// Most rules and brackets of a Lark grammar: each may be a level of recursion.
const MAX_NESTED: usize = 8000;

/// The formats that JSON Schema defines. Any other is a note, which validators pass over.
#[rustfmt::skip]
const FORMATS: [&str; 19] = [
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex",
];

/// The language in which a grammar is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    JsonSchema,
    Regex,
    Lark,
    Gbnf,
    /// Any JSON.
    Json,
    /// One of some texts, in a JSON array.
    Choices,
}

/// Reads a grammar.
pub fn read(kind: Kind, text: &str) -> Result<TopLevelGrammar> {
    check_length(text.len())?;
    match kind {
        Kind::JsonSchema => schema(parse_json("the schema", text)?),
        Kind::Json if text.is_empty() => schema(json!({})),
        Kind::Json => Err(Error::invalid("a grammar of kind JSON takes no text")),
        Kind::Regex => Ok(TopLevelGrammar::from_regex(text)),
        Kind::Choices => {
            let choices = parse_json("the choices", text)?;
            let texts = choices.as_array().into_iter().flatten().map(Json::as_str).collect::<Option<Vec<_>>>();
            match texts {
                Some(texts) if !texts.is_empty() => {
                    let texts: Vec<String> =
                        texts.into_iter().map(|text| text.chars().map(gbnf::escaped).collect()).collect();
                    Ok(TopLevelGrammar::from_regex(&texts.join("|")))
                }
                _ => Err(Error::invalid("the choices are no JSON array of texts, or an empty one")),
            }
        }
        // A schema in the middle of a text would pass the bounds on schemas by.
        Kind::Lark if text.contains("%json") => Err(Error::unsupported("%json in a Lark grammar: use a JSON schema")),
        Kind::Gbnf => lark(gbnf::to_lark(text)?),
        Kind::Lark => lark(text.to_owned()),
    }
}

fn schema(schema: Json) -> Result<TopLevelGrammar> {
    Ok(TopLevelGrammar::from_json_schema(bounded(schema)?))
}

/// Reads the grammar of a reply with calls of tools.
pub fn read_tools(reply: &Reply, tokenizer: &Tokenizer) -> Result<TopLevelGrammar> {
    let text = tools::to_lark(reply, tokenizer, bounded)?;
    check_length(text.len())?;
    lark(text)
}

fn lark(text: String) -> Result<TopLevelGrammar> {
    // Those in texts and expressions count too, but for groups that are written to be no more.
    let n = text.matches([':', '(', '[']).count() - 2 * text.matches("(?:").count();
    if n > MAX_NESTED {
        let what = format!("the grammar has {n} rules and brackets, at most {MAX_NESTED} are supported");
        return Err(Error::TooComplex(what));
    }
    Ok(TopLevelGrammar::from_lark(text))
}

fn check_length(len: usize) -> Result<()> {
    match len {
        0..=MAX_TEXT => Ok(()),
        _ => Err(Error::TooComplex(format!("a grammar of {len} bytes, at most {MAX_TEXT} are supported"))),
    }
}

/// A schema within the bounds.
fn bounded(mut schema: Json) -> Result<Json> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::invalid("the schema is neither an object nor a boolean"));
    }
    let (mut targets, mut most_required) = (Vec::new(), 0);
    visit(&schema, &mut |members| {
        if let Some(target) = members.get("$ref").and_then(Json::as_str) {
            targets.push(target);
        }
        most_required = most_required.max(members.get("required").and_then(Json::as_array).map_or(0, Vec::len));
    });
    targets.sort_unstable();
    targets.dedup();
    let places = targets.iter().filter_map(|target| schema.pointer(target.strip_prefix('#')?));
    let levels = height(&schema) + places.map(height).sum::<usize>();
    for (n, most, what) in
        [(most_required, MAX_REQUIRED, "required members"), (levels, MAX_LEVELS, "levels of references")]
    {
        if n > most {
            return Err(Error::TooComplex(format!("the schema has {n} {what}, at most {most} are supported")));
        }
    }
    drop_notes(&mut schema);
    // Without a bound small models write white space for ever.
    if let Some(members) = schema.as_object_mut() {
        members.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,40}"}));
    }
    Ok(schema)
}

/// Takes formats away that are notes. Members with these names hold values instead of schemas.
fn drop_notes(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            if members.get("format").and_then(Json::as_str).is_some_and(|name| !FORMATS.contains(&name)) {
                members.remove("format");
            }
            let is_schema = |name: &str| !["const", "enum", "default", "examples"].contains(&name);
            members.iter_mut().filter(|(name, _)| is_schema(name)).for_each(|(_, value)| drop_notes(value));
        }
        Json::Array(items) => items.iter_mut().for_each(drop_notes),
        _ => {}
    }
}

/// Hands on every object; the depth of JSON is bounded.
fn visit<'j>(json: &'j Json, each: &mut impl FnMut(&'j serde_json::Map<String, Json>)) {
    match json {
        Json::Object(members) => {
            each(members);
            members.values().for_each(|value| visit(value, each));
        }
        Json::Array(items) => items.iter().for_each(|item| visit(item, each)),
        _ => {}
    }
}

/// Number of levels of objects and lists.
fn height(json: &Json) -> usize {
    match json {
        Json::Object(members) => 1 + members.values().map(height).max().unwrap_or(0),
        Json::Array(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        _ => 0,
    }
}
