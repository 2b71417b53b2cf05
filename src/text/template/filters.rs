//! Filters, tests and functions of Jinja2 as the owner's library sets them up.
//!
//! Values may carry marks. Those of `MOVERS` in `template/marks.rs` get them as they are and look at them without.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use minijinja::functions;
use minijinja::value::{Kwargs, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value};

use crate::text::template::arguments::{Arguments, count, text};
use crate::text::template::error::{MAX_OUTPUT, refuse};
use crate::text::template::format::{Bounded, percent};
use crate::text::template::json::{Style, to_json};
use crate::text::template::marks::marks_of;
use crate::text::template::methods::{capitalized, is_of_case, is_space, lines, padded, replaced, stripped};
use crate::text::template::values::{
    Form, Kind, Number, Sequence, add, attr, compare, equal, escaped, int, item, items, kind, length, order, pairs,
    show, tuple, type_name, undefined,
};

/// What is called in a template; the first argument of a filter and of a test is its value.
pub type Builtin = fn(&mut State, &Arguments) -> Result<Value, Error>;

pub const FILTERS: &[(&str, Builtin)] = &[
    ("abs", abs),
    ("attr", |_, args| {
        let [value, name] = args.bind(["obj", "name"], 2)?;
        let (value, name) = (value.unwrap_or_default(), name.unwrap_or_default());
        let name = text(&name, "the name of an attribute")?;
        match kind(&value) {
            Kind::Dict if !crate::text::template::values::has_method(&value, name) => Ok(Value::UNDEFINED),
            _ => attr(&value, name),
        }
    }),
    ("batch", batch),
    ("capitalize", |_, args| Ok(Value::from(capitalized(&shown(args)?)))),
    ("center", |_, args| {
        let [value, width] = args.bind(["value", "width"], 1)?;
        padded(&show(&value.unwrap_or_default())?, count(width.as_ref(), "width")?.unwrap_or(80), ' ', "center")
    }),
    ("count", |_, args| length(alone(args)?).map(Value::from)),
    ("d", default),
    ("default", default),
    ("dictsort", dictsort),
    ("e", escape),
    ("escape", escape),
    ("first", |_, args| Ok(items(alone(args)?)?.into_iter().next().unwrap_or(Value::UNDEFINED))),
    ("float", float),
    ("forceescape", |_, args| Ok(Value::from_safe_string(escaped(&shown(args)?)))),
    ("format", format),
    ("groupby", groupby),
    ("indent", indent),
    ("int", whole),
    ("items", |_, args| match kind(alone(args)?) {
        Kind::Undefined => Ok(Sequence::generator(Vec::new())),
        Kind::Dict => {
            let all = pairs(args.subject()?).into_iter().map(|(key, value)| tuple(vec![key, value]));
            Ok(Sequence::generator(all.collect()))
        }
        _ => Err(refuse("Can only get item pairs from a mapping.")),
    }),
    ("join", join),
    ("last", |_, args| match kind(alone(args)?) {
        Kind::Sequence(Sequence { form: Form::Generator, .. }) => Err(refuse("'generator' object is not reversible")),
        _ => Ok(items(args.subject()?)?.pop().unwrap_or(Value::UNDEFINED)),
    }),
    ("length", |_, args| length(alone(args)?).map(Value::from)),
    ("list", |_, args| items(alone(args)?).map(Value::from)),
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
    ("safe", |_, args| show(alone(args)?).map(Value::from_safe_string)),
    ("select", |state, args| select(state, args, false, true)),
    ("selectattr", |state, args| select(state, args, true, true)),
    ("slice", slice),
    ("sort", sort),
    ("string", |_, args| match kind(alone(args)?) {
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
        let is_callable = alone(args)?.as_object().is_some_and(|object| {
            let names = ["::BoundMethod", "::BoxedFunction", "::Macro", "::Joiner"];
            names.iter().any(|name| crate::text::template::values::is_named(object, name))
        });
        Ok(Value::from(is_callable))
    }),
    ("defined", |_, args| is(args, |value| !matches!(value, Kind::Undefined))),
    ("divisibleby", |_, args| {
        let [value, by] = args.bind(["value", "num"], 2)?;
        let rest = crate::text::template::values::arithmetic("%", &value.unwrap_or_default(), &by.unwrap_or_default())?;
        Ok(Value::from(equal(&rest, &Value::from(0))))
    }),
    ("escaped", |_, args| Ok(Value::from(alone(args)?.is_safe()))),
    ("even", |_, args| parity(args, 0)),
    ("false", |_, args| is(args, |value| matches!(value, Kind::Bool(false)))),
    ("filter", |_, args| Ok(Value::from(alone(args)?.as_str().is_some_and(|name| has(FILTERS, name))))),
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
    ("test", |_, args| Ok(Value::from(alone(args)?.as_str().is_some_and(|name| has(TESTS, name))))),
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

pub const FUNCTIONS: &[(&str, Builtin)] = &[
    ("cycler", |_, args| match args.placed.as_slice() {
        [] => Err(refuse("at least one item has to be provided")),
        items => Ok(Value::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) })),
    }),
    ("dict", |_, args| dict(args).map(Value::from_pairs)),
    ("joiner", |_, args| {
        let [by] = args.bind(["sep"], 0)?;
        let by = by.map_or_else(|| Ok(", ".to_owned()), |by| show(&by))?;
        Ok(Value::from_object(Joiner { by, used: AtomicBool::new(false) }))
    }),
    ("lipsum", |_, args| Err(Error::new(ErrorKind::UnknownFunction, args.name.clone()))),
    ("namespace", |state, args| {
        let members = dict(args)?;
        for (name, _) in &members {
            if name.as_str().is_some_and(|name| name.starts_with('_')) {
                return Err(refuse(format!("{name} begins with an underscore, which a namespace cannot store")));
            }
        }
        Value::from_function(functions::namespace).call(state, &[Value::from_pairs(members)])
    }),
    ("raise_exception", |_, args| Err(refuse(show(alone(args)?)?))),
    ("range", range),
];

