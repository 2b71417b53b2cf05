//! Typed metadata of a model: keys as in the file, each with a value. Accessors return the requested type, or an error
//! with the file and the key. Independent of the meaning of keys.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::value::{Strings, Value};
use crate::error::{Error, Result};

/// Keys and values, and the file they were read from.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    path: PathBuf,
    /// Sorted by key.
    entries: Vec<(String, Value)>,
}

impl Metadata {
    /// Rejects duplicate keys.
    pub fn new(path: &Path, mut entries: Vec<(String, Value)>) -> Result<Metadata> {
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (a, b) in entries.iter().zip(entries.iter().skip(1)) {
            if a.0 == b.0 {
                return Err(Error::format(path, format!("the key {:?} occurs twice", a.0)));
            }
        }
        Ok(Metadata { path: path.to_owned(), entries })
    }

    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.typed(key, Value::int, "an integer from 0 to 4294967295")
    }

    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, Value::int, "an integer of 0 or more")
    }

    pub fn i64(&self, key: &str) -> Result<Option<i64>> {
        self.typed(key, Value::int, "a 64-bit integer")
    }

    /// Returns a float or an integer.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, Value::f32, "a number")
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, Value::bool, "a boolean")
    }

    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, Value::str, "a string")
    }

    pub fn i64s(&self, key: &str) -> Result<Option<&[i64]>> {
        self.typed(key, Value::i64s, "an array of integers")
    }

    pub fn strs(&self, key: &str) -> Result<Option<&Strings>> {
        self.typed(key, Value::strs, "an array of strings")
    }

    /// Returns an array of integers or booleans, usually one per layer, or a scalar as a list of one.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wanted = "integers from 0 to 4294967295 or booleans";
        value.u32s()?.map(Some).ok_or_else(|| self.wrong_type(key, value, wanted))
    }

    /// Returns an array of numbers, or a scalar as a list of one.
    pub fn f32s(&self, key: &str) -> Result<Option<Cow<'_, [f32]>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.f32s()?.map(Some).ok_or_else(|| self.wrong_type(key, value, "numbers"))
    }

    pub fn require_str(&self, key: &str) -> Result<&str> {
        self.str(key)?.ok_or_else(|| self.missing(key))
    }

    fn typed<'m, T>(&'m self, key: &str, read: impl Fn(&'m Value) -> Option<T>, wanted: &str) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong_type(key, value, wanted))
    }

    /// Takes the strings of a key, so that a vocabulary is not held twice. The key stays, only for `render`.
    pub fn take_strs(&mut self, key: &str) -> Result<Option<Strings>> {
        self.strs(key)?;
        Ok(match self.take(key) {
            Some(Value::Strs(strings)) => Some(strings),
            _ => None,
        })
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let i = self.position(key).ok()?;
        let value = &mut self.entries.get_mut(i)?.1;
        let taken = Value::Taken(value.render());
        Some(std::mem::replace(value, taken))
    }

    /// Returns a value of any type; `None` if the key is absent.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).ok().and_then(|i| self.entries.get(i)).map(|e| &e.1)
    }

    /// Sets or replaces the value of a key.
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

    /// Returns the keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the text form of a value: a scalar as it is, an array as `[49152 strings]`.
    pub fn render(&self, key: &str) -> Option<String> {
        self.get(key).map(Value::render)
    }

    /// Returns the file or folder of the metadata.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an `Error::Format` about the file of this metadata.
    pub fn error(&self, what: impl Into<String>) -> Error {
        Error::format(&self.path, what)
    }

    pub fn missing(&self, key: &str) -> Error {
        self.error(format!("the key {key:?} is missing"))
    }

    fn wrong_type(&self, key: &str, value: &Value, wanted: &str) -> Error {
        let found = match value {
            Value::Str(_) => "a string".to_owned(),
            Value::NotText(_) => "a string that is not UTF-8".to_owned(),
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
        assert_eq!(m.i64s("ints").unwrap(), Some(&[1i64, -1][..]));
    }

    #[test]
    fn lists_may_be_of_any_fitting_type_or_lone() {
        let m = Metadata::from_iter([
            ("ints", Value::from(vec![3i64, 0])),
            ("bools", vec![true, false].into()),
            ("floats", vec![0.5f32].into()),
            ("negative", vec![3i64, -1].into()),
            ("int", 7u32.into()),
            ("lone negative", (-7i64).into()),
            ("bool", true.into()),
            ("float", 0.25f32.into()),
            ("empty", Value::Ints(vec![])),
            ("name", "x".into()),
        ]);
        for (key, list) in
            [("ints", vec![3, 0]), ("bools", vec![1, 0]), ("int", vec![7]), ("bool", vec![1]), ("empty", vec![])]
        {
            assert_eq!(m.u32s(key).unwrap(), Some(list), "{key}");
        }
        for (key, list) in [("ints", vec![3.0, 0.0]), ("floats", vec![0.5]), ("int", vec![7.0]), ("float", vec![0.25])]
        {
            assert_eq!(m.f32s(key).unwrap().as_deref(), Some(&list[..]), "{key}");
        }
        for key in ["floats", "negative", "lone negative", "float", "name"] {
            assert!(m.u32s(key).unwrap_err().to_string().contains(key));
        }
        for key in ["bools", "bool", "name"] {
            assert!(m.f32s(key).unwrap_err().to_string().contains(key));
        }
        assert_eq!((m.u32s("absent").unwrap(), m.f32s("absent").unwrap()), (None, None));
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
