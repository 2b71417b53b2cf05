//! The memory of one sequence on the device of its model: how many tokens are committed, and which positions
//! of a layer with a window were overwritten since. Refuses to know how keys and values lie in memory.

use super::checkpoints::BUFFERS;
pub use super::checkpoints::Checkpoints;
use super::cpu::adapter::AdapterSet;
use super::cpu::kv::CpuKv;
use super::cpu::recurrent::CpuRecurrent;
use super::cuda::CudaKv;
use super::op::MemoryId;
use super::state_spec::{RING_ALIGN, StateSpec};
use crate::error::{Error, Result};

/// The memory of a sequence by the devices of its model: that of the first layers on the CPU, that of the others on GPUs in
/// the order of the layers. Empty where it was given back: all tokens are to be computed again.
#[derive(Default)]
pub struct StateMemory {
    pub cpu: Option<CpuKv>,
    pub cuda: Vec<CudaKv>,
}

impl From<CpuKv> for StateMemory {
    fn from(kv: CpuKv) -> StateMemory {
        StateMemory { cpu: Some(kv), cuda: Vec::new() }
    }
}

impl From<CudaKv> for StateMemory {
    fn from(kv: CudaKv) -> StateMemory {
        StateMemory { cpu: None, cuda: vec![kv] }
    }
}

impl StateMemory {
    /// The number of the GPU that has a layer, `None` for the CPU, and the number of the layer there.
    fn place(&self, layer: usize) -> (Option<usize>, usize) {
        let on_cpu = self.cpu.as_ref().map_or(0, |kv| kv.spec().layers.len());
        let Some(mut rest) = layer.checked_sub(on_cpu) else { return (None, layer) };
        for (gpu, kv) in self.cuda.iter().enumerate() {
            match rest.checked_sub(kv.spec().layers.len()) {
                Some(behind) => rest = behind,
                None => return (Some(gpu), rest),
            }
        }
        (None, layer)
    }
}

/// How far a state is, and what of it holds: all of a state beside its memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Committed tokens.
    pub len: usize,
    /// Number of tokens, the first ones, whose keys and values were computed; those behind them are to be computed again.
    pub held: usize,
    /// One more than the highest position written since position 0 last was; what rings keep follows from it.
    pub written: usize,
    pub checkpoints: Checkpoints,
}

pub struct State {
    spec: StateSpec,
    memory: StateMemory,
    /// Recurrent memories of layers on the CPU, the first ones.
    recurrent: CpuRecurrent,
    extent: Extent,
    /// Adapters of every step of the sequence.
    adapters: AdapterSet,
}

impl State {
    pub fn new(spec: StateSpec, memory: StateMemory) -> Result<State> {
        let on_gpu: usize = memory.cuda.iter().map(|kv| kv.spec().memories.len()).sum();
        let recurrent = CpuRecurrent::new(&spec.memories[..spec.memories.len().saturating_sub(on_gpu)])?;
        Ok(State { spec, memory, recurrent, extent: Extent::default(), adapters: AdapterSet::default() })
    }

    pub fn spec(&self) -> &StateSpec {
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
        self.host_bytes() + self.cuda().iter().map(CudaKv::bytes).sum::<u64>()
    }

    /// Memory that one more position of capacity takes, in bytes.
    pub fn token_bytes(&self) -> Result<u64> {
        let here = self.cpu().map_or(0, CpuKv::token_bytes);
        self.cuda().iter().try_fold(here, |sum, kv| Ok(sum + kv.token_bytes()?))
    }

    /// The part of `bytes` that is memory of the host.
    pub fn host_bytes(&self) -> u64 {
        self.cpu().map_or(0, CpuKv::bytes) + self.recurrent.bytes()
    }

    pub fn cpu(&self) -> Option<&CpuKv> {
        self.memory.cpu.as_ref()
    }

    pub fn cpu_mut(&mut self) -> Option<&mut CpuKv> {
        self.memory.cpu.as_mut()
    }

    /// The parts on GPUs, in the order of the layers.
    pub fn cuda(&self) -> &[CudaKv] {
        &self.memory.cuda
    }

    /// A copy of the committed tokens with the same capacity.
    pub fn fork(&self) -> Result<State> {
        // A ring holds later positions too where the state was rewound.
        let len = self.extent.held;
        let cpu = self.cpu().map(|kv| kv.fork(len)).transpose()?;
        let cuda = self.cuda().iter().map(|kv| kv.fork(len, &self.extent.checkpoints)).collect::<Result<_>>()?;
        let memory = StateMemory { cpu, cuda };
        let mut recurrent = self.recurrent.like()?;
        recurrent.copy(&self.recurrent, self.extent.checkpoints.held());
        let (spec, adapters) = (self.spec.clone(), self.adapters.clone());
        Ok(State { spec, memory, recurrent, extent: self.extent, adapters })
    }

    pub fn adapters(&self) -> &AdapterSet {
        &self.adapters
    }

    /// Sets the adapters of a state that is empty or is computed anew.
    pub fn set_adapters(&mut self, adapters: AdapterSet) {
        self.adapters = adapters;
    }

    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// The first position that a layer still holds.
    fn first_held(spec: &StateSpec, layer: usize, extent: &Extent) -> usize {
        match spec.layers[layer].window {
            0 => 0,
            _ => extent.written.saturating_sub(spec.kept(layer)).min(extent.held),
        }
    }

