//! Typed metadata of a model: keys as the file has them, values in as few kinds as readers care about.
//! An accessor asks for a type and gets it, or an error that names the file and the key.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result, try_vec};

/// A value. All integers are one kind and all floats another; nested arrays do not exist.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
    Strs(Strings),
    /// What `take_strs` and `take_str` leave behind: the text form of the value that was moved out.
    Taken(String),
}

/// Many strings in one allocation. Kept as bytes, because the tokens of a vocabulary need not be UTF-8 each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    /// Where string `i` ends in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
}

impl Strings {
    pub fn with_capacity(n: usize) -> Result<Strings> {
        Ok(Strings { bytes: Vec::new(), ends: try_vec("metadata", n)? })
    }

    pub fn push(&mut self, s: &[u8]) -> Result<()> {
        let out_of_memory = || Error::OutOfMemory { what: "metadata", bytes: s.len() as u64 };
        let end = self.bytes.len().checked_add(s.len()).and_then(|end| u32::try_from(end).ok());
        let end = end.ok_or_else(out_of_memory)?;
        self.bytes.try_reserve(s.len()).map_err(|_| out_of_memory())?;
        self.ends.try_reserve(1).map_err(|_| out_of_memory())?;
        self.bytes.extend_from_slice(s);
        self.ends.push(end);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = i.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

/// For tests and for values that are made rather than read; not for lists sized by a file.
impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Strings {
        let mut all = Strings::default();
        for s in strings {
            all.bytes.extend_from_slice(s.as_ref());
            all.ends.push(u32::try_from(all.bytes.len()).unwrap_or(u32::MAX));
        }
        all
    }
}

impl Value {
    fn u64(&self) -> Option<u64> {
        self.int().and_then(|i| i.try_into().ok())
    }

    fn u32(&self) -> Option<u32> {
        self.int().and_then(|i| i.try_into().ok())
    }

    fn i64(&self) -> Option<i64> {
        self.int().and_then(|i| i.try_into().ok())
    }

    fn int(&self) -> Option<i128> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    fn f64(&self) -> Option<f64> {
        match self {
            Value::Float(x) => Some(*x),
            Value::Int(i) => Some(*i as f64),
            _ => None,
        }
    }

    fn f32(&self) -> Option<f32> {
        self.f64().map(narrow)
    }

    fn bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    fn str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    fn i64s(&self) -> Option<&[i64]> {
        match self {
            Value::Ints(v) => Some(v),
            _ => None,
        }
    }

    fn f32s(&self) -> Option<&[f32]> {
        match self {
            Value::Floats(v) => Some(v),
            _ => None,
        }
    }

    fn bools(&self) -> Option<&[bool]> {
        match self {
            Value::Bools(v) => Some(v),
            _ => None,
        }
    }

    fn strs(&self) -> Option<&Strings> {
        match self {
            Value::Strs(v) => Some(v),
            _ => None,
        }
    }

