//! Keys, values and recurrent memories of one sequence on a device.
//!
//! Owns the layout of a cache, which the kernels read through `DeviceKv` and `KvPlace`. Refuses to know which positions and
//! which buffers of memories are valid.

use std::sync::Arc;

use super::arena::Arena;
use super::launch::{Context, Current, DeviceBuffer, Stream};
use super::module::{DeviceKv, KvPlace, ValuesBefore};
use super::probe::Address;
use crate::backend::checkpoints::{BUFFERS, Checkpoints};
use crate::backend::state_spec::{KvLayer, StateSpec};
use crate::error::{Error, Result, try_vec};
use crate::quant;
use crate::tensor::DType;

/// Rows of the cache are a multiple of this, a block of Q8_0.
const WIDTH: usize = 32;

/// Keys and values, each `[layer][head][position][stride]`; the stride is the width rounded up, so that rows can be read 16
/// bytes at a time. A layer keeps all positions or a ring of the newest; Q8_0 has an array of scales, one for every 32 values.
/// Recurrent memories have a few buffers, each with those of all layers.
pub struct CudaKv {
    spec: StateSpec,
    buffer: DeviceBuffer,
    view: DeviceKv,
    memories: Vec<Address>,
    stream: Arc<Stream>,
}

/// Bytes of a stored value.
fn value_bytes(dtype: DType) -> Result<usize> {
    match dtype {
        quant::F32 => Ok(4),
        quant::F16 => Ok(2),
        quant::Q8_0 => Ok(1),
        _ => {
            let types = "F32, F16 and Q8_0 are supported";
            Err(Error::unsupported(format!("a cache of tensor type {} on a GPU; {types}", dtype.0)))
        }
    }
}

fn too_large() -> Error {
    Error::invalid("the size of a cache overflows")
}

