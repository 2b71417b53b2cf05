//! The inputs of one step: tokens of any mix of sequences. Everything else of a step is in its program.

use super::op::TensorId;
use crate::error::Result;
use crate::sampling::SamplingRule;

/// Id in `StepInputs::ids` that stands for the token chosen after an output of the step that was submitted before: for
/// token `i` the output `i`.
pub const CHOSEN_BEFORE: u32 = u32::MAX;

/// Id in `StepInputs::ids` that stands for a row of numbers in place of a token.
pub const MEDIA_ROW: u32 = u32::MAX - 1;

/// Number of tokens and outputs that an executor has room for in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepLimits {
    pub max_tokens: usize,
    pub max_outputs: usize,
}

/// The tokens of one step, `n = ids.len()`.
#[derive(Clone, Copy, Default)]
pub struct StepInputs<'a> {
    /// `[n]`
    pub ids: &'a [u32],
    /// `[n]`, position of each token in its sequence, ascending within each.
    pub positions: &'a [u32],
    /// `[n]`, number of the sequence of each token, ascending: tokens of one sequence stand together.
    pub sequences: &'a [u32],
    /// Tokens whose logits are wanted, as indices into `ids`, ascending.
    pub outputs: &'a [u32],
    /// The rule by which a device chooses the token after each output, the most likely one where there is none; empty:
    /// it chooses none. The CPU chooses none. In a step whose tokens are all `CHOSEN_BEFORE` the rules of the step
    /// before go on.
    pub rules: &'a [Option<SamplingRule<'a>>],
    /// The numbers of each token whose id is `MEDIA_ROW`, in their order.
    pub media: &'a [&'a [f32]],
    /// `[n]`, time, row and column of each token, by which heads turn in place of its position; empty: by that.
    pub turns: &'a [[u32; 3]],
    /// `[n]`, the first position of each token's span and the one after its last, none after those of the step; empty:
    /// no token has one.
    pub spans: &'a [[u32; 2]],
    /// Each token shall have the bits that it has in a step of its own; all are of one sequence, at most as many as
    /// `separable` tells.
    pub separate: bool,
}

/// Tokens of a step at most that are computed as in steps of their own.
const SEPARATE: usize = 8;
/// Positions from whose multiples by powers of two on a step divides positions anew.
const DIVIDED: usize = 64;

/// Number of tokens from a position on that a step can compute with the bits of steps of their own.
pub fn separable(position: usize) -> usize {
    let end = (position + 1).div_ceil(DIVIDED).next_power_of_two() * DIVIDED;
    SEPARATE.min(end - position)
}

impl StepInputs<'_> {
    /// Each token that is a row of media, with its numbers.
    pub fn media_rows(&self) -> impl Iterator<Item = (usize, &[f32])> {
        // Text has nothing to look for.
        let ids = if self.media.is_empty() { &[] } else { self.ids };
        let tokens = ids.iter().enumerate().filter(|(_, id)| **id == MEDIA_ROW);
        tokens.zip(self.media).map(|((t, _), row)| (t, *row))
    }

    /// The number of each sequence and its range of tokens, from token `first` on.
    pub fn runs(&self) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
        let mut end = 0;
        self.sequences.chunk_by(|a, b| a == b).map(move |run| {
            let start = end;
            end += run.len();
            (run[0], start..end)
        })
    }
}

/// What a device keeps of the sequences of a step: one `T` per sequence.
pub trait Sequences<T: ?Sized>: Sync {
    fn len(&self) -> usize;

    /// What the device keeps of sequence `i`; `None` if the sequence is on another device.
    fn get(&self, i: usize) -> Option<&T>;

    /// Two buffers of recurrent state for a step of sequence `i` from position `first` on: the buffer that the step
    /// reads, and the buffer that it writes.
    fn recurrent_buffers(&self, i: usize, first: usize) -> Result<(usize, usize)>;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Mutable access to what a device keeps of the sequences of a step.
pub trait SequencesMut<T: ?Sized>: Sequences<T> {
    fn get_mut(&mut self, i: usize) -> Option<&mut T>;
}

/// The open step of an executor: its activations, its results and its end.
pub trait OpenStep {
    /// The token after output `i` of the step: the most likely one, of which the lowest wins a tie, or on a GPU the one
    /// that its rule chooses.
    fn token(&mut self, i: usize) -> Result<u32>;

    /// Copies the logits of output `i` of the step.
    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()>;

    /// Sets an activation, `[n, width]`, from memory of the host.
    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()>;

    /// Copies an activation, `[n, width]`, to memory of the host. If the program does not keep the activation, its
    /// memory may be unwritten, or hold another activation by now.
    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()>;

    /// Copies rows of an activation that the program keeps, from row `first` of the step on. The rows need not be
    /// outputs.
    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()>;

    /// Waits for the device work of this step and of submitted steps, reports its errors, and ends the step.
    fn end(&mut self) -> Result<()>;
}
