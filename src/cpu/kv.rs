//! The KV cache in memory: per layer and head the panels of keys, then the panels of values, in the formats of
//! `kernels::attention::kv_storage::Storage`. A head of a layer is contiguous, so that attention streams it.
//!
//! Memory is mapped, not allocated: untouched pages cost nothing and read as zeros. A fork shares the mapping
//! copy-on-write: a write to a chunk of positions that another cache may read first copies the chunk into the writer's
//! own mapping.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::kernels::hadamard::{LONGEST, rotate};
use super::kernels::simd::LANES;
use super::kernels::{Isa, quantize};
use super::memory::map;
use super::nan::{NanRange, all_finite};
use crate::cpu::kernels::attention::CHUNK;
use crate::cpu::kernels::attention::kv_storage::{BLOCK, KEY_LINE, KvView, SCALES, Storage, padded};
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::sequence_spec::{KvLayer, RING_ALIGN, SequenceSpec};
use crate::os::Pages;
use crate::quant;
use crate::tensor::DType;

// A chunk of attention must not wrap around the end of a ring buffer.
const _: () = assert!(RING_ALIGN.is_multiple_of(CHUNK));

/// Offsets and strides of a KV cache, in bytes.
#[derive(Debug)]
struct KvLayout {
    key_storage: Storage,
    value_storage: Storage,
    layers: Vec<LayerLayout>,
    chunks: usize,
}

#[derive(Clone, Copy, Debug)]
struct LayerLayout {
    n_heads: usize,
    head_dim: usize,
    value_dim: usize,
    /// True if rows are rotated, provided that their storage rotates.
    rotates: bool,
    /// Size of a panel of keys in bytes.
    key_panel: usize,
    /// Size of a panel of values in bytes, divided by its positions; 0 if values are part of the keys.
    value_bytes: usize,
    start: usize,
    /// Number of keys. In a ring buffer, key `i` overwrites key `i - kept`.
    kept: usize,
    is_ring: bool,
    /// Number of positions that share a key.
    pool: usize,
    /// Bytes of all keys of a head; its values follow.
    keys: usize,
    /// Bytes of the keys and values of a head.
    head: usize,
    /// Index of the layer's first chunk among the chunks of all layers.
    first_chunk: usize,
}

fn storage(dtype: DType) -> Result<Storage> {
    match dtype {
        quant::F32 => Ok(Storage::F32),
        // 16 bits per number, but integers with scales, which multiply faster.
        quant::F16 => Ok(Storage::I16),
        quant::Q8_0 => Ok(Storage::I8),
        quant::Q4_0 => Ok(Storage::I4),
        _ => {
            let types = "F32, F16, Q8_0 and Q4_0 are supported";
            Err(Error::unsupported(format!("a cache of tensor type {} is not supported; {types}", dtype.0)))
        }
    }
}

impl KvLayout {
    /// Returns the layout of some layers of a sequence and its size in bytes.
    fn new(spec: &SequenceSpec) -> Result<(KvLayout, usize)> {
        let (key_storage, value_storage) = (storage(spec.k_type)?, storage(spec.v_type)?);
        let too_large = || Error::invalid(format!("the size of a cache overflows: {spec:?}"));
        let mut layers = try_vec("the layout of a cache", spec.layers.len())?;
        let (mut start, mut first_chunk) = (0usize, 0usize);
        for (i, layer) in spec.layers.iter().copied().enumerate() {
            let KvLayer { n_kv_heads: n_heads, head_dim, value_dim, pool, .. } = layer;
            let key_panel = key_storage.key_panel_bytes(head_dim);
            let value_bytes = if layer.is_latent { 0 } else { value_storage.value_bytes(value_dim) };
            let kept = spec.kept(i);
            let keys = kept.div_ceil(LANES).checked_mul(key_panel).ok_or_else(too_large)?;
            let values = kept.div_ceil(BLOCK).checked_mul(BLOCK * value_bytes).ok_or_else(too_large)?;
            // Both parts are multiples of 64, so that every panel begins on a cache line.
            let head = keys.checked_add(values).and_then(|n| n.checked_next_multiple_of(64)).ok_or_else(too_large)?;
            let shape = LayerLayout {
                n_heads,
                head_dim,
                value_dim,
                rotates: !layer.is_latent,
                key_panel,
                value_bytes,
                start,
                kept,
                is_ring: kept < spec.capacity && layer.window > 0,
                pool,
                keys,
                head,
                first_chunk,
            };
            layers.push(shape);
            first_chunk = kept.div_ceil(CHUNK).checked_add(first_chunk).ok_or_else(too_large)?;
            start = head
                .checked_mul(n_heads)
                .and_then(|n| n.checked_add(start))
                .filter(|&n| n <= isize::MAX as usize)
                .ok_or_else(too_large)?;
        }
        Ok((KvLayout { key_storage, value_storage, layers, chunks: first_chunk }, start))
    }
}

