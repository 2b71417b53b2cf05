//! A parser of untrusted JSON (RFC 8259) into a tree that borrows its text. Limits nesting, number of values and
//! memory, and rejects duplicate names.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use super::contents::owned;
use super::value::whole;
use crate::error::{Error, Result, check_memory};

/// Maximum depth of arrays and objects, each of which is a level of recursion.
const MAX_DEPTH: usize = 64;
/// Maximum number of values in a document; the list of a model's tensors has about ten per tensor.
const MAX_VALUES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Object<'a>),
}

/// Members in file order.
pub type Object<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl<'a> Json<'a> {
    /// Parses a document. `path` is for messages.
    pub fn parse(path: &Path, bytes: &'a [u8]) -> Result<Json<'a>> {
        Json::read(path, bytes, false)
    }

    /// Parses a document written by Python: NaN, Infinity and -Infinity are numbers.
    pub fn parse_python(path: &Path, bytes: &'a [u8]) -> Result<Json<'a>> {
        Json::read(path, bytes, true)
    }

    fn read(path: &Path, bytes: &'a [u8], constants: bool) -> Result<Json<'a>> {
        let text = str::from_utf8(bytes).map_err(|_| Error::format(path, "JSON that is not UTF-8"))?;
        let mut reader = Reader { path, text, at: 0, values: 0, constants };
        let value = reader.value(0)?;
        reader.skip_space();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.error("there are characters after the value")),
        }
    }

    /// Returns a member of an object; `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.get_or_null(name).filter(|v| **v != Json::Null)
    }

    /// Returns a member of an object, `null` or not.
    pub fn get_or_null(&self, name: &str) -> Option<&Json<'a>> {
        self.members().iter().find(|m| m.0 == name).map(|m| &m.1)
    }

    /// Returns the members of an object; none for other values.
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    /// Returns a nonnegative integer, which may be written as a float.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Json::Int(i) => u64::try_from(*i).ok(),
            Json::Float(x) => whole(*x),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Int(i) => Some(*i as f64),
            Json::Float(x) => Some(*x),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// A value for a message: a scalar as it is, an array or an object as its length.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Int(i) => write!(f, "{i}"),
            Json::Float(x) => write!(f, "{x}"),
            Json::Str(s) => write!(f, "{:?}", s.chars().take(64).collect::<String>()),
            Json::Array(items) => write!(f, "a list of {}", items.len()),
            Json::Object(members) => write!(f, "an object of {}", members.len()),
        }
    }
}

/// Parses a document from front to back.
struct Reader<'p, 'a> {
    path: &'p Path,
    text: &'a str,
    /// Number of bytes read.
    at: usize,
    /// Number of values read.
    values: usize,
    /// True to accept Python's NaN and Infinity.
    constants: bool,
}

