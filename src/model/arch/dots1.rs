//! dots.llm1, Ling 2 and Hunyuan 3: Qwen 3's attention; a router declared by the file, a shared expert, dense first
//! layers.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { predicts: name != "dots1", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let is_hunyuan = b.keys.architecture == "hy_v3";
    let moe = b.declared_moe(if is_hunyuan { RouterScore::Sigmoid } else { RouterScore::Softmax })?;
    let layer = |b: &mut Builder, x| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        if is_hunyuan && b.has("ffn_gate_inp.weight") {
            b.ignore_dense_ffn();
        }
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
