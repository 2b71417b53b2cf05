//! DeepSeek, and families with its MLA or with the router of its third generation.

use super::common::{DENSE_FIRST, EXPERT_GROUPS, EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, ROUTED};
use crate::error::{Result, try_vec};
use crate::format::Value;
use crate::format::hf::members::Members;
use crate::format::hf::rope::head_dim;
use crate::format::hf::translator::KeyType::{Bool, Int, Number};
use crate::format::hf::translator::{Family, HEADS, Key, LAYERS, Translator, WIDTH, signed};
use crate::format::hf::{known, rope};
use crate::format::json::Json;
use crate::format::value::whole;

/// MLA. Checkpoints of the second generation, and by default of the third, have adjacent RoPE pairs.
const LATENT: Family = Family {
    arch: "deepseek2",
    epsilon: 1e-6,
    keys: &[EXPERTS, EXPERT_WIDTH, ROUTED, DENSE_FIRST],
    effectless: "ep_size aux_loss_alpha seq_aux mlp_layer_types",
    adjacent: true,
    ..PLAIN
};

const THIRD: Family = Family {
    keys: GROUPED,
    defaults: "rope_theta=1e4 kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128 \
               norm_topk_prob=1",
    extras: third,
    ..LATENT
};

/// Experts in groups, selected by the sigmoid of a score plus a bias.
const GROUPED: &[&[Key]] = &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST];

/// A lightning indexer.
pub const INDEXER: &[Key] = &[
    ("attention.indexer.head_count", Int, &["index_n_heads"]),
    ("attention.indexer.key_length", Int, &["index_head_dim"]),
    ("attention.indexer.top_k", Int, &["index_topk"]),
];

/// Values of `indexer_types`: layers with an earlier layer's indexer, and with their own.
pub const INDEXER_TYPES: &[&str] = &["shared", "full"];

const INDEXED: Family =
    Family { keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, INDEXER], ..THIRD };

/// Ling 2 and later.
const LING: Family = Family {
    arch: "bailingmoe2",
    epsilon: 1e-6,
    keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, SHARED_COUNT],
    defaults: "rope_theta=1e4 norm_topk_prob=1 routed_scaling_factor=2.5 n_group=8 topk_group=4 use_sliding_window=0",
    // The tensors determine biases, and the width of the shared expert.
    effectless: "use_bias use_qkv_bias use_rmsnorm moe_router_enable_expert_bias mlp_layer_types router_dtype \
                 moe_shared_expert_intermediate_size",
    extras: |t| {
        t.expect("use_qk_norm", true)?;
        t.expect("norm_head", false)?;
        t.expect("norm_softmax", false)?;
        t.expect_text("score_function", &["sigmoid"])?;
        sigmoid_router(t, &["sigmoid"])
    },
    names: &[&[
        ("attention.query_layernorm", "attn_q_norm"),
        ("attention.key_layernorm", "attn_k_norm"),
        ("mlp.gate.expert_bias", "exp_probs_b.bias"),
    ]],
    ..PLAIN
};

const MINICPM_SCALE: &[Key] = &[("embedding_scale", Number, &["scale_emb"])];

const SHARED_COUNT: &[Key] = &[("expert_shared_count", Int, &["num_shared_experts"])];
const TRINITY: &[Key] = &[
    ("expert_weights_norm", Bool, &["route_norm"]),
    ("expert_weights_scale", Number, &["route_scale"]),
    ("leading_dense_block_count", Int, &["num_dense_layers"]),
];
const TRINITY_NAMES: &[(&str, &str)] = &[
    ("self_attn.gate_proj", "attn_gate"),
    ("pre_mlp_layernorm", "ffn_norm"),
    ("mlp.router.gate", "ffn_gate_inp"),
    ("mlp.expert_bias", "exp_probs_b.bias"),
];

