//! Families with hyper-connections between several residual streams: DeepSeek V4, GLM 5 Next, Hunyuan 4.

use super::common::{DENSE_FIRST, EXPERT_GROUPS, EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, ROUTED};
use super::deepseek::{INDEXER, INDEXER_TYPES, latent_attention, sigmoid_router};
use super::kimi::{DELTA_NAMES, delta_rules, still};
use crate::error::{Result, try_vec};
use crate::format::hf::members::Members;
use crate::format::hf::translator::KeyType::{Int, Number};
use crate::format::hf::translator::{Family, Key, Translator, signed};
use crate::format::hf::{known, rope};
use crate::format::json::Json;
use crate::format::value::whole;

const STREAMS: &[Key] = &[
    ("hyper_connection.count", Int, &["hc_mult"]),
    ("hyper_connection.sinkhorn_iterations", Int, &["hc_sinkhorn_iters"]),
    ("hyper_connection.magnitude", Number, &["hc_magnitude"]),
    ("hyper_connection.epsilon", Number, &["hc_eps"]),
    ("swiglu_clamp_exp", Number, &["swiglu_limit"]),
];

const COMPRESSED: &[Key] = &[
    ("attention.q_lora_rank", Int, &["q_lora_rank"]),
    ("attention.sliding_window", Int, &["sliding_window"]),
    ("attention.output_group_count", Int, &["o_groups"]),
    ("attention.output_lora_rank", Int, &["o_lora_rank"]),
];

/// Tensors of hyper-connections, with the same names in two families.
const STREAM_NAMES: &[(&str, &str)] = &[
    ("hc_attn_fn", "hc_attn_fn.weight"),
    ("hc_attn_base", "hc_attn_base.weight"),
    ("hc_attn_scale", "hc_attn_scale.weight"),
    ("hc_ffn_fn", "hc_ffn_fn.weight"),
    ("hc_ffn_base", "hc_ffn_base.weight"),
    ("hc_ffn_scale", "hc_ffn_scale.weight"),
];

/// DeepSeek V4, as published and, if different, as saved by transformers.
const DEEPSEEK_4_NAMES: &[(&str, &str)] = &[
    ("embed", "token_embd"),
    ("head", "output"),
    ("hc_head_fn", "output_hc_fn.weight"),
    ("hc_head_base", "output_hc_base.weight"),
    ("hc_head_scale", "output_hc_scale.weight"),
    ("hc_head.hc_fn", "output_hc_fn.weight"),
    ("hc_head.hc_base", "output_hc_base.weight"),
    ("hc_head.hc_scale", "output_hc_scale.weight"),
    ("attn_norm", "attn_norm"),
    ("attn.attn_sink", "attn_sinks.weight"),
    ("attn.wq_a", "attn_q_a"),
    ("attn.q_norm", "attn_q_a_norm"),
    ("attn.wq_b", "attn_q_b"),
    ("attn.wkv", "attn_kv"),
    ("attn.kv_norm", "attn_kv_a_norm"),
    ("attn.norm", "attn_kv_a_norm"),
    ("attn.wo_a", "attn_output_a"),
    ("attn.wo_b", "attn_output_b"),
    ("attn.compressor.ape", "attn_compressor_ape.weight"),
    ("attn.compressor.wkv", "attn_compressor_kv"),
    ("attn.compressor.wgate", "attn_compressor_gate"),
    ("attn.compressor.norm", "attn_compressor_norm"),
    ("attn.indexer.wq_b", "indexer.attn_q_b"),
    ("attn.indexer.weights_proj", "indexer.proj"),
    ("attn.indexer.compressor.ape", "indexer_compressor_ape.weight"),
    ("attn.indexer.compressor.wkv", "indexer_compressor_kv"),
    ("attn.indexer.compressor.wgate", "indexer_compressor_gate"),
    ("attn.indexer.compressor.norm", "indexer_compressor_norm"),
    ("ffn.gate.bias", "exp_probs_b.bias"),
    ("ffn.gate.tid2eid", "ffn_gate_tid2eid.weight"),
    ("ffn.gate", "ffn_gate_inp"),
    ("ffn.experts.*.w1", "ffn_gate_exps"),
    ("ffn.experts.*.w3", "ffn_up_exps"),
    ("ffn.experts.*.w2", "ffn_down_exps"),
    ("ffn.shared_experts.w1", "ffn_gate_shexp"),
    ("ffn.shared_experts.w3", "ffn_up_shexp"),
    ("ffn.shared_experts.w2", "ffn_down_shexp"),
];

