//! `config.json` as the metadata keys that a GGUF file of the model would have. Refuses each key that is neither
//! translated nor in the tables of `known`.
//!
//! Key names: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>; what a configuration means is defined by
//! the `configuration_*.py` files of the `transformers` package.

use std::cell::RefCell;
use std::path::Path;

use super::family::{Family, family};
use super::members::Members;
use super::translator::{FFN, HEADS, LAYERS, MAX_WIDTH, Translator, WIDTH};
use super::{eight_bit, extras, gemma4, known, latent, rope, window};
use crate::error::{Error, Result};
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::{TensorInfo, Value};

enum KeyType {
    Int,
    Number,
    /// A number; `null` is 0, which turns the cap off.
    Cap,
    Bool,
}
use KeyType::{Bool, Cap, Int, Number};

/// Key after the architecture's name, its type, the names that families give it, and the architectures that know it
/// where not all do.
type KeyRow = (&'static str, KeyType, &'static [&'static str], &'static [&'static str]);

const KEYS: &[KeyRow] = &[
    ("block_count", Int, LAYERS, ALL),
    ("context_length", Int, &["max_position_embeddings", "n_positions"], ALL),
    ("context_length", Int, &["max_seq_len"], &["mpt"]),
    ("embedding_length", Int, WIDTH, ALL),
    ("feed_forward_length", Int, FFN, ALL),
    ("vocab_size", Int, &["vocab_size"], ALL),
    ("attention.head_count", Int, HEADS, ALL),
    ("attention.head_count_kv", Int, &["num_key_value_heads"], ALL),
    ("attention.key_length", Int, &["head_dim"], ALL),
    ("attention.value_length", Int, &["head_dim"], ALL),
    ("attention.layer_norm_rms_epsilon", Number, &["rms_norm_eps"], ALL),
    (
        "attention.layer_norm_epsilon",
        Number,
        &["layer_norm_epsilon", "norm_epsilon", "layer_norm_eps", "norm_eps"],
        ALL,
    ),
    ("attention.scale", Number, &["attention_multiplier"], GRANITE),
    ("embedding_scale", Number, &["embedding_multiplier"], GRANITE),
    ("residual_scale", Number, &["residual_multiplier"], GRANITE),
    ("logit_scale", Number, &["logits_scaling"], GRANITE),
    ("embedding_scale", Number, &["scale_emb"], &["minicpm", "minicpm3"]),
    ("logit_scale", Number, &["logit_scale"], &["command-r", "cohere2"]),
    ("attn_logit_softcapping", Cap, &["attn_logit_softcapping"], &["gemma2"]),
    ("final_logit_softcapping", Cap, &["final_logit_softcapping"], &["gemma2", "gemma3", "gemma4"]),
    ("attention.clamp_kqv", Number, &["clip_qkv"], &["olmo"]),
    ("shortconv.l_cache", Int, &["conv_L_cache"], &["lfm2", "lfm2moe"]),
    ("use_parallel_residual", Bool, &["use_parallel_residual"], &["gptneox"]),
    ("expert_count", Int, &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"], MOE),
    ("expert_used_count", Int, &["num_experts_per_tok", "experts_per_token", "moe_k"], MOE),
    (
        "expert_feed_forward_length",
        Int,
        &["moe_intermediate_size"],
        &[
            "qwen3moe",
            "qwen2moe",
            "qwen3vlmoe",
            "qwen3next",
            "qwen35moe",
            "deepseek",
            "deepseek2",
            "nemotron_h",
            "dots1",
            "glm4moe",
            "ernie4_5-moe",
            "lfm2moe",
        ],
    ),
    (
        "expert_weights_norm",
        Bool,
        &["norm_topk_prob"],
        &["qwen3moe", "qwen2moe", "qwen3vlmoe", "qwen3next", "olmoe", "deepseek", "dots1", "glm4moe", "nemotron_h"],
    ),
    ("expert_weights_scale", Number, &["routed_scaling_factor"], &["dots1", "glm4moe", "deepseek2", "nemotron_h"]),
    ("expert_group_count", Int, &["n_group"], &["dots1", "glm4moe", "nemotron_h"]),
    ("expert_group_used_count", Int, &["topk_group"], &["dots1", "glm4moe", "nemotron_h"]),
    ("leading_dense_block_count", Int, &["first_k_dense_replace"], &["dots1", "glm4moe", "deepseek2"]),
    ("expert_shared_count", Int, &["n_shared_experts"], &["dots1", "glm4moe", "deepseek2", "nemotron_h"]),
    ("expert_shared_feed_forward_length", Int, &["shared_expert_intermediate_size"], SHARED),
    ("expert_shared_feed_forward_length", Int, &["shared_intermediate_size"], &["granitemoe", "granitehybrid"]),
];
const SHARED: &[&str] = &["qwen2moe", "qwen3next", "qwen35moe"];
const GRANITE: &[&str] = &["granite", "granitemoe", "granitehybrid"];
const MOE: &[&str] = &[
    "llama",
    "qwen3moe",
    "qwen2moe",
    "qwen3vlmoe",
    "qwen3next",
    "qwen35moe",
    "granitemoe",
    "granitehybrid",
    "deepseek2",
    "nemotron_h",
    "jamba",
    "gpt-oss",
    "olmoe",
    "deepseek",
    "dots1",
    "glm4moe",
    "ernie4_5-moe",
    "minimax-m2",
    "llama4",
    "lfm2moe",
];
const ALL: &[&str] = &[];

/// Special tokens in a configuration, and after `tokenizer.ggml.` in a GGUF file.
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
    pub passed: Passed,
    /// The output matrix is the embedding; `None` where the configuration does not say.
    pub tied: Option<bool>,
    /// Matrices may be 8-bit floats with scales beside them.
    pub scaled: bool,
    /// Matrices of experts may be 4-bit floats with scales beside them.
    pub packed: bool,
    pub n_layers: u64,
    /// Width of the residual stream.
    pub width: u64,
    /// There may be layers after those, which predict further tokens.
    pub predicts: bool,
    /// Number of those that have a translation.
    pub n_predicting: u64,
    /// Query heads for each key-value head, and the width of a head.
    pub group: [u64; 2],
    /// Rows of keys and of values of a head in a product of latent attention.
    pub latent: [u64; 2],
    /// Groups of the inner norm of Mamba 2.
    pub groups: u64,
    /// The shared expert is all there is of a feed-forward block.
    pub is_dense: bool,
    /// The model is a classifier, whose scores are its results.
    pub classifies: bool,
    /// The model is a decoder without a head, whose hidden states are its results.
    pub embeds: bool,
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
    let mut t = Translator { path, config, family, keys: Vec::new(), made: Vec::new(), passed: RefCell::default() };
    t.keys.push(("general.architecture".into(), family.arch.into()));
    t.keys.push(("realizar.rope_halves".into(), (!family.adjacent).into()));
    check_activation(&mut t)?;
    for (key, kind, names, _) in KEYS.iter().filter(|row| row.3.is_empty() || row.3.contains(&family.arch)) {
        match kind {
            Int => t.set(key, t.int(names)?),
            Number => t.set(key, t.number(names)?),
            Cap => t.set(key, t.number(names)?.or(t.config.says_null(names).then_some(0.0))),
            Bool => t.set(key, t.bool(names)?),
        }
    }
    epsilon(&mut t, model_type);
    if t.int(FFN)?.is_none() {
        t.set("feed_forward_length", t.int(WIDTH)?.and_then(|n| n.checked_mul(4)));
    }
    if ["gemma2", "gemma3"].contains(&family.arch) {
        t.set("attention.scale", t.number(&["query_pre_attn_scalar"])?.map(|scalar| 1.0 / scalar.sqrt()));
    }
    let kv_heads = extras::translate(&mut t)?;
    window::translate(&mut t)?;
    match family.arch {
        "gemma4" => gemma4::rotations(&mut t)?,
        _ => rope::translate(&mut t)?,
    }
    let tied = t.bool(&["tie_word_embeddings", "tie_embedding"])?;
    let quantization = t.config.find(&["quantization_config"]).map(|(_, quantization)| quantization);
    let packed = family.arch == "gpt-oss" && quantization.is_some_and(eight_bit::is_packed);
    if let Some(quantization) = quantization.filter(|_| !packed) {
        eight_bit::check(path, quantization)?;
    }
    let heads = t.int(HEADS)?.unwrap_or(0).min(MAX_WIDTH);
    let group = [
        heads.checked_div(kv_heads.unwrap_or(heads)).unwrap_or(0),
        rope::head_dim(&t).map_or(0, |width| width.min(MAX_WIDTH)),
    ];
    let (n_layers, width) = (t.int(LAYERS)?.unwrap_or(0), t.int(WIDTH)?.unwrap_or(0));
    let latent = if family.latent { [t.size("qk_nope_head_dim")?, latent::value_dim(&t)?] } else { [0; 2] };
    let has_groups = ["mamba2", "falcon-h1", "granitehybrid", "nemotron_h"].contains(&family.arch);
    let groups = if has_groups { t.int(&["n_groups", "mamba_n_groups"])?.unwrap_or(1) } else { 1 };
    let is_dense = family.arch == "granitehybrid" && t.int(&["num_local_experts"])? == Some(0);
    let told = t.int(&["num_nextn_predict_layers"])?.unwrap_or(0);
    // Those that the architecture may use. Qwen 3 Next has one and does not say so.
    let n_predicting = match family.arch {
        "glm4moe" | "deepseek2" => told,
        "qwen35" | "qwen35moe" | "qwen3next" => t.int(&["mtp_num_hidden_layers"])?.unwrap_or(1),
        _ => 0,
    };
    if n_predicting > 0 {
        t.replace("block_count", Some(n_layers.saturating_add(n_predicting)));
        t.set("nextn_predict_layers", Some(n_predicting));
    }
    let classifies = family.arch == "bert" && encoder(&mut t)?;
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    let is_headless = |class: &Json| class.as_str().is_some_and(|class| class.ends_with("Model"));
    let embeds = !classes.is_empty() && classes.iter().all(is_headless);
    known::check(&t.config, family.effectless, &t.passed)?;
    let scaled = quantization.is_some() && !packed;
    let Translator { keys, made, passed, .. } = t;
    Ok(Translated {
        family,
        keys,
        made,
        passed: passed.into_inner(),
        tied,
        scaled,
        packed,
        n_layers,
        width,
        predicts: told > 0,
        n_predicting,
        group,
        latent,
        groups,
        is_dense,
        classifies,
        embeds,
    })
}

/// Epsilons of norms that configurations of other types than most leave out, and of which types.
const EPSILONS: &[(f64, &str)] = &[
    (
        1e-5,
        " arcee bloom cohere cohere2 ernie4_5 ernie4_5_moe exaone4 falcon falcon_h1 falcon_mamba glm4_moe glm4_moe_lite \
         gpt2 gpt_bigcode gpt_neox gpt_oss hunyuan_v1_dense hunyuan_v1_moe lfm2 lfm2_moe llama4 llama4_text mamba mamba2 \
         minicpm3 ministral3 mixtral mpt nemotron nemotron_h olmo olmo2 olmo3 olmoe orion phi phi3 qwen2_5_vl \
         qwen2_5_vl_text qwen2_vl qwen2_vl_text stablelm starcoder2 ",
    ),
    (1.5625e-7, " glm4 "),
    (1e-12, " bert "),
];

/// Sets the epsilon that `transformers` has for models of a type whose configuration tells none.
fn epsilon(t: &mut Translator, model_type: &str) {
    let names = ["rms_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layer_norm_eps", "norm_eps"];
    if t.config.find(&names).is_some() {
        return;
    }
    let is_among = |types: &str| types.split_ascii_whitespace().any(|other| other == model_type);
    let epsilon = EPSILONS.iter().find(|(_, types)| is_among(types)).map_or(1e-6, |(epsilon, _)| *epsilon);
    t.replace("attention.layer_norm_rms_epsilon", Some(epsilon));
    t.replace("attention.layer_norm_epsilon", None::<f64>);
    // That of the first OLMo is no matter of configurations.
    if model_type != "olmo" {
        let what = format!("no epsilon of norms: {epsilon:e}, as transformers has it for the type {model_type:?}");
        t.passed.borrow_mut().note(what);
    }
}

/// Sets the keys of an encoder; true for a classifier.
fn encoder(t: &mut Translator) -> Result<bool> {
    if t.config.bool(&["is_decoder"])? == Some(true) {
        return Err(t.config.unsupported("an encoder that is a decoder (\"is_decoder\")"));
    }
    if t.config.text(&["position_embedding_type"])?.is_some_and(|kind| kind != "absolute") {
        return Err(t.config.unsupported("positions other than learned ones (\"position_embedding_type\")"));
    }
    t.set("attention.causal", Some(false));
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    let classifies = classes.iter().any(|class| class.as_str() == Some("BertForSequenceClassification"));
    t.set("pooling_type", classifies.then_some(4u64));
    Ok(classifies)
}

/// Refuses a configuration that names another activation than the architecture implies.
fn check_activation(t: &mut Translator) -> Result<()> {
    let mut named = t.family.activations.first().copied();
    for name in ["hidden_activation", "hidden_act", "activation_function", "activation"] {
        if let Some(activation) = t.config.text(&[name])? {
            if !t.family.activations.contains(&activation) {
                return Err(t.config.unsupported(&format!("{name:?} with the value {activation:?}")));
            }
            named = Some(activation);
        }
    }
    if t.family.exact_gelu && named == Some("gelu") {
        t.keys.push(("realizar.gelu_exact".into(), true.into()));
    }
    Ok(())
}
