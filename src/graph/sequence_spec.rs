//! The shape of a sequence's state: the KV cache of each layer, and recurrent states.

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
    /// True if values are the first elements of their keys and take no memory (MLA).
    pub is_latent: bool,
    /// A token attends to itself and the `window - 1` tokens before it; 0: to all.
    pub window: usize,
    /// Number of positions that share a key, stored at the last one of them; 1: no sharing.
    pub pool: usize,
}

impl KvLayer {
    /// Returns a layer whose values are separate, and as wide as keys.
    pub const fn new(n_kv_heads: usize, head_dim: usize, window: usize) -> KvLayer {
        KvLayer { n_kv_heads, head_dim, value_dim: head_dim, is_latent: false, window, pool: 1 }
    }

    /// Returns the width of a key of all heads.
    pub fn key_width(&self) -> usize {
        self.n_kv_heads.saturating_mul(self.head_dim)
    }

    /// Returns the width of a value of all heads.
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
    /// Number of positions.
    pub capacity: usize,
    /// `quant::F32`, `quant::Q8_0`, `quant::Q4_0` or `quant::F16`, which stands for any 16-bit float.
    pub k_type: DType,
    pub v_type: DType,
    /// Maximum number of tokens of a sequence that one step writes.
    pub max_step: usize,
}

/// Number of recurrent state buffers per sequence, each with the states of all layers.
pub const RECURRENT_BUFFERS: usize = 6;

/// Positions of a ring are a multiple of this, so that no chunk that is read at once wraps around.
pub const RING_ALIGN: usize = 256;

impl SequenceSpec {
    /// Returns the number of keys that a layer keeps, the newest ones.
    pub fn kept(&self, layer: usize) -> usize {
        match self.layers[layer].window {
            0 => self.capacity.div_ceil(self.layers[layer].pool),
            _ => self.ring(layer).min(self.capacity),
        }
    }

    /// Returns the number of positions that the tokens of one step attend to in total.
    fn ring(&self, layer: usize) -> usize {
        self.layers[layer].window.saturating_add(self.max_step).div_ceil(RING_ALIGN).saturating_mul(RING_ALIGN)
    }

    /// Rejects empty shapes and sizes that overflow.
    pub fn check(&self) -> Result<()> {
        let empty = |l: &KvLayer| [l.n_kv_heads, l.head_dim, l.value_dim, l.pool].contains(&0);
        if self.layers.iter().any(empty) || self.capacity == 0 || self.max_step == 0 {
            return Err(Error::invalid(format!("a cache needs a capacity: {self:?}")));
        }
        if self.layers.iter().any(|l| l.is_latent && l.value_dim > l.head_dim) {
            return Err(Error::invalid(format!("values that are wider than their keys: {self:?}")));
        }
        // Bounds that keep the sizes of a panel, a row and the list of layers from overflowing.
        let large = |l: &KvLayer| l.head_dim.max(l.value_dim) > 1 << 16 || l.n_kv_heads > 1 << 20;
        if self.layers.len().max(self.recurrent.len()) > 1 << 20 || self.layers.iter().any(large) {
            return Err(Error::invalid(format!("the size of a cache overflows: {self:?}")));
        }
        Ok(())
    }
}