    /// Hands what the state remembers to `write`; `extent` and the spec say how to read it.
    pub fn save(&self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Extent { held, checkpoints, .. } = self.extent;
        for layer in 0..self.spec.layers.len() {
            // Whole chunks, so that a ring of another state is cut where that of this one was.
            let positions = State::first_held(&self.spec, layer, &self.extent) / RING_ALIGN * RING_ALIGN..held;
            match (self.memory.place(layer), &self.memory.cpu) {
                ((Some(gpu), layer), _) => self.memory.cuda[gpu].save(layer, positions, write)?,
                ((None, layer), Some(kv)) => kv.save(layer, positions, write)?,
                _ => {}
            }
        }
        checkpoints.held().try_for_each(|buffer| {
            write(self.recurrent.bytes_of(buffer))?;
            // A GPU has no zeros of an empty sequence.
            let there = if checkpoints.at(0) == Some(buffer) { &[] } else { self.cuda() };
            there.iter().try_for_each(|kv| kv.save_memory(buffer, write))
        })
    }

    /// Fills an empty state with what one has saved whose spec differs in the capacity alone. After an error it holds
    /// nothing of use.
    pub fn load(
        &mut self,
        from: &StateSpec,
        extent: Extent,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut written = extent.held;
        for layer in 0..self.spec.layers.len() {
            let first = State::first_held(from, layer, &extent);
            if first > 0 {
                written = written.max(first.saturating_add(self.spec.kept(layer)));
            }
            let positions = first / RING_ALIGN * RING_ALIGN..extent.held;
            match (self.memory.place(layer), &mut self.memory.cpu) {
                ((Some(gpu), layer), _) => self.memory.cuda[gpu].load(layer, positions, read)?,
                ((None, layer), Some(kv)) => kv.load(layer, positions, read)?,
                _ => return Err(Error::invalid("a cache that was released is filled")),
            }
        }
        for buffer in extent.checkpoints.held() {
            read(self.recurrent.bytes_of_mut(buffer))?;
            if extent.checkpoints.at(0) != Some(buffer) {
                self.memory.cuda.iter_mut().try_for_each(|kv| kv.load_memory(buffer, read))?;
            }
        }
        self.extent = Extent { written, ..extent };
        Ok(())
    }

    /// Gives the memory back; all tokens are to be computed again, in the memory of a new state.
    pub fn release(&mut self) -> Result<()> {
        self.recurrent = CpuRecurrent::new(&[])?;
        self.memory = StateMemory::default();
        let checkpoints = Checkpoints::restored([None; BUFFERS]);
        self.extent = Extent { len: self.extent.len, checkpoints, ..Extent::default() };
        Ok(())
    }

    pub fn is_released(&self) -> bool {
        self.memory.cpu.is_none() && self.memory.cuda.is_empty()
    }

    /// Rewinds to the first `len` tokens, of which there are as many.
    pub fn truncate(&mut self, len: usize) {
        let Extent { len: now, held, checkpoints, .. } = &mut self.extent;
        *now = len.min(*now);
        *held = len.min(*held);
        checkpoints.truncate(*held);
    }

    /// Counts tokens up to `len` as committed that are to be computed again.
    pub fn claim(&mut self, len: usize) {
        self.extent.len = len;
    }

    /// True where the next token finds what it needs of those before it. After a long rewind layers with a window do not
    /// hold it, after most rewinds recurrent layers do not.
    pub fn is_complete(&self) -> bool {
        !self.is_released() && self.extent.held == self.extent.len && self.holds(self.extent.len)
    }

    /// True where the state, rewound to `len` of the tokens that it holds, is complete.
    fn holds(&self, len: usize) -> bool {
        let is_recurrent = !self.spec.memories.is_empty();
        self.holds_windows(len) && (!is_recurrent || self.extent.checkpoints.at(len).is_some())
    }

    /// The largest number of tokens, at most `len`, to which the state can be rewound without computing any again.
    pub fn reach(&self, len: usize) -> usize {
        let len = len.min(self.extent.held);
        let newest = match self.spec.memories.is_empty() {
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
        self.recurrent.clear(0);
    }

    /// Counts `n` positions from `first` on as written, behind the committed tokens and those of steps under way; a step that
    /// fails may have written them too.
    pub fn will_write(&mut self, first: usize, n: usize) {
        let Extent { len, written, checkpoints, .. } = &mut self.extent;
        *written = (*written).max(first + n);
        if first > *len {
            // Behind a step of one token that is under way.
            checkpoints.commit(first - 1, 1);
        }
        checkpoints.begin(first, *len);
    }

    /// Forgets the steps that were under way behind the committed tokens.
    pub fn forget_ahead(&mut self) {
        self.extent.checkpoints.truncate(self.extent.held);
    }

    /// A recurrent memory as the open step finds it, and the place of what it becomes.
    pub fn memory(&mut self, memory: MemoryId) -> Result<(&[f32], &mut [f32])> {
        let (from, to) = self.memory_buffers(self.extent.len)?;
        self.recurrent.step(memory, from, to)
    }

    /// The buffer of recurrent memories as the step from position `first` on finds them, and that of what they become.
    pub fn memory_buffers(&self, first: usize) -> Result<(usize, usize)> {
        let incomplete = || Error::invalid("recurrent layers hold nothing of the tokens before the step");
        let Extent { len, checkpoints, .. } = &self.extent;
        Ok((checkpoints.at(first).ok_or_else(incomplete)?, checkpoints.target(first, *len)))
    }

    /// Commits the first `n` tokens of a step of `of`. Recurrent memories are those behind its last token, so that they
    /// have to be computed again for fewer.
    pub fn commit_first(&mut self, n: usize, of: usize) {
        if n == of || self.spec.memories.is_empty() {
            self.commit(n);
        } else {
            self.claim(self.extent.len + n);
        }
    }

    /// Commits the `n` tokens of a step.
    pub fn commit(&mut self, n: usize) {
        self.extent.checkpoints.commit(self.extent.len, n);
        self.extent.len += n;
        self.extent.held = self.extent.len;
    }
}
