//! Jais and Refact: ALiBi instead of RoPE, SwiGLU. Jais has LayerNorm and divides scores by the head width; Refact has
//! no biases.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::NormKind;
use crate::model::builder::{Attention, Builder};

/// Unused tensors in files of Refact.
const BIASES: [&str; 5] = ["attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias", "rope_freqs.weight"];

pub fn build(b: &mut Builder) -> Result<()> {
    b.keys.ignore("rope.");
    let is_jais = b.keys.architecture == "jais";
    let (kind, max_alibi) = if is_jais { (NormKind::Layer, 0.0) } else { (NormKind::Rms, 8.0) };
    let max_alibi = b.keys.float("attention.max_alibi_bias")?.unwrap_or(max_alibi);
    let mut attention = Attention { max_alibi, ..Attention::new(b.hyper.heads) };
    if is_jais {
        attention.scale *= attention.scale;
    } else {
        b.leave_out(&BIASES);
    }
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.normed(kind, x, "attn_norm")?;
        let o = b.attention(h, attention, |_, _, _| Ok(()))?;
        b.add(x, o);
        let h = b.normed(kind, x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.normed(kind, x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
