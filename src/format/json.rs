//! JSON (RFC 8259) of hostile origin: nesting, number of values and memory are bounded, a name occurs once in an
//! object, and nothing is copied that can be borrowed.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, Result, try_vec};

const MAX_DEPTH: usize = 64;
/// Values in a document; the list of a model's tensors has about ten each.
const MAX_VALUES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Object<'a>),
}

/// In the order of the file.
pub(super) type Object<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl<'a> Json<'a> {
    /// `path` is for messages.
    pub fn parse(path: &Path, bytes: &'a [u8]) -> Result<Json<'a>> {
        let text = str::from_utf8(bytes).map_err(|_| Error::format(path, "JSON that is not UTF-8"))?;
        let mut parser = Parser { path, text, at: 0, values: 0 };
        let value = parser.value(0)?;
        parser.skip_space();
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err(parser.error("something follows the value")),
        }
    }

    /// A member of an object; what is `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|m| m.0 == name).map(|m| &m.1).filter(|v| **v != Json::Null)
    }

    /// Of the members that are there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let members = if let Json::Object(members) = self { members.as_slice() } else { &[] };
        members.iter().filter(|m| m.1 != Json::Null).map(|m| m.0.as_ref())
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Json::Int(i) => u64::try_from(*i).ok(),
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

struct Parser<'a, 'p> {
    path: &'p Path,
    text: &'a str,
    at: usize,
    values: usize,
}