const MINIMAX_3_NAMES: &[(&str, &str)] = &[
    ("self_attn.index_q_proj", "indexer.q_proj"),
    ("self_attn.index_k_proj", "indexer.k_proj"),
    ("self_attn.index_q_norm", "indexer.q_norm"),
    ("self_attn.index_k_norm", "indexer.k_norm"),
];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["deepseek"],
        arch: "deepseek",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM],
        effectless: "first_k_dense_replace n_shared_experts aux_loss_alpha seq_aux use_qk_norm",
        extras: first,
        ..PLAIN
    },
    Family {
        model_types: &["deepseek_v2"],
        defaults: "rope_theta=1e4 kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128 \
                   routed_scaling_factor=1",
        extras: second,
        ..LATENT
    },
    Family { model_types: &["deepseek_v3", "kimi_k2", "kimi_vl", "kimi_k25"], ..THIRD },
    Family {
        model_types: &["mistral4"],
        arch: "mistral4",
        defaults: "rope_theta=1e4 kv_lora_rank=256 qk_nope_head_dim=64 qk_rope_head_dim=64 v_head_dim=128 \
                   norm_topk_prob=1",
        effectless: "head_dim qk_head_dim",
        extras: mistral_4,
        growing_queries: true,
        ..THIRD
    },
    // Dense in all layers.
    Family {
        model_types: &["youtu"],
        keys: &[],
        extras: attention,
        effectless: "embedding_initializer_range",
        ..THIRD
    },
    Family {
        model_types: &["deepseek_v32"],
        arch: "deepseek32",
        extras: |t| {
            t.expect("indexer_rope_interleave", false)?;
            third(t)
        },
        ..INDEXED
    },
    Family {
        model_types: &["glm_moe_dsa"],
        arch: "glm-dsa",
        epsilon: 1e-5,
        extras: |t| {
            t.expect("indexer_rope_interleave", true)?;
            if let Some(kinds) = t.layers("indexer_types", INDEXER_TYPES)? {
                t.set("attention.indexer.types", Some(kinds.into_iter().map(|own| own as i64).collect::<Vec<_>>()));
            }
            third(t)
        },
        ..INDEXED
    },
    Family {
        model_types: &["dots3_note_text", "dots3_note"],
        arch: "dots3note",
        epsilon: 1e-5,
        defaults: "rope_theta=8e7 swa_rope_theta=5e4 kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 \
                   v_head_dim=128 norm_topk_prob=1",
        effectless: "head_dim qk_head_dim mlp_layer_types moe_layer_freq use_dsa use_sliding_window \
                     moe_shared_expert_intermediate_size shared_experts_intermediate_size",
        extras: dots_note,
        windows: |_| Ok(()),
        rope: dots_note_rope,
        scaled_ranks: true,
        names: &[&[("self_attn.k_rope_only_layernorm", "attn_k_norm"), ("self_attn.g_proj", "attn_gate")]],
        ..INDEXED
    },
    Family {
        model_types: &["axk1"],
        extras: |t| {
            t.set("post_norms", Some(true));
            third(t)
        },
        ..THIRD
    },
    Family {
        model_types: &["sarvam_mla"],
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, SHARED_COUNT],
        // Widths follow from others; the authors' key describes a cache.
        effectless: "mlp_layer_types head_dim q_head_dim qk_head_dim",
        extras: |t| {
            latent_attention(t)?;
            predicting_layers(t)?;
            sigmoid_router(t, &["sigmoid"])
        },
        ..THIRD
    },
    Family { model_types: &["glm4_moe_lite"], epsilon: 1e-5, ..THIRD },
    Family {
        model_types: &["glm4_moe"],
        arch: "glm4moe",
        keys: GROUPED,
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 norm_topk_prob=1",
        effectless: "use_qk_norm",
        extras: |t| {
            predicting_layers(t)?;
            sigmoid_router(t, &["sigmoid"])
        },
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["solar_open"],
        arch: "glm4moe",
        keys: GROUPED,
        defaults: "rope_theta=1e6 head_dim=128 norm_topk_prob=1",
        extras: |t| sigmoid_router(t, &["sigmoid"]),
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm4v_moe", "glm4v_moe_text"],
        arch: "glm4moe",
        keys: GROUPED,
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 norm_topk_prob=1",
        effectless: "use_qk_norm",
        extras: |t| sigmoid_router(t, &["sigmoid"]),
        sections: |t, interleaved, pairs| Ok(interleaved != Some(true) && pairs == Some(head_dim(t)? / 4)),
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["dots1"],
        arch: "dots1",
        epsilon: 1e-6,
        keys: GROUPED,
        defaults: "rope_theta=1e4 max_window_layers=62",
        effectless: "use_qk_norm",
        // The reference implementation computes sigmoids, whatever published configurations say.
        extras: |t| sigmoid_router(t, &["sigmoid", "noaux_tc"]),
        ..PLAIN
    },
    Family {
        model_types: &["sarvam_moe"],
        defaults: "rope_theta=8e6 head_dim=64 num_key_value_heads=4 norm_topk_prob=1 routed_scaling_factor=2.5",
        ..LING
    },
    Family { model_types: &["bailing_moe_v2"], ..LING },
    Family {
        model_types: &["minimax_m2"],
        arch: "minimax-m2",
        epsilon: 1e-6,
        keys: &[EXPERTS],
        effectless: "mtp_transformer_layers num_mtp_modules use_mtp",
        extras: minimax,
        ..PLAIN
    },
    Family {
        model_types: &["minimax_m3_vl", "minimax_m3_vl_text"],
        arch: "minimax-m3",
        activations: &["swigluoai", "silu"],
        epsilon: 1e-6,
        keys: &[EXPERTS, ROUTED],
        defaults: "rope_theta=5e6 rotary_dim=64 routed_scaling_factor=2 dense_intermediate_size=12288",
        effectless: "mtp_transformer_layers num_mtp_modules merged_hidden_size shared_intermediate_size",
        extras: minimax_3,
        windows: |_| Ok(()),
        norms_less_one: true,
        names: &[MINIMAX_3_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["exaone_moe"],
        arch: "exaone-moe",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, SHARED_COUNT, ROUTED, EXPERT_GROUPS, DENSE_FIRST],
        defaults: "rope_theta=1e4 norm_topk_prob=1 routed_scaling_factor=2.5",
        effectless: "mlp_layer_types",
        extras: |t| sigmoid_router(t, &["sigmoid"]),
        windows: three_of_four,
        names: &[&[("mlp.e_score_correction_bias", "exp_probs_b.bias")]],
        ..PLAIN
    },
    Family {
        model_types: &["afmoe"],
        arch: "afmoe",
        keys: &[EXPERTS, EXPERT_WIDTH, SHARED_COUNT, TRINITY],
        defaults: "rope_theta=1e4 route_norm=1 route_scale=1 num_dense_layers=1 mup_enabled=0",
        effectless: "load_balance_coeff use_grouped_mm",
        extras: trinity,
        windows: three_of_four,
        post_norms: true,
        names: &[TRINITY_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["minicpm"],
        arch: "minicpm",
        epsilon: 1e-6,
        keys: &[MINICPM_SCALE],
        extras: minicpm,
        ..PLAIN
    },
    Family {
        model_types: &["minicpm3"],
        arch: "minicpm3",
        epsilon: 1e-5,
        keys: &[MINICPM_SCALE],
        defaults: "rope_theta=1e4 kv_lora_rank=256 qk_nope_head_dim=64 qk_rope_head_dim=32 scale_emb=12 \
                   scale_depth=1.4 dim_model_base=256",
        extras: |t| {
            minicpm(t)?;
            attention(t)
        },
        adjacent: false,
        ..LATENT
    },
];

