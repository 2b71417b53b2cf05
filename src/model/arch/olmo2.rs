//! OLMo 2 and 3: norms on the output of each block instead of its input, QK norm over all heads. OLMo 3 has
//! sliding-window layers with unscaled RoPE; FlexOlmo has experts.

use crate::error::Result;
use crate::graph::op::{RopeChoice, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe};
use crate::model::rope::{RopeConfig, RopeScaling};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let local = RopeConfig { scaling: RopeScaling::None, magnitude: 1.0, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) => b.windows(window, 4)?,
        None => b.declared_windows()?,
    };
    let moe = b.moe(false)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let rope = if windows[i] > 0 { local } else { rope };
        layer(b, x, Attention::windowed(heads, windows[i]), Some(rope), moe)
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

pub(super) fn layer(
    b: &mut Builder,
    x: TensorId,
    attention: Attention,
    rope: Option<RopeChoice>,
    moe: Option<Moe>,
) -> Result<()> {
    let o = b.attention(x, attention, |b, q, k| {
        b.full_norms(q, k)?;
        rope.into_iter().for_each(|rope| b.rotate(rope, q, k));
        Ok(())
    })?;
    b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
    b.add(x, o);
    let o = b.moe_ffn(x, moe)?;
    b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
    b.add(x, o);
    Ok(())
}
