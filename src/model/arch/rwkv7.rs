//! RWKV 7: a matrix per head with data-dependent decay per row, which also moves content between keys, and token shift
//! in every input. ARWKV puts this into Qwen 2: RMS norms and SwiGLU.

use crate::error::Result;
use crate::graph::op::Activation::{Identity, Sigmoid, Silu, Tanh};
use crate::graph::op::{TensorId, Wkv};
use crate::model::builder::{Builder, Heads, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { attentionless: true, ..Traits::default() };

/// Minimum log decay: `-e^(-1/2)`.
const DECAY: f32 = -0.606_530_66;

pub fn build(b: &mut Builder) -> Result<()> {
    let is_pure = b.keys.architecture == "rwkv7";
    let heads = b.wkv_heads()?;
    let mut x = b.embed(1.0)?;
    if is_pure {
        x = b.layer_norm(x, "token_embd_norm")?;
    }
    let mut values = None;
    b.layers(|b, _| {
        let h = if is_pure { b.layer_norm(x, "attn_norm")? } else { b.rms_norm(x, "attn_norm")? };
        let o = time_mix(b, h, heads, &mut values)?;
        b.add(x, o);
        let o = if is_pure {
            let h = b.layer_norm(x, "attn_norm_2")?;
            b.channel_mix(h)?
        } else {
            let h = b.rms_norm(x, "ffn_norm")?;
            b.gated_ffn(h, Silu)?
        };
        b.add(x, o);
        Ok(())
    })?;
    let h = if is_pure { b.layer_norm(x, "output_norm")? } else { b.rms_norm(x, "output_norm")? };
    b.head(h, 1.0, 0.0)
}

/// `first`: the values of the first layer, which later layers mix in.
fn time_mix(b: &mut Builder, x: TensorId, heads: Heads, first: &mut Option<TensorId>) -> Result<TensorId> {
    let hidden = b.hyper.hidden;
    let gates = b.has("time_mix_g1.weight");
    let n = if gates { 6 } else { 5 };
    let shares = b.shares_of_shift(&["r", "w", "k", "v", "a", "g"][..n])?;
    let mut shares = shares.chunks(hidden);
    let mut mixed = || b.lerp(x, shares.next().unwrap_or_default());
    let [r, w, k, for_v, a] = std::array::from_fn(|_| mixed());
    let g = if gates { Some(mixed()) } else { None };
    let r = b.project(r, "time_mix_receptance", hidden)?;
    let k = b.project(k, "time_mix_key", hidden)?;
    let v = b.project(for_v, "time_mix_value", hidden)?;
    let dt = b.low_rank(w, ["time_mix_w1", "time_mix_w2"], Tanh, Some("time_mix_w0.weight"))?;
    b.activate(dt, Sigmoid);
    match *first {
        None => {
            // Many files have these tensors in the first layer too.
            ["v0", "v1", "v2"].iter().for_each(|part| b.ignore(&format!("time_mix_{part}.weight")));
            *first = Some(v);
        }
        Some(first) => {
            let share = b.low_rank(for_v, ["time_mix_v1", "time_mix_v2"], Identity, Some("time_mix_v0.weight"))?;
            let difference = b.copy(first, hidden);
            b.add_scaled(difference, v, -1.0);
            b.gate_by_sigmoid(difference, share);
            b.join(v, difference);
        }
    }
    let a = b.low_rank(a, ["time_mix_a1", "time_mix_a2"], Identity, Some("time_mix_a0.weight"))?;
    b.activate(a, Sigmoid);
    // The state moves its content along the direction of `k`: from `-key` to `a * key`.
    let key = b.copy(k, hidden);
    b.scale_columns(key, "time_mix_k_k")?;
    b.l2_norm(key, heads.dim, 1.0, 1e-24);
    let to = b.copy(a, hidden);
    b.gate(to, key, Identity);
    b.scale(key, -1.0);
    // k += k_a (a - 1) k
    b.gate(a, k, Identity);
    b.add_scaled(a, k, -1.0);
    b.scale_columns(a, "time_mix_k_a")?;
    b.join(k, a);
    let o = b.wkv([r, k, v, dt], heads, |op| Wkv { rate: Some(DECAY), moved: Some([key, to]), ..op })?;
    if b.has("time_mix_ln.weight") {
        b.norm_of_heads(o, "time_mix_ln", heads)?;
    }
    let agreement = b.all_values("time_mix_r_k.weight", hidden)?;
    let agreement = b.vector(agreement);
    let now = b.by_agreement([r, k, v], agreement, heads);
    b.join(o, now);
    if let Some(g) = g {
        let gate = b.low_rank(g, ["time_mix_g1", "time_mix_g2"], Sigmoid, None)?;
        b.gate(o, gate, Identity);
    }
    b.project(o, "time_mix_output", hidden)
}