const POOL_NAMES: &[(&str, &str)] = &[
    ("self_attn.indexer.index_kpool_compress_gate", "indexer_compressor_gate.weight"),
    ("self_attn.indexer.index_kpool_compress_ape", "indexer_compressor_ape.weight"),
];

const HUNYUAN_NAMES: &[(&str, &str)] = &[
    ("hc_attn_layer.hc_fn", "hc_attn_fn.weight"),
    ("hc_attn_layer.hc_base", "hc_attn_base.weight"),
    ("hc_attn_layer.hc_scale", "hc_attn_scale.weight"),
    ("hc_mlp_layer.hc_fn", "hc_ffn_fn.weight"),
    ("hc_mlp_layer.hc_base", "hc_ffn_base.weight"),
    ("hc_mlp_layer.hc_scale", "hc_ffn_scale.weight"),
    ("hc_head.hc_head_fn", "output_hc_fn.weight"),
    ("hc_head.hc_head_base", "output_hc_base.weight"),
    ("hc_head.hc_head_scale", "output_hc_scale.weight"),
    ("self_attn.learnable_sink_param", "attn_sinks.weight"),
    ("self_attn.linear_gate", "attn_gate"),
    ("mlp.linear_gate", "ffn_gate"),
    ("mlp.shared_experts.linear_gate", "ffn_gate_shexp"),
];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["deepseek_v4"],
        arch: "deepseek4",
        epsilon: 1e-6,
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, INDEXER, STREAMS, COMPRESSED],
        defaults: "rope_theta=1e4 compress_rope_theta=16e4 head_dim=512 num_key_value_heads=1 hc_eps=1e-6 \
                   swiglu_limit=10 norm_topk_prob=1 routed_scaling_factor=1.5 num_hash_layers=3 \
                   partial_rotary_factor=0.125",
        extras: deepseek_4,
        windows: |_| Ok(()),
        rope: deepseek_4_rope,
        adjacent: true,
        names: &[STREAM_NAMES, DEEPSEEK_4_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["glm5_next", "glm5_next_text"],
        arch: "glm5-next",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, INDEXER, STREAMS],
        defaults: "hc_eps=1e-6 swiglu_limit=10 norm_topk_prob=1 routed_scaling_factor=2.5 qk_rope_head_dim=0",
        effectless: "head_dim qk_head_dim mlp_layer_types",
        extras: glm_5_next,
        windows: |_| Ok(()),
        rope: still,
        names: &[STREAM_NAMES, DELTA_NAMES, POOL_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["hy_v4"],
        arch: "hy_v4",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS, DENSE_FIRST, INDEXER, STREAMS],
        defaults: "rope_theta=1e4 hc_magnitude=2 hc_eps=1e-6 swiglu_limit=10 norm_topk_prob=1 \
                   routed_scaling_factor=2.827",
        effectless: "head_dim qk_head_dim mlp_layer_types learnable_sink_init enable_lm_head_fp32",
        extras: hunyuan_4,
        windows: |_| Ok(()),
        adjacent: true,
        names: &[HUNYUAN_NAMES],
        ..PLAIN
    },
];

/// Attention to compressed positions in some layers, and experts that the first layers select by token id.
fn deepseek_4(t: &mut Translator) -> Result<()> {
    t.expect_text("scoring_func", &["sqrtsoftplus"])?;
    t.expect("norm_topk_prob", true)?;
    t.set("expert_gating_func", Some(4u64));
    let sizes = compressed_sizes(t)?;
    t.set("attention.compress_ratios", Some(sizes));
    let by_id = match t.layers("mlp_layer_types", &["hash_moe", "moe"])? {
        Some(kinds) if kinds.is_sorted() => kinds.iter().filter(|kind| **kind == 0).count() as u64,
        Some(_) => return Err(t.config.unsupported("\"mlp_layer_types\" with \"hash_moe\" behind \"moe\"")),
        None => t.int(&["num_hash_layers"])?.unwrap_or(0),
    };
    t.config.skip(&["num_hash_layers"]);
    t.set("hash_layer_count", Some(by_id));
    let part = t.number(&["partial_rotary_factor"])?.unwrap_or(0.0) * t.size("head_dim")? as f64;
    t.set("rope.dimension_count", t.int(&["qk_rope_head_dim"])?.or(whole(part)));
    Ok(())
}

