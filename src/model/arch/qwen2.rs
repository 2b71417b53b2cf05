//! Qwen 2 and 2.5: Llama with biases on q, k and v, in half-split rotary order. The networks that see images are the same on
//! text.

use crate::backend::op::Activation::Silu;
use crate::backend::weights::RopePairs;
use crate::error::Result;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::sections;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Halves)?;
    if b.hyper.architecture == "qwen2vl" {
        config.sections = sections(&b.keys, false)?;
        b.output_bias = false;
    }
    let rope = b.rope(&config)?;
    let windows = b.windows_if_told()?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
