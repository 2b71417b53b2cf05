//! Constrained decoding: grammars for generated text, and matchers that follow a text. Runs the crate `llguidance`
//! within limits. This module knows the bytes of tokens, but neither models nor logits.
//!
//! Panics of the crate become errors. Callers compile on a thread of the library (`Runtime::run_deep`), because the
//! crate leaves a thread-local destructor, which would keep the library mapped on a thread of the host.

mod effort;
mod formats;
mod gbnf;
mod keywords;
mod limits;
mod logic;
mod multiples;
mod numbers;
mod pattern;
mod reply;
mod rewrite;
mod schema;
mod source;
mod tools;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::{GrammarInit, ParserLimits, StopReason, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{ParserFactory, TokenParser};

pub use source::{GrammarText, Kind};

use effort::Effort;
use schema::Looseness;

use crate::error::{Error, Result, secured, try_vec};
use crate::text::{TokenKind, Tokenizer};

/// Maximum size of a set of allowed tokens that is searched for a forced token. Such a set consists of one long token
/// and its prefixes.
const BEGINNINGS: usize = 32;

/// Maximum bytes of a token that can be used under a grammar; the trie holds no deeper ones.
const MAX_TOKEN: usize = 1000;

/// Maximum bytes of a prepared vocabulary or a grammar. `CHOICE`: maximum bytes for choosing one token.
const COMPILED: usize = 64 << 20;
const CHOICE: usize = 16 << 20;

/// Limits within which a grammar takes less than a second and 64 MiB, together with those of the module `limits`.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 300_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 100_000,
        max_grammar_size: 300_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// A vocabulary prepared for grammars.
pub struct Grammars {
    factory: ParserFactory,
    n_vocab: usize,
}

impl Grammars {
    /// Prepares a vocabulary for a model with `n_logits` logits.
    ///
    /// # Errors
    /// `Unsupported` if no token ends a text.
    pub fn new(tokenizer: &Tokenizer, n_logits: usize) -> Result<Grammars> {
        Ok(Grammars { factory: caught(COMPILED, || prepared(tokenizer))?, n_vocab: n_logits })
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// `InvalidArgument` for a syntax error or a grammar without matches, `TooComplex` beyond the limits, `Unsupported`
    /// for features that are not implemented.
    pub fn compile(&self, source: &GrammarText, tokenizer: &Tokenizer) -> Result<Grammar> {
        let mut looseness = Looseness::Exact;
        loop {
            let mut effort = Effort::new(source.best_effort);
            match self.compiled(|| source::read(source, tokenizer, looseness, &mut effort)) {
                Ok(parser) => return Ok(self.grammar(parser, note("the schema", looseness, &effort))),
                Err(error) => looseness = next_looseness(looseness, source.best_effort, effort.replaced(error))?,
            }
        }
    }

    fn grammar(&self, parser: TokenParser, notes: impl IntoIterator<Item = String>) -> Grammar {
        Grammar { parser: Mutex::new(parser), n_vocab: self.n_vocab, notes: notes.into_iter().collect() }
    }

    fn compiled(&self, source: impl FnOnce() -> Result<TopLevelGrammar>) -> Result<TokenParser> {
        caught(COMPILED, || {
            let tokens = self.factory.tok_env().clone();
            let read = GrammarInit::Serialized(source()?).to_internal(Some(tokens), limits());
            let (grammar, lexer) = read.map_err(|e| failure(&e.to_string()))?;
            limits::check_expressions(lexer.regex_builder.exprset())?;
            let parser = self.factory.create_parser_from_init_default(GrammarInit::Internal(grammar, lexer));
            let mut parser = parser.map_err(|e| failure(&e.to_string()))?;
            parser.start_without_prompt();
            // Fails if a text can neither continue nor end.
            parser.compute_mask().map_err(|e| stopped(&parser, &e))?;
            // Fails for rules with "max_tokens" or "stop": the parser cannot rewind them, but a session can be rewound.
            parser.parser.rollback(0).map_err(|e| failure(&e.to_string()))?;
            Ok(parser)
        })
    }
}

/// Returns the next looseness of a part of a grammar.
///
/// # Errors
/// `error` if the part may not be loosened, or not further.
fn next_looseness(looseness: Looseness, may_be: bool, error: Error) -> Result<Looseness> {
    looseness.next().filter(|_| may_be && is_of_grammar(&error)).ok_or(error)
}

/// True for an error that a looser grammar might avoid.
fn is_of_grammar(error: &Error) -> bool {
    matches!(error, Error::InvalidArgument(_) | Error::Unsupported(_) | Error::TooComplex(_))
}

/// Returns the log message about omitted parts of a schema.
fn note(whose: &str, looseness: Looseness, effort: &Effort) -> Option<String> {
    let omitted = [looseness.note().map(str::to_owned), effort.note()];
    let omitted: Vec<String> = omitted.into_iter().flatten().collect();
    let omitted = omitted.join(", ");
    (!omitted.is_empty()).then(|| format!("{whose} is followed without what cannot be compiled: {omitted}"))
}

fn prepared(tokenizer: &Tokenizer) -> Result<ParserFactory> {
    let n = tokenizer.n_vocab();
    let (mut ends, mut words) = (Vec::new(), try_vec("the vocabulary", n)?);
    for id in 0..n as u32 {
        let is_text = !matches!(tokenizer.kind(id), Some(TokenKind::Control | TokenKind::Unreachable));
        let bytes = tokenizer.decode_token(id, true)?.into_owned();
        // The trie reserves this byte, which no text contains, for special tokens.
        let is_usable = bytes.len() <= MAX_TOKEN && bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER);
        let is_end = tokenizer.is_end(id);
        if is_end {
            ends.push(id);
        }
        let is_allowed = is_text && is_usable && !is_end && !tokenizer.suppressed().contains(&id);
        words.push(if is_allowed { bytes } else { Vec::new() });
    }
    let Some(&end) = ends.first() else {
        return Err(Error::unsupported("a grammar needs a token that ends a text; the vocabulary has none"));
    };
    let trie = TokTrie::from(&TokRxInfo::new(n as u32, end), &words).with_eos_tokens(&ends);
    let environment: TokEnv = Arc::new(Vocabulary(trie));
    let slices = SlicedBiasComputer::general_slices();
    let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
    let mut factory = factory.map_err(|e| Error::unsupported(format!("the model cannot use grammars: {e}")))?;
    factory.quiet();
    *factory.limits_mut() = limits();
    Ok(factory)
}

/// The tokens by their bytes. Tokenization is not canonical: the model chooses how forced text is split into tokens.
struct Vocabulary(TokTrie);

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<u32> {
        self.0.greedy_tokenize(s)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// A compiled grammar, for any number of matchers.
pub struct Grammar {
    /// Parser at the start. In a lock, because copying it accesses memory shared by copies of one parser.
    parser: Mutex<TokenParser>,
    n_vocab: usize,
    notes: Vec<String>,
}

impl Grammar {
    /// Notes on omitted keywords, one sentence per schema.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns a matcher at the start of the grammar.
    pub fn matcher(&self) -> Result<Matcher> {
        let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        let parser = secured("the grammar", COMPILED, || Ok(parser.deep_clone()))?;
        Ok(Matcher { parser, n_vocab: self.n_vocab, start: None, taken: Vec::new(), masks: Vec::new() })
    }
}

/// A position in a grammar. The matcher follows the tokens that a session appends after the first call, and also
/// follows rewinds of the session.
pub struct Matcher {
    parser: TokenParser,
    n_vocab: usize,
    /// Length of the session at the grammar's start.
    start: Option<usize>,
    /// Tokens after `start` that the parser has consumed, including forced tokens that the session does not have yet.
    taken: Vec<u32>,
    /// The masks that are known: a number of `taken` tokens, and the tokens allowed after them.
    masks: Vec<(usize, SimpleVob)>,
}

impl Matcher {
    /// Creates a second matcher at the same position.
    pub fn copy(&self) -> Result<Matcher> {
        let (parser, taken) = secured("the grammar", COMPILED, || Ok((self.parser.deep_clone(), self.taken.clone())))?;
        Ok(Matcher { parser, n_vocab: self.n_vocab, start: self.start, taken, masks: Vec::new() })
    }

    /// Sets the grammar's start after the first `len` tokens of a session, which may be longer by now.
    pub fn begin_at(&mut self, len: usize) {
        self.start = Some(len);
    }

    /// Returns the number of logits of the grammar's model.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Returns the tokens that may follow a session, at least one. Includes end tokens if the text may end.
    ///
    /// # Errors
    /// `InvalidArgument` if the grammar does not allow the session, `TooComplex` beyond the limits.
    pub fn allowed(&mut self, history: &[u32]) -> Result<Allowed<'_>> {
        let start = *self.start.get_or_insert(history.len());
        let Some(written) = history.get(start..) else {
            // After a rewind to before the start, the grammar begins again.
            self.rewind(0)?;
            self.start = Some(history.len());
            return self.after(0);
        };
        let same = written.iter().zip(&self.taken).take_while(|(a, b)| a == b).count();
        for (i, &token) in written.iter().enumerate().skip(same) {
            if !self.after(i)?.has(token) {
                return Err(Error::invalid(format!(
                    "the grammar does not allow token {token} at position {}: set it again for another text",
                    start + i
                )));
            }
            self.rewind(i)?;
            self.take(token)?;
        }
        self.masks.retain(|(len, _)| *len >= written.len());
        self.after(written.len())
    }

    /// Appends forced tokens to `out`, up to `most` tokens in all. A token is forced if all other allowed tokens are
    /// its prefixes. The text is forced, but not its split into tokens: if the session continues with other tokens, the
    /// next call drops the forced ones.
    pub fn forced(&mut self, history: &[u32], most: usize, out: &mut Vec<u32>) -> Result<()> {
        self.allowed(history)?;
        let mut len = history.len() - self.start.unwrap_or(0);
        let vocabulary = self.parser.token_env.clone();
        while out.len() < most {
            let token = match self.taken.get(len) {
                Some(&token) => token,
                None => {
                    let Some(token) = self.after(len)?.longest_of_one_text(vocabulary.tok_trie()) else { break };
                    self.take(token)?;
                    token
                }
            };
            out.push(token);
            len += 1;
        }
        Ok(())
    }

    /// Returns the number of leading `tokens` that the grammar accepts after a session.
    pub fn admits(&mut self, history: &[u32], tokens: &[u32]) -> Result<usize> {
        self.allowed(history)?;
        let expected = &self.taken[history.len() - self.start.unwrap_or(0)..];
        let same = expected.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if same < expected.len() {
            return Ok(same);
        }
        let rest = &tokens[same..];
        let more = caught(CHOICE, || self.parser.validate_tokens_raw(rest).map_err(|e| stopped(&self.parser, &e)))?;
        Ok(same + more)
    }

    /// Returns the tokens allowed after the first `len` of `taken`.
    fn after(&mut self, len: usize) -> Result<Allowed<'_>> {
        let known = self.masks.iter().position(|(at, _)| *at == len);
        let i = match known {
            Some(i) => i,
            None => {
                self.rewind(len)?;
                let mask = caught(CHOICE, || self.parser.compute_mask().map_err(|e| stopped(&self.parser, &e)))?;
                self.masks.push((len, mask));
                self.masks.len() - 1
            }
        };
        Ok(Allowed(&self.masks[i].1))
    }

