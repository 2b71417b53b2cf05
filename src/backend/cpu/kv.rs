//! The key-value cache in memory: for each layer and head the panels of keys, then the panels of values, as
//! `kernels::attend::Storage` describes them. A head of a layer is contiguous, so that attention streams it.
//!
//! Memory is mapped, not allocated: pages that no position has touched cost nothing, and read as zeros.
#![allow(unsafe_code)]

use std::ops::Range;

use super::disjoint::DisjointSlice;
use super::kernels::attend::CHUNK;
use super::kernels::kv_storage::{BLOCK, KEY_LINE, KvView, Storage, padded};
use super::kernels::simd::LANES;
use super::kernels::{Isa, quantize};
use super::memory::map;
use crate::backend::state_spec::{KvLayer, RING_ALIGN, StateSpec};
use crate::error::{Error, Result, try_vec};
use crate::os::Pages;
use crate::quant;
use crate::tensor::DType;

// A chunk of attention never wraps around the end of a ring.
const _: () = assert!(RING_ALIGN.is_multiple_of(CHUNK));

/// Offsets and strides of a cache, in bytes.
#[derive(Debug)]
struct KvLayout {
    key_storage: Storage,
    value_storage: Storage,
    layers: Vec<LayerLayout>,
}

#[derive(Clone, Copy, Debug)]
struct LayerLayout {
    n_heads: usize,
    head_dim: usize,
    value_dim: usize,
    /// Bytes of a panel of keys.
    key_panel: usize,
    /// Bytes of a panel of values, divided by its positions; 0 where values are parts of keys.
    value_bytes: usize,
    start: usize,
    /// Positions; a later one takes the place of the one so many before it.
    kept: usize,
    /// All keys of a head; its values follow.
    keys: usize,
    /// Keys and values of a head.
    head: usize,
}

fn storage(dtype: DType) -> Result<Storage> {
    match dtype {
        quant::F32 => Ok(Storage::F32),
        // 16 bits a number, but integers with scales, which multiply faster.
        quant::F16 => Ok(Storage::I16),
        quant::Q8_0 => Ok(Storage::I8),
        _ => Err(Error::unsupported(format!("a cache of tensor type {}; F32, F16 and Q8_0 are supported", dtype.0))),
    }
}

impl KvLayout {
    /// The layout of some layers of a sequence and their bytes.
    fn new(spec: &StateSpec) -> Result<(KvLayout, usize)> {
        let (key_storage, value_storage) = (storage(spec.k_type)?, storage(spec.v_type)?);
        let too_large = || Error::invalid(format!("the size of a cache overflows: {spec:?}"));
        let mut layers = try_vec("the layout of a cache", spec.layers.len())?;
        let mut start = 0usize;
        for (i, layer) in spec.layers.iter().copied().enumerate() {
            let KvLayer { n_kv_heads: n_heads, head_dim, value_dim, .. } = layer;
            let key_panel = key_storage.key_panel_bytes(head_dim);
            let value_bytes = if layer.is_latent { 0 } else { value_storage.value_bytes(value_dim) };
            let kept = spec.kept(i);
            let keys = kept.div_ceil(LANES).checked_mul(key_panel).ok_or_else(too_large)?;
            let values = kept.div_ceil(BLOCK).checked_mul(BLOCK * value_bytes).ok_or_else(too_large)?;
            // Both parts are multiples of 64, so that every panel begins on a cache line.
            let head = keys.checked_add(values).and_then(|n| n.checked_next_multiple_of(64)).ok_or_else(too_large)?;
            layers.push(LayerLayout { n_heads, head_dim, value_dim, key_panel, value_bytes, start, kept, keys, head });
            start = head
                .checked_mul(n_heads)
                .and_then(|n| n.checked_add(start))
                .filter(|&n| n <= isize::MAX as usize)
                .ok_or_else(too_large)?;
        }
        Ok((KvLayout { key_storage, value_storage, layers }, start))
    }
}

impl LayerLayout {
    /// The offset of a head.
    fn head(&self, head: usize) -> usize {
        assert!(head < self.n_heads);
        self.start + head * self.head
    }
}

/// The cache of one sequence.
pub struct CpuKv {
    spec: StateSpec,
    layout: KvLayout,
    memory: Pages,
}

impl CpuKv {
    pub fn new(spec: &StateSpec) -> Result<CpuKv> {
        spec.check()?;
        let (layout, bytes) = KvLayout::new(spec)?;
        let memory = map("the key-value cache", bytes)?;
        Ok(CpuKv { spec: spec.clone(), layout, memory })
    }

    pub fn spec(&self) -> &StateSpec {
        &self.spec
    }

