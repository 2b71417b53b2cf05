//! Liquid's networks: short convolutions in most layers, attention in the others.

use super::common::{EXPERT_WIDTH, EXPERTS, PLAIN};
use crate::error::{Result, try_vec};
use crate::format::Value;
use crate::format::hf::members::Members;
use crate::format::hf::rope;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Key, LAYERS, MAX_LAYERS, MAX_WIDTH, Translator, signed};
use crate::format::value::whole;

const TAPS: &[Key] = &[("shortconv.l_cache", Int, &["conv_L_cache"])];

pub const ALL: &[Family] = &[
    Family {
        model_types: &["lfm2"],
        arch: "lfm2",
        keys: &[TAPS],
        defaults: "rope_theta=1e6 conv_L_cache=3 intermediate_size=12288 block_auto_adjust_ff_dim=1 \
                   block_multiple_of=256 block_ffn_dim_multiplier=1",
        effectless: "conv_bias block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu \
                     block_use_xavier_init conv_dim conv_dim_out conv_use_xavier_init num_heads use_pos_enc",
        extras: lfm2,
        windows: |_| Ok(()),
        ..PLAIN
    },
    Family {
        model_types: &["lfm2_moe"],
        arch: "lfm2moe",
        keys: &[TAPS, EXPERTS, EXPERT_WIDTH],
        defaults: "rope_theta=1e6 conv_L_cache=3 num_experts=32 num_experts_per_tok=4",
        effectless: "conv_bias num_dense_layers",
        extras: lfm2_moe,
        windows: |_| Ok(()),
        ..PLAIN
    },
    Family {
        model_types: &["lfm3"],
        arch: "lfm3",
        keys: &[TAPS],
        defaults: "rope_theta=1e6 conv_L_cache=7 head_dim=128 num_key_value_heads=4 sliding_window=256",
        effectless: "conv_bias",
        extras: lfm3,
        windows: |_| Ok(()),
        windowed_base: true,
        own_rope: proportional,
        names: &[&[
            ("self_attn.gate_proj", "attn_gate"),
            ("self_attn.g_proj", "attn_gate"),
            ("post_operator_norm", "post_attention_norm"),
            ("post_ffn_norm", "post_ffw_norm"),
        ]],
        ..PLAIN
    },
];

/// Convolution layers have no KV heads.
fn convolutions(t: &mut Translator) -> Result<()> {
    let kinds = t.config.list(&["layer_types"])?;
    let attending = t.config.list(&["full_attn_idxs"])?;
    let n = t.int(LAYERS)?.unwrap_or(0);
    if n > MAX_LAYERS || kinds.is_some_and(|kinds| kinds.len() as u64 != n) {
        return Err(t.config.wrong("layer_types", "one for each of at most 1024 layers"));
    }
    if attending.is_some_and(|list| list.len() as u64 > n) {
        return Err(t.config.wrong("full_attn_idxs", "numbers of layers"));
    }
    let kv_heads = t.facts.kv_heads.unwrap_or(8);
    let mut heads = try_vec("layers", usize::try_from(n).unwrap_or(0))?;
    for i in 0..n {
        let kind = kinds.and_then(|kinds| kinds.get(usize::try_from(i).ok()?));
        let attends = match (kind, attending) {
            (Some(kind), _) => match kind.as_str() {
                Some("conv") => false,
                Some("full_attention") => true,
                _ => return Err(t.config.unsupported(&format!("\"layer_types\" with the value {kind}"))),
            },
            (None, Some(list)) => list.iter().any(|at| at.as_u64() == Some(i)),
            (None, None) => true,
        };
        heads.push(if attends { i64::try_from(kv_heads).unwrap_or(i64::MAX) } else { 0 });
    }
    t.replace("attention.head_count_kv", Some(heads));
    Ok(())
}

fn lfm2(t: &mut Translator) -> Result<()> {
    convolutions(t)?;
    let written = t.config.int(&["block_ff_dim"])?.or(t.int(&["intermediate_size"])?).filter(|&n| n <= MAX_WIDTH);
    t.config.skip(&["intermediate_size"]);
    let step = t.int(&["block_multiple_of"])?.filter(|n| (1..=MAX_WIDTH).contains(n));
    let (Some(mut width), Some(step)) = (written, step) else {
        return Err(t.config.unsupported("a \"block_ff_dim\" or \"block_multiple_of\" of such a size"));
    };
    let factor = t.number(&["block_ffn_dim_multiplier"])?.unwrap_or(1.0);
    if t.bool(&["block_auto_adjust_ff_dim"])? != Some(false) {
        let part = (factor * (2 * width / 3) as f64).trunc();
        let part = whole(part).filter(|&n| n <= MAX_WIDTH);
        width = part.ok_or_else(|| t.config.wrong("block_ffn_dim_multiplier", "smaller"))?.next_multiple_of(step);
    }
    t.replace("feed_forward_length", Some(width));
    Ok(())
}

fn lfm2_moe(t: &mut Translator) -> Result<()> {
    convolutions(t)?;
    t.set("expert_gating_func", Some(2u64));
    t.expect("use_expert_bias", true)?;
    t.expect("norm_topk_prob", true)?;
    match t.number(&["routed_scaling_factor"])? {
        Some(scale) if scale != 1.0 => {
            Err(t.config.unsupported(&format!("\"routed_scaling_factor\" with the value {scale}")))
        }
        _ => Ok(()),
    }
}

/// LFM 3: windows in some attention layers, gated heads, and norms after blocks.
fn lfm3(t: &mut Translator) -> Result<()> {
    let (n, kv_heads) = (t.n_layers()?, t.size("num_key_value_heads")?);
    let default = |i: u64| match i % 4 {
        2 => 1,
        0 if i > 0 => 2,
        _ => 0,
    };
    let kinds = t.layers("layer_types", &["conv", "full_attention", "sliding_attention"])?;
    let kinds = kinds.unwrap_or_else(|| (0..n).map(default).collect());
    let heads: Vec<i64> = kinds.iter().map(|kind| if *kind > 0 { signed(kv_heads) } else { 0 }).collect();
    t.replace("attention.head_count_kv", Some(heads));
    t.set("attention.sliding_window", t.int(&["sliding_window"])?);
    t.set("attention.sliding_window_pattern", Some(Value::Bools(kinds.iter().map(|kind| *kind == 2).collect())));
    t.expect("use_attention_gate", true)?;
    t.expect("use_sandwich_norm", true)
}

/// The first pairs are rotated as in whole heads, the others not at all.
fn proportional(t: &mut Translator, set: &Members, kind: &str) -> Result<bool> {
    if kind != "proportional" {
        return Ok(false);
    }
    let part = set.number(&["partial_rotary_factor"])?.unwrap_or(1.0);
    let pairs = rope::head_dim(t)?.min(MAX_WIDTH) / 2;
    let rope_dims = (part * pairs as f64).floor();
    let divisors: Vec<f32> = (0..pairs).map(|i| if (i as f64) < rope_dims { 1.0 } else { 1e30 }).collect();
    t.replace("rope.dimension_count", None::<u64>);
    t.made.push(rope::tensor_of("rope_freqs.weight", &divisors)?);
    Ok(true)
}
