//! Gemma 3n: four residual streams (AltUp), a low-rank product parallel to each attention (Laurel), per-layer inputs,
//! normalized values, last layers that reuse the KV cache of earlier ones, and sparse gates in the first layers.

use std::f32::consts::FRAC_1_SQRT_2;

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::{Mask, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, SharedKeys};
use crate::model::rope::{RopeConfig, RopeScaling};

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, hidden, n_layers) = (b.hyper.heads, b.hyper.hidden, b.hyper.n_layers);
    let n_streams = b.keys.size("altup.num_inputs")?.unwrap_or(4);
    if !(2..=16).contains(&n_streams) {
        return Err(b.keys.unsupported("altup.num_inputs"));
    }
    if b.keys.get("altup.active_idx").is_some() {
        return Err(b.keys.unsupported("altup.active_idx"));
    }
    let windows = b.windows(b.keys.size("attention.sliding_window")?.unwrap_or(512), 5)?;
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.base = b.keys.float("rope.freq_base")?.unwrap_or(1e6);
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let local = RopeConfig { base, scaling: RopeScaling::None, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let shared = b.keys.size("attention.shared_kv_layers")?;
    let declared = b.keys.is_present("attention.shared_kv_layers");
    let own = if declared { n_layers.saturating_sub(shared.unwrap_or(0)) } else { 20 };
    let thresholds = thresholds(b)?;
    let logit_softcap = b.softcap("final_logit_softcapping", 30.0)?;
    let x = b.embed((hidden as f32).sqrt())?;
    let Some(inputs) = b.layer_inputs(x)? else {
        return Err(b.keys.unsupported("embedding_length_per_layer_input"));
    };
    let mut streams = b.streams(x, n_streams)?;
    // Last layer with its own KV cache: with a window, and without.
    let (mut last_local, mut last_global) = (None, None);
    b.layers(|b, i| {
        let is_local = windows[i] > 0;
        let attention = Attention { scale: 1.0, mask: Mask::window(windows[i]), ..Attention::new(heads) };
        streams = b.predicted_streams(streams)?;
        let x = b.slice(streams, 0, hidden);
        let h = b.rms_norm(x, "attn_norm")?;
        let laurel = laurel(b, h)?;
        let rope = if is_local { local } else { rope };
        let last = if is_local { &mut last_local } else { &mut last_global };
        let keys = if i < own { SharedKeys::Own { has_values: None, last } } else { SharedKeys::OfLast(*last) };
        let o = b.sharing_attention(h, attention, rope, keys)?;
        b.rms_norm_groups(o, "post_attention_norm", hidden)?;
        b.add(o, x);
        b.add(o, laurel);
        b.scale(o, FRAC_1_SQRT_2);
        let h = b.rms_norm(o, "ffn_norm")?;
        let [gate, up] = b.gate_and_up(h)?;
        if let Some(deviations) = thresholds[i] {
            b.threshold(gate, deviations);
        }
        let inner = b.gate(gate, up, Gelu);
        let y = b.project(inner, "ffn_down", hidden)?;
        b.rms_norm_groups(y, "post_ffw_norm", hidden)?;
        b.add(y, o);
        b.correct_streams(streams, x, y)?;
        let x = b.slice(streams, 0, hidden);
        b.scale_columns(x, "altup_correct_scale")?;
        let y = b.layer_input(x, inputs, i, Gelu)?;
        b.sum_streams(y, streams, hidden);
        Ok(())
    })?;
    let x = b.mean_of_streams(streams)?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, logit_softcap)
}

/// `x + post_norm(laurel_r laurel_l x)`
fn laurel(b: &mut Builder, x: TensorId) -> Result<TensorId> {
    let low = b.project_all(x, "laurel_l")?;
    let out = b.project(low, "laurel_r", b.hyper.hidden)?;
    b.rms_norm_groups(out, "laurel_post_norm", b.hyper.hidden)?;
    b.add(out, x);
    Ok(out)
}

/// For layers with sparse gates, the number of standard deviations above the mean below which gates are 0.
fn thresholds(b: &Builder) -> Result<Vec<Option<f32>>> {
    let (key, n) = ("activation_sparsity_scale", b.hyper.n_layers);
    let Some(list) = b.keys.floats(key)? else {
        // The 95th percentile of a normal distribution.
        return Ok((0..n).map(|i| (i < 10).then_some(1.644_853_6)).collect());
    };
    if list.len() < n {
        return Err(b.keys.unsupported(key));
    }
    Ok(list[..n].iter().map(|x| x.is_finite().then_some(*x)).collect())
}
