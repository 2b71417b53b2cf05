//! Command R and R7B: attention and feed-forward block side by side on one LayerNorm, logits scaled. In the second
//! generation three layers of four see a window, and those alone turn.

use crate::backend::op::Activation::Silu;
use crate::backend::weights::RopePairs;
use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let second = b.hyper.architecture == "cohere2";
    b.ffn_scales = second;
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) if second => b.windows(window, 4)?,
        Some(_) => return Err(b.keys.unsupported("attention.sliding_window")),
        None => b.windows_if_told()?,
    };
    let any_window = windows.iter().any(|window| *window > 0);
    let logit_scale = b.keys.float("logit_scale")?.unwrap_or(1.0);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.layer_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        if windows[i] > 0 || !any_window {
            b.rotate(rope, q, k);
        }
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        let f = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        b.add(x, f);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, logit_scale, 0.0)
}
