//! Ministral 3 and Devstral 2: Llama with YaRN, and queries scaled by the logarithm of positions beyond the trained
//! context.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::RopeScaling;

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let context = b.hyper.context_length as usize;
    let trained = b.keys.size("rope.scaling.original_context_length")?.unwrap_or(context).max(1);
    let slope = b.keys.float("attention.temperature_scale")?.unwrap_or(0.0);
    let mut config = b.rope_config(RopePairs::Adjacent)?;
    if let (RopeScaling::Yarn { factor, .. }, Some(multiplier)) =
        (&config.scaling, b.keys.float("rope.scaling.yarn_log_multiplier")?)
    {
        config.magnitude /= 1.0 + 0.1 * multiplier * libm::logf(factor.max(1.0));
    }
    let rope = b.rope(&config)?;
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            b.rotate(rope, q, k);
            b.scale_by_position(q, slope, trained, 0);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