fn first(t: &mut Translator) -> Result<()> {
    t.expect_text("scoring_func", &["softmax"])?;
    t.expect_text("topk_method", &["greedy"])
}

pub fn sigmoid_router(t: &mut Translator, names: &[&str]) -> Result<()> {
    t.expect_text("scoring_func", names)?;
    t.set("expert_gating_func", Some(2));
    Ok(())
}

fn minimax(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    t.expect("use_routing_bias", true)?;
    t.expect_text("qk_norm_type", &["per_layer"])?;
    t.expect("use_qk_norm", true)?;
    for name in ["shared_intermediate_size", "shared_moe_mode"] {
        if let Some((_, value)) = t.config.find(&[name])
            && value.as_u64() != Some(0)
            && value.as_str() != Some("sigmoid")
        {
            return Err(t.config.unsupported(&format!("{name:?} with the value {value}")));
        }
    }
    let kinds = t.config.list(&["attn_type_list"])?.unwrap_or_default();
    if kinds.iter().any(|kind| kind.as_u64() != Some(1)) {
        return Err(t.config.unsupported("\"attn_type_list\" with other values than 1"));
    }
    Ok(())
}

/// Trinity, without expert groups.
fn trinity(t: &mut Translator) -> Result<()> {
    t.expect_text("score_func", &["sigmoid"])?;
    t.set("expert_gating_func", Some(2u64));
    if t.bool(&["mup_enabled"])? != Some(true) {
        return Err(t.config.unsupported("\"mup_enabled\" other than true"));
    }
    for name in ["n_group", "topk_group", "num_expert_groups", "num_limited_groups"] {
        if t.int(&[name])?.is_some_and(|groups| groups != 1) {
            return Err(t.config.unsupported(&format!("{name:?} other than 1")));
        }
    }
    Ok(())
}

