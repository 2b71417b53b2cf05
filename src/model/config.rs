//! Hyper-parameters, normalised: every difference between architectures is a field or an enum here, so that the
//! decoder never asks which architecture it runs. Refuses to know the key names of any file.

use crate::backend::{Activation, NormKind, RopePairs, Routing, Widths};
use crate::error::{Error, Result};

/// Normalisation of queries and keys before they are turned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QkNorm {
    None,
    /// Each head by itself (Qwen 3, Gemma 3).
    Head,
    /// The whole projection (OLMo 2).
    Full,
}

/// How tokens learn their position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Positions {
    Rope,
    /// A table that is added to the embedding.
    Learned,
}

/// How the angles of a rotary embedding are stretched beyond the length that was trained.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    None,
    /// Every angle divided by the factor.
    Linear(f32),
    /// Llama 3.1: low frequencies divided by the factor, a smooth step between the two bounds.
    Llama3 {
        factor: f32,
        low: f32,
        high: f32,
        original_context: u32,
    },
    /// YaRN (arXiv 2309.00071).
    Yarn {
        factor: f32,
        attention: f32,
        beta_fast: f32,
        beta_slow: f32,
        original_context: u32,
    },
    /// LongRoPE (arXiv 2402.13753): the divisors, one a pair, come from the file.
    LongRope {
        long: bool,
        magnitude: f32,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    pub base: f32,
    /// Dimensions of a head that turn.
    pub n_dims: usize,
    pub pairs: RopePairs,
    pub scaling: RopeScaling,
}

/// What may differ from layer to layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerConfig {
    /// Index into `Config::ropes`.
    pub rope: usize,
    /// A token sees itself and the `window - 1` before it; 0: all.
    pub window: u32,
    pub moe: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct MoeConfig {
    pub n_experts: usize,
    pub ffn: usize,
    pub routing: Routing,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub architecture: String,
    pub name: String,
    pub hidden: usize,
    /// Width of the dense feed-forward block.
    pub ffn: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    /// Declared by the file; nothing is sized by it.
    pub context_length: u32,
    pub norm: NormKind,
    pub norm_eps: f32,
    /// Added to each norm weight as stored (1 for Gemma checkpoints that keep `weight - 1`).
    pub norm_offset: f32,
    /// Norm at the input of attention and feed-forward block.
    pub pre_norm: bool,
    /// Norm at their output, before the residual stream.
    pub post_norm: bool,
    pub qk_norm: QkNorm,
    pub activation: Activation,
    /// `activation(gate) * up`, or `activation(up)` alone.
    pub gated: bool,
    /// q, k and v in one tensor, in this order.
    pub fused_qkv: bool,
    /// gate and up in one tensor, in this order.
    pub fused_gate_up: bool,
    pub positions: Positions,
    pub embedding_scale: f32,
    /// Factor on what a block adds to the residual stream.
    pub residual_scale: f32,
    /// Factor on `q . k`.
    pub attention_scale: f32,
    pub attention_softcap: f32,
    pub logit_scale: f32,
    pub logit_softcap: f32,
    pub ropes: Vec<RopeConfig>,
    /// Caches of more positions than this turn by the table behind the layer's own.
    pub long_rope_above: Option<u32>,
    pub layers: Vec<LayerConfig>,
    pub moe: Option<MoeConfig>,
}

impl Config {
    pub fn q_dim(&self) -> usize {
        self.n_heads * self.head_dim
    }

    pub fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// Widths of the activations that a step needs.
    pub fn widths(&self) -> Widths {
        let (n_experts, n_experts_used, expert_ffn) =
            self.moe.as_ref().map_or((0, 0, 0), |m| (m.n_experts, m.routing.n_used, m.ffn));
        Widths {
            hidden: self.hidden,
            q: self.q_dim(),
            kv: self.kv_dim(),
            ffn: self.ffn,
            vocab: self.vocab,
            n_experts,
            n_experts_used,
            expert_ffn,
        }
    }

    /// The range table: every value that sizes something, and the relations between them.
    pub fn check(&self) -> Result<()> {
        const WIDTH: usize = 1 << 20;
        let ranges: [(&str, usize, usize); 6] = [
            ("the number of layers", self.layers.len(), 1024),
            ("the hidden width", self.hidden, WIDTH),
            ("the number of heads", self.n_heads, 4096),
            ("the number of key-value heads", self.n_kv_heads, 4096),
            ("the head width", self.head_dim, 4096),
            ("the vocabulary", self.vocab, 4 << 20),
        ];
        for (what, value, max) in ranges {
            if value == 0 || value > max {
                return Err(Error::unsupported(format!("{what} is {value}, it must be from 1 to {max}")));
            }
        }
        let n_dims = self.ropes.iter().map(|r| r.n_dims).max().unwrap_or(0);
        let rules = [
            (
                self.n_heads.is_multiple_of(self.n_kv_heads),
                "the number of heads is no multiple of that of key-value heads",
            ),
            (self.head_dim.is_multiple_of(2), "the head width is odd"),
            (self.q_dim() <= WIDTH, "the heads together are wider than 2^20"),
            (n_dims.is_multiple_of(2) && n_dims <= self.head_dim, "the rotary width is odd or above the head width"),
            (self.ropes.iter().all(|r| r.base.is_finite() && r.base > 0.0), "the rotary base is not a positive number"),
            (self.norm_eps.is_finite() && self.norm_eps >= 0.0, "the norm epsilon is not a number from 0"),
            (
                self.ffn <= WIDTH && (self.ffn > 0 || self.layers.iter().all(|l| l.moe)),
                "the feed-forward width is 0 or above 2^20",
            ),
            (self.layers.iter().all(|l| !l.moe) || self.moe.is_some(), "expert layers without experts"),
            (
                self.layers.iter().all(|l| l.rope + usize::from(self.long_rope_above.is_some()) < self.ropes.len())
                    || self.positions == Positions::Learned,
                "a layer without rotary table",
            ),
        ];
        for (holds, what) in rules {
            if !holds {
                return Err(Error::unsupported(what));
            }
        }
        if let Some(moe) = &self.moe {
            let (n, used) = (moe.n_experts, moe.routing.n_used);
            if n == 0 || n > 4096 || used == 0 || used > n || moe.ffn == 0 || moe.ffn > WIDTH {
                return Err(Error::unsupported(format!("{n} experts of width {}, {used} used a token", moe.ffn)));
            }
        }
        let factors = [self.embedding_scale, self.residual_scale, self.attention_scale, self.logit_scale];
        let caps = [self.attention_softcap, self.logit_softcap];
        if !factors.iter().all(|f| f.is_finite()) || !caps.iter().all(|c| c.is_finite() && *c >= 0.0) {
            return Err(Error::unsupported("a scale or soft-cap is not a finite number"));
        }
        Ok(())
    }
}
