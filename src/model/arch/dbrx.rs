//! DBRX: LayerNorm without biases, clamped q, k and v, experts in every layer.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let limit = b.keys.float("attention.clamp_kqv")?;
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, attention.heads)?;
        if let Some(limit) = limit {
            [q, k, v].into_iter().for_each(|x| b.clamp(x, limit));
        }
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], attention)?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.layer_norm(x, "attn_output_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
