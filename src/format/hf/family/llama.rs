//! Llama, and similar families: with another norm, partial layers with RoPE, a window, or experts.

use super::common::{EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, STACKED_EXPERTS};
use crate::error::{Error, Result};
use crate::format::hf::members::Members;
use crate::format::hf::rope::head_dim;
use crate::format::hf::translator::KeyType::{Cap, Number};
use crate::format::hf::translator::{Family, Key, LAYERS, MAX_LAYERS, Translator};
use crate::format::json::Json;

const LOGIT_SCALE: &[Key] = &[("logit_scale", Number, &["logit_scale"])];

const APERTUS_NAMES: &[(&str, &str)] = &[
    ("attention_layernorm", "attn_norm"),
    ("feedforward_layernorm", "ffn_norm"),
    ("mlp.act_fn.alpha_p", "xielu.alpha_p"),
    ("mlp.act_fn.alpha_n", "xielu.alpha_n"),
    ("mlp.act_fn.beta", "xielu.beta"),
    ("mlp.act_fn.eps", "xielu.eps"),
];

const EXAONE_NAMES: &[(&str, &str)] = &[
    ("attn.attention.q_proj", "attn_q"),
    ("attn.attention.k_proj", "attn_k"),
    ("attn.attention.v_proj", "attn_v"),
    ("attn.attention.out_proj", "attn_output"),
    ("mlp.c_fc_0", "ffn_gate"),
    ("mlp.c_fc_1", "ffn_up"),
];

const HUNYUAN: Family = Family { effectless: EFFECTLESS_HUNYUAN, own_rope: hunyuan_rope, ..PLAIN };

