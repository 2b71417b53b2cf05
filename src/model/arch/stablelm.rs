//! StableLM 2: LayerNorm, partial RoPE; the 12B has parallel attention and feed-forward blocks on one norm, and QK norm
//! per head.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    b.keys.get("use_parallel_residual");
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            if b.has("attn_q_norm.weight") {
                b.layer_norm_groups(q, "attn_q_norm", heads.head_dim)?;
                b.layer_norm_groups(k, "attn_k_norm", heads.head_dim)?;
            }
            b.rotate(rope, q, k);
            Ok(())
        })?;
        // Without a norm of its own, the block is parallel to attention.
        if b.has("ffn_norm.weight") {
            b.add(x, o);
            let h = b.layer_norm(x, "ffn_norm")?;
            let f = b.gated_ffn(h, Silu)?;
            b.add(x, f);
        } else {
            let f = b.gated_ffn(h, Silu)?;
            b.add(x, o);
            b.add(x, f);
        }
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