    /// Consumes a token.
    fn take(&mut self, token: u32) -> Result<()> {
        caught(CHOICE, || self.parser.consume_token(token).map_err(|e| stopped(&self.parser, &e)))?;
        self.taken.push(token);
        Ok(())
    }

    /// Rewinds to the first `len` of `taken`.
    fn rewind(&mut self, len: usize) -> Result<()> {
        let back = self.taken.len() - len;
        if back > 0 {
            self.masks.retain(|(at, _)| *at <= len);
            caught(CHOICE, || self.parser.rollback(back).map_err(|e| failure(&e.to_string())))?;
            self.taken.truncate(len);
        }
        Ok(())
    }
}

/// A set of tokens.
pub struct Allowed<'m>(&'m SimpleVob);

impl Allowed<'_> {
    /// Returns one bit per token.
    pub fn bits(&self) -> &[u32] {
        self.0.as_slice()
    }

    pub fn has(&self, token: u32) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    /// Returns the longest token, if all others are prefixes of it.
    fn longest_of_one_text(&self, trie: &TokTrie) -> Option<u32> {
        let mut longest: (u32, &[u8]) = (0, &[]);
        for (i, id) in self.0.iter().enumerate() {
            let text = trie.token(id);
            // A token that ends the text has no bytes.
            if i == BEGINNINGS || text.is_empty() {
                return None;
            }
            let (short, long) = if text.len() < longest.1.len() { (text, longest.1) } else { (longest.1, text) };
            if !long.starts_with(short) {
                return None;
            }
            // If two tokens have the same bytes, the first one is a byte token, so the later one is used.
            if text.len() >= longest.1.len() {
                longest = (id, text);
            }
        }
        (!longest.1.is_empty()).then_some(longest.0)
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("start", &self.start).field("taken", &self.taken.len()).finish()
    }
}

