//! GPT-2 and the first StarCoder: LayerNorm, learned positions, biases everywhere, one tensor for q, k and v, GELU.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    b.keys.ignore("rope.");
    let x = b.embed(1.0)?;
    b.add_positions(x)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let qkv = b.qkv(h, heads)?;
        let a = b.attend(qkv, Attention::new(heads))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Gelu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
