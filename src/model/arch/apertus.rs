//! Apertus: Qwen 3 with an ungated feed-forward block and xIELU (arXiv 2411.13010), which has parameters per layer.

use crate::error::{Error, Result};
use crate::graph::op::Xielu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    // The network does not use these biases.
    b.leave_out(&["attn_q_norm.bias", "attn_k_norm.bias"]);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.attention(h, Attention::new(heads), |b, q, k| {
            b.head_norms(q, k)?;
            b.rotate(rope, q, k);
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let up = b.project(h, "ffn_up", b.hyper.ffn)?;
        let curve = curve(b, i)?;
        b.bend(up, curve);
        let o = b.project(up, "ffn_down", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Reads the activation function of a layer.
fn curve(b: &mut Builder, layer: usize) -> Result<Xielu> {
    let [alpha_p, alpha_n] = [number(b, layer, "alpha_p")?, number(b, layer, "alpha_n")?];
    let (slope, eps) = (number(b, layer, "beta")?, number(b, layer, "eps")?);
    let softplus = |x: f32| libm::log1p(libm::exp(f64::from(x))) as f32;
    let curve = Xielu { rise: softplus(alpha_p), fall: slope + softplus(alpha_n), slope, eps };
    match [curve.rise, curve.fall, slope].iter().all(|x| x.abs() <= 1e3) && (-1.0..=0.0).contains(&eps) {
        true => Ok(curve),
        false => Err(Error::unsupported(format!("the activation {curve:?} of layer {layer} is not supported"))),
    }
}

/// Reads a parameter of a layer's activation function: from a folder's tensor, or from a key without prefix.
fn number(b: &mut Builder, layer: usize, name: &str) -> Result<f32> {
    let key = format!("xielu.{name}");
    if b.has(&key) {
        return Ok(b.all_values(&key, 1)?.first().copied().unwrap_or_default());
    }
    match b.keys.metadata.f32s(&key)?.as_deref() {
        Some([one]) => Ok(*one),
        Some(list) => list.get(layer).copied().ok_or_else(|| {
            b.keys.metadata.error(format!("{key} has {} values for {} layers", list.len(), b.hyper.n_layers))
        }),
        None => Err(b.keys.metadata.missing(&key)),
    }
}
