//! Granite 4 and Bamba: Granite with Mamba 2 blocks in most layers.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, shape) = (b.heads_per_layer()?, b.mamba_shape()?);
    let config = b.rope_config(RopePairs::Adjacent)?;
    // A file declares that the network has no RoPE.
    let rope = match b.keys.flag("rope.scaling.finetuned")?.unwrap_or(true) {
        true => Some(b.rope(&config)?),
        false => {
            b.leave_out(&["rope_freqs.weight"]);
            None
        }
    };
    let scale = b.keys.float("attention.scale")?;
    let moe = b.moe(true)?;
    b.keys.ignore("expert_weights_scale");
    b.residual_scale = b.keys.float("residual_scale")?.unwrap_or(1.0);
    // The file's number is a divisor.
    let logit_scale = 1.0 / b.keys.float("logit_scale")?.unwrap_or(1.0);
    let x = b.embed(b.keys.float("embedding_scale")?.unwrap_or(1.0))?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(heads) => {
                let mut attention = Attention::new(heads);
                attention.scale = scale.unwrap_or(attention.scale);
                b.attention(h, attention, |b, q, k| {
                    rope.into_iter().for_each(|rope| b.rotate(rope, q, k));
                    Ok(())
                })?
            }
            None => b.mamba2(h, shape, true)?,
        };
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, logit_scale, 0.0)
}
