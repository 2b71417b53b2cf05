//! Families of models, and the state of a translation: a configuration with the defaults of its family on one side,
//! keys of GGUF on the other. Knows only the keys that more than one part asks for.

use std::cell::RefCell;
use std::path::Path;

use super::lists;
use super::members::Members;
use crate::error::{Result, try_vec};
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::value::whole;
use crate::format::{TensorInfo, Value};

/// Names of the number of heads, of the width and of the number of layers.
pub(super) const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"];
pub(super) const WIDTH: &[&str] = &["hidden_size", "n_embd", "n_embed", "d_model", "dim"];
pub(super) const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "n_layers", "num_layers"];

/// Names of the width of the feed-forward block. Llama 4's `intermediate_size` is that of experts.
pub(super) const FFN: &[&str] =
    &["intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size", "hidden_dim", "ffn_dim"];

/// More layers than any model has.
pub(super) const MAX_LAYERS: u64 = 1024;

/// Larger than any number of heads and any width of one.
pub(super) const MAX_WIDTH: u64 = 1 << 20;

pub(super) enum KeyType {
    Int,
    Number,
    /// A number; `null` is 0, which turns the cap off.
    Cap,
    /// 1 by the root of a number.
    InverseRoot,
    Bool,
}

/// Key after the architecture's name, its type, and the names that configurations give it.
pub(super) type Key = (&'static str, KeyType, &'static [&'static str]);

/// The models of an architecture whose configurations and checkpoints are alike: all that sets them apart from others.
pub(super) struct Family {
    /// `model_type` of a configuration.
    pub model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    pub arch: &'static str,
    /// The activations that the architecture implies, by each of their names; the first where a configuration names
    /// none.
    pub activations: &'static [&'static str],
    /// `gelu` is the function itself and not its approximation by tanh.
    pub exact_gelu: bool,
    /// The epsilon of norms that `transformers` has where a configuration tells none.
    pub epsilon: f64,
    /// That is no matter of configurations.
    pub fixed_epsilon: bool,
    /// Keys that not all families know, by groups.
    pub keys: &'static [&'static [Key]],
    /// Values of keys that official configurations leave out, `key=number` each, separated by spaces; booleans are 0 or
    /// 1.
    pub defaults: &'static str,
    /// Keys, separated by spaces, that change no result of the family.
    pub effectless: &'static str,
    /// Sets keys that are no plain translation: values that follow from several keys, lists of one value a layer.
    /// Refuses values that the networks of GGUF files do not have.
    pub extras: fn(&mut Translator) -> Result<()>,
    /// Sets the layers with a window.
    pub windows: fn(&mut Translator) -> Result<()>,
    /// Sets the rotation.
    pub rope: fn(&mut Translator) -> Result<()>,
    /// Names, beside a set of rope parameters, of the part of a head that turns.
    pub turning_part: &'static [&'static str],
    /// Layers with a window may have a rotary base of their own.
    pub windowed_base: bool,
    /// Another part of a head may turn in layers with a window.
    pub windowed_part: bool,
    /// True for sections of positions in pictures that change nothing in text, by whether they are interleaved and by
    /// the number of their pairs.
    pub sections: fn(&Translator, Option<bool>, Option<u64>) -> Result<bool>,
    /// Sets the keys of a type of rope that is the family's own; false for other types.
    pub own_rope: fn(&mut Translator, &Members, &str) -> Result<bool>,
    /// Queries may grow with their position (`llama_4_scaling_beta`).
    pub growing_queries: bool,
    /// GGUF files name `post_attention_layernorm` after the attention and not after the feed-forward block.
    pub post_norms: bool,
    /// Norm weights are stored less 1.
    pub norms_less_one: bool,
    /// Narrow vectors of latent attention are multiplied by the root of how much narrower than the model they are.
    pub scaled_ranks: bool,
    /// The rotary embedding pairs neighbours rather than halves of a head.
    pub adjacent: bool,
    /// Endings of the names of matrices that are stored `[in, out]`.
    pub transposed: &'static [&'static str],
    /// Matrices of experts may as well be stored `[experts, out, in]`.
    pub either_way: bool,
    /// The tensor for queries, keys and values has those of one key-value head after those of another.
    pub grouped_qkv: bool,
    /// The tensor for gates and ups of experts alternates between the two row by row.
    pub alternating_gate_up: bool,
    /// Names of modules and tensors that only this family has, or that mean something else in it, and those of GGUF
    /// files, by groups. One behind `/` lies outside of layers, and one behind `/key:` is a key.
    pub names: &'static [&'static [(&'static str, &'static str)]],
}

/// What a configuration tells about a model beside its keys.
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    /// The output matrix is the embedding; `None` where the configuration does not say.
    pub tied: Option<bool>,
    /// Matrices are quantised.
    pub quantised: bool,
    /// Norm weights are not stored less 1, although those of the family are.
    pub whole_norms: bool,
    pub n_layers: u64,
    /// Width of the residual stream.
    pub width: u64,
    /// There may be layers after the trunk, which predict further tokens.
    pub predicts: bool,
    /// Number of those that have a translation.
    pub n_predicting: u64,
    /// Query heads for each key-value head, and the width of a head.
    pub group: [u64; 2],
    /// The model is a decoder without a head, whose hidden states are its results.
    pub embeds: bool,
    pub kv_heads: Option<u64>,
    /// Rows of keys and of values of a head in a product of latent attention, where keys and values are products of one
    /// narrow vector.
    pub latent: [u64; 2],
    /// Width of the narrow vector, and `latent`, of layers with a window where these differ.
    pub windowed_latent: [u64; 3],
    /// Layers of each of two stacks, where there are two.
    pub stack: u64,
    /// Groups of the inner norm of Mamba 2, where there are several.
    pub groups: u64,
    /// The shared expert is all there is of a feed-forward block.
    pub is_dense: bool,
    /// The row of learned positions that is the first token's.
    pub first_position: u64,
    /// The model is a classifier, whose scores are its results.
    pub classifies: bool,
}

/// A configuration, and the keys and tensors that it has become so far.
pub(super) struct Translator<'a> {
    /// The configuration's file, for messages.
    pub path: &'a Path,
    pub config: Members<'a>,
    pub family: &'static Family,
    pub keys: Vec<(String, Value)>,
    /// LongRoPE's factors, which a configuration has as numbers and a GGUF file as tensors.
    pub made: Vec<TensorInfo>,
    pub facts: Facts,
    pub passed: RefCell<Passed>,
}

impl<'a> Translator<'a> {
    /// The members of an object within the configuration, none where it is absent.
    pub fn part(&self, name: &str) -> Members<'a> {
        let object = self.config.find(&[name]).map_or(&Json::Null, |(_, object)| object);
        Members::new(self.path, object, &Json::Null)
    }

    /// The value of a key that a configuration of the family may leave out.
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

    /// Adds the keys of a table that the configuration or its family tells.
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
