//! OpenELM: Qwen 3's layers, with a number of heads and a feed-forward width per layer.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let heads = b.heads(i)?;
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
