//! Granite and MiniCPM: Llama with scales of embedding, residual stream, attention and logits; optional experts and a
//! shared expert. Granite with sliding windows has attention sinks, and lists the layers with a window and those with
//! RoPE. HyperCLOVA X normalizes the output of blocks.

use crate::error::Result;
use crate::graph::op::Mask;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Adjacent)?;
    // A file declares that the network has no RoPE.
    let rope = match b.hyper.architecture != "granite" || b.keys.flag("rope.scaling.finetuned")?.unwrap_or(true) {
        true => Some(b.rope(&config)?),
        false => None,
    };
    let is_minicpm = b.hyper.architecture == "minicpm";
    let mut attention = Attention::new(heads);
    if !is_minicpm {
        attention.scale = b.keys.float("attention.scale")?.unwrap_or(attention.scale);
    }
    // MiniCPM's scales follow from its size if the file does not declare them. The last one is a divisor.
    let (depth, width) = (b.hyper.n_layers as f32, b.hyper.hidden as f32);
    let [embedding, residual, logit] = if is_minicpm { [12.0, 1.4 / depth.sqrt(), width / 256.0] } else { [1.0; 3] };
    b.residual_scale = b.keys.float("residual_scale")?.unwrap_or(residual);
    let logit_scale = 1.0 / b.keys.float("logit_scale")?.unwrap_or(logit);
    let (windows, rotates) = match b.keys.architecture {
        "granite_swa" => (b.windows(b.keys.require_size("attention.sliding_window")?, 0)?, b.rotating_layers()?),
        _ => (vec![0; b.hyper.n_layers], vec![true; b.hyper.n_layers]),
    };
    let post_norms = b.keys.flag("post_norms")?.unwrap_or(false);
    let moe = b.moe(true)?;
    let x = b.embed(b.keys.float("embedding_scale")?.unwrap_or(embedding))?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        if let Some(rope) = rope.filter(|_| rotates[i]) {
            b.rotate(rope, q, k);
        }
        let a = b.attend([q, k, v], Attention { mask: Mask::window(windows[i]), ..attention })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        if post_norms {
            b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        if post_norms {
            b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, logit_scale, 0.0)
}
