//! KV cache and recurrent states of one sequence on a device.
//!
//! Each layer has keys and values as `[head][position][stride]`, with the stride rounded up to whole blocks of 32
//! values, and for Q8_0 and Q4_0 a separate array with one f32 scale per block. A layer keeps all positions, or the
//! newest positions in a ring buffer. A recurrent state has a copy per buffer of recurrent states
//! (`RECURRENT_BUFFERS`), one after another. Layers and states share a device buffer until it has the size of the
//! largest binding.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use ::wgpu::BindGroup;

use super::context::{Context, Held};
use super::kernels::Kernels;
use super::memory::{DeviceBuffer, bytes_of, encoder};
use crate::error::{Error, Result};
use crate::gpu::{GpuAdapter, GpuSequence};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::{KvLayer, RECURRENT_BUFFERS, SequenceSpec};
use crate::quant;
use crate::tensor::DType;

/// Number of values per block; rows are padded to whole blocks.
const BLOCK: usize = 32;

/// Alignment of arrays in words.
const ALIGN: usize = 64;

/// Keys or values of a layer. Offsets are in words from the start of the buffer.
#[derive(Clone, Copy, Debug)]
pub struct KvArray {
    pub dtype: DType,
    /// Offset of the rows.
    pub rows: u32,
    /// Size of a row, in words.
    pub row_words: u32,
    /// Offset of the scales of Q8_0 and Q4_0.
    pub scales: u32,
    /// Number of blocks per row.
    pub blocks: u32,
}

/// Position of a layer's keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub buffer: usize,
    /// Number of positions kept.
    pub kept: u32,
    pub k: KvArray,
    pub v: KvArray,
}

/// Position of a recurrent state.
#[derive(Clone, Copy, Debug)]
pub struct StatePlace {
    pub buffer: usize,
    /// Offset of the first copy, in words.
    at: u32,
    /// Distance between copies, in words.
    stride: u32,
    /// Number of values.
    len: usize,
}

impl StatePlace {
    /// Returns the offset of the state in a buffer of recurrent states.
    pub fn copy(&self, buffer: usize) -> u32 {
        self.at + buffer as u32 * self.stride
    }
}

/// Positions of all layers and recurrent states, and the size of each buffer, in words.
pub struct Layout {
    pub places: Vec<Place>,
    pub states: Vec<StatePlace>,
    words: Vec<usize>,
}

fn too_large() -> Error {
    Error::unsupported("a layer of the cache is larger than a binding of the GPU")
}

/// Returns the size of a block of values, in words.
fn block_words(dtype: DType) -> Result<usize> {
    match dtype {
        quant::F32 => Ok(BLOCK),
        quant::F16 => Ok(BLOCK / 2),
        quant::Q8_0 => Ok(BLOCK / 4),
        quant::Q4_0 => Ok(BLOCK / 8),
        _ => {
            let name = quant::format(dtype).map_or("unknown", |format| format.name);
            Err(Error::unsupported(format!(
                "the type of the cache is {name}; on this GPU it must be F32, F16, Q8_0 or Q4_0"
            )))
        }
    }
}

fn has_scales(dtype: DType) -> bool {
    [quant::Q8_0, quant::Q4_0].contains(&dtype)
}

impl Layout {
    pub fn new(spec: &SequenceSpec, binding: u64) -> Result<Layout> {
        spec.check()?;
        let most = usize::try_from(binding / 4).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let (mut places, mut words) = (Vec::new(), Vec::<usize>::new());
        for (i, layer) in spec.layers.iter().enumerate() {
            let kept = spec.kept(i);
            let mut end = 0usize;
            let mut array = |dtype: DType, width: usize| {
                let (blocks, each) = (width.div_ceil(BLOCK), block_words(dtype)?);
                let rows = layer.n_kv_heads.checked_mul(kept).ok_or_else(too_large)?;
                let mut add = |row: usize| {
                    let start = end;
                    let words = rows.checked_mul(row).and_then(|words| words.checked_next_multiple_of(ALIGN));
                    end = words
                        .and_then(|words| words.checked_add(end))
                        .filter(|end| *end <= most)
                        .ok_or_else(too_large)?;
                    Ok::<u32, Error>(start as u32)
                };
                let row_words = blocks * each;
                let (rows, scales) = (add(row_words)?, if has_scales(dtype) { add(blocks)? } else { 0 });
                Ok::<_, Error>(KvArray { dtype, rows, row_words: row_words as u32, scales, blocks: blocks as u32 })
            };
            let mut k = array(spec.k_type, layer.head_dim)?;
            let mut v = if layer.is_latent { k } else { array(spec.v_type, layer.value_dim)? };
            if words.last().is_none_or(|used| used + end > most) {
                words.push(0);
            }
            let buffer = words.len() - 1;
            for array in [&mut k, &mut v] {
                array.rows += words[buffer] as u32;
                array.scales += words[buffer] as u32;
            }
            words[buffer] += end;
            places.push(Place { buffer, kept: u32::try_from(kept).map_err(|_| too_large())?, k, v });
        }
        let mut states = Vec::new();
        for &len in &spec.recurrent {
            let stride = len.checked_next_multiple_of(ALIGN).ok_or_else(too_large)?;
            let all = stride.checked_mul(RECURRENT_BUFFERS).filter(|all| *all <= most).ok_or_else(too_large)?;
            if words.last().is_none_or(|used| used + all > most) {
                words.push(0);
            }
            let buffer = words.len() - 1;
            states.push(StatePlace { buffer, at: words[buffer] as u32, stride: stride as u32, len });
            words[buffer] += all;
        }
        Ok(Layout { places, states, words })
    }

