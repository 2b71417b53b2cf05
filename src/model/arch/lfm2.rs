//! LFM 2: most layers are short convolutions between two gates, the others attention.

use crate::error::Result;
use crate::graph::op::Activation::Identity;
use crate::graph::op::{RouterScore, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let taps = b.taps("shortconv.l_cache")?;
    // Every layer with attention has the window, which the mixture has not.
    let is_moe = b.hyper.architecture == "lfm2moe";
    let window = b.keys.size("attention.sliding_window")?.filter(|_| !is_moe).unwrap_or(0);
    ["attention.sliding_window_pattern", "leading_dense_block_count"].into_iter().for_each(|key| b.keys.ignore(key));
    let mut moe = if is_moe { b.told_moe(RouterScore::Softmax)? } else { None };
    if let Some(moe) = &mut moe {
        (moe.routing.renormalise, moe.routing.scale) = (true, 1.0);
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(heads) => b.attention(h, Attention::windowed(heads, window), |b, q, k| {
                b.head_norms(q, k)?;
                b.rotate(rope, q, k);
                Ok(())
            })?,
            None => short_convolution(b, h, taps)?,
        };
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "token_embd_norm")?;
    b.head(h, 1.0, 0.0)
}

/// `out_proj(c * conv(b * x))` for `[b | c | x] = in_proj(h)`.
fn short_convolution(b: &mut Builder, h: TensorId, taps: usize) -> Result<TensorId> {
    let hidden = b.hyper.hidden;
    let parts = b.split(h, "shortconv.in_proj", [hidden; 3])?;
    let [input_gate, output_gate, x] = b.push_projections(h, parts);
    let x = b.gate(input_gate, x, Identity);
    b.conv([x], "shortconv.conv", taps, false)?;
    let y = b.gate(output_gate, x, Identity);
    b.project(y, "shortconv.out_proj", hidden)
}
