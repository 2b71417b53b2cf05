//! Methods of Python's strings, lists and dicts.

use minijinja::value::DynObject;
use minijinja::{Error, ErrorKind, Value};
use regex_automata::meta::Regex;
use std::sync::LazyLock;

use crate::text::template::arguments::{Arguments, count, text};
use crate::text::template::error::refuse;
use crate::text::template::format::{Bounded, str_format};
use crate::text::template::operators::equal;
use crate::text::template::values::{Form, Kind, Sequence, is_printable, items, kind, pairs, tuple, type_name};

/// Calls a method for which `has_method` is true; the first argument is its value.
pub fn call(args: &Arguments) -> Result<Value, Error> {
    let value = args.subject()?;
    match kind(value) {
        Kind::Str(text) => of_text(text, args),
        Kind::Dict => of_dict(value, args),
        _ => of_list(value, args),
    }
}

fn unknown(args: &Arguments, value: &Value) -> Error {
    Error::new(ErrorKind::UnknownMethod, format!("{}.{} is not supported", type_name(value), args.name))
}

/// Returns the only argument of a method.
fn only(args: &Arguments, name: &str) -> Result<Value, Error> {
    let [_, value] = args.bind(["self", name], 2)?;
    Ok(value.unwrap_or_default())
}

fn of_dict(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let all = || pairs(value);
    match args.name.as_str() {
        "get" => {
            let [_, key, default] = args.bind(["self", "key", "default"], 2)?;
            let key = key.unwrap_or_default();
            if matches!(kind(&key), Kind::List | Kind::Dict) {
                return Err(refuse(format!("unhashable type: '{}'", type_name(&key))));
            }
            let found = match value.get_item(&key)? {
                found if found.is_undefined() => all().into_iter().find(|(k, _)| equal(k, &key)).map(|(_, v)| v),
                found => Some(found),
            };
            Ok(found.unwrap_or_else(|| default.unwrap_or(Value::from(()))))
        }
        "keys" => args.bind(["self"], 1).map(|_| Sequence::value(Form::Keys, all().into_iter().map(|p| p.0).collect())),
        "values" => {
            args.bind(["self"], 1).map(|_| Sequence::value(Form::Values, all().into_iter().map(|p| p.1).collect()))
        }
        "items" => args
            .bind(["self"], 1)
            .map(|_| Sequence::value(Form::Items, all().into_iter().map(|(k, v)| tuple(vec![k, v])).collect())),
        "copy" => args.bind(["self"], 1).map(|_| value.clone()),
        _ => Err(unknown(args, value)),
    }
}

fn of_list(value: &Value, args: &Arguments) -> Result<Value, Error> {
    match args.name.as_str() {
        "count" => {
            let what = only(args, "value")?;
            Ok(Value::from(items(value)?.iter().filter(|item| equal(item, &what)).count()))
        }
        "index" => {
            let what = only(args, "value")?;
            let place = items(value)?.iter().position(|item| equal(item, &what));
            place.map(Value::from).ok_or_else(|| refuse("the value is not in the list"))
        }
        // The copy is a separate list, even of an immutable list.
        "copy" => args.bind(["self"], 1).map(|_| Value::from(items(value).unwrap_or_default())),
        _ => Err(unknown(args, value)),
    }
}

pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// True for a line end of `str.splitlines`.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub fn lines(text: &str, keeps_ends: bool) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_line_end) {
        let end = match &rest[at..] {
            line if line.starts_with("\r\n") => at + 2,
            line => at + line.chars().next().map_or(0, char::len_utf8),
        };
        out.push(&rest[..if keeps_ends { end } else { at }]);
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        out.push(rest);
    }
    out
}

/// `str.strip`, `lstrip` or `rstrip`.
pub fn stripped<'t>(text: &'t str, chars: Option<&str>, left: bool, right: bool) -> &'t str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(goes) } else { text };
    if right { text.trim_end_matches(goes) } else { text }
}

