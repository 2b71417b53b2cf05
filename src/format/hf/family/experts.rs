//! MoE models whose heads, windows or RoPE differ between layers.

use super::common::{EXPERT_GROUPS, EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, ROUTED};
use super::deepseek::sigmoid_router;
use crate::error::{Result, try_vec};
use crate::format::Value;
use crate::format::hf::members::Members;
use crate::format::hf::translator::KeyType::{Int, Number};
use crate::format::hf::translator::{Family, HEADS, Key, Translator, signed};
use crate::format::hf::{known, rope};
use crate::format::json::Json;
use crate::format::value::narrow;

/// The tensors determine which layers have experts.
const TOLD_BY_TENSORS: &str = "mlp_layer_types first_k_dense_replace moe_layer_freq";

const DBRX_NAMES: &[(&str, &str)] = &[
    ("norm_attn_norm.norm_1", "attn_norm"),
    ("norm_attn_norm.norm_2", "attn_output_norm"),
    ("norm_attn_norm.attn.Wqkv", "attn_qkv"),
    ("norm_attn_norm.attn.out_proj", "attn_output"),
    ("ffn.router.layer", "ffn_gate_inp"),
    ("ffn.experts.mlp.w1", "ffn_gate_exps.weight"),
    ("ffn.experts.mlp.v1", "ffn_up_exps.weight"),
    ("ffn.experts.mlp.w2", "ffn_down_exps.weight"),
];

const COHERE: &[Key] = &[("logit_scale", Number, &["logit_scale"])];

const HUNYUAN: &[Key] = &[
    ("expert_shared_count", Int, &["num_shared_experts"]),
    ("expert_weights_scale", Number, &["router_scaling_factor"]),
];

const MIMO: &[Key] = &[("attention.value_scale", Number, &["attention_value_scale"])];

const LAGUNA: &[Key] = &[
    ("expert_weights_scale", Number, &["moe_routed_scaling_factor"]),
    ("expert_shared_feed_forward_length", Int, &["shared_expert_intermediate_size"]),
];

const STEP: &[Key] = &[
    ("expert_used_count", Int, &["moe_top_k", "num_experts_per_tok"]),
    ("expert_count", Int, &["moe_num_experts", "n_routed_experts"]),
    ("expert_weights_scale", Number, &["moe_router_scaling_factor"]),
    ("expert_shared_feed_forward_length", Int, &["share_expert_dim", "share_expert_dims"]),
];
const STEP_NAMES: &[(&str, &str)] = &[
    ("self_attn.g_proj", "attn_gate"),
    ("moe.gate", "ffn_gate_inp"),
    ("moe.router_bias", "exp_probs_b.bias"),
    ("moe.gate_proj", "ffn_gate_exps"),
    ("moe.up_proj", "ffn_up_exps"),
    ("moe.down_proj", "ffn_down_exps"),
    ("share_expert.gate_proj", "ffn_gate_shexp"),
    ("share_expert.up_proj", "ffn_up_shexp"),
    ("share_expert.down_proj", "ffn_down_shexp"),
];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["dbrx"],
        arch: "dbrx",
        fixed_epsilon: true,
        keys: &[&[("context_length", Int, &["max_seq_len"])]],
        defaults: "",
        effectless: "emb_pdrop",
        extras: dbrx,
        rope: |t| {
            t.config.skip(&["rope_parameters"]);
            Ok(())
        },
        transposed: &["ffn_down_exps.weight"],
        names: &[DBRX_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["cohere2_moe"],
        arch: "cohere2moe",
        keys: &[EXPERTS, COHERE],
        defaults: "rope_theta=1e4 head_dim=128 logit_scale=0.0625 num_experts=8 num_experts_per_tok=2",
        extras: cohere2,
        windows: cohere2_windows,
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["hy_v3"],
        arch: "hy_v3",
        keys: &[EXPERTS, EXPERT_WIDTH, HUNYUAN],
        defaults: "rope_theta=11158840 head_dim=128 router_scaling_factor=2.826",
        effectless: "mlp_layer_types first_k_dense_replace enable_moe_fp32_combine enable_lm_head_fp32 \
                     enable_attention_fp32_softmax",
        extras: |t| {
            for name in
                ["qk_norm", "norm_topk_prob", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"]
            {
                t.expect(name, true)?;
            }
            renormalized_sigmoid(t)
        },
        names: &[&[("mlp.router.gate", "ffn_gate_inp"), ("mlp.expert_bias", "exp_probs_b.bias")]],
        ..PLAIN
    },
    Family {
        model_types: &["mimo_v2_flash"],
        arch: "mimo2",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, MIMO],
        defaults: "rope_theta=5e6 swa_rope_theta=1e4 norm_topk_prob=1 v_head_dim=128",
        effectless: TOLD_BY_TENSORS,
        extras: mimo,
        windows: |_| Ok(()),
        rope: |t| {
            rope::translate(t)?;
            let base = t.number(&["swa_rope_theta"])?;
            if t.config.find(&["rope_parameters"]).is_none() {
                t.replace("rope.freq_base_swa", base);
            }
            Ok(())
        },
        windowed_base: true,
        names: &[&[("self_attn.attention_sink_bias", "attn_sinks.weight")]],
        ..PLAIN
    },
    Family {
        model_types: &["laguna"],
        arch: "laguna",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_WIDTH, LAGUNA],
        defaults: "head_dim=128",
        // The tensors determine whether a gate is per head or per value.
        effectless: "mlp_layer_types gating",
        extras: laguna,
        windowed_base: true,
        windowed_part: true,
        names: &[&[("self_attn.g_proj", "attn_gate"), ("mlp.experts.e_score_correction_bias", "exp_probs_b.bias")]],
        ..PLAIN
    },
    Family {
        model_types: &["step3p5", "step3p7"],
        arch: "step35",
        keys: &[EXPERT_WIDTH, STEP],
        defaults: "",
        effectless: "mlp_layer_types moe_layers_enum moe_layer_offset moe_every_n_layer need_fp32_gate att_impl_type \
                     mtp_layer_types mtp_mlp_layer_types num_nextn_predict_layers max_seq_len use_moe yarn_only_types \
                     query_pre_attn_scalar gating",
        extras: step,
        windows: |_| Ok(()),
        rope: step_rope,
        norms_less_one: true,
        names: &[STEP_NAMES],
        ..PLAIN
    },
];

