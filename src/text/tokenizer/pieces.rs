//! Normalization and pre-tokenization: a list of steps, each of which rewrites or splits the pieces of the previous
//! one. Patterns run in linear time and therefore have no look-ahead; the common `\s+(?!\S)` is a rule of its own
//! (`Find::Pattern`).

use std::borrow::Cow;
use std::ops::Range;

use regex_automata::Input;
use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::util::syntax;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::error::{Error, Result, secured};
use crate::text::tokenizer::charsmap::{self, Charsmap};

/// Lengths into which Jais 2 splits a run of white space: each time the longest length after which white space or the
/// end of the text follows.
const SPACE_RUNS: [usize; 10] = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];

/// The same as alternatives of a pattern.
const SPACE_RUNS_PATTERN: &str = r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";

/// Maximum program size of a pattern; the largest published one needs a quarter of it.
const PATTERN_BYTES: usize = 2 << 20;

pub enum TextStep {
    Split(Splitter),
    Prepend {
        text: String,
        when: Prepend,
    },
    /// Replaces every occurrence.
    Replace {
        from: String,
        to: String,
    },
    /// Replaces every match.
    ReplacePattern {
        pattern: Splitter,
        to: String,
    },
    /// Puts spaces around every match.
    Surround(Splitter),
    Normalize(Form),
    /// Normalizes by a SentencePiece table.
    Charsmap(Charsmap),
    Lowercase,
    /// Strips white space at the ends.
    Strip {
        left: bool,
        right: bool,
    },
}

/// Unicode normalization forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

/// Which pieces get a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepend {
    /// Every piece.
    Always,
    /// Pieces that do not begin with the prefix.
    Missing,
    /// `Missing`, only at the start of the whole text.
    MissingAtStart,
}

/// Returns the maximum factor by which the steps can lengthen a text.
pub fn growth(steps: &[TextStep]) -> usize {
    let one = |step: &TextStep| match step {
        TextStep::Replace { from, to } => to.len().div_ceil(from.len().max(1)).max(1),
        TextStep::ReplacePattern { to, .. } => to.len().max(1),
        // A match may be one byte.
        TextStep::Surround(_) => 3,
        TextStep::Charsmap(_) => charsmap::GROWTH,
        // U+FDFA, three bytes, becomes 33.
        TextStep::Normalize(_) => 11,
        // A piece may be one byte.
        TextStep::Prepend { text, .. } => text.len() + 1,
        // U+0130, two bytes, becomes three.
        TextStep::Lowercase => 2,
        TextStep::Split(_) | TextStep::Strip { .. } => 1,
    };
    steps.iter().map(one).fold(1, usize::saturating_mul)
}

/// Runs the steps on `text` and emits the nonempty pieces in order. `at_start`: nothing precedes `text`. Recurses once
/// per step; builders keep the list short.
pub fn pieces(
    steps: &[TextStep],
    text: &str,
    at_start: bool,
    emit: &mut dyn FnMut(&str, bool) -> Result<()>,
) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let [step, rest @ ..] = steps else { return emit(text, at_start) };
    match step {
        TextStep::Split(split) => split.run(text, |r| pieces(rest, &text[r.clone()], at_start && r.start == 0, emit)),
        TextStep::Prepend { text: prefix, when } => {
            let wanted = match when {
                Prepend::Always => true,
                Prepend::Missing => !text.starts_with(prefix.as_str()),
                Prepend::MissingAtStart => at_start && !text.starts_with(prefix.as_str()),
            };
            if wanted {
                pieces(rest, &joined([prefix, text])?, at_start, emit)
            } else {
                pieces(rest, text, at_start, emit)
            }
        }
        TextStep::Replace { from, to } => pieces(rest, &replaced(text, from, to)?, at_start, emit),
        TextStep::ReplacePattern { pattern, to } => {
            pieces(rest, &rewritten(text, pattern, |_| [to, "", ""])?, at_start, emit)
        }
        TextStep::Surround(pattern) => {
            pieces(rest, &rewritten(text, pattern, |found| [" ", found, " "])?, at_start, emit)
        }
        TextStep::Charsmap(map) => pieces(rest, &map.apply(text)?, at_start, emit),
        TextStep::Normalize(form) => pieces(rest, &normalized(text, *form)?, at_start, emit),
        TextStep::Lowercase => pieces(rest, &collected(text.chars().flat_map(char::to_lowercase))?, at_start, emit),
        TextStep::Strip { left, right } => {
            let stripped = if *left { text.trim_start() } else { text };
            pieces(rest, if *right { stripped.trim_end() } else { stripped }, at_start, emit)
        }
    }
}

