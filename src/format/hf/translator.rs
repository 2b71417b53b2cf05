//! Model families, and the state of a translation: from a configuration with its family's defaults to GGUF keys. Knows
//! only the keys that several parts need.

use std::cell::RefCell;
use std::path::Path;

use super::lists;
use super::members::Members;
use crate::error::{Result, try_vec};
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::value::whole;
use crate::format::{TensorInfo, Value};

/// Names of the number of heads; next, of the width and of the number of layers.
pub(super) const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"];
pub(super) const WIDTH: &[&str] = &["hidden_size", "n_embd", "n_embed", "d_model", "dim"];
pub(super) const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "n_layers", "num_layers"];

/// Names of the width of the feed-forward block. Llama 4's `intermediate_size` is its experts'.
pub(super) const FFN: &[&str] =
    &["intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size", "hidden_dim", "ffn_dim"];

/// Maximum number of layers, more than any model has.
pub(super) const MAX_LAYERS: u64 = 1024;

/// Maximum of heads and widths, larger than in any model.
pub(super) const MAX_WIDTH: u64 = 1 << 20;

pub(super) enum KeyType {
    Int,
    Number,
    /// A number; `null` is 0, which turns the cap off.
    Cap,
    /// The inverse square root of a number.
    InverseRoot,
    Bool,
}

/// Key after the architecture's name, its type, and its names in configurations.
pub(super) type Key = (&'static str, KeyType, &'static [&'static str]);

/// Models of an architecture with similar configurations and checkpoints: everything that distinguishes them from
/// others.
pub(super) struct Family {
    /// `model_type` of a configuration.
    pub model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    pub arch: &'static str,
    /// The activation functions that the architecture implies, by each of their names; the first one is the default.
    pub activations: &'static [&'static str],
    /// True if `gelu` is exact, not the tanh approximation.
    pub exact_gelu: bool,
    /// The default epsilon of norms in `transformers`.
    pub epsilon: f64,
    /// True if configurations do not declare the epsilon.
    pub fixed_epsilon: bool,
    /// Keys that not all families have, in groups.
    pub keys: &'static [&'static [Key]],
    /// Defaults of official configurations, space-separated `key=number`; booleans are 0 or 1.
    pub defaults: &'static str,
    /// Space-separated keys without effect in the family.
    pub effectless: &'static str,
    /// Sets keys that are not plain translations: values derived from several keys, lists with one value per layer.
    /// Rejects values that the networks of GGUF files do not support.
    pub extras: fn(&mut Translator) -> Result<()>,
    /// Sets the layers with a sliding window.
    pub windows: fn(&mut Translator) -> Result<()>,
    /// Sets RoPE.
    pub rope: fn(&mut Translator) -> Result<()>,
    /// Names, next to the RoPE parameters, of the rotated part of a head.
    pub rotary_part: &'static [&'static str],
    /// True if layers with a window may have a RoPE base of their own.
    pub windowed_base: bool,
    /// True if layers with a window may rotate another part of a head.
    pub windowed_part: bool,
    /// True for M-RoPE sections that change nothing in text, given whether they are interleaved, and their number of
    /// pairs.
    pub sections: fn(&Translator, Option<bool>, Option<u64>) -> Result<bool>,
    /// Sets the keys of a RoPE type of the family; returns false for other types.
    pub own_rope: fn(&mut Translator, &Members, &str) -> Result<bool>,
    /// True if queries may be scaled by position (`llama_4_scaling_beta`).
    pub growing_queries: bool,
    /// True if GGUF files name `post_attention_layernorm` after attention, not after the feed-forward block.
    pub post_norms: bool,
    /// True if norm weights are stored minus 1.
    pub norms_less_one: bool,
    /// True if latent vectors are scaled by the square root of hidden width over rank.
    pub scaled_ranks: bool,
    /// True if RoPE pairs adjacent dimensions, false for halves of a head.
    pub adjacent: bool,
    /// Suffixes of matrices stored as `[in, out]`.
    pub transposed: &'static [&'static str],
    /// True if expert matrices may also be stored as `[experts, out, in]`.
    pub either_way: bool,
    /// True if the fused QKV tensor is grouped by KV head.
    pub grouped_qkv: bool,
    /// True if the rows of gate and up alternate in the fused tensor of experts.
    pub alternating_gate_up: bool,
    /// Names of modules and tensors with a meaning specific to this family, and their GGUF names, in groups. A name
    /// after `/` is outside of layers, after `/key:` a key.
    pub names: &'static [&'static [(&'static str, &'static str)]],
}

