//! GLM 4.5 to 4.7 MoE: a sigmoid router with a selection bias, a shared expert, dense first layers; the norm before the
//! feed-forward block is named after attention.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::sections;

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.sections = sections(&b.keys, false)?;
    let rope = b.rope(&config)?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let layer = |b: &mut Builder, x| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            if b.has("attn_q_norm.weight") {
                b.head_norms(q, k)?;
            }
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "post_attention_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    };
    let x = b.embed(1.0)?;
    b.layers(|b, _| layer(b, x))?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)?;
    b.predictor(layer)
}