/// Sets the window of networks that have it in three of four layers.
fn three_of_four(t: &mut Translator) -> Result<()> {
    if let Some((name, pattern)) = t.config.find(&["sliding_window_pattern", "global_attn_every_n_layers"])
        && pattern.as_str() != Some("LLLG")
        && pattern.as_u64() != Some(4)
    {
        return Err(t.config.unsupported(&format!("{name:?} with the value {pattern}")));
    }
    let kinds = t.layers("layer_types", &["full_attention", "sliding_attention"])?.unwrap_or_default();
    if kinds.iter().zip(1usize..).any(|(kind, i)| (*kind == 1) == i.is_multiple_of(4)) {
        return Err(t.config.unsupported("\"layer_types\" other than a window in three layers of four"));
    }
    let window = t.size("sliding_window")?;
    t.set("attention.sliding_window", Some(window));
    Ok(())
}

/// The third generation: dense layers, then MoE layers whose KV heads select blocks of positions.
fn minimax_3(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    t.expect("use_routing_bias", true)?;
    t.expect_text("qk_norm_type", &["per_head"])?;
    t.expect("use_qk_norm", true)?;
    t.expect("use_gemma_norm", true)?;
    t.set("expert_weights_norm", Some(true));
    let width = t.size("head_dim")? as f64;
    let rope_dims = t.number(&["partial_rotary_factor"])?.map(|part| part * width);
    if rope_dims.is_some_and(|rope_dims| whole(rope_dims) != t.int(&["rotary_dim"]).ok().flatten()) {
        return Err(t.config.unsupported("a \"partial_rotary_factor\" other than \"rotary_dim\" / \"head_dim\""));
    }
    let width = t.size("intermediate_size")?;
    t.set("expert_feed_forward_length", Some(width));
    let width = t.size("dense_intermediate_size")?;
    t.replace("feed_forward_length", Some(width));
    let part = t.part("sparse_attention_config");
    for (key, name, outer) in [
        ("head_count", "sparse_num_index_heads", "index_n_heads"),
        ("key_length", "sparse_index_dim", "index_head_dim"),
        ("block_size", "sparse_block_size", "index_block_size"),
        ("top_k", "sparse_topk_blocks", "index_topk_blocks"),
        ("local_blocks", "sparse_local_block", "index_local_blocks"),
    ] {
        let outer = t.config.int(&[outer])?;
        t.set(&format!("attention.indexer.{key}"), part.int(&[name])?.or(outer));
    }
    let sparse = match part.list(&["sparse_attention_freq"])? {
        Some(list) => Some(list.iter().map(|layer| usize::from(layer.as_u64() == Some(1))).collect()),
        None => t.layers("layer_types", &["full_attention", "minimax_m3_sparse"])?,
    };
    if part.bool(&["use_sparse_attention"])? == Some(false) {
        return Err(t.config.unsupported("\"use_sparse_attention\" with the value false"));
    }
    known::check(&part, "", &t.passed)?;
    // The tensors determine which layers have experts.
    t.config.skip(&["moe_layer_freq", "mlp_layer_types", "layer_types"]);
    let sparse = sparse.filter(|layers| layers.is_sorted() && layers.len() as u64 == t.n_layers().unwrap_or(0));
    let Some(sparse) = sparse else {
        return Err(t.config.unsupported("\"sparse_attention_freq\" other than 0 in the first layers and 1 behind"));
    };
    t.set("leading_dense_block_count", Some(sparse.iter().filter(|layer| **layer == 0).count() as u64));
    Ok(())
}

/// MTP layers after the trunk.
fn predicting_layers(t: &mut Translator) -> Result<()> {
    t.facts.n_predicting = t.int(&["num_nextn_predict_layers"])?.unwrap_or(0);
    Ok(())
}

