//! What the devices of a model remember of one sequence, and how far it is: the number of tokens that are committed,
//! and the positions of a layer with a window that were overwritten since.
//!
//! The first layers may be on the CPU, the others are on GPUs in the order of the layers. Where the memory was given
//! back, all tokens are to be computed again.

use super::adapter::Adapter;
use super::checkpoints::Checkpoints;
use crate::cpu::kv::CpuKv;
use crate::cpu::sequence::CpuSequence;
use crate::error::{Error, Result};
use crate::gpu::GpuSequence;
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::{RECURRENT_BUFFERS, RING_ALIGN, SequenceSpec};
use crate::graph::step::{Sequences, SequencesMut};

/// How far a sequence is, and what of it holds: all of it beside its memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Committed tokens.
    pub len: usize,
    /// One more than the highest position written since position 0 last was; what rings keep follows from it.
    pub written: usize,
    pub checkpoints: Checkpoints,
}

pub struct Sequence {
    spec: SequenceSpec,
    extent: Extent,
    cpu: Option<CpuSequence>,
    /// The parts on GPUs, in the order of the layers.
    gpus: Vec<Box<dyn GpuSequence>>,
    /// Adapters of every step, which both parts have.
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

    /// Memory set aside, in bytes.
    pub fn bytes(&self) -> u64 {
        self.host_bytes() + self.gpus.iter().map(|kv| kv.bytes()).sum::<u64>()
    }

    /// Memory that one more position of capacity takes, in bytes.
    pub fn token_bytes(&self) -> Result<u64> {
        let on_cpu = self.cpu_kv().map_or(0, CpuKv::token_bytes);
        self.gpus.iter().try_fold(on_cpu, |sum, kv| Ok(sum + kv.token_bytes()?))
    }

    /// The part of `bytes` that is memory of the host.
    pub fn host_bytes(&self) -> u64 {
        self.cpu.as_ref().map_or(0, CpuSequence::bytes)
    }

    /// Keys and values of the layers on the CPU.
    pub fn cpu_kv(&self) -> Option<&CpuKv> {
        self.cpu.as_ref().and_then(CpuSequence::kv)
    }

    /// The parts on GPUs, in the order of the layers.
    pub fn gpus(&self) -> &[Box<dyn GpuSequence>] {
        &self.gpus
    }

    /// The number of the GPU that has a layer, `None` for the CPU, and the number of the layer there.
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

    /// A copy of the committed tokens with the same capacity.
    pub fn fork(&self) -> Result<Sequence> {
        // A ring holds later positions too where the sequence was rewound.
        let Extent { len, checkpoints, .. } = self.extent;
        let cpu = self.cpu.as_ref().map(|cpu| cpu.fork(len, checkpoints.held())).transpose()?;
        let gpus = self.gpus.iter().map(|kv| kv.fork(len, &mut checkpoints.held())).collect::<Result<_>>()?;
        Ok(Sequence { spec: self.spec.clone(), extent: self.extent, cpu, gpus, adapters: self.adapters.clone() })
    }

    /// Adapters of every step of the sequence.
    pub fn adapters(&self) -> &AdapterSet<Adapter> {
        &self.adapters
    }

    /// Sets the adapters of a state that is empty or is computed anew.
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

    /// The first position that a layer still holds.
    fn first_held(spec: &SequenceSpec, layer: usize, extent: &Extent) -> usize {
        match spec.layers[layer].window {
            0 => 0,
            _ => extent.written.saturating_sub(spec.kept(layer)).min(extent.len),
        }
    }

    /// Hands what the state remembers to `write`; `extent` and the spec say how to read it.
    pub fn save(&self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Extent { len, checkpoints, .. } = self.extent;
        for layer in 0..self.spec.layers.len() {
            // Whole chunks, so that a ring of another state is cut where that of this one was.
            let positions = Sequence::first_held(&self.spec, layer, &self.extent) / RING_ALIGN * RING_ALIGN..len;
            match (self.place(layer), self.cpu_kv()) {
                ((Some(gpu), layer), _) => self.gpus[gpu].save(layer, positions, write)?,
                ((None, layer), Some(kv)) => kv.save(layer, positions, write)?,
                // A state whose memory was given back remembers nothing.
                ((None, _), None) => {}
            }
        }
        checkpoints.held().try_for_each(|buffer| {
            if let Some(cpu) = &self.cpu {
                write(cpu.recurrent.bytes_of(buffer))?;
            }
            // A GPU has no zeros of an empty sequence.
            let on_gpus = if checkpoints.at(0) == Some(buffer) { &[] } else { self.gpus() };
            on_gpus.iter().try_for_each(|kv| kv.save_memory(buffer, write))
        })
    }

