//! Values with Python's semantics: types and text forms.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use regex_automata::meta::Regex;

use crate::text::template::error::refuse;

/// The Python type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'v> {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(&'v str),
    List,
    Tuple,
    Dict,
    Sequence(&'v Sequence),
    /// A function, a macro, a namespace, a loop.
    Other,
}

/// Python's iterables that are not lists.
#[derive(Debug)]
pub struct Sequence {
    pub form: Form,
    pub items: Vec<Value>,
    /// True once consumed: a generator yields its items once.
    taken: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `map`, `select` and other filters. Their length is unknown, and they are truthy.
    Generator,
    Keys,
    Values,
    Items,
    Range {
        start: i64,
        stop: i64,
        step: i64,
    },
}

impl Sequence {
    pub fn value(form: Form, items: Vec<Value>) -> Value {
        Value::from_object(Sequence { form, items, taken: AtomicBool::new(false) })
    }

    pub fn generator(items: Vec<Value>) -> Value {
        Sequence::value(Form::Generator, items)
    }

    /// `range(start, stop, step)`, whose length has been bounded.
    pub fn range(start: i64, stop: i64, step: i64) -> Value {
        let mut items = Vec::new();
        let mut at = start;
        while if step > 0 { at < stop } else { at > stop } {
            items.push(Value::from(at));
            at = at.saturating_add(step);
        }
        Sequence::value(Form::Range { start, stop, step }, items)
    }
}

impl Object for Sequence {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &std::sync::Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn is_true(self: &std::sync::Arc<Self>) -> bool {
        self.form == Form::Generator || !self.items.is_empty()
    }
}

/// A method that was looked up but not called.
#[derive(Debug)]
pub struct BoundMethod {
    pub value: Value,
    pub name: String,
}

impl Object for BoundMethod {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

pub fn is_named(object: &DynObject, name: &str) -> bool {
    object.type_name().ends_with(name)
}

pub fn kind(value: &Value) -> Kind<'_> {
    match value.kind() {
        ValueKind::Undefined => Kind::Undefined,
        ValueKind::None => Kind::None,
        ValueKind::Bool => Kind::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => match i128::try_from(value.clone()) {
            Ok(n) => Kind::Int(n),
            Err(_) => Kind::Other,
        },
        ValueKind::Number => f64::try_from(value.clone()).map_or(Kind::Other, Kind::Float),
        ValueKind::String => value.as_str().map_or(Kind::Other, Kind::Str),
        ValueKind::Seq if value.is_tuple() => Kind::Tuple,
        ValueKind::Seq => Kind::List,
        ValueKind::Iterable => value.downcast_object_ref::<Sequence>().map_or(Kind::List, Kind::Sequence),
        ValueKind::Map => {
            let others = ["::Loop", "::Namespace", "::Macro", "::Module"];
            let is_other = value.as_object().is_some_and(|object| others.iter().any(|name| is_named(object, name)));
            if is_other { Kind::Other } else { Kind::Dict }
        }
        _ => Kind::Other,
    }
}

/// Returns the name of a value's type in Python.
pub fn type_name(value: &Value) -> &'static str {
    match kind(value) {
        Kind::Undefined => "Undefined",
        Kind::None => "NoneType",
        Kind::Bool(_) => "bool",
        Kind::Int(_) => "int",
        Kind::Float(_) => "float",
        Kind::Str(_) => "str",
        Kind::List => "list",
        Kind::Tuple => "tuple",
        Kind::Dict => "dict",
        Kind::Sequence(sequence) => match sequence.form {
            Form::Generator => "generator",
            Form::Keys => "dict_keys",
            Form::Values => "dict_values",
            Form::Items => "dict_items",
            Form::Range { .. } => "range",
        },
        Kind::Other => "object",
    }
}

pub fn undefined(what: &str) -> Error {
    Error::new(ErrorKind::UndefinedError, what.to_owned())
}

/// Returns a number in the narrowest form, in which equal numbers compare equal.
pub fn int(n: i128) -> Value {
    i64::try_from(n).map_or_else(|_| Value::from(n), Value::from)
}

pub fn tuple(items: Vec<Value>) -> Value {
    Value::from(Tuple::from(items))
}

pub fn pairs(map: &Value) -> Vec<(Value, Value)> {
    map.as_object().and_then(DynObject::try_iter_pairs).into_iter().flatten().collect()
}