impl<'a> Reader<'_, 'a> {
    fn error(&self, what: impl fmt::Display) -> Error {
        let read = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let (line, column) = (read.iter().filter(|b| **b == b'\n').count() + 1, read.rsplit(|b| *b == b'\n').next());
        let column = column.map_or(0, <[u8]>::len) + 1;
        Error::format(self.path, format!("JSON: {what} at line {line} column {column}"))
    }

    fn limit(&self, what: impl fmt::Display) -> Error {
        Error::TooComplex(self.error(what).to_string())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips a text if it is next.
    fn take(&mut self, text: &str) -> bool {
        let follows = self.rest().starts_with(text);
        if follows {
            self.at += text.len();
        }
        follows
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expected(&self, what: &str) -> Error {
        match self.peek() {
            None => self.error(format_args!("EOF where {what} is expected")),
            Some(_) => self.error(format_args!("expected {what}")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>> {
        if depth > MAX_DEPTH {
            return Err(self.limit(format_args!("values are nested more than {MAX_DEPTH} deep")));
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.limit(format_args!("there are more than {MAX_VALUES} values")));
        }
        check_memory("JSON")?;
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Str),
            Some(b'-' | b'0'..=b'9') if !self.rest().starts_with("-I") => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json<'a>> {
        const WORDS: [(&str, Json<'static>); 3] =
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        const CONSTANTS: [(&str, f64); 3] =
            [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];
        if let Some((_, value)) = WORDS.into_iter().find(|(word, _)| self.take(word)) {
            return Ok(value);
        }
        match CONSTANTS.iter().find(|(word, _)| self.constants && self.take(word)) {
            Some((_, x)) => Ok(Json::Float(*x)),
            None => Err(self.expected("a value")),
        }
    }

    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        let is_whole = {
            self.take("-");
            if !self.take("0") {
                self.digits()?;
            }
            let mut is_whole = true;
            if self.take(".") {
                self.digits()?;
                is_whole = false;
            }
            if self.take("e") || self.take("E") {
                let _ = self.take("+") || self.take("-");
                self.digits()?;
                is_whole = false;
            }
            is_whole
        };
        let text = self.text.get(start..self.at).unwrap_or_default();
        if let (true, Ok(i)) = (is_whole, text.parse()) {
            return Ok(Json::Int(i));
        }
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Json::Float(x)),
            _ => Err(self.error("a number is out of range")),
        }
    }

    /// One or more digits.
    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    /// Returns a string, borrowed if it has no escapes.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        if !self.take("\"") {
            return Err(self.expected("a string"));
        }
        let mut copy = None;
        loop {
            let rest = self.rest();
            let end = rest.bytes().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
            let plain = rest.get(..end).unwrap_or_default();
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return match copy {
                        None => Ok(Cow::Borrowed(plain)),
                        Some(mut copy) => {
                            append(&mut copy, plain)?;
                            Ok(Cow::Owned(copy))
                        }
                    };
                }
                Some(b'\\') => {
                    let copy = match &mut copy {
                        None => copy.insert(owned(plain)?),
                        Some(copy) => {
                            append(copy, plain)?;
                            copy
                        }
                    };
                    let mut bytes = [0; 4];
                    append(copy, self.escape()?.encode_utf8(&mut bytes))?;
                }
                Some(_) => return Err(self.error("a string contains a control character")),
                None => return Err(self.error("the text ends within a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let byte = self.peek().ok_or_else(|| self.error("the text ends within an escape"))?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let code = match first {
                    0xd800..=0xdbff if self.take("\\u") => match self.hex()? {
                        second @ 0xdc00..=0xdfff => 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                        _ => first,
                    },
                    _ => first,
                };
                char::from_u32(code).ok_or_else(|| self.error("an escape is a lone surrogate"))?
            }
            _ => return Err(self.error("an escape is unknown")),
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.error("an escape lacks four digits"))?;
        self.at += 4;
        Ok(code)
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        while !self.take("]") {
            if !items.is_empty() && !self.take(",") {
                return Err(self.expected("a comma or the end of a list"));
            }
            let item = self.value(depth + 1)?;
            push(&mut items, item)?;
            self.skip_space();
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>> {
        self.at += 1;
        let mut members: Object = Vec::new();
        self.skip_space();
        while !self.take("}") {
            if !members.is_empty() && !self.take(",") {
                return Err(self.expected("a comma or the end of an object"));
            }
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            if !self.take(":") {
                return Err(self.expected("a colon"));
            }
            let value = self.value(depth + 1)?;
            push(&mut members, (name, value))?;
            self.skip_space();
        }
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &members {
            push(&mut names, name)?;
        }
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            Some((name, _)) => Err(self.error(format_args!("the name {name:?} occurs twice in an object"))),
            None => Ok(Json::Object(members)),
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    list.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "JSON", bytes: size_of::<T>() as u64 })?;
    list.push(item);
    Ok(())
}

