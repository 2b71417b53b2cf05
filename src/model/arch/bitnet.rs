//! BitNet b1.58: Llama with a norm before the last product of each block, and a scale per matrix.

use crate::error::Result;
use crate::graph::op::Activation::{Relu2, Silu};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    // The files of BitNet b1.58 2B4T, recognized by their shape, do not declare their activation function.
    let is_2b = (b.hyper.n_layers, b.hyper.hidden, b.hyper.ffn) == (30, 2560, 6912);
    let activation = match b.keys.str("hidden_activation")? {
        Some("relu2") => Relu2,
        None if is_2b => Relu2,
        None | Some("silu") => Silu,
        Some(_) => return Err(b.keys.unknown("hidden_activation", &["silu", "relu2"])),
    };
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::new(heads))?;
        b.rms_norm_groups(a, "attn_sub_norm", heads.n_heads * heads.value_dim)?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let inner = b.gated(h, activation)?;
        b.rms_norm_groups(inner, "ffn_sub_norm", b.hyper.ffn)?;
        let o = b.project(inner, "ffn_down", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