fn replaced<'t>(text: &'t str, from: &str, to: &str) -> Result<Cow<'t, str>> {
    if from.is_empty() || !text.contains(from) {
        return Ok(Cow::Borrowed(text));
    }
    joined(text.split(from).enumerate().flat_map(|(i, part)| [if i == 0 { "" } else { to }, part])).map(Cow::Owned)
}

/// Replaces every match by three texts.
fn rewritten<'t, 'w>(text: &'t str, pattern: &Splitter, with: impl Fn(&'t str) -> [&'w str; 3]) -> Result<Cow<'t, str>>
where
    't: 'w,
{
    let (mut out, mut at) = (String::new(), 0);
    while let Some(found) = pattern.find.next(text, at) {
        append(&mut out, [&text[at..found.start]].into_iter().chain(with(&text[found.clone()])))?;
        at = found.end;
    }
    if at == 0 {
        return Ok(Cow::Borrowed(text));
    }
    append(&mut out, [&text[at..]])?;
    Ok(Cow::Owned(out))
}

fn normalized(text: &str, form: Form) -> Result<Cow<'_, str>> {
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text));
    }
    match form {
        Form::Nfc if is_nfc_quick(text.chars()) == IsNormalized::Yes => Ok(Cow::Borrowed(text)),
        Form::Nfc => collected(text.nfc()).map(Cow::Owned),
        Form::Nfd => collected(text.nfd()).map(Cow::Owned),
        Form::Nfkc => collected(text.nfkc()).map(Cow::Owned),
        Form::Nfkd => collected(text.nfkd()).map(Cow::Owned),
    }
}

fn collected(chars: impl Iterator<Item = char>) -> Result<String> {
    let mut whole = String::new();
    for c in chars {
        append(&mut whole, [c.encode_utf8(&mut [0; 4]) as &str])?;
    }
    Ok(whole)
}

fn joined<'t>(parts: impl IntoIterator<Item = &'t str>) -> Result<String> {
    let mut whole = String::new();
    append(&mut whole, parts)?;
    Ok(whole)
}

/// Appends the parts, or fails with `OutOfMemory`.
fn append<'t>(whole: &mut String, parts: impl IntoIterator<Item = &'t str>) -> Result<()> {
    for part in parts {
        whole
            .try_reserve(part.len())
            .map_err(|_| Error::OutOfMemory { what: "normalizing text", bytes: whole.len() as u64 })?;
        whole.push_str(part);
    }
    Ok(())
}

/// Splits a piece at the matches of a pattern.
pub struct Splitter {
    find: Find,
    behavior: Behavior,
    /// True to swap matches and the text between them.
    invert: bool,
}

/// What becomes of the matches and of the text between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behavior {
    /// Each match is a piece.
    Isolated,
    /// `Isolated`, with the characters of a match grouped by threes from its end: `1 234 567`.
    Thousands,
    /// Matches are dropped.
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    /// Adjacent matches are joined.
    Contiguous,
}