    /// Fills an empty state with what one has saved whose spec differs in the capacity alone. After an error it holds
    /// nothing of use.
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
                self.gpus.iter_mut().try_for_each(|kv| kv.load_memory(buffer, read))?;
            }
        }
        self.extent = Extent { written, ..extent };
        Ok(())
    }

    /// Gives the memory back, and forgets all tokens with it.
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

    /// Keeps the recurrent states at a position in favour of others.
    pub fn keep(&mut self, position: Option<usize>) {
        self.extent.checkpoints.keep(position);
    }

    /// Rewinds to the first `len` tokens, where there are more, and forgets the steps that are under way.
    pub fn truncate(&mut self, len: usize) {
        let Extent { len: now, checkpoints, .. } = &mut self.extent;
        *now = len.min(*now);
        checkpoints.truncate(*now);
    }

    /// True where the next token finds what it needs of those before it. After a long rewind layers with a window do
    /// not hold it, after most rewinds recurrent layers do not.
    pub fn is_complete(&self) -> bool {
        !self.is_released() && self.holds(self.extent.len)
    }

    /// True where the sequence, rewound to `len` of its tokens, is complete.
    fn holds(&self, len: usize) -> bool {
        let is_recurrent = !self.spec.recurrent.is_empty();
        self.holds_windows(len) && (!is_recurrent || self.extent.checkpoints.at(len).is_some())
    }

    /// The largest number of tokens, at most `len`, to which the state can be rewound without computing any again.
    pub fn reach(&self, len: usize) -> usize {
        let len = len.min(self.extent.len);
        let newest = match self.spec.recurrent.is_empty() {
            true => len,
            false => self.extent.checkpoints.newest(len).unwrap_or(0),
        };
        if self.holds(newest) { newest } else { 0 }
    }

    /// True where every layer still holds all positions that the next token sees.
    fn holds_windows(&self, len: usize) -> bool {
        self.spec.layers.iter().enumerate().all(|(i, layer)| {
            let overwritten = self.extent.written.saturating_sub(self.spec.kept(i));
            layer.window == 0 || overwritten <= (len + 1).saturating_sub(layer.window)
        })
    }

    /// Goes back to the newest position at which the state is complete, and returns it.
    pub fn step_back(&mut self) -> usize {
        match self.reach(self.extent.len) {
            0 => self.clear(),
            len => self.truncate(len),
        }
        self.extent.len
    }

    /// Forgets all tokens, and with them what was overwritten.
    fn clear(&mut self) {
        self.extent = Extent::default();
        if let Some(cpu) = &mut self.cpu {
            cpu.recurrent.clear(0);
        }
    }

    /// Counts `n` positions from `first` on as written, after the committed tokens and those of steps under way; a step
    /// that fails may have written them too.
    pub fn will_write(&mut self, first: usize, n: usize) {
        let Extent { len, written, checkpoints, .. } = &mut self.extent;
        *written = (*written).max(first + n);
        if first > *len {
            // Behind a step of one token that is under way.
            checkpoints.commit(first - 1, 1);
        }
        checkpoints.begin(first, *len);
    }

    /// The buffer of recurrent states as the step from position `first` on finds them, and that of what they become.
    pub fn recurrent_buffers(&self, first: usize) -> Result<(usize, usize)> {
        let incomplete = || Error::invalid("recurrent layers hold nothing of the tokens before the step");
        let Extent { len, checkpoints, .. } = &self.extent;
        Ok((checkpoints.at(first).ok_or_else(incomplete)?, checkpoints.target(first, *len)))
    }

    /// Commits the `n` tokens of a step. Without recurrent layers these may be the first ones of it.
    pub fn commit(&mut self, n: usize) {
        self.extent.checkpoints.commit(self.extent.len, n);
        self.extent.len += n;
    }
}

/// The parts of sequences that are on the CPU.
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

/// The parts of sequences that are on a GPU, by its number among those of the model.
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