impl LayerLayout {
    /// Returns the offset of a head.
    fn head(&self, head: usize) -> usize {
        assert!(head < self.n_heads);
        self.start + head * self.head
    }

    /// Returns the keys that are stored with some positions.
    fn keys_of(&self, positions: Range<usize>) -> Range<usize> {
        positions.start / self.pool..positions.end / self.pool
    }

    /// Returns the parts of all heads in memory order.
    fn heads_and_halves(&self) -> impl Iterator<Item = (usize, KvPart)> + use<> {
        (0..self.n_heads).flat_map(|head| [(head, KvPart::Keys), (head, KvPart::Values)])
    }

    /// Returns the chunks that hold `positions`, with the byte range in each, part by part. The first position must be
    /// a multiple of 32.
    fn runs(self, positions: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.heads_and_halves().flat_map(move |(head, part)| {
            let positions = positions.clone();
            let chunks = (positions.start / CHUNK * CHUNK..positions.end).step_by(CHUNK);
            chunks.map(move |first| {
                let place = first % self.kept;
                let (from, to) = (first.max(positions.start) - first, (first + CHUNK).min(positions.end) - first);
                (self.first_chunk + place / CHUNK, self.place(head, part, place + from..place + to))
            })
        })
    }

    /// Returns the byte range of the panels of a part of a head that hold some positions, which must not wrap around
    /// the end of a ring buffer.
    fn place(&self, head: usize, part: KvPart, positions: Range<usize>) -> Range<usize> {
        let start = self.head(head);
        let (start, lanes, panel) = match part {
            KvPart::Keys => (start, LANES, self.key_panel),
            KvPart::Values => (start + self.keys, BLOCK, BLOCK * self.value_bytes),
        };
        start + positions.start / lanes * panel..start + positions.end.div_ceil(lanes) * panel
    }
}

/// The mapping that holds `CHUNK` positions of a layer.
#[derive(Clone, Default)]
enum Chunk {
    /// Nothing is written yet.
    #[default]
    Empty,
    Own,
    /// In the mapping of another cache, at the same offsets.
    Shared(Arc<Pages>),
}

/// The KV cache of one sequence.
pub struct CpuKv {
    spec: SequenceSpec,
    layout: Arc<KvLayout>,
    /// Mapping of this cache; read-only while forks hold it too.
    memory: Arc<Pages>,
    /// `[layer][chunk]`
    chunks: Vec<Chunk>,
    /// `[layer]`: ranges of keys and values with infinity or NaN, which integers cannot represent.
    nans: Arc<[NanRange]>,
}

impl CpuKv {
    pub fn new(spec: &SequenceSpec) -> Result<CpuKv> {
        spec.check()?;
        let (layout, bytes) = KvLayout::new(spec)?;
        CpuKv::with_layout(spec, Arc::new(layout), bytes)
    }

    fn with_layout(spec: &SequenceSpec, layout: Arc<KvLayout>, bytes: usize) -> Result<CpuKv> {
        let memory = Arc::new(map("the key-value cache", bytes)?);
        let chunks = try_filled("the layout of a cache", layout.chunks, Chunk::Empty)?;
        let nans = spec.layers.iter().map(|_| NanRange::default()).collect();
        Ok(CpuKv { spec: spec.clone(), layout, memory, chunks, nans })
    }

    pub fn spec(&self) -> &SequenceSpec {
        &self.spec
    }

    /// Returns the size of a cache of this shape in bytes.
    pub fn bytes_of(spec: &SequenceSpec) -> Result<u64> {
        Ok(KvLayout::new(spec)?.1 as u64)
    }

