//! Kimi K3: delta rules with a decay per channel, MLA without RoPE, experts at a narrower width; each block reads a mix
//! of the residual stream and the streams at the start of earlier periods.

use super::bailingmoe3::gate_bound;
use super::kimi_linear::{Kda, delta_attention};
use crate::error::{Error, Result};
use crate::graph::op::{Activation, RouterScore, TensorId};
use crate::model::builder::{Builder, Moe};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    if heads.iter().flatten().any(|heads| heads.n_heads != b.hyper.heads.n_heads) {
        return Err(b.keys.unsupported("attention.head_count"));
    }
    let bound = gate_bound(b)?;
    let kda = Kda::read(b, bound)?;
    let latent = b.still_latent()?;
    let activation = activation(b)?;
    let moe = b.declared_moe(RouterScore::Sigmoid)?.map(|moe| Moe { activation, ..moe });
    let period = b.keys.size("attn_res.block_size")?.unwrap_or(usize::MAX);
    let narrow = b.keys.size("expert_latent_length")?;
    let mut x = b.embed(1.0)?;
    // The inputs of the first layers of all periods, concatenated.
    let mut bank: Option<TensorId> = None;
    let mixes = period < usize::MAX;
    b.layers(|b, i| {
        let h = if mixes { b.mix_by_score(bank, x, "attn_res")? } else { x };
        let h = b.rms_norm(h, "attn_norm")?;
        let o = match heads[i] {
            Some(_) => b.latent_attention(h, latent)?,
            None => delta_attention(b, h, kda)?,
        };
        if mixes && i.is_multiple_of(period) {
            bank = Some(bank.map_or(x, |bank| b.with_tails(bank, Some(x), 1)));
            x = o;
        } else {
            b.add(x, o);
        }
        let h = if mixes { b.mix_by_score(bank, x, "ffn_res")? } else { x };
        let h = b.rms_norm(h, "ffn_norm")?;
        let o = match moe.filter(|_| b.has("ffn_gate_inp.weight")) {
            Some(moe) => narrow_experts(b, h, moe, narrow, activation)?,
            None => b.gated_ffn(h, activation)?,
        };
        b.add(x, o);
        Ok(())
    })?;
    if mixes {
        x = b.mix_by_score(bank, x, "output_res")?;
    }
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

/// Returns the activation function of all feed-forward blocks.
fn activation(b: &Builder) -> Result<Activation> {
    let keys = ["activation.situ_beta", "activation.situ_linear_beta"];
    let Some(most) = b.keys.float(keys[0])? else { return Err(b.keys.unsupported(keys[0])) };
    Ok(Activation::TanhSwiglu([most, b.keys.float(keys[1])?.unwrap_or(0.0)]))
}

/// Experts between a down and an up projection, plus the shared expert.
fn narrow_experts(
    b: &mut Builder,
    h: TensorId,
    moe: Moe,
    narrow: Option<usize>,
    activation: Activation,
) -> Result<TensorId> {
    let scores = b.project(h, "ffn_gate_inp", moe.n_experts)?;
    let is_narrow = b.has("ffn_routed_down.weight");
    let z = if is_narrow { b.project_all(h, "ffn_routed_down")? } else { h };
    if narrow.is_some_and(|narrow| is_narrow && narrow != b.program.width(z)) {
        return Err(Error::unsupported(b.keys.refusal("expert_latent_length")));
    }
    let mut o = b.scored_experts(z, scores, moe)?;
    if b.has("ffn_routed_norm.weight") {
        o = b.rms_norm(o, "ffn_routed_norm")?;
    }
    if b.has("ffn_routed_up.weight") {
        o = b.project(o, "ffn_routed_up", b.hyper.hidden)?;
    }
    if b.has("ffn_up_shexp.weight") {
        let shared = b.shared_expert(h, activation)?;
        b.join(o, shared);
    }
    Ok(o)
}
