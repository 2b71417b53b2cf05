//! Values of a template as Python has them: their types and texts, operators, items and slices.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use regex_automata::meta::Regex;

use crate::text::template::error::refuse;

/// What Python takes a value for.
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

/// Objects of Python that are iterated over and are no lists.
#[derive(Debug)]
pub struct Sequence {
    pub form: Form,
    pub items: Vec<Value>,
    /// Items of a generator come once.
    taken: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `map`, `select` and other filters. Their length is not known, and they are true.
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

/// A method that was looked up and not called.
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

/// The name of a value's type in Python.
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

/// A number in the narrowest form, by which equal ones are found equal.
pub fn int(n: i128) -> Value {
    i64::try_from(n).map_or_else(|_| Value::from(n), Value::from)
}

pub fn tuple(items: Vec<Value>) -> Value {
    Value::from(Tuple::from(items))
}

pub fn pairs(map: &Value) -> Vec<(Value, Value)> {
    map.as_object().and_then(DynObject::try_iter_pairs).into_iter().flatten().collect()
}

/// The items of what can be iterated over.
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

/// True for a character that Python writes as itself within quotes.
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

/// Text in HTML.
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

#[derive(Clone, Copy)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Number> {
        match kind(value) {
            Kind::Bool(b) => Some(Number::Int(i128::from(b))),
            Kind::Int(n) => Some(Number::Int(n)),
            Kind::Float(x) => Some(Number::Float(x)),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    if matches!(kind(a), Kind::Undefined) || matches!(kind(b), Kind::Undefined) {
        return undefined(&format!("an operand of {op}"));
    }
    refuse(format!("unsupported operand type(s) for {op}: '{}' and '{}'", type_name(a), type_name(b)))
}

fn overflow() -> Error {
    Error::new(ErrorKind::NonPrimitive, "integers of more than 127 bits are not supported")
}

/// Computes `a op b` for all operators but those of texts and lists, which are `add` and `mul`.
pub fn arithmetic(op: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    let (Some(x), Some(y)) = (Number::of(a), Number::of(b)) else { return Err(unsupported(op, a, b)) };
    if let (Number::Int(x), Number::Int(y)) = (x, y) {
        let floored = |x: i128, y: i128| x.checked_div(y).map(|q| q - i128::from(x % y != 0 && (x < 0) != (y < 0)));
        let result = match op {
            "+" => x.checked_add(y),
            "-" => x.checked_sub(y),
            "*" => x.checked_mul(y),
            "//" | "%" | "/" if y == 0 => return Err(refuse("division by zero")),
            "//" => floored(x, y),
            "%" => floored(x, y).and_then(|q| x.checked_sub(q.checked_mul(y)?)),
            "**" if y >= 0 => match x {
                0 | 1 => Some(if y == 0 { 1 } else { x }),
                -1 => Some(if y % 2 == 0 { 1 } else { -1 }),
                _ => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
            },
            "**" if x == 0 => return Err(refuse("0.0 cannot be raised to a negative power")),
            _ => return Ok(Value::from(float_arithmetic(op, x as f64, y as f64)?)),
        };
        return result.map(int).ok_or_else(overflow);
    }
    float_arithmetic(op, x.float(), y.float()).map(Value::from)
}

fn float_arithmetic(op: &str, x: f64, y: f64) -> Result<f64, Error> {
    Ok(match op {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "/" | "//" | "%" if y == 0.0 => return Err(refuse("float division by zero")),
        "/" => x / y,
        "//" => floor_division(x, y).0,
        "%" => floor_division(x, y).1,
        _ if x == 0.0 && y < 0.0 => return Err(refuse("0.0 cannot be raised to a negative power")),
        _ if x < 0.0 && y.fract() != 0.0 => return Err(refuse("complex numbers")),
        _ => {
            let power = libm::pow(x, y);
            if power.is_infinite() && x.is_finite() && y.is_finite() {
                return Err(refuse("a power that is too large"));
            }
            power
        }
    })
}

/// Python's `divmod` of floats.
fn floor_division(x: f64, y: f64) -> (f64, f64) {
    let mut remainder = x % y;
    let mut quotient = (x - remainder) / y;
    if remainder == 0.0 {
        remainder = 0.0f64.copysign(y);
    } else if (y < 0.0) != (remainder < 0.0) {
        remainder += y;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0f64.copysign(x / y), remainder);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, remainder)
}

pub fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    match (kind(a), kind(b)) {
        (Kind::Str(x), Kind::Str(y)) if a.is_safe() || b.is_safe() => {
            let part = |value: &Value, text: &str| if value.is_safe() { text.to_owned() } else { escaped(text) };
            Ok(Value::from_safe_string(part(a, x) + &part(b, y)))
        }
        (Kind::Str(x), Kind::Str(y)) => Ok(Value::from([x, y].concat())),
        (Kind::List, Kind::List) => Ok(Value::from([items(a)?, items(b)?].concat())),
        (Kind::Tuple, Kind::Tuple) => Ok(tuple([items(a)?, items(b)?].concat())),
        _ => arithmetic("+", a, b),
    }
}