    pub fn bytes(&self) -> u64 {
        self.words.iter().map(|words| bytes_of(*words)).sum()
    }
}

pub struct WgpuSequence {
    spec: SequenceSpec,
    context: Arc<Context>,
    kernels: Arc<Kernels>,
    view: KvView,
    buffers: Vec<DeviceBuffer>,
    adapters: AdapterSet<dyn GpuAdapter>,
}

/// A cache as used by steps. The bind group of each buffer keeps the buffer alive.
#[derive(Clone)]
pub struct KvView {
    pub layout: Arc<Layout>,
    pub groups: Arc<Vec<Held<BindGroup>>>,
}

/// The cache of a sequence of a step.
#[derive(Clone)]
pub struct StepCache {
    pub view: KvView,
    /// Index of the first bind group of the cache in the list of the step.
    pub group: usize,
    /// Buffers of recurrent states that the step reads (`None`: zeros) and writes.
    pub states: (Option<usize>, usize),
    /// Index of each LoRA adapter in the list of the step, and its scale.
    pub adapters: Vec<(usize, f32)>,
}

impl WgpuSequence {
    pub fn new(context: &Arc<Context>, kernels: &Arc<Kernels>, spec: &SequenceSpec) -> Result<WgpuSequence> {
        let layout = Layout::new(spec, context.limits.max_storage_buffer_binding_size)?;
        let new = |words: &usize| DeviceBuffer::new(context, "a cache", *words);
        let buffers = layout.words.iter().map(new).collect::<Result<Vec<_>>>()?;
        let group = |buffer: &DeviceBuffer| kernels.cache_group(buffer.get()?);
        let groups =
            if context.plans() { Vec::new() } else { buffers.iter().map(group).collect::<Result<Vec<_>>>()? };
        let (context, kernels) = (context.clone(), kernels.clone());
        let view = KvView { layout: Arc::new(layout), groups: Arc::new(groups) };
        let adapters = AdapterSet::default();
        Ok(WgpuSequence { spec: spec.clone(), context, kernels, view, buffers, adapters })
    }

    /// Downcasts a sequence to the type of this backend; `None` for another backend's sequence.
    pub fn of(sequence: &dyn GpuSequence) -> Option<&WgpuSequence> {
        (sequence as &dyn Any).downcast_ref()
    }

    pub fn view(&self) -> &KvView {
        &self.view
    }

