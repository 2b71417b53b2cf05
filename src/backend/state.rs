//! The memory of one sequence on the device of its model: how many tokens are committed, and which positions
//! of a layer with a window were overwritten since. Refuses to know how keys and values lie in memory.

use super::checkpoints::Checkpoints;
use super::cpu::kv::CpuKv;
use super::cpu::recurrent::CpuRecurrent;
use super::cuda::CudaKv;
use super::op::MemoryId;
use super::state_spec::StateSpec;
use crate::error::{Error, Result};

/// The memory of a sequence on the device or devices of its model.
pub enum StateMemory {
    Cpu(CpuKv),
    Cuda(CudaKv),
    /// The first layers on the CPU, the others on a GPU.
    Split(CpuKv, CudaKv),
}

pub struct State {
    spec: StateSpec,
    memory: StateMemory,
    /// Recurrent memories, all of them of layers on the CPU, and the positions at which they are kept.
    recurrent: CpuRecurrent,
    checkpoints: Checkpoints,
    /// Committed tokens: positions `0..len` are valid.
    len: usize,
    /// One more than the highest position written since position 0 last was; what rings keep follows from it.
    written: usize,
}

impl State {
    pub fn new(spec: StateSpec, memory: StateMemory) -> Result<State> {
        let recurrent = CpuRecurrent::new(&spec.memories)?;
        Ok(State { spec, memory, recurrent, checkpoints: Checkpoints::new(), len: 0, written: 0 })
    }

    pub fn spec(&self) -> &StateSpec {
        &self.spec
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory set aside, in bytes.
    pub fn bytes(&self) -> u64 {
        let kv = match &self.memory {
            StateMemory::Cpu(kv) => kv.bytes(),
            StateMemory::Cuda(kv) => kv.bytes(),
            StateMemory::Split(cpu, cuda) => cpu.bytes() + cuda.bytes(),
        };
        kv + self.recurrent.bytes()
    }

    /// The part of `bytes` that is memory of the host.
    pub fn host_bytes(&self) -> u64 {
        self.cpu().map_or(0, CpuKv::bytes) + self.recurrent.bytes()
    }

    pub fn cpu(&self) -> Option<&CpuKv> {
        match &self.memory {
            StateMemory::Cpu(kv) | StateMemory::Split(kv, _) => Some(kv),
            StateMemory::Cuda(_) => None,
        }
    }

    pub fn cpu_mut(&mut self) -> Option<&mut CpuKv> {
        match &mut self.memory {
            StateMemory::Cpu(kv) | StateMemory::Split(kv, _) => Some(kv),
            StateMemory::Cuda(_) => None,
        }
    }

    pub fn cuda(&self) -> Option<&CudaKv> {
        match &self.memory {
            StateMemory::Cuda(kv) | StateMemory::Split(_, kv) => Some(kv),
            StateMemory::Cpu(_) => None,
        }
    }

    /// A copy of the committed tokens with the same capacity.
    pub fn fork(&self) -> Result<State> {
        // A ring holds later positions too where the state was rewound.
        let memory = match &self.memory {
            StateMemory::Cpu(kv) => StateMemory::Cpu(kv.fork(self.len)?),
            StateMemory::Cuda(kv) => StateMemory::Cuda(kv.fork(self.len)?),
            StateMemory::Split(cpu, cuda) => StateMemory::Split(cpu.fork(self.len)?, cuda.fork(self.len)?),
        };
        let mut recurrent = CpuRecurrent::new(&self.spec.memories)?;
        recurrent.copy(&self.recurrent, self.checkpoints.held());
        let State { checkpoints, len, written, .. } = *self;
        Ok(State { spec: self.spec.clone(), memory, recurrent, checkpoints, len, written })
    }

    /// Rewinds to the first `len` tokens, of which there are as many.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.checkpoints.truncate(self.len);
    }

    /// True where the next token finds what it needs of those before it. After a long rewind layers with a window do not
    /// hold it, after most rewinds recurrent layers do not.
    pub fn is_complete(&self) -> bool {
        let is_recurrent = !self.spec.memories.is_empty();
        self.holds_windows() && (!is_recurrent || self.checkpoints.at(self.len).is_some())
    }

    /// True where every layer still holds all positions that the next token sees.
    fn holds_windows(&self) -> bool {
        self.spec.layers.iter().enumerate().all(|(i, layer)| {
            let overwritten = self.written.saturating_sub(self.spec.kept(i));
            layer.window == 0 || overwritten <= (self.len + 1).saturating_sub(layer.window)
        })
    }

    /// Goes back to the newest position at which the state is complete, and returns it.
    pub fn step_back(&mut self) -> usize {
        if !self.spec.memories.is_empty() {
            self.truncate(self.checkpoints.newest(self.len).unwrap_or(0));
        }
        if !self.is_complete() {
            self.clear();
        }
        self.len
    }

    /// Forgets all tokens, and with them what was overwritten.
    fn clear(&mut self) {
        (self.len, self.written) = (0, 0);
        self.checkpoints = Checkpoints::new();
        self.recurrent.clear(0);
    }

    /// Claims `len` tokens that layers with a window hold nothing of.
    pub fn mark_incomplete(&mut self, len: usize) {
        (self.len, self.written) = (len, usize::MAX);
    }

    /// Counts `n` positions from `first` on as written; a step that fails may have written them too.
    pub fn will_write(&mut self, first: usize, n: usize) {
        self.written = self.written.max(first + n);
        self.checkpoints.begin(self.len);
    }

    /// A recurrent memory as the open step finds it, and the place of what it becomes.
    pub fn memory(&mut self, memory: MemoryId) -> Result<(&[f32], &mut [f32])> {
        let incomplete = || Error::invalid("recurrent layers hold nothing of the tokens before the step");
        let from = self.checkpoints.at(self.len).ok_or_else(incomplete)?;
        self.recurrent.step(memory, from, self.checkpoints.target(self.len))
    }

    /// Commits the `n` tokens of a step.
    pub fn commit(&mut self, n: usize) {
        self.checkpoints.commit(self.len, n);
        self.len += n;
    }

    /// Takes back a rewind by `n` tokens, none of which was computed again.
    pub fn reclaim(&mut self, n: usize) {
        self.len += n;
    }
}
