//! Arctic: a dense block as wide as the residual stream after attention, and experts on the input of the layer in
//! parallel.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let Some(moe) = b.moe(true)? else { return Err(b.keys.unsupported("expert_count")) };
    // The file declares the experts' width.
    b.hyper.ffn = b.hyper.hidden;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let normed = b.rms_norm(x, "ffn_norm_exps")?;
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let dense = b.gated_ffn(h, Silu)?;
        let sparse = b.experts(normed, moe)?;
        b.add(x, dense);
        b.add(x, sparse);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
