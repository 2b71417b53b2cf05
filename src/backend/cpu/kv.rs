//! The key-value cache in memory: for each layer and head the panels of keys, then the panels of values, as
//! `kernels::attend::Storage` describes them. A head of a layer is contiguous, so that attention streams it.
//!
//! Memory is mapped, not allocated: pages that no position has touched cost nothing, and read as zeros.
#![allow(unsafe_code)]

use std::any::Any;
use std::ops::Range;

use memmap2::MmapMut;

use super::disjoint::DisjointSlice;
use super::kernels::attend::CHUNK;
use super::kernels::kv_storage::{BLOCK, KEY_LINE, KvView, Storage, padded};
use super::kernels::simd::LANES;
use super::kernels::{Isa, quantize};
use crate::backend::{Kv, KvSpec, RING_ALIGN};
use crate::error::{Error, Result, try_vec};
use crate::quant;
use crate::tensor::DType;

// A chunk of attention never wraps around the end of a ring.
const _: () = assert!(RING_ALIGN.is_multiple_of(CHUNK));

/// Where things lie, in bytes.
#[derive(Debug)]
struct Layout {
    key_storage: Storage,
    value_storage: Storage,
    head_dim: usize,
    n_heads: usize,
    key_panel: usize,
    /// Bytes of a panel of values, divided by its positions.
    value_bytes: usize,
    layers: Vec<LayerLayout>,
}

#[derive(Clone, Copy, Debug)]
struct LayerLayout {
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

impl Layout {
    /// The layout and the bytes of all layers.
    fn new(spec: &KvSpec) -> Result<(Layout, usize)> {
        let (key_storage, value_storage) = (storage(spec.k_type)?, storage(spec.v_type)?);
        let too_large = || Error::invalid(format!("the size of a cache overflows: {spec:?}"));
        if spec.layers == 0 || spec.n_kv_heads == 0 || spec.head_dim == 0 || spec.capacity == 0 {
            return Err(Error::invalid(format!("an empty cache: {spec:?}")));
        }
        // Bounds that keep the sizes of one panel, one row and the list of layers from overflowing.
        if spec.head_dim > 1 << 20 || spec.layers > 1 << 20 {
            return Err(too_large());
        }
        if spec.rings.iter().any(|ring| !ring.is_multiple_of(RING_ALIGN)) {
            return Err(Error::invalid(format!("rings that are no multiples of {RING_ALIGN}: {spec:?}")));
        }
        let (key_panel, value_bytes) =
            (key_storage.key_panel_bytes(spec.head_dim), value_storage.value_bytes(spec.head_dim));
        let mut layers = try_vec("the layout of a cache", spec.layers)?;
        let mut end = 0usize;
        for layer in 0..spec.layers {
            let kept = spec.kept(layer);
            let keys = kept.div_ceil(LANES).checked_mul(key_panel).ok_or_else(too_large)?;
            let values = kept.div_ceil(BLOCK).checked_mul(BLOCK * value_bytes).ok_or_else(too_large)?;
            // Both parts are multiples of 64, so that every panel begins on a cache line.
            let head = keys.checked_add(values).and_then(|n| n.checked_next_multiple_of(64)).ok_or_else(too_large)?;
            layers.push(LayerLayout { start: end, kept, keys, head });
            end = head
                .checked_mul(spec.n_kv_heads)
                .and_then(|n| n.checked_add(end))
                .filter(|&n| n <= isize::MAX as usize)
                .ok_or_else(too_large)?;
        }
        let (head_dim, n_heads) = (spec.head_dim, spec.n_kv_heads);
        Ok((Layout { key_storage, value_storage, head_dim, n_heads, key_panel, value_bytes, layers }, end))
    }

    /// Where a head of a layer begins.
    fn head(&self, layer: usize, head: usize) -> usize {
        assert!(head < self.n_heads);
        self.layers[layer].start + head * self.layers[layer].head
    }
}

/// The cache of one sequence.
pub struct CpuKv {
    spec: KvSpec,
    layout: Layout,
    memory: MmapMut,
}

impl CpuKv {
    pub fn new(spec: &KvSpec) -> Result<CpuKv> {
        let (layout, bytes) = Layout::new(spec)?;
        let memory = MmapMut::map_anon(bytes)
            .map_err(|_| Error::OutOfMemory { what: "the key-value cache", bytes: bytes as u64 })?;
        Ok(CpuKv { spec: spec.clone(), layout, memory })
    }

    /// The positions of a head from `from` on, a multiple of 32.
    pub fn cached(&self, layer: usize, head: usize, from: usize) -> KvView<'_> {
        assert!(from.is_multiple_of(BLOCK) && from <= self.spec.capacity);
        let l = &self.layout;
        let LayerLayout { kept, keys, head: bytes, .. } = l.layers[layer];
        let from = from % kept;
        let head = &self.memory[l.head(layer, head)..][..bytes];
        KvView {
            head_dim: l.head_dim,
            key_storage: l.key_storage,
            keys: &head[from / LANES * l.key_panel..keys],
            value_storage: l.value_storage,
            values: &head[keys + from * l.value_bytes..],
            value_stride: l.value_bytes,
        }
    }

