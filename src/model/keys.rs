//! Typed lookup of an architecture's keys, which records the ones read.
//!
//! Some converters write every key, with "unset" as 0, -1, an empty string, a list of these, or minus infinity for a
//! lower bound: all of them read as absent. NaN and numbers beyond those of any network are rejected, because results
//! would be NaN or infinite.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::format::{Metadata, Value};

pub struct Keys<'a> {
    pub metadata: &'a Metadata,
    pub architecture: &'a str,
    read: RefCell<BTreeSet<String>>,
}

/// True for a value of key `name` that means absent.
fn is_unset(name: &str, value: &Value) -> bool {
    match value {
        Value::Float(f64::NEG_INFINITY) => name.ends_with("lower_bound"),
        Value::Int(i) => matches!(i, 0 | -1 | 0xffff_ffff),
        Value::Float(x) => *x == 0.0 || *x == -1.0,
        Value::Bool(b) => !b,
        Value::Str(s) => s.is_empty(),
        Value::Ints(v) => v.iter().all(|i| matches!(i, 0 | -1 | 0xffff_ffff)),
        Value::Floats(v) => v.iter().all(|x| *x == 0.0 || *x == -1.0),
        Value::Bools(v) => v.iter().all(|b| !b),
        Value::Strs(v) => v.is_empty(),
        Value::Taken(_) | Value::NotText(_) => false,
    }
}

/// Bounds of numbers by key suffix, far beyond any real network.
const BOUNDS: &[(&str, [f32; 2])] = &[
    ("epsilon", [1e-20, 1.0]),
    ("freq_base", [1.0, 1e15]),
    ("freq_base_swa", [1.0, 1e15]),
    ("swiglu_clamp_exp", [0.0, 1e6]),
    ("swiglu_clamp_shexp", [0.0, 1e6]),
    ("activation_sparsity_scale", [f32::NEG_INFINITY, 100.0]),
];
/// Bounds of scales and caps.
const FACTOR: [f32; 2] = [1e-6, 1e6];

impl<'a> Keys<'a> {
    pub fn new(metadata: &'a Metadata, architecture: &'a str) -> Keys<'a> {
        Keys { metadata, architecture, read: RefCell::default() }
    }

    /// `ARCHITECTURE.key`
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// Returns the value of a key if it is set; marks the key as read.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let name = self.name(key);
        let value = self.metadata.get(&name).filter(|value| !is_unset(&name, value));
        self.read.borrow_mut().insert(name);
        value
    }

    /// Returns the keys of the architecture that are set but were not read.
    pub fn unread(&self) -> Vec<(&'a str, &'a Value)> {
        let (prefix, read) = (self.name(""), self.read.borrow());
        let unread = self.metadata.iter().filter(|(name, value)| !read.contains(*name) && !is_unset(name, value));
        unread.filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?, value))).collect()
    }

    /// Returns a number, or a list with one value per layer that are all equal.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        let Some(_) = self.get(key) else { return Ok(None) };
        match self.metadata.u32s(&self.name(key))?.as_deref() {
            Some([first, rest @ ..]) if rest.iter().all(|v| v == first) => Ok(Some(*first as usize)),
            _ => Err(self.unsupported(key)),
        }
    }

    /// Returns one value per layer: from a list, in which 0 is a value, or one number for all.
    pub fn per_layer_sizes(&self, key: &str, n_layers: usize) -> Result<Option<Vec<usize>>> {
        let Some(_) = self.get(key) else { return Ok(None) };
        match self.metadata.u32s(&self.name(key))?.as_deref() {
            Some([one]) => Ok(Some(vec![*one as usize; n_layers])),
            Some(list) if list.len() >= n_layers => Ok(Some(list[..n_layers].iter().map(|v| *v as usize).collect())),
            _ => Err(self.unsupported(key)),
        }
    }

    /// Returns a list of numbers.
    pub fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>> {
        let Some(_) = self.get(key) else { return Ok(None) };
        Ok(self.metadata.u32s(&self.name(key))?.map(|list| list.iter().map(|v| *v as usize).collect()))
    }

    pub fn require_size(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| self.without(key))
    }

    pub fn require_float(&self, key: &str) -> Result<f32> {
        self.float(key)?.ok_or_else(|| self.without(key))
    }

    /// Returns the error for a key that is missing or unset.
    fn without(&self, key: &str) -> Error {
        match self.metadata.get(&self.name(key)) {
            Some(_) => self.unsupported(key),
            None => self.metadata.missing(&self.name(key)),
        }
    }

    /// Returns a number within the bounds of its key.
    pub fn float(&self, key: &str) -> Result<Option<f32>> {
        let Some(_) = self.get(key) else { return Ok(None) };
        let declared = self.metadata.f32(&self.name(key))?;
        self.check_bounds(key, declared.as_slice())?;
        Ok(declared)
    }

    /// Like `float`, for a list.
    pub fn floats(&self, key: &str) -> Result<Option<Cow<'a, [f32]>>> {
        let Some(_) = self.get(key) else { return Ok(None) };
        let declared = self.metadata.f32s(&self.name(key))?;
        self.check_bounds(key, declared.as_deref().unwrap_or_default())?;
        Ok(declared)
    }

    fn check_bounds(&self, key: &str, numbers: &[f32]) -> Result<()> {
        let [least, most] = BOUNDS.iter().find(|(end, _)| key.ends_with(end)).map_or(FACTOR, |(_, bounds)| *bounds);
        match numbers.iter().find(|x| !(least..=most).contains(*x)) {
            Some(x) => {
                Err(Error::unsupported(format!("{} is {x:e}, supported is {least:e} to {most:e}", self.name(key))))
            }
            None => Ok(()),
        }
    }

    /// True if the file has a key, set or not.
    pub fn is_present(&self, key: &str) -> bool {
        self.metadata.get(&self.name(key)).is_some()
    }

    /// Returns a boolean for which false is not "unset".
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok((self.metadata.get(&self.name(key)) == Some(&Value::Bool(false))).then_some(false)),
            Some(_) => self.metadata.bool(&self.name(key)),
        }
    }

    pub fn str(&self, key: &str) -> Result<Option<&'a str>> {
        self.get(key).map_or(Ok(None), |_| self.metadata.str(&self.name(key)))
    }

    /// Marks every key with this prefix as read, because the architecture lacks the feature.
    pub fn ignore(&self, prefix: &str) {
        let prefix = self.name(prefix);
        let names =
            self.metadata.iter().map(|(name, _)| name).filter(|name| name.starts_with(&prefix)).map(str::to_owned);
        self.read.borrow_mut().extend(names);
    }

    /// Returns the error for an unsupported value of a key, or for its absence.
    pub fn unsupported(&self, key: &str) -> Error {
        match self.is_present(key) {
            true => Error::unsupported(self.refusal(key)),
            false => self.metadata.missing(&self.name(key)),
        }
    }

    /// Returns the error for a value other than the `known` ones.
    pub fn unknown(&self, key: &str, known: &[&str]) -> Error {
        Error::unsupported(format!("{}; known are {}", self.refusal(key), known.join(", ")))
    }

    pub fn refusal(&self, key: &str) -> String {
        let name = self.name(key);
        let value = self.metadata.render(&name).unwrap_or_default();
        format!("{name} is {value}, which {} does not support", self.architecture)
    }
}
