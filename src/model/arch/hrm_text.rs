//! HRM Text: two alternating stacks of layers; the low one runs several times per run of the high one. Every run of a
//! layer has a KV cache of its own; norms are unweighted.

use crate::error::{Error, Result};
use crate::graph::op::Activation::Silu;
use crate::graph::op::NormKind::Rms;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, hidden) = (b.hyper.heads, b.hyper.hidden);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let [depth, cycles, low_cycles] =
        [b.width("hrm.layers_per_stack")?, b.width("hrm.h_cycles")?, b.width("hrm.l_cycles")?];
    let n_layers = depth.saturating_mul(cycles).saturating_mul(low_cycles + 1);
    if n_layers != b.hyper.n_layers {
        let what = format!("{} layers of {cycles} times {low_cycles} and one stacks of {depth}", b.hyper.n_layers);
        return Err(Error::unsupported(what));
    }
    // Bidirectional attention within a prompt needs a mark by the caller, which does not exist here.
    b.keys.ignore("hrm.prefix_lm");
    let scale = b.keys.float("embedding_scale")?.unwrap_or(1.0);
    let mut high = b.embed(scale)?;
    let mut low = b.copy(high, hidden);
    let start = b.tensors.vector("hrm.z_l_init", hidden)?;
    b.fill(low, start);
    let mut x = low;
    b.layers(|b, i| {
        let (iteration, at) = (i / depth, i % depth);
        let is_high = iteration % (low_cycles + 1) == low_cycles;
        b.take_block(at + if is_high { depth } else { 0 });
        if at == 0 {
            x = b.copy(high, hidden);
            b.join(x, low);
        }
        let h = b.bare_norm(Rms, x);
        let [q, k, v] = b.qkv(h, heads)?;
        let gate = b.project(h, "attn_gate", heads.n_heads * heads.value_dim)?;
        b.rotate(rope, q, k);
        let a = b.attend([q, k, v], Attention::new(heads))?;
        b.gate_by_sigmoid(a, gate);
        let o = b.project(a, "attn_output", hidden)?;
        b.add(x, o);
        let h = b.bare_norm(Rms, x);
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        if at + 1 == depth {
            let out = b.bare_norm(Rms, x);
            *(if is_high { &mut high } else { &mut low }) = out;
        }
        Ok(())
    })?;
    b.head(high, 1.0, 0.0)
}
