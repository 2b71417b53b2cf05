//! RWKV 6 as published by its authors, and RWKV 7 as published by flash-linear-attention.

use super::common::PLAIN;
use crate::error::Result;
use crate::format::hf::translator::{Family, Translator, WIDTH};
use crate::format::value::whole;

/// A recurrence has no context limit; converters write this.
const CONTEXT: u64 = 1 << 20;

const SIXTH: &[(&str, &str)] = &[
    ("head", "output"),
    ("ln_out", "output_norm"),
    ("pre_ln", "/token_embd_norm"),
    ("ln1", "attn_norm"),
    ("ln2", "attn_norm_2"),
    ("attention.time_maa_x", "time_mix_lerp_x.weight"),
    ("attention.time_maa_w", "time_mix_lerp_w.weight"),
    ("attention.time_maa_k", "time_mix_lerp_k.weight"),
    ("attention.time_maa_v", "time_mix_lerp_v.weight"),
    ("attention.time_maa_r", "time_mix_lerp_r.weight"),
    ("attention.time_maa_g", "time_mix_lerp_g.weight"),
    ("attention.time_maa_w1", "time_mix_w1.weight"),
    ("attention.time_maa_w2", "time_mix_w2.weight"),
    ("attention.time_decay", "time_mix_decay.weight"),
    ("attention.time_decay_w1", "time_mix_decay_w1.weight"),
    ("attention.time_decay_w2", "time_mix_decay_w2.weight"),
    ("attention.time_faaaa", "time_mix_first.weight"),
    ("attention.key", "time_mix_key"),
    ("attention.value", "time_mix_value"),
    ("attention.receptance", "time_mix_receptance"),
    ("attention.gate", "time_mix_gate"),
    ("attention.output", "time_mix_output"),
    ("attention.ln_x", "time_mix_ln"),
    ("feed_forward.time_maa_k", "channel_mix_lerp_k.weight"),
    ("feed_forward.time_maa_r", "channel_mix_lerp_r.weight"),
    ("feed_forward.key", "channel_mix_key"),
    ("feed_forward.value", "channel_mix_value"),
    ("feed_forward.receptance", "channel_mix_receptance"),
];

const SEVENTH: &[(&str, &str)] = &[
    ("pre_norm", "/token_embd_norm"),
    ("attn_norm", "attn_norm"),
    ("ffn_norm", "attn_norm_2"),
    ("attn.x_x", "time_mix_lerp_fused.weight"),
    ("attn.x_r", "time_mix_lerp_r.weight"),
    ("attn.x_w", "time_mix_lerp_w.weight"),
    ("attn.x_k", "time_mix_lerp_k.weight"),
    ("attn.x_v", "time_mix_lerp_v.weight"),
    ("attn.x_a", "time_mix_lerp_a.weight"),
    ("attn.x_g", "time_mix_lerp_g.weight"),
    ("attn.k_k", "time_mix_k_k.weight"),
    ("attn.k_a", "time_mix_k_a.weight"),
    ("attn.r_k", "time_mix_r_k.weight"),
    ("attn.r_proj", "time_mix_receptance"),
    ("attn.k_proj", "time_mix_key"),
    ("attn.v_proj", "time_mix_value"),
    ("attn.o_proj", "time_mix_output"),
    ("attn.g_norm", "time_mix_ln"),
    ("attn.w_lora.lora.0.weight", "time_mix_w1.weight"),
    ("attn.w_lora.lora.2.weight", "time_mix_w2.weight"),
    ("attn.w_lora.lora.2.bias", "time_mix_w0.weight"),
    ("attn.a_lora.lora.0.weight", "time_mix_a1.weight"),
    ("attn.a_lora.lora.2.weight", "time_mix_a2.weight"),
    ("attn.a_lora.lora.2.bias", "time_mix_a0.weight"),
    ("attn.v_lora.lora.0.weight", "time_mix_v1.weight"),
    ("attn.v_lora.lora.2.weight", "time_mix_v2.weight"),
    ("attn.v_lora.lora.2.bias", "time_mix_v0.weight"),
    ("attn.g_lora.lora.0.weight", "time_mix_g1.weight"),
    ("attn.g_lora.lora.2.weight", "time_mix_g2.weight"),
    ("ffn.x_k", "channel_mix_lerp_k.weight"),
    ("ffn.key", "channel_mix_key"),
    ("ffn.value", "channel_mix_value"),
];

