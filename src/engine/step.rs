//! The one maker of batches: the inputs of a step of one or several sequences, behind the check that each still holds
//! what the step needs. Refuses to know whose tokens they are.

use crate::device::batch::Batch;
use crate::device::sequence::Sequence;
use crate::error::{Error, Result, try_vec};
use crate::graph::step::StepInputs;

/// Memory for the inputs of a step, set aside once for the largest one.
pub struct StepBuffers {
    positions: Vec<u32>,
    slots: Vec<u32>,
    outputs: Vec<u32>,
}

impl StepBuffers {
    pub fn new(max_tokens: usize) -> Result<StepBuffers> {
        let list = || try_vec("the inputs of a step", max_tokens);
        Ok(StepBuffers { positions: list()?, slots: list()?, outputs: list()? })
    }

    /// A step in which sequence `i` continues with the next of `ids`, as many as `parts` says beside the number of the last
    /// of them whose logits are wanted. `ahead`: steps that were submitted and not committed yet.
    pub fn batch<'a>(
        &'a mut self,
        states: &'a mut [&'a mut Sequence],
        ids: &'a [u32],
        parts: impl Iterator<Item = (usize, usize)>,
        ahead: usize,
    ) -> Result<Batch<'a>> {
        self.positions.clear();
        self.slots.clear();
        self.outputs.clear();
        for (slot, (state, (n, outputs))) in states.iter_mut().zip(parts).enumerate() {
            if !state.is_complete() {
                return Err(Error::invalid("the layers have forgotten what the step needs"));
            }
            let first = state.len() + ahead;
            state.will_write(first, n);
            self.positions.extend((first as u32..).take(n));
            self.slots.extend(std::iter::repeat_n(slot as u32, n));
            let end = self.slots.len() as u32;
            self.outputs.extend(end - outputs.min(n) as u32..end);
        }
        Ok(self.same(states, ids))
    }

    /// The batch that was made last, to go on with a step.
    pub fn same<'a>(&'a self, states: &'a mut [&'a mut Sequence], ids: &'a [u32]) -> Batch<'a> {
        let StepBuffers { positions, slots, outputs } = self;
        let inputs = StepInputs { ids, positions, sequences: slots, outputs, rules: &[] };
        Batch { inputs, sequences: states }
    }
}
