//! PLaMo: parallel attention and feed-forward blocks on one norm.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut rope = b.rope_config(RopePairs::Halves)?;
    // RoPE covers whole heads, whatever the file says.
    rope.n_dims = heads.head_dim;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::new(heads), rope)?;
        let f = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        b.add(x, f);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
