//! Talkie: unweighted norms, also on the embedding, which is added again in each layer with a scale of the file; QK
//! norm after RoPE, and a scale of queries per head.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::NormKind::Rms;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let logit_scale = b.keys.float("logit_scale")?.unwrap_or(1.0);
    let embedded = b.embed(1.0)?;
    let (x, skip) = (b.bare_norm(Rms, embedded), b.bare_norm(Rms, embedded));
    b.layers(|b, _| {
        let h = b.bare_norm(Rms, x);
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            b.rotate(rope, q, k);
            b.rms_norm_heads_by_factor(q, "attn_q_norm", heads.head_dim)?;
            b.bare_norm_groups(Rms, k, heads.head_dim);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.bare_norm(Rms, x);
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        b.add_by_factor(x, skip, "layer_output_scale")
    })?;
    let h = b.bare_norm(Rms, x);
    b.head(h, logit_scale, 0.0)
}
