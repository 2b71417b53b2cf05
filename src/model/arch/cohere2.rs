//! Command R and R7B: parallel attention and feed-forward blocks on one LayerNorm, scaled logits. From the second
//! generation on, three of four layers have a sliding window, and only those have RoPE. In the MoE models the sum of
//! routed and shared experts is halved, norms may be RMS norms, and dense layers have RoPE too.

use crate::error::Result;
use crate::graph::op::{NormKind, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { predicts: name == "cohere2moe", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let [is_first, is_mixture] = ["command-r", "cohere2moe"].map(|name| b.keys.architecture == name);
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) if is_mixture => b.windows_after_full(window, 4)?,
        Some(window) if !is_first => b.windows(window, 4)?,
        Some(_) => return Err(b.keys.unsupported("attention.sliding_window")),
        None => b.declared_windows()?,
    };
    let n_dense = if is_mixture { b.keys.size("leading_dense_block_count")?.unwrap_or(0) } else { 0 };
    let all_have_rope = !is_mixture && windows.iter().all(|window| *window == 0);
    let moe = if is_mixture { b.declared_moe(RouterScore::Sigmoid)? } else { None };
    let is_rms = is_mixture && b.keys.float("attention.layer_norm_rms_epsilon")?.is_some();
    let kind = if is_rms { NormKind::Rms } else { NormKind::Layer };
    let logit_scale = b.keys.float("logit_scale")?.unwrap_or(1.0);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.normed(kind, x, "attn_norm")?;
        let has_rope = windows[i] > 0 || i < n_dense || all_have_rope;
        let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
            if has_rope {
                b.rotate(rope, q, k);
            }
            Ok(())
        })?;
        let f = b.moe_ffn(h, moe)?;
        b.add(x, o);
        b.add_scaled(x, f, if b.has("ffn_up_shexp.weight") { 0.5 } else { 1.0 });
        Ok(())
    })?;
    let h = b.normed(kind, x, "output_norm")?;
    b.head(h, logit_scale, 0.0)
}
