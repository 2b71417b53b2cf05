//! gpt-oss: attention sinks, biases everywhere, experts with a clamped SwiGLU, a sliding window in every other layer.

use crate::error::Result;
use crate::graph::op::{Activation, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let windows = b.windows(b.keys.size("attention.sliding_window")?.unwrap_or(128), 2)?;
    let mut moe = b.moe(false)?;
    if let Some(moe) = &mut moe {
        moe.activation = Activation::ClampedSwiglu;
        moe.routing.score = RouterScore::SoftmaxOfChosen;
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "post_attention_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
