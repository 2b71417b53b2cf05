//! Gemma 4: Gemma 3 with heads of two widths, normalized values, last layers that reuse the KV cache of earlier ones,
//! per-layer inputs, and experts parallel to the dense feed-forward block.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::{KvLayerId, Mask, RopeChoice};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe, SharedKeys};
use crate::model::hyper::HeadShape;
use crate::model::rope::{RopeConfig, RopeScaling};

/// Index 0 for full, 1 for sliding-window layers: head shapes and RoPE; and the window of each layer.
pub struct Kinds {
    windows: Vec<usize>,
    widths: [usize; 2],
    ropes: [RopeChoice; 2],
}

impl Kinds {
    pub fn read(b: &mut Builder) -> Result<Kinds> {
        let windows = b.windows(b.keys.size("attention.sliding_window")?.unwrap_or(1024), 6)?;
        let widths = [b.hyper.heads.head_dim; 2];
        let local_dim = b.keys.size("attention.key_length_swa")?.unwrap_or(widths[1]);
        if b.keys.size("attention.value_length_swa")?.is_some_and(|width| width != local_dim) {
            return Err(b.keys.unsupported("attention.value_length_swa"));
        }
        let config = b.rope_config(RopePairs::Halves)?;
        let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
        let n_dims = b.keys.size("rope.dimension_count_swa")?.unwrap_or(config.n_dims).min(local_dim);
        let local = RopeConfig { base, n_dims, scaling: RopeScaling::None, ..config.clone() };
        let ropes = [b.rope(&config)?, b.rope_without_divisors(&local)?];
        Ok(Kinds { windows, widths: [widths[0], local_dim], ropes })
    }

    /// Returns the kind of a layer (1: sliding window), its attention and RoPE.
    pub fn of(&self, b: &Builder, layer: usize) -> Result<(usize, Attention, RopeChoice)> {
        let window = self.windows[layer];
        let kind = usize::from(window > 0);
        let heads = HeadShape { head_dim: self.widths[kind], value_dim: self.widths[kind], ..b.heads(layer)? };
        let mask = if window > 0 { Mask::window(window) } else { Mask::Past };
        Ok((kind, Attention { scale: 1.0, mask, ..Attention::new(heads) }, self.ropes[kind]))
    }
}

pub fn build(b: &mut Builder) -> Result<()> {
    let n_layers = b.hyper.n_layers;
    // Image rows attend to each other in sliding-window layers, except in E2B and E4B, recognized by their per-layer
    // inputs.
    let declared = b.keys.metadata.bool("realizar.mutual_media")?;
    let is_mutual = declared.unwrap_or(b.keys.size("embedding_length_per_layer_input")?.unwrap_or(0) == 0);
    b.hyper.traits.mutual_media = is_mutual;
    let kinds = Kinds::read(b)?;
    let values_are_keys = b.keys.metadata.bool("realizar.values_are_keys")?;
    let own = n_layers.saturating_sub(b.keys.size("attention.shared_kv_layers")?.unwrap_or(0));
    let logit_softcap = b.softcap("final_logit_softcapping", 30.0)?;
    let moe = b.moe(true)?;
    let x = b.embed((b.hyper.hidden as f32).sqrt())?;
    let inputs = b.layer_inputs(x)?;
    // Last layer with its own KV cache: without a window, and with one.
    let mut stored: [Option<KvLayerId>; 2] = [None; 2];
    b.layers(|b, i| {
        let (kind, attention, rope) = kinds.of(b, i)?;
        let h = b.rms_norm(x, "attn_norm")?;
        let keys = if i < own {
            let has_values = values_are_keys.map(|declared| kind == 1 || !declared);
            SharedKeys::Own { has_values, last: &mut stored[kind] }
        } else {
            SharedKeys::OfLast(stored[kind])
        };
        let o = b.sharing_attention(h, attention, rope, keys)?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Gelu)?;
        if let Some(moe) = moe.filter(|_| b.has("ffn_gate_inp.weight")) {
            b.rms_norm_groups(o, "post_ffw_norm_1", b.hyper.hidden)?;
            let scores = b.scaled_router(x, moe.n_experts)?;
            let h = b.rms_norm(x, "pre_ffw_norm_2")?;
            let y = b.scored_experts(h, scores, Moe { activation: Gelu, ..moe })?;
            b.rms_norm_groups(y, "post_ffw_norm_2", b.hyper.hidden)?;
            b.add(o, y);
        }
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        if let Some(inputs) = inputs {
            let y = b.layer_input(x, inputs, i, Gelu)?;
            b.add(x, y);
        }
        b.scale_if_present(x, "layer_output_scale.weight")
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, logit_softcap)
}