pub fn has(registry: &[(&str, Builtin)], name: &str) -> bool {
    registry.iter().any(|(known, _)| *known == name)
}

/// The only argument of a call.
fn alone(args: &Arguments) -> Result<&Value, Error> {
    match (args.placed.as_slice(), args.named.as_slice()) {
        ([value], []) => Ok(value),
        _ => Err(refuse(format!("{}() takes no further arguments", args.name))),
    }
}

fn shown(args: &Arguments) -> Result<String, Error> {
    show(alone(args)?)
}

fn is(args: &Arguments, test: impl Fn(Kind) -> bool) -> Result<Value, Error> {
    alone(args).map(|value| Value::from(test(kind(value))))
}

fn compared(args: &Arguments, op: &str) -> Result<Value, Error> {
    let [a, b] = args.bind(["a", "b"], 2)?;
    compare(op, &a.unwrap_or_default(), &b.unwrap_or_default()).map(Value::from)
}

fn parity(args: &Arguments, rest: i64) -> Result<Value, Error> {
    let of = crate::text::template::values::arithmetic("%", alone(args)?, &Value::from(2))?;
    Ok(Value::from(equal(&of, &Value::from(rest))))
}

fn abs(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = alone(args)?;
    match Number::of(value) {
        Some(Number::Int(n)) => n.checked_abs().map(int).ok_or_else(|| refuse("an integer that is too large")),
        Some(Number::Float(x)) => Ok(Value::from(x.abs())),
        None => Err(refuse(format!("bad operand type for abs(): '{}'", type_name(value)))),
    }
}

