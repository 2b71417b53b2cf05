//! Parsed replies for tests: events of one kind joined, from tokens of a published vocabulary, of bytes, and of bytes
//! with control tokens.

use std::sync::Arc;

use realizar::engine::Tokenizer;
use realizar::format::{Metadata, Strings, Value};
use realizar::text::{Event, EventKind, Reply, ReplyParser, Stops};
use serde_json::{Value as Json, json};

use super::save::MODEL;

pub fn tokenizer() -> &'static Tokenizer {
    MODEL.tokenizer().unwrap()
}

/// Returns one token per byte.
pub fn bytes(text: &[u8]) -> Vec<u32> {
    text.iter().map(|&b| 3 + u32::from(b)).collect()
}

#[derive(Debug, Default, PartialEq)]
pub struct Got {
    pub reasoning: String,
    pub content: String,
    pub unparsed: String,
    pub ids: Vec<String>,
    pub calls: Vec<(String, String)>,
    /// Set at the end: true if something was unparsed, and an incomplete tag.
    pub end: Option<bool>,
    pub tag: String,
}

pub fn take(parser: &mut ReplyParser, got: &mut Got) {
    while let Some(event) = parser.next(|event| Ok(event.clone())).unwrap() {
        let Event { kind, call, unparsed, text } = event;
        assert!(got.end.is_none());
        match kind {
            EventKind::Reasoning => got.reasoning += &text,
            EventKind::Content if unparsed => got.unparsed += &text,
            EventKind::Content => got.content += &text,
            EventKind::ToolId => {
                assert_eq!((call as usize, got.ids.len()), (got.calls.len(), got.calls.len()));
                assert!(!text.is_empty() && !got.ids.contains(&text), "{text}: {got:?}");
                got.ids.push(text);
            }
            EventKind::ToolName => {
                assert_eq!((call as usize + 1, got.calls.len() + 1), (got.ids.len(), got.ids.len()));
                got.calls.push((text, String::new()));
            }
            EventKind::ToolArguments => got.calls[call as usize].1 += &text,
            EventKind::End => (got.end, got.tag) = (Some(unparsed), text),
        }
    }
}

pub fn parse(reply: &Arc<Reply>, tokens: &[u32], at_once: bool) -> Got {
    let (mut parser, mut got) = (ReplyParser::new(reply.clone(), Stops::default()), Got::default());
    for &token in tokens {
        parser.push(tokenizer(), token).unwrap();
        if !at_once {
            take(&mut parser, &mut got);
        }
    }
    parser.end(true).unwrap();
    take(&mut parser, &mut got);
    got
}

/// Parses a reply as tokens, as bytes and as a whole, with equal results.
pub fn parsed(reply: &Arc<Reply>, text: &str) -> Got {
    let mut tokens = Vec::new();
    // This vocabulary begins texts with a space, and a line end is one token: the reply follows both.
    tokenizer().encode(&format!("\n{text}"), false, false, &mut tokens).unwrap();
    tokens.drain(..2);
    let got = parse(reply, &bytes(text.as_bytes()), false);
    assert_eq!(parse(reply, &tokens, false), got, "{text:?}");
    assert_eq!(parse(reply, &tokens, true), got, "{text:?}");
    got
}

/// Returns a vocabulary of bytes and control tokens.
pub fn with_controls(names: &[&str]) -> Tokenizer {
    let bytes: Vec<String> = (0..256).map(|b| format!("<0x{b:02X}>")).collect();
    let plain = ["<unk>", "<s>", "</s>"].into_iter().chain(bytes.iter().map(String::as_str));
    let tokens: Vec<&str> = plain.chain(names.iter().copied()).collect();
    let kind = |i: usize| {
        if i == 0 {
            2
        } else if (3..259).contains(&i) {
            6
        } else {
            3
        }
    };
    let mut m = Metadata::from_iter([("tokenizer.ggml.model", Value::from("llama"))]);
    m.set("tokenizer.ggml.tokens", Value::from(tokens.iter().collect::<Strings>()));
    m.set("tokenizer.ggml.token_type", (0..tokens.len()).map(kind).collect::<Vec<i64>>());
    m.set("tokenizer.ggml.scores", vec![0f32; tokens.len()]);
    m.set("tokenizer.ggml.eos_token_id", 2u32);
    Tokenizer::from_metadata(&mut m).unwrap()
}

/// Returns the tokens of a text in a vocabulary of `with_controls`.
pub fn tokens_with(controls: &[&str], text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let n = match controls.iter().position(|name| rest.starts_with(name)) {
            Some(i) => {
                tokens.push(259 + i as u32);
                controls[i].len()
            }
            None => {
                let n = rest.chars().next().unwrap().len_utf8();
                tokens.extend(bytes(&rest.as_bytes()[..n]));
                n
            }
        };
        rest = &rest[n..];
    }
    tokens
}

/// Parses a reply in which the names are control tokens, and in which they are text.
pub fn parsed_with(tokenizer: &Tokenizer, controls: &[&str], reply: &Arc<Reply>, text: &str, is_whole: bool) -> Got {
    let tokens = tokens_with(controls, text);
    let (mut parser, mut got) = (ReplyParser::new(reply.clone(), Stops::default()), Got::default());
    for token in tokens {
        if got.end.is_none() {
            parser.push(tokenizer, token).unwrap();
            take(&mut parser, &mut got);
        }
    }
    parser.end(is_whole).unwrap();
    take(&mut parser, &mut got);
    got
}

pub fn tools() -> Json {
    let tool = |name: &str, properties: Json, required: Json| {
        json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object",
            "properties": properties, "required": required, "additionalProperties": false}}})
    };
    json!([
        tool(
            "get_weather",
            json!({"city": {"type": "string"}, "far": {"type": "boolean"},
            "options": {"type": "object", "properties": {"units": {"type": "string"}}}, "days": {"type": "integer"}}),
            json!(["city"])
        ),
        tool("get", json!({"query": {"type": "string"}}), json!(["query"])),
    ])
}

pub fn user() -> Json {
    json!({"role": "user", "content": "Is it warm?"})
}
