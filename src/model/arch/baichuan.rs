//! Baichuan: Llama with RoPE, or in the 13B with ALiBi.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

/// Number of layers of the 7B, the only one with RoPE, and of the 13B.
const LAYERS: [usize; 2] = [32, 40];

pub fn build(b: &mut Builder) -> Result<()> {
    let [is_7b, is_13b] = LAYERS.map(|n| b.hyper.n_layers == n);
    let max_alibi = if is_13b { 8.0 } else { 0.0 };
    let attention = Attention { max_alibi, ..Attention::new(b.hyper.heads) };
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    b.keys.get("attention.max_alibi_bias");
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, attention, |b, q, k| {
            if is_7b {
                b.rotate(rope, q, k);
            }
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