fn escape(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = alone(args)?;
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

/// `int(text, base)`; `Err` where it is too large here.
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

/// Puts a text before every line that is not empty, before the first on request.
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
        return Err(refuse(format!("a width of {times} in \"indent\"")));
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

/// Python's `textwrap` for each line; words are not broken at hyphens.
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

/// The keys by which items are compared: attributes, of which several are separated by commas, in lower case unless
/// given otherwise, without marks.
struct Keys {
    paths: Vec<Vec<Value>>,
    default: Option<Value>,
    folds_case: bool,
}

impl Keys {
    fn new(attribute: Option<&Value>, several: bool, default: Option<Value>, case: Option<Value>) -> Keys {
        let part = |part: &str| part.parse::<i64>().map_or_else(|_| Value::from(part), Value::from);
        let path = |path: &str| path.split('.').map(part).collect();
        let paths = match attribute.filter(|attribute| !attribute.is_none()) {
            None => vec![Vec::new()],
            Some(attribute) => match attribute.as_str() {
                Some(paths) if several => paths.split(',').map(path).collect(),
                Some(whole) => vec![path(whole)],
                None => vec![vec![attribute.clone()]],
            },
        };
        let default = default.filter(|default| !default.is_none());
        Keys { paths, default, folds_case: !case.is_some_and(|case| case.is_true()) }
    }

    /// The value at the first path.
    fn find(&self, state: &mut State, value: &Value) -> Result<Value, Error> {
        self.paths.first().map_or_else(|| Ok(value.clone()), |path| self.walk(state, value, path))
    }

    fn walk(&self, state: &mut State, value: &Value, path: &[Value]) -> Result<Value, Error> {
        let marks = marks_of(state)?;
        let mut value = value.clone();
        for key in path {
            value = item(&value, &marks.item(&value, key))?;
            if let (true, Some(default)) = (value.is_undefined(), &self.default) {
                value = default.clone();
            }
        }
        Ok(value)
    }

    fn key(&self, state: &mut State, value: &Value) -> Result<Value, Error> {
        let mut keys = Vec::new();
        for path in &self.paths {
            let found = self.walk(state, value, path)?;
            let found = marks_of(state)?.unmarked(&found);
            keys.push(match found.as_str() {
                Some(text) if self.folds_case => Value::from(text.to_lowercase()),
                _ => found,
            });
        }
        Ok(if let [_] = keys.as_slice() { keys.remove(0) } else { Value::from(keys) })
    }

    /// Items with their keys, sorted by these.
    fn sorted(&self, state: &mut State, items: Vec<Value>, reverses: bool) -> Result<Vec<(Value, Value)>, Error> {
        let mut keyed = Vec::new();
        for item in items {
            keyed.push((self.key(state, &item)?, item));
        }
        sort_keyed(&mut keyed, reverses)?;
        Ok(keyed)
    }
}

fn sort_keyed(keyed: &mut [(Value, Value)], reverses: bool) -> Result<(), Error> {
    let mut failed = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let (a, b) = if reverses { (b, a) } else { (a, b) };
        order(a, b).unwrap_or_else(|e| failed.replace(e).and(None)).unwrap_or(Ordering::Equal)
    });
    failed.map_or(Ok(()), Err)
}