    /// Returns the reserved memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Returns the number of bytes for one more position of capacity; ring buffers do not grow.
    pub fn token_bytes(&self) -> u64 {
        let whole = self.layout.layers.iter().filter(|l| !l.is_ring);
        whole.map(|l| (l.n_heads * (l.key_panel / LANES + l.value_bytes)).div_ceil(l.pool) as u64).sum()
    }

    /// Returns the memory of the positions in pieces: the address of a mapping, an index in it, and bytes. Pieces
    /// shared with forks compare equal; mappings are reference-counted.
    pub fn memory_pieces(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.layout.layers.iter().flat_map(move |l| {
            let token = l.n_heads * (l.key_panel / LANES + l.value_bytes);
            (0..l.kept.div_ceil(CHUNK)).filter_map(move |i| {
                let mapping = match &self.chunks[l.first_chunk + i] {
                    Chunk::Empty => return None,
                    Chunk::Own => &self.memory,
                    Chunk::Shared(mapping) => mapping,
                };
                let positions = CHUNK.min(l.kept - i * CHUNK);
                Some((Arc::as_ptr(mapping).addr(), l.first_chunk + i, (positions * token) as u64))
            })
        })
    }

    /// Returns a cache with positions `0..len` and the same capacity. The two caches share memory copy-on-write.
    pub fn fork(&self, len: usize) -> Result<CpuKv> {
        if len > self.spec.capacity {
            return Err(Error::invalid(format!("a fork has {len} positions; the cache has {}", self.spec.capacity)));
        }
        let mut fork = CpuKv::with_layout(&self.spec, self.layout.clone(), self.memory.len())?;
        fork.nans = self.nans.iter().zip(&self.layout.layers).map(|(nan, l)| nan.fork(len / l.pool)).collect();
        for l in &self.layout.layers {
            let used = l.first_chunk..l.first_chunk + l.keys_of(0..len).end.min(l.kept).div_ceil(CHUNK);
            for (to, from) in fork.chunks[used.clone()].iter_mut().zip(&self.chunks[used]) {
                *to = match from {
                    Chunk::Own => Chunk::Shared(self.memory.clone()),
                    other => other.clone(),
                };
            }
        }
        Ok(fork)
    }

    /// Returns the memory of the cache, with the chunks of a layer that hold keys `positions` made writable.
    fn make_writable(&mut self, layer: usize, positions: Range<usize>) -> Result<&mut [u8]> {
        if Arc::get_mut(&mut self.memory).is_none() {
            let fresh = Arc::new(map("the key-value cache", self.memory.len())?);
            let shared = std::mem::replace(&mut self.memory, fresh);
            for chunk in self.chunks.iter_mut().filter(|chunk| matches!(chunk, Chunk::Own)) {
                *chunk = Chunk::Shared(shared.clone());
            }
        }
        let memory = Arc::get_mut(&mut self.memory).ok_or(Error::Busy("the key-value cache"))?;
        let l = &self.layout.layers[layer];
        for first in (positions.start / CHUNK * CHUNK..positions.end).step_by(CHUNK) {
            let place = first % l.kept;
            let chunk = std::mem::replace(&mut self.chunks[l.first_chunk + place / CHUNK], Chunk::Own);
            if let Chunk::Shared(from) = chunk {
                // Entries after the positions to be written are discarded; in a ring buffer they are earlier keys,
                // which are kept.
                let used = if l.is_ring { CHUNK } else { positions.start.saturating_sub(first) };
                let used = place..(place + used).min(l.kept);
                for (head, part) in l.heads_and_halves() {
                    let range = l.place(head, part, used.clone());
                    memory[range.clone()].copy_from_slice(&from[range]);
                }
            }
        }
        Ok(memory)
    }

    /// Passes the bytes of positions of a layer to `write`, part by part, in an order that does not depend on the
    /// capacity. The first position must be a multiple of 32.
    pub fn save(
        &self,
        layer: usize,
        positions: Range<usize>,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let l = &self.layout.layers[layer];
        l.runs(l.keys_of(positions)).try_for_each(|(chunk, range)| write(&self.mapping(chunk)[range]))
    }

