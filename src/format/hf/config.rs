//! `config.json` as the metadata keys that a GGUF file of the model would have. Knows how the model families that
//! the library runs are configured, and refuses every key that it neither translates nor finds in the tables of `known`.
//!
//! Key names: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>; what a configuration means is defined by
//! the `configuration_*.py` files of the `transformers` package.

use std::path::Path;

use super::members::Members;
use super::{TOKEN_IDS, eight_bit, known, rope};
use crate::error::{Error, Result, try_vec};
use crate::format::json::Json;
use crate::format::{TensorInfo, Value};

pub(super) struct Family {
    model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    pub arch: &'static str,
    /// The activations that the architecture implies, by each of their names.
    activations: &'static [&'static str],
    /// Values of keys that official configurations leave out; of booleans 0 or 1.
    defaults: &'static [(&'static str, f64)],
    /// `post_attention_layernorm` follows the attention rather than preceding the feed-forward block.
    pub post_norms: bool,
    /// Norm weights are stored less 1.
    norms_less_one: bool,
    /// Matrices of layers are stored `[in, out]`.
    pub transposed: bool,
}

const PLAIN: Family = Family {
    model_types: &[],
    arch: "",
    activations: &["silu"],
    defaults: &[("rope_theta", 1e4)],
    post_norms: false,
    norms_less_one: false,
    transposed: false,
};

const GEMMA: Family = Family { activations: &["gelu_pytorch_tanh"], norms_less_one: true, ..PLAIN };

