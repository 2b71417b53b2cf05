//! EXAONE 4: norms on the output of each block, QK norm per head. The largest, recognized by its number of layers, has
//! a sliding window in three of four layers, and RoPE only in those.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

const LAYERS_OF_LARGEST: usize = 64;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let window = b.keys.size("attention.sliding_window")?.unwrap_or(4096);
    let windows = match b.hyper.n_layers {
        LAYERS_OF_LARGEST => b.windows(window, 4)?,
        n => {
            b.keys.get("attention.sliding_window_pattern");
            vec![0; n]
        }
    };
    let all_full = windows.iter().all(|window| *window == 0);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let o = b.attention(x, Attention::windowed(heads, windows[i]), |b, q, k| {
            b.head_norms(q, k)?;
            if windows[i] > 0 || all_full {
                b.rotate(rope, q, k);
            }
            Ok(())
        })?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let o = b.gated_ffn(x, Silu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
