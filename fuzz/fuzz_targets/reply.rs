//! A reply: the first byte chooses the style of the chat template, whether the reply broke off, and whether there are
//! stop strings; the rest is the text. However the text is split into tokens, the parts must be the same, and the
//! arguments of calls must be JSON if nothing is flagged.
#![no_main]

mod memory;
mod styles;

use std::collections::{HashMap, HashSet};
use std::hash::Hasher;
use std::sync::{Arc, LazyLock, OnceLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::{Chat, Event, EventKind, ReplyParser, TokenKind};
use realizar::error::Error;
use realizar::text::{Reply, Stops};
use serde::de::IgnoredAny;
use styles::{style, tokenizer};
use twox_hash::XxHash64;

/// A byte that stands for a control token, which is not part of the text.
const CONTROL: u8 = 1;

const TOOLS: &str = r##""tools": [
    {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}, "far": {"type": "boolean"}, "days": {"type": "integer"}, "any": {},
            "options": {"type": "object", "properties": {"units": {"type": "string"}, "list": {"type": "array"}}},
            "note": {"type": ["string", "null"]}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "get", "description": "d", "parameters": {"type": "object",
        "properties": {"query": {"type": "string"}}, "required": ["query"]}}}],"##;

/// Bits of the first byte in addition to the bits of the style.
const BROKE_OFF: u8 = 64;
const HAS_STOPS: u8 = 128;
const STOPS: [&str; 3] = ["END", "\n\n\n", "éa"];

/// The replies to a conversation in the styles that were chosen so far.
static REPLIES: [OnceLock<Arc<Reply>>; BROKE_OFF as usize] = [const { OnceLock::new() }; BROKE_OFF as usize];

/// Returns the replies in the style that a byte chooses; without tools if its template does not support tools.
fn reply(choice: u8) -> &'static Arc<Reply> {
    let choice = usize::from(choice % BROKE_OFF);
    let chat = |tools: &str| {
        let json = format!(r#"{{{tools} "messages": [{{"role": "user", "content": "Is it warm?"}}]}}"#);
        Chat::parse(&json, true).expect("a conversation")
    };
    let reply = || match style(choice).reply(&chat(TOOLS)) {
        Err(Error::Unsupported(_)) => style(choice).reply(&chat("")).expect("a reply without tools"),
        reply => reply.expect("a reply"),
    };
    REPLIES[choice].get_or_init(|| Arc::new(reply()))
}

/// The tokens by their bytes, and the control token for `CONTROL`.
static TOKENS: LazyLock<HashMap<Vec<u8>, u32>> = LazyLock::new(|| {
    let control = tokenizer().bos().expect("a control token");
    let is_text = |id: &u32| matches!(tokenizer().kind(*id), Some(TokenKind::Normal | TokenKind::Byte));
    let bytes = |id| tokenizer().decode_token(id, false).expect("a token").into_owned();
    let mut tokens: HashMap<_, _> =
        (0..tokenizer().n_vocab() as u32).filter(is_text).map(|id| (bytes(id), id)).collect();
    tokens.insert(vec![CONTROL], control);
    tokens
});

/// Splits a text into tokens: the longest token at each position if `seed` is 0, otherwise a token that `seed`
/// determines.
fn cut(text: &[u8], seed: u64) -> Vec<u32> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let here: Vec<_> =
            (1..=8.min(text.len() - at)).filter_map(|n| Some((n, TOKENS.get(&text[at..at + n])?))).collect();
        let mut hash = XxHash64::with_seed(seed);
        hash.write_usize(at);
        let i = if seed == 0 { here.len() - 1 } else { hash.finish() as usize % here.len() };
        let (n, token) = here[i];
        tokens.push(*token);
        at += n;
    }
    tokens
}

/// Parses a reply; joins consecutive parts of one kind.
fn parts(choice: u8, tokens: &[u32], at_once: bool) -> Vec<Event> {
    let stops = Stops::new(if choice & HAS_STOPS == 0 { &[] } else { &STOPS }).expect("stop strings");
    let (mut parser, mut parts) = (ReplyParser::new(reply(choice).clone(), stops), Vec::<Event>::new());
    let mut take = |parser: &mut ReplyParser| {
        while let Some(event) = parser.next(|event| Ok(event.clone())).expect("taken") {
            match parts.last_mut() {
                Some(last)
                    if event.kind != EventKind::ToolName
                        && (last.kind, last.call, last.unparsed) == (event.kind, event.call, event.unparsed) =>
                {
                    last.text += &event.text
                }
                _ => parts.push(event),
            }
        }
    };
    for &token in tokens {
        if parser.is_stopped() {
            break;
        }
        parser.push(tokenizer(), token).expect("pushed");
        if !at_once {
            take(&mut parser);
        }
    }
    parser.end(choice & BROKE_OFF == 0).expect("ended");
    take(&mut parser);
    parts
}

fn check(reply: &Reply, parts: &[Event]) {
    let (end, parts) = parts.split_last().expect("an end");
    assert_eq!(end.kind, EventKind::End);
    assert!(end.unparsed || parts.iter().all(|part| !part.unparsed));
    let (mut calls, mut ids) = (Vec::<String>::new(), HashSet::new());
    for part in parts {
        match part.kind {
            EventKind::ToolId => {
                assert_eq!(part.call as usize, calls.len());
                assert!(ids.insert(&part.text), "{:?} twice", part.text);
            }
            EventKind::ToolName => {
                assert_eq!((part.call as usize, ids.len()), (calls.len(), calls.len() + 1));
                assert!(reply.tools.iter().any(|tool| tool.name == part.text), "{:?} is no tool", part.text);
                calls.push(String::new());
            }
            EventKind::ToolArguments => {
                assert_eq!(part.call as usize + 1, calls.len());
                calls[part.call as usize] += &part.text;
            }
            kind => assert_ne!(kind, EventKind::End),
        }
    }
    for arguments in calls.iter().filter(|_| !end.unparsed) {
        let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
        assert!(is_json && arguments.trim_start().starts_with('{'), "arguments {arguments:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else { return };
    let expected = parts(choice, &cut(text, 0), false);
    check(reply(choice), &expected);
    let bytes: Vec<u32> = text.iter().map(|byte| TOKENS[&vec![*byte]]).collect();
    assert_eq!(parts(choice, &bytes, false), expected, "in bytes");
    let seed = XxHash64::oneshot(1, text) | 1;
    assert_eq!(parts(choice, &cut(text, seed), true), expected, "at once, cut by {seed}");
});
