//! KV cache and recurrent states of one sequence on a device.
//!
//! Owns the layout of a cache, which the kernels read through `DeviceKv` and `KvPlace`.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::args::{DeviceKv, KvPlace, ValuesBefore};
use super::launch::{Context, DeviceBuffer, Stream};
use crate::error::{Error, Result, try_vec};
use crate::gpu::Address;
use crate::gpu::arena::Arena;
use crate::gpu::{GpuAdapter, GpuSequence};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::{KvLayer, RECURRENT_BUFFERS, SequenceSpec};
use crate::quant;
use crate::tensor::DType;

/// Alignment of the row width, equal to a block of Q8_0 and Q4_0.
const WIDTH: usize = 32;

/// Keys and values, each `[layer][head][position][stride]`; the stride is the width rounded up, so that rows can be
/// read 16 bytes at a time. A layer keeps all positions or a ring buffer of the newest; Q8_0 and Q4_0 have an array of
/// scales, one per 32 values. Recurrent states have a few buffers, each with the states of all layers.
pub struct CudaSequence {
    spec: SequenceSpec,
    buffer: DeviceBuffer,
    view: DeviceKv,
    recurrent: Vec<Address>,
    stream: Arc<Stream>,
    adapters: AdapterSet<dyn GpuAdapter>,
}

/// Size of the pinned buffer for saved rows in bytes.
const SAVED_PIECE: usize = 256 << 10;

/// Returns the size of `WIDTH` stored values in bytes.
fn block_bytes(dtype: DType) -> Result<usize> {
    match dtype {
        quant::F32 => Ok(4 * WIDTH),
        quant::F16 => Ok(2 * WIDTH),
        quant::Q8_0 => Ok(WIDTH),
        quant::Q4_0 => Ok(WIDTH / 2),
        _ => {
            let types = "F32, F16, Q8_0 and Q4_0 are supported";
            Err(Error::unsupported(format!("a cache of tensor type {} is not supported on a GPU; {types}", dtype.0)))
        }
    }
}

/// True for types whose blocks have a separate scale.
fn is_scaled(dtype: DType) -> bool {
    dtype == quant::Q8_0 || dtype == quant::Q4_0
}

fn too_large() -> Error {
    Error::invalid("the size of a cache overflows")
}

/// Returns the location of each layer in a cache; the last entry is the end of all layers.
pub fn places(layers: &[KvLayer]) -> Result<Vec<KvPlace>> {
    let mut places = try_vec("places in a cache", layers.len() + 1)?;
    let mut next = KvPlace::default();
    for layer in layers {
        let stride = |width: usize| u32::try_from(width.next_multiple_of(WIDTH)).map_err(|_| too_large());
        let (k_stride, is_ring) = (stride(layer.head_dim)?, layer.window > 0);
        let v_stride = if layer.is_latent { k_stride } else { stride(layer.value_dim)? };
        let (is_latent, v) = (layer.is_latent, if layer.is_latent { next.k } else { next.v });
        let pool = u32::try_from(layer.pool).map_err(|_| too_large())?;
        places.push(KvPlace {
            k_stride,
            v_stride,
            v,
            is_ring: u32::from(is_ring),
            is_latent: u32::from(is_latent),
            pool,
            ..next
        });
        // A shared key is divided among its positions.
        let add = |before: &mut ValuesBefore, stride: u32| {
            let before = if is_ring { &mut before.rings } else { &mut before.whole };
            let each = |values: u32| values.div_ceil(pool).checked_next_multiple_of(WIDTH as u32);
            let heads = u32::try_from(layer.n_kv_heads).ok();
            let values = heads.and_then(|heads| each(heads.checked_mul(stride)?)?.checked_add(*before));
            *before = values.ok_or_else(too_large)?;
            Ok::<_, Error>(())
        };
        add(&mut next.k, k_stride)?;
        if !is_latent {
            add(&mut next.v, v_stride)?;
        }
    }
    places.push(next);
    Ok(places)
}

