//! Places in the text of a call where a value ends and the call goes on.

use crate::text::reply::form::{Argument, CallForm};
use crate::text::reply::nested;
use crate::text::reply::replies::{Behind, Found, Then, Tool};
use crate::text::reply::tags::{Match, matches};

/// Longest name of an argument.
const MAX_KEY: usize = 256;

/// The tag `close` after a value, which may hold it too: it ends where a call goes on after the tag. `nested`: the mark
/// of tags within the value, and the number of those that are open.
pub(super) fn end_of_value(
    text: &str,
    behind: Behind,
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
    find(close.trim(), text, behind, is_open, goes_on)
}

/// The first place of a tag after which the text goes on as it should. `is_open`: at a place it belongs to the text.
pub(super) fn find(
    tag: &str,
    text: &str,
    behind: Behind,
    is_open: impl Fn(usize) -> bool,
    goes_on: impl Fn(&str) -> Match,
) -> Found {
    let Some(first) = tag.chars().next() else { return Found::None };
    for (at, _) in text.match_indices(first) {
        match matches(tag, &text[at..]) {
            Match::Full(_) if is_open(at) => {}
            Match::Full(n) => match goes_on(&text[at + n..]) {
                Match::Full(_) => return Found::At(at, at + n, Then::Content),
                Match::Partial if behind != Behind::More => return Found::At(at, at + n, Then::Content),
                Match::Partial => return Found::Wait(at),
                Match::No => {}
            },
            Match::Partial if behind != Behind::End => return Found::Wait(at),
            Match::Partial | Match::No => {}
        }
    }
    Found::None
}

/// The first place at which the call goes on after a value without the tag that ends it: with an argument that it has
/// not had and the tool has, or with the end of the call.
pub(super) fn unclosed(text: &str, behind: Behind, calls: &CallForm, tool: &Tool, keys: &[String]) -> Found {
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
            (Err(Match::Partial), _) | (_, Match::Partial) if behind != Behind::End => return Found::Wait(at),
            _ => {}
        }
    }
    Found::None
}

/// That of two places that comes first.
pub(super) fn earlier(a: Found, b: Found) -> Found {
    let place = |found: &Found| match found {
        Found::At(at, ..) | Found::Wait(at) => *at,
        Found::None => usize::MAX,
    };
    if place(&b) < place(&a) { b } else { a }
}

/// True for a name of an argument that is read back as it is.
pub fn is_key(argument: &Argument, name: &str) -> bool {
    let tags = argument.other.iter().chain([&argument.text]);
    name.len() <= MAX_KEY
        && tags.into_iter().all(|tag| key(argument, &format!("{name}{tag} ")).is_ok_and(|(found, _, _)| found == name))
}

/// The name of an argument at the beginning of a text, where its value begins, and whether that is a text by its tag.
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
