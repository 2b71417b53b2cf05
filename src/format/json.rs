//! JSON (RFC 8259) of hostile origin, as a tree that borrows its text. `serde_json` reads the grammar; this file bounds
//! nesting, number of values and memory, and refuses an object that has a name twice.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Result, secured};
use crate::memory::is_short;

/// Levels of arrays and objects, each of which is a level of recursion.
const MAX_DEPTH: usize = 64;
/// Values in a document; the list of a model's tensors has about ten each.
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

/// Members in the order of the file.
pub type Object<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl<'a> Json<'a> {
    /// Reads a document. `path` is for messages.
    pub fn parse(path: &Path, bytes: &'a [u8]) -> Result<Json<'a>> {
        let text = str::from_utf8(bytes).map_err(|_| Error::format(path, "JSON that is not UTF-8"))?;
        let mut bounds = Bounds { values: 0, out_of_memory: None };
        let mut reader = serde_json::Deserializer::from_str(text);
        // The reader copies strings with escapes without asking.
        secured("JSON", text.len() + (64 << 10), || {
            let read = ValueSeed { bounds: &mut bounds, depth: 0 }.deserialize(&mut reader);
            let read = read.and_then(|value| reader.end().map(|()| value));
            match (read, bounds.out_of_memory) {
                (Ok(value), _) => Ok(value),
                (Err(_), Some(bytes)) => Err(Error::OutOfMemory { what: "JSON", bytes }),
                (Err(e), None) => Err(Error::format(path, format!("JSON: {e}"))),
            }
        })
    }

    /// A member of an object; one that is `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.get_or_null(name).filter(|v| **v != Json::Null)
    }

    /// A member of an object, `null` or not.
    pub fn get_or_null(&self, name: &str) -> Option<&Json<'a>> {
        self.members().iter().find(|m| m.0 == name).map(|m| &m.1)
    }

    /// The members of an object, none of anything else.
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        if let Json::Object(members) = self { members } else { &[] }
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

/// The resources that a document has taken so far.
struct Bounds {
    values: usize,
    /// Bytes that could not be allocated.
    out_of_memory: Option<u64>,
}

impl Bounds {
    fn push<T, E: serde::de::Error>(&mut self, list: &mut Vec<T>, item: T) -> Result<(), E> {
        if list.try_reserve(1).is_err() {
            self.out_of_memory = Some(size_of::<T>() as u64);
            return Err(E::custom("out of memory"));
        }
        list.push(item);
        Ok(())
    }

    fn owned<'a, E: serde::de::Error>(&mut self, text: &str) -> Result<Cow<'a, str>, E> {
        super::contents::owned(text).map(Cow::Owned).map_err(|_| {
            self.out_of_memory = Some(text.len() as u64);
            E::custom("out of memory")
        })
    }
}

/// Reads one value at `depth`.
struct ValueSeed<'b> {
    bounds: &'b mut Bounds,
    depth: usize,
}

impl<'a> DeserializeSeed<'a> for ValueSeed<'_> {
    type Value = Json<'a>;

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<Json<'a>, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.bounds.values += 1;
        if is_short() {
            self.bounds.out_of_memory = Some(0);
            return Err(D::Error::custom("out of memory"));
        }
        if self.bounds.values > MAX_VALUES {
            return Err(D::Error::custom(format!("more than {MAX_VALUES} values")));
        }
        reader.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for ValueSeed<'_> {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json<'a>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Json<'a>, E> {
        Ok(Json::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Json<'a>, E> {
        Ok(Json::Int(i))
    }

    fn visit_u64<E>(self, i: u64) -> Result<Json<'a>, E> {
        Ok(i64::try_from(i).map_or(Json::Float(i as f64), Json::Int))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Json<'a>, E> {
        Ok(Json::Float(x))
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Json<'a>, E> {
        Ok(Json::Str(Cow::Borrowed(text)))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Json<'a>, E> {
        self.bounds.owned(text).map(Json::Str)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Json<'a>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(ValueSeed { bounds: self.bounds, depth: self.depth + 1 })? {
            self.bounds.push(&mut items, item)?;
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Json<'a>, A::Error> {
        let mut members: Object = Vec::new();
        while let Some(name) = map.next_key_seed(NameSeed(self.bounds))? {
            let value = map.next_value_seed(ValueSeed { bounds: self.bounds, depth: self.depth + 1 })?;
            self.bounds.push(&mut members, (name, value))?;
        }
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &members {
            self.bounds.push(&mut names, name)?;
        }
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            Some((name, _)) => Err(A::Error::custom(format!("the name {name:?} occurs twice in an object"))),
            None => Ok(Json::Object(members)),
        }
    }
}

/// Reads the name of a member.
struct NameSeed<'b>(&'b mut Bounds);

impl<'a> DeserializeSeed<'a> for NameSeed<'_> {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<Cow<'a, str>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for NameSeed<'_> {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Cow<'a, str>, E> {
        self.0.owned(name)
    }
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

    /// Decimal fractions are the nearest floats, as the standard library reads them.
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
            ("NaN".into(), "expected value"),
            ("".into(), "EOF"),
            ("1 2".into(), "trailing"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok() && parse(&nested(MAX_DEPTH + 2)).is_err());
        assert!(Json::parse(Path::new("f"), b"\"\xff\"").is_err());
    }
}