/// Returns the items of an iterable.
pub fn items(value: &Value) -> Result<Vec<Value>, Error> {
    match kind(value) {
        Kind::Undefined => Ok(Vec::new()),
        Kind::Str(text) => Ok(text.chars().map(|c| Value::from(c.to_string())).collect()),
        Kind::List | Kind::Tuple | Kind::Dict => Ok(value.try_iter()?.collect()),
        Kind::Sequence(sequence) if sequence.form == Form::Generator => {
            Ok(if sequence.taken.swap(true, Relaxed) { Vec::new() } else { sequence.items.clone() })
        }
        Kind::Sequence(sequence) => Ok(sequence.items.clone()),
        _ => Err(refuse(format!("'{}' object is not iterable", type_name(value)))),
    }
}

pub fn length(value: &Value) -> Result<usize, Error> {
    match kind(value) {
        Kind::Undefined => Ok(0),
        Kind::Str(text) => Ok(text.chars().count()),
        Kind::Sequence(sequence) if sequence.form != Form::Generator => Ok(sequence.items.len()),
        Kind::List | Kind::Tuple | Kind::Dict => Ok(value.len().unwrap_or(0)),
        _ => Err(refuse(format!("object of type '{}' has no len()", type_name(value)))),
    }
}

/// `str(value)`.
pub fn show(value: &Value) -> Result<String, Error> {
    match kind(value) {
        Kind::Undefined => Ok(String::new()),
        Kind::Str(text) => Ok(text.to_owned()),
        _ => repr(value),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(value, &mut out)?;
    Ok(out)
}

fn write_repr(value: &Value, out: &mut String) -> Result<(), Error> {
    let list = |open: &str, items: &[Value], close: &str, out: &mut String| -> Result<(), Error> {
        out.push_str(open);
        for (i, item) in items.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write_repr(item, out)?;
        }
        out.push_str(close);
        Ok(())
    };
    match kind(value) {
        Kind::Undefined => out.push_str("Undefined"),
        Kind::None => out.push_str("None"),
        Kind::Bool(value) => out.push_str(if value { "True" } else { "False" }),
        Kind::Int(n) => drop(write!(out, "{n}")),
        Kind::Float(x) => out.push_str(&float_text(x)),
        Kind::Str(text) => repr_text(text, out),
        Kind::List => list("[", &items(value)?, "]", out)?,
        Kind::Tuple => {
            let items = items(value)?;
            list("(", &items, if items.len() == 1 { ",)" } else { ")" }, out)?;
        }
        Kind::Dict => {
            out.push('{');
            for (i, (key, value)) in pairs(value).iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(key, out)?;
                out.push_str(": ");
                write_repr(value, out)?;
            }
            out.push('}');
        }
        Kind::Sequence(sequence) => match sequence.form {
            Form::Range { start, stop, step: 1 } => drop(write!(out, "range({start}, {stop})")),
            Form::Range { start, stop, step } => drop(write!(out, "range({start}, {stop}, {step})")),
            Form::Generator => return Err(refuse("a generator has no text but its address")),
            _ => {
                out.push_str(type_name(value));
                list("([", &sequence.items, "])", out)?;
            }
        },
        Kind::Other => match value.as_object().is_some_and(|object| is_named(object, "::Namespace")) {
            true => {
                let pairs = value.as_object().and_then(DynObject::try_iter_pairs).into_iter().flatten();
                out.push_str("<Namespace ");
                write_repr(&Value::from_pairs(pairs), out)?;
                out.push('>');
            }
            false => return Err(crate::text::template::error::unsupported(&format!("the text of {value}"))),
        },
    }
    Ok(())
}

/// `repr` of a float: the shortest digits that read back as the same number.
pub fn float_text(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = format!("{x:e}");
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ (..-4 | 16..) => {
            format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => {
            let text = format!("{x}");
            if text.contains('.') { text } else { text + ".0" }
        }
    }
}

/// True for a character that Python's `repr` does not escape.
pub fn is_printable(c: char) -> bool {
    static OTHERS: OnceLock<Option<Regex>> = OnceLock::new();
    match c {
        ' '..='~' => true,
        '\0'..='\x7f' => false,
        _ => {
            let others = OTHERS.get_or_init(|| Regex::new(r"[\p{C}\p{Z}]").ok());
            !others.as_ref().is_some_and(|others| others.is_match(c.encode_utf8(&mut [0; 4]) as &str))
        }
    }
}

fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote || c == '\\' => out.extend(['\\', c]),
            _ if is_printable(c) => out.push(c),
            _ if code < 0x100 => drop(write!(out, "\\x{code:02x}")),
            _ if code < 0x1_0000 => drop(write!(out, "\\u{code:04x}")),
            _ => drop(write!(out, "\\U{code:08x}")),
        }
    }
    out.push(quote);
}

/// Returns text escaped for HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(c),
        }
    }
    out
}
