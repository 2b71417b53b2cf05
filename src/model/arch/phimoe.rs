//! Phi 3.5 MoE: LayerNorm's name and biases, but RMS norms; experts in every layer, LongRoPE as in Phi 3.

use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = super::phi3::rope(b)?;
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