    /// A scalar as text; an array as its length and kind.
    pub fn render(&self) -> String {
        match self {
            Value::Int(i) => i.to_string(),
            // The shortest text of the f32 that most floats of a file are: 0.00001, not 0.000009999999747378752.
            Value::Float(x) if f64::from(narrow(*x)) == *x => narrow(*x).to_string(),
            Value::Float(x) => x.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Str(s) | Value::Taken(s) => s.clone(),
            Value::Ints(v) => format!("[{} integers]", v.len()),
            Value::Floats(v) => format!("[{} floats]", v.len()),
            Value::Bools(v) => format!("[{} booleans]", v.len()),
            Value::Strs(v) => format!("[{} strings]", v.len()),
        }
    }
}

impl Value {
    /// Element `index` of an array as text, in the form that `render` gives a scalar.
    pub fn render_element(&self, index: usize) -> Result<String> {
        let element = match self {
            Value::Ints(v) => v.get(index).map(|x| x.to_string()),
            Value::Floats(v) => v.get(index).map(|x| x.to_string()),
            Value::Bools(v) => v.get(index).map(|x| x.to_string()),
            Value::Strs(v) => v.get(index).map(|s| String::from_utf8_lossy(s).into_owned()),
            Value::Taken(what) => return Err(Error::unsupported(format!("{what}, which the tokenizer keeps"))),
            _ => return Err(Error::invalid("the value is no array")),
        };
        element.ok_or_else(|| Error::invalid(format!("index {index} of {}", self.render())))
    }
}

/// Every float that a model's file holds is meant as an f32; an f64 beyond its range becomes infinite.
#[expect(clippy::cast_possible_truncation)]
pub(super) fn narrow(x: f64) -> f32 {
    x as f32
}

macro_rules! values_from {
    ($($t:ty => $make:expr;)*) => {$(
        impl From<$t> for Value {
            fn from(x: $t) -> Value {
                $make(x)
            }
        }
    )*};
}

values_from! {
    u32 => |x| Value::Int(i128::from(x));
    i32 => |x| Value::Int(i128::from(x));
    u64 => |x| Value::Int(i128::from(x));
    i64 => |x| Value::Int(i128::from(x));
    f32 => |x| Value::Float(f64::from(x));
    f64 => Value::Float;
    bool => Value::Bool;
    &str => |x: &str| Value::Str(x.to_owned());
    String => Value::Str;
    Vec<i64> => Value::Ints;
    Vec<f32> => Value::Floats;
    Vec<bool> => Value::Bools;
    Strings => Value::Strs;
}

/// Keys and values, and the file that they were read from.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    path: PathBuf,
    /// Sorted by key.
    entries: Vec<(String, Value)>,
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $get:ident, $require:ident: $t:ty, $wanted:literal;)*) => {$(
        $(#[$doc])*
        pub fn $get(&self, key: &str) -> Result<Option<$t>> {
            let Some(value) = self.get(key) else { return Ok(None) };
            value.$get().map(Some).ok_or_else(|| self.wrong_type(key, value, $wanted))
        }

        #[doc = concat!("`", stringify!($get), "` of a key that must be there.")]
        pub fn $require(&self, key: &str) -> Result<$t> {
            self.$get(key)?.ok_or_else(|| self.missing(key))
        }
    )*};
}

impl Metadata {
    /// Refuses a key that occurs twice.
    pub fn new(path: &Path, mut entries: Vec<(String, Value)>) -> Result<Metadata> {
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (a, b) in entries.iter().zip(entries.iter().skip(1)) {
            if a.0 == b.0 {
                return Err(Error::format(path, format!("the key {:?} occurs twice", a.0)));
            }
        }
        Ok(Metadata { path: path.to_owned(), entries })
    }

    accessors! {
        /// An integer of any width that fits.
        u64, require_u64: u64, "an integer of 0 or more";
        u32, require_u32: u32, "an integer from 0 to 4294967295";
        i64, require_i64: i64, "a 64-bit integer";
        /// A float or an integer.
        f64, require_f64: f64, "a number";
        f32, require_f32: f32, "a number";
        bool, require_bool: bool, "a boolean";
        str, require_str: &str, "a string";
        i64s, require_i64s: &[i64], "an array of integers";
        f32s, require_f32s: &[f32], "an array of floats";
        bools, require_bools: &[bool], "an array of booleans";
        strs, require_strs: &Strings, "an array of strings";
    }

    /// An array of integers of 0 or more.
    pub fn u64s(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let Some(values) = self.i64s(key)? else { return Ok(None) };
        let mut out = try_vec("metadata", values.len())?;
        for &v in values {
            out.push(v.try_into().map_err(|_| self.error(format!("the key {key:?} holds the negative number {v}")))?);
        }
        Ok(Some(out))
    }

    /// Moves the strings of a key out, so that a vocabulary is not held twice. The key stays, for `render` only.
    pub fn take_strs(&mut self, key: &str) -> Result<Option<Strings>> {
        self.strs(key)?;
        Ok(match self.take(key) {
            Some(Value::Strs(strings)) => Some(strings),
            _ => None,
        })
    }

