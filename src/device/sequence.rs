//! The KV cache and recurrent states of one sequence on all devices of its model, with their extent: the number of
//! committed tokens, and which positions of sliding-window layers were overwritten.
//!
//! The first layers may be on the CPU, the others are on GPUs in layer order. After a release, all tokens must be
//! recomputed.

use super::adapter::Adapter;
use super::checkpoints::Checkpoints;
use crate::cpu::kv::CpuKv;
use crate::cpu::sequence::CpuSequence;
use crate::error::{Error, Result};
use crate::gpu::GpuSequence;
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::{RECURRENT_BUFFERS, RING_ALIGN, SequenceSpec};
use crate::graph::step::{Sequences, SequencesMut};

/// The extent of a sequence: everything except its memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Number of committed tokens.
    pub len: usize,
    /// One more than the highest position written since the last clear; determines what rings hold.
    pub written: usize,
    pub checkpoints: Checkpoints,
}

pub struct Sequence {
    spec: SequenceSpec,
    extent: Extent,
    cpu: Option<CpuSequence>,
    /// The parts on GPUs, in layer order.
    gpus: Vec<Box<dyn GpuSequence>>,
    /// LoRA adapters of every step, on all parts.
    adapters: AdapterSet<Adapter>,
}

impl Sequence {
    pub fn new(spec: SequenceSpec, cpu: Option<CpuSequence>, gpus: Vec<Box<dyn GpuSequence>>) -> Sequence {
        Sequence { spec, extent: Extent::default(), cpu, gpus, adapters: AdapterSet::default() }
    }

    pub fn spec(&self) -> &SequenceSpec {
        &self.spec
    }

    pub fn len(&self) -> usize {
        self.extent.len
    }

    pub fn is_empty(&self) -> bool {
        self.extent.len == 0
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        self.host_bytes() + self.gpus.iter().map(|kv| kv.bytes()).sum::<u64>()
    }

    /// Returns the number of bytes per position of capacity.
    pub fn token_bytes(&self) -> Result<u64> {
        let on_cpu = self.cpu_kv().map_or(0, CpuKv::token_bytes);
        self.gpus.iter().try_fold(on_cpu, |sum, kv| Ok(sum + kv.token_bytes()?))
    }

    /// Returns the host's part of `bytes`.
    pub fn host_bytes(&self) -> u64 {
        self.cpu.as_ref().map_or(0, CpuSequence::bytes)
    }

    /// Returns the KV cache of the layers on the CPU.
    pub fn cpu_kv(&self) -> Option<&CpuKv> {
        self.cpu.as_ref().and_then(CpuSequence::kv)
    }

    /// Returns the parts on GPUs, in layer order.
    pub fn gpus(&self) -> &[Box<dyn GpuSequence>] {
        &self.gpus
    }

    /// Returns the index of the GPU that has a layer (`None`: the CPU), and the layer's index there.
    fn place(&self, layer: usize) -> (Option<usize>, usize) {
        let on_cpu = self.cpu_kv().map_or(0, |kv| kv.spec().layers.len());
        let Some(mut rest) = layer.checked_sub(on_cpu) else { return (None, layer) };
        for (gpu, kv) in self.gpus.iter().enumerate() {
            match rest.checked_sub(kv.spec().layers.len()) {
                Some(after) => rest = after,
                None => return (Some(gpu), rest),
            }
        }
        (None, layer)
    }

    /// Copies the committed tokens, with the same capacity.
    pub fn fork(&self) -> Result<Sequence> {
        // After a rewind a ring holds later positions too.
        let Extent { len, checkpoints, .. } = self.extent;
        let cpu = self.cpu.as_ref().map(|cpu| cpu.fork(len, checkpoints.held())).transpose()?;
        let gpus = self.gpus.iter().map(|kv| kv.fork(len, &mut checkpoints.held())).collect::<Result<_>>()?;
        Ok(Sequence { spec: self.spec.clone(), extent: self.extent, cpu, gpus, adapters: self.adapters.clone() })
    }

    /// Returns the LoRA adapters of every step.
    pub fn adapters(&self) -> &AdapterSet<Adapter> {
        &self.adapters
    }

