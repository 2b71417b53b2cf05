//! OLMo Hybrid: three of four layers are gated delta nets with Llama's norms, the others are OLMo 2's.

use super::olmo2;
use crate::error::Result;
use crate::graph::op::Activation::{Sigmoid, Silu, Softplus};
use crate::graph::op::{Norm, NormKind, Op, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::mixers::{DeltaInputs, MambaShape};

/// Epsilon of the norm of a delta net's output, independent of the others.
const OUTPUT_EPSILON: f32 = 1e-5;

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let config = b.rope_config(RopePairs::Halves)?;
    // A file declares that the network has no RoPE.
    let rope = match b.keys.flag("rope.scaling.finetuned")?.unwrap_or(true) {
        true => Some(b.rope(&config)?),
        false => None,
    };
    let (shape, is_recurrent) = (b.mamba_shape()?, b.recurrent_layers(4)?);
    // Beta may reach 2.
    let reach = b.keys.float("ssm.beta_scale")?.unwrap_or(1.0);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        if !is_recurrent[i] {
            return olmo2::layer(b, x, attention, rope, None);
        }
        let h = b.rms_norm(x, "attn_norm")?;
        let o = delta_net(b, h, shape, reach)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

fn delta_net(b: &mut Builder, h: TensorId, shape: MambaShape, reach: f32) -> Result<TensorId> {
    let MambaShape { inner: values, state: dim, rank: heads, taps, .. } = shape;
    if shape.groups != heads || !values.is_multiple_of(heads) {
        return Err(b.keys.unsupported("ssm.group_count"));
    }
    let ([q], [k]) = (b.split(h, "attn_q", [heads * dim])?, b.split(h, "attn_k", [heads * dim])?);
    let ([v], [z]) = (b.split(h, "attn_v", [values])?, b.split(h, "attn_gate", [values])?);
    let ([beta], [dt]) = (b.split(h, "ssm_beta", [heads])?, b.split(h, "ssm_alpha", [heads])?);
    let dt = b.with_bias(dt, "ssm_dt.bias")?;
    let [q, k, v, z, beta, dt] = b.push_projections(h, [q, k, v, z, beta, dt]);
    for (x, part) in [(q, "ssm_conv1d_q"), (k, "ssm_conv1d_k"), (v, "ssm_conv1d_v")] {
        b.conv([x], part, taps, true)?;
    }
    let rate = b.numbers("ssm_a", heads)?;
    b.activate(beta, Sigmoid);
    b.scale(beta, reach);
    let o = b.delta_rule(DeltaInputs {
        q,
        k,
        v,
        dt,
        of_steps: Softplus,
        beta,
        rate,
        key_dim: dim,
        tiled: false,
        eps: None,
    })?;
    let norm = b.norm(NormKind::Rms, "ssm_norm", heads, values / heads)?;
    b.program.push(Op::Norm { norm: Norm { eps: OUTPUT_EPSILON, ..norm }, x: o, out: o });
    let o = b.gate(z, o, Silu);
    b.project(o, "attn_output", b.hyper.hidden)
}
