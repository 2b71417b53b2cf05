//! Jamba: Mamba 1 blocks, and attention without RoPE in a few layers.

use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, shape) = (b.heads_per_layer()?, b.mamba_shape()?);
    b.keys.ignore("rope.");
    let moe = b.moe(false)?;
    b.keys.ignore("expert_weights_scale");
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(heads) => b.attention(h, Attention::new(heads), |_, _, _| Ok(()))?,
            None => b.mamba1(h, shape, None)?,
        };
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
