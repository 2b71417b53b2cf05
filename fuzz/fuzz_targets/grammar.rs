//! A grammar: the first byte chooses its kind, and for tools the style of the chat template; the rest is its text. The
//! target compiles it for a small vocabulary, then accepts some of the allowed tokens and rolls them back. It parses
//! the texts of a grammar of tools as replies.
#![no_main]

mod memory;
mod styles;

use std::hash::Hasher;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::{Chat, GrammarKind, ReplyParser, on_new_thread};
use realizar::error::{Error, Result};
use realizar::grammar::{Grammar, GrammarText, Grammars, Matcher};
use realizar::text::{Reply, Stops};
use styles::{style, tokenizer};
use twox_hash::XxHash64;

/// Maximum number of accepted tokens.
const STEPS: usize = 12;
/// Maximum number of additional tokens to end a reply, and the texts that end its parts.
const MORE_STEPS: usize = 80;
const CLOSING: [&[u8]; 8] = [b"\"", b"}", b"]", b")", b"</", b"<", b"\n", b">"];
/// Number of bits of a word of a mask.
const WORD: usize = 32;

const KINDS: [GrammarKind; 5] =
    [GrammarKind::JsonSchema, GrammarKind::Regex, GrammarKind::Lark, GrammarKind::Gbnf, GrammarKind::Choices];

static GRAMMARS: LazyLock<Grammars> =
    LazyLock::new(|| Grammars::new(tokenizer(), tokenizer().n_vocab()).expect("a vocabulary"));

/// Compiles a grammar; allows white space if the length of its text is odd. For tools also returns the reply of the
/// grammar.
fn compile(choice: u8, text: &str) -> Result<(Grammar, Option<Arc<Reply>>)> {
    let (choice, white_space) = (usize::from(choice), text.len() % 2 == 1);
    if let Some(&kind) = KINDS.get(choice % (KINDS.len() + 1)) {
        let best_effort = kind == GrammarKind::JsonSchema && text.len().is_multiple_of(3);
        let source =
            GrammarText { kind, text, white_space: white_space && kind == GrammarKind::JsonSchema, best_effort };
        return Ok((GRAMMARS.compile(&source, tokenizer())?, None));
    }
    let reply = style(choice / (KINDS.len() + 1)).reply(&Chat::parse(text, true)?)?;
    Ok((GRAMMARS.compile_reply(&reply, None, white_space, tokenizer())?, Some(Arc::new(reply))))
}

/// Returns the tokens that may follow `line`, at least one; `None` beyond the bounds.
fn allowed(matcher: &mut Matcher, line: &[u32]) -> Option<Vec<u32>> {
    match matcher.allowed(line) {
        Ok(allowed) => {
            let bits = allowed.bits().iter().enumerate();
            let tokens = bits
                .flat_map(|(i, word)| (0..WORD).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i * WORD + bit));
            let tokens: Vec<u32> = tokens.map(|token| token as u32).collect();
            assert!(!tokens.is_empty(), "no token may follow {line:?}");
            Some(tokens)
        }
        Err(Error::TooComplex(_)) => None,
        Err(e) => panic!("what was allowed is refused: {e}"),
    }
}

/// Returns one of some tokens, which a text and a number determine.
fn chosen(tokens: &[u32], text: &str, step: usize) -> u32 {
    let mut hash = XxHash64::with_seed(step as u64);
    hash.write(text.as_bytes());
    tokens[hash.finish() as usize % tokens.len()]
}

/// Accepts allowed tokens, one by one, each chosen by the text. At the end rewinds to the middle, where the same tokens
/// must be allowed as before. Returns the tokens.
fn walk(matcher: &mut Matcher, text: &str) -> Option<Vec<u32>> {
    let mut line = vec![1];
    let mut masks = Vec::new();
    for step in 0..STEPS {
        let Some(tokens) = allowed(matcher, &line) else {
            // A second computation and a rewind give the same result, or exceed the bounds too.
            allowed(matcher, &line);
            allowed(matcher, &line[..1 + step / 2]);
            return None;
        };
        let token = chosen(&tokens, text, step);
        masks.push(tokens);
        if tokenizer().is_end(token) {
            break;
        }
        line.push(token);
    }
    let mut forced = Vec::new();
    if matcher.forced(&line, 4, &mut forced).is_ok() {
        let n = matcher.admits(&line, &forced);
        assert!(matches!(n, Err(Error::TooComplex(_))) || n.is_ok_and(|n| n == forced.len()), "{forced:?} is forced");
    }
    let middle = masks.len() / 2;
    assert_eq!(allowed(matcher, &line[..1 + middle])?, masks[middle], "behind a rewind to {middle} of {line:?}");
    Some(line)
}

/// Continues to an end of the text, and prefers tokens that close something. `None` if no end is near.
fn end(matcher: &mut Matcher, text: &str, line: &mut Vec<u32>) -> Option<()> {
    for step in STEPS..2 * STEPS + text.len().min(MORE_STEPS) {
        let tokens = allowed(matcher, line)?;
        if tokens.iter().any(|&token| tokenizer().is_end(token)) {
            return Some(());
        }
        let is = |token: u32, text: &[u8]| tokenizer().decode_token(token, false).is_ok_and(|bytes| *bytes == *text);
        let closing = CLOSING.iter().find_map(|text| tokens.iter().find(|&&token| is(token, text)));
        line.push(*closing.unwrap_or(&chosen(&tokens, text, step)));
    }
    None
}

/// Checks that texts that the grammar of a reply allows are parsed as replies.
fn read_back(reply: Arc<Reply>, tokens: &[u32]) {
    let mut parser = ReplyParser::new(reply, Stops::default());
    let mut events = Vec::new();
    tokens.iter().for_each(|&token| parser.push(tokenizer(), token).expect("pushed"));
    parser.end(true).expect("ended");
    while let Some(event) = parser.next(|event| Ok(event.clone())).expect("taken") {
        events.push(event);
    }
    assert!(events.iter().all(|event| !event.unparsed), "not understood: {events:?}");
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let _ = on_new_thread(|| {
        let (grammar, reply) = compile(choice, text)?;
        let mut matcher = grammar.matcher()?;
        if let (Some(mut line), Some(reply)) = (walk(&mut matcher, text), reply)
            && end(&mut matcher, text, &mut line).is_some()
        {
            read_back(reply, &line[1..]);
        }
        Ok(())
    });
});