/// Renormalized weights of the selected experts.
fn renormalized_sigmoid(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    t.set("expert_weights_norm", Some(true));
    Ok(())
}

/// Members of nested objects about training, and defaults by transformers.
const OF_DBRX: &str = " attn_pdrop moe_jitter_eps moe_loss_weight model_type hidden_size tie_word_embeddings ";

fn dbrx(t: &mut Translator) -> Result<()> {
    let (attention, ffn) = (t.part("attn_config"), t.part("ffn_config"));
    let kv_heads = attention.int(&["kv_n_heads"])?.or(Some(1));
    t.facts.kv_heads = kv_heads;
    t.replace("attention.head_count_kv", kv_heads);
    t.set("attention.clamp_kqv", attention.number(&["clip_qkv"])?);
    t.set("rope.freq_base", attention.number(&["rope_theta"])?);
    t.set("expert_feed_forward_length", ffn.int(&["ffn_hidden_size"])?);
    t.set("expert_count", ffn.int(&["moe_num_experts"])?);
    t.set("expert_used_count", ffn.int(&["moe_top_k"])?);
    let activation = ffn.find(&["ffn_act_fn"]).and_then(|(_, function)| function.get("name")?.as_str());
    if activation.is_some_and(|name| name != "silu") {
        return Err(t.config.unsupported("\"ffn_act_fn\" other than silu"));
    }
    if ffn.number(&["moe_normalize_expert_weights"])?.is_some_and(|power| power != 1.0) {
        return Err(t.config.unsupported("\"moe_normalize_expert_weights\" other than 1"));
    }
    known::check(&attention, OF_DBRX, &t.passed)?;
    known::check(&ffn, OF_DBRX, &t.passed)
}

/// The kinds of layers as named by transformers.
const KINDS: &[&str] = &["full_attention", "sliding_attention"];

fn cohere2(t: &mut Translator) -> Result<()> {
    let n_dense = dense_layers(t)?;
    t.set("leading_dense_block_count", Some(n_dense));
    let width = t.size("intermediate_size")?;
    t.set("expert_feed_forward_length", Some(width));
    t.replace("feed_forward_length", t.int(&["prefix_dense_intermediate_size"])?.or(Some(width)));
    t.set("expert_shared_count", t.int(&["num_shared_experts"])?);
    t.expect_text("shared_expert_combination_strategy", &["average"])?;
    t.expect_text("expert_selection_fn", &["softmax", "sigmoid"])?;
    let is_sigmoid = t.config.text(&["expert_selection_fn"])? == Some("sigmoid");
    t.set("expert_gating_func", Some(if is_sigmoid { 2u64 } else { 1 }));
    // A softmax over the selected experts sums to 1.
    let sums = t.config.bool(&["norm_topk_prob"])? != Some(false) || !is_sigmoid;
    t.set("expert_weights_norm", Some(sums));
    Ok(())
}

