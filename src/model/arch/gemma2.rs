//! Gemma 2: norms on both sides of each block, soft-capped scores and logits, every other layer sees a window.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::TensorId;
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
    let x = b.embed((b.hyper.hidden as f32).sqrt())?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention { scale, softcap, ..Attention::windowed(heads, windows[i]) }, rope)?;
        norm_behind(b, o, "post_attention_norm")?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Gelu)?;
        norm_behind(b, o, "post_ffw_norm")?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, logit_softcap)
}

/// Normalises what a block gives, but in VaultGemma, which has no such norms.
fn norm_behind(b: &mut Builder, o: TensorId, part: &str) -> Result<()> {
    match b.is_folder() && !b.has(&format!("{part}.weight")) {
        true => Ok(()),
        false => b.rms_norm_groups(o, part, b.hyper.hidden),
    }
}

/// The largest Gemma of a generation, known by its number of layers, scales by the width of the model a head.
pub fn attention_scale(b: &Builder, layers_of_largest: usize) -> Result<f32> {
    let width = match b.hyper.n_layers == layers_of_largest {
        true => b.hyper.hidden / b.hyper.heads.n_heads,
        false => b.hyper.heads.head_dim,
    };
    Ok(b.keys.float("attention.scale")?.unwrap_or(1.0 / (width as f32).sqrt()))
}