    /// Fills positions of a layer in the order of `save`.
    pub fn load(
        &mut self,
        layer: usize,
        positions: Range<usize>,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let l = self.layout.layers[layer];
        let keys = l.keys_of(positions);
        let memory = self.make_writable(layer, keys.clone())?;
        l.runs(keys).try_for_each(|(_, range)| read(&mut memory[range]))
    }

    fn mapping(&self, chunk: usize) -> &[u8] {
        match &self.chunks[chunk] {
            Chunk::Shared(memory) => memory,
            _ => &self.memory,
        }
    }

    /// Returns the address of the mapping that holds a chunk of a layer; caches that share the chunk return the same
    /// address.
    pub fn memory(&self, layer: usize, chunk: usize) -> usize {
        let l = &self.layout.layers[layer];
        self.mapping(l.first_chunk + chunk * CHUNK % l.kept / CHUNK).as_ptr().addr()
    }

    /// True if the values of a layer are part of its keys.
    pub fn is_latent(&self, layer: usize) -> bool {
        self.spec.layers[layer].is_latent
    }

    /// Returns the positions of a head from `from`, a multiple of 32, to the end of their chunk; no values if they are
    /// part of the keys.
    pub fn cached(&self, layer: usize, head: usize, from: usize) -> KvView<'_> {
        assert!(from.is_multiple_of(BLOCK) && from <= self.spec.capacity);
        let l = &self.layout.layers[layer];
        let from = from % l.kept;
        let head = &self.mapping(l.first_chunk + from / CHUNK)[l.head(head)..][..l.head];
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

    /// Returns the range of positions of a layer from the first to the last with an infinity or NaN in its key or
    /// value.
    pub fn nan(&self, layer: usize) -> Range<usize> {
        self.nans[layer].get()
    }

    pub fn key_storage(&self) -> Storage {
        self.layout.key_storage
    }

    pub fn value_storage(&self) -> Storage {
        self.layout.value_storage
    }

    /// Stores the key and the value of a position, `[n_kv_heads, head_dim]` and `[n_kv_heads, value_dim]`; no value if
    /// it is part of the key. If positions share keys, `position` counts keys, here and below.
    pub fn write(&mut self, isa: Isa, layer: usize, position: usize, key: &[f32], value: &[f32]) -> Result<()> {
        let shape = self.spec.layers[layer];
        let values = if shape.is_latent { 0 } else { shape.value_width() };
        assert!(key.len() == shape.key_width() && value.len() == values);
        let writer = self.writer(layer, position..position + 1)?;
        for (part, row, dim) in [(KvPart::Keys, key, shape.head_dim), (KvPart::Values, value, shape.value_dim)] {
            for (head, row) in row.chunks_exact(dim).enumerate() {
                // SAFETY: the cache is borrowed mutably, and this is one thread.
                unsafe { writer.write(isa, head, part, position, row) };
            }
        }
        Ok(())
    }

    /// Borrows a layer of the cache so that several threads can write `positions` of its heads.
    pub fn writer(&mut self, layer: usize, positions: Range<usize>) -> Result<KvWriter<'_>> {
        assert!(positions.end <= self.spec.capacity);
        let (layout, nans) = (self.layout.clone(), self.nans.clone());
        // Positions from `positions.start` on are discarded.
        nans[layer].truncate(positions.start);
        let memory = DisjointSlice::new(self.make_writable(layer, positions.clone())?);
        Ok(KvWriter { layout, layer, positions, memory, nans })
    }
}

/// A half of a head: keys or values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvPart {
    Keys,
    Values,
}

/// Writes rows of heads of a layer.
pub struct KvWriter<'a> {
    layout: Arc<KvLayout>,
    layer: usize,
    positions: Range<usize>,
    memory: DisjointSlice<'a, u8>,
    nans: Arc<[NanRange]>,
}

