//! Jinja2's filters, tests and functions, set up as in transformers.
//!
//! Values may have marks. The filters in `MOVERS` of `template/marks.rs` get them with marks, but examine them without.

use std::cmp::Ordering;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};

use crate::text::template::arguments::{Arguments, Builtin, count, text};
use crate::text::template::error::{MAX_OUTPUT, refuse};
use crate::text::template::format::{Bounded, percent};
use crate::text::template::items::{attr, has_method};
use crate::text::template::json::{Style, to_json};
use crate::text::template::marks::marks_of;
use crate::text::template::methods::{capitalized, is_of_case, is_space, lines, padded, replaced, stripped};
use crate::text::template::operators::{Number, arithmetic, compare, equal};
use crate::text::template::sequences::{
    Keys, batch, dictsort, groupby, join, least, reverse, slice, sort, sum, unique,
};
use crate::text::template::values::{
    Form, Kind, Sequence, escaped, int, items, kind, length, pairs, show, tuple, type_name, undefined,
};

pub const FILTERS: &[(&str, Builtin)] = &[
    ("abs", abs),
    ("attr", |_, args| {
        let [value, name] = args.bind(["obj", "name"], 2)?;
        let (value, name) = (value.unwrap_or_default(), name.unwrap_or_default());
        let name = text(&name, "the name of an attribute")?;
        match kind(&value) {
            Kind::Dict if !has_method(&value, name) => Ok(Value::UNDEFINED),
            _ => attr(&value, name),
        }
    }),
    ("batch", batch),
    ("capitalize", |_, args| Ok(Value::from(capitalized(&shown(args)?)))),
    ("center", |_, args| {
        let [value, width] = args.bind(["value", "width"], 1)?;
        padded(&show(&value.unwrap_or_default())?, count(width.as_ref(), "width")?.unwrap_or(80), ' ', "center")
    }),
    ("count", |_, args| length(args.alone()?).map(Value::from)),
    ("d", default),
    ("default", default),
    ("dictsort", dictsort),
    ("e", escape),
    ("escape", escape),
    ("first", |_, args| Ok(items(args.alone()?)?.into_iter().next().unwrap_or(Value::UNDEFINED))),
    ("float", float),
    ("forceescape", |_, args| Ok(Value::from_safe_string(escaped(&shown(args)?)))),
    ("format", format),
    ("groupby", groupby),
    ("indent", indent),
    ("int", whole),
    ("items", |_, args| match kind(args.alone()?) {
        Kind::Undefined => Ok(Sequence::generator(Vec::new())),
        Kind::Dict => {
            let all = pairs(args.subject()?).into_iter().map(|(key, value)| tuple(vec![key, value]));
            Ok(Sequence::generator(all.collect()))
        }
        _ => Err(refuse("Can only get item pairs from a mapping.")),
    }),
    ("join", join),
    ("last", |_, args| match kind(args.alone()?) {
        Kind::Sequence(Sequence { form: Form::Generator, .. }) => Err(refuse("'generator' object is not reversible")),
        _ => Ok(items(args.subject()?)?.pop().unwrap_or(Value::UNDEFINED)),
    }),
    ("length", |_, args| length(args.alone()?).map(Value::from)),
    ("list", |_, args| items(args.alone()?).map(Value::from)),
    ("lower", |_, args| Ok(Value::from(shown(args)?.to_lowercase()))),
    ("map", map),
    ("max", |state, args| least(state, args, Ordering::Greater)),
    ("min", |state, args| least(state, args, Ordering::Less)),
    ("reject", |state, args| select(state, args, false, false)),
    ("rejectattr", |state, args| select(state, args, true, false)),
    ("replace", |_, args| {
        let [value, old, new, most] = args.bind(["s", "old", "new", "count"], 3)?;
        let part = |value: Option<Value>| show(&value.unwrap_or_default());
        let most = count(most.as_ref(), "count")?;
        Ok(Value::from(replaced(&part(value)?, &part(old)?, &part(new)?, most)))
    }),
    ("reverse", reverse),
    ("round", round),
    ("safe", |_, args| show(args.alone()?).map(Value::from_safe_string)),
    ("select", |state, args| select(state, args, false, true)),
    ("selectattr", |state, args| select(state, args, true, true)),
    ("slice", slice),
    ("sort", sort),
    ("string", |_, args| match kind(args.alone()?) {
        Kind::Str(_) => Ok(args.subject()?.clone()),
        _ => show(args.subject()?).map(Value::from),
    }),
    ("sum", sum),
    ("title", |_, args| Ok(Value::from(title(&shown(args)?)))),
    ("tojson", json),
    ("trim", |_, args| {
        let [value, chars] = args.bind(["value", "chars"], 1)?;
        let value = show(&value.unwrap_or_default())?;
        let chars = chars.filter(|chars| !chars.is_none());
        let chars = chars.as_ref().map(|chars| text(chars, "the set of characters")).transpose()?;
        Ok(Value::from(stripped(&value, chars, true, true)))
    }),
    ("truncate", truncate),
    ("unique", unique),
    ("upper", |_, args| Ok(Value::from(shown(args)?.to_uppercase()))),
    ("wordcount", |_, args| {
        let value = shown(args)?;
        let words = value.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
    }),
    ("wordwrap", wordwrap),
];

