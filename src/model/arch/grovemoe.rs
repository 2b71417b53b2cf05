//! GroveMoE: Qwen 3 MoE with an additional small expert per group of experts, added with the weight of each selected
//! expert times a scale.

use crate::error::Result;
use crate::graph::op::Routing;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let Some(moe) = b.moe(true)? else { return Err(b.keys.unsupported("expert_count")) };
    let sharing = b.keys.require_size("experts_per_group")?;
    if !moe.n_experts.is_multiple_of(sharing) {
        return Err(b.keys.unsupported("experts_per_group"));
    }
    let ffn = b.keys.size("expert_chunk_feed_forward_length")?.unwrap_or(heads.head_dim);
    let scale = b.keys.float("expert_group_scale")?.unwrap_or(0.05);
    let shared = Moe { ffn, routing: Routing { sharing, scale, ..moe.routing }, ..moe };
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let scores = b.project(h, "ffn_gate_inp", moe.n_experts)?;
        let o = b.scored_experts(h, scores, moe)?;
        let by_group = b.named_experts(h, scores, shared, "chexps")?;
        b.join(o, by_group);
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
