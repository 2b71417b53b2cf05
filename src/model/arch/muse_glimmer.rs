//! Muse Glimmer: an unweighted norm on the embedding, gated attention, norms before and after each block, QK norm;
//! three of four layers have a sliding window, and only those have RoPE.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::NormKind::Rms;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

/// Epsilon of the norms after blocks.
const POST_EPS: f32 = 1e-8;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Adjacent)?;
    config.base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
    let rope = b.rope(&config)?;
    let windows = b.windows_of_period(4)?;
    let logit_scale = b.keys.float("logit_scale")?.unwrap_or(1.0);
    let softcap = b.softcap("final_logit_softcapping", 0.0)?;
    b.leave_out(&["attn_output.bias"]);
    let embedded = b.embed(1.0)?;
    let x = b.bare_norm(Rms, embedded);
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        let gate = b.project(h, "attn_gate", heads.n_heads * heads.head_dim)?;
        b.head_norms(q, k)?;
        if windows[i] > 0 {
            b.rotate(rope, q, k);
        }
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        b.gate_by_sigmoid(a, gate);
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.rms_norm_with_eps(o, "post_attention_norm", POST_EPS)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.rms_norm_with_eps(o, "post_ffw_norm", POST_EPS)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, logit_scale, softcap)
}
