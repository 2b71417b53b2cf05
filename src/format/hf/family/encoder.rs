//! Encoders: bidirectional attention, with hidden states or classifier scores as results.

use super::common::PLAIN;
use crate::error::Result;
use crate::format::Value;
use crate::format::hf::members::Members;
use crate::format::hf::rope;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Key, MAX_WIDTH, Translator};
use crate::format::value::narrow;

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

/// Encoders of Nomic and Jina, with RoPE.
const ROTARY_NAMES: &[(&str, &str)] = &[
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
    ("pre_classifier", "cls"),
];

/// ALBERT, whose layers share weights.
const ALBERT_NAMES: &[(&str, &str)] = &[
    ("encoder.embedding_hidden_mapping_in", "token_embd_proj"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.query", "blk.0.attn_q"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.key", "blk.0.attn_k"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.value", "blk.0.attn_v"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.dense", "blk.0.attn_output"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm", "blk.0.attn_output_norm"),
    ("encoder.albert_layer_groups.0.albert_layers.0.ffn", "blk.0.ffn_up"),
    ("encoder.albert_layer_groups.0.albert_layers.0.ffn_output", "blk.0.ffn_down"),
    ("encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm", "blk.0.layer_output_norm"),
    ("pooler", "cls"),
];

const GTE_NAMES: &[(&str, &str)] = &[
    ("attention.qkv_proj", "attn_qkv"),
    ("attention.o_proj", "attn_output"),
    ("attn_ln", "attn_output_norm"),
    ("mlp.up_gate_proj", "ffn_up_gate"),
    ("mlp_ln", "layer_output_norm"),
];

/// Nomic's encoders with experts.
const EXPERT_NAMES: &[(&str, &str)] = &[
    ("mlp.router.layer", "ffn_gate_inp"),
    ("mlp.experts.mlp.w1", "ffn_up_exps.weight"),
    ("mlp.experts.mlp.w2", "ffn_down_exps.weight"),
    ("mlp.experts.bias", "ffn_exps.bias"),
];

const NARROW: &[Key] = &[("token_embedding_length", Int, &["embedding_size"])];

const CLASSIFIER_NAMES: &[(&str, &str)] = &[("classifier.dense", "cls"), ("classifier.out_proj", "cls.output")];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["bert", "ernie"],
        // The tensors determine whether there are task types.
        effectless: "use_task_id task_type_vocab_size",
        extras: encoder,
        names: &[&[("embeddings.task_type_embeddings", "task_types")]],
        ..BERT
    },
    Family {
        model_types: &["electra"],
        keys: &[NARROW],
        effectless: "generator_size summary_last_dropout",
        extras: |t| {
            encoder(t)?;
            t.set("classifier.activation", Some("gelu"));
            Ok(())
        },
        names: &[CLASSIFIER_NAMES, &[("embeddings_project", "token_embd_proj")]],
        ..BERT
    },
    Family {
        model_types: &["albert"],
        arch: "albert",
        activations: &["gelu_new", "gelu"],
        keys: &[NARROW],
        defaults: "max_position_embeddings=512 embedding_size=128",
        effectless: "down_scale_factor gap_size net_structure_type num_memory_blocks classifier_dropout_prob",
        extras: |t| {
            encoder(t)?;
            let activation = t.config.text(&["hidden_act"])?.unwrap_or("gelu_new");
            t.set("hidden_activation", Some(activation));
            let [inner, groups] = ["inner_group_num", "num_hidden_groups"].map(|name| t.int(&[name]));
            match [inner?, groups?] {
                [None | Some(1), None | Some(1)] => Ok(()),
                _ => Err(t.config.unsupported("layers of several groups (\"num_hidden_groups\", \"inner_group_num\")")),
            }
        },
        names: &[ALBERT_NAMES],
        ..BERT
    },
    Family {
        model_types: &["gte", "new"],
        arch: "gte",
        defaults: "max_position_embeddings=8192 rope_theta=1e4",
        effectless: "pack_qkv unpad_inputs use_memory_efficient_attention",
        extras: gte,
        own_rope: gte_rope,
        names: &[GTE_NAMES],
        ..BERT
    },
    Family {
        model_types: &["xlm-roberta", "roberta", "camembert", "data2vec-text"],
        defaults: "max_position_embeddings=512 pad_token_id=1",
        effectless: "output_past",
        extras: roberta,
        names: &[CLASSIFIER_NAMES],
        ..BERT
    },
    Family {
        model_types: &["mpnet"],
        keys: &[&[("attention.relative_buckets_count", Int, &["relative_attention_num_buckets"])]],
        defaults: "max_position_embeddings=512 pad_token_id=1 relative_attention_num_buckets=32",
        extras: roberta,
        names: &[MPNET_NAMES, CLASSIFIER_NAMES],
        ..BERT
    },
    Family {
        model_types: &["distilbert"],
        fixed_epsilon: true,
        effectless: "output_past sinusoidal_pos_embds qa_dropout seq_classif_dropout tie_weights_",
        extras: |t| {
            encoder(t)?;
            t.set("classifier.activation", Some("relu"));
            Ok(())
        },
        names: &[DISTIL_NAMES],
        ..BERT
    },
    Family {
        model_types: &["nomic_bert"],
        arch: "nomic-bert",
        activations: &["swiglu", "silu", "gelu"],
        keys: &[&[("expert_count", Int, &["num_experts"]), ("expert_used_count", Int, &["moe_top_k"])]],
        defaults: "rotary_emb_base=1e3",
        effectless: "add_pooling_layer dense_seq_output ffn_div fused_bias_fc fused_dropout_add_ln \
                     max_trained_positions mlp_fc1_bias mlp_fc2_bias moe_every_n_layers moe_impl moe_resid_pdrop \
                     pad_vocab_size_multiple parallel_block_tied_norm qkv_proj_bias use_xentropy",
        extras: nomic,
        rotary_part: &["partial_rotary_factor", "rotary_emb_fraction"],
        transposed: &["ffn_down_exps.weight"],
        names: &[ROTARY_NAMES, EXPERT_NAMES],
        ..BERT
    },
    Family {
        model_types: &["jina_embeddings_v3"],
        arch: "jina-bert-v3",
        epsilon: 1e-5,
        defaults: "rope_theta=2e4",
        effectless: "emb_pooler load_trained_adapters lora_adaptations lora_alpha lora_dropout_p \
                     lora_main_params_trainable lora_rank matryoshka_dimensions output_past task_instructions \
                     truncate_dim",
        extras: jina,
        rope: |t| {
            rope::translate(t)?;
            if let Some(base) = t.config.number(&["rotary_emb_base"])? {
                t.replace("rope.freq_base", Some(base));
            }
            Ok(())
        },
        names: &[ROTARY_NAMES],
        ..BERT
    },
    Family { model_types: &["eurobert"], arch: "eurobert", extras: eurobert, names: &[&[("dense", "cls")]], ..PLAIN },
    Family {
        model_types: &["modernbert"],
        arch: "modern-bert",
        defaults: "local_attention=128 global_attn_every_n_layers=3 global_rope_theta=16e4 local_rope_theta=1e4",
        effectless: "initializer_cutoff_factor norm_bias decoder_bias deterministic_flash_attn sparse_prediction \
                     sparse_pred_ignore_index reference_compile repad_logits_with_grad classifier_bias \
                     position_embedding_type",
        extras: modern_encoder,
        ..MODERN
    },
    Family {
        model_types: &["modernbert-decoder"],
        arch: "modern-bert-decoder",
        defaults: "local_attention=128 global_attn_every_n_layers=3 global_rope_theta=16e4 local_rope_theta=16e4",
        // Half of the window, which transformers saves in addition to the whole window.
        effectless: "initializer_cutoff_factor norm_bias decoder_bias classifier_bias classifier_pooling causal_mask \
                     sliding_window",
        extras: |t| {
            unclassified(t)?;
            modern_activations(t)
        },
        names: &[
            &[("lm_head.dense", "output_dense"), ("lm_head.norm", "output_dense_norm"), ("decoder", "output")],
            MODERN_NAMES,
        ],
        ..MODERN
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

const MODERN: Family = Family {
    activations: &["gelu", "silu"],
    windows: modern_windows,
    rope: modern_rope,
    windowed_base: true,
    names: &[MODERN_NAMES],
    ..PLAIN
};

/// Keys of CLIP and SigLIP: widths that tensors determine, and the scale of similarities.
const OF_TOWERS: &str = "projection_dim projection_size logit_scale_init_value text_config_dict vision_config_dict";

/// The text encoder of a model that compares texts with images.
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

/// Records whether the model is a classifier.
fn classifier(t: &mut Translator) -> Result<()> {
    t.facts.classifies = is_of(t, "ForSequenceClassification")?;
    t.set("pooling_type", t.facts.classifies.then_some(4u64));
    Ok(())
}

/// True if the model has a class with this part in its name.
fn is_of(t: &Translator, part: &str) -> Result<bool> {
    let classes = t.config.list(&["architectures"])?.unwrap_or_default();
    Ok(classes.iter().any(|class| class.as_str().is_some_and(|class| class.contains(part))))
}

/// Fails for heads of tasks other than text embeddings.
fn unclassified(t: &Translator) -> Result<()> {
    match is_of(t, "Classification")? || is_of(t, "QuestionAnswering")? {
        true => Err(t.config.unsupported("a classifier (\"architectures\")")),
        false => Ok(()),
    }
}

/// BERT with positions that start after the padding token's id.
fn roberta(t: &mut Translator) -> Result<()> {
    encoder(t)?;
    let first = t.int(&["pad_token_id"])?.unwrap_or(0).saturating_add(1);
    t.facts.first_position = first;
    t.replace("context_length", t.int(&["max_position_embeddings"])?.and_then(|n| n.checked_sub(first)));
    Ok(())
}

/// Jina v3; the authors' folders contain task adapters next to the weights.
fn jina(t: &mut Translator) -> Result<()> {
    if t.config.find(&["lora_adaptations"]).is_some() {
        t.passed.get_mut().note("the adapters of tasks (lora_adaptations) are not used: vectors are those of no task");
    }
    t.expect_text("position_embedding_type", &["rotary"])?;
    t.set("attention.causal", Some(false));
    classifier(t)
}

/// Nomic's encoders, whose configurations describe a modular architecture.
fn nomic(t: &mut Translator) -> Result<()> {
    encoder(t)?;
    for name in [
        "causal",
        "expert_choice_router",
        "moe_normalize_expert_weights",
        "parallel_block",
        "prenorm",
        "rotary_emb_interleaved",
        "use_rms_norm",
    ] {
        t.expect(name, false)?;
    }
    if t.int(&["num_shared_experts"])?.is_some_and(|n| n > 0) {
        return Err(t.config.unsupported("\"num_shared_experts\" other than 0"));
    }
    if t.int(&["num_experts"])?.is_some_and(|n| n < 2) {
        t.keys.retain(|(key, _)| !key.contains(".expert_"));
    }
    let is_plain = t.config.text(&["activation_function", "hidden_act"])? == Some("gelu");
    t.set("hidden_activation", is_plain.then_some("gelu"));
    Ok(())
}

/// GTE, whose older configurations describe a modular architecture.
fn gte(t: &mut Translator) -> Result<()> {
    t.expect_text("position_embedding_type", &["rope"])?;
    t.expect_text("layer_norm_type", &["layer_norm"])?;
    t.expect("logn_attention_scale", false)?;
    t.expect("logn_attention_clip1", false)?;
    t.set("attention.causal", Some(false));
    classifier(t)
}

/// Fixed NTK scaling: `base^(-2 i / n) / factor^(2 (i + 1) / n)`.
fn gte_rope(t: &mut Translator, set: &Members, kind: &str) -> Result<bool> {
    let Some(factor) = set.number(&["factor"])?.filter(|_| kind == "ntk") else { return Ok(false) };
    let width = rope::head_dim(t)?.min(MAX_WIDTH);
    let divisor = |i: u64| narrow(libm::pow(factor, 2.0 * (i + 1) as f64 / width as f64));
    let divisors: Vec<f32> = (0..width / 2).map(divisor).collect();
    t.made.push(rope::tensor_of("rope_freqs.weight", &divisors)?);
    Ok(true)
}

/// EuroBERT, possibly as a reranker.
fn eurobert(t: &mut Translator) -> Result<()> {
    whole_texts(t)?;
    // A masked language modeling head is not part of the network.
    t.facts.embeds = true;
    for name in ["clf_pooling", "classifier_pooling"] {
        t.expect_text(name, &["bos", "mean", "late"])?;
    }
    let pooling = t.config.text(&["classifier_pooling", "clf_pooling"])?.unwrap_or("late");
    if t.facts.classifies {
        t.set("classifier.activation", Some("gelu"));
        t.set("classifier.pooling_type", Some(if pooling == "bos" { 2u64 } else { 1 }));
        t.set("classifier.layers_ahead", (pooling == "late").then_some(1u64));
    }
    Ok(())
}

/// `classifier`, failing for token classifiers.
fn whole_texts(t: &mut Translator) -> Result<()> {
    if is_of(t, "TokenClassification")? || is_of(t, "QuestionAnswering")? {
        unclassified(t)?;
    }
    classifier(t)
}

/// ModernBERT, possibly as a reranker.
fn modern_encoder(t: &mut Translator) -> Result<()> {
    whole_texts(t)?;
    t.expect_text("classifier_pooling", &["cls", "mean"])?;
    let pooling = t.config.text(&["classifier_pooling"])?.map_or(2u64, |pooling| if pooling == "mean" { 1 } else { 2 });
    t.set("classifier.pooling_type", t.facts.classifies.then_some(pooling));
    modern_activations(t)
}

fn modern_activations(t: &mut Translator) -> Result<()> {
    t.expect_text("classifier_activation", &["gelu"])?;
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
