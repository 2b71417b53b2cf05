//! The kinds of grammars, all converted to the parser's form, and the limits of grammar texts.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value as Json, json};

use super::effort::Effort;
use super::schema::{Looseness, Space};
use super::tools::{self, ToolSchema};
use super::{gbnf, schema};
use crate::error::{Error, Result};
use crate::text::{Reply, Tokenizer, parse_json};

/// Maximum bytes of a grammar, without annotations of schemas.
const MAX_TEXT: usize = 256 << 10;
/// Maximum bytes of a schema with its annotations, such as descriptions.
const MAX_JSON: usize = 4 << 20;
/// Maximum bytes of the Lark grammar of a reply with calls.
const MAX_LARK: usize = 1 << 20;
/// Maximum number of rules and brackets of a Lark grammar: each may be a level of recursion.
const MAX_NESTED: usize = 8000;

/// Name of the content's grammar within a reply's.
const CONTENT: &str = "content";

/// The language of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    JsonSchema,
    Regex,
    Lark,
    Gbnf,
    /// Any JSON.
    Json,
    /// One of several texts, given as a JSON array.
    Choices,
}

/// A caller's grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrammarText<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// True if JSON may have white space between its parts.
    pub white_space: bool,
    /// True to omit JSON schema keywords that cannot be compiled.
    pub best_effort: bool,
}

impl<'a> GrammarText<'a> {
    /// Returns a strict grammar: all of it must compile, and JSON has no white space.
    pub fn new(kind: Kind, text: &'a str) -> GrammarText<'a> {
        GrammarText { kind, text, white_space: false, best_effort: false }
    }
}

/// Reads a grammar. `looseness`: how much of a schema to omit.
pub fn read(
    source: &GrammarText,
    tokenizer: &Tokenizer,
    looseness: Looseness,
    effort: &mut Effort,
) -> Result<TopLevelGrammar> {
    let GrammarText { kind, text, white_space, best_effort } = *source;
    let is_schema = kind == Kind::JsonSchema;
    check_length(text.len(), if is_schema { MAX_JSON } else { MAX_TEXT })?;
    if best_effort && !is_schema {
        return Err(Error::invalid("RZ_GRAMMAR_FLAG_BEST_EFFORT needs a JSON schema, not a grammar of another kind"));
    }
    let space = if white_space { Space::Free } else { Space::None };
    let mut json_schema = |schema| {
        let schema = schema::prepared(looseness.of(schema), space, effort)?;
        check_length(schema.to_string().len(), MAX_TEXT)?;
        Ok(TopLevelGrammar::from_json_schema(schema))
    };
    match kind {
        Kind::JsonSchema => json_schema(parse_json("the schema", text)?),
        Kind::Json if text.is_empty() => json_schema(json!({})),
        _ if white_space => {
            Err(Error::invalid("RZ_GRAMMAR_FLAG_WHITESPACE needs a grammar of JSON, not a grammar of another kind"))
        }
        Kind::Json => Err(Error::invalid("a grammar of kind JSON takes no text")),
        // The parser would take it as an escape of its own delimiter.
        Kind::Regex if text.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 => {
            Err(Error::invalid("the expression ends with a backslash; it must escape a character"))
        }
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
                _ => Err(Error::invalid("the choices must be a JSON array of at least one string")),
            }
        }
        // A schema inside a text would bypass the limits on schemas.
        Kind::Lark if text.contains("%json") => {
            Err(Error::unsupported("a Lark grammar must not have %json; use a grammar of a JSON schema"))
        }
        Kind::Gbnf => lark(gbnf::to_lark(text)?),
        Kind::Lark => lark(with_tokens(text, tokenizer)?),
    }
}

/// Returns a Lark grammar with token ids in place of token names (`<|name|>`), which the parser does not know.
fn with_tokens(text: &str, tokenizer: &Tokenizer) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/', '#', '<']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let part = match from.as_bytes()[0] {
            b'"' => &from[..quoted(from, "\"\n")],
            b'#' => &from[..from.find('\n').unwrap_or(from.len())],
            _ if from.starts_with("//") => &from[..from.find('\n').unwrap_or(from.len())],
            b'/' => &from[..quoted(from, "/")],
            _ => {
                let end = from[1..].find(|c: char| "<>".contains(c) || c.is_whitespace()).map_or(from.len(), |i| i + 1);
                &from[..end + usize::from(from[end..].starts_with('>'))]
            }
        };
        rest = &from[part.len()..];
        let is_name = part.len() > 2 && part.starts_with('<') && part.ends_with('>') && !part.starts_with("<[");
        if !is_name {
            out.push_str(part);
            continue;
        }
        let mut ids = Vec::new();
        tokenizer.encode(part, false, true, &mut ids)?;
        let [id] = ids[..] else {
            let line = 1 + text[..text.len() - from.len()].matches('\n').count();
            return Err(Error::invalid(format!("the grammar, line {line}: the vocabulary has no token {part}")));
        };
        out.push_str(&format!("<[{id}]>"));
    }
    Ok(out + rest)
}

/// Returns the number of bytes up to and including the first unescaped character of `ends` after the first byte.
fn quoted(text: &str, ends: &str) -> usize {
    let mut is_escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        if !is_escaped && ends.contains(c) {
            return i + 1;
        }
        is_escaped = !is_escaped && c == '\\';
    }
    text.len()
}

fn lark(text: String) -> Result<TopLevelGrammar> {
    // Colons and brackets within texts and expressions count too, but not non-capturing groups.
    let n = text.matches([':', '(', '[']).count() - 2 * text.matches("(?:").count();
    if n > MAX_NESTED {
        let what = format!("the grammar has {n} rules and brackets; it must have at most {MAX_NESTED}");
        return Err(Error::TooComplex(what));
    }
    Ok(TopLevelGrammar::from_lark(text))
}

/// Reads the grammar of a reply: reasoning, then tool calls or the content. `content`: the grammar of the content;
/// `None` for any text, which calls may follow. `white_space`: as in `GrammarText`, for calls; without it, calls have
/// the spaces after commas and colons that templates write.
pub fn read_reply(
    reply: &Reply,
    tools: &[ToolSchema],
    content: Option<TopLevelGrammar>,
    white_space: bool,
    tokenizer: &Tokenizer,
) -> std::result::Result<TopLevelGrammar, tools::Failed> {
    let space = if white_space { Space::Free } else { Space::One };
    let lark = tools::to_lark(reply, tools, content.is_some().then_some(CONTENT), space, tokenizer)?;
    check_length(lark.len(), MAX_LARK).map_err(|error| tools::Failed { tool: None, error })?;
    let mut grammars = TopLevelGrammar::from_lark(lark);
    if let Some(mut content) = content {
        for grammar in &mut content.grammars {
            grammar.name = Some(CONTENT.to_owned());
        }
        grammars.grammars.append(&mut content.grammars);
    }
    Ok(grammars)
}

/// Returns the number of bytes of a grammar.
pub fn length(grammar: &TopLevelGrammar) -> usize {
    let parts = grammar.grammars.iter();
    let lengths = parts.map(|part| {
        part.lark_grammar.as_ref().map_or(0, String::len) + part.json_schema.as_ref().map_or(0, schema::length)
    });
    lengths.sum()
}

fn check_length(len: usize, most: usize) -> Result<()> {
    match len <= most {
        true => Ok(()),
        false => Err(Error::TooComplex(format!("the grammar has {len} bytes; it must have at most {most}"))),
    }
}
