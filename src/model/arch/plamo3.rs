//! PLaMo 3: norms before and after each block, QK norm, seven of eight layers with a sliding window, with their own
//! RoPE base if the file has one.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::RopeConfig;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let local = RopeConfig { base, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = b.windows_of_period(8)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
            Ok(())
        })?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
