//! Keys and values of one sequence on a device.
//!
//! Owns the layout of a cache, which the kernels read through `KvView` and `KvLayer`. Refuses to know which positions are
//! valid.

use std::any::Any;
use std::sync::Arc;

use super::arena::Arena;
use super::launch::{Context, Current, DeviceBuffer, Stream};
use super::module::{KvLayer, KvView};
use super::probe::Address;
use crate::backend::{Kv, KvSpec, RING_ALIGN};
use crate::error::{Error, Result, try_vec};
use crate::quant;
use crate::tensor::DType;

/// Keys and values, each `[layer][head][position][stride]`; the stride is the length of a head rounded up so that rows can be
/// read 16 bytes at a time. A layer keeps all positions or a ring of the newest; Q8_0 has an array of scales, one for every 32
/// values.
pub struct CudaKv {
    spec: KvSpec,
    buffer: DeviceBuffer,
    view: KvView,
    layers: Vec<KvLayer>,
    stream: Arc<Stream>,
}

/// Bytes of a stored value.
fn value_bytes(dtype: DType) -> Result<usize> {
    match dtype {
        quant::F32 => Ok(4),
        quant::F16 => Ok(2),
        quant::Q8_0 => Ok(1),
        _ => Err(Error::unsupported(format!("a cache of tensor type {}; F32, F16 and Q8_0 are supported", dtype.0))),
    }
}

/// Lays a cache out from `base` on; returns its view and the bytes that it takes.
fn kv_layout(base: Address, spec: &KvSpec) -> Result<(KvView, usize)> {
    let (k_bytes, v_bytes) = (value_bytes(spec.k_type)?, value_bytes(spec.v_type)?);
    let too_large = || Error::invalid(format!("the size of a cache overflows: {spec:?}"));
    if spec.layers == 0 || spec.n_kv_heads == 0 || spec.head_dim == 0 || spec.capacity == 0 {
        return Err(Error::invalid(format!("an empty cache: {spec:?}")));
    }
    if spec.capacity > i32::MAX as usize || spec.head_dim > 1 << 16 || spec.layers > 1 << 20 {
        return Err(too_large());
    }
    if spec.rings.iter().any(|ring| !ring.is_multiple_of(RING_ALIGN)) {
        return Err(Error::invalid(format!("rings that are no multiples of {RING_ALIGN}: {spec:?}")));
    }
    let blocks = [spec.k_type, spec.v_type].contains(&quant::Q8_0);
    let stride = spec.head_dim.next_multiple_of(if blocks { 32 } else { 8 });
    // One length for all rings: the longest that a layer asks for.
    let ring = spec.rings.iter().copied().max().unwrap_or(0).min(spec.capacity);
    let n_rings = spec.rings.iter().take(spec.layers).filter(|ring| **ring > 0).count();
    let whole = (spec.layers - n_rings).checked_mul(spec.capacity);
    let rows = whole.and_then(|n| n.checked_add(n_rings * ring)?.checked_mul(spec.n_kv_heads));
    let values = rows.and_then(|n| n.checked_mul(stride)).ok_or_else(too_large)?;
    let scales = |dtype| if dtype == quant::Q8_0 { values / 32 } else { 0 };
    let mut arena = Arena::default();
    let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
    let view = KvView {
        k: add(values, k_bytes)?,
        v: add(values, v_bytes)?,
        k_scales: add(scales(spec.k_type), 2)?,
        v_scales: add(scales(spec.v_type), 2)?,
        capacity: spec.capacity as u32,
        ring: ring as u32,
        stride: stride as u32,
        k_type: spec.k_type.0,
        v_type: spec.v_type.0,
        pad: 0,
    };
    Ok((view, arena.bytes()))
}

/// Bytes of a cache.
pub fn kv_bytes(spec: &KvSpec) -> Result<u64> {
    Ok(kv_layout(0, spec)?.1 as u64)
}

impl CudaKv {
    pub fn new(context: &Arc<Context>, stream: &Arc<Stream>, spec: &KvSpec) -> Result<CudaKv> {
        let (_, bytes) = kv_layout(0, spec)?;
        let mut layers = try_vec("the layers of a cache", spec.layers)?;
        let mut next = KvLayer::default();
        for layer in 0..spec.layers {
            next.is_ring = u32::from(spec.rings.get(layer).is_some_and(|ring| *ring > 0));
            layers.push(next);
            *(if next.is_ring == 0 { &mut next.whole } else { &mut next.rings }) += 1;
        }
        let buffer = context.enter()?.alloc("a cache", bytes)?;
        let (view, _) = kv_layout(buffer.address(), spec)?;
        Ok(CudaKv { spec: spec.clone(), buffer, view, layers, stream: stream.clone() })
    }

    pub fn view(&self) -> KvView {
        self.view
    }

    pub fn layers(&self) -> &[KvLayer] {
        &self.layers
    }

    pub fn context(&self) -> &Arc<Context> {
        self.buffer.context()
    }

    /// Copies `positions` rows of every head from `other`, which has the same shape.
    fn copy_from(&self, current: &Current, other: &CudaKv, positions: usize) -> Result<()> {
        let (view, stride) = (&self.view, self.view.stride as usize);
        let values = |dtype: u32| value_bytes(DType(dtype)).map(|bytes| stride * bytes);
        let scales = |dtype: u32| if DType(dtype) == quant::Q8_0 { stride / 32 * 2 } else { 0 };
        let planes = [
            (view.k, values(view.k_type)?),
            (view.v, values(view.v_type)?),
            (view.k_scales, scales(view.k_type)),
            (view.v_scales, scales(view.v_type)),
        ];
        for (address, row) in planes.into_iter().filter(|(_, row)| positions * row > 0) {
            let plane = (address - self.buffer.address()) as usize;
            for layer in &self.layers {
                let kept = if layer.is_ring == 0 { view.capacity } else { view.ring } as usize;
                let before = layer.whole as usize * view.capacity as usize + layer.rings as usize * view.ring as usize;
                for head in 0..self.spec.n_kv_heads {
                    let offset = plane + (before * self.spec.n_kv_heads + head * kept) * row;
                    let bytes = positions.min(kept) * row;
                    current.copy(&self.stream, (&self.buffer, offset), (&other.buffer, offset), bytes)?;
                }
            }
        }
        current.synchronize(&self.stream)
    }
}

impl Kv for CudaKv {
    fn spec(&self) -> &KvSpec {
        &self.spec
    }

    fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    fn host_bytes(&self) -> u64 {
        0
    }

    fn fork(&self, len: usize) -> Result<Box<dyn Kv>> {
        let fork = CudaKv::new(self.context(), &self.stream, &self.spec)?;
        fork.copy_from(&self.context().enter()?, self, len.min(self.spec.capacity))?;
        Ok(Box::new(fork))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
