//! `config.json` as the metadata keys that a GGUF file of the model would have. Refuses each key that is neither
//! translated nor in the tables of `known`.
//!
//! Key names: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>; what a configuration means is defined by
//! the `configuration_*.py` files of the `transformers` package.

use std::path::Path;

use super::family::{Family, family};
use super::members::Members;
use super::translator::{HEADS, LAYERS, Translator, WIDTH};
use super::{eight_bit, known, rope, window};
use crate::error::{Error, Result};
use crate::format::json::Json;
use crate::format::{TensorInfo, Value};

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

/// Special tokens in a configuration, and behind `tokenizer.ggml.` in a GGUF file.
pub(super) const TOKEN_IDS: [(&str, &str); 3] =
    [("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"), ("pad_token_id", "padding_token_id")];

/// More members than any configuration has; each is looked at for each key.
const MAX_MEMBERS: usize = 1024;

/// A configuration in the terms of a GGUF file.
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
    let n = json.members().len().max(text.members().len());
    if n > MAX_MEMBERS {
        return Err(Error::format(path, format!("{n} members, the limit is {MAX_MEMBERS}")));
    }
    let config = Members::new(path, text, json);
    let model_type = config.find(&["model_type"]).and_then(|(_, t)| t.as_str());
    let model_type = model_type.ok_or_else(|| Error::format(path, "no model_type"))?;
    let family = family(model_type).ok_or_else(|| {
        Error::unsupported(format!("{}: models of type {model_type:?} are not supported", path.display()))
    })?;
    config.skip(&["text_config", "model_type"]);
    config.skip(&TOKEN_IDS.map(|(name, _)| name));
    let mut t = Translator { path, config, family, keys: Vec::new(), made: Vec::new() };
    t.keys.push(("general.architecture".into(), family.arch.into()));
    t.keys.push(("realizar.rope_halves".into(), true.into()));
    t.keys.push(("realizar.norm_less_one".into(), family.norms_less_one.into()));
    check_activation(&t)?;
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
    window::translate(&mut t)?;
    rope::translate(&mut t)?;
    let tied = t.bool(&["tie_word_embeddings"])?;
    let scaled = match t.config.find(&["quantization_config"]) {
        Some((_, quantization)) => eight_bit::check(path, quantization).map(|()| true)?,
        None => false,
    };
    known::check(&t.config)?;
    Ok(Translated { family, keys: t.keys, made: t.made, tied, scaled })
}

/// Refuses a configuration that names another activation than the architecture implies.
fn check_activation(t: &Translator) -> Result<()> {
    for name in ["hidden_activation", "hidden_act", "activation_function"] {
        if let Some(activation) = t.config.text(&[name])?
            && !t.family.activations.contains(&activation)
        {
            return Err(t.config.unsupported(&format!("{name:?} with the value {activation:?}")));
        }
    }
    Ok(())
}
