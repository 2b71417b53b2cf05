//! GLM 5 Next: hyper-connections with mixing streams, around delta rules with a decay per channel, around MLA without
//! RoPE to pools of positions selected by an indexer, and around experts.

use super::bailingmoe3::gate_bound;
use super::deepseek32::own_indexers;
use super::kimi_linear::{Kda, delta_attention};
use crate::error::Result;
use crate::graph::op::{Activation, RouterScore};
use crate::model::builder::{Builder, Moe, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    if heads.iter().flatten().any(|heads| heads.n_heads != b.hyper.heads.n_heads) {
        return Err(b.keys.unsupported("attention.head_count"));
    }
    let connections = b.connections()?;
    let bound = gate_bound(b)?;
    let kda = Kda { eps: Some(1e-6), ..Kda::read(b, bound)? };
    let latent = b.still_latent()?;
    let indexer = b.pooled_indexer(latent)?;
    let own = own_indexers(b, |_| true, |i| heads[i].is_some())?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let [of_experts, of_all] = clamped_swiglus(b)?;
    let x = b.embed(1.0)?;
    let mut streams = b.copies(x, connections);
    let mut among = None;
    b.layers(|b, i| {
        streams = b.connected(streams, "hc_attn", connections, |b, x| {
            let h = b.rms_norm(x, "attn_norm")?;
            match heads[i] {
                Some(_) => b.latent_attention_among(h, latent, own[i].then_some(indexer), &mut among),
                None => delta_attention(b, h, kda),
            }
        })?;
        streams = b.connected(streams, "hc_ffn", connections, |b, x| {
            let h = b.rms_norm(x, "ffn_norm")?;
            b.moe_ffn_by(h, moe.map(|moe| Moe { activation: of_experts[i], ..moe }), of_all[i])
        })?;
        Ok(())
    })?;
    let x = b.mean_stream(streams);
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Returns the activation functions per layer of routed experts and of shared ones; equal if the file has only one.
pub(super) fn clamped_swiglus(b: &Builder) -> Result<[Vec<Activation>; 2]> {
    let of_experts = b.clamped_swiglu("swiglu_clamp_exp", Activation::SwigluOfClamped)?;
    let key = "swiglu_clamp_shexp";
    let of_all = match b.keys.is_present(key) {
        true => b.clamped_swiglu(key, Activation::SwigluOfClamped)?,
        false => of_experts.clone(),
    };
    Ok([of_experts, of_all])
}
