//! Nemotron H: each layer is one block: Mamba 2, attention without RoPE, or a feed-forward block with squared ReLU.
//! Experts may work at a narrower width.

use crate::error::Result;
use crate::graph::op::Activation::Relu2;
use crate::graph::op::{RouterScore, TensorId};
use crate::model::builder::{Attention, Builder, Moe, Traits};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { predicts: name == "nemotron_h_moe", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, shape) = (b.heads_per_layer()?, b.mamba_shape()?);
    let ffn = b.per_layer("feed_forward_length")?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?.map(|moe| Moe { activation: Relu2, ..moe });
    b.keys.ignore("rope.");
    // The tensors determine this width.
    b.keys.ignore("moe_latent_size");
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match (ffn[i], heads[i], moe) {
            (1.., _, Some(moe)) if b.has("ffn_gate_inp.weight") => mixture(b, h, moe)?,
            (width @ 1.., _, _) => {
                b.hyper.ffn = width;
                b.plain_ffn(h, Relu2)?
            }
            (0, Some(heads), _) => b.attention(h, Attention::new(heads), |_, _, _| Ok(()))?,
            (0, None, _) => b.mamba2(h, shape, true)?,
        };
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Experts, between a down and an up projection if the file has them, plus a shared expert.
fn mixture(b: &mut Builder, h: TensorId, moe: Moe) -> Result<TensorId> {
    let scores = b.project(h, "ffn_gate_inp", moe.n_experts)?;
    let is_latent = b.has("ffn_latent_down.weight");
    let narrow = if is_latent { b.project_all(h, "ffn_latent_down")? } else { h };
    let mut out = b.scored_experts(narrow, scores, moe)?;
    if is_latent {
        out = b.project(out, "ffn_latent_up", b.hyper.hidden)?;
    }
    let shared = b.shared_expert(h, Relu2)?;
    b.join(out, shared);
    Ok(out)
}