    /// Sets the adapters of a sequence that is empty or will be recomputed.
    pub fn set_adapters(&mut self, adapters: AdapterSet<Adapter>) {
        if let Some(cpu) = &mut self.cpu {
            cpu.adapters = adapters.on(|adapter| adapter.cpu.as_ref());
        }
        for (i, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.set_adapters(adapters.on(|adapter| adapter.gpus.get(i)));
        }
        self.adapters = adapters;
    }

    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Returns the first position that a layer still holds.
    fn first_held(spec: &SequenceSpec, layer: usize, extent: &Extent) -> usize {
        match spec.layers[layer].window {
            0 => 0,
            _ => extent.written.saturating_sub(spec.kept(layer)).min(extent.len),
        }
    }

    /// Writes the KV cache and recurrent states; `extent` and the spec are needed to read them.
    pub fn save(&self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Extent { len, checkpoints, .. } = self.extent;
        for layer in 0..self.spec.layers.len() {
            // Begin at a chunk boundary, so that rings of other sizes are cut at the same places.
            let positions = Sequence::first_held(&self.spec, layer, &self.extent) / RING_ALIGN * RING_ALIGN..len;
            match (self.place(layer), self.cpu_kv()) {
                ((Some(gpu), layer), _) => self.gpus[gpu].save(layer, positions, write)?,
                ((None, layer), Some(kv)) => kv.save(layer, positions, write)?,
                // A released sequence has nothing to save.
                ((None, _), None) => {}
            }
        }
        checkpoints.held().try_for_each(|buffer| {
            if let Some(cpu) = &self.cpu {
                write(cpu.recurrent.bytes_of(buffer))?;
            }
            // A GPU does not store the zeros of an empty sequence.
            let on_gpus = if checkpoints.at(0) == Some(buffer) { &[] } else { self.gpus() };
            on_gpus.iter().try_for_each(|kv| kv.save_recurrent(buffer, write))
        })
    }

    /// Reads what `save` wrote for a spec that differs only in capacity. After an error the contents are undefined.
    pub fn load(
        &mut self,
        from: &SequenceSpec,
        extent: Extent,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut written = extent.len;
        for layer in 0..self.spec.layers.len() {
            let first = Sequence::first_held(from, layer, &extent);
            if first > 0 {
                written = written.max(first.saturating_add(self.spec.kept(layer)));
            }
            let positions = first / RING_ALIGN * RING_ALIGN..extent.len;
            match (self.place(layer), self.cpu.as_mut().and_then(CpuSequence::kv_mut)) {
                ((Some(gpu), layer), _) => self.gpus[gpu].load(layer, positions, read)?,
                ((None, layer), Some(kv)) => kv.load(layer, positions, read)?,
                _ => return Err(Error::invalid("a cache that was released is filled")),
            }
        }
        for buffer in extent.checkpoints.held() {
            if let Some(cpu) = &mut self.cpu {
                read(cpu.recurrent.bytes_of_mut(buffer))?;
            }
            if extent.checkpoints.at(0) != Some(buffer) {
                self.gpus.iter_mut().try_for_each(|kv| kv.load_recurrent(buffer, read))?;
            }
        }
        self.extent = Extent { written, ..extent };
        Ok(())
    }

    /// Frees the memory and removes all tokens.
    pub fn release(&mut self) -> Result<()> {
        self.cpu.as_mut().map_or(Ok(()), CpuSequence::release)?;
        self.gpus.clear();
        let checkpoints = Checkpoints::restored([None; RECURRENT_BUFFERS]);
        self.extent = Extent { checkpoints, ..Extent::default() };
        Ok(())
    }

    pub fn is_released(&self) -> bool {
        self.cpu_kv().is_none() && self.gpus.is_empty()
    }

    /// Protects the checkpoint of a position.
    pub fn keep(&mut self, position: Option<usize>) {
        self.extent.checkpoints.keep(position);
    }

    /// Rewinds to the first `len` tokens if there are more, and drops steps in flight.
    pub fn truncate(&mut self, len: usize) {
        let Extent { len: now, checkpoints, .. } = &mut self.extent;
        *now = len.min(*now);
        checkpoints.truncate(*now);
    }

