//! Networks from the time before Llama, and encoders: LayerNorm, feed-forward blocks without a gate, biases.

use super::common::{EXACT_GELU, PLAIN};
use crate::error::Result;
use crate::format::Value;
use crate::format::hf::translator::KeyType::{Bool, Int};
use crate::format::hf::translator::{Family, HEADS, Translator};
use crate::format::hf::{known, rope};

const MODERN_NAMES: &[(&str, &str)] = &[
    ("embeddings.tok_embeddings", "token_embd"),
    ("embeddings.norm", "token_embd_norm"),
    ("final_norm", "output_norm"),
    ("attn_norm", "attn_norm"),
    ("attn.Wo", "attn_output"),
    ("mlp_norm", "ffn_norm"),
    ("mlp.Wi", "ffn_up"),
    ("mlp.Wo", "ffn_down"),
];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["bert"],
        arch: "bert",
        activations: &["gelu"],
        epsilon: 1e-12,
        defaults: "max_position_embeddings=512",
        extras: encoder,
        ..PLAIN
    },
    Family {
        model_types: &["xlm-roberta", "roberta"],
        arch: "bert",
        activations: &["gelu"],
        epsilon: 1e-12,
        defaults: "max_position_embeddings=512 pad_token_id=1",
        effectless: " output_past ",
        extras: roberta,
        names: &[&[("classifier.dense", "cls"), ("classifier.out_proj", "cls.output")]],
        ..PLAIN
    },
    Family {
        model_types: &["modernbert"],
        arch: "modern-bert",
        activations: &["gelu", "silu"],
        defaults: "local_attention=128 global_attn_every_n_layers=3 global_rope_theta=16e4 local_rope_theta=1e4",
        effectless: " initializer_cutoff_factor norm_bias decoder_bias deterministic_flash_attn sparse_prediction \
                     sparse_pred_ignore_index reference_compile repad_logits_with_grad classifier_pooling \
                     classifier_bias classifier_activation position_embedding_type ",
        extras: modern_encoder,
        windows: modern_windows,
        rope: modern_rope,
        windowed_base: true,
        names: &[MODERN_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["clip_text_model", "clip"],
        arch: "clip-text",
        activations: &["quick_gelu", "gelu"],
        defaults: "vocab_size=49408 hidden_size=512 intermediate_size=2048 num_hidden_layers=12 num_attention_heads=8 \
                   max_position_embeddings=77",
        effectless: OF_TOWERS,
        extras: tower,
        ..PLAIN
    },
    Family {
        model_types: &["siglip_text_model", "siglip", "siglip2_text_model", "siglip2"],
        arch: "siglip-text",
        activations: &["gelu_pytorch_tanh", "gelu"],
        epsilon: 1e-6,
        defaults: "vocab_size=32000 hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 \
                   max_position_embeddings=64",
        effectless: OF_TOWERS,
        extras: tower,
        names: &[&[("head", "dense_2")]],
        ..PLAIN
    },
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: "",
        transposed: &["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"],
        ..PLAIN
    },
    Family { model_types: &["starcoder2"], arch: "starcoder2", activations: &["gelu_pytorch_tanh"], ..PLAIN },
    Family {
        model_types: &["phi"],
        arch: "phi2",
        activations: &["gelu_new"],
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5",
        ..PLAIN
    },
    Family {
        model_types: &["gpt_neox"],
        arch: "gptneox",
        keys: &[&[("use_parallel_residual", Bool, &["use_parallel_residual"])]],
        defaults: "rotary_emb_base=1e4 rotary_pct=0.25",
        turning_part: &["partial_rotary_factor", "rotary_pct"],
        ..EXACT_GELU
    },
    Family { model_types: &["falcon"], arch: "falcon", extras: multi_query, ..EXACT_GELU },
    Family {
        model_types: &["gpt_bigcode"],
        arch: "starcoder",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: " attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner validate_runner_input \
                     pre_allocate_kv_cache max_batch_size ",
        extras: multi_query,
        ..EXACT_GELU
    },
    Family {
        model_types: &["mpt"],
        arch: "mpt",
        keys: &[&[("context_length", Int, &["max_seq_len"])]],
        defaults: "",
        effectless: " no_bias emb_pdrop init_device init_config verbose embedding_fraction tokenizer_name ",
        extras: mpt,
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["bloom"],
        arch: "bloom",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: " attention_softmax_in_fp32 masked_softmax_fusion bias_dropout_fusion skip_bias_add \
                     skip_bias_add_qkv seq_length offset_alibi unk_token_id slow_but_exact ",
        exact_gelu: false,
        ..EXACT_GELU
    },
];

/// Keys of CLIP and SigLIP: widths that tensors tell, and the scale of the comparison.
const OF_TOWERS: &str = " projection_dim projection_size logit_scale_init_value text_config_dict vision_config_dict ";