/// The places of layers in a cache, and behind them that of a further one.
pub fn places(layers: &[KvLayer]) -> Result<Vec<KvPlace>> {
    let mut places = try_vec("places in a cache", layers.len() + 1)?;
    let mut next = KvPlace::default();
    for layer in layers {
        let stride = |width: usize| u32::try_from(width.next_multiple_of(WIDTH)).map_err(|_| too_large());
        let (k_stride, is_ring) = (stride(layer.head_dim)?, layer.window > 0);
        let v_stride = if layer.is_latent { k_stride } else { stride(layer.value_dim)? };
        let (is_latent, v) = (layer.is_latent, if layer.is_latent { next.k } else { next.v });
        places.push(KvPlace {
            k_stride,
            v_stride,
            v,
            is_ring: u32::from(is_ring),
            is_latent: u32::from(is_latent),
            ..next
        });
        let add = |before: &mut ValuesBefore, stride: u32| {
            let before = if is_ring { &mut before.rings } else { &mut before.whole };
            let values =
                u32::try_from(layer.n_kv_heads).ok().and_then(|heads| heads.checked_mul(stride)?.checked_add(*before));
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

/// Lays a cache out from `base` on; returns its view, the buffers of its recurrent memories and the bytes that it takes.
fn kv_layout(base: Address, spec: &StateSpec) -> Result<(DeviceKv, Vec<Address>, usize)> {
    spec.check()?;
    let (k_bytes, v_bytes) = (value_bytes(spec.k_type)?, value_bytes(spec.v_type)?);
    if spec.capacity > i32::MAX as usize {
        return Err(too_large());
    }
    // One length for all rings: the longest that a layer asks for.
    let rings = (0..spec.layers.len()).filter(|&i| spec.layers[i].window > 0);
    let ring = rings.map(|i| spec.kept(i)).max().unwrap_or(0);
    let ends = places(&spec.layers)?.pop().unwrap_or_default();
    let values = |end: ValuesBefore| {
        let whole = (end.whole as usize).checked_mul(spec.capacity);
        whole.and_then(|n| n.checked_add((end.rings as usize).checked_mul(ring)?)).ok_or_else(too_large)
    };
    let (keys, values) = (values(ends.k)?, values(ends.v)?);
    let scales = |dtype, values| if dtype == quant::Q8_0 { values / WIDTH } else { 0 };
    let mut arena = Arena::default();
    let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
    let view = DeviceKv {
        k: add(keys, k_bytes)?,
        v: add(values, v_bytes)?,
        k_scales: add(scales(spec.k_type, keys), 2)?,
        v_scales: add(scales(spec.v_type, values), 2)?,
        from: 0,
        to: 0,
        capacity: spec.capacity as u32,
        ring: ring as u32,
        k_type: spec.k_type.0,
        v_type: spec.v_type.0,
    };
    let memory = spec.memories.iter().try_fold(0usize, |sum, n| sum.checked_add(*n)).ok_or_else(too_large)?;
    let count = if memory == 0 { 0 } else { BUFFERS };
    let memories = (0..count).map(|_| add(memory, 4)).collect::<Result<_>>()?;
    Ok((view, memories, arena.bytes()))
}

/// Bytes of a cache.
pub fn kv_bytes(spec: &StateSpec) -> Result<u64> {
    Ok(kv_layout(0, spec)?.2 as u64)
}

impl CudaKv {
    pub fn new(context: &Arc<Context>, stream: &Arc<Stream>, spec: &StateSpec) -> Result<CudaKv> {
        let (_, _, bytes) = kv_layout(0, spec)?;
        let buffer = context.enter()?.alloc("a cache", bytes)?;
        let (view, memories, _) = kv_layout(buffer.address(), spec)?;
        Ok(CudaKv { spec: spec.clone(), buffer, view, memories, stream: stream.clone() })
    }

    pub fn spec(&self) -> &StateSpec {
        &self.spec
    }

    /// What kernels see of it in a step that reads recurrent memories from one buffer, or zeros, and writes them to another.
    pub fn view(&self, from: Option<usize>, to: usize) -> DeviceKv {
        let memory = |buffer: usize| self.memories.get(buffer).copied().unwrap_or(0);
        DeviceKv { from: from.map_or(0, memory), to: memory(to), ..self.view }
    }

    pub fn context(&self) -> &Arc<Context> {
        self.buffer.context()
    }

    pub fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// A copy of the first `len` positions, or of those of them that a ring keeps, and of the recurrent memories that are held.
    pub fn fork(&self, len: usize, checkpoints: &Checkpoints) -> Result<CudaKv> {
        let fork = CudaKv::new(self.context(), &self.stream, &self.spec)?;
        let current = self.context().enter()?;
        fork.copy_positions(&current, self, len.min(self.spec.capacity))?;
        let bytes = 4 * self.spec.memories.iter().sum::<usize>();
        for buffer in checkpoints.held().filter(|&buffer| buffer < self.memories.len()) {
            fork.copy_from(&current, self, self.memories[buffer], 0, bytes)?;
        }
        current.synchronize(&self.stream)?;
        Ok(fork)
    }

    /// Copies `bytes` bytes from `other`, which has the same shape, `offset` bytes behind an address of `other`.
    fn copy_from(
        &self,
        current: &Current,
        other: &CudaKv,
        address: Address,
        offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let at = (address - other.buffer.address()) as usize + offset;
        if bytes == 0 { Ok(()) } else { current.copy(&self.stream, (&self.buffer, at), (&other.buffer, at), bytes) }
    }

    /// Copies `positions` rows of every head from `other`.
    fn copy_positions(&self, current: &Current, other: &CudaKv, positions: usize) -> Result<()> {
        let view = &other.view;
        let (capacity, ring) = (view.capacity as usize, view.ring as usize);
        for (layer, place) in self.spec.layers.iter().zip(places(&self.spec.layers)?) {
            let kept = if place.is_ring == 0 { capacity } else { ring };
            let keys = (view.k, view.k_scales, view.k_type, place.k, place.k_stride as usize);
            let values = (view.v, view.v_scales, view.v_type, place.v, place.v_stride as usize);
            let planes = [Some(keys), (!layer.is_latent).then_some(values)];
            for (plane, scales, dtype, before, stride) in planes.into_iter().flatten() {
                let each = value_bytes(DType(dtype))?;
                let before = before.whole as usize * capacity + before.rings as usize * ring;
                for head in 0..layer.n_kv_heads {
                    let (first, n) = (before + head * kept * stride, positions.min(kept) * stride);
                    self.copy_from(current, other, plane, first * each, n * each)?;
                    if DType(dtype) == quant::Q8_0 {
                        self.copy_from(current, other, scales, first / WIDTH * 2, n / WIDTH * 2)?;
                    }
                }
            }
        }
        Ok(())
    }
}