    /// True if the state for the next token is complete: long rewinds invalidate sliding-window layers, most rewinds
    /// invalidate recurrent layers.
    pub fn is_complete(&self) -> bool {
        !self.is_released() && self.holds(self.extent.len)
    }

    /// True if the state after a rewind to `len` tokens would be complete.
    fn holds(&self, len: usize) -> bool {
        let is_recurrent = !self.spec.recurrent.is_empty();
        self.holds_windows(len) && (!is_recurrent || self.extent.checkpoints.at(len).is_some())
    }

    /// Returns the largest number of tokens, at most `len`, to which the state can be rewound without recomputing.
    pub fn reach(&self, len: usize) -> usize {
        let len = len.min(self.extent.len);
        let newest = match self.spec.recurrent.is_empty() {
            true => len,
            false => self.extent.checkpoints.newest(len).unwrap_or(0),
        };
        if self.holds(newest) { newest } else { 0 }
    }

    /// True if every layer still holds all positions that the next token attends to.
    fn holds_windows(&self, len: usize) -> bool {
        self.spec.layers.iter().enumerate().all(|(i, layer)| {
            let overwritten = self.extent.written.saturating_sub(self.spec.kept(i));
            layer.window == 0 || overwritten <= (len + 1).saturating_sub(layer.window)
        })
    }

    /// Rewinds to the newest position with a complete state, and returns it.
    pub fn step_back(&mut self) -> usize {
        match self.reach(self.extent.len) {
            0 => self.clear(),
            len => self.truncate(len),
        }
        self.extent.len
    }

    /// Removes all tokens, and the record of overwritten positions.
    fn clear(&mut self) {
        self.extent = Extent::default();
        if let Some(cpu) = &mut self.cpu {
            cpu.recurrent.clear(0);
        }
    }

    /// Marks `n` positions from `first` on as written, after the committed tokens and steps in flight; a failed step
    /// may have written them too.
    pub fn will_write(&mut self, first: usize, n: usize) {
        let Extent { len, written, checkpoints, .. } = &mut self.extent;
        *written = (*written).max(first + n);
        if first > *len {
            // The step in flight before this one has a single token.
            checkpoints.commit(first - 1, 1);
        }
        checkpoints.begin(first, *len);
    }

    /// Returns the buffers of recurrent states that the step from position `first` reads and writes.
    pub fn recurrent_buffers(&self, first: usize) -> Result<(usize, usize)> {
        let incomplete = || Error::invalid("recurrent layers hold nothing of the tokens before the step");
        let Extent { len, checkpoints, .. } = &self.extent;
        Ok((checkpoints.at(first).ok_or_else(incomplete)?, checkpoints.target(first, *len)))
    }

    /// Commits the first `n` tokens of a step; with recurrent layers `n` must be all of them.
    pub fn commit(&mut self, n: usize) {
        self.extent.checkpoints.commit(self.extent.len, n);
        self.extent.len += n;
    }
}

/// The parts of sequences on the CPU.
pub(super) struct OnCpu<'a, 's>(pub &'a mut [&'s mut Sequence]);

impl Sequences<CpuSequence> for OnCpu<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&CpuSequence> {
        self.0.get(i)?.cpu.as_ref()
    }

    fn recurrent_buffers(&self, i: usize, first: usize) -> Result<(usize, usize)> {
        self.0[i].recurrent_buffers(first)
    }
}

impl SequencesMut<CpuSequence> for OnCpu<'_, '_> {
    fn get_mut(&mut self, i: usize) -> Option<&mut CpuSequence> {
        self.0.get_mut(i)?.cpu.as_mut()
    }
}

/// The parts of sequences on a GPU, by its index in the model.
pub(super) struct OnGpu<'a, 's>(pub &'a [&'s mut Sequence], pub usize);

impl Sequences<dyn GpuSequence> for OnGpu<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&dyn GpuSequence> {
        self.0.get(i)?.gpus.get(self.1).map(|kv| &**kv)
    }

    fn recurrent_buffers(&self, i: usize, first: usize) -> Result<(usize, usize)> {
        self.0[i].recurrent_buffers(first)
    }
}
