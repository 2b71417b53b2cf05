//! SmallThinker: experts with ReLU in every layer, routed by the layer's input before attention. With sliding windows,
//! the first of four layers has neither window nor RoPE.

use crate::error::Result;
use crate::graph::op::Activation::Relu;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::RopeConfig;

/// The window of all files that declare one.
const WINDOW: usize = 4096;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
    let local = RopeConfig { base, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let has_windows = b.keys.size("attention.sliding_window")?.is_some();
    let windows = if has_windows { b.windows_after_full(WINDOW, 4)? } else { b.declared_windows()? };
    let Some(mut moe) = b.declared_moe(RouterScore::Softmax)? else { return Err(b.keys.unsupported("expert_count")) };
    (moe.activation, moe.routing.renormalize) = (Relu, true);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let scores = b.project(x, "ffn_gate_inp", moe.n_experts)?;
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
            if i % 4 != 0 || !has_windows {
                b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
            }
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.scored_experts(h, scores, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