pub const ALL: &[Family] = &[
    Family { model_types: &["llama", "mistral"], arch: "llama", epsilon: 1e-6, keys: &[EXPERTS], ..PLAIN },
    Family { model_types: &["mixtral"], arch: "llama", keys: &[EXPERTS], ..PLAIN },
    Family { model_types: &["ministral3"], arch: "mistral3", growing_queries: true, ..PLAIN },
    Family {
        model_types: &["internlm2"],
        arch: "internlm2",
        epsilon: 1e-6,
        own_rope: unstretched,
        grouped_qkv: true,
        ..PLAIN
    },
    Family { model_types: &["xverse"], arch: "xverse", epsilon: 1e-6, effectless: "max_tokenizer_truncation", ..PLAIN },
    Family { model_types: &["baichuan"], arch: "baichuan", epsilon: 1e-6, extras: baichuan, ..PLAIN },
    Family { model_types: &["seed_oss"], arch: "seed_oss", epsilon: 1e-6, post_norms: true, ..PLAIN },
    Family { model_types: &["arcee"], arch: "arcee", activations: &["relu2"], ..PLAIN },
    Family { model_types: &["orion"], arch: "orion", ..PLAIN },
    Family { model_types: &["phi3"], arch: "phi3", ..PLAIN },
    Family {
        model_types: &["phi4_multimodal", "phi4mm"],
        arch: "phi3",
        effectless: "audio_processor embd_layer img_processor speech_lora vision_lora",
        ..PLAIN
    },
    Family {
        model_types: &["phimoe"],
        arch: "phimoe",
        keys: &[EXPERTS],
        defaults: "rope_theta=1e6 num_local_experts=16 num_experts_per_tok=2",
        effectless: "input_jitter_noise hidden_dropout expert_dropout",
        extras: sparse_mixer,
        ..PLAIN
    },
    Family {
        model_types: &["nemotron"],
        arch: "nemotron",
        activations: &["relu2"],
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5",
        norms_less_one: true,
        ..PLAIN
    },
    Family {
        model_types: &["smollm3"],
        arch: "smollm3",
        epsilon: 1e-6,
        defaults: "rope_theta=2e6 use_sliding_window=0",
        extras: rotating_layers,
        ..PLAIN
    },
    Family {
        model_types: &["llama4_text", "llama4"],
        arch: "llama4",
        keys: &[EXPERTS],
        defaults: "rope_theta=5e5 head_dim=128 attention_chunk_size=8192",
        effectless: "moe_layers interleave_moe_layer_step",
        extras: llama4,
        windows: |_| Ok(()),
        adjacent: true,
        transposed: STACKED_EXPERTS,
        ..PLAIN
    },
    Family {
        model_types: &["olmo"],
        arch: "olmo",
        fixed_epsilon: true,
        keys: &[&[("attention.clamp_kqv", Number, &["clip_qkv"])]],
        ..PLAIN
    },
    Family { model_types: &["olmo2"], arch: "olmo2", post_norms: true, ..PLAIN },
    Family {
        model_types: &["olmo3"],
        arch: "olmo2",
        defaults: "rope_theta=1e4 sliding_window=4096 sliding_window_pattern=4",
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["olmoe"],
        arch: "olmoe",
        keys: &[EXPERTS, EXPERT_NORM],
        defaults: "rope_theta=1e4 norm_topk_prob=0 num_experts=64 num_experts_per_tok=8",
        ..PLAIN
    },
    Family {
        model_types: &["gpt_oss"],
        arch: "gpt-oss",
        keys: &[EXPERTS],
        defaults: "rope_theta=15e4 head_dim=64 sliding_window=128 sliding_window_pattern=2",
        effectless: "initial_context_length",
        post_norms: true,
        transposed: STACKED_EXPERTS,
        alternating_gate_up: true,
        ..PLAIN
    },
    Family {
        model_types: &["ernie4_5"],
        arch: "ernie4_5",
        defaults: "rope_theta=5e5 head_dim=128 num_key_value_heads=2",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["ernie4_5_moe"],
        arch: "ernie4_5-moe",
        keys: &[EXPERTS, EXPERT_WIDTH],
        defaults: "rope_theta=5e5 num_key_value_heads=4 moe_k=6 moe_num_experts=64",
        effectless: "moe_num_shared_experts moe_layer_start_index moe_layer_end_index moe_layer_interval moe_capacity \
                     moe_use_aux_free moe_norm_min",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["exaone4"],
        arch: "exaone4",
        extras: exaone4,
        windows: |_| Ok(()),
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm4"],
        arch: "glm4",
        epsilon: 1.5625e-7,
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 head_dim=128",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm4v", "glm4v_text"],
        arch: "glm4",
        defaults: "rope_theta=1e4 num_key_value_heads=2",
        sections: |t, interleaved, pairs| Ok(interleaved != Some(true) && pairs == Some(head_dim(t)? / 4)),
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["paddleocr_vl", "paddleocr_vl_text"],
        arch: "paddleocr",
        defaults: "rope_theta=5e5 head_dim=128 num_key_value_heads=2",
        effectless: "use_3d_rope rope_is_neox_style weight_share_add_bias ignored_index compression_ratio \
                     hidden_dropout_prob",
        sections: |t, interleaved, pairs| Ok(interleaved != Some(true) && pairs == Some(head_dim(t)? / 2)),
        ..PLAIN
    },
    Family {
        model_types: &["cohere"],
        arch: "command-r",
        keys: &[LOGIT_SCALE],
        defaults: "rope_theta=1e4 logit_scale=0.0625",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["cohere2"],
        arch: "cohere2",
        keys: &[LOGIT_SCALE],
        defaults: "rope_theta=1e4 logit_scale=0.0625 sliding_window=4096 sliding_window_pattern=4",
        extras: cohere2,
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["stablelm"],
        arch: "stablelm",
        defaults: "rope_theta=1e4 partial_rotary_factor=0.25",
        effectless: "use_parallel_residual use_qkv_bias qk_layernorm",
        ..PLAIN
    },
    Family { model_types: &["hunyuan_v1_dense"], arch: "hunyuan-dense", extras: hunyuan, ..HUNYUAN },
    Family { model_types: &["hunyuan_v1_moe"], arch: "hunyuan-moe", extras: hunyuan_moe, ..HUNYUAN },
    Family {
        model_types: &["ministral", "cwm"],
        arch: "llama",
        epsilon: 1e-6,
        defaults: "rope_theta=1e4 sliding_window=4096",
        ..PLAIN
    },
    Family {
        model_types: &["helium"],
        arch: "llama",
        epsilon: 1e-8,
        defaults: "rope_theta=1e5 head_dim=128",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm"],
        arch: "chatglm",
        epsilon: 1.5625e-7,
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 head_dim=128",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["internlm3", "iquestcoder"],
        arch: "llama",
        defaults: "rope_theta=1e4 head_dim=128",
        own_rope: unstretched,
        ..PLAIN
    },
    Family {
        model_types: &["flex_olmo"],
        arch: "olmo2",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_NORM],
        defaults: "rope_theta=5e5 norm_topk_prob=0 num_experts=7 num_experts_per_tok=5",
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["nanochat"],
        arch: "nanochat",
        activations: &["relu2"],
        epsilon: 1e-6,
        keys: &[&[("final_logit_softcapping", Cap, &["final_logit_softcapping"])]],
        defaults: "rope_theta=1e4 final_logit_softcapping=15",
        ..PLAIN
    },
    Family { model_types: &["exaone"], arch: "exaone", defaults: "rope_theta=5e5", names: &[EXAONE_NAMES], ..PLAIN },
    Family {
        model_types: &["apertus"],
        arch: "apertus",
        activations: &["xielu"],
        defaults: "rope_theta=12e6",
        extras: |t| {
            t.expect("qk_norm", true)?;
            t.expect("post_norm", false)
        },
        names: &[APERTUS_NAMES],
        ..PLAIN
    },
    Family { model_types: &["jais2"], arch: "jais2", activations: &["relu2"], ..PLAIN },
    Family {
        model_types: &["bitnet"],
        arch: "bitnet",
        activations: &["relu2", "silu"],
        defaults: "rope_theta=5e5",
        extras: |t| {
            let activation = t.config.text(&["hidden_act"])?.unwrap_or("relu2");
            t.set("hidden_activation", Some(activation.to_owned()));
            Ok(())
        },
        names: &[&[("self_attn.attn_sub_norm", "attn_sub_norm"), ("mlp.ffn_sub_norm", "ffn_sub_norm")]],
        ..PLAIN
    },
    Family {
        model_types: &["mellum"],
        arch: "mellum",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM],
        defaults: "rope_theta=5e5 head_dim=128 norm_topk_prob=1",
        // The tensors determine which layers have experts, and MTP layers are not read.
        effectless: "mlp_layer_types mtp_layer_types mtp_mlp_layer_types num_mtp_layers num_nextn_predict_layers",
        ..PLAIN
    },
    Family {
        model_types: &["hrm_text"],
        arch: "hrm_text",
        epsilon: 1e-6,
        effectless: "prefix_lm L_bp_cycles",
        extras: cycles_of_stacks,
        names: &[&[
            ("z_L_init", "hrm.z_l_init"),
            ("attn.gqkv_proj", "attn_gqkv"),
            ("attn.o_proj", "attn_output"),
            ("self_attn.gate_proj", "attn_gate"),
        ]],
        ..PLAIN
    },
];

