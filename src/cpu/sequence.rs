//! The CPU state of one sequence: KV cache, recurrent state, and the adapters of its steps.

use super::adapter::CpuAdapter;
use super::kv::CpuKv;
use super::recurrent_state::CpuRecurrent;
use crate::error::Result;
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::SequenceSpec;

pub struct CpuSequence {
    /// `None` after release: all tokens must be recomputed in another sequence.
    kv: Option<CpuKv>,
    pub recurrent: CpuRecurrent,
    /// Adapters of every step of the sequence.
    pub adapters: AdapterSet<CpuAdapter>,
}

impl CpuSequence {
    /// Maps zeros; untouched pages cost nothing.
    pub fn new(spec: &SequenceSpec) -> Result<CpuSequence> {
        let (kv, recurrent) = (Some(CpuKv::new(spec)?), CpuRecurrent::new(&spec.recurrent)?);
        Ok(CpuSequence { kv, recurrent, adapters: AdapterSet::default() })
    }

    pub fn kv(&self) -> Option<&CpuKv> {
        self.kv.as_ref()
    }

    pub fn kv_mut(&mut self) -> Option<&mut CpuKv> {
        self.kv.as_mut()
    }

    /// Returns the reserved memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.kv().map_or(0, CpuKv::bytes) + self.recurrent.bytes()
    }

    /// Returns a copy of the first `len` positions and of some buffers of recurrent state.
    pub fn fork(&self, len: usize, buffers: impl Iterator<Item = usize>) -> Result<CpuSequence> {
        let kv = self.kv().map(|kv| kv.fork(len)).transpose()?;
        let mut recurrent = self.recurrent.like()?;
        recurrent.copy(&self.recurrent, buffers);
        Ok(CpuSequence { kv, recurrent, adapters: self.adapters.clone() })
    }

    /// Frees the memory and keeps the adapters.
    pub fn release(&mut self) -> Result<()> {
        self.recurrent = CpuRecurrent::new(&[])?;
        self.kv = None;
        Ok(())
    }
}
