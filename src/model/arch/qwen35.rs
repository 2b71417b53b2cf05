//! Qwen 3.5 and Qwen 3 Next: three of four layers are gated delta nets, the others gated attention.

use crate::error::Result;
use crate::graph::op::Activation::{Silu, Softplus};
use crate::graph::op::{Activation, RopeChoice, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::mixers::{DeltaInputs, MambaShape};
use crate::model::rope::sections;

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.sections = sections(&b.keys, true)?;
    let rope = b.rope(&config)?;
    let shape = b.mamba_shape()?;
    let recurrent = b.recurrent_layers(4)?;
    let moe = if b.hyper.architecture == "qwen35" { None } else { b.moe(true)? };
    b.keys.ignore("expert_weights_scale");
    let layer = |b: &mut Builder, x, is_recurrent| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = if is_recurrent { delta_net(b, h, shape, Silu)? } else { attention(b, h, rope, |_| Ok(None))? };
        b.add(x, o);
        let h = b.rms_norm(x, "post_attention_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    };
    let x = b.embed(1.0)?;
    b.layers(|b, i| layer(b, x, recurrent[i]))?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)?;
    b.predictor(|b, x| layer(b, x, false))
}

/// Attention whose output is multiplied by the sigmoid of a gate; the gate rows of each head follow its query rows.
/// `choose` may select positions.
pub(super) fn attention(
    b: &mut Builder,
    h: TensorId,
    rope: RopeChoice,
    choose: impl FnOnce(&mut Builder) -> Result<Option<TensorId>>,
) -> Result<TensorId> {
    let heads = b.hyper.heads;
    let (dim, kv) = (heads.head_dim, heads.n_kv_heads * heads.head_dim);
    let [q, gate] = b.split_heads(h, "attn_q", heads.n_heads, [dim, dim])?;
    let ([k], [v]) = (b.split(h, "attn_k", [kv])?, b.split(h, "attn_v", [kv])?);
    let [q, gate, k, v] = b.push_projections(h, [q, gate, k, v]);
    b.head_norms(q, k)?;
    b.rotate(rope, q, k);
    let layer = b.store(k, v, Attention::new(heads));
    let a = match choose(b)? {
        Some(among) => b.attend_among(q, layer, Attention::new(heads), among),
        None => b.attend_to(q, layer, Attention::new(heads))?,
    };
    b.gate_by_sigmoid(a, gate);
    b.project(a, "attn_output", b.hyper.hidden)
}

/// A gated delta net. Qwen 3 Next interleaves tensors by key head; GGUF files of Qwen 3.5 interleave value heads.
pub(super) fn delta_net(b: &mut Builder, h: TensorId, shape: MambaShape, activation: Activation) -> Result<TensorId> {
    let MambaShape { inner: values, state: dim, rank: heads, groups: key_heads, taps, .. } = shape;
    if values != heads * dim || !heads.is_multiple_of(key_heads) {
        return Err(b.keys.unsupported("ssm.inner_size"));
    }
    let (keys, each, next) = (key_heads * dim, heads / key_heads, b.hyper.architecture == "qwen3next");
    let [q, k, v, z] = if b.has("attn_qkv.weight") {
        b.ignore("ssm_in.weight");
        let ([q, k, v], [z]) = (b.split(h, "attn_qkv", [keys, keys, values])?, b.split(h, "attn_gate", [values])?);
        [q, k, v, z]
    } else {
        b.split_heads(h, "ssm_in", key_heads, [dim, dim, each * dim, each * dim])?
    };
    let [beta, dt] = if next {
        b.split_heads(h, "ssm_ba", key_heads, [each, each])?
    } else {
        let ([beta], [dt]) = (b.split(h, "ssm_beta", [heads])?, b.split(h, "ssm_alpha", [heads])?);
        [beta, dt]
    };
    let dt = b.with_bias(dt, "ssm_dt.bias")?;
    let [q, k, v, z, beta, dt] = b.push_projections(h, [q, k, v, z, beta, dt]);
    b.conv([q, k, v], "ssm_conv1d", taps, true)?;
    let rate = b.numbers("ssm_a", heads)?;
    b.activate(beta, Activation::Sigmoid);
    let tiled = !next && !b.is_folder();
    let o =
        b.delta_rule(DeltaInputs { q, k, v, dt, of_steps: Softplus, beta, rate, key_dim: dim, tiled, eps: None })?;
    b.rms_norm_groups(o, "ssm_norm", dim)?;
    let o = b.gate(z, o, activation);
    b.project(o, "ssm_out", b.hyper.hidden)
}