impl KvWriter<'_> {
    /// Stores `row`, the key or value of a head at a position.
    ///
    /// # Safety
    /// The same part of the same head must not be in use elsewhere.
    pub unsafe fn write(&self, isa: Isa, head: usize, part: KvPart, position: usize, row: &[f32]) {
        let l = &self.layout.layers[self.layer];
        let dim = if part == KvPart::Keys { l.head_dim } else { l.value_dim };
        assert!(self.positions.contains(&position) && row.len() == dim && (part == KvPart::Keys || l.value_bytes > 0));
        let finite: Vec<f32>;
        let row = if all_finite(row) {
            row
        } else {
            self.nans[self.layer].add(position);
            // Infinity and NaN are replaced by zeros, so that their product with a weight of 0 is 0.
            finite = row.iter().map(|x| if x.is_finite() { *x } else { 0.0 }).collect();
            &finite
        };
        let position = position % l.kept;
        let range = l.place(head, part, position..position + 1);
        // SAFETY: the range lies within this part of this head, which is not in use elsewhere by this function's
        // contract.
        let bytes = unsafe { self.memory.slice_mut(range) };
        let storage = if part == KvPart::Keys { self.layout.key_storage } else { self.layout.value_storage };
        if !storage.is_rotated() {
            return match part {
                KvPart::Keys => write_key(isa, storage, bytes, position % LANES, row),
                KvPart::Values => write_value(isa, storage, bytes, position % BLOCK, row),
            };
        }
        for (part_of_row, x) in row.chunks(LONGEST).enumerate() {
            let mut rotated = [0.0; LONGEST];
            let rotated = &mut rotated[..x.len()];
            rotated.copy_from_slice(x);
            if l.rotates {
                rotate(isa, rotated, dim);
            }
            for (i, x) in rotated.chunks(BLOCK).enumerate() {
                let block = part_of_row * (LONGEST / BLOCK) + i;
                write_block(isa, storage, bytes, BlockPlace { part, position, dim, block }, x);
            }
        }
    }
}

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
        Storage::I8 | Storage::I4 => unreachable!("written block by block"),
    }
}

/// Stores one value at position `place` of a panel; padding dimensions of its last vector stay zero.
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
            let scale = quantize::quantize_i16_interleaved(isa, row, line.as_chunks_mut().0, place % 2);
            scales[4 * place..][..4].copy_from_slice(&scale.to_ne_bytes());
        }
        Storage::I8 | Storage::I4 => unreachable!("written block by block"),
    }
}

/// A block of 32 numbers of a key or value.
struct BlockPlace {
    part: KvPart,
    position: usize,
    /// Number of dimensions of the whole key or value.
    dim: usize,
    /// Index of the block in the key or value.
    block: usize,
}