fn append(text: &mut String, more: &str) -> Result<()> {
    text.try_reserve(more.len()).map_err(|_| Error::OutOfMemory { what: "JSON", bytes: more.len() as u64 })?;
    text.push_str(more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Json<'_>> {
        Json::parse(Path::new("f.json"), text.as_bytes())
    }

    #[test]
    fn values_are_those_of_the_text() {
        let text = r#" {"a": [1, -2, 0, 3.25, 1e-5, -0.5E+3, 9223372036854775807, 18446744073709551615, 18446744073709551616],
            "b\n\"\\\/\b\f\r\t\u00e9\ud83d\ude00é": {"": null, "t": true, "f" : false, "e": [], "o": { }}, "s": "plain é" } "#;
        let found = parse(text).unwrap();
        let big = 18446744073709551616.0;
        let numbers = [Json::Int(1), Json::Int(-2), Json::Int(0), Json::Float(3.25), Json::Float(1e-5)]
            .into_iter()
            .chain([Json::Float(-500.0), Json::Int(i64::MAX), Json::Float(big), Json::Float(big)]);
        assert_eq!(found.get("a"), Some(&Json::Array(numbers.collect())));
        let inner = found.get("b\n\"\\/\u{8}\u{c}\r\té😀é").unwrap();
        assert_eq!((inner.get(""), inner.get_or_null("")), (None, Some(&Json::Null)));
        assert_eq!((inner.get("t"), inner.get("f")), (Some(&Json::Bool(true)), Some(&Json::Bool(false))));
        assert_eq!((inner.get("e"), inner.get("o")), (Some(&Json::Array(vec![])), Some(&Json::Object(vec![]))));
        assert!(matches!(found.get("s"), Some(Json::Str(Cow::Borrowed("plain é")))));
    }

    /// Decimal fractions become the nearest floats, as in the standard library.
    #[test]
    fn numbers_are_rounded_once() {
        for i in 0..20_000u64 {
            let digits = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
            let text = format!("0.{digits}e{}", i % 600 - i % 600 / 2 * 2 + i % 37);
            assert_eq!(parse(&text).unwrap(), Json::Float(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        for (text, word) in [
            ("[".repeat(100_000), "deep"),
            ("{\"a\":".repeat(100_000), "deep"),
            (format!("[{}0]", "0,".repeat(MAX_VALUES)), "more than"),
            (r#"{"a":1,"b":2,"a":3}"#.into(), "\"a\" occurs twice"),
            (r#"{"a":1,"\u0061":3}"#.into(), "\"a\" occurs twice"),
            (r#""\ud800""#.into(), "escape"),
            (r#""\ud800\ud800""#.into(), "surrogate"),
            (r#""\ud83d\uee00""#.into(), "surrogate"),
            (r#""\udc00""#.into(), "surrogate"),
            (r#""\u00g0""#.into(), "escape"),
            ("\"\u{1}\"".into(), "control character"),
            ("1e400".into(), "out of range"),
            ("NaN".into(), "expected a value"),
            ("[1,]".into(), "expected a value"),
            ("{,}".into(), "expected a string"),
            ("01".into(), "characters after the value"),
            ("+1".into(), "expected a value"),
            ("-".into(), "EOF where a digit"),
            ("1.".into(), "digit"),
            ("[1 2]".into(), "comma"),
            ("{\"a\" 2}".into(), "colon"),
            ("\"a".into(), "the text ends within a string"),
            ("\"\\x\"".into(), "escape"),
            ("tru".into(), "expected a value at line 1 column 1"),
            ("[\n  -Infinity]".into(), "expected a value at line 2 column 3"),
            ("".into(), "EOF"),
            ("1 2".into(), "characters after the value"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok() && parse(&nested(MAX_DEPTH + 2)).is_err());
        assert!(Json::parse(Path::new("f"), b"\"\xff\"").is_err());
    }

    #[test]
    fn constants_of_python_are_numbers_where_its_files_are_read() {
        let text = r#"{"a": [NaN, Infinity, -Infinity, -1], "b": "NaN"}"#;
        assert!(parse(text).is_err());
        let found = Json::parse_python(Path::new("f"), text.as_bytes()).unwrap();
        let list = found.get("a").unwrap().as_array().unwrap();
        assert!(list[0].as_f64().unwrap().is_nan());
        assert_eq!(list[1..], [Json::Float(f64::INFINITY), Json::Float(f64::NEG_INFINITY), Json::Int(-1)]);
        assert_eq!(found.get("b").unwrap().as_str(), Some("NaN"));
        assert!(
            ["nan", "inf", "-NaN", "Infinit", "--1"]
                .iter()
                .all(|text| { Json::parse_python(Path::new("f"), text.as_bytes()).is_err() })
        );
    }

    #[test]
    fn floats_that_are_whole_numbers_are_integers() {
        for (text, expected) in [
            ("131072.0", Some(131_072)),
            ("1e3", Some(1000)),
            ("0.0", Some(0)),
            ("2.5", None),
            ("-1.0", None),
            ("1e17", None),
            ("7", Some(7)),
        ] {
            assert_eq!(parse(text).unwrap().as_u64(), expected, "{text}");
        }
    }
}
