//! StarCoder 2 and CodeShell: LayerNorm and biases as in GPT-2, RoPE, grouped-query attention.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { head_embeds: name == "codeshell", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let windows = b.declared_windows()?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Gelu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
