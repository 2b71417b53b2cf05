//! EuroBERT and NeoBERT: Llama's layers with bidirectional attention.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::op::Mask;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let (pairs, output_norm) = match b.keys.architecture {
        "neo-bert" => (RopePairs::Adjacent, "enc.output_norm"),
        _ => (RopePairs::Halves, "output_norm"),
    };
    let rope = b.rope_config(pairs)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention { mask: Mask::All, ..Attention::new(heads) }, rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, output_norm)?;
    b.end_with_states(h);
    Ok(())
}