pub const TESTS: &[(&str, Builtin)] = &[
    ("boolean", |_, args| is(args, |value| matches!(value, Kind::Bool(_)))),
    ("callable", |_, args| {
        let is_callable = args.alone()?.as_object().is_some_and(|object| {
            let names = ["::BoundMethod", "::BoxedFunction", "::Macro", "::Joiner"];
            names.iter().any(|name| crate::text::template::values::is_named(object, name))
        });
        Ok(Value::from(is_callable))
    }),
    ("defined", |_, args| is(args, |value| !matches!(value, Kind::Undefined))),
    ("divisibleby", |_, args| {
        let [value, by] = args.bind(["value", "num"], 2)?;
        let rest = arithmetic("%", &value.unwrap_or_default(), &by.unwrap_or_default())?;
        Ok(Value::from(equal(&rest, &Value::from(0))))
    }),
    ("escaped", |_, args| Ok(Value::from(args.alone()?.is_safe()))),
    ("even", |_, args| parity(args, 0)),
    ("false", |_, args| is(args, |value| matches!(value, Kind::Bool(false)))),
    ("filter", |_, args| Ok(Value::from(args.alone()?.as_str().is_some_and(|name| has(FILTERS, name))))),
    ("float", |_, args| is(args, |value| matches!(value, Kind::Float(_)))),
    ("integer", |_, args| is(args, |value| matches!(value, Kind::Int(_)))),
    ("iterable", |_, args| {
        is(args, |value| {
            let is_one = matches!(value, Kind::Undefined | Kind::Str(_) | Kind::List | Kind::Tuple | Kind::Dict);
            is_one || matches!(value, Kind::Sequence(_))
        })
    }),
    ("lower", |_, args| Ok(Value::from(is_of_case(&shown(args)?, true)))),
    ("mapping", |_, args| is(args, |value| matches!(value, Kind::Dict))),
    ("none", |_, args| is(args, |value| matches!(value, Kind::None))),
    ("number", |_, args| is(args, |value| matches!(value, Kind::Bool(_) | Kind::Int(_) | Kind::Float(_)))),
    ("odd", |_, args| parity(args, 1)),
    ("sameas", |_, args| {
        let [value, other] = args.bind(["value", "other"], 2)?;
        let (value, other) = (value.unwrap_or_default(), other.unwrap_or_default());
        Ok(Value::from(match (value.as_object(), other.as_object()) {
            (Some(_), Some(_)) => minijinja::tests::is_sameas(&value, &other),
            (None, None) => type_name(&value) == type_name(&other) && equal(&value, &other),
            _ => false,
        }))
    }),
    ("sequence", |_, args| {
        is(args, |value| match value {
            Kind::Sequence(sequence) => matches!(sequence.form, Form::Range { .. }),
            Kind::Undefined | Kind::Str(_) | Kind::List | Kind::Tuple | Kind::Dict => true,
            _ => false,
        })
    }),
    ("string", |_, args| is(args, |value| matches!(value, Kind::Str(_)))),
    ("test", |_, args| Ok(Value::from(args.alone()?.as_str().is_some_and(|name| has(TESTS, name))))),
    ("true", |_, args| is(args, |value| matches!(value, Kind::Bool(true)))),
    ("undefined", |_, args| is(args, |value| matches!(value, Kind::Undefined))),
    ("upper", |_, args| Ok(Value::from(is_of_case(&shown(args)?, false)))),
    ("!=", |_, args| compared(args, "!=")),
    ("<", |_, args| compared(args, "<")),
    ("<=", |_, args| compared(args, "<=")),
    ("==", |_, args| compared(args, "==")),
    (">", |_, args| compared(args, ">")),
    (">=", |_, args| compared(args, ">=")),
    ("eq", |_, args| compared(args, "==")),
    ("equalto", |_, args| compared(args, "==")),
    ("ge", |_, args| compared(args, ">=")),
    ("greaterthan", |_, args| compared(args, ">")),
    ("gt", |_, args| compared(args, ">")),
    ("in", |_, args| compared(args, "in")),
    ("le", |_, args| compared(args, "<=")),
    ("lessthan", |_, args| compared(args, "<")),
    ("lt", |_, args| compared(args, "<")),
    ("ne", |_, args| compared(args, "!=")),
];

