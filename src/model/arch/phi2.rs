//! Phi 1.5 and 2, GPT-J and CodeGen: parallel attention and feed-forward blocks on one LayerNorm, partial RoPE.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let pairs = if b.keys.architecture == "gptj" { RopePairs::Adjacent } else { RopePairs::Halves };
    let rope = b.rope_config(pairs)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::new(heads), rope)?;
        let f = b.plain_ffn(h, Gelu)?;
        b.add(x, o);
        b.add(x, f);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
