//! Layers that differ: heads, feed-forward widths, shared KV caches, per-layer inputs.

use super::{Attention, Builder};
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Index, KvLayerId, Norm, NormKind, Op, RopeChoice, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::model::hyper::HeadShape;
use crate::model::rope::RopeConfig;

/// Inputs of all layers, concatenated, `[n, n_layers * width]`.
#[derive(Clone, Copy)]
pub struct LayerInputs {
    all: TensorId,
    width: usize,
}

/// The keys and values of a layer, possibly shared with an earlier one.
pub enum SharedKeys<'a> {
    /// Own keys and values; `last` passes them to later layers.
    Own {
        /// False if keys are also the values; `None`: as the file declares.
        has_values: Option<bool>,
        last: &'a mut Option<KvLayerId>,
    },
    /// Keys and values of the last layer that has its own.
    OfLast(Option<KvLayerId>),
}

impl Builder<'_> {
    /// Returns the heads of a layer, for files that may list them per layer; either number may be 0.
    pub fn heads(&self, layer: usize) -> Result<HeadShape> {
        let of_layer = |key, common| match self.keys.per_layer_sizes(key, self.hyper.n_layers)? {
            Some(list) => Ok::<_, Error>(list[layer]),
            None => Ok(common),
        };
        let n_heads = of_layer("attention.head_count", self.hyper.heads.n_heads)?;
        let n_kv_heads = of_layer("attention.head_count_kv", n_heads)?;
        Ok(HeadShape { n_heads, n_kv_heads, ..self.hyper.heads })
    }

    /// True if a layer has a dense feed-forward block.
    pub fn has_ffn(&self, layer: usize) -> Result<bool> {
        let widths = self.keys.per_layer_sizes("feed_forward_length", self.hyper.n_layers)?;
        Ok(widths.is_some_and(|widths| widths[layer] > 0))
    }

    /// SwiGLU of each layer, with the limits of a key (0: none). `clamped` makes the activation function with a limit.
    pub fn clamped_swiglu(&self, key: &str, clamped: fn(f32) -> Activation) -> Result<Vec<Activation>> {
        let n = self.hyper.n_layers;
        let activation = |limit: f32| if limit == 0.0 { Activation::Silu } else { clamped(limit) };
        match self.keys.floats(key)?.as_deref() {
            None => Ok(vec![Activation::Silu; n]),
            Some([one]) => Ok(vec![activation(*one); n]),
            Some(list) if list.len() >= n => Ok(list[..n].iter().map(|limit| activation(*limit)).collect()),
            Some(_) => Err(self.keys.unsupported(key)),
        }
    }

    /// Returns the width of the dense feed-forward block of the layer under construction.
    pub(super) fn ffn_width(&self) -> Result<usize> {
        let (key, n_layers) = ("feed_forward_length", self.hyper.n_layers);
        let widths = self.keys.per_layer_sizes(key, n_layers)?.unwrap_or_default();
        // The common width takes precedence if all layers are equal.
        let is_one = widths.windows(2).all(|pair| pair[0] == pair[1]);
        let width = if is_one { Some(self.hyper.ffn) } else { widths.get(self.layer.unwrap_or(0)).copied() };
        width.filter(|width| *width > 0).ok_or_else(|| self.keys.unsupported(key))
    }

    // ---- attention

    /// Rotated dimensions of a head in sliding-window layers.
    pub fn windowed_rope_dims(&self, common: usize) -> Result<usize> {
        let key = "rope.dimension_count_swa";
        match self.keys.size(key)?.unwrap_or(common) {
            n if n.is_multiple_of(2) && n <= self.hyper.heads.head_dim => Ok(n),
            _ => Err(self.keys.unsupported(key)),
        }
    }

    /// RoPE of a configuration without the file's divisors, which are for other layers.
    pub fn rope_without_divisors(&mut self, config: &RopeConfig) -> Result<RopeChoice> {
        Ok(RopeChoice { table: self.rope_table(config, None)?, long: None })
    }

    /// Applies RoPE to heads of `head_dim` values in queries and keys.
    pub fn rotate_heads(&mut self, rope: RopeChoice, head_dim: usize, q: TensorId, k: Option<TensorId>) {
        self.program.push(Op::Rope { rope, head_dim, first: 0, q, k });
    }

    /// Queries, keys, and normalized values; keys serve as values if the file says so or has none.
    pub fn normed_values(&mut self, x: TensorId, heads: HeadShape, has_values: Option<bool>) -> Result<[TensorId; 3]> {
        let kind = NormKind::Rms;
        let norm = Norm { kind, weight: None, bias: None, eps: self.eps(kind), group: heads.value_dim };
        let has_values = has_values.unwrap_or(self.has("attn_v.weight") || self.has("attn_qkv.weight"));
        let (q, k, x, out) = if has_values {
            let [q, k, v] = self.qkv(x, heads)?;
            (q, k, v, v)
        } else {
            let widths = [heads.n_heads * heads.head_dim, heads.n_kv_heads * heads.head_dim];
            let q = self.part("attn_q", widths[0], 0..widths[0], x)?;
            let k = self.part("attn_k", widths[1], 0..widths[1], x)?;
            let [q, k] = self.push_projections(x, [q, k]);
            (q, k, k, self.program.tensor(widths[1]))
        };
        self.program.push(Op::Norm { norm, x, out });
        Ok([q, k, out])
    }

    /// Stores keys and values, which later layers may read too.
    pub fn store(&mut self, k: TensorId, v: TensorId, attention: Attention) -> KvLayerId {
        let HeadShape { n_kv_heads, head_dim, value_dim, .. } = attention.heads;
        let window = attention.mask.span();
        let layer = KvLayer { n_kv_heads, head_dim, value_dim, is_latent: false, window, pool: 1 };
        let layer = self.kv_layer(layer, attention.mask);
        self.program.push(Op::StoreKv { layer, k, v: Some(v) });
        layer
    }

    /// Attention with QK norm and RoPE.
    pub fn sharing_attention(
        &mut self,
        x: TensorId,
        attention: Attention,
        rope: RopeChoice,
        keys: SharedKeys,
    ) -> Result<TensorId> {
        let HeadShape { n_heads, head_dim, .. } = attention.heads;
        let (q, layer) = match keys {
            SharedKeys::Own { has_values, last } => {
                let [q, k, v] = self.normed_values(x, attention.heads, has_values)?;
                self.rms_norm_groups(q, "attn_q_norm", head_dim)?;
                self.rms_norm_groups(k, "attn_k_norm", head_dim)?;
                self.rotate_heads(rope, head_dim, q, Some(k));
                let layer = self.store(k, v, attention);
                *last = Some(layer);
                (q, layer)
            }
            SharedKeys::OfLast(last) => {
                ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"].into_iter().for_each(|part| self.ignore(part));
                let q = self.project(x, "attn_q", n_heads * head_dim)?;
                self.rms_norm_groups(q, "attn_q_norm", head_dim)?;
                self.rotate_heads(rope, head_dim, q, None);
                let Some(layer) = last else { return Err(self.keys.unsupported("attention.shared_kv_layers")) };
                (q, layer)
            }
        };
        let a = self.attend_to(q, layer, attention)?;
        self.project(a, "attn_output", self.hyper.hidden)
    }

    // ---- inputs of a layer's own

    /// Computes per-layer inputs from the token and its embedding `x`, if the file has them: `(sqrt(width) *
    /// per_layer_token_embd[id] + norm(per_layer_model_proj x / sqrt(hidden))) / sqrt(2)`.
    pub fn layer_inputs(&mut self, x: TensorId) -> Result<Option<LayerInputs>> {
        let key = "embedding_length_per_layer_input";
        let Some(width) = self.keys.size(key)? else { return Ok(None) };
        let all = width.saturating_mul(self.hyper.n_layers);
        if all > 1 << 24 {
            return Err(self.keys.unsupported(key));
        }
        // Placeholder tokens of images and audio may have none.
        let rows = self.tensors.rows("per_layer_token_embd.weight")?;
        let table = self.matrix("per_layer_token_embd.weight", rows, all)?;
        let token = self.program.tensor(all);
        let scale = (width as f32).sqrt();
        self.program.push(Op::Embed { table, rows, index: Index::Token, scale, out: token });
        let inputs = self.project(x, "per_layer_model_proj", all)?;
        self.scale(inputs, 1.0 / (self.hyper.hidden as f32).sqrt());
        self.rms_norm_groups(inputs, "per_layer_proj_norm", width)?;
        self.program.push(Op::Add { x: inputs, delta: token, scale: 1.0 });
        self.scale(inputs, std::f32::consts::FRAC_1_SQRT_2);
        Ok(Some(LayerInputs { all: inputs, width }))
    }

    /// `post_norm(proj (activation(inp_gate x) * input))` for the input of a layer.
    pub fn layer_input(
        &mut self,
        x: TensorId,
        inputs: LayerInputs,
        layer: usize,
        activation: Activation,
    ) -> Result<TensorId> {
        let LayerInputs { all, width } = inputs;
        let gate = self.project(x, "inp_gate", width)?;
        let input = self.slice(all, layer * width, width);
        self.program.push(Op::Glu { gate, up: Some(input), activation });
        let y = self.project(gate, "proj", self.hyper.hidden)?;
        self.rms_norm_groups(y, "post_norm", self.hyper.hidden)?;
        Ok(y)
    }

    /// `x *= factor`
    pub fn scale(&mut self, x: TensorId, factor: f32) {
        self.program.push(Op::Scale { x, factor });
    }

    /// Multiplies by the one value of a tensor, if the layer has it.
    pub fn scale_if_present(&mut self, x: TensorId, part: &str) -> Result<()> {
        if let Some(factor) = self.tensors.vector_if_present(&self.name(part), 1)? {
            self.scale(x, factor[0]);
        }
        Ok(())
    }

    /// Router scores of `x / rms(x) * ffn_gate_inp.scale / sqrt(hidden)`.
    pub fn scaled_router(&mut self, x: TensorId, n_experts: usize) -> Result<TensorId> {
        let hidden = self.hyper.hidden;
        let mut scale = self.tensors.vector(&self.name("ffn_gate_inp.scale"), hidden)?;
        scale.iter_mut().for_each(|s| *s /= (hidden as f32).sqrt());
        let weight = Some(self.vector(scale));
        let (kind, out) = (NormKind::Rms, self.program.tensor(hidden));
        let norm = Norm { kind, weight, bias: None, eps: self.eps(kind), group: hidden };
        self.program.push(Op::Norm { norm, x, out });
        let matrix = self.matrix("ffn_gate_inp.weight", n_experts, hidden)?;
        Ok(self.product(out, matrix))
    }
}