pub fn has(registry: &[(&str, Builtin)], name: &str) -> bool {
    registry.iter().any(|(known, _)| *known == name)
}

fn shown(args: &Arguments) -> Result<String, Error> {
    show(args.alone()?)
}

fn is(args: &Arguments, test: impl Fn(Kind) -> bool) -> Result<Value, Error> {
    args.alone().map(|value| Value::from(test(kind(value))))
}

fn compared(args: &Arguments, op: &str) -> Result<Value, Error> {
    let [a, b] = args.bind(["a", "b"], 2)?;
    compare(op, &a.unwrap_or_default(), &b.unwrap_or_default()).map(Value::from)
}

fn parity(args: &Arguments, rest: i64) -> Result<Value, Error> {
    let of = arithmetic("%", args.alone()?, &Value::from(2))?;
    Ok(Value::from(equal(&of, &Value::from(rest))))
}

fn abs(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = args.alone()?;
    match Number::of(value) {
        Some(Number::Int(n)) => n.checked_abs().map(int).ok_or_else(|| refuse("an integer that is too large")),
        Some(Number::Float(x)) => Ok(Value::from(x.abs())),
        None => Err(refuse(format!("bad operand type for abs(): '{}'", type_name(value)))),
    }
}

fn escape(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = args.alone()?;
    if value.is_safe() { Ok(value.clone()) } else { Ok(Value::from_safe_string(escaped(&show(value)?))) }
}

fn default(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, other, lax] = args.bind(["value", "default_value", "boolean"], 1)?;
    let value = value.unwrap_or_default();
    let takes_other = value.is_undefined() || lax.is_some_and(|lax| lax.is_true()) && !value.is_true();
    Ok(if takes_other { other.unwrap_or_else(|| Value::from("")) } else { value })
}

fn title(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut begins = true;
    for c in value.chars() {
        match begins {
            true => out.extend(c.to_uppercase()),
            false => out.extend(c.to_lowercase()),
        }
        begins = "-({[<".contains(c) || is_space(c);
    }
    out
}

fn float(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, default] = args.bind(["value", "default"], 1)?;
    let value = value.unwrap_or_default();
    if value.is_undefined() {
        return Err(undefined("what becomes a float"));
    }
    let number = value.as_str().map_or_else(|| Number::of(&value).map(Number::float), read_float);
    Ok(number.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
}

/// `float(text)`.
fn read_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    without_underscores(text)?.parse().ok()
}

/// Digits without the underscores between them.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_alphanumeric);
    let mut places = (0..bytes.len()).filter(|&i| bytes[i] == b'_');
    places.all(|i| is_digit(i.checked_sub(1)) && is_digit(Some(i + 1))).then(|| text.replace('_', ""))
}

