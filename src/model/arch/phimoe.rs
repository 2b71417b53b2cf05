//! Phi 3.5 MoE: LayerNorm, experts in every layer with SparseMixer routing, LongRoPE as in Phi 3.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = super::phi3::rope(b)?;
    let windows = b.declared_windows()?;
    let mut moe = b.moe(false)?;
    if let Some(moe) = &mut moe {
        moe.routing.score = RouterScore::SparseMixer;
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.layer_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
