//! Metadata values, in as few kinds as readers need, and conversions between them.

use std::borrow::Cow;

use crate::error::{Error, Result, try_vec};

/// A metadata value. All integers are one kind and all floats another; there are no nested arrays.
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
    /// The text form of a value that was taken.
    Taken(String),
    /// A string that is not UTF-8, with replacement characters.
    NotText(String),
}

/// Many strings in one allocation, as bytes, because tokens of a vocabulary need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    /// End of string `i` in `bytes`; it begins at the end of the previous one.
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

/// Collects strings without a memory limit: for tests and values whose size no file determines.
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
    /// Returns an integer that fits the type.
    pub(super) fn int<T: TryFrom<i128>>(&self) -> Option<T> {
        match self {
            Value::Int(i) => T::try_from(*i).ok(),
            _ => None,
        }
    }

    /// Returns a float or an integer.
    pub(super) fn f32(&self) -> Option<f32> {
        match self {
            Value::Float(x) => Some(narrow(*x)),
            Value::Int(i) => Some(narrow(*i as f64)),
            _ => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub(super) fn str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    pub(super) fn i64s(&self) -> Option<&[i64]> {
        match self {
            Value::Ints(v) => Some(v),
            _ => None,
        }
    }

    pub(super) fn strs(&self) -> Option<&Strings> {
        match self {
            Value::Strs(v) => Some(v),
            _ => None,
        }
    }

    /// Returns an array of integers or booleans, or a scalar as a list of one; `None` if one does not fit.
    pub(super) fn u32s(&self) -> Result<Option<Vec<u32>>> {
        let one = [self.int::<i64>().unwrap_or(-1)];
        let ints = match self {
            Value::Bools(list) => return collected(list.iter().map(|&b| Some(b.into()))),
            Value::Bool(b) => return collected([Some(u32::from(*b))].into_iter()),
            Value::Ints(list) => list,
            _ => &one[..],
        };
        collected(ints.iter().map(|&i| u32::try_from(i).ok()))
    }

    /// Returns an array of numbers, or a scalar as a list of one.
    pub(super) fn f32s(&self) -> Result<Option<Cow<'_, [f32]>>> {
        let list = match self {
            Value::Floats(list) => return Ok(Some(Cow::Borrowed(list))),
            Value::Ints(list) => collected(list.iter().map(|&i| Some(narrow(i as f64))))?,
            _ => collected([self.f32()].into_iter())?,
        };
        Ok(list.map(Cow::Owned))
    }

    /// Returns a scalar as text; an array as its length and kind.
    pub fn render(&self) -> String {
        match self {
            Value::Int(i) => i.to_string(),
            // The shortest text of the f32 that most floats are: 0.00001, not 0.000009999999747378752.
            Value::Float(x) if f64::from(narrow(*x)) == *x => narrow(*x).to_string(),
            Value::Float(x) => x.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Str(s) | Value::Taken(s) | Value::NotText(s) => s.clone(),
            Value::Ints(v) => format!("[{} integers]", v.len()),
            Value::Floats(v) => format!("[{} floats]", v.len()),
            Value::Bools(v) => format!("[{} booleans]", v.len()),
            Value::Strs(v) => format!("[{} strings]", v.len()),
        }
    }

    /// Returns element `index` of an array as text, formatted like scalars in `render`.
    pub fn render_element(&self, index: usize) -> Result<String> {
        let element = match self {
            Value::Ints(v) => v.get(index).map(|x| x.to_string()),
            Value::Floats(v) => v.get(index).map(|x| x.to_string()),
            Value::Bools(v) => v.get(index).map(|x| x.to_string()),
            Value::Strs(v) => v.get(index).map(|s| String::from_utf8_lossy(s).into_owned()),
            Value::Taken(what) => {
                return Err(Error::unsupported(format!("{what}, which is only kept by the tokenizer")));
            }
            _ => return Err(Error::invalid("the value is no array")),
        };
        element.ok_or_else(|| Error::not_found(format!("index is {index}, of {}", self.render())))
    }
}

/// Collects a list; `None` if an item is `None`.
fn collected<T>(items: impl ExactSizeIterator<Item = Option<T>>) -> Result<Option<Vec<T>>> {
    let mut all = try_vec("metadata", items.len())?;
    for item in items {
        let Some(item) = item else { return Ok(None) };
        all.push(item);
    }
    Ok(Some(all))
}

/// Floats in model files are meant as f32; an f64 beyond its range becomes infinite.
#[expect(clippy::cast_possible_truncation)]
pub(super) fn narrow(x: f64) -> f32 {
    x as f32
}

/// Returns a float that is a whole number.
pub(super) fn whole(x: f64) -> Option<u64> {
    if !(0.0..=2f64.powi(53)).contains(&x) || x.fract() != 0.0 {
        return None;
    }
    // Exact: whole, nonnegative, and within the precision of a float.
    #[expect(clippy::cast_possible_truncation)]
    Some(x as u64)
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
