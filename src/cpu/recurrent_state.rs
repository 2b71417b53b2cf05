//! Recurrent states of one sequence in memory: buffers, each with the state of all layers. `checkpoints` maps buffers
//! to numbers of tokens.

use super::memory::Floats;
use crate::error::{Error, Result, try_vec};
use crate::graph::op::RecurrentId;
use crate::graph::sequence_spec::RECURRENT_BUFFERS;

/// The buffers of a sequence.
pub struct CpuRecurrent {
    /// Offset of each recurrent state, by `RecurrentId`, and the end of the last.
    starts: Vec<usize>,
    buffers: Vec<Floats>,
}

impl CpuRecurrent {
    /// Maps zeros; untouched pages cost nothing.
    pub fn new(recurrent: &[usize]) -> Result<CpuRecurrent> {
        let mut starts = try_vec("recurrent states", recurrent.len() + 1)?;
        let mut end = 0usize;
        starts.push(end);
        for values in recurrent {
            let too_large = || Error::invalid("the size of recurrent states overflows");
            end = end.checked_add(*values).ok_or_else(too_large)?;
            starts.push(end);
        }
        let count = if end == 0 { 0 } else { RECURRENT_BUFFERS };
        let mut buffers = try_vec("recurrent states", count)?;
        for _ in 0..count {
            buffers.push(Floats::huge("recurrent states", end)?);
        }
        Ok(CpuRecurrent { starts, buffers })
    }

    /// Returns the reserved memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|b| 4 * b.len() as u64).sum()
    }

    /// Returns a recurrent state in the buffer that a step reads and in the one that it writes.
    pub fn step(&mut self, memory: RecurrentId, from: usize, to: usize) -> Result<(&[f32], &mut [f32])> {
        let range = match self.starts.get(memory.0 as usize..=memory.0 as usize + 1) {
            Some(&[start, end]) => start..end,
            _ => {
                return Err(Error::Mismatch(format!(
                    "{memory:?} does not exist; the network has {}",
                    self.starts.len() - 1
                )));
            }
        };
        let both = self.buffers.get_disjoint_mut([from, to]);
        let [from, to] = both.map_err(|_| Error::invalid(format!("buffers {from} and {to} must exist and differ")))?;
        Ok((&from[range.clone()], &mut to[range]))
    }

    /// Sets a buffer to the zeros of an empty sequence.
    pub fn clear(&mut self, buffer: usize) {
        if let Some(buffer) = self.buffers.get_mut(buffer) {
            buffer.fill(0.0);
        }
    }

    /// Returns an empty one of the same shape.
    pub fn like(&self) -> Result<CpuRecurrent> {
        let mut buffers = try_vec("recurrent states", self.buffers.len())?;
        for buffer in &self.buffers {
            buffers.push(Floats::huge("recurrent states", buffer.len())?);
        }
        Ok(CpuRecurrent { starts: self.starts.clone(), buffers })
    }

    /// Returns the recurrent states in a buffer as bytes; empty if the sequence has none.
    pub fn bytes_of(&self, buffer: usize) -> &[u8] {
        self.buffers.get(buffer).map_or(&[], |buffer| buffer.as_bytes())
    }

    pub fn bytes_of_mut(&mut self, buffer: usize) -> &mut [u8] {
        self.buffers.get_mut(buffer).map_or(&mut [], |buffer| buffer.as_bytes_mut())
    }

    /// Copies some buffers from a sequence of the same shape.
    pub fn copy(&mut self, from: &CpuRecurrent, buffers: impl Iterator<Item = usize>) {
        for i in buffers {
            if let (Some(to), Some(from)) = (self.buffers.get_mut(i), from.buffers.get(i)) {
                to.copy_from_slice(from);
            }
        }
    }
}
