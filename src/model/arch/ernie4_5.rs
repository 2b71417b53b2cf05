//! ERNIE 4.5: Llama; larger ones have, in some layers, experts with a selection bias and a shared expert.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    // M-RoPE sections for images; the text network has one position.
    b.keys.get("rope.dimension_sections");
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, attention.heads)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], attention)?;
        let o = b.project_without_bias(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
