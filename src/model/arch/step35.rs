//! Step 3.5: a number of heads per layer, each gated by the sigmoid of one value. Full-attention layers rotate half as
//! many dimensions as sliding-window layers. Experts with a sigmoid router, dense first layers, limits in SwiGLU.

use crate::error::Result;
use crate::graph::op::{Activation, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe, Traits};
use crate::model::rope::{RopeConfig, RopeScaling};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let config = b.rope_config(RopePairs::Halves)?;
    let local = RopeConfig {
        base: b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0),
        n_dims: b.windowed_rope_dims(config.n_dims)?,
        scaling: RopeScaling::None,
        magnitude: 1.0,
        ..config.clone()
    };
    if !config.n_dims.is_multiple_of(4) {
        return Err(b.keys.unsupported("rope.dimension_count"));
    }
    let rope = b.rope_by_first_divisors(&RopeConfig { n_dims: config.n_dims / 2, ..config })?;
    let local = b.rope_without_divisors(&local)?;
    let windows = b.declared_windows()?;
    let of_experts = b.clamped_swiglu("swiglu_clamp_exp", Activation::SwigluThenClamped)?;
    let of_all = b.clamped_swiglu("swiglu_clamp_shexp", Activation::SwigluThenClamped)?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    // The tensors determine which layers have experts.
    b.keys.get("moe_every_n_layers");
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let Some(heads) = heads[i] else { return Err(b.keys.unsupported("attention.head_count_kv")) };
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        for (x, part) in [(q, "attn_q_norm"), (k, "attn_k_norm")] {
            if b.has(&format!("{part}.weight")) {
                b.rms_norm_groups(x, part, heads.head_dim)?;
            }
        }
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        if b.has("attn_gate.weight") {
            let gate = b.project(h, "attn_gate", heads.n_heads)?;
            b.gate_by_sigmoid(a, gate);
        }
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn_by(h, moe.map(|moe| Moe { activation: of_experts[i], ..moe }), of_all[i])?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
