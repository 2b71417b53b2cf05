//! Qwen: dense, MoE, vision-language, and hybrid with gated delta nets.

use super::common::{EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, STACKED_EXPERTS};
use crate::error::{Result, try_vec};
use crate::format::hf::rope::head_dim;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Key, Translator, WIDTH, signed};
use crate::format::json::Json;

const QWEN: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e4 use_sliding_window=0 max_window_layers=28 norm_topk_prob=0",
    ..PLAIN
};

/// The text part of vision-language models.
const QWEN_VL: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e6 use_sliding_window=0 norm_topk_prob=1",
    sections: |t, _, pairs| Ok(pairs == Some(head_dim(t)? / 2)),
    ..PLAIN
};

/// Hybrids with gated delta nets.
const QWEN_DELTA: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e4 partial_rotary_factor=0.25 head_dim=256 full_attention_interval=4 \
               linear_conv_kernel_dim=4 linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16 \
               linear_num_value_heads=32",
    effectless: "mamba_ssm_dtype mtp_use_dedicated_embeddings use_sliding_window",
    extras: delta_nets,
    windows: |_| Ok(()),
    post_norms: true,
    norms_less_one: true,
    ..PLAIN
};

const QWEN_3_5: Family = Family { sections: |_, interleaved, _| Ok(interleaved == Some(true)), ..QWEN_DELTA };

const SHARED: &[Key] = &[("expert_shared_feed_forward_length", Int, &["shared_expert_intermediate_size"])];
const STREAMS: &[Key] =
    &[("hyper_connection.count", Int, &["hc_count"]), ("hyper_connection.low_rank", Int, &["hc_lowrank"])];
const QWEN_4_NAMES: &[(&str, &str)] = &[
    ("hyper_connection_mixer.hc_norm", "output_hc_norm"),
    ("hyper_connection_mixer.input_mix_weight_down", "output_hc_down"),
    ("hyper_connection_mixer.input_mix_weight_up", "output_hc_up"),
    ("attn_hyper_connection.hc_norm", "hc_attn_norm"),
    ("attn_hyper_connection.input_mix_weight_down", "hc_attn_down"),
    ("attn_hyper_connection.input_mix_weight_up", "hc_attn_up"),
    ("attn_hyper_connection.block_inject_weight", "hc_attn_inject"),
    ("mlp_hyper_connection.hc_norm", "hc_ffn_norm"),
    ("mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down"),
    ("mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up"),
    ("mlp_hyper_connection.block_inject_weight", "hc_ffn_inject"),
    ("self_attn.indexer.index_qk_proj", "indexer.qk_proj"),
    ("self_attn.indexer.q_layernorm", "indexer.q_norm"),
    ("self_attn.indexer.k_layernorm", "indexer.k_norm"),
    ("ple.key_proj", "ple_key"),
    ("ple.value_proj", "ple_value"),
    ("ple.norm_key", "ple_norm_key"),
    ("ple.norm_query", "ple_norm_query"),
    ("ple.norm_conv", "ple_norm_conv"),
    ("ple.conv1d", "ple_conv1d"),
    ("ple.ple_embedding.ngram_embedding.shard_*", "/per_layer_token_embd"),
    ("ple.ple_embedding.layer_multipliers", "/key:ple.layer_multipliers"),
    ("ple.ple_embedding.ngram_heads_offsets", "/key:ple.head_offsets"),
    ("ple.ple_embedding.ngram_heads_vocab_sizes", "/key:ple.head_vocab_sizes"),
];
/// Keys that declare MoE layers: here layers with a router are.
const TOLD_BY_TENSORS: &str = "mlp_only_layers decoder_sparse_step";
const MIXTURE: &[&[Key]] = &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM];

