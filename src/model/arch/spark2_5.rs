//! Spark 2.5: a gate per attention head, GeGLU, a sliding window in the layers that the file lists.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::RopeConfig;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
    let n_dims = b.keys.size("rope.dimension_count_swa")?.unwrap_or(config.n_dims);
    if !n_dims.is_multiple_of(2) || n_dims > heads.head_dim {
        return Err(b.keys.unsupported("rope.dimension_count_swa"));
    }
    let local = RopeConfig { base, n_dims, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = b.windows(b.keys.require_size("attention.sliding_window")?, 0)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        let gate = b.project(h, "attn_gate", heads.n_heads)?;
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        b.gate_by_sigmoid(a, gate);
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Gelu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
