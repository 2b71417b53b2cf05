//! The keys and values that attention reads: the KV caches of a batch, or the caller's memory.
#![allow(unsafe_code)]

use std::ops::Range;

use super::plan::Heads;
use crate::cpu::kernels::attention::CHUNK;
use crate::cpu::kernels::attention::kv_storage::{KvView, Storage, padded};
use crate::cpu::kernels::attention::latent::values_of_keys;
use crate::cpu::kernels::simd::LANES;
use crate::cpu::kernels::{Isa, elementwise};
use crate::cpu::kv::CpuKv;

/// Keys and values of some sequences.
pub trait KvSource: Sync {
    /// Returns the format of the keys of a sequence.
    fn key_storage(&self, sequence: u32) -> Storage;

    /// Returns the format of the values of a sequence, unless they are part of the keys.
    fn value_storage(&self, sequence: u32) -> Storage;

    /// Returns an identifier of the memory that holds a chunk of a sequence; equal for two sequences that share it.
    fn memory(&self, sequence: u32, chunk: usize) -> usize;

    /// Returns positions `from..to`, at most `CHUNK`, of a head of a sequence; `from` must be a multiple of 32.
    /// `converted` is memory for a chunk of keys and values in f32, for sources with another layout.
    fn read<'a>(&'a self, sequence: u32, head: usize, positions: Range<usize>, converted: &'a mut [f32]) -> KvView<'a>;
}

/// A layer of KV caches, which a function returns by sequence.
pub struct LayerSource<'c, F: Fn(u32) -> &'c CpuKv> {
    isa: Isa,
    cache: F,
    layer: usize,
}

impl<'c, F: Fn(u32) -> &'c CpuKv> LayerSource<'c, F> {
    pub fn new(isa: Isa, layer: usize, cache: F) -> Self {
        LayerSource { isa, cache, layer }
    }

    /// Returns the range of a sequence's keys that contains all keys with an infinity or NaN.
    pub(super) fn nan(&self, sequence: u32) -> Range<usize> {
        (self.cache)(sequence).nan(self.layer)
    }

    /// Returns the keys of the only head of a sequence, from position `from`, a multiple of 32, to the end of its
    /// chunk.
    pub(super) fn keys(&self, sequence: u32, from: usize) -> KvView<'c> {
        (self.cache)(sequence).cached(self.layer, 0, from)
    }
}

impl<'c, F: Fn(u32) -> &'c CpuKv + Sync> KvSource for LayerSource<'c, F> {
    fn key_storage(&self, sequence: u32) -> Storage {
        (self.cache)(sequence).key_storage()
    }

    fn value_storage(&self, sequence: u32) -> Storage {
        (self.cache)(sequence).value_storage()
    }

    fn memory(&self, sequence: u32, chunk: usize) -> usize {
        (self.cache)(sequence).memory(self.layer, chunk)
    }

    fn read<'a>(&'a self, sequence: u32, head: usize, positions: Range<usize>, converted: &'a mut [f32]) -> KvView<'a> {
        let cache = (self.cache)(sequence);
        let view = cache.cached(self.layer, head, positions.start);
        if !cache.is_latent(self.layer) {
            return view;
        }
        let KvView { head_dim, value_dim, key_storage, keys, .. } = view;
        values_of_keys(self.isa, key_storage, keys, head_dim, value_dim, positions.len(), converted);
        let value_stride = size_of::<f32>() * padded(value_dim);
        KvView { value_storage: Storage::F32, values: bytes(converted), value_stride, ..view }
    }
}

/// A KV cache in the caller's memory, with a separate current position.
pub(super) struct PlainCache<'a> {
    pub isa: Isa,
    pub heads: Heads,
    /// `[len, kv * dim]`
    pub keys: &'a [f32],
    pub values: &'a [f32],
    /// `[kv * dim]`
    pub current_key: &'a [f32],
    pub current_value: &'a [f32],
}

impl KvSource for PlainCache<'_> {
    fn key_storage(&self, _: u32) -> Storage {
        Storage::F32
    }

    fn value_storage(&self, _: u32) -> Storage {
        Storage::F32
    }

    fn memory(&self, _: u32, _: usize) -> usize {
        self.keys.as_ptr().addr()
    }

    fn read<'a>(&'a self, _: u32, head: usize, positions: Range<usize>, converted: &'a mut [f32]) -> KvView<'a> {
        let Heads { kv, dim, .. } = self.heads;
        let width = kv * dim;
        let row = |cache: &'a [f32], current: &'a [f32], position: usize| {
            let row = cache.get(position * width..(position + 1) * width).unwrap_or(current);
            &row[head * dim..][..dim]
        };
        let (panels, rows) = converted.split_at_mut(CHUNK * dim);
        for (panel, from) in panels.chunks_exact_mut(LANES * dim).zip(positions.clone().step_by(LANES)) {
            // Lanes after the last position repeat it; they are masked.
            let keys = std::array::from_fn(|i| row(self.keys, self.current_key, (from + i).min(positions.end - 1)));
            elementwise::transpose(self.isa, &keys, panel);
        }
        let (values, stride) = if dim.is_multiple_of(LANES) && positions.end * width <= self.values.len() {
            (&self.values[positions.start * width + head * dim..], width)
        } else {
            let stride = padded(dim);
            for (to, position) in rows.chunks_exact_mut(stride).zip(positions) {
                to[..dim].copy_from_slice(row(self.values, self.current_value, position));
            }
            (&*rows, stride)
        };
        KvView {
            head_dim: dim,
            value_dim: dim,
            key_storage: Storage::F32,
            keys: bytes(panels),
            value_storage: Storage::F32,
            values: bytes(values),
            value_stride: size_of::<f32>() * stride,
        }
    }
}

/// Views floats as bytes.
fn bytes(x: &[f32]) -> &[u8] {
    // SAFETY: every f32 is four bytes.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), size_of_val(x)) }
}