pub const ALL: &[Family] = &[
    Family { model_types: &["qwen2", "dots_ocr"], arch: "qwen2", ..QWEN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..QWEN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", keys: MIXTURE, effectless: TOLD_BY_TENSORS, ..QWEN },
    Family {
        model_types: &["qwen2_moe"],
        arch: "qwen2moe",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, SHARED],
        effectless: TOLD_BY_TENSORS,
        ..QWEN
    },
    Family {
        model_types: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text"],
        arch: "qwen2vl",
        epsilon: 1e-5,
        sections: |t, interleaved, pairs| Ok(interleaved != Some(true) && pairs == Some(head_dim(t)? / 2)),
        own_rope: |_, _, kind| Ok(kind == "mrope"),
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_vl", "qwen3_vl_text"],
        arch: "qwen3vl",
        defaults: "rope_theta=5e6 head_dim=128",
        extras: deepstack,
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
        arch: "qwen3vlmoe",
        keys: MIXTURE,
        effectless: TOLD_BY_TENSORS,
        defaults: "rope_theta=5e6 head_dim=128 norm_topk_prob=1",
        extras: deepstack,
        transposed: STACKED_EXPERTS,
        either_way: true,
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_omni_moe_text"],
        arch: "qwen3vlmoe",
        keys: MIXTURE,
        // There are no shared experts, whatever their declared width.
        effectless: "mlp_only_layers decoder_sparse_step shared_expert_intermediate_size use_qk_norm",
        defaults: "rope_theta=1e6 norm_topk_prob=1 use_sliding_window=0",
        extras: deepstack,
        transposed: STACKED_EXPERTS,
        either_way: true,
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_next"],
        arch: "qwen3next",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, SHARED],
        ..QWEN_DELTA
    },
    Family { model_types: &["qwen3_5", "qwen3_5_text"], arch: "qwen35", ..QWEN_3_5 },
    Family {
        model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
        arch: "qwen35moe",
        keys: &[EXPERTS, EXPERT_WIDTH, SHARED],
        ..QWEN_3_5
    },
    Family {
        model_types: &["qwen4_exp", "qwen4_exp_text"],
        arch: "qwen4exp",
        keys: &[EXPERTS, EXPERT_WIDTH, SHARED, STREAMS],
        // The tensors determine the sizes and multipliers of the n-gram tables.
        effectless: "mamba_ssm_dtype mtp_use_dedicated_embeddings mtp_num_hidden_layers seed split_ngram_parts \
                     ngram_vocab_size_base make_ngram_vocab_size_divisible_by number_of_conv_states",
        extras: qwen_4,
        names: &[QWEN_4_NAMES],
        ..QWEN_3_5
    },
];

/// Qwen 3 VL: the number of DeepStack layers, from the encoder's configuration.
fn deepstack(t: &mut Translator) -> Result<()> {
    let vision = t.config.find(&["vision_config"]).map(|(_, vision)| vision);
    let layers = vision.and_then(|vision| vision.get("deepstack_visual_indexes")?.as_array());
    t.set("n_deepstack_layers", layers.map(|layers| layers.len() as u64));
    Ok(())
}

/// Sets 1 for recurrent layers, 0 for others.
fn recurrent_layers(t: &mut Translator, layers: impl ExactSizeIterator<Item = bool>) -> Result<()> {
    let mut list = try_vec("layers", layers.len())?;
    list.extend(layers.map(i64::from));
    // A list of zeros would read as unset.
    if !list.contains(&1) {
        t.set("full_attention_interval", Some(1u64));
    }
    t.set("attention.recurrent_layers", Some(list));
    Ok(())
}

/// Qwen 3 Next and Qwen 3.5.
fn delta_nets(t: &mut Translator) -> Result<()> {
    delta_nets_among(t, &["full_attention", "linear_attention"])
}