impl<'a> Parser<'a, '_> {
    fn error(&self, what: &str) -> Error {
        Error::format(self.path, format!("JSON at byte {}: {what}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `byte`, after space, where it is next.
    fn accept(&mut self, byte: u8) -> bool {
        self.skip_space();
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        match self.accept(byte) {
            true => Ok(()),
            false => Err(self.error(&format!("expected '{}'", char::from(byte)))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>> {
        if depth > MAX_DEPTH {
            return Err(self.error(&format!("nested more than {MAX_DEPTH} deep")));
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.error(&format!("more than {MAX_VALUES} values")));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Str),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
                let rest = self.text.get(self.at..).unwrap_or_default();
                match words.into_iter().find(|w| rest.starts_with(w.0)) {
                    Some((word, value)) => {
                        self.at += word.len();
                        Ok(value)
                    }
                    None => Err(self.error("expected a value")),
                }
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>> {
        self.expect(b'{')?;
        let mut members = Vec::new();
        if self.accept(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.expect(b':')?;
            let value = self.value(depth + 1)?;
            push(&mut members, (name, value))?;
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        let mut names: Vec<&str> = try_vec("JSON", members.len())?;
        names.extend(members.iter().map(|m| m.0.as_ref()));
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            Some((name, _)) => Err(self.error(&format!("the name {name:?} occurs twice in an object"))),
            None => Ok(Json::Object(members)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        if self.accept(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            let value = self.value(depth + 1)?;
            push(&mut items, value)?;
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Json::Array(items))
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a string"));
        }
        self.at += 1;
        let first = self.plain()?;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(first));
        }
        let mut text = String::new();
        append(&mut text, first)?;
        while self.peek() != Some(b'"') {
            let c = self.escape()?;
            append(&mut text, c.encode_utf8(&mut [0; 4]))?;
            append(&mut text, self.plain()?)?;
        }
        self.at += 1;
        Ok(Cow::Owned(text))
    }

    /// Characters up to the next quote or backslash.
    fn plain(&mut self) -> Result<&'a str> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.bytes().position(|b| b == b'"' || b == b'\\' || b < b' ') {
            Some(n) if rest.as_bytes().get(n).is_some_and(|&b| b >= b' ') => {
                self.at += n;
                Ok(rest.get(..n).unwrap_or_default())
            }
            _ => Err(self.error("a string without end")),
        }
    }

    fn escape(&mut self) -> Result<char> {
        let kind = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 2;
        Ok(match kind {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let (code, mut low) = (self.hex()?, None);
                let pair = (0xd800..0xdc00).contains(&code);
                if pair && self.text.as_bytes().get(self.at..self.at + 2) == Some(b"\\u") {
                    self.at += 2;
                    low = Some(self.hex()?);
                }
                let character = char::decode_utf16([Some(code), low].into_iter().flatten()).next();
                character.and_then(Result::ok).ok_or_else(|| self.error("half a surrogate pair"))?
            }
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn hex(&mut self) -> Result<u16> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code =
            digits.and_then(|d| u16::from_str_radix(d, 16).ok()).ok_or_else(|| self.error("an unknown escape"))?;
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        let mut is_int = true;
        let mut sound = whole > 0 && !(leading_zero && whole > 1);
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_int = false;
            sound &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            is_int = false;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            sound &= self.digits() > 0;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(i), _) if sound && is_int => Ok(Json::Int(i)),
            (_, Ok(x)) if sound && x.is_finite() => Ok(Json::Float(x)),
            _ => Err(self.error("a malformed or too large number")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }
}

fn push<T>(v: &mut Vec<T>, x: T) -> Result<()> {
    v.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "JSON", bytes: size_of::<T>() as u64 })?;
    v.push(x);
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

    /// `serde_json` is the oracle.
    fn same(ours: &Json, theirs: &serde_json::Value) -> bool {
        use serde_json::Value;
        match (ours, theirs) {
            (Json::Null, Value::Null) => true,
            (Json::Bool(a), Value::Bool(b)) => a == b,
            // To serde_json -0 is a float.
            (Json::Int(a), Value::Number(b)) => b.as_i64() == Some(*a) || *a == 0 && b.as_f64() == Some(0.0),
            // serde_json may be off by one in the last place.
            (Json::Float(a), Value::Number(b)) => b.as_f64().is_some_and(|b| (a - b).abs() <= 1e-15 * a.abs()),
            (Json::Str(a), Value::String(b)) => a == b,
            (Json::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Json::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == *b.0 && same(&a.1, b.1))
            }
            _ => false,
        }
    }

    const DOCUMENT: &str = r#" {"a": [1, -2, 0, 3.25, 1e-5, -0.5E+3, 9223372036854775807, 18446744073709551616],
        "b\n\"\\\/\b\f\r\t\u00e9\ud83d\ude00é": {"": null, "t": true, "f" : false, "e": [], "o": { }}, "s": "plain é" } "#;

    #[test]
    fn values_are_those_of_serde_json() {
        assert!(same(&parse(DOCUMENT).unwrap(), &serde_json::from_str(DOCUMENT).unwrap()));
    }

    #[test]
    fn what_serde_json_refuses_is_refused() {
        let bytes = DOCUMENT.as_bytes();
        for at in 0..bytes.len() {
            let mut texts = vec![bytes[..at].to_vec()];
            for wrong in *b"\"\\{}[],:0.e-x\x01 " {
                let mut text = bytes.to_vec();
                text[at] = wrong;
                texts.push(text);
            }
            for text in texts {
                let ours = Json::parse(Path::new("f.json"), &text);
                match (&ours, serde_json::from_slice::<serde_json::Value>(&text)) {
                    (Ok(a), Ok(b)) => assert!(same(a, &b), "{}", String::from_utf8_lossy(&text)),
                    (Err(_), Err(_)) => {}
                    // serde_json keeps the last of two equal names.
                    (Err(e), Ok(_)) if e.to_string().contains("twice") => {}
                    (ours, theirs) => panic!("{ours:?} {theirs:?} {}", String::from_utf8_lossy(&text)),
                }
            }
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
            (r#""\ud800""#.into(), "surrogate"),
            (r#""\ud800\ud800""#.into(), "surrogate"),
            (r#""\ud83d\uee00""#.into(), "surrogate"),
            (r#""\udc00""#.into(), "surrogate"),
            (r#""\u00g0""#.into(), "escape"),
            ("\"\u{1}\"".into(), "without end"),
            ("NaN".into(), "expected a value"),
            ("".into(), "expected a value"),
            ("1 2".into(), "follows"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok() && parse(&nested(MAX_DEPTH + 2)).is_err());
        assert!(Json::parse(Path::new("f"), b"\"\xff\"").is_err());
    }
}