    /// Memory set aside, in bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// A copy of positions `0..len` with the same capacity.
    pub fn fork(&self, len: usize) -> Result<CpuKv> {
        if len > self.spec.capacity {
            return Err(Error::invalid(format!("a fork of {len} positions of {}", self.spec.capacity)));
        }
        let mut fork = CpuKv::new(&self.spec)?;
        for l in &self.layout.layers {
            let len = len.min(l.kept);
            for start in (0..l.n_heads).map(|head| l.head(head)) {
                let mut copy = |range: Range<usize>| fork.memory[range.clone()].copy_from_slice(&self.memory[range]);
                copy(start..start + len.div_ceil(LANES) * l.key_panel);
                copy(start + l.keys..start + l.keys + len.next_multiple_of(BLOCK) * l.value_bytes);
            }
        }
        Ok(fork)
    }

    /// True where the values of a layer are parts of its keys.
    pub fn is_latent(&self, layer: usize) -> bool {
        self.spec.layers[layer].is_latent
    }

    /// The positions of a head from `from` on, a multiple of 32; no values where they are parts of keys.
    pub fn cached(&self, layer: usize, head: usize, from: usize) -> KvView<'_> {
        assert!(from.is_multiple_of(BLOCK) && from <= self.spec.capacity);
        let l = &self.layout.layers[layer];
        let from = from % l.kept;
        let head = &self.memory[l.head(head)..][..l.head];
        KvView {
            head_dim: l.head_dim,
            value_dim: l.value_dim,
            key_storage: self.layout.key_storage,
            keys: &head[from / LANES * l.key_panel..l.keys],
            value_storage: self.layout.value_storage,
            values: &head[l.keys + from * l.value_bytes..],
            value_stride: l.value_bytes,
        }
    }

    pub fn key_storage(&self) -> Storage {
        self.layout.key_storage
    }

    /// Stores the key and the value of a position, `[n_kv_heads, head_dim]` and `[n_kv_heads, value_dim]`; no value where it
    /// is a part of the key.
    pub fn write(&mut self, isa: Isa, layer: usize, position: usize, key: &[f32], value: &[f32]) {
        let shape = self.spec.layers[layer];
        let values = if shape.is_latent { 0 } else { shape.value_width() };
        assert!(key.len() == shape.key_width() && value.len() == values);
        let writer = self.writer();
        for (part, row, dim) in [(KvPart::Keys, key, shape.head_dim), (KvPart::Values, value, shape.value_dim)] {
            for (head, row) in row.chunks_exact(dim).enumerate() {
                // SAFETY: the cache is borrowed mutably, and this is one thread.
                unsafe { writer.write(isa, layer, head, part, position, row) };
            }
        }
    }

    /// Borrows the cache so that several threads can write its heads.
    pub fn writer(&mut self) -> KvWriter<'_> {
        KvWriter { layout: &self.layout, capacity: self.spec.capacity, memory: DisjointSlice::new(&mut self.memory) }
    }
}

/// Which half of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvPart {
    Keys,
    Values,
}

/// Writes rows of heads.
pub struct KvWriter<'a> {
    layout: &'a KvLayout,
    capacity: usize,
    memory: DisjointSlice<'a, u8>,
}

impl KvWriter<'_> {
    /// Stores `row`, the key or value of a head at a position of a layer.
    ///
    /// # Safety
    /// Nobody else uses the same part of the same head and layer meanwhile.
    pub unsafe fn write(&self, isa: Isa, layer: usize, head: usize, part: KvPart, position: usize, row: &[f32]) {
        let l = &self.layout.layers[layer];
        let dim = if part == KvPart::Keys { l.head_dim } else { l.value_dim };
        assert!(position < self.capacity && row.len() == dim && (part == KvPart::Keys || l.value_bytes > 0));
        let start = l.head(head);
        let position = position % l.kept;
        let range = match part {
            KvPart::Keys => start + position / LANES * l.key_panel..start + (position / LANES + 1) * l.key_panel,
            KvPart::Values => {
                let panel = BLOCK * l.value_bytes;
                let start = start + l.keys + position / BLOCK * panel;
                start..start + panel
            }
        };
        // SAFETY: the range lies within this part of this head, which is the caller's alone.
        let bytes = unsafe { self.memory.slice_mut(range) };
        match part {
            KvPart::Keys => write_key(isa, self.layout.key_storage, bytes, position % LANES, row),
            KvPart::Values => write_value(isa, self.layout.value_storage, bytes, position % BLOCK, row),
        }
    }
}