/// Lays out a cache from `base` on; returns its view, the buffers of its recurrent states and its size in bytes.
fn kv_layout(base: Address, spec: &SequenceSpec) -> Result<(DeviceKv, Vec<Address>, usize)> {
    spec.check()?;
    let (k_bytes, v_bytes) = (block_bytes(spec.k_type)?, block_bytes(spec.v_type)?);
    if spec.capacity > i32::MAX as usize {
        return Err(too_large());
    }
    // One length for all ring buffers: the longest that a layer requires.
    let rings = (0..spec.layers.len()).filter(|&i| spec.layers[i].window > 0);
    let ring = rings.map(|i| spec.kept(i)).max().unwrap_or(0);
    let ends = places(&spec.layers)?.pop().unwrap_or_default();
    let values = |end: ValuesBefore| {
        let whole = (end.whole as usize).checked_mul(spec.capacity);
        whole.and_then(|n| n.checked_add((end.rings as usize).checked_mul(ring)?)).ok_or_else(too_large)
    };
    let (keys, values) = (values(ends.k)?, values(ends.v)?);
    let scales = |dtype, values| if is_scaled(dtype) { values / WIDTH } else { 0 };
    let mut arena = Arena::default();
    let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
    let view = DeviceKv {
        k: add(keys / WIDTH, k_bytes)?,
        v: add(values / WIDTH, v_bytes)?,
        k_scales: add(scales(spec.k_type, keys), 2)?,
        v_scales: add(scales(spec.v_type, values), 2)?,
        from: 0,
        to: 0,
        capacity: spec.capacity as u32,
        ring: ring as u32,
        k_type: spec.k_type.0,
        v_type: spec.v_type.0,
    };
    let values = spec.recurrent.iter().try_fold(0usize, |sum, n| sum.checked_add(*n)).ok_or_else(too_large)?;
    let count = if values == 0 { 0 } else { RECURRENT_BUFFERS };
    let recurrent = (0..count).map(|_| add(values, 4)).collect::<Result<_>>()?;
    Ok((view, recurrent, arena.bytes()))
}

/// Returns the size of a cache in bytes.
pub fn kv_bytes(spec: &SequenceSpec) -> Result<u64> {
    Ok(kv_layout(0, spec)?.2 as u64)
}

/// A step's view of a cache. Only kernels dereference its addresses.
#[derive(Clone, Copy, Debug)]
pub struct KvView(DeviceKv);

impl KvView {
    /// Returns a cache of the same types with capacity 0, for padding rows.
    pub fn padding(&self) -> KvView {
        let DeviceKv { k_type, v_type, .. } = self.0;
        KvView(DeviceKv { k_type, v_type, ..DeviceKv::default() })
    }

    /// True if both views belong to one cache, whatever recurrent states the step reads and writes.
    pub fn is_of_same(&self, other: &KvView) -> bool {
        let cache = |view: &KvView| DeviceKv { from: 0, to: 0, ..view.0 };
        cache(self) == cache(other)
    }

    pub fn capacity(&self) -> usize {
        self.0.capacity as usize
    }

    pub fn k_type(&self) -> DType {
        DType(self.0.k_type)
    }

    pub fn v_type(&self) -> DType {
        DType(self.0.v_type)
    }

    /// Returns the cache as kernels read it.
    pub fn device(&self) -> &DeviceKv {
        &self.0
    }
}

impl CudaSequence {
    pub fn new(context: &Arc<Context>, stream: &Arc<Stream>, spec: &SequenceSpec) -> Result<CudaSequence> {
        let (_, _, bytes) = kv_layout(0, spec)?;
        let buffer = context.enter()?.alloc("a cache", bytes)?;
        let (view, recurrent, _) = kv_layout(buffer.address(), spec)?;
        Ok(CudaSequence {
            spec: spec.clone(),
            buffer,
            view,
            recurrent,
            stream: stream.clone(),
            adapters: AdapterSet::default(),
        })
    }

    /// Downcasts a sequence to the type of this backend; `None` for another backend's sequence.
    pub fn of(sequence: &dyn GpuSequence) -> Option<&CudaSequence> {
        (sequence as &dyn Any).downcast_ref()
    }

    /// Returns the view for a step that reads recurrent states from buffer `from`, or zeros, and writes them to buffer
    /// `to`.
    pub fn view(&self, from: Option<usize>, to: usize) -> KvView {
        let recurrent = |buffer: usize| self.recurrent.get(buffer).copied().unwrap_or(0);
        KvView(DeviceKv { from: from.map_or(0, recurrent), to: recurrent(to), ..self.view })
    }

    pub fn context(&self) -> &Arc<Context> {
        self.buffer.context()
    }

    /// Adapters of every step of the sequence.
    pub fn adapters(&self) -> &AdapterSet<dyn GpuAdapter> {
        &self.adapters
    }

    fn save_runs(&self, runs: Vec<(usize, usize)>, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let current = self.context().enter()?;
        let mut via = current.alloc_pinned(SAVED_PIECE)?;
        runs.into_iter().try_for_each(|(offset, bytes)| {
            current.download(&self.stream, self.buffer.at(offset), bytes, &mut via, write)
        })
    }

    fn load_runs(&mut self, runs: Vec<(usize, usize)>, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let current = self.context().enter()?;
        let mut via = current.alloc_pinned(SAVED_PIECE)?;
        runs.into_iter().try_for_each(|(offset, bytes)| {
            current.upload_now(&self.stream, self.buffer.at(offset), bytes, &mut via, read)
        })
    }

