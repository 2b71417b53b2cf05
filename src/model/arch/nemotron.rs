//! Nemotron, Minitron, Jais 2 and Persimmon: LayerNorm, full or partial RoPE, a feed-forward block with squared ReLU.
//! Persimmon has QK norm per head.

use crate::error::Result;
use crate::graph::op::Activation::Relu2;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            if b.has("attn_q_norm.weight") {
                b.layer_norm_groups(q, "attn_q_norm", attention.heads.head_dim)?;
                b.layer_norm_groups(k, "attn_k_norm", attention.heads.head_dim)?;
            }
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Relu2)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