enum Find {
    /// Alternatives in order of preference. `gives_back`: index of the one that is a run of white space which excludes
    /// its last character if text follows, as `\s+(?!\S)|\s+` does: `"a   b"` becomes `"a", "  ", " b"`.
    Pattern { regex: Box<Regex>, gives_back: Option<usize> },
    /// Alternatives; the second one is a white space, extended by `SPACE_RUNS`.
    SpaceRuns(Box<Regex>),
    /// A literal text.
    Literal(String),
}

impl Splitter {
    /// Compiles a pattern; fails with `Unsupported` for unsupported syntax.
    pub fn pattern(pattern: &str, behavior: Behavior, invert: bool) -> Result<Splitter> {
        // Groups of three digits counted from the end of a run that ends at a word boundary.
        if pattern == r"\d{1,3}(?=(?:\d{3})*\b)" && behavior == Behavior::Isolated {
            return Splitter::pattern(r"\d+\b", Behavior::Thousands, invert);
        }
        Ok(Splitter { find: compile(pattern)?, behavior, invert })
    }

    pub fn literal(text: &str, behavior: Behavior, invert: bool) -> Splitter {
        Splitter { find: Find::Literal(text.to_owned()), behavior, invert }
    }

    /// Emits the ranges of the pieces in order.
    fn run(&self, text: &str, mut emit: impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
        let mut held: Option<(Range<usize>, bool)> = None;
        let mut segment = |next: Option<(Range<usize>, bool)>| {
            if let (Some((held, was)), Some((range, is))) = (&mut held, &next)
                && match self.behavior {
                    Behavior::Isolated | Behavior::Thousands | Behavior::Removed => false,
                    Behavior::MergedWithPrevious => !*was && *is,
                    Behavior::MergedWithNext => *was && !*is,
                    Behavior::Contiguous => *was == *is,
                }
            {
                (held.end, *was) = (range.end, *is);
                return Ok(());
            }
            match (std::mem::replace(&mut held, next), self.behavior) {
                (None, _) | (Some((_, true)), Behavior::Removed) => Ok(()),
                (Some((range, true)), Behavior::Thousands) => by_threes(text, range, &mut emit),
                (Some((range, _)), _) => emit(range),
            }
        };
        let mut at = 0;
        while let Some(found) = self.find.next(text, at) {
            if found.start > at {
                segment(Some((at..found.start, self.invert)))?;
            }
            at = found.end;
            segment(Some((found, !self.invert)))?;
        }
        if at < text.len() {
            segment(Some((at..text.len(), self.invert)))?;
        }
        segment(None)
    }
}

fn by_threes(text: &str, range: Range<usize>, emit: &mut impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
    let mut left = text[range.clone()].chars().count();
    let mut start = range.start;
    for (i, _) in text[range.clone()].char_indices() {
        let at = range.start + i;
        if left.is_multiple_of(3) && at > start {
            emit(start..at)?;
            start = at;
        }
        left -= 1;
    }
    emit(start..range.end)
}

impl Find {
    /// Returns the next nonempty match at or after `at`.
    fn next(&self, text: &str, at: usize) -> Option<Range<usize>> {
        match self {
            Find::Pattern { regex, gives_back } => {
                let mut input = Input::new(text).range(at..);
                loop {
                    let found = regex.search(&input)?;
                    let (start, mut end) = (found.start(), found.end());
                    if start == end {
                        input.set_start(end + text[end..].chars().next()?.len_utf8());
                        continue;
                    }
                    if *gives_back == Some(found.pattern().as_usize()) && end < text.len() {
                        let last = text[start..end].chars().next_back().map_or(0, char::len_utf8);
                        if end - last > start {
                            end -= last;
                        }
                    }
                    return Some(start..end);
                }
            }
            Find::SpaceRuns(regex) => {
                let found = regex.search(&Input::new(text).range(at..))?;
                if found.pattern().as_usize() == 0 {
                    return Some(found.range());
                }
                let run = &text[found.start()..];
                let longest = SPACE_RUNS[0] + 1;
                let n = run.chars().take(longest).take_while(|c| c.is_whitespace()).count();
                let at_end = run.chars().nth(n).is_none();
                let taken = SPACE_RUNS.into_iter().find(|&len| len < n || len == n && at_end).unwrap_or(1);
                Some(found.start()..found.start() + run.chars().take(taken).map(char::len_utf8).sum::<usize>())
            }
            Find::Literal(literal) => {
                let start = at + text[at..].find(literal)?;
                Some(start..start + literal.len()).filter(|r| !r.is_empty())
            }
        }
    }
}

