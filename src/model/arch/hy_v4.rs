//! Hunyuan 4: hyper-connections around MLA with attention sinks and a lightning indexer, and around experts with limits
//! in SwiGLU.

use super::deepseek32::own_indexers;
use crate::error::Result;
use crate::graph::op::{Activation, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Moe, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let connections = b.connections()?;
    let latent = b.latent(RopePairs::Adjacent, None)?;
    let indexer = match b.keys.size("attention.indexer.top_k")? {
        Some(_) => Some(b.indexer_of_last(latent, RopePairs::Adjacent)?),
        None => None,
    };
    let own = if indexer.is_some() { own_indexers(b, |_| true, |_| true)? } else { vec![false; b.hyper.n_layers] };
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let activations = b.clamped_swiglu("swiglu_clamp_exp", Activation::SwigluOfClamped)?;
    let x = b.embed(1.0)?;
    let mut streams = b.copies(x, connections);
    let mut among = None;
    b.layers(|b, i| {
        streams = b.connected(streams, "hc_attn", connections, |b, x| {
            let h = b.rms_norm(x, "attn_norm")?;
            b.latent_attention_among(h, latent, indexer.filter(|_| own[i]), &mut among)
        })?;
        streams = b.connected(streams, "hc_ffn", connections, |b, x| {
            let h = b.rms_norm(x, "ffn_norm")?;
            b.moe_ffn(h, moe.map(|moe| Moe { activation: activations[i], ..moe }))
        })?;
        Ok(())
    })?;
    let x = b.joined_streams(streams, connections)?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
