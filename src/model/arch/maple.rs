//! Maple: Qwen 3 MoE with limits in SwiGLU. Some layers have a sliding window, and only those have RoPE.

use crate::error::Result;
use crate::graph::op::Activation;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
    config.n_dims = b.windowed_rope_dims(config.n_dims)?;
    let rope = b.rope(&config)?;
    let windows = b.declared_windows()?;
    let activations = b.clamped_swiglu("swiglu_clamp_exp", Activation::SwigluOfClamped)?;
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
            b.head_norms(q, k)?;
            if windows[i] > 0 {
                b.rotate(rope, q, k);
            }
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe.map(|moe| Moe { activation: activations[i], ..moe }))?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
