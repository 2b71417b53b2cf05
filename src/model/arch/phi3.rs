//! Phi 3 and 4: one tensor for q, k and v, one for gate and up; LongRoPE for long contexts.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::RopeChoice;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope;

/// LongRoPE if the file has its divisors.
pub fn rope(b: &mut Builder) -> Result<RopeChoice> {
    let mut config = b.rope_config(RopePairs::Halves)?;
    let context = b.hyper.context_length as usize;
    let trained = b.keys.size("rope.scaling.original_context_length")?.unwrap_or(context);
    if rope::attention_factor(&b.keys)?.is_none() && context > trained {
        let stretch = context as f64 / trained as f64;
        config.magnitude = (1.0 + libm::log(stretch) / libm::log(trained as f64)).sqrt() as f32;
    }
    match b.long_rope(&config, trained)? {
        Some(rope) => Ok(rope),
        None => b.rope(&config),
    }
}

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = rope(b)?;
    let windows = b.declared_windows()?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