fn sort(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, reverse, case, attribute] = args.bind(["value", "reverse", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), true, None, case);
    let sorted = keys.sorted(state, items(&value.unwrap_or_default())?, reverse.is_some_and(|is| is.is_true()))?;
    Ok(Value::from(sorted.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

fn dictsort(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, case, by, reverse] = args.bind(["value", "case_sensitive", "by", "reverse"], 1)?;
    let at = match by.as_ref().map_or(Some("key"), |by| by.as_str()) {
        Some("key") => 0,
        Some("value") => 1,
        _ => return Err(refuse("You can only sort by either \"key\" or \"value\"")),
    };
    let value = value.unwrap_or_default();
    if !matches!(kind(&value), Kind::Dict) {
        return Err(refuse(format!("'{}' object has no items to sort", type_name(&value))));
    }
    let all = pairs(&value).into_iter().map(|(key, value)| tuple(vec![key, value])).collect();
    let keys = Keys::new(Some(&Value::from(at)), false, None, case);
    let sorted = keys.sorted(state, all, reverse.is_some_and(|is| is.is_true()))?;
    Ok(Value::from(sorted.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

fn groupby(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, attribute, default, case] = args.bind(["value", "attribute", "default", "case_sensitive"], 2)?;
    let keys = Keys::new(attribute.as_ref(), false, default, case);
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keys.sorted(state, items(&value.unwrap_or_default())?, false)? {
        match groups.last_mut() {
            Some((last, group)) if equal(last, &key) => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut out = Vec::new();
    for (_, group) in groups {
        let key = group.first().map_or(Ok(Value::UNDEFINED), |first| keys.find(state, first))?;
        out.push(tuple(vec![key, Value::from(group)]));
    }
    Ok(Value::from(out))
}

fn unique(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, case, attribute] = args.bind(["value", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, case);
    let (mut seen, mut out) = (HashSet::new(), Vec::new());
    for item in items(&value.unwrap_or_default())? {
        let key = keys.key(state, &item)?;
        // Equal numbers are one key.
        let key = match Number::of(&key) {
            Some(Number::Int(n)) => int(n),
            _ if matches!(kind(&key), Kind::List | Kind::Dict) => {
                return Err(refuse(format!("unhashable type: '{}'", type_name(&key))));
            }
            _ => key,
        };
        if seen.insert(key) {
            out.push(item);
        }
    }
    Ok(Sequence::generator(out))
}

fn least(state: &mut State, args: &Arguments, wanted: Ordering) -> Result<Value, Error> {
    let [value, case, attribute] = args.bind(["value", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, case);
    let mut best: Option<(Value, Value)> = None;
    for item in items(&value.unwrap_or_default())? {
        let key = keys.key(state, &item)?;
        let is_better = best.as_ref().map_or(Ok(true), |(of, _)| Ok::<_, Error>(order(&key, of)? == Some(wanted)))?;
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

fn sum(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, attribute, start] = args.bind(["iterable", "attribute", "start"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, None);
    let mut sum = start.unwrap_or_else(|| Value::from(0));
    if sum.as_str().is_some() {
        return Err(refuse("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    for item in items(&value.unwrap_or_default())? {
        sum = add(&sum, &keys.find(state, &item)?)?;
    }
    Ok(sum)
}

fn join(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, by, attribute] = args.bind(["value", "d", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, None);
    let by = by.map_or_else(|| Ok(String::new()), |by| show(&by))?;
    let mut out = String::new();
    for (i, item) in items(&value.unwrap_or_default())?.iter().enumerate() {
        out.push_str(if i > 0 { &by } else { "" });
        out.push_str(&show(&keys.find(state, item)?)?);
    }
    Ok(Value::from(out))
}

fn reverse(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = alone(args)?;
    let mut all = items(value).map_err(|_| refuse("argument must be iterable"))?;
    all.reverse();
    Ok(match kind(value) {
        Kind::Str(text) => Value::from(text.chars().rev().collect::<String>()),
        Kind::Sequence(Sequence { form: Form::Generator, .. }) => Value::from(all),
        _ => Sequence::generator(all),
    })
}

fn batch(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, size, fill] = args.bind(["value", "linecount", "fill_with"], 2)?;
    let size = usize::try_from(count(size.as_ref(), "linecount")?.unwrap_or(0)).unwrap_or(0).max(1);
    let mut rows: Vec<Vec<Value>> = items(&value.unwrap_or_default())?.chunks(size).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (fill.filter(|fill| !fill.is_none()), rows.last_mut()) {
        last.resize(size, fill);
    }
    Ok(Sequence::generator(rows.into_iter().map(Value::from).collect()))
}

fn slice(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, slices, fill] = args.bind(["value", "slices", "fill_with"], 2)?;
    let all = items(&value.unwrap_or_default())?;
    let slices = usize::try_from(count(slices.as_ref(), "slices")?.unwrap_or(0)).unwrap_or(0);
    let (each, longer) = (all.len().checked_div(slices).unwrap_or(0), all.len().checked_rem(slices).unwrap_or(0));
    let fill = fill.filter(|fill| !fill.is_none());
    let mut rest = all.into_iter();
    let mut out = Vec::new();
    for i in 0..slices {
        let mut part: Vec<Value> = rest.by_ref().take(each + usize::from(i < longer)).collect();
        part.extend(fill.clone().filter(|_| i >= longer));
        out.push(Value::from(part));
    }
    Ok(Sequence::generator(out))
}

/// Options as the last argument of a call.
fn options(named: &[(String, Value)]) -> Option<Value> {
    (!named.is_empty()).then(|| Value::from(named.iter().cloned().collect::<Kwargs>()))
}

/// The items that `map` and `select` go over: none of a value that is false, whatever it is.
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

/// `select`, `reject`, and both by attributes.
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

/// `dict(mapping or pairs, **named)`.
fn dict(args: &Arguments) -> Result<Vec<(Value, Value)>, Error> {
    let mut all = match args.placed.as_slice() {
        [] => Vec::new(),
        [map] if matches!(kind(map), Kind::Dict) => pairs(map),
        [list] => {
            let pair = |pair: Value| match items(&pair)?.as_slice() {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(refuse("dictionary update sequence element has another length than 2")),
            };
            items(list)?.into_iter().map(pair).collect::<Result<_, _>>()?
        }
        _ => return Err(refuse(format!("{} expected at most 1 argument, got {}", args.name, args.placed.len()))),
    };
    all.extend(args.named.iter().map(|(name, value)| (Value::from(name.as_str()), value.clone())));
    Ok(all)
}

/// Longest range that Jinja2's sandbox makes.
const MAX_RANGE: i64 = 100_000;

fn range(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let whole = |value: &Value| {
        count(Some(value), "a bound of a range")?.ok_or_else(|| refuse("a bound of a range is no integer"))
    };
    let (start, stop, step) = match (args.placed.as_slice(), args.named.as_slice()) {
        ([stop], []) => (0, whole(stop)?, 1),
        ([start, stop], []) => (whole(start)?, whole(stop)?, 1),
        ([start, stop, step], []) => (whole(start)?, whole(stop)?, whole(step)?),
        _ => return Err(refuse("range expects one to three arguments")),
    };
    let span = if step > 0 { stop.checked_sub(start) } else { start.checked_sub(stop) };
    match span {
        _ if step == 0 => Err(refuse("range() arg 3 must not be zero")),
        Some(span) if span <= 0 || (span.unsigned_abs() - 1) / step.unsigned_abs() < MAX_RANGE.unsigned_abs() => {
            Ok(Sequence::range(start, stop, step))
        }
        _ => Err(refuse(format!("Range too big. At most {MAX_RANGE} numbers are supported."))),
    }
}

/// Hands out its items in turn.
#[derive(Debug)]
pub struct Cycler {
    pub items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.items[self.at.load(Relaxed)].clone())
    }

    fn call_method(self: &Arc<Self>, _: &mut State, name: &str, _: &[Value]) -> Result<Value, Error> {
        match name {
            "next" => {
                let at = self.at.load(Relaxed);
                self.at.store((at + 1) % self.items.len(), Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(ErrorKind::UnknownMethod.into()),
        }
    }
}

/// Writes nothing the first time, and then what stands between items.
#[derive(Debug)]
struct Joiner {
    by: String,
    used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State, _: &[Value]) -> Result<Value, Error> {
        Ok(Value::from(if self.used.swap(true, Relaxed) { self.by.as_str() } else { "" }))
    }
}
