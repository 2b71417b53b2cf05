//! Granite: Llama with factors on embedding, residual stream, attention and logits.

use crate::backend::op::Activation::Silu;
use crate::backend::weights::RopePairs;
use crate::error::Result;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Adjacent)?;
    // A file says so where the network has no positions.
    let rope = match b.keys.flag("rope.scaling.finetuned")?.unwrap_or(true) {
        true => Some(b.rope(&config)?),
        false => None,
    };
    let scale = b.keys.float("attention.scale")?.unwrap_or(Attention::new(heads).scale);
    b.residual_scale = b.keys.float("residual_scale")?.unwrap_or(1.0);
    // The file's number divides.
    let logit_scale = 1.0 / b.keys.float("logit_scale")?.unwrap_or(1.0);
    let x = b.embed(b.keys.float("embedding_scale")?.unwrap_or(1.0))?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        if let Some(rope) = rope {
            b.rotate(rope, q, k);
        }
        let a = b.attend([q, k, v], Attention { scale, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, logit_scale, 0.0)
}