const RWKV: Family = Family { windows: |_| Ok(()), rope: |_| Ok(()), ..PLAIN };

pub const ALL: &[Family] = &[
    Family {
        model_types: &["rwkv6"],
        arch: "rwkv6",
        defaults: "head_size=64",
        // Weights and residuals are halved together, which changes nothing.
        effectless: "rescale_every num_attention_heads context_length model_version",
        extras: sixth,
        transposed: &["time_mix_w1.weight", "time_mix_w2.weight", "_decay_w1.weight", "_decay_w2.weight"],
        names: &[SIXTH],
        ..RWKV
    },
    Family {
        model_types: &["rwkv7"],
        arch: "rwkv7",
        activations: &["sqrelu"],
        defaults: "head_dim=64 hidden_ratio=4",
        // The tensors determine the ranks.
        effectless: "a_low_rank_dim decay_low_rank_dim gate_low_rank_dim v_low_rank_dim attn_mode fuse_norm \
                     hidden_ratio use_l2warp",
        extras: seventh,
        names: &[SEVENTH],
        ..RWKV
    },
];

/// Sets the width of heads, under its name in the configuration. GGUF files have no number of heads.
fn heads(t: &mut Translator, name: &str) -> Result<u64> {
    let width = t.int(WIDTH)?.unwrap_or(0);
    let size = t.size(name)?;
    t.set("wkv.head_size", Some(size));
    t.replace("attention.head_count", Some(0u64));
    t.replace("context_length", Some(CONTEXT));
    Ok(width)
}

fn sixth(t: &mut Translator) -> Result<()> {
    let width = heads(t, "head_size")?;
    if t.int(&["attention_hidden_size"])?.is_some_and(|declared| declared != width) {
        return Err(t.config.unsupported("an \"attention_hidden_size\" other than \"hidden_size\""));
    }
    if t.int(&["head_size_divisor"])?.is_some_and(|declared| declared != 8) {
        return Err(t.config.unsupported("a \"head_size_divisor\" other than 8"));
    }
    if t.int(&["intermediate_size"])?.is_none() {
        t.replace("feed_forward_length", Some(width.saturating_mul(7) / 2 / 32 * 32));
    }
    Ok(())
}

fn seventh(t: &mut Translator) -> Result<()> {
    let width = heads(t, "head_dim")?;
    t.expect("norm_first", true)?;
    t.expect("norm_bias", true)?;
    if t.int(&["value_dim"])?.is_some_and(|declared| declared != width) {
        return Err(t.config.unsupported("a \"value_dim\" other than \"hidden_size\""));
    }
    if t.int(&["num_heads"])?.zip(t.int(&["head_dim"])?).is_some_and(|(n, dim)| n.checked_mul(dim) != Some(width)) {
        return Err(t.config.unsupported("a \"num_heads\" other than \"hidden_size\" / \"head_dim\""));
    }
    if t.number(&["norm_eps"])?.is_some_and(|eps| eps != 1e-5) {
        return Err(t.config.unsupported("a \"norm_eps\" other than 1e-5"));
    }
    if t.int(&["intermediate_size"])?.is_none() {
        let ratio = t.number(&["hidden_ratio"])?.unwrap_or(4.0);
        let inner = whole((width as f64 * ratio).trunc()).and_then(|n| n.checked_next_multiple_of(32));
        t.replace("feed_forward_length", inner);
    }
    Ok(())
}
