//! Hunyuan, dense and MoE, and Maincoder: QK norm per head after RoPE, whose base may be scaled.

use crate::error::Result;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::sections;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let is_maincoder = b.keys.architecture == "maincoder";
    let mut rope = b.rope_config(if is_maincoder { RopePairs::Adjacent } else { RopePairs::Halves })?;
    if let Some(alpha) = b.keys.float("rope.scaling.alpha")? {
        let width = heads.head_dim as f64;
        rope.base = (f64::from(rope.base) * libm::pow(f64::from(alpha), width / (width - 2.0))) as f32;
    }
    // M-RoPE sections; in models where they have no effect, all components are equal in text.
    let sections = sections(&b.keys, false)?;
    rope.sections = sections.filter(|_| b.keys.architecture == "hunyuan_vl");
    let rope = b.rope(&rope)?;
    let moe = b.moe(true)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rotate(rope, q, k);
        b.rms_norm_groups(q, "attn_q_norm", heads.head_dim)?;
        b.rms_norm_groups(k, "attn_k_norm", heads.head_dim)?;
        let a = b.attend([q, k, v], Attention::new(heads))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
