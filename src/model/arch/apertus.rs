//! Apertus: Qwen 3 with xIELU (arXiv 2411.13010), whose parameters are a layer's own, and no gate.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let curves = b.xielu()?;
    // The network has no place for them.
    b.leave_out(&["attn_q_norm.bias", "attn_k_norm.bias"]);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let up = b.project(h, "ffn_up", b.hyper.ffn)?;
        b.bend(up, curves[i]);
        let o = b.project(up, "ffn_down", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