    /// Returns offset and size in bytes of a buffer of recurrent states, if there are any.
    fn recurrent(&self, buffer: usize) -> Option<(usize, usize)> {
        let address = *self.recurrent.get(buffer)?;
        Some(((address - self.buffer.address()) as usize, 4 * self.spec.recurrent.iter().sum::<usize>()))
    }

    /// Returns the arrays of a layer: offset of the first row, and row size in bytes.
    fn arrays(&self, layer: usize) -> Result<Vec<(usize, usize)>> {
        let (view, place) = (&self.view, places(&self.spec.layers)?[layer]);
        let keys = (view.k, view.k_scales, view.k_type, place.k, place.k_stride as usize);
        let values = (view.v, view.v_scales, view.v_type, place.v, place.v_stride as usize);
        let planes = [Some(keys), (place.is_latent == 0).then_some(values)];
        let mut arrays = Vec::new();
        for (plane, scales, dtype, before, stride) in planes.into_iter().flatten() {
            let (each, offset) =
                (block_bytes(DType(dtype))?, |array: Address| (array - self.buffer.address()) as usize);
            let before = before.whole as usize * self.spec.capacity + before.rings as usize * view.ring as usize;
            arrays.push((offset(plane) + before / WIDTH * each, stride / WIDTH * each));
            if is_scaled(DType(dtype)) {
                arrays.push((offset(scales) + before / WIDTH * 2, stride / WIDTH * 2));
            }
        }
        Ok(arrays)
    }

    /// Returns the number of positions that a layer keeps.
    fn kept(&self, layer: usize) -> usize {
        let is_ring = self.spec.layers[layer].window > 0;
        if is_ring { self.view.ring as usize } else { self.spec.capacity }
    }

    /// Returns offset and size in bytes of the stored rows of `positions`: per array and head, and split where a ring
    /// buffer wraps around.
    fn runs(&self, layer: usize, positions: Range<usize>) -> Result<Vec<(usize, usize)>> {
        let (KvLayer { n_kv_heads: heads, pool, .. }, kept) = (self.spec.layers[layer], self.kept(layer));
        let positions = positions.start / pool..positions.end / pool;
        let mut runs = Vec::new();
        for (array, row) in self.arrays(layer)? {
            for head in 0..heads {
                let mut at = positions.start;
                while at < positions.end {
                    let n = (positions.end - at).min(kept - at % kept);
                    runs.push((array + (head * kept + at % kept) * row, n * row));
                    at += n;
                }
            }
        }
        Ok(runs)
    }
}

impl GpuSequence for CudaSequence {
    fn spec(&self) -> &SequenceSpec {
        &self.spec
    }

    fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    fn set_adapters(&mut self, adapters: AdapterSet<dyn GpuAdapter>) {
        self.adapters = adapters;
    }

    fn token_bytes(&self) -> Result<u64> {
        let mut sum = 0;
        for (i, layer) in self.spec.layers.iter().enumerate().filter(|(_, layer)| layer.window == 0) {
            let rows = self.arrays(i)?.iter().map(|(_, row)| (layer.n_kv_heads * row) as u64).sum::<u64>();
            sum += rows.div_ceil(layer.pool as u64);
        }
        Ok(sum)
    }

    fn fork(&self, len: usize, buffers: &mut dyn Iterator<Item = usize>) -> Result<Box<dyn GpuSequence>> {
        let mut fork = CudaSequence::new(self.context(), &self.stream, &self.spec)?;
        fork.adapters = self.adapters.clone();
        let current = self.context().enter()?;
        let mut runs: Vec<(usize, usize)> = buffers.filter_map(|buffer| self.recurrent(buffer)).collect();
        for layer in 0..self.spec.layers.len() {
            runs.extend(self.runs(layer, 0..len.min(self.kept(layer)))?);
        }
        for (offset, bytes) in runs.into_iter().filter(|(_, bytes)| *bytes > 0) {
            current.copy(&self.stream, fork.buffer.at(offset), self.buffer.at(offset), bytes)?;
        }
        current.synchronize(&self.stream)?;
        Ok(Box::new(fork))
    }

    fn save(&self, layer: usize, positions: Range<usize>, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.save_runs(self.runs(layer, positions)?, write)
    }

    fn load(
        &mut self,
        layer: usize,
        positions: Range<usize>,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.load_runs(self.runs(layer, positions)?, read)
    }

    fn save_recurrent(&self, buffer: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.save_runs(self.recurrent(buffer).into_iter().collect(), write)
    }

    fn load_recurrent(&mut self, buffer: usize, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        self.load_runs(self.recurrent(buffer).into_iter().collect(), read)
    }
}
