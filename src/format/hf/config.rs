//! Translates `config.json` to the metadata keys of a GGUF file. Rejects each key that is neither translated nor in the
//! tables of `known`.
//!
//! Key names: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>; the meaning of a configuration is defined by
//! the `configuration_*.py` files of the `transformers` package.

use std::path::Path;

use super::family::family;
use super::members::Members;
use super::translator::KeyType::{Int, Number};
use super::translator::{FFN, Facts, HEADS, Key, LAYERS, MAX_WIDTH, Translator, WIDTH};
use super::{known, quantized, rope};
use crate::error::{Error, Result};
use crate::format::json::Json;

/// The keys of all families.
const KEYS: &[Key] = &[
    ("block_count", Int, LAYERS),
    ("context_length", Int, &["max_position_embeddings", "n_positions"]),
    ("embedding_length", Int, WIDTH),
    ("feed_forward_length", Int, FFN),
    ("vocab_size", Int, &["vocab_size"]),
    ("attention.head_count", Int, HEADS),
    ("attention.head_count_kv", Int, &["num_key_value_heads"]),
    ("attention.key_length", Int, &["head_dim"]),
    ("attention.value_length", Int, &["head_dim"]),
    ("attention.layer_norm_rms_epsilon", Number, &["rms_norm_eps", "layernorm_epsilon"]),
    ("attention.layer_norm_epsilon", Number, &["layer_norm_epsilon", "norm_epsilon", "layer_norm_eps", "norm_eps"]),
];

/// Special tokens in a configuration, and after `tokenizer.ggml.` in a GGUF file.
pub(super) const TOKEN_IDS: [(&str, &str); 3] =
    [("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"), ("pad_token_id", "padding_token_id")];

/// Maximum number of members; each is visited for each key.
const MAX_MEMBERS: usize = 1024;

/// Translates a configuration to GGUF's keys.
pub(super) fn translate<'a>(path: &'a Path, json: &'a Json<'a>) -> Result<Translator<'a>> {
    // In a model that generates speech, the understanding part has a configuration of its own.
    let json = json.get("thinker_config").unwrap_or(json);
    // The text configuration of a multimodal model; its defaults are next to it.
    let text = json.get("text_config").or(json.get("transformer_layer_config")).unwrap_or(&Json::Null);
    let n = json.members().len().max(text.members().len());
    if n > MAX_MEMBERS {
        return Err(Error::format(path, format!("{n} members, the limit is {MAX_MEMBERS}")));
    }
    let config = Members::new(path, text, json);
    let model_type = config.find(&["model_type"]).and_then(|(_, t)| t.as_str());
    let model_type = model_type.ok_or_else(|| Error::format(path, "model_type is missing"))?;
    let head = head_of_another(&config)?;
    let family = family(head.map_or_else(|| text_model(&config, model_type), Ok)?).ok_or_else(|| {
        Error::unsupported(format!("{}: models of type {model_type:?} are not supported", path.display()))
    })?;
    config.skip(&["text_config", "transformer_layer_config", "model_type"]);
    config.skip(&TOKEN_IDS.map(|(name, _)| name));
    if MINICPM_V.contains(&model_type) {
        config.skip(OF_MINICPM_V);
    }
    let (keys, made, facts, passed) = Default::default();
    let mut t = Translator { path, config, family, keys, made, facts, passed };
    t.keys.push(("general.architecture".into(), family.arch.into()));
    t.keys.push(("realizar.rope_halves".into(), (!family.adjacent).into()));
    check_activation(&mut t)?;
    [KEYS].iter().chain(family.keys).try_for_each(|keys| t.set_all(keys))?;
    epsilon(&mut t, model_type);
    if t.int(FFN)?.is_none() {
        t.set("feed_forward_length", t.int(WIDTH)?.and_then(|n| n.checked_mul(4)));
    }
    t.facts.kv_heads = t.int(&["num_key_value_heads"])?;
    (family.extras)(&mut t)?;
    let kv_heads = t.facts.kv_heads;
    if let Some(n) = kv_heads.filter(|n| !(1..=MAX_WIDTH).contains(n)) {
        return Err(t.config.unsupported(&format!("{n} key-value heads")));
    }
    (family.windows)(&mut t)?;
    (family.rope)(&mut t)?;
    let names = ["tie_word_embeddings", "tie_embedding"];
    let mut tied = t.bool(&names)?;
    if head.is_some() {
        // A draft head without embeddings reads the target's, whatever its own configuration says.
        tied = None;
        t.config.skip(&names);
    }
    t.config.skip(quantized::KEYS);
    let heads = t.int(HEADS)?.unwrap_or(0).min(MAX_WIDTH);
    let group = [
        heads.checked_div(kv_heads.unwrap_or(heads)).unwrap_or(0),
        rope::head_dim(&t).map_or(0, |width| width.min(MAX_WIDTH)),
    ];
    let (n_layers, width) = (t.int(LAYERS)?.unwrap_or(0), t.int(WIDTH)?.unwrap_or(0));
    let predicts = t.int(&["num_nextn_predict_layers"])?.is_some_and(|n| n > 0);
    let n_predicting = t.facts.n_predicting;
    if n_predicting > 0 {
        t.replace("block_count", Some(n_layers.saturating_add(n_predicting)));
        t.set("nextn_predict_layers", Some(n_predicting));
    }
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    let is_headless = |class: &Json| class.as_str().is_some_and(|class| class.ends_with("Model"));
    let embeds = t.facts.embeds || !classes.is_empty() && classes.iter().all(is_headless);
    known::check(&t.config, family.effectless, &t.passed)?;
    t.facts = Facts { tied, n_layers, width, predicts, group, embeds, ..t.facts };
    Ok(t)
}

