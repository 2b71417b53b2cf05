//! DeciLM and Llama-Nemotron: Llama with layers that may lack attention, replace it by one matrix, or be empty.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let heads = b.heads(i)?;
        if !b.has_ffn(i)? {
            return Ok(());
        }
        if heads.n_heads > 0 {
            let h = b.rms_norm(x, "attn_norm")?;
            let o = match heads.n_kv_heads {
                0 => b.project(h, "attn_output", b.hyper.hidden)?,
                _ => b.rotary_attention(h, Attention::new(heads), rope)?,
            };
            b.add(x, o);
        }
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