/// HRM: two alternating stacks of layers. Text is causal; bidirectional masks of prompts, as in training, are only for
/// other kinds of inputs.
fn cycles_of_stacks(t: &mut Translator) -> Result<()> {
    let (high, low) = (t.size("H_cycles")?, t.size("L_cycles")?);
    let declared = t.n_layers()?;
    let depth = match t.int(&["num_layers_per_stack"])? {
        Some(_) => t.size("num_layers_per_stack")?,
        None => declared,
    };
    t.facts.stack = depth;
    t.set("hrm.layers_per_stack", Some(depth));
    t.set("hrm.h_cycles", Some(high));
    t.set("hrm.l_cycles", Some(low));
    t.replace("block_count", Some(depth.saturating_mul(high).saturating_mul(low + 1)));
    let spread = t.number(&["initializer_range"])?.unwrap_or(0.02);
    t.set("embedding_scale", t.number(&["embedding_scale"])?.or(Some(1.0 / spread)));
    Ok(())
}

/// Only the first generation: the second has normalized output rows, which its files do not.
fn baichuan(t: &mut Translator) -> Result<()> {
    let layers = t.int(LAYERS)?;
    if !matches!(layers, Some(32 | 40)) || t.int(&["vocab_size"])? == Some(125_696) {
        return Err(t.config.unsupported("another Baichuan than the 7B and the 13B of the first generation"));
    }
    Ok(())
}