/// `int(text, base)`; `None` if invalid or too large here.
fn read_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim_matches(is_space);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefix = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find(|(prefix, _)| lower.starts_with(prefix));
    let (digits, base) = match prefix {
        Some((_, of)) if base == of || base == 0 => (digits[2..].strip_prefix('_').unwrap_or(&digits[2..]), of),
        _ => (digits, if base == 0 { 10 } else { base }),
    };
    let digits = without_underscores(digits)?;
    if !(2..=36).contains(&base) || digits.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(&digits, base).ok().map(|n| if is_negative { -n } else { n })
}

fn whole(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, default, base] = args.bind(["value", "default", "base"], 1)?;
    let value = value.unwrap_or_default();
    let default = default.unwrap_or_else(|| Value::from(0));
    let base = u32::try_from(count(base.as_ref(), "base")?.unwrap_or(10)).unwrap_or(0);
    let of_float = |x: f64| match x.abs() < 1e38 {
        true => Some(int(x.trunc() as i128)),
        false => None,
    };
    match kind(&value) {
        Kind::Undefined => Err(undefined("what becomes an integer")),
        Kind::Str(text) => {
            let n = read_int(text, base).map(int);
            Ok(n.or_else(|| read_float(text).and_then(of_float)).unwrap_or(default))
        }
        Kind::Float(x) if x.is_nan() => Ok(default),
        Kind::Float(x) => of_float(x).ok_or_else(|| refuse("cannot convert a float of that size to an integer")),
        Kind::Int(_) => Ok(value),
        Kind::Bool(b) => Ok(Value::from(i64::from(b))),
        _ => Ok(default),
    }
}

fn round(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, precision, method] = args.bind(["value", "precision", "method"], 1)?;
    let value = value.unwrap_or_default();
    let precision = count(precision.as_ref(), "precision")?.unwrap_or(0).clamp(-400, 400) as i32;
    let method = method.map_or_else(|| Ok("common".to_owned()), |method| show(&method))?;
    let number = Number::of(&value).ok_or_else(|| refuse(format!("type {} cannot be rounded", type_name(&value))))?;
    let power = libm::pow(10.0, f64::from(precision));
    match (method.as_str(), number) {
        ("ceil", number) => Ok(Value::from((number.float() * power).ceil() / power)),
        ("floor", number) => Ok(Value::from((number.float() * power).floor() / power)),
        ("common", Number::Float(x)) if !x.is_finite() => Ok(Value::from(x)),
        ("common", Number::Float(x)) if precision >= 0 => {
            let text = format!("{x:.*}", precision.unsigned_abs() as usize);
            Ok(Value::from(text.parse::<f64>().unwrap_or(x)))
        }
        ("common", Number::Float(x)) => Ok(Value::from((x * power).round_ties_even() / power)),
        ("common", Number::Int(n)) if precision >= 0 => Ok(int(n)),
        ("common", Number::Int(n)) => {
            let Some(unit) = 10i128.checked_pow(precision.unsigned_abs()) else { return Ok(Value::from(0)) };
            let (down, rest) = (n.div_euclid(unit), n.rem_euclid(unit));
            let up = match (2 * rest).cmp(&unit) {
                Ordering::Less => 0,
                Ordering::Equal => down & 1,
                Ordering::Greater => 1,
            };
            Ok(int((down + up) * unit))
        }
        _ => Err(refuse("method must be common, ceil or floor")),
    }
}

fn format(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let format = show(args.subject()?)?;
    match (&args.placed[1..], args.named.as_slice()) {
        (_, []) => percent(&format, &tuple(args.placed[1..].to_vec())),
        ([], named) => {
            let named = named.iter().map(|(name, value)| (Value::from(name.as_str()), value.clone()));
            percent(&format, &Value::from_pairs(named))
        }
        _ => Err(refuse("can't handle positional and keyword arguments at the same time")),
    }
}

