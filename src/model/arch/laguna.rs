//! Laguna: a number of heads per layer, QK norm, and attention outputs multiplied by the softplus of a gate. The first
//! of four layers has full attention; the others have a sliding window and their own RoPE. Experts with a sigmoid
//! router, dense first layers.

use crate::error::Result;
use crate::graph::op::{Activation, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::{RopeConfig, RopeScaling};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let config = b.rope_config(RopePairs::Halves)?;
    let local = RopeConfig {
        base: b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base),
        n_dims: b.windowed_rope_dims(config.n_dims)?,
        scaling: RopeScaling::None,
        magnitude: 1.0,
        ..config.clone()
    };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) => b.windows_after_full(window, 4)?,
        None => b.declared_windows()?,
    };
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let Some(heads) = heads[i] else { return Err(b.keys.unsupported("attention.head_count_kv")) };
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        let gate = b.project(h, "attn_gate", b.rows("attn_gate.weight")?)?;
        b.head_norms(q, k)?;
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        let a = b.gate_by(a, gate, Activation::Softplus);
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
