//! The steps of an executor: the current step, the steps in flight, and the state from which the next step continues.

use std::ops::Range;

use super::inputs::{Sent, rope_offsets};
use super::launch::{Current, Event, PinnedBuffer, Stream};
use super::lower::{SampledTokens, StepShape};
use super::sequence::KvView;
use crate::error::{Error, Result, try_vec};
use crate::graph::step::{CHOSEN_BEFORE, StepInputs};

/// Maximum number of steps in flight: one that runs, one queued, one being prepared. Not more, because steps after the
/// end of a sequence are discarded.
pub const SLOTS: usize = 3;

/// The state of the step that was begun last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The step has ended or was abandoned, or there is none. The next step sends all of its inputs.
    Idle,
    /// Ops of the step can be queued.
    Open {
        /// True if no op is queued yet.
        is_untouched: bool,
        /// True if the previous step was submitted.
        follows: bool,
    },
    /// The step was submitted: its tokens are on the device, where the next step can continue from them.
    Submitted,
}

impl Stage {
    /// True if a step can use the tokens that the previous step sampled on the device.
    pub fn follows(self) -> bool {
        matches!(self, Stage::Submitted | Stage::Open { follows: true, .. })
    }
}

/// The step that was begun last. Its results remain readable after its end.
#[derive(Default)]
pub struct CudaStep {
    pub shape: StepShape,
    pub sent: Sent,
    /// The remaining ops.
    pub ops: Range<usize>,
    /// True if the step has all ops of the program, or all up to `KeepOutputs`.
    pub is_whole: bool,
    /// Numbers of tokens and of outputs, without padding.
    pub tokens: usize,
    pub outputs: usize,
    /// Number of outputs with logits.
    pub results: usize,
}

impl CudaStep {
    pub fn check_output(&self, i: usize) -> Result<()> {
        let missing = || Error::invalid(format!("output {i} does not exist; the step has {}", self.results));
        (i < self.results).then_some(()).ok_or_else(missing)
    }
}

/// The tokens that the submitted steps have sampled, and the ends of these steps.
pub struct Flight {
    /// `[SLOTS, stride]`
    sampled: PinnedBuffer,
    /// Maximum number of outputs of a step.
    stride: usize,
    /// The end of the last step of each slot.
    ended: Vec<Event>,
    /// Slot of the step that was begun last.
    slot: usize,
    /// Number of submitted steps that are not collected yet.
    n: usize,
}

impl Flight {
    pub fn new(current: &Current, max_outputs: usize) -> Result<Flight> {
        let tokens = current.alloc_pinned(SLOTS * 4 * max_outputs)?;
        let mut ended = try_vec("events", SLOTS)?;
        for _ in 0..SLOTS {
            ended.push(current.event(false)?);
        }
        Ok(Flight { sampled: tokens, stride: max_outputs, ended, slot: 0, n: 0 })
    }

    /// Fails if no slot is free.
    pub fn check_room(&self) -> Result<()> {
        let is_full = || Error::invalid(format!("{} steps are under way", self.n));
        (self.n < SLOTS).then_some(()).ok_or_else(is_full)
    }

    /// Returns the slot of the step that was begun last.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Advances to the next slot, for a new step.
    pub fn next_slot(&mut self) -> usize {
        self.slot = (self.slot + 1) % SLOTS;
        self.slot
    }

    /// Marks the step that was begun last as in flight.
    pub fn submit(&mut self, current: &Current, stream: &Stream) -> Result<()> {
        current.record(stream, &self.ended[self.slot])?;
        self.n += 1;
        Ok(())
    }

    /// Waits for the oldest step, and returns its slot.
    pub fn land(&mut self, current: &Current) -> Result<usize> {
        let Some(newer) = self.n.checked_sub(1) else {
            return Err(Error::invalid("no step was submitted"));
        };
        let slot = (self.slot + SLOTS - newer) % SLOTS;
        current.wait(&self.ended[slot])?;
        self.n = newer;
        Ok(slot)
    }

    /// Discards all steps; returns false if there are none.
    pub fn abandon(&mut self) -> bool {
        std::mem::take(&mut self.n) > 0
    }

    /// Returns the token that the device wrote after output `i` of the step in a slot.
    pub fn sampled_token(&self, slot: usize, i: usize) -> Result<u32> {
        let tokens = self.sampled.bytes().as_chunks().0;
        let token = tokens.get(slot * self.stride + i).map(|b| u32::from_le_bytes(*b));
        token.ok_or_else(|| Error::invalid(format!("output {i} does not exist")))
    }

    /// Returns the memory for tokens.
    pub fn sampled(&self) -> SampledTokens {
        SampledTokens { address: self.sampled.address(), slots: SLOTS as u32, stride: self.stride as u32 }
    }
}

/// Decides whether a step continues from the previous one, whose tokens were all outputs.
pub struct LastTokens {
    /// Per token: position, M-RoPE offset, span and sequence; empty if not all tokens were outputs.
    positions: Vec<u32>,
    rope_offsets: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
    slots: Vec<u32>,
    caches: Vec<KvView>,
}

impl LastTokens {
    pub fn new(max_outputs: usize) -> Result<LastTokens> {
        Ok(LastTokens {
            positions: try_vec("outputs", max_outputs)?,
            rope_offsets: try_vec("outputs", max_outputs)?,
            spans: try_vec("outputs", max_outputs)?,
            slots: try_vec("outputs", max_outputs)?,
            caches: Vec::new(),
        })
    }

    pub fn set(&mut self, inputs: &StepInputs, caches: Vec<KvView>) {
        self.positions.clear();
        self.rope_offsets.clear();
        self.spans.clear();
        self.slots.clear();
        if inputs.outputs.len() == inputs.ids.len() {
            self.positions.extend_from_slice(inputs.positions);
            self.rope_offsets.extend((0..inputs.rope_positions.len()).map(|t| rope_offsets(inputs, t)));
            self.spans.extend_from_slice(inputs.spans);
            self.slots.extend_from_slice(inputs.sequences);
        }
        self.caches = caches;
    }

    /// True if a step directly follows these tokens with the sampled ones: the device has advanced ids, positions and
    /// rules itself.
    pub fn lead_to(&self, inputs: &StepInputs, caches: &[KvView]) -> bool {
        inputs.ids.iter().all(|id| *id == CHOSEN_BEFORE)
            && inputs.outputs.len() == inputs.ids.len()
            && inputs.positions.iter().copied().eq(self.positions.iter().map(|position| position + 1))
            && (0..inputs.rope_positions.len()).map(|t| rope_offsets(inputs, t)).eq(self.rope_offsets.iter().copied())
            && inputs.spans == self.spans
            && inputs.sequences == self.slots
            && caches.len() == self.caches.len()
            && caches.iter().zip(&self.caches).all(|(kv, before)| kv.is_of_same(before))
    }
}