/// Models of MiniCPM-V, whose text configuration is the top level.
const MINICPM_V: [&str; 2] = ["minicpmv", "minicpmo"];
/// Their keys about images and audio.
const OF_MINICPM_V: &[&str] = &[
    "batch_vision_input",
    "drop_vision_last_layer",
    "image_size",
    "patch_size",
    "query_num",
    "slice_config",
    "slice_mode",
    "use_image_id",
    "vision_batch_size",
    "audio_pool_step",
    "audio_chunk_length",
    "stream_input",
    "init_audio",
    "init_tts",
    "init_vision",
    "listen_speak_type",
    "tts_config",
    "audio_config",
];

/// Parts of class names of draft heads, and their types.
const HEAD_CLASSES: [(&str, &str); 3] = [
    ("Eagle3", "eagle3"),
    ("Gemma4Assistant", "gemma4_assistant"),
    ("Gemma4UnifiedAssistant", "gemma4_unified_assistant"),
];

/// Returns the type of a draft head, whose configuration resembles that of a model layer: training programs name heads
/// by class, or by a type of their own.
fn head_of_another(config: &Members) -> Result<Option<&'static str>> {
    match config.text(&["speculators_model_type"])? {
        Some("eagle3") => return Ok(Some("eagle3")),
        Some(other) => return Err(config.unsupported(&format!("a draft model of the type {other:?}"))),
        None => {}
    }
    let classes = config.list(&["architectures"])?.unwrap_or_default();
    let mut classes = classes.iter().filter_map(Json::as_str);
    if let Some(class) = classes.clone().find(|class| class.contains("DFlash") || class.contains("DSpark")) {
        return Err(config.unsupported(&format!("a draft model of the class {class:?}")));
    }
    let head = |class: &str| HEAD_CLASSES.iter().find(|(part, _)| class.contains(part)).map(|(_, head)| *head);
    Ok(classes.find_map(head))
}

/// Types that other models declare too: the type, a member that only the other model has, and the other's own type.
const TYPES_WITHIN: [(&str, &str, &str); 2] =
    [("kimi_linear", "attn_res_block_size", "kimi_k3"), ("xlm-roberta", "lora_adaptations", "jina_embeddings_v3")];

/// Returns the type of the text model; in MiniCPM-V it follows from the version.
fn text_model<'a>(config: &Members<'a>, model_type: &'a str) -> Result<&'a str> {
    let is_other = |other: &&(&str, &str, &str)| other.0 == model_type && config.find(&[other.1]).is_some();
    if let Some(&(_, _, other)) = TYPES_WITHIN.iter().find(is_other) {
        return Ok(other);
    }
    // EmbeddingGemma, which declares itself as Gemma 3.
    if model_type == "gemma3_text" && config.bool(&["use_bidirectional_attention"])? == Some(true) {
        return Ok("gemma_embedding");
    }
    if !MINICPM_V.contains(&model_type) {
        return Ok(model_type);
    }
    let version = config.number(&["version"])?;
    match (model_type, version) {
        (_, Some(2.6)) => Ok("qwen2"),
        ("minicpmv", Some(4.0)) => Ok("minicpm"),
        (_, Some(4.5)) => Ok("qwen3"),
        _ => Err(config.unsupported(&format!("the text model of a {model_type} whose \"version\" is {version:?}"))),
    }
}

/// Sets `transformers`' default epsilon of a model type.
fn epsilon(t: &mut Translator, model_type: &str) {
    let names =
        ["rms_norm_eps", "layernorm_epsilon", "layer_norm_epsilon", "norm_epsilon", "layer_norm_eps", "norm_eps"];
    if t.config.find(&names).is_some() {
        return;
    }
    let epsilon = t.family.epsilon;
    t.replace("attention.layer_norm_rms_epsilon", Some(epsilon));
    t.replace("attention.layer_norm_epsilon", None::<f64>);
    if !t.family.fixed_epsilon {
        let what = format!("no epsilon of norms: {epsilon:e}, as transformers has it for the type {model_type:?}");
        t.passed.borrow_mut().note(what);
    }
}

/// Fails if a configuration declares another activation function than the architecture implies.
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
