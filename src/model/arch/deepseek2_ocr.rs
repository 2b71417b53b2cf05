//! The text model of DeepSeek-OCR: ordinary attention, the experts of DeepSeek V2.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { ffn_scales: true, shared_scales: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let moe = b.told_moe(RouterScore::Softmax)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, attention, rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