/// Computes a product, whose size has been bounded.
pub fn mul(a: &Value, b: &Value) -> Result<Value, Error> {
    let (list, n) = match (kind(a), kind(b)) {
        (Kind::Int(_) | Kind::Bool(_), Kind::Str(_) | Kind::List | Kind::Tuple) => (b, a),
        _ => (a, b),
    };
    let times = match kind(n) {
        Kind::Int(n) => usize::try_from(n.max(0)).unwrap_or(usize::MAX),
        Kind::Bool(n) => usize::from(n),
        _ => return arithmetic("*", a, b),
    };
    match kind(list) {
        Kind::Str(text) => Ok(Value::from(text.repeat(if text.is_empty() { 0 } else { times }))),
        Kind::List | Kind::Tuple => {
            let items = items(list)?;
            let len = items.len().saturating_mul(times);
            let items = items.into_iter().cycle().take(len).collect();
            Ok(if list.is_tuple() { tuple(items) } else { Value::from(items) })
        }
        _ => arithmetic("*", a, b),
    }
}

pub fn neg(value: &Value) -> Result<Value, Error> {
    match Number::of(value) {
        Some(Number::Int(n)) => n.checked_neg().map(int).ok_or_else(overflow),
        Some(Number::Float(x)) => Ok(Value::from(-x)),
        None => Err(refuse(format!("bad operand type for unary -: '{}'", type_name(value)))),
    }
}

pub fn equal(a: &Value, b: &Value) -> bool {
    match (kind(a), kind(b)) {
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => match (items(a), items(b)) {
            (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| equal(a, b)),
            _ => false,
        },
        (Kind::Dict, Kind::Dict) => {
            let of_a = pairs(a);
            Some(of_a.len()) == b.len()
                && of_a.iter().all(|(key, value)| b.get_item(key).is_ok_and(|other| equal(value, &other)))
        }
        (Kind::Sequence(a), Kind::Sequence(b)) => match (a.form, b.form) {
            (Form::Range { .. }, Form::Range { .. }) => a.items == b.items,
            _ => std::ptr::eq(a, b),
        },
        (Kind::Sequence(_), _) | (_, Kind::Sequence(_)) => false,
        (Kind::List | Kind::Tuple | Kind::Dict, _) | (_, Kind::List | Kind::Tuple | Kind::Dict) => false,
        _ => a == b,
    }
}

/// The order of two values, or `None` where one is no number.
pub fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    match (kind(a), kind(b)) {
        (Kind::Str(a), Kind::Str(b)) => Ok(Some(a.cmp(b))),
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => {
            let (a, b) = (items(a)?, items(b)?);
            match a.iter().zip(&b).find(|(a, b)| !equal(a, b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(a.len().cmp(&b.len()))),
            }
        }
        _ => match (Number::of(a), Number::of(b)) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(Some(a.cmp(&b))),
            (Some(a), Some(b)) => Ok(a.float().partial_cmp(&b.float())),
            _ => Err(unsupported("<", a, b)),
        },
    }
}

/// Computes a comparison by its sign.
pub fn compare(op: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(match op {
        "==" => equal(a, b),
        "!=" => !equal(a, b),
        "in" => contains(b, a)?,
        "not in" => !contains(b, a)?,
        "<" => order(a, b)? == Some(Ordering::Less),
        ">" => order(a, b)? == Some(Ordering::Greater),
        "<=" => order(a, b)?.is_some_and(Ordering::is_le),
        _ => order(a, b)?.is_some_and(Ordering::is_ge),
    })
}

fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    match (kind(container), kind(item)) {
        (Kind::Str(text), Kind::Str(part)) => Ok(text.contains(part)),
        (Kind::Str(_), _) => {
            Err(refuse(format!("'in <string>' requires string as left operand, not {}", type_name(item))))
        }
        (Kind::Dict, _) => Ok(container.get_item(item).is_ok_and(|value| !value.is_undefined())
            || pairs(container).iter().any(|(key, _)| equal(key, item))),
        (Kind::Other, _) if container.as_object().is_some_and(|object| is_named(object, "::Namespace")) => {
            Err(refuse("argument of type 'Namespace' is not iterable"))
        }
        _ => Ok(items(container)?.iter().any(|other| equal(other, item))),
    }
}

fn index(key: &Value) -> Option<i128> {
    match kind(key) {
        Kind::Int(n) => Some(n),
        Kind::Bool(b) => Some(i128::from(b)),
        _ => None,
    }
}

/// Computes `value[key]`, which is undefined where there is none.
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

/// Methods of Python's texts, lists and dicts.
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
/// Methods that change a value, which the sandbox of the owner's library refuses.
const UNSAFE_OF_LISTS: &[&str] = &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const UNSAFE_OF_DICTS: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];

/// True where values of the kind have the method.
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

/// True for a method that changes its value.
pub fn is_unsafe_method(value: &Value, name: &str) -> bool {
    match kind(value) {
        Kind::List => UNSAFE_OF_LISTS.contains(&name),
        Kind::Dict => UNSAFE_OF_DICTS.contains(&name),
        _ => false,
    }
}

/// A method of Python's types, which a template may look up without calling it.
fn method(value: &Value, name: &str) -> Option<Value> {
    has_method(value, name).then(|| Value::from_object(BoundMethod { value: value.clone(), name: name.to_owned() }))
}

const OF_NUMBERS: [&str; 4] = ["denominator", "imag", "numerator", "real"];

/// Computes `value.name`: methods come before items.
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

/// The places that a slice takes of `len`.
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
