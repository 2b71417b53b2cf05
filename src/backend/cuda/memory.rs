//! What lies where in device memory: the planes of a matrix, the rows of a cache, the parts of an allocation; and the way
//! of weights from a file to the device. Refuses to know what kernels do with them.

use std::any::Any;
use std::sync::Arc;

use super::launch::{Buffer, Context, Current, Pinned, Stream};
use super::module::{KvView, Matrix, Place};
use super::probe::Address;
use crate::backend::{Kv, KvSpec, MatrixSource, Progress, RING_ALIGN};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// Every array in device memory begins at a multiple of this, as fresh allocations do.
const ALIGN: usize = 256;

/// Columns are padded to this, the length of a group of quantised activations.
const COLS: usize = 32;

/// Hands out the parts of one allocation, first their places and then, when it exists, their addresses.
#[derive(Default)]
pub struct Arena {
    bytes: usize,
}

impl Arena {
    /// Sets `count` elements of `size` bytes aside and returns their offset.
    pub fn add(&mut self, count: usize, size: usize) -> Result<usize> {
        let offset = self.bytes;
        let end = count.checked_mul(size).and_then(|n| n.checked_next_multiple_of(ALIGN)?.checked_add(offset));
        self.bytes = end
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or(Error::OutOfMemory { what: "device memory", bytes: u64::MAX })?;
        Ok(offset)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Fields of a file's block that become planes, first byte and bytes; `None` for types without kernels of their own.
/// The order is that of the readers in `kernels/quant.cuh`.
fn fields(dtype: DType) -> Option<&'static [(usize, usize)]> {
    Some(match dtype {
        quant::F32 => &[(0, 4)],
        quant::F16 | quant::BF16 => &[(0, 2)],
        quant::Q4_0 => &[(2, 16), (0, 2)],
        quant::Q4_1 => &[(4, 16), (0, 4)],
        quant::Q5_0 => &[(6, 16), (0, 2), (2, 4)],
        quant::Q5_1 => &[(8, 16), (0, 4), (4, 4)],
        quant::Q8_0 => &[(2, 32), (0, 2)],
        quant::Q4_K => &[(0, 144)],
        quant::Q5_K => &[(0, 176)],
        quant::Q6_K => &[(0, 128), (128, 64), (192, 16), (208, 2)],
        _ => return None,
    })
}

/// How a matrix is laid out on the device.
struct Layout {
    /// Of the file.
    source: &'static Format,
    /// On the device: the same, or F16 where the type has no kernels.
    target: &'static Format,
    fields: &'static [(usize, usize)],
    rows: usize,
    cols: usize,
    /// Of the source, in bytes.
    row_bytes: usize,
    /// Offset of each plane, and bytes of a row in it.
    planes: Vec<(usize, usize)>,
}

impl Layout {
    fn new(source: &dyn MatrixSource, arena: &mut Arena) -> Result<Layout> {
        let format = quant::format(source.dtype())?;
        let (rows, cols) = (source.rows(), source.cols());
        let too_large = || Error::unsupported(format!("{}: {rows} by {cols} is too large", source.name()));
        if rows == 0 || cols == 0 || rows > i32::MAX as usize || cols > i32::MAX as usize - COLS {
            return Err(too_large());
        }
        let row_bytes = usize::try_from(format.row_bytes(cols as u64)?).map_err(|_| too_large())?;
        let (target, fields) = match fields(format.dtype) {
            Some(fields) => (format, fields),
            None => (quant::format(quant::F16)?, [(0, 2)].as_slice()),
        };
        let blocks = cols.next_multiple_of(COLS) / target.block_len;
        let mut planes = Vec::with_capacity(fields.len());
        for (_, bytes) in fields {
            let row = blocks.checked_mul(*bytes).ok_or_else(too_large)?;
            planes.push((arena.add(rows, row)?, row));
        }
        Ok(Layout { source: format, target, fields, rows, cols, row_bytes, planes })
    }

    fn matrix(&self, base: Address) -> Matrix {
        let mut planes = [0; 4];
        for (plane, (offset, _)) in planes.iter_mut().zip(&self.planes) {
            *plane = base + *offset as Address;
        }
        let (rows, cols) = (self.rows as u32, self.cols.next_multiple_of(COLS) as u32);
        Matrix { planes, dtype: self.target.dtype.0, rows, cols, pad: 0 }
    }

    /// Bytes of a row over all planes.
    fn packed_row_bytes(&self) -> usize {
        self.planes.iter().map(|(_, row)| row).sum()
    }

