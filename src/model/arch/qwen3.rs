//! Qwen 3: QK norm per head, and heads that may be wider together than the residual stream. The MoE models have experts
//! in every layer, with softmax over all. In vision models, image rows are also added after the first layers
//! (DeepStack).

use crate::error::Result;
use crate::graph::op::Op;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::sections;

fn sees_images(name: &str) -> bool {
    name.starts_with("qwen3vl") || name == "qwen3tts"
}

pub const TRAITS: fn(&str) -> Traits =
    |name| Traits { softmax_classifier: matches!(name, "qwen3" | "qwen3vl"), ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Halves)?;
    let mut n_deep = 0;
    if sees_images(b.keys.architecture) {
        config.sections = sections(&b.keys, true)?;
        n_deep = b.keys.size("n_deepstack_layers")?.unwrap_or(0);
    }
    let rope = b.rope(&config)?;
    let moe = if b.hyper.architecture.ends_with("moe") { b.moe(true)? } else { None };
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rms_norm_groups(q, "attn_q_norm", heads.head_dim)?;
        b.rms_norm_groups(k, "attn_k_norm", heads.head_dim)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::new(heads))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        if i < n_deep {
            b.program.push(Op::AddMedia { x, part: 1 + i });
        }
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