/// Stores a block of a key or value in the byte panel of its position.
fn write_block(isa: Isa, storage: Storage, panel: &mut [u8], place: BlockPlace, x: &[f32]) {
    let BlockPlace { part, position, dim, block } = place;
    let each = if storage == Storage::I8 { 4 } else { 8 };
    let mut codes = [0; BLOCK];
    let codes = &mut codes[..x.len()];
    let scale = match storage {
        Storage::I8 => quantize::quantize_to_bytes(isa, x, codes),
        _ => quantize::quantize_to_nibbles(isa, x, codes),
    };
    let (lane, place) = (position % LANES, position % BLOCK);
    let (unit, start, scale_at) = match part {
        KvPart::Keys => {
            let start = block * (BLOCK / each * KEY_LINE + SCALES);
            (KEY_LINE, start, start + x.len().div_ceil(each) * KEY_LINE + 2 * lane)
        }
        KvPart::Values => {
            let unit = 4 * padded(dim);
            (unit, 4 * block * BLOCK, BLOCK / each * unit + 2 * (block * BLOCK + place))
        }
    };
    panel[scale_at..][..2].copy_from_slice(&scale.to_le_bytes());
    for (i, &code) in codes.iter().enumerate() {
        // The index of the number within a lane, and the lane.
        let (number, lane) = if part == KvPart::Keys { (i, lane) } else { (place, i) };
        let byte = &mut panel[start + number / each * unit + 4 * lane + number % 4];
        *byte = match (storage, number % each / 4) {
            (Storage::I8, _) => code,
            (_, 0) => *byte & 0xf0 | code,
            _ => *byte & 0x0f | code << 4,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(capacity: usize, head_dim: usize, k_type: DType, v_type: DType) -> SequenceSpec {
        let layers = vec![KvLayer::new(3, head_dim, 0); 2];
        SequenceSpec { layers, recurrent: vec![], capacity, k_type, v_type, max_step: 1 }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for (layers, n_kv_heads, head_dim, capacity) in
            [(1, usize::MAX, 64, 64), (1, 1, usize::MAX, 1), (1, 1, 64, usize::MAX), (1, 1, 1, 0)]
        {
            let layers = vec![KvLayer::new(n_kv_heads, head_dim, 0); layers];
            let spec = SequenceSpec { layers, capacity, ..spec(1, 1, quant::F16, quant::F16) };
            assert!(matches!(CpuKv::new(&spec), Err(Error::InvalidArgument(_))), "{spec:?}");
        }
        // More than the address space holds.
        let layers = vec![KvLayer::new(3, 128, 0); 1 << 20];
        let spec = SequenceSpec { layers, ..spec(1 << 30, 128, quant::F16, quant::F16) };
        assert!(matches!(CpuKv::new(&spec), Err(Error::OutOfMemory { .. })));
        assert!(matches!(CpuKv::new(&self::spec(16, 64, quant::Q4_1, quant::F16)), Err(Error::Unsupported(_))));
    }

    /// Writes to a fork do not affect its origin, or vice versa, in full caches and in ring buffers.
    #[test]
    fn a_fork_and_its_origin_see_their_own_writes() {
        const CAPACITY: usize = 1500;
        let row = |position: usize, who: usize| -> Vec<f32> {
            (0..3 * 24).map(|i| (i * 7 + position * 3 + who * 1000) as f32).collect()
        };
        for (dtype, window) in [
            (quant::F32, 0),
            (quant::F16, 0),
            (quant::Q8_0, 0),
            (quant::Q4_0, 0),
            (quant::F16, 300),
            (quant::Q4_0, 300),
            (quant::F32, 1200),
        ] {
            let mut spec = spec(CAPACITY, 24, dtype, dtype);
            spec.layers.iter_mut().for_each(|layer| layer.window = window);
            let write = |kv: &mut CpuKv, positions: Range<usize>, who: usize| {
                for (layer, p) in (0..2).flat_map(|l| positions.clone().map(move |p| (l, p))) {
                    let row = row(p, who);
                    kv.write(Isa::Scalar, layer, p, &row, &row).unwrap();
                }
            };
            // The bytes of the positions up to `len` that are left after positions up to `written` were written.
            let bytes = |kv: &CpuKv, written: usize, len: usize| {
                let mut all = Vec::new();
                let first = written.saturating_sub(kv.layout.layers[0].kept).next_multiple_of(32);
                assert!(first < len);
                for layer in 0..2 {
                    kv.save(layer, first..len / 32 * 32, &mut |bytes| {
                        all.extend_from_slice(bytes);
                        Ok(())
                    })
                    .unwrap();
                }
                all
            };
            let single = |parts: &[(Range<usize>, usize)]| {
                let mut kv = CpuKv::new(&spec).unwrap();
                parts.iter().for_each(|(positions, who)| write(&mut kv, positions.clone(), *who));
                kv
            };
            let mut origin = single(&[(0..700, 0)]);
            let mut fork = origin.fork(700).unwrap();
            let mut second = fork.fork(512).unwrap();
            write(&mut origin, 700..1440, 1);
            write(&mut fork, 700..960, 2);
            write(&mut second, 512..544, 3);
            let third = fork.fork(960).unwrap();
            write(&mut fork, 960..1280, 4);
            let same = |kv: &CpuKv, parts: &[(Range<usize>, usize)], written: usize, len: usize| {
                assert!(bytes(kv, written, len) == bytes(&single(parts), written, len), "{dtype:?} {window} {parts:?}");
            };
            same(&origin, &[(0..700, 0), (700..1440, 1)], 1440, 1440);
            same(&fork, &[(0..700, 0), (700..960, 2), (960..1280, 4)], 1280, 1280);
            // A rewind: the ring buffer has lost what the tokens up to 700 overwrote.
            same(&second, &[(0..512, 0), (512..544, 3)], 700, 544);
            drop((origin, fork));
            same(&third, &[(0..700, 0), (700..960, 2)], 960, 960);
            assert!(third.fork(CAPACITY + 1).is_err());
        }
    }
}
