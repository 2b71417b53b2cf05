//! MiniMax Text 01: lightning attention, softmax attention in one of eight layers. Residuals are the normalized input
//! times a scale. Experts in every layer.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::{NormKind, Op, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let Some(scale) = b.keys.float("residual_scale")? else { return Err(b.keys.unsupported("residual_scale")) };
    let is_lightning = b.recurrent_layers(8)?;
    let moe = b.moe(true)?;
    let mut x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match is_lightning[i] {
            true => lightning(b, h, i)?,
            false => b.rotary_attention(h, attention, rope)?,
        };
        b.add_scaled(o, h, scale);
        let h = b.rms_norm(o, "ffn_norm")?;
        x = b.moe_ffn(h, moe)?;
        b.add_scaled(x, h, scale);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Lightning attention; the decay rates of heads decrease from layer to layer.
fn lightning(b: &mut Builder, h: TensorId, layer: usize) -> Result<TensorId> {
    let (heads, dim) = (b.hyper.heads.n_heads, b.hyper.heads.head_dim);
    let parts = b.split_heads(h, "attn_qkv", heads, [dim; 3])?;
    let qkv = b.push_projections(h, parts);
    qkv.into_iter().for_each(|x| b.activate(x, Silu));
    let depth = 1.0 - layer as f64 / (b.hyper.n_layers.max(2) - 1) as f64 + 1e-5;
    let rate = |head: usize| -libm::exp2(-8.0 * (head + 1) as f64 / heads as f64) * depth;
    let o = b.lightning_attention(qkv, (0..heads).map(|head| rate(head) as f32).collect())?;
    // In GGUF files the epsilon of all norms applies, in checkpoints a constant.
    let mut norm = b.norm(NormKind::Rms, "attn_norm_2", 1, heads * dim)?;
    norm.eps = if b.is_folder() { 1e-6 } else { norm.eps };
    b.program.push(Op::Norm { norm, x: o, out: o });
    let gate = b.project(h, "attn_gate", heads * dim)?;
    b.gate_by_sigmoid(o, gate);
    b.project(o, "attn_output", b.hyper.hidden)
}