/// Puts a text before every nonempty line, but before the first line only on request.
fn indent(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, width, first, blank] = args.bind(["s", "width", "first", "blank"], 1)?;
    let value = value.unwrap_or_default();
    let value = text(&value, "what is indented")?;
    let is_set = |flag: Option<Value>| flag.is_some_and(|flag| flag.is_true());
    let (first, blank) = (is_set(first), is_set(blank));
    let (pad, times) = match &width {
        Some(width) if width.as_str().is_some() => (width.as_str().unwrap_or_default(), 1),
        width => (" ", usize::try_from(count(width.as_ref(), "width")?.unwrap_or(4)).unwrap_or(0)),
    };
    if times > MAX_OUTPUT {
        return Err(refuse(format!("the width of \"indent\" is {times}, which is too large")));
    }
    let mut out = Bounded::default();
    for (i, line) in lines(&format!("{value}\n"), false).into_iter().enumerate() {
        out.push(if i > 0 { "\n" } else { "" })?;
        if if i == 0 { first } else { blank || !line.is_empty() } {
            (0..times).try_for_each(|_| out.push(pad))?;
        }
        out.push(line)?;
    }
    Ok(out.value())
}

fn truncate(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, most, cuts_words, end, leeway] = args.bind(["s", "length", "killwords", "end", "leeway"], 1)?;
    let value = value.unwrap_or_default();
    let value = text(&value, "what is truncated")?;
    let end = end.map_or_else(|| Ok("...".to_owned()), |end| show(&end))?;
    let most = count(most.as_ref(), "length")?.unwrap_or(255);
    let leeway = count(leeway.as_ref(), "leeway")?.unwrap_or(5);
    let kept = usize::try_from(most).ok().and_then(|n| n.checked_sub(end.chars().count()));
    let (Some(kept), 0..) = (kept, leeway) else { return Err(refuse("expected a longer length or leeway")) };
    if i64::try_from(value.chars().count()).is_ok_and(|n| n <= most.saturating_add(leeway)) {
        return Ok(Value::from(value));
    }
    let cut: String = value.chars().take(kept).collect();
    let cut = match cut.rsplit_once(' ') {
        Some((words, _)) if !cuts_words.is_some_and(|cuts| cuts.is_true()) => words,
        _ => &cut,
    };
    Ok(Value::from(format!("{cut}{end}")))
}

/// Returns Python's `textwrap` for each line, without breaking words at hyphens.
fn wordwrap(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, width, breaks, by, hyphens] =
        args.bind(["s", "width", "break_long_words", "wrapstring", "break_on_hyphens"], 1)?;
    let value = show(&value.unwrap_or_default())?;
    let width = count(width.as_ref(), "width")?.unwrap_or(79);
    let breaks = breaks.is_none_or(|breaks| breaks.is_true());
    if value.contains(['-', '\u{2014}']) && hyphens.is_none_or(|hyphens| hyphens.is_true()) {
        return Err(Error::new(ErrorKind::UnknownFilter, "\"wordwrap\" at hyphens is not supported"));
    }
    let width = usize::try_from(width).ok().filter(|&n| n > 0).ok_or_else(|| refuse("invalid width (must be > 0)"))?;
    let by = by.filter(|by| !by.is_none()).map_or_else(|| Ok("\n".to_owned()), |by| show(&by))?;
    let mut out = Bounded::default();
    for (i, line) in lines(&value, false).into_iter().enumerate() {
        out.push(if i > 0 { &by } else { "" })?;
        for (j, part) in wrapped(line, width, breaks).into_iter().enumerate() {
            out.push(if j > 0 { &by } else { "" })?;
            out.push(&part)?;
        }
    }
    Ok(out.value())
}

fn wrapped(line: &str, width: usize, breaks: bool) -> Vec<String> {
    let is_space = |c: char| matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ');
    let mut chunks: Vec<Vec<char>> = Vec::new();
    for c in line.chars() {
        match chunks.last_mut() {
            Some(chunk) if is_space(chunk[0]) == is_space(c) => chunk.push(c),
            _ => chunks.push(vec![c]),
        }
    }
    chunks.reverse();
    let mut out: Vec<String> = Vec::new();
    while let Some(first) = chunks.last() {
        if is_space(first[0]) && !out.is_empty() {
            chunks.pop();
            continue;
        }
        let (mut row, mut len): (Vec<Vec<char>>, usize) = (Vec::new(), 0);
        while let Some(chunk) = chunks.pop_if(|chunk| len + chunk.len() <= width) {
            len += chunk.len();
            row.push(chunk);
        }
        if let Some(long) = chunks.last_mut().filter(|chunk| chunk.len() > width) {
            if breaks {
                row.push(long.drain(..width - len).collect());
            } else if row.is_empty() {
                row.extend(chunks.pop());
            }
        }
        row.pop_if(|chunk| chunk.first().is_some_and(|c| is_space(*c)));
        if !row.is_empty() {
            out.push(row.concat().into_iter().collect());
        }
    }
    out
}