/// Properties of a model from its configuration, in addition to keys.
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    /// True for tied embeddings; `None` if the configuration does not say.
    pub tied: Option<bool>,
    /// True if matrices are quantized.
    pub quantized: bool,
    /// True if norm weights are not stored minus 1, unlike in the rest of the family.
    pub whole_norms: bool,
    pub n_layers: u64,
    /// Width of the residual stream.
    pub width: u64,
    /// True if MTP layers may follow the trunk.
    pub predicts: bool,
    /// Number of MTP layers with a translation.
    pub n_predicting: u64,
    /// Number of query heads per KV head, and width of a head.
    pub group: [u64; 2],
    /// True for a decoder without a head, whose hidden states are its results.
    pub embeds: bool,
    pub kv_heads: Option<u64>,
    /// Rows per head of keys, and of values, in the projection of the latent vector of MLA.
    pub latent: [u64; 2],
    /// Width of the latent vector, and `latent`, of sliding-window layers if these differ.
    pub windowed_latent: [u64; 3],
    /// Number of layers in each of two stacks, if there are two.
    pub stack: u64,
    /// Number of groups of Mamba 2's inner norm, if several.
    pub groups: u64,
    /// True if the feed-forward block consists only of the shared expert.
    pub is_dense: bool,
    /// Index of the position embedding of the first token.
    pub first_position: u64,
    /// True for a classifier, whose scores are its results.
    pub classifies: bool,
}

/// A configuration, and its translated keys and tensors so far.
pub(super) struct Translator<'a> {
    /// The configuration's file, for messages.
    pub path: &'a Path,
    pub config: Members<'a>,
    pub family: &'static Family,
    pub keys: Vec<(String, Value)>,
    /// LongRoPE's factors: numbers in a configuration, tensors in a GGUF file.
    pub made: Vec<TensorInfo>,
    pub facts: Facts,
    pub passed: RefCell<Passed>,
}

impl<'a> Translator<'a> {
    /// Returns the members of an object within the configuration; none if absent.
    pub fn part(&self, name: &str) -> Members<'a> {
        let object = self.config.find(&[name]).map_or(&Json::Null, |(_, object)| object);
        Members::new(self.path, object, &Json::Null)
    }

    /// Returns the family's default of a key.
    fn default(&self, names: &[&str]) -> Option<f64> {
        lists::number(self.family.defaults, names)
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

    /// Fails for a text outside `allowed`.
    pub fn expect_text(&self, name: &str, allowed: &[&str]) -> Result<()> {
        match self.config.text(&[name])? {
            Some(text) if !allowed.contains(&text) => {
                Err(self.config.unsupported(&format!("{name:?} with the value {text:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Fails for a boolean other than `value`.
    pub fn expect(&self, name: &str, value: bool) -> Result<()> {
        match self.config.bool(&[name])? {
            Some(declared) if declared != value => {
                Err(self.config.unsupported(&format!("{name:?} with the value {declared}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns a number from 1 to `MAX_WIDTH`, required in the configuration or its family.
    pub fn size(&self, name: &str) -> Result<u64> {
        match self.int(&[name])? {
            Some(n) if (1..=MAX_WIDTH).contains(&n) => Ok(n),
            _ => Err(self.config.wrong(name, "a number from 1 to 2^20")),
        }
    }

    /// Returns the kind of each layer as an index into `kinds`, if the configuration lists them.
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

    /// Adds the keys of a table that the configuration or its family declares.
    pub fn set_all(&mut self, keys: &[Key]) -> Result<()> {
        for (key, kind, names) in keys {
            match kind {
                KeyType::Int => self.set(key, self.int(names)?),
                KeyType::Number => self.set(key, self.number(names)?),
                KeyType::Cap => self.set(key, self.number(names)?.or(self.config.says_null(names).then_some(0.0))),
                KeyType::InverseRoot => self.set(key, self.number(names)?.map(|x| 1.0 / x.sqrt())),
                KeyType::Bool => self.set(key, self.bool(names)?),
            }
        }
        Ok(())
    }

    /// Replaces a key after the architecture's name.
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

/// Returns a number from 0 on, in the type of lists.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
