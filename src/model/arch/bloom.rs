//! BLOOM: LayerNorm, also on the embedding, ALiBi instead of RoPE, GELU.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    b.keys.ignore("rope.");
    let max_alibi = b.keys.float("attention.max_alibi_bias")?.unwrap_or(8.0);
    let attention = Attention { max_alibi, ..Attention::new(b.hyper.heads) };
    let embedded = b.embed(1.0)?;
    let x = b.layer_norm(embedded, "token_embd_norm")?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |_, _, _| Ok(()))?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Gelu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