/// Stores one key in lane `lane` of a panel.
fn write_key(isa: Isa, storage: Storage, panel: &mut [u8], lane: usize, row: &[f32]) {
    match storage {
        Storage::F32 => {
            for (column, x) in panel.as_chunks_mut::<{ 4 * LANES }>().0.iter_mut().zip(row) {
                column[4 * lane..][..4].copy_from_slice(&x.to_ne_bytes());
            }
        }
        Storage::I16 => {
            for (block, row) in panel.chunks_mut((BLOCK / 2 + 1) * KEY_LINE).zip(row.chunks(BLOCK)) {
                let mut q = [0; BLOCK];
                let scale = quantize::quantize_i16(isa, row, &mut q[..row.len()]);
                let (pairs, scales) = block.split_at_mut(row.len().div_ceil(2) * KEY_LINE);
                scales[4 * lane..][..4].copy_from_slice(&scale.to_ne_bytes());
                for (line, [a, b]) in pairs.as_chunks_mut::<KEY_LINE>().0.iter_mut().zip(q.as_chunks().0) {
                    line[4 * lane..][..2].copy_from_slice(&a.to_ne_bytes());
                    line[4 * lane + 2..][..2].copy_from_slice(&b.to_ne_bytes());
                }
            }
        }
        Storage::I8 => {
            let (quants, scales) = panel.split_at_mut(LANES * row.len());
            for ((columns, scales), row) in
                quants.chunks_mut(BLOCK * LANES).zip(scales.as_chunks_mut::<{ 4 * LANES }>().0).zip(row.chunks(BLOCK))
            {
                let mut q = [0; BLOCK];
                let scale = quantize::quantize_i8(isa, row, &mut q[..row.len()]);
                scales[4 * lane..][..4].copy_from_slice(&scale.to_ne_bytes());
                for (column, &q) in columns.as_chunks_mut::<LANES>().0.iter_mut().zip(&q) {
                    column[lane] = q as u8;
                }
            }
        }
    }
}

/// Stores one value at position `place` of a panel; the dimensions that pad its last vector stay zero.
fn write_value(isa: Isa, storage: Storage, panel: &mut [u8], place: usize, row: &[f32]) {
    let dims = padded(row.len());
    let bytes = storage.value_bytes(row.len());
    match storage {
        Storage::F32 => {
            for (to, x) in panel[place * bytes..][..bytes].as_chunks_mut().0.iter_mut().zip(row) {
                *to = x.to_ne_bytes();
            }
        }
        Storage::I16 => {
            let (pairs, scales) = panel.split_at_mut(2 * BLOCK * dims);
            let line = &mut pairs[place / 2 * (4 * dims)..][..4 * dims];
            let scale = quantize::quantize_i16_beside(isa, row, line.as_chunks_mut().0, place % 2);
            scales[4 * place..][..4].copy_from_slice(&scale.to_ne_bytes());
        }
        Storage::I8 => {
            let (quants, scales) = panel[place * bytes..][..bytes].split_at_mut(dims);
            for ((to, scale), row) in
                quants.chunks_mut(BLOCK).zip(scales.as_chunks_mut().0.iter_mut()).zip(row.chunks(BLOCK))
            {
                let mut q = [0; BLOCK];
                *scale = quantize::quantize_i8(isa, row, &mut q[..row.len()]).to_ne_bytes();
                for (to, &q) in to.iter_mut().zip(&q) {
                    *to = q as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(capacity: usize, head_dim: usize, k_type: DType, v_type: DType) -> StateSpec {
        let layers = vec![KvLayer::new(3, head_dim, 0); 2];
        StateSpec { layers, memories: vec![], capacity, k_type, v_type, max_step: 1 }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for (layers, n_kv_heads, head_dim, capacity) in
            [(1, usize::MAX, 64, 64), (1, 1, usize::MAX, 1), (1, 1, 64, usize::MAX), (0, 1, 1, 1), (1, 1, 1, 0)]
        {
            let layers = vec![KvLayer::new(n_kv_heads, head_dim, 0); layers];
            let spec = StateSpec { layers, capacity, ..spec(1, 1, quant::F16, quant::F16) };
            assert!(matches!(CpuKv::new(&spec), Err(Error::InvalidArgument(_))), "{spec:?}");
        }
        // More than the address space holds.
        let layers = vec![KvLayer::new(3, 128, 0); 1 << 20];
        let spec = StateSpec { layers, ..spec(1 << 30, 128, quant::F16, quant::F16) };
        assert!(matches!(CpuKv::new(&spec), Err(Error::OutOfMemory { .. })));
        assert!(matches!(CpuKv::new(&self::spec(16, 64, quant::Q4_0, quant::F16)), Err(Error::Unsupported(_))));
    }

    #[test]
    fn a_fork_holds_its_positions_and_no_other_pages() {
        for dtype in [quant::F32, quant::F16, quant::Q8_0] {
            let mut kv = CpuKv::new(&spec(100, 24, dtype, dtype)).unwrap();
            let row: Vec<f32> = (0..3 * 24).map(|i| i as f32 - 11.5).collect();
            for (layer, position) in (0..2).flat_map(|l| (0..100).map(move |p| (l, p))) {
                kv.write(Isa::Scalar, layer, position, &row, &row);
            }
            let fork = kv.fork(40).unwrap();
            let (a, b) = (kv.cached(1, 2, 0), fork.cached(1, 2, 0));
            let keys = 48 / LANES * kv.layout.layers[1].key_panel;
            assert_eq!(a.keys[..keys], b.keys[..keys]);
            assert!(a.keys[..keys].iter().any(|&x| x != 0) && b.keys[keys..].iter().all(|&x| x == 0));
            let values = 64 * kv.layout.layers[1].value_bytes;
            assert_eq!(a.values[..values], b.values[..values]);
            assert!(a.values[..values].iter().any(|&x| x != 0) && b.values[values..].iter().all(|&x| x == 0));
            assert!(kv.fork(101).is_err());
        }
    }
}
