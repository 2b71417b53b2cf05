//! Trinity: gated attention, norms before and after each block, QK norm, a sliding window and RoPE in three of four
//! layers; experts as declared by the file, dense first layers.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::RopeConfig;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
    let local = RopeConfig { base, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = b.windows_of_period(4)?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    b.leave_out(&["attn_output.bias"]);
    let x = b.embed((b.hyper.hidden as f32).sqrt())?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        let gate = b.project(h, "attn_gate", heads.n_heads * heads.head_dim)?;
        b.head_norms(q, k)?;
        if (i + 1) % 4 != 0 {
            b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        }
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        b.gate_by_sigmoid(a, gate);
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