/// Compiles a pattern. `\s+(?!\S)` is supported as the last alternative, or before `\s+` or `\s`; no other look-around
/// is. `^` and `$` match at line ends, as in Ruby's syntax, in which these patterns are written.
fn compile(pattern: &str) -> Result<Find> {
    let unsupported = |why: &str| {
        Error::unsupported(format!("cannot use the pre-tokenizer pattern {pattern:?}: {}", why.replace('\n', " ")))
    };
    let build = |patterns: &[&str]| {
        Regex::builder()
            .configure(Config::new().nfa_size_limit(Some(PATTERN_BYTES)))
            .syntax(syntax::Config::new().nest_limit(64).multi_line(true))
            .build_many(patterns)
            .map(Box::new)
            .map_err(|e: BuildError| unsupported(&e.syntax_error().map_or_else(|| e.to_string(), |e| e.to_string())))
    };
    // The compiler allocates infallibly.
    let build = |patterns: &[&str]| secured("a pattern", 2 * PATTERN_BYTES, || build(patterns));
    // A possessive quantifier equals a greedy one if what follows cannot match anything that it would give up.
    let greedy = pattern
        .replace(r"[^\r\n\p{L}\p{N}]?+\p{L}", r"[^\r\n\p{L}\p{N}]?\p{L}")
        .replace(r"[^\s\p{L}\p{N}]++[\r\n]*", r"[^\s\p{L}\p{N}]+[\r\n]*")
        .replace(r"\p{N}{1,3}+|", r"\p{N}{1,3}|");
    if let Some(first) = greedy.strip_suffix(SPACE_RUNS_PATTERN) {
        return Ok(Find::SpaceRuns(build(&[first, r"\s"])?));
    }
    if has_possessive(&greedy) {
        return Err(unsupported("repetitions that give nothing up are not supported"));
    }
    let body = greedy.strip_suffix(r"|\s+").or(greedy.strip_suffix(r"|\s")).unwrap_or(&greedy);
    Ok(match body.strip_suffix(r"\s+(?!\S)") {
        None => Find::Pattern { regex: build(&[&greedy])?, gives_back: None },
        Some("") => Find::Pattern { regex: build(&[r"\s+"])?, gives_back: Some(0) },
        Some(first) => {
            let first = first.strip_suffix('|').unwrap_or(&greedy);
            Find::Pattern { regex: build(&[first, r"\s+"])?, gives_back: Some(1) }
        }
    })
}

/// Finds `a?+`, `a*+`, `a++` and `a{2}+`, whose meaning here differs from the patterns' origin.
fn has_possessive(pattern: &str) -> bool {
    let (mut escaped, mut class, mut named, mut repeated) = (false, 0usize, false, false);
    for c in pattern.chars() {
        let literal = std::mem::take(&mut escaped);
        if repeated && c == '+' {
            return true;
        }
        repeated = !literal && class == 0 && !(named && c == '}') && matches!(c, '?' | '*' | '+' | '}');
        match c {
            // Braces of `\p{L}` are not repetitions.
            _ if literal => named = matches!(c, 'p' | 'P' | 'x' | 'u'),
            '}' => named = false,
            '\\' => escaped = true,
            '[' => class += 1,
            ']' => class = class.saturating_sub(1),
            _ => {}
        }
    }
    false
}
