//! Gemma 2: norms before and after each block, soft-capped scores and logits, a sliding window in every other layer.
//! VaultGemma has no norms after blocks.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let softcap = b.softcap("attn_logit_softcapping", 50.0)?;
    let logit_softcap = b.softcap("final_logit_softcapping", 30.0)?;
    let scale = attention_scale(b, 46)?;
    let windows = b.windows(b.keys.size("attention.sliding_window")?.unwrap_or(4096), 2)?;
    let post_norms = b.keys.flag("post_norms")?.unwrap_or(true);
    let x = b.embed((b.hyper.hidden as f32).sqrt())?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention { scale, softcap, ..Attention::windowed(heads, windows[i]) }, rope)?;
        if post_norms {
            b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Gelu)?;
        if post_norms {
            b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, logit_softcap)
}

/// Scale of scores. The largest Gemma of a generation uses `hidden / n_heads` instead of the head width.
pub fn attention_scale(b: &Builder, layers_of_largest: usize) -> Result<f32> {
    let width = match b.hyper.n_layers == layers_of_largest {
        true => b.hyper.hidden / b.hyper.heads.n_heads,
        false => b.hyper.heads.head_dim,
    };
    Ok(b.keys.float("attention.scale")?.unwrap_or(1.0 / (width as f32).sqrt()))
}
