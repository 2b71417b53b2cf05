//! Grok: norms before and after each block, soft-capped scores, scales of embedding, scores and logits; experts with
//! GELU, in the second generation parallel to a dense block.

use std::f32::consts::FRAC_1_SQRT_2;

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::TensorId;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    // Defaults of files without scales: the first generation's.
    let declared = |key: &str, default: f32| Ok::<f32, crate::error::Error>(b.keys.float(key)?.unwrap_or(default));
    let scale = declared("attention.output_scale", 0.088_388_35)?;
    let (embedding, logit) = (declared("embedding_scale", 78.383_675)?, declared("logit_scale", 0.577_350_26)?);
    let softcap = b.softcap("attn_logit_softcapping", 30.0)?;
    let logit_softcap = b.softcap("final_logit_softcapping", 0.0)?;
    // Declared for contexts beyond the trained one, where the network does not change.
    b.keys.get("attention.temperature_length");
    let moe = b.moe(true)?;
    let x = b.embed(embedding)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let attention = Attention { scale, softcap, ..Attention::new(heads) };
        let o = b.rotary_attention(h, attention, rope)?;
        b.rms_norm_groups(o, "attn_output_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = feed_forward(b, h, moe)?;
        let norm = if b.has("layer_output_norm.weight") { "layer_output_norm" } else { "post_ffw_norm" };
        b.rms_norm_groups(o, norm, b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, logit, logit_softcap)
}

/// The experts, or `(experts + dense) / sqrt(2)`.
fn feed_forward(b: &mut Builder, h: TensorId, moe: Option<Moe>) -> Result<TensorId> {
    let Some(mut moe) = moe else { return b.gated_ffn(h, Gelu) };
    moe.activation = Gelu;
    if !b.has("ffn_up.weight") {
        return b.experts(h, moe);
    }
    moe.routing.scale *= FRAC_1_SQRT_2;
    let (o, dense) = (b.experts(h, moe)?, b.gated_ffn(h, Gelu)?);
    b.add_scaled(o, dense, FRAC_1_SQRT_2);
    Ok(o)
}
