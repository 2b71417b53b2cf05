//! PLaMo 2: Mamba 2's scan in a block like Mamba 1's, attention in a few layers, norms around each block.

use crate::error::Result;
use crate::graph::op::Activation::{Silu, Softplus};
use crate::graph::op::TensorId;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::mixers::MambaShape;

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, shape) = (b.heads_per_layer()?, b.mamba_shape()?);
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(heads) => b.attention(h, Attention::new(heads), |b, q, k| {
                b.head_norms(q, k)?;
                b.rotate(rope, q, k);
                Ok(())
            })?,
            None => mamba(b, h, shape)?,
        };
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Gate and input are interleaved by head; the scan's inputs are projected from the convolution's output.
fn mamba(b: &mut Builder, h: TensorId, shape: MambaShape) -> Result<TensorId> {
    let MambaShape { inner, state, rank: heads, taps, .. } = shape;
    if !inner.is_multiple_of(heads) {
        return Err(b.keys.unsupported("ssm.time_step_rank"));
    }
    let parts = b.split_heads(h, "ssm_in", heads, [inner / heads; 2])?;
    let [z, x] = b.push_projections(h, parts);
    b.conv([x], "ssm_conv1d", taps, true)?;
    let rank = (b.hyper.hidden / 16).max(64);
    let parts = b.split(x, "ssm_x", [state, state, rank])?;
    let [w, r, dt] = b.push_projections(x, parts);
    for (x, part, width) in [(w, "ssm_b_norm", state), (r, "ssm_c_norm", state), (dt, "ssm_dt_norm", rank)] {
        b.rms_norm_groups(x, part, width)?;
    }
    let dt = b.project(dt, "ssm_dt", heads)?;
    b.activate(dt, Softplus);
    let y = b.scan_heads(x, dt, [w, r], state)?;
    let y = b.gate(z, y, Silu);
    b.project(y, "ssm_out", b.hyper.hidden)
}