/// Fails if other layers than each fourth lack RoPE.
fn rotating_layers(t: &mut Translator) -> Result<()> {
    let interval = t.int(&["no_rope_layer_interval"])?;
    if let Some(list) = t.config.list(&["no_rope_layers"])?.filter(|list| !list.is_empty()) {
        let fourth = |(i, has_rope): (usize, &Json)| has_rope.as_u64() == Some(u64::from(!(i + 1).is_multiple_of(4)));
        if !list.iter().enumerate().all(fourth) {
            return Err(t.config.unsupported("\"no_rope_layers\" other than each fourth"));
        }
    } else if interval.is_some_and(|n| n != 4) {
        return Err(t.config.unsupported("a \"no_rope_layer_interval\" other than 4"));
    }
    Ok(())
}

fn llama4(t: &mut Translator) -> Result<()> {
    rotating_layers(t)?;
    let experts = t.int(&["num_local_experts"])?;
    let width = t.config.int(&["intermediate_size"])?;
    t.set("expert_feed_forward_length", width);
    if t.config.bool(&["use_qk_norm"])?.unwrap_or(true) == (experts == Some(128)) {
        return Err(t.config.unsupported("\"use_qk_norm\" other than false for 128 experts and true for fewer"));
    }
    t.expect("attn_temperature_tuning", true).or_else(|error| {
        // Older configurations have a length here instead of a boolean.
        if t.config.int(&["attn_temperature_tuning"]).is_ok_and(|n| n != Some(0)) { Ok(()) } else { Err(error) }
    })?;
    for name in ["attention_chunk_size", "floor_scale"] {
        if let Some(n) = t.number(&[name])?.filter(|&n| n != 8192.0) {
            return Err(t.config.unsupported(&format!("{name:?} with the value {n}")));
        }
    }
    t.set("attention.temperature_scale", t.number(&["attn_scale"])?);
    let kinds = t.config.list(&["layer_types"])?.unwrap_or_default();
    let chunked = |i: usize| !(i + 1).is_multiple_of(4);
    let is_expected = |(i, kind): (usize, &Json)| {
        kind.as_str() == Some(if chunked(i) { "chunked_attention" } else { "full_attention" })
    };
    if kinds.len() as u64 > MAX_LAYERS || !kinds.iter().enumerate().all(is_expected) {
        return Err(t.config.unsupported("\"layer_types\" other than chunks in three layers of four"));
    }
    Ok(())
}

fn cohere2(t: &mut Translator) -> Result<()> {
    t.expect_text("position_embedding_type", &["rope_gptj"])?;
    match t.number(&["rotary_pct"])? {
        Some(part) if part != 1.0 => Err(t.config.unsupported("a \"rotary_pct\" other than 1")),
        _ => Ok(()),
    }
}

/// The network of GGUF files has windows if it has 64 layers, in three of four.
fn exaone4(t: &mut Translator) -> Result<()> {
    let window = t.int(&["sliding_window"])?;
    let is_largest = t.int(LAYERS)? == Some(64);
    if window.is_some() != is_largest {
        return Err(t.config.unsupported(&format!("\"sliding_window\" with the value {window:?} in this size")));
    }
    t.set("attention.sliding_window", window);
    if let Some((name, pattern)) = t.config.find(&["sliding_window_pattern"])
        && is_largest
        && pattern.as_str() != Some("LLLG")
        && pattern.as_u64() != Some(4)
    {
        return Err(t.config.unsupported(&format!("{name:?} with the value {pattern}")));
    }
    let kinds = t.config.list(&["layer_types"])?.unwrap_or_default();
    let windowed = |i: usize| is_largest && !(i + 1).is_multiple_of(4);
    let is_expected = |(i, kind): (usize, &Json)| {
        kind.as_str() == Some(if windowed(i) { "sliding_attention" } else { "full_attention" })
    };
    match kinds.iter().enumerate().all(is_expected) {
        true => Ok(()),
        false => Err(t.config.unsupported("\"layer_types\" other than a window in three layers of four")),
    }
}