    /// Moves a string out; the key stays, for `render` only.
    pub fn take_str(&mut self, key: &str) -> Result<Option<String>> {
        self.str(key)?;
        Ok(match self.take(key) {
            Some(Value::Str(text)) => Some(text),
            _ => None,
        })
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let i = self.position(key).ok()?;
        let value = &mut self.entries.get_mut(i)?.1;
        let taken = match value {
            Value::Str(text) => format!("[{} bytes]", text.len()),
            ref other => other.render(),
        };
        Some(std::mem::replace(value, Value::Taken(taken)))
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).ok().and_then(|i| self.entries.get(i)).map(|e| &e.1)
    }

    /// Sets a key, in place of the value that it had.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        match self.position(key) {
            Ok(i) => {
                if let Some(entry) = self.entries.get_mut(i) {
                    entry.1 = value.into();
                }
            }
            Err(i) => self.entries.insert(i, (key.to_owned(), value.into())),
        }
    }

    /// In the order of the alphabet.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|e| e.0.as_str())
    }

    /// The text form of a value: a scalar as it is, an array as `[49152 strings]`.
    pub fn render(&self, key: &str) -> Option<String> {
        self.get(key).map(Value::render)
    }

    /// The file or folder that the metadata came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An `Error::Format` about the file of this metadata.
    pub fn error(&self, what: impl Into<String>) -> Error {
        Error::format(&self.path, what)
    }

    pub fn missing(&self, key: &str) -> Error {
        self.error(format!("the key {key:?} is missing"))
    }

    fn wrong_type(&self, key: &str, value: &Value, wanted: &str) -> Error {
        let found = match value {
            Value::Str(_) => "a string".to_owned(),
            other => other.render(),
        };
        self.error(format!("the key {key:?} should hold {wanted}, found {found}"))
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|e| e.0.as_str().cmp(key))
    }
}

/// Metadata without a file, for tests; the last value of a key wins.
impl<K: AsRef<str>> FromIterator<(K, Value)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Metadata {
        let mut metadata = Metadata::default();
        for (key, value) in entries {
            metadata.set(key.as_ref(), value);
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metadata {
        Metadata::from_iter([
            ("int", Value::from(7u32)),
            ("negative", (-7i64).into()),
            ("large", u64::MAX.into()),
            ("float", 1e-5f32.into()),
            ("yes", true.into()),
            ("name", "x".into()),
            ("ints", vec![1i64, -1].into()),
            ("tokens", ["a", "", "bc"].iter().collect::<Strings>().into()),
        ])
    }

    #[test]
    fn integers_convert_where_they_fit() {
        let m = sample();
        assert_eq!(m.u64("int").unwrap(), Some(7));
        assert_eq!(m.f32("int").unwrap(), Some(7.0));
        assert_eq!(m.u64("large").unwrap(), Some(u64::MAX));
        assert_eq!(m.i64("negative").unwrap(), Some(-7));
        assert!(m.u32("large").is_err() && m.i64("large").is_err() && m.u64("negative").is_err());
        assert!(m.u64("float").is_err() && m.u64("yes").is_err() && m.bool("int").is_err());
        assert!(m.u64s("ints").is_err());
        assert_eq!(m.i64s("ints").unwrap(), Some(&[1i64, -1][..]));
    }

    #[test]
    fn errors_name_the_key_and_absence_is_none() {
        let m = sample();
        assert_eq!(m.str("absent").unwrap(), None);
        assert!(m.require_str("absent").unwrap_err().to_string().contains("\"absent\" is missing"));
        let text = m.u64("name").unwrap_err().to_string();
        assert!(text.contains("\"name\"") && text.contains("a string"), "{text}");
    }

    #[test]
    fn taken_strings_leave_their_text_form() {
        let mut m = sample();
        let tokens = m.take_strs("tokens").unwrap().unwrap();
        assert_eq!(tokens.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
        assert_eq!(tokens.get(3), None);
        assert_eq!(m.render("tokens").unwrap(), "[3 strings]");
        assert!(m.strs("tokens").is_err());
        assert_eq!(m.take_str("name").unwrap().unwrap(), "x");
        assert_eq!(m.render("name").unwrap(), "[1 bytes]");
    }

    #[test]
    fn floats_render_as_the_f32_they_are() {
        let m = sample();
        assert_eq!(m.render("float").unwrap(), "0.00001");
        assert_eq!(m.render("int").unwrap(), "7");
        assert_eq!(Value::Float(0.1).render(), "0.1");
    }

    #[test]
    fn a_key_may_occur_once() {
        let twice =
            vec![("a".to_owned(), Value::Int(1)), ("b".to_owned(), Value::Int(1)), ("a".to_owned(), Value::Int(2))];
        let error = Metadata::new(Path::new("f"), twice).unwrap_err();
        assert_eq!(error.to_string(), "the key \"a\" occurs twice: f");
    }
}