fn json(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, ascii, indent, separators, sorts] =
        args.bind(["x", "ensure_ascii", "indent", "separators", "sort_keys"], 1)?;
    let is_set = |flag: Option<Value>| flag.is_some_and(|flag| flag.is_true());
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(indent) => indent.to_owned(),
            None => " ".repeat(usize::try_from(count(Some(&indent), "indent")?.unwrap_or(0)).unwrap_or(0).min(1000)),
        }),
    };
    let (comma, colon) = match separators.filter(|separators| !separators.is_none()) {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(separators) => match items(&separators)?.as_slice() {
            [comma, colon] => (text(comma, "a separator")?.to_owned(), text(colon, "a separator")?.to_owned()),
            _ => return Err(refuse("\"separators\" holds another number than two")),
        },
    };
    let style = Style { ascii: is_set(ascii), indent, comma, colon, sorts: is_set(sorts) };
    to_json(&value.unwrap_or_default(), &style)
}

/// Options as the last argument of a call.
fn options(named: &[(String, Value)]) -> Option<Value> {
    (!named.is_empty()).then(|| Value::from(named.iter().cloned().collect::<Kwargs>()))
}

/// Returns the items for `map` and `select`: none for a falsy value.
fn items_if_true(args: &Arguments) -> Result<Vec<Value>, Error> {
    let value = args.subject()?;
    if value.is_true() { items(value) } else { Ok(Vec::new()) }
}

fn map(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let all = items_if_true(args)?;
    let mut out = Vec::new();
    if let [_] = args.placed.as_slice() {
        let [_, attribute, default] = args.bind(["value", "attribute", "default"], 1)?;
        let attribute = attribute.ok_or_else(|| refuse("map requires a filter argument"))?;
        let keys = Keys::new(Some(&attribute), false, default, None);
        for item in &all {
            out.push(keys.find(state, item)?);
        }
        return Ok(Sequence::generator(out));
    }
    let name = name_of(state, &args.placed[1])?;
    if !has(FILTERS, &name) {
        return Err(Error::new(ErrorKind::UnknownFilter, format!("No filter named '{name}'.")));
    }
    for item in all {
        let rest = args.placed[2..].iter().cloned().chain(options(&args.named));
        out.push(state.apply_filter(&name, &std::iter::once(item).chain(rest).collect::<Vec<_>>())?);
    }
    Ok(Sequence::generator(out))
}

fn name_of(state: &State, name: &Value) -> Result<String, Error> {
    let name = marks_of(state)?.unmarked(name);
    text(&name, "the name of a filter or test").map(str::to_owned)
}

/// `select` and `reject`; with `by_attribute`, `selectattr` and `rejectattr`.
fn select(state: &mut State, args: &Arguments, by_attribute: bool, wanted: bool) -> Result<Value, Error> {
    let all = items_if_true(args)?;
    let mut rest = &args.placed[1..];
    let mut keys = Keys::new(None, false, None, None);
    if by_attribute {
        let (attribute, others) = rest.split_first().ok_or_else(|| refuse("Missing parameter for attribute name"))?;
        keys = Keys::new(Some(attribute), false, None, None);
        rest = others;
    }
    let test = rest.first().map(|name| name_of(state, name)).transpose()?;
    if let Some(name) = test.as_ref().filter(|name| !has(TESTS, name)) {
        return Err(Error::new(ErrorKind::UnknownTest, format!("No test named '{name}'.")));
    }
    let mut out = Vec::new();
    for item in all {
        let value = keys.find(state, &item)?;
        let passes = match &test {
            None => value.is_true(),
            Some(test) => {
                let rest = rest[1..].iter().cloned().chain(options(&args.named));
                state.perform_test(test, &std::iter::once(value).chain(rest).collect::<Vec<_>>())?
            }
        };
        if passes == wanted {
            out.push(item);
        }
    }
    Ok(Sequence::generator(out))
}
