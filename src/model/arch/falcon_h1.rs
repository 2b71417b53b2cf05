//! Falcon H1: attention and a Mamba 2 block in parallel in every layer. Folders declare scales of products, which GGUF
//! files include in the weights.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, mut shape) = (b.hyper.heads, b.mamba_shape()?);
    b.keys.ignore("attention.recurrent_layers");
    b.leave_out(&["attn_output.bias", "rope_freqs.weight"]);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let factor = |key: &str| Ok(b.keys.float(key)?.unwrap_or(1.0));
    let (embedding, head) = (factor("embedding_scale")?, factor("logit_scale")?);
    let (attended, scanned) = (factor("attention.output_scale")?, factor("ssm.output_scale")?);
    let (gated, fed) = (factor("feed_forward.gate_scale")?, factor("feed_forward.output_scale")?);
    if b.keys.get("ssm.input_scales").is_some()
        && let Some(factors) = b.keys.floats("ssm.input_scales")?.as_deref()
    {
        shape.factors = factors.try_into().map_err(|_| b.keys.unsupported("ssm.input_scales"))?;
    }
    let mut attention = Attention::new(heads);
    attention.scale = b.keys.float("attention.scale")?.unwrap_or(attention.scale);
    let x = b.embed(embedding)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        let m = b.mamba2(h, shape, false)?;
        b.add_scaled(x, o, attended);
        b.add_scaled(x, m, scanned);
        let h = b.rms_norm(x, "ffn_norm")?;
        let ([(gate, factor)], [up]) = (b.split(h, "ffn_gate", [b.hyper.ffn])?, b.split(h, "ffn_up", [b.hyper.ffn])?);
        let [gate, up] = b.push_projections(h, [(gate, factor * gated), up]);
        let o = b.gate(gate, up, Silu);
        let o = b.project(o, "ffn_down", b.hyper.hidden)?;
        b.add_scaled(x, o, fed);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, head, 0.0)
}