    /// LoRA adapters of every step of the sequence.
    pub fn adapters(&self) -> &AdapterSet<dyn GpuAdapter> {
        &self.adapters
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the arrays of a layer: offset of the first row, and size of a row, in words.
    fn arrays(&self, layer: usize) -> Vec<(usize, usize)> {
        let Place { k, v, .. } = self.view.layout.places[layer];
        let parts = if self.spec.layers[layer].is_latent { vec![k] } else { vec![k, v] };
        let mut arrays = Vec::new();
        for part in parts {
            arrays.push((part.rows as usize, part.row_words as usize));
            if has_scales(part.dtype) {
                arrays.push((part.scales as usize, part.blocks as usize));
            }
        }
        arrays
    }

    /// Returns offset and size, in words, of the stored rows of `positions`: one range per array and head, split where
    /// a ring buffer wraps around.
    fn runs(&self, layer: usize, positions: Range<usize>) -> Vec<(usize, usize)> {
        let (KvLayer { n_kv_heads: heads, pool, .. }, kept) =
            (self.spec.layers[layer], self.view.layout.places[layer].kept as usize);
        let positions = positions.start / pool..positions.end / pool;
        let mut runs = Vec::new();
        for (array, row) in self.arrays(layer) {
            for head in 0..heads {
                let mut at = positions.start;
                while at < positions.end {
                    let n = (positions.end - at).min(kept - at % kept);
                    runs.push((array + (head * kept + at % kept) * row, n * row));
                    at += n;
                }
            }
        }
        runs
    }

    /// Returns the device buffer of each state of a buffer of recurrent states, and start and length in words.
    fn state_runs(&self, buffer: usize) -> Vec<(usize, (usize, usize))> {
        let run = |state: &StatePlace| (state.buffer, (state.copy(buffer) as usize, state.len));
        self.view.layout.states.iter().map(run).collect()
    }

    fn buffer(&self, layer: usize) -> &DeviceBuffer {
        &self.buffers[self.view.layout.places[layer].buffer]
    }
}

impl GpuSequence for WgpuSequence {
    fn spec(&self) -> &SequenceSpec {
        &self.spec
    }

    fn bytes(&self) -> u64 {
        self.buffers.iter().map(DeviceBuffer::bytes).sum()
    }

    fn token_bytes(&self) -> Result<u64> {
        let whole = self.spec.layers.iter().enumerate().filter(|(_, layer)| layer.window == 0);
        let bytes = |(i, layer): (usize, &KvLayer)| {
            let rows = self.arrays(i).iter().map(|(_, row)| (4 * layer.n_kv_heads * row) as u64).sum::<u64>();
            rows.div_ceil(layer.pool as u64)
        };
        Ok(whole.map(bytes).sum())
    }

    fn fork(&self, len: usize, buffers: &mut dyn Iterator<Item = usize>) -> Result<Box<dyn GpuSequence>> {
        let mut fork = WgpuSequence::new(&self.context, &self.kernels, &self.spec)?;
        fork.adapters = self.adapters.clone();
        let mut copies: Vec<(usize, (usize, usize))> = buffers.flat_map(|buffer| self.state_runs(buffer)).collect();
        for (layer, place) in self.view.layout.places.iter().enumerate() {
            let ranges = self.runs(layer, 0..len.min(place.kept as usize * self.spec.layers[layer].pool));
            copies.extend(ranges.into_iter().map(|range| (place.buffer, range)));
        }
        let mut buffers = Vec::new();
        for (buffer, range) in copies.into_iter().filter(|(_, (_, words))| *words > 0) {
            buffers.push((self.buffers[buffer].get()?, fork.buffers[buffer].get()?, range));
        }
        let index = self.context.in_turn("a copy of a cache", |gpu| {
            let mut encoder = encoder(gpu);
            for (from, to, (at, words)) in buffers {
                encoder.copy_buffer_to_buffer(from, 4 * at as u64, to, 4 * at as u64, 4 * words as u64);
            }
            gpu.queue.submit([encoder.finish()])
        })?;
        self.context.wait(&index, &|| false)?;
        Ok(Box::new(fork))
    }

    fn set_adapters(&mut self, adapters: AdapterSet<dyn GpuAdapter>) {
        self.adapters = adapters;
    }

    fn save(&self, layer: usize, positions: Range<usize>, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.buffer(layer).read(&self.runs(layer, positions), write)
    }

    fn load(
        &mut self,
        layer: usize,
        positions: Range<usize>,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.runs(layer, positions).into_iter().try_for_each(|(at, n)| fill(self.buffer(layer), at..at + n, read))
    }

    fn save_recurrent(&self, buffer: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.state_runs(buffer).into_iter().try_for_each(|(at, run)| self.buffers[at].read(&[run], write))
    }

    fn load_recurrent(&mut self, buffer: usize, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let run = |(buffer, (at, n)): (usize, (usize, usize))| fill(&self.buffers[buffer], at..at + n, read);
        self.state_runs(buffer).into_iter().try_for_each(run)
    }
}

/// Writes a range of words from bytes that `read` provides.
fn fill(buffer: &DeviceBuffer, words: Range<usize>, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
    /// Maximum words that are read at a time.
    const PIECE: usize = 64 << 10;
    for first in words.clone().step_by(PIECE) {
        let mut bytes = vec![0; 4 * PIECE.min(words.end - first)];
        read(&mut bytes)?;
        buffer.write(first, &bytes)?;
    }
    Ok(())
}
