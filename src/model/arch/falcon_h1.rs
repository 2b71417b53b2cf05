//! Falcon H1: attention and a block of Mamba 2 side by side in every layer.

use crate::backend::op::Activation::Silu;
use crate::backend::weights::RopePairs;
use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, shape) = (b.hyper.heads, b.mamba_shape()?);
    b.keys.ignore("attention.recurrent_layers");
    b.leave_out(&["attn_output.bias", "rope_freqs.weight"]);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let mut attention = Attention::new(heads);
    attention.scale = b.keys.float("attention.scale")?.unwrap_or(attention.scale);
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        let m = b.mamba2(h, shape, false)?;
        b.add(x, o);
        b.add(x, m);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
