//! Apertus: Qwen 3 with xIELU (arXiv 2411.13010), whose parameters are a layer's own, and no gate.

use crate::error::{Error, Result};
use crate::graph::op::Xielu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let curves = curves(b)?;
    // The network has no place for them.
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
        b.bend(up, curves[i]);
        let o = b.project(up, "ffn_down", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Reads the activation of each layer. Its keys have no prefix of an architecture.
fn curves(b: &Builder) -> Result<Vec<Xielu>> {
    let n = b.hyper.n_layers;
    let numbers = |name: &str| -> Result<Vec<f32>> {
        let key = format!("xielu.{name}");
        match b.keys.metadata.f32s(&key)?.as_deref() {
            Some([one]) => Ok(vec![*one; n]),
            Some(list) if list.len() >= n => Ok(list[..n].to_vec()),
            Some(list) => Err(b.keys.metadata.error(format!("{key} has {} values for {n} layers", list.len()))),
            None => Err(b.keys.metadata.missing(&key)),
        }
    };
    let [alpha_p, alpha_n] = [numbers("alpha_p")?, numbers("alpha_n")?];
    let (beta, eps) = (numbers("beta")?, numbers("eps")?);
    let softplus = |x: f32| libm::log1p(libm::exp(f64::from(x))) as f32;
    let curve = |i: usize| {
        let (rise, fall) = (softplus(alpha_p[i]), beta[i] + softplus(alpha_n[i]));
        let curve = Xielu { rise, fall, slope: beta[i], eps: eps[i] };
        match [rise, fall, curve.slope].iter().all(|x| x.abs() <= 1e3) && (-1.0..=0.0).contains(&curve.eps) {
            true => Ok(curve),
            false => Err(Error::unsupported(format!("the activation {curve:?} of layer {i}"))),
        }
    };
    (0..n).map(curve).collect()
}