/// Returns the number of dense layers, the first ones.
fn dense_layers(t: &Translator) -> Result<u64> {
    let declared = t.int(&["first_k_dense_replace"])?.unwrap_or(0);
    match t.layers("mlp_layer_types", &["dense", "sparse"])? {
        Some(kinds) if kinds.is_sorted() => Ok(kinds.iter().filter(|kind| **kind == 0).count() as u64),
        Some(_) => Err(t.config.unsupported("\"mlp_layer_types\" with \"dense\" behind \"sparse\"")),
        None => Ok(declared),
    }
}

/// Dense layers have full attention, and so does each fourth layer after them, unless layers are listed.
fn cohere2_windows(t: &mut Translator) -> Result<()> {
    if t.int(&["prefix_dense_sliding_window_pattern"])?.is_some_and(|period| period != 1) {
        return Err(t.config.unsupported("a \"prefix_dense_sliding_window_pattern\" other than 1"));
    }
    let (n, n_dense) = (t.n_layers()?, dense_layers(t)?);
    let period = t.int(&["sliding_window_pattern"])?.unwrap_or(4);
    let windowed: Vec<bool> = match t.layers("layer_types", KINDS)? {
        Some(kinds) => kinds.into_iter().map(|kind| kind == 1).collect(),
        None => (0..n).map(|i| i >= n_dense && !(i - n_dense + 1).is_multiple_of(period)).collect(),
    };
    t.set("attention.sliding_window", t.int(&["sliding_window"])?.or(Some(4096)));
    t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
    Ok(())
}

/// Windows, and sliding-window layers with twice the KV heads.
fn mimo(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    // The network has no biases.
    t.expect("attention_bias", false)?;
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let windowed: Vec<bool> = match (t.layers("layer_types", KINDS)?, t.config.list(&["hybrid_layer_pattern"])?) {
        (Some(kinds), _) => kinds.into_iter().map(|kind| kind == 1).collect(),
        (None, Some(list)) if list.len() == n => list.iter().map(|kind| kind.as_u64() == Some(1)).collect(),
        (None, Some(_)) => return Err(t.config.wrong("hybrid_layer_pattern", "one for each layer")),
        (None, None) => (0..n).map(|i| i > 0 && !(i + 1).is_multiple_of(6)).collect(),
    };
    let kv_heads = t.size("num_key_value_heads")?;
    let in_windows = t.int(&["swa_num_key_value_heads"])?.unwrap_or(2 * kv_heads);
    for (name, common) in
        [("swa_num_attention_heads", HEADS), ("swa_head_dim", &["head_dim"][..]), ("swa_v_head_dim", &["v_head_dim"])]
    {
        let (own, common) = (t.config.int(&[name])?, t.int(common)?);
        if own.is_some() && own != common {
            return Err(t.config.unsupported(&format!("{name:?} other than that of other layers")));
        }
    }
    // The tensors determine which layers have attention sinks.
    t.config.skip(&["add_full_attention_sink_bias", "add_swa_attention_sink_bias", "attention_chunk_size"]);
    let mut heads = try_vec("layers", n)?;
    heads.extend(windowed.iter().map(|windowed| signed(if *windowed { in_windows } else { kv_heads })));
    t.replace("attention.head_count_kv", Some(heads));
    t.replace("attention.value_length", t.int(&["v_head_dim"])?);
    // An additional size counts the tokens before the current one.
    let (window, before) = (t.int(&["sliding_window"])?, t.int(&["sliding_window_size"])?);
    t.set("attention.sliding_window", before.map(|n| n.saturating_add(1)).or(window).or(Some(129)));
    t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
    Ok(())
}

fn laguna(t: &mut Translator) -> Result<()> {
    renormalized_sigmoid(t)?;
    t.expect("moe_apply_router_weight_on_input", false)?;
    if t.number(&["moe_router_logit_softcapping"])?.is_some_and(|cap| cap != 0.0) {
        return Err(t.config.unsupported("\"moe_router_logit_softcapping\" other than 0"));
    }
    if let Some(list) = t.config.list(&["num_attention_heads_per_layer"])? {
        let heads: Option<Vec<i64>> = list.iter().map(|n| n.as_u64().map(signed)).collect();
        let heads = heads.filter(|heads| heads.len() as u64 == t.n_layers().unwrap_or(0));
        let heads = heads.ok_or_else(|| t.config.wrong("num_attention_heads_per_layer", "one for each layer"))?;
        t.replace("attention.head_count", Some(heads));
    }
    Ok(())
}