    /// Splits rows in the target's blocks into planes, which follow one another in `out`.
    fn split(&self, rows: &[u8], n: usize, out: &mut [u8]) {
        let row_bytes = rows.len() / n;
        let mut rest = out;
        for ((offset, bytes), (_, plane_row)) in self.fields.iter().zip(&self.planes) {
            let (plane, behind) = rest.split_at_mut(n * plane_row);
            rest = behind;
            for (row, to) in rows.chunks_exact(row_bytes).zip(plane.chunks_exact_mut(*plane_row)) {
                if *bytes == self.target.block_bytes {
                    to[..row_bytes].copy_from_slice(row);
                    to[row_bytes..].fill(0);
                    continue;
                }
                for (block, to) in row.chunks_exact(self.target.block_bytes).zip(to.chunks_exact_mut(*bytes)) {
                    to.copy_from_slice(&block[*offset..*offset + *bytes]);
                }
            }
        }
    }
}

/// Bytes that the matrices take on the device.
pub fn upload_bytes(sources: &[&dyn MatrixSource]) -> Result<u64> {
    let mut arena = Arena::default();
    for source in sources {
        Layout::new(*source, &mut arena)?;
    }
    Ok(arena.bytes() as u64)
}

/// Bytes that are read and copied at a time: large enough for the bus, small enough to stay in the cache.
const PIECE: usize = 4 << 20;

/// Brings matrices to the device. While one piece is copied the next is read.
pub fn upload(
    context: &Arc<Context>,
    sources: &[&dyn MatrixSource],
    progress: &mut Progress,
) -> Result<(Buffer, Vec<Matrix>)> {
    let mut arena = Arena::default();
    let layouts = sources.iter().map(|s| Layout::new(*s, &mut arena)).collect::<Result<Vec<_>>>()?;
    let current = context.enter()?;
    let buffer = current.alloc("weights", arena.bytes())?;
    let piece_rows = |l: &Layout| (PIECE / l.packed_row_bytes().max(l.row_bytes)).clamp(1, l.rows);
    let staging = layouts.iter().map(|l| piece_rows(l) * l.packed_row_bytes()).max().unwrap_or(0);
    let mut lanes = Vec::with_capacity(2);
    for _ in 0..2 {
        lanes.push((current.stream()?, current.alloc_pinned(staging)?));
    }
    let total = layouts.iter().map(|l| (l.rows * l.packed_row_bytes()) as u64).sum();
    let mut done = 0;
    progress(done, total)?;
    for (source, layout) in sources.iter().zip(&layouts) {
        let rows = piece_rows(layout);
        for first in (0..layout.rows).step_by(rows) {
            let n = rows.min(layout.rows - first);
            let raw = target_rows(*source, layout, first, n)?;
            let (stream, pinned): &mut (Stream, Pinned) = &mut lanes[0];
            // The copies that were queued from this memory.
            current.synchronize(stream)?;
            layout.split(&raw, n, pinned.bytes_mut());
            let mut from = 0;
            for (plane, row) in &layout.planes {
                current.upload(stream, &buffer, plane + first * row, pinned, from, n * row)?;
                from += n * row;
            }
            lanes.swap(0, 1);
            done += (n * layout.packed_row_bytes()) as u64;
            progress(done, total)?;
        }
    }
    for (stream, _) in &lanes {
        current.synchronize(stream)?;
    }
    let matrices = layouts.iter().map(|l| l.matrix(buffer.address())).collect();
    Ok((buffer, matrices))
}

/// Rows of a source in the blocks of the target type.
fn target_rows(source: &dyn MatrixSource, layout: &Layout, first: usize, n: usize) -> Result<Vec<u8>> {
    let mut raw = try_filled("rows to upload", n * layout.row_bytes, 0u8)?;
    source.read(first..first + n, &mut raw)?;
    if layout.source.dtype == layout.target.dtype {
        return Ok(raw);
    }
    let mut values = try_filled("rows to upload", n * layout.cols, 0f32)?;
    quant::dequantize(layout.source.dtype, &raw, &mut values)?;
    let mut halves = try_filled("rows to upload", 2 * values.len(), 0u8)?;
    quant::quantize(layout.target.dtype, &values, &mut halves)?;
    Ok(halves)
}

/// Keys and values of one sequence: for each of the two `[layer][head][position][stride]`, the stride being the length
/// of a head rounded up so that rows can be read 16 bytes at a time. A layer keeps all positions or the newest ones. Q8_0 keeps
/// a scale for every 32 values beside them.
pub struct CudaKv {
    spec: KvSpec,
    buffer: Buffer,
    view: KvView,
    places: Vec<Place>,
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

/// The layout of a cache: its view with offsets for addresses, and its bytes.
fn kv_layout(spec: &KvSpec) -> Result<(KvView, usize)> {
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
    let view = KvView {
        k: arena.add(values, k_bytes)? as Address,
        v: arena.add(values, v_bytes)? as Address,
        k_scales: arena.add(scales(spec.k_type), 2)? as Address,
        v_scales: arena.add(scales(spec.v_type), 2)? as Address,
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
    Ok(kv_layout(spec)?.1 as u64)
}

impl CudaKv {
    pub fn new(context: &Arc<Context>, stream: &Arc<Stream>, spec: &KvSpec) -> Result<CudaKv> {
        let (mut view, bytes) = kv_layout(spec)?;
        let mut places = try_vec("the layers of a cache", spec.layers)?;
        let mut next = Place::default();
        for layer in 0..spec.layers {
            next.is_ring = u32::from(spec.rings.get(layer).is_some_and(|ring| *ring > 0));
            places.push(next);
            *(if next.is_ring == 0 { &mut next.whole } else { &mut next.rings }) += 1;
        }
        let buffer = context.enter()?.alloc("a cache", bytes)?;
        for plane in [&mut view.k, &mut view.v, &mut view.k_scales, &mut view.v_scales] {
            *plane += buffer.address();
        }
        Ok(CudaKv { spec: spec.clone(), buffer, view, places, stream: stream.clone() })
    }

    pub fn view(&self) -> KvView {
        self.view
    }

    pub fn places(&self) -> &[Place] {
        &self.places
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
            for place in &self.places {
                let kept = if place.is_ring == 0 { view.capacity } else { view.ring } as usize;
                let before = place.whole as usize * view.capacity as usize + place.rings as usize * view.ring as usize;
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
