//! `config.json` as the metadata keys that a GGUF file of the model would have. Knows how the model families that
//! the library runs are configured, and refuses what it would have to ignore.
//!
//! Key names: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>; what a configuration means is defined by
//! the `configuration_*.py` files of the `transformers` package.

use std::path::Path;

use crate::error::{Error, Result, try_vec};
use crate::format::json::Json;
use crate::format::layout::Layout;
use crate::format::metadata::narrow;
use crate::format::{TensorInfo, Value};
use crate::quant;
use crate::tensor::Shape;

pub(super) struct Family {
    model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    arch: &'static str,
    /// What the architecture implies; a configuration that asks for another is refused.
    activations: &'static [&'static str],
    /// Values that official configurations leave out.
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

const FAMILIES: &[Family] = &[
    Family { model_types: &["llama", "mistral", "mixtral"], arch: "llama", ..PLAIN },
    Family { model_types: &["qwen2"], arch: "qwen2", ..PLAIN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..PLAIN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", ..PLAIN },
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

enum Kind {
    Int,
    Number,
    Bool,
}
use Kind::{Bool, Int, Number};

/// Key behind the architecture's name, its type, and the names that families give it.
const KEYS: &[(&str, Kind, &[&str])] = &[
    ("block_count", Int, &["num_hidden_layers", "n_layer"]),
    ("context_length", Int, &["max_position_embeddings", "n_positions"]),
    ("embedding_length", Int, &["hidden_size", "n_embd"]),
    ("feed_forward_length", Int, &["intermediate_size", "n_inner"]),
    ("vocab_size", Int, &["vocab_size"]),
    ("attention.head_count", Int, HEADS),
    ("attention.head_count_kv", Int, &["num_key_value_heads"]),
    ("attention.key_length", Int, &["head_dim"]),
    ("attention.value_length", Int, &["head_dim"]),
    ("attention.layer_norm_rms_epsilon", Number, &["rms_norm_eps"]),
    ("attention.layer_norm_epsilon", Number, &["layer_norm_epsilon", "norm_epsilon", "layer_norm_eps"]),
    ("attention.scale", Number, &["attention_multiplier"]),
    ("embedding_scale", Number, &["embedding_multiplier"]),
    ("residual_scale", Number, &["residual_multiplier"]),
    ("logit_scale", Number, &["logits_scaling"]),
    ("attn_logit_softcapping", Number, &["attn_logit_softcapping"]),
    ("final_logit_softcapping", Number, &["final_logit_softcapping"]),
    ("expert_count", Int, &["num_local_experts", "num_experts"]),
    ("expert_used_count", Int, &["num_experts_per_tok"]),
    ("expert_feed_forward_length", Int, &["moe_intermediate_size"]),
    ("expert_weights_norm", Bool, &["norm_topk_prob"]),
];
const HEADS: &[&str] = &["num_attention_heads", "n_head"];

/// What changes the network and is not implemented.
const MUST_BE_FALSE: &[&str] =
    &["add_cross_attention", "scale_attn_by_inverse_layer_idx", "use_bidirectional_attention", "is_encoder_decoder"];
const MUST_BE_ABSENT: &[&str] = &["compression_config", "clip_qkv"];

/// What a set of rope parameters may say; `finetuned` is how a model was made.
const ROPE: &[&str] = &[
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
    "finetuned",
];

/// More layers than any model has.
const MAX_LAYERS: u64 = 1024;

pub(super) struct Translated {
    pub family: &'static Family,
    pub keys: Vec<(String, Value)>,
    /// LongRoPE's factors, which a configuration has as numbers and a GGUF file as tensors.
    pub made: Vec<TensorInfo>,
    /// Whether the output matrix is the embedding; `None` where the configuration does not say.
    pub tied: Option<bool>,
    /// Whether matrices may be 8-bit floats with scales beside them.
    pub scaled: bool,
}

pub(super) fn translate(path: &Path, json: &Json) -> Result<Translated> {
    let nothing = Json::Null;
    let text = json.get("text_config").unwrap_or(&nothing);
    let model_type = text.get("model_type").or(json.get("model_type")).and_then(Json::as_str);
    let model_type = model_type.ok_or_else(|| Error::format(path, "no model_type"))?;
    let family = FAMILIES.iter().find(|f| f.model_types.contains(&model_type)).ok_or_else(|| {
        Error::unsupported(format!("{}: models of type {model_type:?} are not supported", path.display()))
    })?;
    let mut t = Translator { path, text, json, family, keys: Vec::new(), made: Vec::new() };
    t.refuse()?;
    t.keys.push(("general.architecture".into(), family.arch.into()));
    t.keys.push(("realizar.rope_halves".into(), true.into()));
    t.keys.push(("realizar.norm_less_one".into(), family.norms_less_one.into()));
    for (key, kind, names) in KEYS {
        match kind {
            Int => t.set(key, t.int(names)?),
            Number => t.set(key, t.number(names)?),
            Bool => t.set(key, t.bool(names)?),
        }
    }
    if t.int(&["intermediate_size", "n_inner"])?.is_none() {
        t.set("feed_forward_length", t.int(&["n_embd"])?.and_then(|n| n.checked_mul(4)));
    }
    if let Some(scalar) = t.number(&["query_pre_attn_scalar"])? {
        t.set("attention.scale", Some(1.0 / scalar.sqrt()));
    }
    t.window()?;
    t.rope()?;
    let tied = t.bool(&["tie_word_embeddings"])?;
    let scaled = t.scaled()?;
    Ok(Translated { family, keys: t.keys, made: t.made, tied, scaled })
}

struct Translator<'a> {
    path: &'a Path,
    /// Of a model that does more than text the part about text, which goes first; else null.
    text: &'a Json<'a>,
    json: &'a Json<'a>,
    family: &'static Family,
    keys: Vec<(String, Value)>,
    made: Vec<TensorInfo>,
}

impl<'a> Translator<'a> {
    fn find<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Json<'a>)> {
        let in_object = |json: &'a Json<'a>| names.iter().find_map(|name| Some((*name, json.get(name)?)));
        in_object(self.text).or_else(|| in_object(self.json))
    }

    fn default(&self, names: &[&str]) -> Option<f64> {
        self.family.defaults.iter().find(|d| names.contains(&d.0)).map(|d| d.1)
    }

    fn wrong(&self, name: &str, wanted: &str) -> Error {
        Error::format(self.path, format!("{name} should be {wanted}"))
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("{}: {what} is not supported", self.path.display()))
    }

    fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        match self.find(names) {
            Some((name, value)) => value.as_u64().map(Some).ok_or_else(|| self.wrong(name, "an integer of 0 or more")),
            None => Ok(self.default(names).and_then(whole)),
        }
    }

    fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        match self.find(names) {
            Some((name, value)) => value.as_f64().map(Some).ok_or_else(|| self.wrong(name, "a number")),
            None => Ok(self.default(names)),
        }
    }

    fn bool(&self, names: &[&str]) -> Result<Option<bool>> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "a boolean"))
    }

    fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.keys.push((format!("{}.{key}", self.family.arch), value.into()));
        }
    }

    fn refuse(&self) -> Result<()> {
        for name in MUST_BE_ABSENT {
            if self.find(&[name]).is_some() {
                return Err(self.unsupported(name));
            }
        }
        for name in MUST_BE_FALSE {
            if self.bool(&[name])? == Some(true) {
                return Err(self.unsupported(name));
            }
        }
        if let Some((name, value)) = self.find(&["hidden_activation", "hidden_act", "activation_function"]) {
            let activation = value.as_str().ok_or_else(|| self.wrong(name, "a string"))?;
            if !self.family.activations.contains(&activation) {
                return Err(self.unsupported(&format!("the activation {activation:?}")));
            }
        }
        Ok(())
    }

    /// Whether the weights are scaled 8-bit floats, in the two ways that are published: that of DeepSeek and Qwen
    /// ("fp8"), that of llm-compressor ("compressed-tensors"). How activations were rounded is up to the backend.
    fn scaled(&self) -> Result<bool> {
        let Some((name, config)) = self.find(&["quantization_config"]) else { return Ok(false) };
        let text = |json: &Json<'a>, key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let is_square =
            |size: Option<&Json>| size.is_none_or(|s| *s == Json::Array(vec![Json::Int(128), Json::Int(128)]));
        let method = text(config, "quant_method");
        let known = match method.as_str() {
            "fp8" => ["", "e4m3"].contains(&text(config, "fmt").as_str()) && is_square(config.get("weight_block_size")),
            "compressed-tensors" => {
                let groups =
                    if let Some(Json::Object(groups)) = config.get("config_groups") { groups } else { &vec![] };
                let sparse = config.get("sparsity_config").map_or_else(String::new, |s| text(s, "format"));
                text(config, "format") == "float-quantized"
                    && ["", "dense"].contains(&sparse.as_str())
                    && config.get("transform_config").is_none_or(|t| t.names().next().is_none())
                    && groups.iter().filter_map(|(_, group)| group.get("weights")).all(|w| {
                        text(w, "type") == "float"
                            && w.get("num_bits").and_then(Json::as_u64) == Some(8)
                            && is_square(w.get("block_structure"))
                    })
            }
            _ => false,
        };
        if known { Ok(true) } else { Err(self.unsupported(&format!("a {name} of {method:?} like this"))) }
    }

    /// Which layers see a window only.
    fn window(&mut self) -> Result<()> {
        let window = self.int(&["sliding_window"])?;
        if window.is_none() || self.bool(&["use_sliding_window"])? == Some(false) {
            return Ok(());
        }
        let pattern = if let Some((name, types)) = self.find(&["layer_types"]) {
            let types = types.as_array().ok_or_else(|| self.wrong(name, "a list"))?;
            let mut windowed = try_vec("layers", types.len())?;
            for t in types {
                windowed.push(match t.as_str() {
                    Some("sliding_attention") => true,
                    Some("full_attention") => false,
                    _ => return Err(self.unsupported(&format!("the kind of layer {t:?}"))),
                });
            }
            match period(&windowed) {
                _ if !windowed.contains(&true) => return Ok(()),
                Some(period) => Some(period.into()),
                None => Some(Value::Bools(windowed)),
            }
        } else if let Some(period) = self.int(&["sliding_window_pattern", "_sliding_window_pattern"])? {
            Some(period.into())
        } else if let Some(full) = self.int(&["max_window_layers"])? {
            // The first layers see everything.
            let layers = self.int(&["num_hidden_layers"])?.unwrap_or(0);
            if layers > MAX_LAYERS {
                return Err(self.wrong("num_hidden_layers", "at most 1024"));
            }
            Some(Value::Bools((0..layers).map(|i| i >= full).collect()))
        } else {
            None
        };
        self.set("attention.sliding_window", window);
        self.set("attention.sliding_window_pattern", pattern);
        Ok(())
    }

    fn rope(&mut self) -> Result<()> {
        let nothing = Json::Null;
        let all = match self.find(&["rope_parameters", "rope_scaling"]) {
            Some((_, all @ Json::Object(_))) => all,
            Some((name, _)) => return Err(self.wrong(name, "an object")),
            None => &nothing,
        };
        // Where layers with and without a window differ there are two sets of parameters.
        let rope = all.get("full_attention").unwrap_or(all);
        let windowed = all.get("sliding_attention").unwrap_or(&nothing);
        for name in [rope, windowed].into_iter().flat_map(Json::names) {
            if !ROPE.contains(&name) {
                return Err(self.unsupported(&format!("the rope parameter {name:?}")));
            }
        }
        // Some parameters may stand in the set or in the configuration.
        let number = |name: &str| match rope.get(name) {
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.wrong(name, "a number")),
            None => self.number(&[name]),
        };
        let base = number("rope_theta")?;
        let context = self.number(&["max_position_embeddings"])?;
        let trained = number("original_max_position_embeddings")?;
        let stretch = number("factor")?.or(trained.zip(context).map(|(trained, context)| context / trained));
        let attention = number("attention_factor")?;
        let partial = number("partial_rotary_factor")?;
        let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
        let (beta_fast, beta_slow) = (number("beta_fast")?, number("beta_slow")?);
        let mscales = number("mscale")?.zip(number("mscale_all_dim")?).filter(|(a, b)| *a != 0.0 && *b != 0.0);
        let truncate = rope.get("truncate").is_none_or(|t| t.as_bool() == Some(true));
        let windowed_base = match windowed.get("rope_theta") {
            Some(base) => Some(base.as_f64().ok_or_else(|| self.wrong("rope_theta", "a number"))?),
            None => self.number(&["rope_local_base_freq"])?,
        };
        self.set("rope.freq_base", base);
        self.set("rope.freq_base_swa", windowed_base);
        if let Some(partial) = partial.filter(|&p| p != 1.0) {
            let dims = (self.head_dim()? as f64 * partial).floor();
            self.set("rope.dimension_count", whole(dims));
        }
        let kind = |rope: &Json| {
            let kind = rope.get("rope_type").or(rope.get("type")).map_or(Some("default"), Json::as_str);
            kind.map(str::to_owned).ok_or_else(|| self.wrong("rope_type", "a string"))
        };
        if kind(windowed)? != "default" {
            return Err(self.unsupported("scaled rope in layers with a window"));
        }
        let kind = kind(rope)?;
        let path = self.path;
        let needed = |x: Option<f64>, what| x.ok_or_else(|| Error::format(path, format!("{kind} rope without {what}")));
        // Of the magnitude that stretching calls for.
        let yarn = |m: f64, stretch: f64| if stretch > 1.0 { 1.0 + 0.1 * m * stretch.ln() } else { 1.0 };
        match kind.as_str() {
            "default" => {}
            "yarn" if !truncate => return Err(self.unsupported("yarn rope with truncate false")),
            "linear" | "yarn" | "llama3" => {
                let stretch = needed(stretch, "factor")?;
                let trained = trained.or(context).filter(|_| kind != "linear");
                self.set("rope.scaling.type", Some(kind.as_str()));
                self.set("rope.scaling.factor", Some(stretch));
                self.set("rope.scaling.original_context_length", trained.and_then(whole));
                self.set("rope.scaling.low_freq_factor", low);
                self.set("rope.scaling.high_freq_factor", high);
                self.set("rope.scaling.yarn_beta_fast", beta_fast);
                self.set("rope.scaling.yarn_beta_slow", beta_slow);
                let attention = attention.or(mscales.map(|(m, all)| yarn(m, stretch) / yarn(all, stretch)));
                // In a GGUF file a factor on what YaRN prescribes, here the product.
                self.set("rope.scaling.attn_factor", attention.map(|f| f / yarn(1.0, stretch)));
            }
            "longrope" | "su" => {
                for (name, tensor) in
                    [("long_factor", "rope_factors_long.weight"), ("short_factor", "rope_factors_short.weight")]
                {
                    let values = rope.get(name).and_then(Json::as_array).unwrap_or_default();
                    let values: Option<Vec<f32>> = values.iter().map(|v| v.as_f64().map(narrow)).collect();
                    let values =
                        values.filter(|v| !v.is_empty()).ok_or_else(|| self.wrong(name, "a list of numbers"))?;
                    self.made.push(made(tensor, &values)?);
                }
                let trained = needed(trained, "original_max_position_embeddings")?;
                let stretch = needed(stretch, "max_position_embeddings")?;
                let scale = if stretch > 1.0 { (1.0 + stretch.ln() / trained.ln()).sqrt() } else { 1.0 };
                self.set("rope.scaling.type", Some("longrope"));
                self.set("rope.scaling.original_context_length", whole(trained));
                self.set("rope.scaling.attn_factor", Some(attention.unwrap_or(scale)));
            }
            other => return Err(self.unsupported(&format!("rope of type {other:?}"))),
        }
        Ok(())
    }

    fn head_dim(&self) -> Result<u64> {
        let given = self.int(&["head_dim"])?;
        let width = self.int(&["hidden_size", "n_embd"])?.unwrap_or(0);
        let derived = self.int(HEADS)?.and_then(|heads| width.checked_div(heads));
        given.or(derived).ok_or_else(|| self.wrong("head_dim", "given, or hidden_size and num_attention_heads"))
    }
}

/// `n` where all layers but each `n`th are windowed.
fn period(windowed: &[bool]) -> Option<u64> {
    let n = windowed.iter().position(|w| !w)? + 1;
    windowed.iter().zip(1..).all(|(&w, i)| w == (i % n != 0)).then_some(n as u64)
}

/// A float that is a whole number.
fn whole(x: f64) -> Option<u64> {
    if !(0.0..=2f64.powi(53)).contains(&x) || x.fract() != 0.0 {
        return None;
    }
    // Exact: whole, not negative, and within the precision of a float.
    #[expect(clippy::cast_possible_truncation)]
    Some(x as u64)
}

fn made(name: &str, values: &[f32]) -> Result<TensorInfo> {
    let mut bytes = try_vec("rope factors", values.len().saturating_mul(4))?;
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    Ok(TensorInfo {
        name: name.into(),
        dtype: quant::F32,
        shape: Shape::new(&[values.len() as u64])?,
        bytes: bytes.len() as u64,
        layout: Layout::Made(bytes),
    })
}
