//! GPT-NeoX and Pythia: LayerNorm and biases, partial RoPE; attention and feed-forward blocks are parallel with a norm
//! each, or sequential if the file says so.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let parallel = b.keys.flag("use_parallel_residual")?.unwrap_or(true);
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::new(heads), rope)?;
        if !parallel {
            b.add(x, o);
        }
        let h = b.layer_norm(x, "ffn_norm")?;
        let f = b.plain_ffn(h, Gelu)?;
        if parallel {
            b.add(x, o);
        }
        b.add(x, f);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
