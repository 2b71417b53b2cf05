//! DeepSeek, and the families that have its latent attention or the router of its third generation.

use super::common::{DENSE_FIRST, EXPERT_GROUPS, EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, ROUTED};
use crate::error::Result;
use crate::format::hf::translator::KeyType::{Int, Number};
use crate::format::hf::translator::{Family, HEADS, Key, LAYERS, Translator, WIDTH};

/// Multi-head latent attention. Checkpoints of the second generation have neighbours in rotary pairs, as those of the
/// third unless they say otherwise.
const LATENT: Family = Family {
    arch: "deepseek2",
    epsilon: 1e-6,
    keys: &[EXPERTS, EXPERT_WIDTH, ROUTED, DENSE_FIRST],
    effectless: " ep_size aux_loss_alpha seq_aux mlp_layer_types ",
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

/// Experts in groups, chosen by the sigmoid of a score and a bias beside it.
const GROUPED: &[&[Key]] = &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST];

/// A lightning indexer.
const INDEXER: &[Key] = &[
    ("attention.indexer.head_count", Int, &["index_n_heads"]),
    ("attention.indexer.key_length", Int, &["index_head_dim"]),
    ("attention.indexer.top_k", Int, &["index_topk"]),
];

const INDEXED: Family =
    Family { keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, INDEXER], ..THIRD };

const MINICPM_SCALE: &[Key] = &[("embedding_scale", Number, &["scale_emb"])];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["deepseek"],
        arch: "deepseek",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM],
        effectless: " first_k_dense_replace n_shared_experts aux_loss_alpha seq_aux use_qk_norm ",
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
    Family { model_types: &["deepseek_v3", "kimi_k2"], ..THIRD },
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
            if let Some(kinds) = t.layers("indexer_types", &["shared", "full"])? {
                t.set("attention.indexer.types", Some(kinds.into_iter().map(|own| own as i64).collect::<Vec<_>>()));
            }
            third(t)
        },
        ..INDEXED
    },
    Family { model_types: &["glm4_moe_lite"], epsilon: 1e-5, ..THIRD },
    Family {
        model_types: &["glm4_moe"],
        arch: "glm4moe",
        keys: GROUPED,
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 norm_topk_prob=1",
        effectless: " use_qk_norm ",
        extras: |t| {
            predicting_layers(t)?;
            sigmoid_router(t, &["sigmoid"])
        },
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["dots1"],
        arch: "dots1",
        epsilon: 1e-6,
        keys: GROUPED,
        defaults: "rope_theta=1e4 max_window_layers=62",
        effectless: " use_qk_norm ",
        // The owner's code computes sigmoids, whatever the published configurations call them.
        extras: |t| sigmoid_router(t, &["sigmoid", "noaux_tc"]),
        ..PLAIN
    },
    Family {
        model_types: &["minimax_m2"],
        arch: "minimax-m2",
        epsilon: 1e-6,
        keys: &[EXPERTS],
        effectless: " mtp_transformer_layers num_mtp_modules use_mtp ",
        extras: minimax,
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

fn sigmoid_router(t: &mut Translator, names: &[&str]) -> Result<()> {
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

/// Layers after the trunk, which predict further tokens.
fn predicting_layers(t: &mut Translator) -> Result<()> {
    t.facts.n_predicting = t.int(&["num_nextn_predict_layers"])?.unwrap_or(0);
    Ok(())
}

/// Sets the widths of heads and of the vectors that queries, and keys and values, are made of.
fn attention(t: &mut Translator) -> Result<()> {
    let rank = t.size("kv_lora_rank")?;
    let [still, turning] = [t.size("qk_nope_head_dim")?, t.size("qk_rope_head_dim")?];
    let value_dim = match t.int(&["v_head_dim"])? {
        Some(_) => t.size("v_head_dim")?,
        // That of a head by the number of heads.
        None => t.int(WIDTH)?.unwrap_or(0).checked_div(t.int(HEADS)?.unwrap_or(0)).unwrap_or(0),
    };
    t.facts.latent = [still, value_dim];
    // Some configurations repeat widths of heads under other names.
    for (name, width) in [("head_dim", turning), ("qk_head_dim", still + turning)] {
        match t.config.int(&[name])? {
            Some(told) if told != width => {
                return Err(t.config.unsupported(&format!("{name:?} with the value {told}")));
            }
            _ => {}
        }
    }
    t.set("attention.kv_lora_rank", Some(rank));
    t.set("attention.q_lora_rank", t.config.int(&["q_lora_rank"])?);
    t.set("attention.key_length_mla", Some(still + turning));
    t.set("attention.value_length_mla", Some(value_dim));
    // Widths and heads as the cache has them.
    t.replace("attention.key_length", Some(rank + turning));
    t.replace("attention.value_length", Some(rank));
    t.replace("attention.head_count_kv", Some(1u64));
    t.set("rope.dimension_count", Some(turning));
    if t.config.bool(&["rope_interleave"])? == Some(false) {
        t.keys.retain(|(key, _)| key != "realizar.rope_halves");
        t.keys.push(("realizar.rope_halves".into(), true.into()));
    }
    Ok(())
}

/// The router of the second generation has no bias beside the score.
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
    // Its groups are as good as their best expert.
    match groups[0] == groups[1] {
        true => Ok(()),
        false => Err(t.config.unsupported("\"topk_method\" with the value \"group_limited_greedy\"")),
    }
}

fn third(t: &mut Translator) -> Result<()> {
    attention(t)?;
    predicting_layers(t)?;
    sigmoid_router(t, &["sigmoid"])
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
