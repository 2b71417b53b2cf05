//! Items, attributes, methods and slices with Python's semantics.

use minijinja::{Error, Value};

use crate::text::template::error::refuse;
use crate::text::template::operators::equal;
use crate::text::template::values::{
    BoundMethod, Form, Kind, Sequence, items, kind, pairs, tuple, type_name, undefined,
};

fn index(key: &Value) -> Option<i128> {
    match kind(key) {
        Kind::Int(n) => Some(n),
        Kind::Bool(b) => Some(i128::from(b)),
        _ => None,
    }
}

/// Computes `value[key]`, undefined if missing.
pub fn item(value: &Value, key: &Value) -> Result<Value, Error> {
    let at = |len: usize| {
        let i = index(key)?;
        let i = if i < 0 { i + len as i128 } else { i };
        usize::try_from(i).ok().filter(|&i| i < len)
    };
    match kind(value) {
        Kind::Undefined => Err(undefined(&format!("the value in which {key} is looked up"))),
        Kind::Str(text) => match index(key) {
            Some(_) => {
                let c = at(text.chars().count()).and_then(|i| text.chars().nth(i));
                Ok(c.map_or(Value::UNDEFINED, |c| Value::from(c.to_string())))
            }
            None => attribute(value, key),
        },
        Kind::List | Kind::Tuple => match index(key) {
            Some(_) => Ok(at(value.len().unwrap_or(0))
                .map_or(Value::UNDEFINED, |i| value.get_item_by_index(i).unwrap_or(Value::UNDEFINED))),
            None => attribute(value, key),
        },
        Kind::Sequence(sequence) if matches!(sequence.form, Form::Range { .. }) => {
            Ok(at(sequence.items.len()).and_then(|i| sequence.items.get(i).cloned()).unwrap_or(Value::UNDEFINED))
        }
        Kind::Dict => {
            let found = value.get_item(key)?;
            if !found.is_undefined() {
                return Ok(found);
            }
            match pairs(value).into_iter().find(|(name, _)| !matches!(kind(key), Kind::Str(_)) && equal(name, key)) {
                Some((_, value)) => Ok(value),
                None => attribute(value, key),
            }
        }
        Kind::Other => value.get_item(key),
        _ => attribute(value, key),
    }
}

fn attribute(value: &Value, key: &Value) -> Result<Value, Error> {
    Ok(key.as_str().and_then(|name| method(value, name)).unwrap_or(Value::UNDEFINED))
}

/// Methods of Python's strings, of lists, and of dicts.
const OF_TEXTS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const OF_LISTS: &[&str] = &["copy", "count", "index"];
const OF_DICTS: &[&str] = &["copy", "fromkeys", "get", "items", "keys", "values"];
/// Methods that modify a value, which the sandbox of the reference implementation rejects. llama.cpp's templates call
/// them on lists created by the template; `template/lists.rs` implements that.
const UNSAFE_OF_LISTS: &[&str] = &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const UNSAFE_OF_DICTS: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];

/// True if values of this kind have the method.
pub fn has_method(value: &Value, name: &str) -> bool {
    let names = match kind(value) {
        Kind::Str(_) => OF_TEXTS,
        Kind::List => OF_LISTS,
        Kind::Tuple => &OF_LISTS[1..],
        Kind::Dict => OF_DICTS,
        _ => return false,
    };
    names.contains(&name)
}

/// True for a method that modifies its value.
pub fn is_unsafe_method(value: &Value, name: &str) -> bool {
    match kind(value) {
        Kind::List => UNSAFE_OF_LISTS.contains(&name),
        Kind::Dict => UNSAFE_OF_DICTS.contains(&name),
        _ => false,
    }
}

/// Returns a method of Python's types, which a template may look up without calling it.
fn method(value: &Value, name: &str) -> Option<Value> {
    has_method(value, name).then(|| Value::from_object(BoundMethod { value: value.clone(), name: name.to_owned() }))
}

const OF_NUMBERS: [&str; 4] = ["denominator", "imag", "numerator", "real"];

/// Computes `value.name`: methods take precedence over items.
pub fn attr(value: &Value, name: &str) -> Result<Value, Error> {
    match kind(value) {
        Kind::Undefined => Err(undefined(&format!("the value in which {name:?} is looked up"))),
        Kind::Other => value.get_attr(name),
        Kind::Tuple if matches!(name, "grouper" | "list") && value.len() == Some(2) => {
            value.get_item_by_index(usize::from(name == "list"))
        }
        Kind::Dict => match method(value, name) {
            Some(method) => Ok(method),
            None if is_unsafe_method(value, name) => Ok(Value::UNDEFINED),
            None => value.get_attr(name),
        },
        Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) if OF_NUMBERS.contains(&name) => {
            Err(crate::text::template::error::unsupported(&format!("the attribute {name:?} of a number")))
        }
        _ => Ok(method(value, name).unwrap_or(Value::UNDEFINED)),
    }
}

/// Returns the indices that a slice takes of `len`.
pub fn slice_places(len: usize, bounds: [&Value; 3]) -> Result<(Vec<usize>, [i128; 3]), Error> {
    let bound = |value: &Value| match (kind(value), index(value)) {
        (Kind::None, _) => Ok(None),
        (_, Some(i)) => Ok(Some(i.clamp(i128::from(i64::MIN), i128::from(i64::MAX)))),
        _ => Err(refuse("slice indices must be integers or None")),
    };
    let (start, stop, step) = (bound(bounds[0])?, bound(bounds[1])?, bound(bounds[2])?.unwrap_or(1));
    if step == 0 {
        return Err(refuse("slice step cannot be zero"));
    }
    let n = len as i128;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |i: Option<i128>, default| i.map_or(default, |i| if i < 0 { (i + n).max(low) } else { i.min(high) });
    let (start, stop) =
        if step > 0 { (place(start, 0), place(stop, n)) } else { (place(start, n - 1), place(stop, -1)) };
    let mut places = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        places.push(usize::try_from(at).unwrap_or(0));
        at += step;
    }
    Ok((places, [start, stop, step]))
}

/// Computes `value[start:stop:step]`.
pub fn slice(value: &Value, bounds: [&Value; 3]) -> Result<Value, Error> {
    match kind(value) {
        Kind::Undefined => Err(undefined("the value that is sliced")),
        Kind::Str(text) => {
            let chars: Vec<char> = text.chars().collect();
            let places = slice_places(chars.len(), bounds)?.0;
            Ok(Value::from(places.iter().map(|&i| chars[i]).collect::<String>()))
        }
        Kind::List | Kind::Tuple => {
            let all = items(value)?;
            let places = slice_places(all.len(), bounds)?.0;
            let items = places.iter().map(|&i| all[i].clone()).collect();
            Ok(if value.is_tuple() { tuple(items) } else { Value::from(items) })
        }
        Kind::Sequence(Sequence { form: Form::Range { start, step, .. }, items, .. }) => {
            let (_, [from, to, by]) = slice_places(items.len(), bounds)?;
            let at = |i: i128| i64::try_from(i128::from(*start) + i * i128::from(*step)).unwrap_or(i64::MAX);
            Ok(Sequence::range(at(from), at(to), i64::try_from(by * i128::from(*step)).unwrap_or(i64::MAX)))
        }
        _ => Err(refuse(format!("'{}' object is not subscriptable", type_name(value)))),
    }
}
