//! The inputs of one step: tokens of any mix of sequences. Everything else is in its program.

use super::op::TensorId;
use crate::error::Result;
use crate::sampling::SamplingRule;

/// Token id that stands for the token sampled in the previously submitted step: token `i` is the one after output `i`.
pub const CHOSEN_BEFORE: u32 = u32::MAX;

/// Token id that stands for a media row.
pub const MEDIA_ROW: u32 = u32::MAX - 1;

/// Maximum number of tokens and outputs of a step.
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
    /// `[n]`, index of the sequence of each token, ascending: tokens of one sequence are contiguous.
    pub sequences: &'a [u32],
    /// Tokens that need logits, as indices into `ids`, ascending.
    pub outputs: &'a [u32],
    /// Sampling rule of the device after each output, `None` for greedy; empty: no sampling. The CPU ignores it. A step
    /// whose tokens are all `CHOSEN_BEFORE` uses the previous step's rules.
    pub rules: &'a [Option<SamplingRule<'a>>],
    /// The values of each media row (id `MEDIA_ROW`), in order.
    pub media: &'a [&'a [f32]],
    /// `[n]`, M-RoPE position (time, row, column) of each token; empty: its position.
    pub rope_positions: &'a [[u32; 3]],
    /// `[n]`, attention span of each token: first position, and the one after the last, within the step; empty: no
    /// spans.
    pub spans: &'a [[u32; 2]],
    /// True if each token must be bit-identical to a single-token step; all must be of one sequence, at most
    /// `separable` of them.
    pub separate: bool,
}

/// Maximum number of tokens of a `separate` step.
const SEPARATE: usize = 8;
/// Attention changes how it splits positions at this position times each power of two.
const DIVIDED: usize = 64;

/// Returns the maximum number of tokens, starting at `position`, that a step can compute bit-identically to
/// single-token steps.
pub fn separable(position: usize) -> usize {
    let end = (position + 1).div_ceil(DIVIDED).next_power_of_two() * DIVIDED;
    SEPARATE.min(end - position)
}

impl StepInputs<'_> {
    /// Returns each token that is a media row, with its values.
    pub fn media_rows(&self) -> impl Iterator<Item = (usize, &[f32])> {
        // Fast path for text.
        let ids = if self.media.is_empty() { &[] } else { self.ids };
        let tokens = ids.iter().enumerate().filter(|(_, id)| **id == MEDIA_ROW);
        tokens.zip(self.media).map(|((t, _), row)| (t, *row))
    }

    /// Returns each sequence's index and its range of tokens, from token `first` on.
    pub fn runs(&self) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
        let mut end = 0;
        self.sequences.chunk_by(|a, b| a == b).map(move |run| {
            let start = end;
            end += run.len();
            (run[0], start..end)
        })
    }
}

/// A device's state of the sequences of a step: one `T` per sequence.
pub trait Sequences<T: ?Sized>: Sync {
    fn len(&self) -> usize;

    /// Returns the device's state of sequence `i`; `None` if it is on another device.
    fn get(&self, i: usize) -> Option<&T>;

    /// Returns the buffers of recurrent state that a step of sequence `i` from position `first` on reads and writes.
    fn recurrent_buffers(&self, i: usize, first: usize) -> Result<(usize, usize)>;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Mutable access to a device's state of the sequences of a step.
pub trait SequencesMut<T: ?Sized>: Sequences<T> {
    fn get_mut(&mut self, i: usize) -> Option<&mut T>;
}

/// The open step of an executor: its activations, its results and its end.
pub trait OpenStep {
    /// Returns the token after output `i`: the arg-max (ties: the lowest id), or on a GPU the one sampled by its rule.
    fn token(&mut self, i: usize) -> Result<u32>;

    /// Copies the logits of output `i`.
    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()>;

    /// Sets an activation, `[n, width]`, from host memory.
    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()>;

    /// Copies an activation, `[n, width]`, to host memory. The contents are undefined if the program does not keep it.
    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()>;

    /// Copies rows of a kept activation, from row `first` of the step on. The rows need not be outputs.
    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()>;

    /// Waits for the device work of this step and of submitted steps, reports its errors, and ends the step.
    fn end(&mut self) -> Result<()>;
}
