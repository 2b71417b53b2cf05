//! The state of a translation: a configuration with the defaults of its family on one side, keys of GGUF on the other.
//! Knows only the keys that more than one part asks for.

use std::cell::RefCell;
use std::path::Path;

use super::family::Family;
use super::members::Members;
use crate::error::{Result, try_vec};
use crate::format::passed::Passed;
use crate::format::value::whole;
use crate::format::{TensorInfo, Value};

/// Names of the number of heads, of the width and of the number of layers.
pub(super) const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads"];
pub(super) const WIDTH: &[&str] = &["hidden_size", "n_embd", "n_embed", "d_model"];
pub(super) const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "n_layers"];

/// Names of the width of the feed-forward block. Llama 4's `intermediate_size` is that of experts.
pub(super) const FFN: &[&str] = &["intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size"];

/// More layers than any model has.
pub(super) const MAX_LAYERS: u64 = 1024;

/// Larger than any number of heads and any width of one.
pub(super) const MAX_WIDTH: u64 = 1 << 20;

/// A configuration, and the keys and tensors that it has become so far.
pub(super) struct Translator<'a> {
    /// The configuration's file, for messages.
    pub path: &'a Path,
    pub config: Members<'a>,
    pub family: &'static Family,
    pub keys: Vec<(String, Value)>,
    pub made: Vec<TensorInfo>,
    pub passed: RefCell<Passed>,
}

impl Translator<'_> {
    /// The value of a key that a configuration of the family may leave out.
    fn default(&self, names: &[&str]) -> Option<f64> {
        self.family.defaults.iter().find(|d| names.contains(&d.0)).map(|d| d.1)
    }

    pub fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        Ok(self.config.int(names)?.or(self.default(names).and_then(whole)))
    }

    pub fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        Ok(self.config.number(names)?.or(self.default(names)))
    }

    pub fn bool(&self, names: &[&str]) -> Result<Option<bool>> {
        Ok(self.config.bool(names)?.or(self.default(names).map(|x| x != 0.0)))
    }

    /// Refuses a text that is none of `allowed`.
    pub fn expect_text(&self, name: &str, allowed: &[&str]) -> Result<()> {
        match self.config.text(&[name])? {
            Some(text) if !allowed.contains(&text) => {
                Err(self.config.unsupported(&format!("{name:?} with the value {text:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a boolean other than `value`.
    pub fn expect(&self, name: &str, value: bool) -> Result<()> {
        match self.config.bool(&[name])? {
            Some(told) if told != value => Err(self.config.unsupported(&format!("{name:?} with the value {told}"))),
            _ => Ok(()),
        }
    }

    /// A number from 1 to `MAX_WIDTH` that the configuration or its family has to tell.
    pub fn size(&self, name: &str) -> Result<u64> {
        match self.int(&[name])? {
            Some(n) if (1..=MAX_WIDTH).contains(&n) => Ok(n),
            _ => Err(self.config.wrong(name, "a number from 1 to 2^20")),
        }
    }

    /// The kind of each layer as its place in `kinds`, where the configuration lists them.
    pub fn layers(&self, name: &str, kinds: &[&str]) -> Result<Option<Vec<usize>>> {
        let Some(list) = self.config.list(&[name])? else { return Ok(None) };
        if list.len() as u64 != self.n_layers()? {
            return Err(self.config.wrong(name, "one for each layer"));
        }
        let mut layers = try_vec("layers", list.len())?;
        for kind in list {
            let known = kinds.iter().position(|known| kind.as_str() == Some(known));
            layers.push(known.ok_or_else(|| self.config.unsupported(&format!("{name:?} with the value {kind}")))?);
        }
        Ok(Some(layers))
    }

    pub fn n_layers(&self) -> Result<u64> {
        match self.int(LAYERS)? {
            Some(n) if n <= MAX_LAYERS => Ok(n),
            _ => Err(self.config.wrong("num_hidden_layers", "at most 1024")),
        }
    }

    /// Adds a key after the architecture's name in the place of what it was.
    pub fn replace(&mut self, key: &str, value: Option<impl Into<Value>>) {
        let name = format!("{}.{key}", self.family.arch);
        self.keys.retain(|(other, _)| *other != name);
        self.set(key, value);
    }

    /// Adds a key after the architecture's name, if it has a value.
    pub fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.keys.push((format!("{}.{key}", self.family.arch), value.into()));
        }
    }
}

/// A number from 0 on as lists have it.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