fn split_space(text: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if out.len() == most {
            out.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        out.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    out
}

fn rsplit_space(text: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if out.len() == most {
            out.push(rest);
            break;
        }
        let (start, len) =
            rest.char_indices().rev().find(|(_, c)| is_space(*c)).map_or((0, 0), |(i, c)| (i, c.len_utf8()));
        out.push(&rest[start + len..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    out.reverse();
    out
}

/// Returns the part of a text between two character indices, and its start; `None` if it starts after the text.
fn window<'t>(text: &'t str, start: Option<&Value>, end: Option<&Value>) -> Result<Option<(usize, &'t str)>, Error> {
    let start = count(start, "start")?.unwrap_or(0);
    let Some(end) = count(end, "end")? else {
        if start == 0 {
            return Ok(Some((0, text)));
        }
        return window_of(text, start, i64::MAX);
    };
    window_of(text, start, end)
}

fn window_of(text: &str, start: i64, end: i64) -> Result<Option<(usize, &str)>, Error> {
    let n = text.chars().count();
    let place = |i: i64| match i {
        0.. => usize::try_from(i).unwrap_or(usize::MAX),
        _ => n.saturating_sub(usize::try_from(i.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (place(start), place(end).min(n));
    if start > end {
        return Ok(None);
    }
    let byte = |i: usize| text.char_indices().nth(i).map_or(text.len(), |(at, _)| at);
    Ok(Some((start, &text[byte(start)..byte(end)])))
}

fn find(text: &str, args: &Arguments) -> Result<Option<usize>, Error> {
    let [_, what, start, end] = args.bind(["self", "sub", "start", "end"], 2)?;
    let what = what.unwrap_or_default();
    let what = self::text(&what, "what is looked for")?;
    let Some((offset, part)) = window(text, start.as_ref(), end.as_ref())? else { return Ok(None) };
    let at = if args.name.starts_with('r') { part.rfind(what) } else { part.find(what) };
    Ok(at.map(|at| offset + part[..at].chars().count()))
}

/// `str.startswith` and `endswith`.
fn begins(text: &str, args: &Arguments) -> Result<bool, Error> {
    let [_, what, start, end] = args.bind(["self", "prefix", "start", "end"], 2)?;
    let what = what.unwrap_or_default();
    let Some((_, part)) = window(text, start.as_ref(), end.as_ref())? else { return Ok(false) };
    let has = |what: &Value| match (kind(what), args.name.as_str()) {
        (Kind::Str(what), "startswith") => Ok(part.starts_with(what)),
        (Kind::Str(what), _) => Ok(part.ends_with(what)),
        _ => Err(refuse(format!("{} first arg must be str or a tuple of str, not {}", args.name, type_name(what)))),
    };
    match kind(&what) {
        Kind::Tuple => items(&what)?.iter().try_fold(false, |found, what| Ok(found || has(what)?)),
        _ => has(&what),
    }
}

/// `text` with the first `most` occurrences of `from` replaced by `to`.
pub fn replaced(text: &str, from: &str, to: &str, most: Option<i64>) -> String {
    match most.map(usize::try_from) {
        Some(Ok(most)) => text.replacen(from, to, most),
        _ => text.replace(from, to),
    }
}

/// `str.center`, `ljust` and `rjust`.
pub fn padded(text: &str, width: i64, fill: char, name: &str) -> Result<Value, Error> {
    let len = text.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(len);
    // With an odd width, the odd character is on the left.
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        _ => missing / 2 + (missing & (len + missing) & 1),
    };
    let mut out = Bounded::default();
    out.pad(fill, left)?;
    out.push(text)?;
    out.pad(fill, missing - left)?;
    Ok(out.value())
}

/// Returns the title case of a character.
fn title_of(c: char) -> String {
    let upper: String = c.to_uppercase().collect();
    match c {
        '\u{10d0}'..='\u{10ff}' => c.to_string(),
        '\u{1c4}'..='\u{1cc}' => char::from_u32((u32::from(c) - 0x1c4) / 3 * 3 + 0x1c5).unwrap_or(c).to_string(),
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}'.to_string(),
        '\u{1f80}'..='\u{1faf}' => char::from_u32(u32::from(c) | 8).unwrap_or(c).to_string(),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(u32::from(c) + 9).unwrap_or(c).to_string(),
        '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' => c.to_string(),
        '\u{1fb0}'..='\u{1fff}' if upper.ends_with('\u{399}') => {
            upper.trim_end_matches('\u{399}').to_owned() + "\u{345}"
        }
        'ß' | '\u{587}' | '\u{fb00}'..='\u{fb17}' => {
            let mut chars = upper.chars();
            chars.next().into_iter().chain(chars.flat_map(char::to_lowercase)).collect()
        }
        _ => upper,
    }
}

static TITLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Lt}$").ok());
static LETTERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}+$").ok());
static DECIMALS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").ok());

fn is_title(c: char) -> bool {
    !c.is_ascii() && TITLE.as_ref().is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4]) as &str))
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || is_title(c)
}

fn is_decimal(c: char) -> bool {
    c.is_ascii_digit()
        || !c.is_ascii() && DECIMALS.as_ref().is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4]) as &str))
}

/// True for digits, including superscript and circled ones.
fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '²' | '³' | '¹' | '\u{1369}'..='\u{1371}' | '\u{19da}' | '⁰' | '⁴'..='⁹' | '₀'..='₉'
            | '①'..='⑨' | '⑴'..='⑼' | '⒈'..='⒐' | '⓪' | '⓵'..='⓽' | '⓿' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒'
            | '\u{10a40}'..='\u{10a43}' | '\u{10e60}'..='\u{10e68}' | '\u{11052}'..='\u{1105a}'
            | '\u{1f100}'..='\u{1f10a}')
}

