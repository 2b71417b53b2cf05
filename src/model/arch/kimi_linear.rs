//! Kimi Linear: delta rules with a decay per channel (Kimi Delta Attention), MLA without RoPE in a few layers, experts
//! after the first layers.

use crate::error::Result;
use crate::graph::op::{Activation, RouterScore, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::Builder;
use crate::model::mixers::DeltaInputs;

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, kda) = (b.heads_per_layer()?, Kda::read(b, None)?);
    if heads.iter().flatten().any(|heads| heads.n_heads != b.hyper.heads.n_heads) {
        return Err(b.keys.unsupported("attention.head_count"));
    }
    let latent = b.latent(RopePairs::Adjacent, None)?.without_rotation();
    let mut moe = b.declared_moe(RouterScore::Sigmoid)?;
    if let Some(moe) = &mut moe {
        moe.routing.renormalize = true;
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(_) => b.latent_attention(h, latent)?,
            None => delta_attention(b, h, kda)?,
        };
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Parameters of a delta rule with a decay per channel.
#[derive(Clone, Copy)]
pub(super) struct Kda {
    pub dim: usize,
    pub taps: usize,
    /// If set (negative), log decays are this bound times a sigmoid.
    pub bound: Option<f32>,
    /// True if the file has negative rates even with a bound.
    pub negative: bool,
    /// Epsilon of the L2 norms of queries and keys; `None`: the common epsilon.
    pub eps: Option<f32>,
}

impl Kda {
    pub fn read(b: &Builder, bound: Option<f32>) -> Result<Kda> {
        let (taps, dim) = (b.taps("ssm.conv_kernel")?, b.width("kda.head_dim")?);
        Ok(Kda { dim, taps, bound, negative: true, eps: None })
    }
}

/// The delta rule; decays and output gates are one product, or two of low rank.
pub(super) fn delta_attention(b: &mut Builder, h: TensorId, kda: Kda) -> Result<TensorId> {
    let Kda { dim, taps, bound, negative, eps } = kda;
    let heads = b.hyper.heads.n_heads;
    let width = heads * dim;
    let ([q], [k], [v]) =
        (b.split(h, "attn_q", [width])?, b.split(h, "attn_k", [width])?, b.split(h, "attn_v", [width])?);
    let [beta] = b.split(h, "ssm_beta", [heads])?;
    let [q, k, v, beta] = b.push_projections(h, [q, k, v, beta]);
    for (x, part) in [(q, "ssm_conv1d_q"), (k, "ssm_conv1d_k"), (v, "ssm_conv1d_v")] {
        b.conv([x], part, taps, true)?;
    }
    let (narrow, part) = low_rank(b, h, ["ssm_f_a", "ssm_f_b"])?;
    let [dt] = b.split(narrow, part, [width])?;
    let dt = b.with_bias(dt, "ssm_dt.bias")?;
    let [dt] = b.push_projections(narrow, [dt]);
    let (rate, of_steps) = match bound {
        Some(bound) => {
            b.scale_parts(dt, "ssm_a", heads)?;
            if negative {
                b.scale(dt, -1.0);
            }
            (b.vector(vec![bound; heads]), Activation::Sigmoid)
        }
        None => (b.numbers("ssm_a", heads)?, Activation::Softplus),
    };
    b.activate(beta, Activation::Sigmoid);
    let o = b.delta_rule(DeltaInputs { q, k, v, dt, of_steps, beta, rate, key_dim: dim, tiled: false, eps })?;
    b.rms_norm_groups(o, "ssm_norm", dim)?;
    // Folders name the gate like the one of attention.
    let first = ["ssm_g", "attn_gate"].into_iter().find(|part| b.has(&format!("{part}.weight"))).unwrap_or("ssm_g_a");
    let (narrow, part) = low_rank(b, h, [first, "ssm_g_b"])?;
    let gate = b.project(narrow, part, width)?;
    b.gate_by_sigmoid(o, gate);
    b.project(o, "attn_output", b.hyper.hidden)
}

/// Emits the first of two low-rank products, if there are two; returns the input and name of the last product.
fn low_rank(b: &mut Builder, h: TensorId, [first, second]: [&'static str; 2]) -> Result<(TensorId, &'static str)> {
    match b.has(&format!("{second}.weight")) {
        true => Ok((b.project_all(h, first)?, second)),
        false => Ok((h, first)),
    }
}
