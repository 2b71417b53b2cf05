//! DeepSeek's first MoE, Qwen 2 MoE, Ling, and the text model of DeepSeek-OCR: many small experts, dense first layers,
//! and a shared expert, gated in Qwen. The last two renormalize weights if the file says so.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let [is_qwen, is_ling, is_ocr] =
        ["qwen2moe", "bailingmoe", "deepseek2-ocr"].map(|name| b.keys.architecture == name);
    let rope = b.rope_config(if is_qwen || is_ocr { RopePairs::Halves } else { RopePairs::Adjacent })?;
    let rope = b.rope(&rope)?;
    let scale = if is_qwen { 1.0 } else { b.keys.float("expert_weights_scale")?.unwrap_or(1.0) };
    let mut moe = if is_ling || is_ocr { b.declared_moe(RouterScore::Softmax)? } else { b.moe(false)? };
    if let Some(moe) = &mut moe {
        moe.routing.scale = scale;
    }
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
