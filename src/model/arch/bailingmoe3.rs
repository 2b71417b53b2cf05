//! Ling 3.0: delta rules with a bounded decay per channel, MLA with a sigmoid gate per head, experts after the first
//! layers, limits in SwiGLU.

use super::kimi_linear::{Kda, delta_attention};
use crate::error::{Error, Result};
use crate::graph::op::{Activation, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Moe, Traits};
use crate::model::rope::{RopeScaling, sections};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    if heads.iter().flatten().any(|heads| heads.n_heads != b.hyper.heads.n_heads) {
        return Err(b.keys.unsupported("attention.head_count"));
    }
    let Some(bound) = gate_bound(b)? else { return Err(b.keys.unsupported("kda.gate_lower_bound")) };
    let kda = Kda { negative: b.is_folder(), ..Kda::read(b, Some(bound))? };
    let sections = sections(&b.keys, false)?;
    let pairs = if sections.is_some() { RopePairs::Halves } else { RopePairs::Adjacent };
    let mut config = b.rope_config(pairs)?;
    if matches!(config.scaling, RopeScaling::Yarn { .. }) {
        return Err(b.keys.unsupported("rope.scaling.type"));
    }
    config.sections = sections;
    let rope = b.rope(&config)?;
    let latent = b.latent(pairs, Some(rope))?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let [of_experts, of_all] = limits(b)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(_) => b.latent_attention(h, latent)?,
            None => delta_attention(b, h, kda)?,
        };
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn_by(h, moe.map(|moe| Moe { activation: of_experts[i], ..moe }), of_all[i])?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Lower bound of log decays, if any. Here -1 is a value, not "unset".
pub(super) fn gate_bound(b: &Builder) -> Result<Option<f32>> {
    let key = "kda.gate_lower_bound";
    b.keys.get(key);
    b.keys.get("kda.safe_gate");
    match b.keys.metadata.f32(&b.keys.name(key))? {
        None | Some(f32::NEG_INFINITY) => Ok(None),
        Some(bound) if (-1e3..-1e-3).contains(&bound) => Ok(Some(bound)),
        Some(bound) => Err(Error::unsupported(format!("{} is {bound}", b.keys.name(key)))),
    }
}

/// Returns the activation functions of experts, and of dense blocks and shared experts. Early files of Ling 3.0 flash,
/// recognized by their layers, lack the limits, without which some tokens differ.
fn limits(b: &Builder) -> Result<[Vec<Activation>; 2]> {
    let keys = ["swiglu_clamp_exp", "swiglu_clamp_shexp"];
    if b.hyper.n_layers != 42 || keys.iter().any(|key| b.keys.is_present(key)) {
        let [experts, all] = keys.map(|key| b.clamped_swiglu(key, Activation::SwigluThenClamped));
        return Ok([experts?, all?]);
    }
    let limits: [fn(usize) -> f32; 2] = [
        |i| if i >= 35 { 4.0 } else { 0.0 },
        |i| match i {
            34..=39 => 5.0,
            40.. => 7.0,
            _ => 0.0,
        },
    ];
    let activation = |limit| if limit > 0.0 { Activation::SwigluThenClamped(limit) } else { Activation::Silu };
    Ok(limits.map(|limit| (0..b.hyper.n_layers).map(|i| activation(limit(i))).collect()))
}