/// Returns the number of positions per compressed key in each layer; 0: none.
fn compressed_sizes(t: &Translator) -> Result<Vec<i64>> {
    let rates = t.part("compress_rates");
    let names = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"];
    let [_, few, many] = names;
    let sizes = [0, rates.int(&[few])?.unwrap_or(4), rates.int(&[many])?.unwrap_or(128)];
    known::check(&rates, "", &t.passed)?;
    if !matches!(sizes, [_, 4, ..]) || matches!(sizes, [.., 4]) {
        return Err(t.config.unsupported("\"compress_rates\" other than 4 and 128"));
    }
    if let Some(kinds) = t.layers("layer_types", &names)? {
        t.config.skip(&["compress_ratios"]);
        return Ok(kinds.into_iter().map(|kind| sizes.get(kind).copied().map_or(0, signed)).collect());
    }
    // The ratios of layers after the trunk follow.
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let list = t.config.list(&["compress_ratios"])?.and_then(|list| list.get(..n));
    let list = list.ok_or_else(|| t.config.wrong("compress_ratios", "one for each layer"))?;
    let mut ratios = try_vec("layers", n)?;
    for ratio in list {
        let known = ratio.as_u64().filter(|ratio| [0, 4, 128].contains(ratio));
        let unknown = || t.config.unsupported(&format!("\"compress_ratios\" with the value {ratio}"));
        ratios.push(signed(known.ok_or_else(unknown)?));
    }
    Ok(ratios)
}

/// A base for layers with only a window, and another one with scaling for those with compressed keys.
fn deepseek_4_rope(t: &mut Translator) -> Result<()> {
    let nothing = Json::Null;
    let sets = t.config.find(&["rope_parameters", "rope_scaling"]).map_or(&nothing, |(_, sets)| sets);
    let (main, far) = match (sets.get("main"), sets.get("compress")) {
        (Some(main), Some(far)) => (main, far),
        _ => (&nothing, sets),
    };
    let [main, far] = [main, far].map(|set| Members::new(t.path, set, &nothing));
    for set in [&main, &far] {
        if let Some(part) = set.number(&["partial_rotary_factor"])?
            && t.number(&["partial_rotary_factor"])? != Some(part)
        {
            return Err(t.config.unsupported("two values of \"partial_rotary_factor\""));
        }
    }
    if rope::kind(&main)? != "default" || far.number(&["attention_factor"])?.is_some_and(|factor| factor != 1.0) {
        return Err(t.config.unsupported("rope of layers with a window that is scaled, or an \"attention_factor\""));
    }
    let base = t.number(&["rope_theta"])?;
    let far_base = t.number(&["compress_rope_theta"])?;
    t.set("rope.freq_base", main.number(&["rope_theta"])?.or(base));
    t.set("attention.compress_rope_freq_base", far.number(&["rope_theta"])?.or(far_base));
    let trained = far.number(&["original_max_position_embeddings"])?;
    rope::scaling(t, &far, trained)?;
    known::check_rope(&main, &t.passed)?;
    known::check_rope(&far, &t.passed)
}

/// Kimi's delta rules, and MLA without RoPE to pools of positions.
fn glm_5_next(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    t.expect("mhc", true)?;
    latent_attention(t)?;
    if t.int(&["qk_rope_head_dim"])? != Some(0) {
        return Err(t.config.unsupported("\"qk_rope_head_dim\" other than 0"));
    }
    delta_rules(t, Some(-5.0))?;
    own_indexers(t, |_| true)?;
    t.set("attention.layer_norm_epsilon", Some(1e-6));
    t.set("attention.indexer.kpool", Some(t.int(&["index_kpool"])?.unwrap_or(16)));
    t.expect("index_kpool_always_select_tail", true)
}

/// MLA with attention sinks and gates.
fn hunyuan_4(t: &mut Translator) -> Result<()> {
    sigmoid_router(t, &["sigmoid"])?;
    latent_attention(t)?;
    t.layers("layer_types", &["indexed_attention", "deepseek_sparse_attention", "sparse_attention"])?;
    own_indexers(t, |i| i == 0 || (i - 1).is_multiple_of(4))
}

/// Sets which layers have an indexer of their own. `default`: if the configuration does not say.
fn own_indexers(t: &mut Translator, default: impl Fn(usize) -> bool) -> Result<()> {
    let own: Vec<i64> = match t.layers("indexer_types", INDEXER_TYPES)? {
        Some(kinds) => kinds.into_iter().map(|own| own as i64).collect(),
        None => (0..usize::try_from(t.n_layers()?).unwrap_or(0)).map(|i| i64::from(default(i))).collect(),
    };
    t.set("attention.indexer.types", Some(own));
    Ok(())
}
