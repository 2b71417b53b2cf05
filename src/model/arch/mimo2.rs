//! MiMo V2: attention sinks, and sliding-window layers with their own RoPE base and possibly fewer KV heads; experts
//! with a sigmoid router, and a scale on the attention output.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::RopeConfig;

/// Tensors of files that the network does not use.
const UNUSED: [&str; 4] = ["attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"];

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let local = RopeConfig { base, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = b.windows(b.keys.require_size("attention.sliding_window")?, 0)?;
    let value_scale = b.keys.float("attention.value_scale")?.unwrap_or(1.0);
    let mut moe = b.declared_moe(RouterScore::Sigmoid)?;
    if let Some(moe) = &mut moe {
        moe.routing.renormalize = true;
    }
    b.leave_out(&UNUSED);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let Some(heads) = heads[i] else { return Err(b.keys.unsupported("attention.head_count_kv")) };
        let h = b.rms_norm(x, "attn_norm")?;
        let rope = if windows[i] > 0 { local } else { rope };
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add_scaled(x, o, value_scale);
        let h = b.rms_norm(x, "ffn_norm")?;
        if b.has("ffn_gate_inp.weight") {
            b.ignore_dense_ffn();
        }
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
