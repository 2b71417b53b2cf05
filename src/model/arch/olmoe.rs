//! OLMoE and MiniMax M2: QK norm over all heads together, experts in every layer. OLMoE uses softmax weights as they
//! are; MiniMax's routing is declared by the file, with renormalized weights.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let is_minimax = b.hyper.architecture == "minimax-m2";
    let mut moe = if is_minimax { b.declared_moe(RouterScore::Sigmoid)? } else { b.moe(false)? };
    if let Some(moe) = &mut moe {
        moe.routing.renormalize |= is_minimax;
    }
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            b.full_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
