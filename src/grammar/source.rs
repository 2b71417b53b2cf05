//! The kinds of grammars, each read into the one form that the parser takes, and the bounds on what a caller may give.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value as Json, json};

use super::{gbnf, schema, tools};
use crate::error::{Error, Result};
use crate::text::{Reply, Tokenizer, parse_json};

/// Longest text of a grammar.
const MAX_TEXT: usize = 256 << 10;
/// Most rules and brackets of a Lark grammar: each may be a level of recursion.
const MAX_NESTED: usize = 8000;

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

/// Reads a grammar. `left` gets the reason for which a keyword of a schema stays that the parser may refuse.
pub fn read(kind: Kind, text: &str, left: &mut Option<Error>) -> Result<TopLevelGrammar> {
    check_length(text.len())?;
    match kind {
        Kind::JsonSchema => json_schema(parse_json("the schema", text)?, left),
        Kind::Json if text.is_empty() => json_schema(json!({}), left),
        Kind::Json => Err(Error::invalid("a grammar of kind JSON takes no text")),
        // The parser would take it for an escape of its own mark.
        Kind::Regex if text.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 => {
            Err(Error::invalid("the expression ends with an escape of nothing"))
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
                _ => Err(Error::invalid("the choices are no JSON array of texts, or an empty one")),
            }
        }
        // A schema in the middle of a text would pass the bounds on schemas by.
        Kind::Lark if text.contains("%json") => Err(Error::unsupported("%json in a Lark grammar: use a JSON schema")),
        Kind::Gbnf => lark(gbnf::to_lark(text)?),
        Kind::Lark => lark(text.to_owned()),
    }
}

fn json_schema(schema: Json, left: &mut Option<Error>) -> Result<TopLevelGrammar> {
    Ok(TopLevelGrammar::from_json_schema(schema::prepared(schema, left)?))
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

/// Reads the grammar of a reply with calls of tools. `left`: as in `read`.
pub fn read_tools(reply: &Reply, tokenizer: &Tokenizer, left: &mut Option<Error>) -> Result<TopLevelGrammar> {
    let lark = tools::to_lark(reply, tokenizer, &mut |schema| schema::prepared(schema, left))?;
    check_length(lark.len())?;
    Ok(TopLevelGrammar::from_lark(lark))
}

fn check_length(len: usize) -> Result<()> {
    match len {
        0..=MAX_TEXT => Ok(()),
        _ => Err(Error::TooComplex(format!("a grammar of {len} bytes, at most {MAX_TEXT} are supported"))),
    }
}
