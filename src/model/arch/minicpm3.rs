//! MiniCPM 3: MLA with LongRoPE, and MiniCPM's three scales, which GGUF files do not declare.

use super::phi3;
use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::Builder;
use crate::model::rope;

pub fn build(b: &mut Builder) -> Result<()> {
    let (hidden, n_layers) = (b.hyper.hidden as f32, b.hyper.n_layers as f32);
    if b.keys.size("attention.value_length")?.is_none() {
        b.hyper.heads.value_dim = b.hyper.hidden / b.hyper.heads.n_heads;
    }
    // Latent attention would scale scores by this factor.
    if rope::attention_factor(&b.keys)?.is_some_and(|factor| factor != 1.0) {
        return Err(b.keys.unsupported("rope.scaling.attn_factor"));
    }
    let rope = phi3::rope(b)?;
    let latent = b.latent(RopePairs::Halves, Some(rope))?;
    b.residual_scale = b.keys.float("residual_scale")?.unwrap_or(1.4 / n_layers.sqrt());
    let logit_scale = b.keys.float("logit_scale")?.unwrap_or(hidden / 256.0);
    let x = b.embed(b.keys.float("embedding_scale")?.unwrap_or(12.0))?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.latent_attention(h, latent)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0 / logit_scale, 0.0)
}
