//! PLM: MLA, and an ungated feed-forward block with squared ReLU.

use crate::error::Result;
use crate::graph::op::Activation::Relu2;
use crate::graph::weights::RopePairs;
use crate::model::builder::Builder;

pub fn build(b: &mut Builder) -> Result<()> {
    let latent = b.latent(RopePairs::Adjacent, None)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.latent_attention(h, latent)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Relu2)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
