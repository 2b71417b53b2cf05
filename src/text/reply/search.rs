//! Finds where a value ends in the text of a tool call.

use crate::text::reply::form::{Argument, CallForm};
use crate::text::reply::nested;
use crate::text::reply::replies::{After, Found, Then, Tool};
use crate::text::reply::tags::{Match, matches};

/// Maximum length of an argument's name.
const MAX_KEY: usize = 256;

/// Finds the closing tag of a value, which may contain this tag too: the value ends at the first tag after which the
/// call continues. `nested`: the marker of tags within the value, and the number of open ones.
pub(super) fn end_of_value(
    text: &str,
    following: After,
    calls: &CallForm,
    nested: Option<(&str, isize)>,
    close: &str,
) -> Found {
    let Some(argument) = calls.argument() else { return Found::None };
    let goes_on = |text: &str| {
        let tags = [argument.before.trim(), calls.after.trim()];
        let found = tags.map(|tag| if tag.is_empty() { Match::Full(0) } else { matches(tag, text.trim_start()) });
        let order = |found: &Match| match found {
            Match::No => 0,
            Match::Partial => 1,
            Match::Full(_) => 2,
        };
        found.into_iter().max_by_key(order).unwrap_or(Match::No)
    };
    let is_open = |at: usize| nested.is_some_and(|(mark, open)| open + nested::balance(&text[..at], mark) != 0);
    find(close.trim(), text, following, is_open, goes_on)
}

/// Returns the first occurrence of a tag after which the text continues as `goes_on` expects. `is_open`: true if a tag
/// at this index is inside the value.
pub(super) fn find(
    tag: &str,
    text: &str,
    following: After,
    is_open: impl Fn(usize) -> bool,
    goes_on: impl Fn(&str) -> Match,
) -> Found {
    let Some(first) = tag.chars().next() else { return Found::None };
    for (at, _) in text.match_indices(first) {
        match matches(tag, &text[at..]) {
            Match::Full(_) if is_open(at) => {}
            Match::Full(n) => match goes_on(&text[at + n..]) {
                Match::Full(_) => return Found::At(at, at + n, Then::Content),
                Match::Partial if following != After::More => return Found::At(at, at + n, Then::Content),
                Match::Partial => return Found::Incomplete(at),
                Match::No => {}
            },
            Match::Partial if following != After::End => return Found::Incomplete(at),
            Match::Partial | Match::No => {}
        }
    }
    Found::None
}

/// Returns the first place at which the call continues after a value without a closing tag: with an unused argument of
/// the tool, or with the end of the call.
pub(super) fn unclosed(text: &str, following: After, calls: &CallForm, tool: &Tool, keys: &[String]) -> Found {
    let Some(argument) = calls.argument() else { return Found::None };
    let is_next = |name: &String| !keys.contains(name) && !tool.parameters["properties"][name].is_null();
    let end = format!("{} {}", calls.after, calls.close);
    let (before, end) = (argument.before.trim(), end.trim());
    let firsts: Vec<char> = [before, end].iter().filter_map(|tag| tag.chars().next()).collect();
    for (at, _) in text.match_indices(&firsts[..]) {
        let next = match matches(before, &text[at..]) {
            Match::Full(n) => key(argument, &text[at + n..]).map(|(name, ..)| is_next(&name)),
            other => Err(other),
        };
        match (next, matches(end, &text[at..])) {
            (Ok(true), _) | (_, Match::Full(_)) => return Found::At(at, at, Then::Content),
            (Err(Match::Partial), _) | (_, Match::Partial) if following != After::End => return Found::Incomplete(at),
            _ => {}
        }
    }
    Found::None
}

/// Returns the earlier of two results.
pub(super) fn earlier(a: Found, b: Found) -> Found {
    let place = |found: &Found| match found {
        Found::At(at, ..) | Found::Incomplete(at) => *at,
        Found::None => usize::MAX,
    };
    if place(&b) < place(&a) { b } else { a }
}

/// True for an argument name that is read back unchanged.
pub fn is_key(argument: &Argument, name: &str) -> bool {
    let tags = argument.other.iter().chain([&argument.text]);
    name.len() <= MAX_KEY
        && tags.into_iter().all(|tag| key(argument, &format!("{name}{tag} ")).is_ok_and(|(found, _, _)| found == name))
}

/// Returns the argument name at the beginning of a text, the index of its value, and true if its tag declares a text.
pub(super) fn key(argument: &Argument, text: &str) -> Result<(String, usize, bool), Match> {
    let tags = [Some((&argument.text, true)), argument.other.as_ref().map(|tag| (tag, false))];
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        for (tag, is_text) in tags.into_iter().flatten() {
            match matches(tag.trim(), &text[at..]) {
                Match::Full(n) => return Ok((text[..at].trim().to_owned(), at + n, is_text)),
                Match::Partial => return Err(Match::Partial),
                Match::No => {}
            }
        }
        if at > MAX_KEY || c == '\n' {
            break;
        }
    }
    Err(Match::No)
}