/// True for numeric characters; of ideographs only common ones.
fn is_numeric(c: char) -> bool {
    c.is_numeric() || "〇一二三四五六七八九十百千万亿億兆壹贰叁肆伍陆柒捌玖拾佰仟萬零两".contains(c)
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || !c.is_ascii() && LETTERS.as_ref().is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4]) as &str))
}

/// `str.islower` and `isupper`.
pub fn is_of_case(text: &str, lower: bool) -> bool {
    let is_other = |c: char| if lower { c.is_uppercase() } else { c.is_lowercase() } || is_title(c);
    text.chars().any(|c| if lower { c.is_lowercase() } else { c.is_uppercase() }) && !text.chars().any(is_other)
}

fn is_title_text(text: &str) -> bool {
    let (mut found, mut in_word) = (false, false);
    for c in text.chars() {
        let starts = c.is_uppercase() || is_title(c);
        if starts && in_word || c.is_lowercase() && !in_word {
            return false;
        }
        in_word = is_cased(c);
        found |= in_word;
    }
    found
}

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, title_of) + &chars.as_str().to_lowercase()
}

fn of_text(s: &str, args: &Arguments) -> Result<Value, Error> {
    if let Some(value) = without_arguments(s, &args.name) {
        return args.bind(["self"], 1).map(|_| value);
    }
    match args.name.as_str() {
        "strip" | "lstrip" | "rstrip" => strip(s, args),
        "split" | "rsplit" => split(s, args),
        "splitlines" => {
            let [_, keeps_ends] = args.bind(["self", "keepends"], 1)?;
            Ok(list(lines(s, keeps_ends.is_some_and(|keeps| keeps.is_true()))))
        }
        "partition" | "rpartition" => partition(s, args),
        "replace" => {
            let [_, from, to, most] = args.bind(["self", "old", "new", "count"], 3)?;
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            let most = count(most.as_ref(), "count")?;
            Ok(Value::from(replaced(s, text(&from, "what is replaced")?, text(&to, "the replacement")?, most)))
        }
        "find" | "rfind" => Ok(find(s, args)?.map_or_else(|| Value::from(-1), Value::from)),
        "index" | "rindex" => find(s, args)?.map(Value::from).ok_or_else(|| refuse("substring not found")),
        "count" => {
            let [_, what, start, end] = args.bind(["self", "sub", "start", "end"], 2)?;
            let what = what.unwrap_or_default();
            let part = window(s, start.as_ref(), end.as_ref())?;
            let what = text(&what, "what is counted")?;
            Ok(Value::from(part.map_or(0, |(_, part)| part.matches(what).count())))
        }
        "startswith" | "endswith" => begins(s, args).map(Value::from),
        "removeprefix" | "removesuffix" => {
            let what = only(args, "part")?;
            let what = text(&what, "what is removed")?;
            let rest = if args.name == "removeprefix" { s.strip_prefix(what) } else { s.strip_suffix(what) };
            Ok(Value::from(rest.unwrap_or(s)))
        }
        "center" | "ljust" | "rjust" => justify(s, args),
        "zfill" => zfill(s, args),
        "expandtabs" => expandtabs(s, args),
        "join" => join(s, args),
        "format" => str_format(s, &args.placed[1..], &args.named),
        _ => Err(unknown(args, args.subject()?)),
    }
}

/// Returns the result of a method without arguments.
fn without_arguments(s: &str, name: &str) -> Option<Value> {
    let all = |is: fn(char) -> bool| Value::from(!s.is_empty() && s.chars().all(is));
    Some(match name {
        "upper" => Value::from(s.to_uppercase()),
        "lower" => Value::from(s.to_lowercase()),
        "capitalize" => Value::from(capitalized(s)),
        "title" => Value::from(titled(s)),
        "swapcase" => {
            let swap = |c: char| -> String {
                if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            };
            Value::from(s.chars().map(swap).collect::<String>())
        }
        "casefold" if s.chars().all(|c| c.is_ascii() || c == 'ß') => Value::from(s.to_lowercase().replace('ß', "ss")),
        "isalpha" => all(is_letter),
        "isdigit" => all(is_digit),
        "isdecimal" => all(is_decimal),
        "isnumeric" => all(is_numeric),
        "isalnum" => all(|c| is_letter(c) || is_digit(c) || is_numeric(c)),
        "isspace" => all(is_space),
        "isascii" => Value::from(s.is_ascii()),
        "isprintable" => Value::from(s.chars().all(is_printable)),
        "islower" => Value::from(is_of_case(s, true)),
        "isupper" => Value::from(is_of_case(s, false)),
        "istitle" => Value::from(is_title_text(s)),
        "isidentifier" if s.is_ascii() => {
            let starts = !s.is_empty() && !s.starts_with(|c: char| c.is_ascii_digit());
            Value::from(starts && s.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()))
        }
        _ => return None,
    })
}

