//! The shape of what a sequence remembers: keys and values of each layer, recurrent state.

use crate::error::{Error, Result};
use crate::tensor::DType;

/// Keys and values of one layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvLayer {
    pub n_kv_heads: usize,
    /// Width of a key of one head.
    pub head_dim: usize,
    /// Width of a value of one head.
    pub value_dim: usize,
    /// True where values are the first numbers of their keys and take no memory.
    pub is_latent: bool,
    /// A token sees itself and the `window - 1` before it; 0: all.
    pub window: usize,
    /// Number of positions that share a key, which their last one stores; 1 where each has its own.
    pub pool: usize,
}

impl KvLayer {
    /// Values as wide as keys, and of their own.
    pub const fn new(n_kv_heads: usize, head_dim: usize, window: usize) -> KvLayer {
        KvLayer { n_kv_heads, head_dim, value_dim: head_dim, is_latent: false, window, pool: 1 }
    }

    /// Width of a key of all heads.
    pub fn key_width(&self) -> usize {
        self.n_kv_heads.saturating_mul(self.head_dim)
    }

    /// Width of a value of all heads.
    pub fn value_width(&self) -> usize {
        self.n_kv_heads.saturating_mul(self.value_dim)
    }
}

/// The shape of the caches of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceSpec {
    /// Layers, by `KvLayerId`.
    pub layers: Vec<KvLayer>,
    /// Number of values of each recurrent state, by `RecurrentId`.
    pub recurrent: Vec<usize>,
    /// Positions.
    pub capacity: usize,
    /// `quant::F32`, `quant::Q8_0`, `quant::Q4_0` or `quant::F16`, which stands for any numbers of 16 bits.
    pub k_type: DType,
    pub v_type: DType,
    /// Tokens of a sequence that one step writes, at most.
    pub max_step: usize,
}

/// Number of buffers that a sequence has for its recurrent state, each with all layers of it.
pub const RECURRENT_BUFFERS: usize = 6;

/// Positions in a ring are a multiple of this, so that no chunk of positions that is read at once wraps around its end.
pub const RING_ALIGN: usize = 256;

impl SequenceSpec {
    /// Number of keys that a layer keeps, the newest ones.
    pub fn kept(&self, layer: usize) -> usize {
        match self.layers[layer].window {
            0 => self.capacity.div_ceil(self.layers[layer].pool),
            _ => self.ring(layer).min(self.capacity),
        }
    }

    /// The positions that the first and the last token of a step see together.
    fn ring(&self, layer: usize) -> usize {
        self.layers[layer].window.saturating_add(self.max_step).div_ceil(RING_ALIGN).saturating_mul(RING_ALIGN)
    }

    /// Refuses shapes that are empty or whose sizes would overflow.
    pub fn check(&self) -> Result<()> {
        let empty = |l: &KvLayer| [l.n_kv_heads, l.head_dim, l.value_dim, l.pool].contains(&0);
        if self.layers.iter().any(empty) || self.capacity == 0 || self.max_step == 0 {
            return Err(Error::invalid(format!("an empty cache: {self:?}")));
        }
        if self.layers.iter().any(|l| l.is_latent && l.value_dim > l.head_dim) {
            return Err(Error::invalid(format!("values that are wider than their keys: {self:?}")));
        }
        // Bounds that keep the sizes of one panel, one row and the list of layers from overflowing.
        let large = |l: &KvLayer| l.head_dim.max(l.value_dim) > 1 << 16 || l.n_kv_heads > 1 << 20;
        if self.layers.len().max(self.recurrent.len()) > 1 << 20 || self.layers.iter().any(large) {
            return Err(Error::invalid(format!("the size of a cache overflows: {self:?}")));
        }
        Ok(())
    }
}
