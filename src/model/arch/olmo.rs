//! OLMo: unweighted LayerNorm, clamped q, k and v.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::NormKind::Layer;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let limit = b.keys.float("attention.clamp_kqv")?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.bare_norm(Layer, x);
        let [q, k, v] = b.qkv(h, heads)?;
        if let Some(limit) = limit {
            [q, k, v].into_iter().for_each(|x| b.clamp(x, limit));
        }
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::new(heads))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.bare_norm(Layer, x);
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.bare_norm(Layer, x);
    b.head(h, 1.0, 0.0)
}