fn titled(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut in_word = false;
    for c in s.chars() {
        if in_word {
            out.extend(c.to_lowercase())
        } else {
            out.push_str(&title_of(c))
        }
        in_word = is_cased(c);
    }
    out
}

fn list(parts: Vec<&str>) -> Value {
    Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>())
}

fn strip(s: &str, args: &Arguments) -> Result<Value, Error> {
    let [_, chars] = args.bind(["self", "chars"], 1)?;
    let chars = chars.filter(|chars| !chars.is_none());
    let chars = chars.as_ref().map(|chars| text(chars, "the set of characters")).transpose()?;
    Ok(Value::from(stripped(s, chars, args.name != "rstrip", args.name != "lstrip")))
}

fn split(s: &str, args: &Arguments) -> Result<Value, Error> {
    let [_, by, most] = args.bind(["self", "sep", "maxsplit"], 1)?;
    let most = count(most.as_ref(), "maxsplit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let (most, from_left) = (most.saturating_add(1), args.name == "split");
    let Some(by) = by.filter(|by| !by.is_none()) else {
        return Ok(list(if from_left { split_space(s, most - 1) } else { rsplit_space(s, most - 1) }));
    };
    match text(&by, "the separator")? {
        "" => Err(refuse("empty separator")),
        by if from_left => Ok(list(s.splitn(most, by).collect())),
        by => {
            let mut parts: Vec<&str> = s.rsplitn(most, by).collect();
            parts.reverse();
            Ok(list(parts))
        }
    }
}

fn partition(s: &str, args: &Arguments) -> Result<Value, Error> {
    let by = only(args, "sep")?;
    let parts = match (text(&by, "the separator")?, args.name.as_str()) {
        ("", _) => return Err(refuse("empty separator")),
        (by, "partition") => s.split_once(by).map_or([s, "", ""], |(a, b)| [a, by, b]),
        (by, _) => s.rsplit_once(by).map_or(["", "", s], |(a, b)| [a, by, b]),
    };
    Ok(tuple(parts.into_iter().map(Value::from).collect()))
}

fn justify(s: &str, args: &Arguments) -> Result<Value, Error> {
    let [_, width, fill] = args.bind(["self", "width", "fillchar"], 2)?;
    let fill = fill.map_or_else(|| " ".to_owned(), |fill| fill.as_str().unwrap_or_default().to_owned());
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(refuse("The fill character must be exactly one character long"));
    };
    padded(s, count(width.as_ref(), "width")?.unwrap_or(0), fill, &args.name)
}

fn zfill(s: &str, args: &Arguments) -> Result<Value, Error> {
    let [_, width] = args.bind(["self", "width"], 2)?;
    let width = usize::try_from(count(width.as_ref(), "width")?.unwrap_or(0)).unwrap_or(0);
    let (sign, digits) = s.split_at(usize::from(s.starts_with(['+', '-'])));
    let mut out = Bounded::default();
    out.push(sign)?;
    out.pad('0', width.saturating_sub(s.chars().count()))?;
    out.push(digits)?;
    Ok(out.value())
}

fn expandtabs(s: &str, args: &Arguments) -> Result<Value, Error> {
    let [_, size] = args.bind(["self", "tabsize"], 1)?;
    let size = usize::try_from(count(size.as_ref(), "tabsize")?.unwrap_or(8)).unwrap_or(0);
    let (mut out, mut column) = (Bounded::default(), 0);
    for c in s.chars() {
        match c {
            '\t' if size == 0 => {}
            '\t' => {
                out.pad(' ', size - column % size)?;
                column += size - column % size;
            }
            _ => {
                out.push(c.encode_utf8(&mut [0; 4]))?;
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Ok(out.value())
}

fn join(s: &str, args: &Arguments) -> Result<Value, Error> {
    let parts = items(&only(args, "iterable")?)?;
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        out.push_str(if i > 0 { s } else { "" });
        let wrong = || refuse(format!("sequence item {i}: expected str instance, {} found", type_name(part)));
        out.push_str(part.as_str().ok_or_else(wrong)?);
    }
    Ok(Value::from(out))
}

/// True for objects with methods of their own: loops, and callables of an attribute.
pub fn is_loop(object: &DynObject) -> bool {
    crate::text::template::values::is_named(object, "::Loop")
}
