//! Qwen 3: queries and keys are normalised head by head, and the heads together may be wider than the model. The
//! mixture has experts in every layer, chosen by a softmax over all of them.

use crate::backend::op::Activation::Silu;
use crate::backend::weights::RopePairs;
use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let moe = if b.hyper.architecture == "qwen3moe" { b.moe(true)? } else { None };
    b.ffn_scales = true;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rms_norm_groups(q, "attn_q_norm", heads.head_dim)?;
        b.rms_norm_groups(k, "attn_k_norm", heads.head_dim)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::new(heads))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = match moe {
            Some(moe) => b.experts(h, moe)?,
            None => b.gated_ffn(h, Silu)?,
        };
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
