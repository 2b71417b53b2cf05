//! RWKV 6: instead of attention a matrix per head with data-dependent decay per row, and token shift in every input.
//! QRWKV puts this into Qwen 2: RMS norms, grouped keys and values, SwiGLU.

use crate::error::Result;
use crate::graph::op::{Activation, TensorId, Wkv};
use crate::model::builder::{Builder, Heads, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { attentionless: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let is_pure = b.keys.architecture == "rwkv6";
    let heads = b.wkv_heads()?;
    let halving = if is_pure { b.keys.size("rescale_every_n_layers")?.unwrap_or(usize::MAX) } else { usize::MAX };
    let mut x = b.embed(1.0)?;
    if is_pure {
        x = b.layer_norm(x, "token_embd_norm")?;
    }
    b.layers(|b, i| {
        let h = if is_pure { b.layer_norm(x, "attn_norm")? } else { b.rms_norm(x, "attn_norm")? };
        let o = time_mix(b, h, heads)?;
        b.add(x, o);
        let o = if is_pure {
            let h = b.layer_norm(x, "attn_norm_2")?;
            b.channel_mix(h)?
        } else {
            let h = b.rms_norm(x, "ffn_norm")?;
            b.gated_ffn(h, Activation::Silu)?
        };
        b.add(x, o);
        // The file has the weights of later layers divided accordingly.
        if (i + 1).is_multiple_of(halving) {
            b.scale(x, 0.5);
        }
        Ok(())
    })?;
    let h = if is_pure { b.layer_norm(x, "output_norm")? } else { b.rms_norm(x, "output_norm")? };
    b.head(h, 1.0, 0.0)
}

fn time_mix(b: &mut Builder, x: TensorId, heads: Heads) -> Result<TensorId> {
    let hidden = b.hyper.hidden;
    let [w, k, v, r, g] = mixed(b, x)?;
    let r = b.project(r, "time_mix_receptance", hidden)?;
    let (k, v) = (b.project_all(k, "time_mix_key")?, b.project_all(v, "time_mix_value")?);
    let g = b.project(g, "time_mix_gate", hidden)?;
    let decay = ["time_mix_decay_w1", "time_mix_decay_w2"];
    let dt = b.low_rank(w, decay, Activation::Tanh, Some("time_mix_decay.weight"))?;
    let o = if b.has("time_mix_first.weight") {
        let first = b.all_values("time_mix_first.weight", hidden)?;
        let first = b.vector(first);
        let o = b.wkv([r, k, v, dt], heads, |op| Wkv { before: true, ..op })?;
        let now = b.by_agreement([r, k, v], first, heads);
        b.join(o, now);
        b.norm_of_heads(o, "time_mix_ln", heads)?;
        b.gate(g, o, Activation::Silu)
    } else {
        let o = b.wkv([r, k, v, dt], heads, |op| Wkv { fades: true, ..op })?;
        b.scale(o, 1.0 / (heads.dim as f32).sqrt());
        b.gate_by_sigmoid(o, g);
        o
    };
    b.project(o, "time_mix_output", hidden)
}

/// Five inputs: `x` plus fractions of the token shift, which are computed from a first such mix.
fn mixed(b: &mut Builder, x: TensorId) -> Result<[TensorId; 5]> {
    let all = b.shares_of_shift(&["w", "k", "v", "r", "g"])?;
    let first = b.lerp_by(x, "time_mix_lerp_x.weight")?;
    let z = b.project_all(first, "time_mix_w1")?;
    b.activate(z, Activation::Tanh);
    let parts = b.products_of_parts(z, "time_mix_w2", &all)?;
    let difference = b.shift(x);
    for part in parts {
        b.gate(part, difference, Activation::Identity);
        b.join(part, x);
    }
    Ok(parts)
}