    pub fn key_storage(&self) -> Storage {
        self.layout.key_storage
    }

    /// Stores the key and the value of a position, `[n_kv_heads * head_dim]` each.
    pub fn write(&mut self, isa: Isa, layer: usize, position: usize, key: &[f32], value: &[f32]) {
        let dim = self.spec.head_dim;
        assert!(key.len() == self.spec.n_kv_heads * dim && value.len() == key.len());
        let writer = self.writer();
        for (head, (key, value)) in key.chunks_exact(dim).zip(value.chunks_exact(dim)).enumerate() {
            // SAFETY: the cache is borrowed mutably, and this is one thread.
            unsafe {
                writer.write(isa, layer, head, Part::Keys, position, key);
                writer.write(isa, layer, head, Part::Values, position, value);
            }
        }
    }

    /// For writing heads on several threads.
    pub fn writer(&mut self) -> KvWriter<'_> {
        KvWriter { layout: &self.layout, capacity: self.spec.capacity, memory: DisjointSlice::new(&mut self.memory) }
    }
}

/// Which half of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Keys,
    Values,
}

/// Writes rows of heads.
pub struct KvWriter<'a> {
    layout: &'a Layout,
    capacity: usize,
    memory: DisjointSlice<'a, u8>,
}

impl KvWriter<'_> {
    /// Stores `row`, the key or value of a head at a position of a layer.
    ///
    /// # Safety
    /// Nobody else uses the same part of the same head and layer meanwhile.
    pub unsafe fn write(&self, isa: Isa, layer: usize, head: usize, part: Part, position: usize, row: &[f32]) {
        let l = self.layout;
        assert!(position < self.capacity && row.len() == l.head_dim);
        let start = l.head(layer, head);
        let position = position % l.layers[layer].kept;
        let range = match part {
            Part::Keys => start + position / LANES * l.key_panel..start + (position / LANES + 1) * l.key_panel,
            Part::Values => {
                let panel = BLOCK * l.value_bytes;
                let start = start + l.layers[layer].keys + position / BLOCK * panel;
                start..start + panel
            }
        };
        // SAFETY: the range lies within this part of this head, which is the caller's alone.
        let bytes = unsafe { self.memory.slice_mut(range) };
        match part {
            Part::Keys => write_key(isa, l.key_storage, bytes, position % LANES, row),
            Part::Values => write_value(isa, l.value_storage, bytes, position % BLOCK, row),
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

impl Kv for CpuKv {
    fn spec(&self) -> &KvSpec {
        &self.spec
    }

    fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    fn fork(&self, len: usize) -> Result<Box<dyn Kv>> {
        if len > self.spec.capacity {
            return Err(Error::invalid(format!("a fork of {len} positions of {}", self.spec.capacity)));
        }
        let mut fork = CpuKv::new(&self.spec)?;
        let l = &self.layout;
        for (layer, place) in l.layers.iter().enumerate() {
            let len = len.min(place.kept);
            for head in 0..self.spec.n_kv_heads {
                let start = l.head(layer, head);
                let mut copy = |range: Range<usize>| fork.memory[range.clone()].copy_from_slice(&self.memory[range]);
                copy(start..start + len.div_ceil(LANES) * l.key_panel);
                copy(start + place.keys..start + place.keys + len.next_multiple_of(BLOCK) * l.value_bytes);
            }
        }
        Ok(Box::new(fork))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(capacity: usize, head_dim: usize, k_type: DType, v_type: DType) -> KvSpec {
        KvSpec { layers: 2, n_kv_heads: 3, head_dim, capacity, k_type, v_type, rings: vec![] }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for (layers, heads, dim, capacity) in [
            (usize::MAX, 1, 64, 64),
            (1, usize::MAX, 64, 64),
            (1, 1, usize::MAX, 1),
            (1, 1, 64, usize::MAX),
            (0, 1, 1, 1),
            (1, 1, 1, 0),
        ] {
            let (k_type, v_type, rings) = (quant::F16, quant::F16, vec![]);
            let spec = KvSpec { layers, n_kv_heads: heads, head_dim: dim, capacity, k_type, v_type, rings };
            assert!(matches!(CpuKv::new(&spec), Err(Error::InvalidArgument(_))));
        }
        // More than the address space holds.
        let spec = KvSpec { layers: 1 << 20, ..spec(1 << 30, 128, quant::F16, quant::F16) };
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
            let fork = fork.as_any().downcast_ref::<CpuKv>().unwrap();
            let (a, b) = (kv.cached(1, 2, 0), fork.cached(1, 2, 0));
            let keys = 48 / LANES * kv.layout.key_panel;
            assert_eq!(a.keys[..keys], b.keys[..keys]);
            assert!(a.keys[..keys].iter().any(|&x| x != 0) && b.keys[keys..].iter().all(|&x| x == 0));
            let values = 64 * kv.layout.value_bytes;
            assert_eq!(a.values[..values], b.values[..values]);
            assert!(a.values[..values].iter().any(|&x| x != 0) && b.values[values..].iter().all(|&x| x == 0));
            assert!(kv.fork(101).is_err());
        }
    }
}