/// `latent_attention` for configurations some of which repeat head widths under other names.
fn attention(t: &mut Translator) -> Result<()> {
    latent_attention(t)?;
    let [still, rope_dims] = [t.size("qk_nope_head_dim")?, t.size("qk_rope_head_dim")?];
    for (name, width) in [("head_dim", rope_dims), ("qk_head_dim", still + rope_dims)] {
        if let Some(declared) = t.config.int(&[name])?
            && declared != width
        {
            return Err(t.config.unsupported(&format!("{name:?} with the value {declared}")));
        }
    }
    Ok(())
}

/// Sets the widths of heads, and of the latent vectors of queries and of keys and values.
pub fn latent_attention(t: &mut Translator) -> Result<()> {
    let rank = t.size("kv_lora_rank")?;
    // A network without RoPE may have no rotated part.
    let rope_dims = match t.int(&["qk_rope_head_dim"])? {
        Some(0) => 0,
        _ => t.size("qk_rope_head_dim")?,
    };
    let still = t.size("qk_nope_head_dim")?;
    let value_dim = match t.int(&["v_head_dim"])? {
        Some(_) => t.size("v_head_dim")?,
        // The width by the number of heads.
        None => t.int(WIDTH)?.unwrap_or(0).checked_div(t.int(HEADS)?.unwrap_or(0)).unwrap_or(0),
    };
    t.facts.latent = [still, value_dim];
    t.set("attention.kv_lora_rank", Some(rank));
    t.set("attention.q_lora_rank", t.config.int(&["q_lora_rank"])?);
    t.set("attention.key_length_mla", Some(still + rope_dims));
    t.set("attention.value_length_mla", Some(value_dim));
    // Widths and heads as stored in the KV cache.
    t.replace("attention.key_length", Some(rank + rope_dims));
    t.replace("attention.value_length", Some(rank));
    t.replace("attention.head_count_kv", Some(1u64));
    t.set("rope.dimension_count", Some(rope_dims));
    if t.config.bool(&["rope_interleave"])? == Some(false) {
        t.keys.retain(|(key, _)| key != "realizar.rope_halves");
        t.keys.push(("realizar.rope_halves".into(), true.into()));
    }
    Ok(())
}

/// The router of the second generation has no bias in addition to the score.
fn second(t: &mut Translator) -> Result<()> {
    attention(t)?;
    predicting_layers(t)?;
    t.expect_text("scoring_func", &["softmax"])?;
    t.set("expert_gating_func", Some(1u64));
    let groups = [t.int(&["n_group"])?, t.int(&["topk_group"])?];
    t.expect("norm_topk_prob", false)?;
    if t.config.text(&["topk_method"])? != Some("group_limited_greedy") {
        return t.expect_text("topk_method", &["greedy"]);
    }
    // Its groups are ranked by their best expert.
    match groups[0] == groups[1] {
        true => Ok(()),
        false => Err(t.config.unsupported("\"topk_method\" with the value \"group_limited_greedy\"")),
    }
}

/// Queries scaled by the logarithm of their position relative to the trained context.
fn mistral_4(t: &mut Translator) -> Result<()> {
    latent_attention(t)?;
    t.set("expert_gating_func", Some(1u64));
    let period = t.part("rope_parameters").int(&["original_max_position_embeddings"])?;
    t.set("attention.temperature_length", period);
    Ok(())
}

fn third(t: &mut Translator) -> Result<()> {
    attention(t)?;
    predicting_layers(t)?;
    sigmoid_router(t, &["sigmoid"])
}

const DOTS_KINDS: &[&str] = &["indexed_attention", "full_attention", "sliding_attention"];

