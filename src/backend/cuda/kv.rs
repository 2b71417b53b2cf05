//! Keys and values of one sequence on a device.
//!
//! Owns the layout of a cache, which the kernels read through `DeviceKv` and `KvPlace`. Refuses to know which positions are
//! valid.

use std::sync::Arc;

use super::arena::Arena;
use super::launch::{Context, Current, DeviceBuffer, Stream};
use super::module::{DeviceKv, KvPlace};
use super::probe::Address;
use crate::backend::state_spec::{KvLayer, StateSpec};
use crate::error::{Error, Result};
use crate::quant;
use crate::tensor::DType;

/// Keys and values, each `[layer][head][position][stride]`, all layers having the same heads; the stride is the length of a
/// head rounded up so that rows can be read 16 bytes at a time. A layer keeps all positions or a ring of the newest; Q8_0
/// has an array of scales, one for every 32 values.
pub struct CudaKv {
    spec: StateSpec,
    buffer: DeviceBuffer,
    view: DeviceKv,
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

/// The places of layers in a cache.
pub fn places(layers: &[KvLayer]) -> Vec<KvPlace> {
    let mut next = KvPlace::default();
    let place = |layer: &KvLayer| {
        let place = KvPlace { is_ring: u32::from(layer.window > 0), ..next };
        *(if place.is_ring == 0 { &mut next.whole } else { &mut next.rings }) += 1;
        place
    };
    layers.iter().map(place).collect()
}

/// Lays a cache out from `base` on; returns its view and the bytes that it takes.
fn kv_layout(base: Address, spec: &StateSpec) -> Result<(DeviceKv, usize)> {
    spec.check()?;
    let (k_bytes, v_bytes) = (value_bytes(spec.k_type)?, value_bytes(spec.v_type)?);
    let Some(&KvLayer { n_kv_heads, head_dim, .. }) = spec.layers.first() else {
        return Err(Error::unsupported("a cache on a GPU without keys and values"));
    };
    if spec.layers.iter().any(|l| (l.n_kv_heads, l.head_dim) != (n_kv_heads, head_dim)) {
        return Err(Error::unsupported("a cache on a GPU whose layers have heads of different shapes"));
    }
    let too_large = || Error::invalid(format!("the size of a cache overflows: {spec:?}"));
    if spec.capacity > i32::MAX as usize {
        return Err(too_large());
    }
    let blocks = [spec.k_type, spec.v_type].contains(&quant::Q8_0);
    let stride = head_dim.next_multiple_of(if blocks { 32 } else { 8 });
    // One length for all rings: the longest that a layer asks for.
    let rings = (0..spec.layers.len()).filter(|&i| spec.layers[i].window > 0);
    let (n_rings, ring) = rings.fold((0, 0), |(n, longest), i| (n + 1, spec.kept(i).max(longest)));
    let whole = (spec.layers.len() - n_rings).checked_mul(spec.capacity);
    let rows = whole.and_then(|n| n.checked_add(n_rings * ring)?.checked_mul(n_kv_heads));
    let values = rows.and_then(|n| n.checked_mul(stride)).ok_or_else(too_large)?;
    let scales = |dtype| if dtype == quant::Q8_0 { values / 32 } else { 0 };
    let mut arena = Arena::default();
    let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
    let view = DeviceKv {
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
pub fn kv_bytes(spec: &StateSpec) -> Result<u64> {
    Ok(kv_layout(0, spec)?.1 as u64)
}

impl CudaKv {
    pub fn new(context: &Arc<Context>, stream: &Arc<Stream>, spec: &StateSpec) -> Result<CudaKv> {
        let (_, bytes) = kv_layout(0, spec)?;
        let buffer = context.enter()?.alloc("a cache", bytes)?;
        let (view, _) = kv_layout(buffer.address(), spec)?;
        Ok(CudaKv { spec: spec.clone(), buffer, view, stream: stream.clone() })
    }

    pub fn spec(&self) -> &StateSpec {
        &self.spec
    }

    pub fn view(&self) -> DeviceKv {
        self.view
    }

    pub fn context(&self) -> &Arc<Context> {
        self.buffer.context()
    }

    pub fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// A copy of the first `len` positions, or of those of them that a ring keeps.
    pub fn fork(&self, len: usize) -> Result<CudaKv> {
        let fork = CudaKv::new(self.context(), &self.stream, &self.spec)?;
        fork.copy_from(&self.context().enter()?, self, len.min(self.spec.capacity))?;
        Ok(fork)
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
        let (heads, layers) = (self.spec.layers[0].n_kv_heads, places(&self.spec.layers));
        for (address, row) in planes.into_iter().filter(|(_, row)| positions * row > 0) {
            let plane = (address - self.buffer.address()) as usize;
            for layer in &layers {
                let kept = if layer.is_ring == 0 { view.capacity } else { view.ring } as usize;
                let before = layer.whole as usize * view.capacity as usize + layer.rings as usize * view.ring as usize;
                for head in 0..heads {
                    let offset = plane + (before * heads + head * kept) * row;
                    let bytes = positions.min(kept) * row;
                    current.copy(&self.stream, (&self.buffer, offset), (&other.buffer, offset), bytes)?;
                }
            }
        }
        current.synchronize(&self.stream)
    }
}
