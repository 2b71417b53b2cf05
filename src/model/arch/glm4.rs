//! GLM 4: norms before and after each block, gate and up in one tensor; RoPE on half of each head, in adjacent pairs,
//! or in halves in GGUF files with M-RoPE sections.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::sections;

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let sections = sections(&b.keys, false)?;
    let is_rotated = sections.is_some() && !b.is_folder();
    let pairs = if is_rotated { RopePairs::Halves } else { RopePairs::Adjacent };
    let mut config = b.rope_config(pairs)?;
    config.sections = sections;
    let rope = b.rope(&config)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