/// Turns a panic of the parser into an error, and reserves `bytes` bytes for its infallible allocations.
fn caught<T>(bytes: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Error::TooComplex("the grammar is too complex: its parser failed on it".to_owned());
    secured("the grammar", bytes, || catch_unwind(AssertUnwindSafe(work)).map_err(panicked).and_then(|result| result))
}

fn stopped(parser: &TokenParser, error: &dyn fmt::Display) -> Error {
    match parser.stop_reason() {
        StopReason::LexerTooComplex | StopReason::ParserTooComplex => {
            Error::TooComplex(format!("the grammar is too complex: {error}"))
        }
        StopReason::NoExtensionBias | StopReason::NoExtension => {
            Error::invalid("the grammar: no token of the vocabulary can follow, and the text cannot end")
        }
        _ => failure(&error.to_string()),
    }
}

fn failure(error: &str) -> Error {
    // Regular expression errors show the position on their own lines, and the reason on the last one.
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('^'));
    let first = lines.next().unwrap_or_default();
    let why = lines.filter_map(|line| line.strip_prefix("error:")).map(str::trim).next_back();
    let whole = why.map_or_else(|| first.to_owned(), |why| format!("{why}: {first}"));
    let what = format!("the grammar: {}", whole.chars().take(200).collect::<String>());
    let bounds = ["too large", "too big", "too many", "too deep", "limit", "fuel", "the maximum number", "exceeds"];
    let is_bound = bounds.iter().any(|word| whole.contains(word));
    let absent = ["nimplemented", "supported", "Unknown format"];
    let is_absent = absent.iter().any(|word| error.contains(word));
    match () {
        () if is_bound => Error::TooComplex(what),
        () if is_absent => Error::Unsupported(what),
        () => Error::invalid(what),
    }
}