/// dots3 note: sliding-window layers have heads and widths of their own, the others an indexer.
fn dots_note(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    latent_attention(t)?;
    let kinds = t.layers("layer_types", DOTS_KINDS)?;
    let kinds = kinds.ok_or_else(|| t.config.wrong("layer_types", "given"))?;
    if t.config.bool(&["use_dsa"])? == Some(false) {
        return Err(t.config.unsupported("\"use_dsa\" with the value false"));
    }
    let windowed: Vec<bool> = kinds.iter().map(|kind| *kind == 2).collect();
    let nothing = Json::Null;
    // A saved configuration repeats one object per layer for all sliding-window layers.
    let sets = t.config.find(&["per_layer_config"]).map_or(&nothing, |(_, sets)| sets);
    let mut of_layers = sets.members().iter().map(|(_, set)| set);
    let set = of_layers.next().unwrap_or(&nothing);
    let is_saved = set != &nothing;
    if of_layers.any(|other| other != set) {
        return Err(t.config.unsupported("\"per_layer_config\" other than one set for all layers with a window"));
    }
    let set = Members::new(t.path, set, &nothing);
    // A saved object omits what is common to all layers.
    let own = |name: &str, default: u64| -> Result<u64> {
        let common = if is_saved { t.int(&[name])? } else { None };
        let outer = t.config.int(&[&format!("swa_{name}")])?;
        Ok(set.int(&[name])?.or(outer).or(common).unwrap_or(default))
    };
    let (rank, still, values) = (own("kv_lora_rank", 1024)?, own("qk_nope_head_dim", 192)?, own("v_head_dim", 128)?);
    let (width, heads) = (own("head_dim", 256)?, own("num_attention_heads", 64)?);
    let kv_heads = own("num_key_value_heads", heads)?;
    let rope_dims = own("qk_rope_head_dim", width.saturating_sub(still))?;
    let (query_rank, common_query) = (own("q_lora_rank", 1024)?, t.int(&["q_lora_rank"])?.unwrap_or(1024));
    let common_rank = t.int(&["kv_lora_rank"])?;
    known::check(&set, "", &t.passed)?;
    let is_known = Some(rope_dims) == t.int(&["qk_rope_head_dim"])? && query_rank == common_query && kv_heads == heads;
    if !is_known || Some(rank) == common_rank && t.facts.latent != [still, values] {
        return Err(t.config.unsupported("widths of layers with a window, of what turns or of narrow vectors,"));
    }
    let common = t.size("num_attention_heads")?;
    let mut list = try_vec("layers", windowed.len())?;
    list.extend(windowed.iter().map(|windowed| signed(if *windowed { heads } else { common })));
    t.facts.windowed_latent = [rank, still, values];
    t.replace("attention.head_count", Some(list));
    t.set("attention.kv_lora_rank_swa", Some(rank));
    t.set("attention.key_length_mla_swa", Some(still + rope_dims));
    t.set("attention.value_length_mla_swa", Some(values));
    t.set("attention.sliding_window", t.int(&["sliding_window", "sliding_window_size"])?.or(Some(512)));
    t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
    Ok(())
}

/// A RoPE base per kind of layer.
fn dots_note_rope(t: &mut Translator) -> Result<()> {
    let nothing = Json::Null;
    let sets = t.config.find(&["rope_parameters"]).map_or(&nothing, |(_, sets)| sets);
    let outer = [t.number(&["rope_theta"])?, t.number(&["swa_rope_theta"])?];
    for ((key, kind), outer) in
        [("rope.freq_base", "indexed_attention"), ("rope.freq_base_swa", "sliding_attention")].into_iter().zip(outer)
    {
        let set = Members::new(t.path, sets.get(kind).unwrap_or(&nothing), &nothing);
        if rope::kind(&set)? != "default" {
            return Err(t.config.unsupported("scaled rope"));
        }
        // The widths determine the rotated part.
        set.skip(&["partial_rotary_factor"]);
        t.set(key, set.number(&["rope_theta"])?.or(outer));
        known::check_rope(&set, &t.passed)?;
    }
    Ok(())
}

fn minicpm(t: &mut Translator) -> Result<()> {
    if t.config.says_null(&["scale_emb", "scale_depth", "dim_model_base"]) {
        return Err(t.config.unsupported("\"scale_emb\", \"scale_depth\" or \"dim_model_base\" with the value null"));
    }
    let layers = t.int(LAYERS)?.unwrap_or(0);
    let depth = t.number(&["scale_depth"])?;
    // Numbers of layers and widths are exact as floats.
    t.set("residual_scale", depth.map(|depth| depth / (layers as f64).sqrt()));
    let base = t.number(&["dim_model_base"])?;
    let width = t.int(WIDTH)?.unwrap_or(0) as f64;
    t.set("logit_scale", base.map(|base| width / base));
    Ok(())
}
