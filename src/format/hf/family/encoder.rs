//! Encoders: every token sees all others, and hidden states are the results, or the scores of a classifier.

use super::common::PLAIN;
use crate::error::Result;
use crate::format::Value;
use crate::format::hf::rope;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Translator};

const MODERN_NAMES: &[(&str, &str)] = &[
    ("embeddings.tok_embeddings", "token_embd"),
    ("embeddings.norm", "token_embd_norm"),
    ("final_norm", "output_norm"),
    ("attn_norm", "attn_norm"),
    ("attn.Wo", "attn_output"),
    ("mlp_norm", "ffn_norm"),
    ("mlp.Wi", "ffn_up"),
    ("mlp.Wo", "ffn_down"),
    ("head.dense", "cls"),
    ("head.norm", "cls.norm"),
];

/// Encoders of Nomic and Jina, which turn queries and keys.
const TURNING_NAMES: &[(&str, &str)] = &[
    ("emb_ln", "token_embd_norm"),
    ("mixer.Wqkv", "attn_qkv"),
    ("mixer.out_proj", "attn_output"),
    ("norm1", "attn_output_norm"),
    ("norm2", "layer_output_norm"),
    ("mlp.fc11", "ffn_up"),
    ("mlp.fc12", "ffn_gate"),
];

const MPNET_NAMES: &[(&str, &str)] = &[
    ("encoder.relative_attention_bias", "blk.0.attn_rel_b"),
    ("attention.attn.q", "attn_q"),
    ("attention.attn.k", "attn_k"),
    ("attention.attn.v", "attn_v"),
    ("attention.attn.o", "attn_output"),
    ("attention.LayerNorm", "attn_output_norm"),
];

const DISTIL_NAMES: &[(&str, &str)] = &[
    ("attention.q_lin", "attn_q"),
    ("attention.k_lin", "attn_k"),
    ("attention.v_lin", "attn_v"),
    ("attention.out_lin", "attn_output"),
    ("sa_layer_norm", "attn_output_norm"),
    ("ffn.lin1", "ffn_up"),
    ("ffn.lin2", "ffn_down"),
    ("output_layer_norm", "layer_output_norm"),
];

const CLASSIFIER_NAMES: &[(&str, &str)] = &[("classifier.dense", "cls"), ("classifier.out_proj", "cls.output")];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["bert", "ernie"],
        // The tensors tell whether there are types of tasks.
        effectless: " use_task_id task_type_vocab_size ",
        extras: encoder,
        names: &[&[("embeddings.task_type_embeddings", "task_types")]],
        ..BERT
    },
    Family {
        model_types: &["xlm-roberta", "roberta", "camembert"],
        defaults: "max_position_embeddings=512 pad_token_id=1",
        effectless: " output_past ",
        extras: roberta,
        names: &[CLASSIFIER_NAMES],
        ..BERT
    },
    Family {
        model_types: &["mpnet"],
        keys: &[&[("attention.relative_buckets_count", Int, &["relative_attention_num_buckets"])]],
        defaults: "max_position_embeddings=512 pad_token_id=1 relative_attention_num_buckets=32",
        extras: mpnet,
        names: &[MPNET_NAMES],
        ..BERT
    },
    Family {
        model_types: &["distilbert"],
        fixed_epsilon: true,
        effectless: " sinusoidal_pos_embds qa_dropout seq_classif_dropout tie_weights_ ",
        extras: encoder,
        names: &[DISTIL_NAMES],
        ..BERT
    },
    Family {
        model_types: &["nomic_bert"],
        arch: "nomic-bert",
        activations: &["swiglu", "silu"],
        defaults: "rotary_emb_base=1e3",
        effectless: " dense_seq_output fused_bias_fc fused_dropout_add_ln max_trained_positions mlp_fc1_bias \
                     mlp_fc2_bias pad_vocab_size_multiple parallel_block_tied_norm qkv_proj_bias use_xentropy ",
        extras: nomic,
        turning_part: &["partial_rotary_factor", "rotary_emb_fraction"],
        names: &[TURNING_NAMES],
        ..BERT
    },
    Family {
        model_types: &["jina_embeddings_v3"],
        arch: "jina-bert-v3",
        epsilon: 1e-5,
        defaults: "rope_theta=2e4",
        extras: encoder,
        names: &[TURNING_NAMES],
        ..BERT
    },
    Family {
        model_types: &["eurobert"],
        arch: "eurobert",
        effectless: " clf_pooling classifier_pooling ",
        extras: |t| {
            unclassified(t)?;
            // A head that guesses masked tokens is none of the network's.
            t.facts.embeds = true;
            Ok(())
        },
        ..PLAIN
    },
    Family {
        model_types: &["modernbert"],
        arch: "modern-bert",
        activations: &["gelu", "silu"],
        defaults: "local_attention=128 global_attn_every_n_layers=3 global_rope_theta=16e4 local_rope_theta=1e4",
        effectless: " initializer_cutoff_factor norm_bias decoder_bias deterministic_flash_attn sparse_prediction \
                     sparse_pred_ignore_index reference_compile repad_logits_with_grad classifier_bias \
                     position_embedding_type ",
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
];

const BERT: Family =
    Family { arch: "bert", activations: &["gelu"], epsilon: 1e-12, defaults: "max_position_embeddings=512", ..PLAIN };

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
    classifier(t)
}

/// Notes whether the model is a classifier.
fn classifier(t: &mut Translator) -> Result<()> {
    t.facts.classifies = is_of(t, "ForSequenceClassification")?;
    t.set("pooling_type", t.facts.classifies.then_some(4u64));
    Ok(())
}

/// True where a class of the model has a name with this part.
fn is_of(t: &Translator, part: &str) -> Result<bool> {
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    Ok(classes.iter().any(|class| class.as_str().is_some_and(|class| class.contains(part))))
}

/// Refuses heads for other tasks than the vectors of texts.
fn unclassified(t: &Translator) -> Result<()> {
    match is_of(t, "Classification")? || is_of(t, "QuestionAnswering")? {
        true => Err(t.config.unsupported("a classifier (\"architectures\")")),
        false => Ok(()),
    }
}

/// BERT whose positions are counted from behind the number of the token that pads.
fn roberta(t: &mut Translator) -> Result<()> {
    encoder(t)?;
    let first = t.int(&["pad_token_id"])?.unwrap_or(0).saturating_add(1);
    t.facts.first_position = first;
    t.replace("context_length", t.int(&["max_position_embeddings"])?.and_then(|n| n.checked_sub(first)));
    Ok(())
}

fn mpnet(t: &mut Translator) -> Result<()> {
    roberta(t)?;
    unclassified(t)
}

/// Nomic's encoders, whose configurations tell what a kit of parts is put together to.
fn nomic(t: &mut Translator) -> Result<()> {
    encoder(t)?;
    for name in ["causal", "parallel_block", "prenorm", "rotary_emb_interleaved", "use_rms_norm"] {
        t.expect(name, false)?;
    }
    Ok(())
}

/// ModernBERT, which may rank.
fn modern_encoder(t: &mut Translator) -> Result<()> {
    if is_of(t, "TokenClassification")? || is_of(t, "QuestionAnswering")? {
        unclassified(t)?;
    }
    classifier(t)?;
    t.expect_text("classifier_activation", &["gelu"])?;
    t.expect_text("classifier_pooling", &["cls", "mean"])?;
    let pooling = t.config.text(&["classifier_pooling"])?.map_or(2u64, |pooling| if pooling == "mean" { 1 } else { 2 });
    t.set("classifier.pooling_type", t.facts.classifies.then_some(pooling));
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
