//! Llama 1 to 3, Mistral, SmolLM2, TinyLlama: RMSNorm, RoPE, SwiGLU, grouped-query attention. Mixtral adds experts;
//! InternLM 2, XVERSE and ChatGLM 3 are equal under other names. Llama Embed has bidirectional attention.

use crate::error::Result;
use crate::graph::op::{Mask, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    // GGUF files of this architecture have the rows of q and k in adjacent-pair order.
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let windows = b.declared_windows()?;
    let encoder = b.hyper.architecture == "llama-embed";
    // Softmax over the selected experts equals renormalized softmax over all.
    let mut moe = b.moe(true)?;
    if let Some(moe) = &mut moe {
        moe.routing.score = RouterScore::SoftmaxOfChosen;
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let mask = if encoder { Mask::around(windows[i]) } else { Mask::window(windows[i]) };
        let o = b.rotary_attention(h, Attention { mask, ..Attention::new(heads) }, rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    if encoder {
        b.end_with_states(h);
        return Ok(());
    }
    b.head(h, 1.0, 0.0)
}