/// Heads, windows and limits of each layer.
fn step(t: &mut Translator) -> Result<()> {
    t.expect_text("moe_router_activation", &["sigmoid"])?;
    for name in ["norm_expert_weight", "use_moe_router_bias", "use_head_wise_attn_gate", "zero_centered"] {
        t.expect(name, true)?;
    }
    for name in ["sink", "use_qk_norm"] {
        t.expect(name, false)?;
    }
    t.set("expert_gating_func", Some(2u64));
    t.set("expert_weights_norm", Some(true));
    let kv_heads = t.int(&["num_attention_groups", "num_key_value_heads"])?;
    t.facts.kv_heads = kv_heads;
    t.replace("attention.head_count_kv", kv_heads);
    let windowed = step_windows(t)?;
    let other = t.part("attention_other_setting");
    let common = t.size("num_attention_heads")?;
    let outer = t.config.int(&["num_sliding_attention_heads"])?;
    let heads = other.int(&["num_attention_heads"])?.or(outer).unwrap_or(common);
    let same = [(other.int(&["num_attention_groups"])?, kv_heads), (other.int(&["head_dim"])?, t.int(&["head_dim"])?)];
    if same.iter().any(|(own, common)| own.is_some() && own != common) {
        return Err(t.config.unsupported("an \"attention_other_setting\" of other heads than their number"));
    }
    known::check(&other, " attention_type true_head_dim ", &t.passed)?;
    // It repeats the number of heads of sliding-window layers.
    t.config.skip(&["per_layer_config"]);
    let mut list = try_vec("layers", windowed.len())?;
    list.extend(windowed.iter().map(|windowed| signed(if *windowed { heads } else { common })));
    t.replace("attention.head_count", Some(list));
    for (key, name) in [("swiglu_clamp_exp", "swiglu_limits"), ("swiglu_clamp_shexp", "swiglu_limits_shared")] {
        if let Some(limits) = t.config.list(&[name])? {
            let limits = limits.iter().take(windowed.len()).map(|limit| narrow(limit.as_f64().unwrap_or(0.0)));
            t.set(key, Some(limits.collect::<Vec<f32>>()));
        }
    }
    t.set("attention.sliding_window", t.int(&["sliding_window"])?);
    t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
    Ok(())
}

/// Returns the layers with a window; layers after the trunk may be listed too.
fn step_windows(t: &Translator) -> Result<Vec<bool>> {
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let Some(list) = t.config.list(&["layer_types"])? else { return Ok(vec![false; n]) };
    let list = list.get(..n).ok_or_else(|| t.config.wrong("layer_types", "one for each layer"))?;
    let mut windowed = try_vec("layers", n)?;
    for kind in list {
        let known = KINDS.iter().position(|known| kind.as_str() == Some(known));
        let unknown = || t.config.unsupported(&format!("\"layer_types\" with the value {kind}"));
        windowed.push(known.ok_or_else(unknown)? == 1);
    }
    Ok(windowed)
}

/// RoPE bases and rotated parts, by kind of layer or by layer. Full-attention layers rotate half as much as others.
fn step_rope(t: &mut Translator) -> Result<()> {
    let nothing = Json::Null;
    let windowed = step_windows(t)?;
    let sets = t.config.find(&["rope_parameters"]).map_or(&nothing, |(_, sets)| sets);
    let scaling = t.config.find(&["rope_scaling"]).map_or(&nothing, |(_, set)| set);
    let [full, local] = [0, 1].map(|kind| KINDS.get(kind).and_then(|kind| sets.get(kind)).unwrap_or(&nothing));
    let full = Members::new(t.path, full, scaling);
    let local = Members::new(t.path, local, &nothing);
    // The numbers of a kind of layers: from its object, or from its first layer if there is one value per layer.
    let read = |set: &Members, is_local: bool| -> Result<[f64; 2]> {
        let first = windowed.iter().position(|windowed| *windowed == is_local);
        let number = |name: &str, outer: &str, default: f64| -> Result<f64> {
            let declared = t.config.find(&[outer]).and_then(|(_, value)| match value.as_array() {
                Some(list) => list.get(first?)?.as_f64(),
                None => value.as_f64(),
            });
            Ok(set.number(&[name])?.or(declared).unwrap_or(default))
        };
        let base = number("rope_theta", "rope_theta", 1e4)?;
        Ok([base, number("partial_rotary_factor", "partial_rotary_factors", 1.0)?])
    };
    let ([base, part], [local_base, local_part]) = (read(&full, false)?, read(&local, true)?);
    let has_windows = windowed.contains(&true);
    if part != 0.5 || (has_windows && local_part != 1.0) {
        return Err(t.config.unsupported("\"partial_rotary_factors\" other than 0.5, and 1 in layers with a window"));
    }
    t.set("rope.freq_base", Some(base));
    t.set("rope.freq_base_swa", Some(local_base));
    if rope::kind(&local)? != "default" {
        return Err(t.config.unsupported("scaled rope in layers with a window"));
    }
    let trained = full.number(&["original_max_position_embeddings"])?;
    rope::scaling(t, &full, trained)?;
    known::check_rope(&full, &t.passed)?;
    known::check_rope(&local, &t.passed)
}