/// The text tower of a model that compares texts with pictures.
fn tower(t: &mut Translator) -> Result<()> {
    let activation = t.config.text(&["hidden_act"])?.or(t.family.activations.first().copied());
    t.set("hidden_act", activation.map(str::to_owned));
    t.set("pooling_type", Some(3u64));
    Ok(())
}

/// Sets the keys of an encoder, which may be a classifier.
fn encoder(t: &mut Translator) -> Result<()> {
    if t.config.bool(&["is_decoder"])? == Some(true) {
        return Err(t.config.unsupported("an encoder that is a decoder (\"is_decoder\")"));
    }
    if t.config.text(&["position_embedding_type"])?.is_some_and(|kind| kind != "absolute") {
        return Err(t.config.unsupported("positions other than learned ones (\"position_embedding_type\")"));
    }
    t.set("attention.causal", Some(false));
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    let is_classifier = |class: &str| class.ends_with("ForSequenceClassification");
    t.facts.classifies = classes.iter().any(|class| class.as_str().is_some_and(is_classifier));
    t.set("pooling_type", t.facts.classifies.then_some(4u64));
    Ok(())
}

/// BERT whose positions are counted from behind the number of the token that pads.
fn roberta(t: &mut Translator) -> Result<()> {
    encoder(t)?;
    let first = t.int(&["pad_token_id"])?.unwrap_or(0).saturating_add(1);
    t.facts.first_position = first;
    t.replace("context_length", t.int(&["max_position_embeddings"])?.and_then(|n| n.checked_sub(first)));
    Ok(())
}

/// ModernBERT, without the heads of classifiers.
fn modern_encoder(t: &mut Translator) -> Result<()> {
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    let is_other = |class: &str| class.contains("Classification") || class.contains("QuestionAnswering");
    if classes.iter().any(|class| class.as_str().is_some_and(is_other)) {
        return Err(t.config.unsupported("a classifier (\"architectures\")"));
    }
    t.set("hidden_activation", t.config.text(&["hidden_activation"])?);
    Ok(())
}

fn modern_windows(t: &mut Translator) -> Result<()> {
    t.set("attention.sliding_window", t.int(&["local_attention"])?);
    let period = t.int(&["global_attn_every_n_layers"])?;
    match t.layers("layer_types", &["full_attention", "sliding_attention"])? {
        Some(kinds) => {
            let windowed = kinds.into_iter().map(|kind| kind == 1).collect();
            t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
        }
        None => t.set("attention.sliding_window_pattern", period),
    }
    Ok(())
}

fn modern_rope(t: &mut Translator) -> Result<()> {
    if t.config.find(&["rope_parameters"]).is_some() {
        return rope::translate(t);
    }
    t.set("rope.freq_base", t.number(&["global_rope_theta"])?);
    t.set("rope.freq_base_swa", t.number(&["local_rope_theta"])?);
    Ok(())
}

/// Falcon and the first StarCoder: one key-value head for all, for groups, or one each.
fn multi_query(t: &mut Translator) -> Result<()> {
    let heads = t.int(HEADS)?;
    let given = t.int(&["num_kv_heads", "n_head_kv", "num_key_value_heads"])?;
    let shared = t.config.bool(&["multi_query"])?.unwrap_or(true);
    let by_group = t.config.bool(&["new_decoder_architecture"])?.unwrap_or(false);
    t.config.skip(&["num_ln_in_parallel_attn"]);
    let n = match (by_group, shared) {
        (true, _) => given.or(heads),
        (false, true) => Some(1),
        (false, false) => heads,
    };
    t.replace("attention.head_count_kv", n);
    t.facts.kv_heads = n;
    Ok(())
}

fn mpt(t: &mut Translator) -> Result<()> {
    let attention = t.part("attn_config");
    let kv_heads = attention.int(&["kv_n_heads"])?;
    if attention.bool(&["alibi"])? == Some(false) {
        return Err(t.config.unsupported("\"alibi\" with the value false"));
    }
    let bias = attention.number(&["alibi_bias_max"])?.unwrap_or(8.0);
    t.set("attention.max_alibi_bias", Some(bias));
    t.set("attention.clamp_kqv", attention.number(&["clip_qkv"])?);
    t.set("attention.head_count_kv", kv_heads);
    t.expect_text("norm_type", &["low_precision_layernorm", "layernorm"])?;
    t.config.skip(&["learned_pos_emb"]);
    known::check(&attention, ATTENTION_OF_MPT, &t.passed)?;
    t.facts.kv_heads = kv_heads.or(t.int(HEADS)?);
    Ok(())
}

/// Members of MPT's set that change no result: how the numbers are computed, and what transformers puts in every set.
const ATTENTION_OF_MPT: &str = " \
     attn_impl attn_pdrop model_type bos_token_id eos_token_id pad_token_id bad_words_ids forced_bos_token_id \
     forced_eos_token_id exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix tf_legacy_loss \
     decoder_start_token_id cross_attention_hidden_size tie_word_embeddings ";