/// Qwen 3.8: attention to pools of positions, and an n-gram embedding in one layer.
fn qwen_4(t: &mut Translator) -> Result<()> {
    delta_nets_among(t, &["full_attention", "linear_attention", "indexed_attention"])?;
    t.facts.n_predicting = 0;
    t.expect("norm_topk_prob", true)?;
    if t.config.text(&["output_gate_type"])? != Some("sigmoid") {
        return Err(t.config.unsupported("an \"output_gate_type\" other than \"sigmoid\""));
    }
    if let Some(size) = t.int(&["indexer_compress_ratio"])? {
        for (key, name) in [
            ("attention.indexer.head_count", "indexer_n_heads"),
            ("attention.indexer.key_length", "indexer_head_dim"),
            ("attention.indexer.top_k", "indexer_budget"),
        ] {
            t.set(key, t.int(&[name])?);
        }
        if t.int(&["indexer_kv_heads"])? != Some(1) {
            return Err(t.config.unsupported("\"indexer_kv_heads\" other than 1"));
        }
        let n = usize::try_from(t.n_layers()?).unwrap_or(0);
        t.set("attention.compress_ratios", Some(vec![signed(size); n]));
    }
    let layers = t.config.list(&["ple_layer_ids"])?.unwrap_or_default();
    let [of_ids, each, taps] = ["ngram_size", "heads_per_ngram", "ple_conv_kernel_size"].map(|name| t.int(&[name]));
    let (of_ids, each, taps, width) = (of_ids?, each?, taps?, t.int(&["ple_embed_dim"])?.or(t.int(WIDTH)?));
    // Layers are numbered from 1.
    let layers: Option<Vec<i64>> = layers.iter().map(|id| Some(signed(id.as_u64()?.checked_sub(1)?))).collect();
    let layers = layers.ok_or_else(|| t.config.wrong("ple_layer_ids", "numbers of layers"))?;
    if layers.is_empty() {
        return Ok(());
    }
    let heads = of_ids.and_then(|n| n.checked_sub(1)).zip(each).and_then(|(n, each)| n.checked_mul(each));
    let end =
        t.config.find(&["eos_token_id"]).map(|(_, ids)| ids.as_array().and_then(|ids| ids.first()).unwrap_or(ids));
    t.set("ple.layers", Some(layers));
    t.set("ple.ngram_size", of_ids);
    t.set("ple.heads_per_ngram", each);
    t.set("ple.conv_kernel", taps);
    t.set("ple.eos_token_id", end.and_then(Json::as_u64));
    t.set("embedding_length_per_layer_input", width.and_then(|width| width.checked_div(heads?)));
    Ok(())
}

/// Gated delta nets, and attention in each fourth layer. `kinds`: of layers; the second one is a delta net.
fn delta_nets_among(t: &mut Translator, kinds: &[&str]) -> Result<()> {
    // Folders of Qwen 3 Next have one such layer without declaring it.
    t.facts.n_predicting = t.int(&["mtp_num_hidden_layers"])?.unwrap_or(1);
    let interval = t.size("full_attention_interval")?;
    match t.layers("layer_types", kinds)? {
        Some(kinds) => recurrent_layers(t, kinds.into_iter().map(|kind| kind == 1))?,
        None => {
            let n = usize::try_from(t.n_layers()?).unwrap_or(0);
            recurrent_layers(t, (0..n).map(|i| !(i as u64 + 1).is_multiple_of(interval)))?;
        }
    }
    let [heads, key_heads] = [t.size("linear_num_value_heads")?, t.size("linear_num_key_heads")?];
    let width = t.size("linear_key_head_dim")?;
    if t.size("linear_value_head_dim")? != width {
        return Err(t.config.unsupported("a \"linear_value_head_dim\" other than \"linear_key_head_dim\""));
    }
    t.set("ssm.conv_kernel", t.int(&["linear_conv_kernel_dim"])?);
    t.set("ssm.inner_size", heads.checked_mul(width));
    t.set("ssm.state_size", Some(width));
    t.set("ssm.time_step_rank", Some(heads));
    t.set("ssm.group_count", Some(key_heads));
    t.expect("attn_output_gate", true)
}