/// Keys of Hunyuan about images, speech, and training.
const EFFECTLESS_HUNYUAN: &str = "\
     add_classification_head class_num cla_share_factor dense_list eod_token_id enable_lm_head_fp32 im_end_id \
     im_newline_id im_start_id image_token_id video_start_id video_end_id mask_init_id text_start_id text_end_id \
     org_vocab_size max_seqlen num_media_embeds pool_type num_shared_expert vit_path vit_type vit_token \
     vit_used_rms_norm vit_patch vit_norm_type vit_mapping_type vit_input_resolution vit_dtype vit_add_patchemb_bias \
     anyres_pooling_size anyres_vit_max_image_size anyres_vit_two_views skip_cls_token moe_drop_tokens \
     moe_random_routing_dropped_token capacity_factor kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim \
     v_head_dim unk_token_id";

fn hunyuan_attention(t: &Translator) -> Result<()> {
    t.expect("use_qk_norm", true)?;
    t.expect_text("norm_type", &["rms"])?;
    match t.config.int(&["attention_head_dim"])? {
        Some(width) if head_dim(t)? != width => {
            Err(t.config.unsupported(&format!("\"attention_head_dim\" with the value {width}")))
        }
        _ => Ok(()),
    }
}

const N_EXPERTS: &[&str] = &["num_experts", "num_local_experts"];

fn hunyuan(t: &mut Translator) -> Result<()> {
    hunyuan_attention(t)?;
    match t.int(N_EXPERTS)? {
        None | Some(0 | 1) => Ok(()),
        Some(n) => Err(t.config.unsupported(&format!("\"num_experts\" with the value {n}"))),
    }
}

fn hunyuan_moe(t: &mut Translator) -> Result<()> {
    hunyuan_attention(t)?;
    t.set("expert_count", t.int(N_EXPERTS)?);
    for (key, name) in [("expert_used_count", "moe_topk"), ("expert_feed_forward_length", "moe_intermediate_size")] {
        let n = same_in_all(t, name)?;
        t.set(key, n);
    }
    Ok(())
}

/// Fails for another width of `RouterScore::SparseMixer` than its own. The key is named after its use in training.
fn sparse_mixer(t: &mut Translator) -> Result<()> {
    match t.number(&["router_jitter_noise"])? {
        None | Some(0.01) => Ok(()),
        Some(noise) => Err(t.config.unsupported(&format!("\"router_jitter_noise\" with the value {noise}"))),
    }
}

/// Returns a number, or a list with one value per layer that are all equal.
fn same_in_all(t: &Translator, name: &str) -> Result<Option<u64>> {
    let Some((_, value)) = t.config.find(&[name]) else { return Ok(None) };
    let list = value.as_array().unwrap_or(std::slice::from_ref(value));
    match list.first().map(Json::as_u64) {
        Some(Some(n)) if list.iter().all(|other| other.as_u64() == Some(n)) => Ok(Some(n)),
        _ => Err(t.config.unsupported(&format!("{name:?} with the value {value}"))),
    }
}

/// Dynamic scaling, which has no effect within the configuration's context length.
fn unstretched(_: &mut Translator, set: &Members, kind: &str) -> Result<bool> {
    Ok(kind == "dynamic" && set.number(&["factor"]).map(|_| true)?)
}

/// The base is always scaled, whatever the context length.
fn hunyuan_rope(t: &mut Translator, set: &Members, kind: &str) -> Result<bool> {
    if kind != "dynamic" {
        return Ok(false);
    }
    for name in ["beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim"] {
        set.number(&[name])?;
    }
    let alpha = set.number(&["alpha"])?.ok_or_else(|| Error::format(t.path, "dynamic rope without alpha"))?;
    t.set("rope.scaling.alpha", Some(alpha));
    Ok(true)
}