const QWEN: Family = Family {
    defaults: &[("rope_theta", 1e4), ("use_sliding_window", 0.0), ("max_window_layers", 28.0), ("norm_topk_prob", 0.0)],
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    Family { model_types: &["llama", "mistral", "mixtral"], arch: "llama", ..PLAIN },
    Family { model_types: &["qwen2"], arch: "qwen2", ..QWEN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..QWEN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", ..QWEN },
    Family { model_types: &["phi3"], arch: "phi3", ..PLAIN },
    Family { model_types: &["granite"], arch: "granite", ..PLAIN },
    Family { model_types: &["olmo2"], arch: "olmo2", post_norms: true, ..PLAIN },
    // The first configurations say "gelu" and mean its approximation.
    Family { model_types: &["gemma"], arch: "gemma", activations: &["gelu", "gelu_pytorch_tanh"], ..GEMMA },
    Family { model_types: &["gemma2"], arch: "gemma2", post_norms: true, ..GEMMA },
    Family {
        model_types: &["gemma3_text", "gemma3"],
        arch: "gemma3",
        defaults: &[
            ("max_position_embeddings", 131_072.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("vocab_size", 262_208.0),
            ("rms_norm_eps", 1e-6),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
            ("sliding_window_pattern", 6.0),
            ("rope_theta", 1e6),
            ("rope_local_base_freq", 1e4),
        ],
        post_norms: true,
        ..GEMMA
    },
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: &[],
        transposed: true,
        ..PLAIN
    },
    Family { model_types: &["starcoder2"], arch: "starcoder2", activations: &["gelu_pytorch_tanh"], ..PLAIN },
];

enum KeyType {
    Int,
    Number,
    /// A number; `null` is 0, which turns the cap off.
    Cap,
    Bool,
}
use KeyType::{Bool, Cap, Int, Number};

/// Key behind the architecture's name, its type, the names that families give it, and the architectures that know it
/// where not all do.
type KeyRow = (&'static str, KeyType, &'static [&'static str], &'static [&'static str]);

const KEYS: &[KeyRow] = &[
    ("block_count", Int, LAYERS, ALL),
    ("context_length", Int, &["max_position_embeddings", "n_positions"], ALL),
    ("embedding_length", Int, WIDTH, ALL),
    ("feed_forward_length", Int, &["intermediate_size", "n_inner"], ALL),
    ("vocab_size", Int, &["vocab_size"], ALL),
    ("attention.head_count", Int, HEADS, ALL),
    ("attention.head_count_kv", Int, &["num_key_value_heads"], ALL),
    ("attention.key_length", Int, &["head_dim"], ALL),
    ("attention.value_length", Int, &["head_dim"], ALL),
    ("attention.layer_norm_rms_epsilon", Number, &["rms_norm_eps"], ALL),
    ("attention.layer_norm_epsilon", Number, &["layer_norm_epsilon", "norm_epsilon", "layer_norm_eps"], ALL),
    ("attention.scale", Number, &["attention_multiplier"], &["granite"]),
    ("embedding_scale", Number, &["embedding_multiplier"], &["granite"]),
    ("residual_scale", Number, &["residual_multiplier"], &["granite"]),
    ("logit_scale", Number, &["logits_scaling"], &["granite"]),
    ("attn_logit_softcapping", Cap, &["attn_logit_softcapping"], &["gemma2"]),
    ("final_logit_softcapping", Cap, &["final_logit_softcapping"], &["gemma2", "gemma3"]),
    ("expert_count", Int, &["num_local_experts", "num_experts"], &["llama", "qwen3moe"]),
    ("expert_used_count", Int, &["num_experts_per_tok"], &["llama", "qwen3moe"]),
    ("expert_feed_forward_length", Int, &["moe_intermediate_size"], &["qwen3moe"]),
    ("expert_weights_norm", Bool, &["norm_topk_prob"], &["qwen3moe"]),
];
const ALL: &[&str] = &[];
pub(super) const HEADS: &[&str] = &["num_attention_heads", "n_head"];
pub(super) const WIDTH: &[&str] = &["hidden_size", "n_embd"];
const LAYERS: &[&str] = &["num_hidden_layers", "n_layer"];

/// More layers than any model has.
const MAX_LAYERS: u64 = 1024;

pub(super) struct Translated {
    pub family: &'static Family,
    pub keys: Vec<(String, Value)>,
    /// LongRoPE's factors, which a configuration has as numbers and a GGUF file as tensors.
    pub made: Vec<TensorInfo>,
    /// The output matrix is the embedding; `None` where the configuration does not say.
    pub tied: Option<bool>,
    /// Matrices may be 8-bit floats with scales beside them.
    pub scaled: bool,
}

pub(super) fn translate(path: &Path, json: &Json) -> Result<Translated> {
    let nothing = Json::Null;
    // The part about text of a model that does more; what it leaves out stands beside it.
    let text = json.get("text_config").unwrap_or(&nothing);
    let config = Members::new(path, text, json);
    let model_type = config.find(&["model_type"]).and_then(|(_, t)| t.as_str());
    let model_type = model_type.ok_or_else(|| Error::format(path, "no model_type"))?;
    let family = FAMILIES.iter().find(|f| f.model_types.contains(&model_type)).ok_or_else(|| {
        Error::unsupported(format!("{}: models of type {model_type:?} are not supported", path.display()))
    })?;
    config.skip(&["text_config", "model_type"]);
    config.skip(&TOKEN_IDS.map(|(name, _)| name));
    let mut t = Translator { path, config, family, keys: Vec::new(), made: Vec::new() };
    t.keys.push(("general.architecture".into(), family.arch.into()));
    t.keys.push(("realizar.rope_halves".into(), true.into()));
    t.keys.push(("realizar.norm_less_one".into(), family.norms_less_one.into()));
    t.activation()?;
    for (key, kind, names, _) in KEYS.iter().filter(|row| row.3.is_empty() || row.3.contains(&family.arch)) {
        match kind {
            Int => t.set(key, t.int(names)?),
            Number => t.set(key, t.number(names)?),
            Cap => t.set(key, t.number(names)?.or(t.config.says_null(names).then_some(0.0))),
            Bool => t.set(key, t.bool(names)?),
        }
    }
    if t.int(&["intermediate_size", "n_inner"])?.is_none() {
        t.set("feed_forward_length", t.int(&["n_embd"])?.and_then(|n| n.checked_mul(4)));
    }
    if ["gemma2", "gemma3"].contains(&family.arch) {
        t.set("attention.scale", t.number(&["query_pre_attn_scalar"])?.map(|scalar| 1.0 / scalar.sqrt()));
    }
    t.window()?;
    rope::translate(&mut t)?;
    let tied = t.bool(&["tie_word_embeddings"])?;
    let scaled = match t.config.find(&["quantization_config"]) {
        Some((_, quantization)) => eight_bit::check(path, quantization).map(|()| true)?,
        None => false,
    };
    known::check(&t.config)?;
    Ok(Translated { family, keys: t.keys, made: t.made, tied, scaled })
}

pub(super) struct Translator<'a> {
    pub path: &'a Path,
    pub config: Members<'a>,
    pub family: &'static Family,
    keys: Vec<(String, Value)>,
    pub made: Vec<TensorInfo>,
}

impl Translator<'_> {
    fn default(&self, names: &[&str]) -> Option<f64> {
        self.family.defaults.iter().find(|d| names.contains(&d.0)).map(|d| d.1)
    }

    pub fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        Ok(self.config.int(names)?.or(self.default(names).and_then(whole)))
    }

    pub fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        Ok(self.config.number(names)?.or(self.default(names)))
    }

    fn bool(&self, names: &[&str]) -> Result<Option<bool>> {
        Ok(self.config.bool(names)?.or(self.default(names).map(|x| x != 0.0)))
    }

    pub fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.keys.push((format!("{}.{key}", self.family.arch), value.into()));
        }
    }

    /// A configuration that asks for another activation than the architecture implies is refused.
    fn activation(&self) -> Result<()> {
        for name in ["hidden_activation", "hidden_act", "activation_function"] {
            if let Some(activation) = self.config.text(&[name])?
                && !self.family.activations.contains(&activation)
            {
                return Err(self.config.unsupported(&format!("{name:?} with the value {activation:?}")));
            }
        }
        Ok(())
    }

    /// The layers that see a window only.
    fn window(&mut self) -> Result<()> {
        let window = self.int(&["sliding_window"])?;
        let windowed = self.windowed_layers()?;
        let period = self.int(&["sliding_window_pattern", "_sliding_window_pattern"])?;
        let full = self.int(&["max_window_layers"])?;
        let used = self.bool(&["use_sliding_window"])?;
        let Some(window) = window.filter(|_| used != Some(false)) else {
            if windowed.is_some_and(|list| list.contains(&true)) && used != Some(false) {
                return Err(self.config.wrong("sliding_window", "given, because layer_types names it"));
            }
            return Ok(());
        };
        let pattern = if let Some(windowed) = windowed {
            match self::period(&windowed) {
                _ if !windowed.contains(&true) => return Ok(()),
                _ if !windowed.contains(&false) => None,
                Some(period) => Some(period.into()),
                None => Some(Value::Bools(windowed)),
            }
        } else if let Some(period) = period {
            Some(period.into())
        } else if let Some(full) = full {
            // The first layers see everything.
            let layers = self.int(LAYERS)?.unwrap_or(0);
            if layers > MAX_LAYERS {
                return Err(self.config.wrong("num_hidden_layers", "at most 1024"));
            }
            Some(Value::Bools((0..layers).map(|i| i >= full).collect()))
        } else {
            None
        };
        self.set("attention.sliding_window", Some(window));
        self.set("attention.sliding_window_pattern", pattern);
        Ok(())
    }

    /// `layer_types` as one boolean a layer.
    fn windowed_layers(&self) -> Result<Option<Vec<bool>>> {
        let Some(types) = self.config.list(&["layer_types"])? else { return Ok(None) };
        if self.int(LAYERS)?.is_some_and(|n| n != types.len() as u64) {
            return Err(self.config.wrong("layer_types", "one for each layer"));
        }
        let mut windowed = try_vec("layers", types.len())?;
        for t in types {
            windowed.push(match t.as_str() {
                Some("sliding_attention") => true,
                Some("full_attention") => false,
                _ => return Err(self.config.unsupported(&format!("\"layer_types\" with the value {t}"))),
            });
        }
        Ok(Some(windowed))
    }
}

/// `n` where all layers but each `n`th are windowed.
fn period(windowed: &[bool]) -> Option<u64> {
    let n = windowed.iter().position(|w| !w)? + 1;
    windowed.iter().zip(1..).all(|(&w, i)| w == (i % n != 0)).then_some(n as u64)
}

/// A float that is a whole number.
pub(super) fn whole(x: f64) -> Option<u64> {
    if !(0.0..=2f64.powi(53)).contains(&x) || x.fract() != 0.0 {
        return None;
    }
    // Exact: whole, not negative, and within the precision of a float.
    #[expect(clippy::cast_possible_truncation)]
    Some(x as u64)
}
