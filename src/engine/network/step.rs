//! The only driver of steps: an executor, the tokens of one or several sequences, and the work from `begin` to the end,
//! which may be paused. Prefill, decode, batches, jobs, drafts and embeddings all go through `Step::advance`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::{Batch, Executor, Sequence, StepBudget};
use crate::engine::media::item::Media;
use crate::engine::runs::MediaRuns;
use crate::error::{Error, Result, try_vec};
use crate::graph::step::StepInputs;
use crate::sampling::SamplingRule;

/// Placeholder of a RoPE position until the token's position is known.
const BY_POSITION: [u32; 3] = [u32::MAX; 3];

/// An executor, the tokens of its step, and its progress. Memory is allocated once, for the largest step.
pub struct Step {
    pub executor: Executor,
    /// Token ids `[n]`, all lanes concatenated.
    ids: Vec<u32>,
    /// Number of tokens and number of outputs (last tokens whose logits are needed) of each sequence.
    lanes: Vec<[usize; 2]>,
    positions: Vec<u32>,
    numbers: Vec<u32>,
    outputs: Vec<u32>,
    /// The media rows among the tokens, and the inputs derived from them; empty without media.
    media: Vec<(Arc<Media>, Range<usize>)>,
    rope_positions: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
    /// True if each token must have the results of a single-token step: `StepInputs::separate`.
    pub separate: bool,
    /// True if each token attends to all keys of its sequence, at the next position, and adds no key.
    pub only_reads: bool,
    /// Number of submitted, uncommitted steps of the sequences before this one.
    pub ahead: usize,
    begun: bool,
    /// Time spent computing.
    busy: Duration,
}

impl Step {
    /// Creates an empty step for up to `max_tokens` tokens.
    pub fn new(executor: Executor, max_tokens: usize) -> Result<Step> {
        let list = || try_vec("the inputs of a step", max_tokens);
        let (ids, positions, numbers, outputs) = (list()?, list()?, list()?, list()?);
        let lanes = try_vec("the inputs of a step", max_tokens)?;
        let (media, rope_positions, spans) = Default::default();
        let ([separate, only_reads, begun], busy) = ([false; 3], Duration::ZERO);
        Ok(Step {
            executor,
            ids,
            lanes,
            positions,
            numbers,
            outputs,
            media,
            rope_positions,
            spans,
            separate,
            only_reads,
            ahead: 0,
            begun,
            busy,
        })
    }

    /// Clears tokens and progress for the next step.
    pub fn clear(&mut self) -> &mut Step {
        self.ids.clear();
        self.lanes.clear();
        self.media.clear();
        self.rope_positions.clear();
        self.spans.clear();
        self.separate = false;
        self.only_reads = false;
        self.ahead = 0;
        self.begun = false;
        self.busy = Duration::ZERO;
        self
    }

    /// Adds the next tokens of another sequence; the last `outputs` of them need logits.
    pub fn add<'a>(&mut self, tokens: impl IntoIterator<Item = &'a u32>, outputs: usize) -> &mut Step {
        let before = self.ids.len();
        self.ids.extend(tokens);
        let n = self.ids.len() - before;
        self.lanes.push([n, outputs.min(n)]);
        self
    }

    /// Adds the media inputs for the tokens added last, which begin at `first` of the sequence. `has_rope_positions`:
    /// the network uses M-RoPE.
    pub fn add_media(&mut self, runs: &MediaRuns, first: usize, has_rope_positions: bool) -> Result<()> {
        let n = self.lanes.last().map_or(0, |[n, _]| *n);
        let (before, places) = (self.ids.len() - n, first..first + n);
        let most = self.ids.capacity();
        let out_of_memory = |_| Error::OutOfMemory { what: "the inputs of a step", bytes: 0 };
        if has_rope_positions && runs.begin() < places.end {
            self.rope_positions.try_reserve(most).map_err(out_of_memory)?;
            self.rope_positions.resize(before, BY_POSITION);
            runs.rope_positions(places.clone(), &mut self.rope_positions);
        }
        if runs.has_spans(places.clone()) {
            self.spans.try_reserve(most).map_err(out_of_memory)?;
            self.spans.resize(before, [0; 2]);
            runs.spans(places.clone(), &mut self.spans);
        }
        self.media.try_reserve(runs.within(places.clone()).count()).map_err(out_of_memory)?;
        self.media.extend(runs.within(places).map(|(run, rows)| (run.media.clone(), rows)));
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// True if no work has begun.
    pub fn is_fresh(&self) -> bool {
        !self.begun
    }

    /// Returns the time spent computing this step.
    pub fn time(&self) -> Duration {
        self.busy
    }

    /// True if the step has prompt tokens: tokens without logits.
    pub fn has_prompt(&self) -> bool {
        self.lanes.iter().any(|[n, outputs]| outputs < n)
    }

    /// Works until the whole program is complete and ends the step, or until `budget` pauses the step. Returns true if
    /// complete. After an error, or to abandon the step, the owner must call `end`.
    pub fn run(
        &mut self,
        sequences: &mut [&mut Sequence],
        rules: &[Option<SamplingRule>],
        write: impl FnOnce(&mut Executor) -> Result<()>,
        budget: &StepBudget,
    ) -> Result<bool> {
        self.run_from(0, sequences, rules, write, budget)
    }

    /// Like `run`, without the first ops of the program.
    pub fn run_from(
        &mut self,
        first: usize,
        sequences: &mut [&mut Sequence],
        rules: &[Option<SamplingRule>],
        write: impl FnOnce(&mut Executor) -> Result<()>,
        budget: &StepBudget,
    ) -> Result<bool> {
        let started = Instant::now();
        let ops = first..self.executor.ops().end;
        let done = self.advance(sequences, ops, rules, write, budget);
        let done = done.and_then(|done| if done { self.executor.end().map(|()| true) } else { Ok(false) });
        self.busy += started.elapsed();
        done
    }

    /// Works until `ops` are complete or `budget` pauses; returns true if complete. `sequences` must be in the order of
    /// `add`, the same in each call. `rules` and `write` apply only to a fresh step.
    pub fn advance(
        &mut self,
        sequences: &mut [&mut Sequence],
        ops: Range<usize>,
        rules: &[Option<SamplingRule>],
        write: impl FnOnce(&mut Executor) -> Result<()>,
        budget: &StepBudget,
    ) -> Result<bool> {
        let is_fresh = !self.begun;
        if is_fresh {
            self.place(sequences)?;
        }
        let Step { executor, ids, positions, numbers, outputs, rope_positions, spans, .. } = self;
        let rules = if is_fresh { rules } else { &[] };
        let mut media: Vec<&[f32]> = Vec::new();
        if !self.media.is_empty() {
            media = try_vec("the rows of a step", ids.len())?;
            media.extend(self.media.iter().flat_map(|(media, rows)| rows.clone().map(|row| media.row(row))));
        }
        let media = &media;
        let separate = self.separate;
        let inputs =
            StepInputs { ids, positions, sequences: numbers, outputs, rules, media, rope_positions, spans, separate };
        let mut batch = Batch { inputs, sequences };
        if is_fresh {
            executor.begin(&mut batch, ops)?;
            write(executor)?;
            self.begun = true;
        }
        executor.advance(&mut batch, budget)
    }

    /// Assigns each token its position, and marks the positions as being written.
    fn place(&mut self, sequences: &mut [&mut Sequence]) -> Result<()> {
        let ahead = self.ahead;
        self.positions.clear();
        self.numbers.clear();
        self.outputs.clear();
        for (number, (sequence, &[n, outputs])) in (0..).zip(sequences.iter_mut().zip(&self.lanes)) {
            if !sequence.is_complete() {
                return Err(Error::invalid("the layers have forgotten what the step needs"));
            }
            let mut first = sequence.len() + ahead;
            if self.only_reads {
                self.rope_positions.push([first as u32; 3]);
                first =
                    first.checked_sub(1).ok_or_else(|| Error::invalid("a draft needs a cache that is not empty"))?;
            } else {
                sequence.will_write(first, n);
            }
            self.positions.extend((first as u32..).take(n));
            self.numbers.extend(std::iter::repeat_n(number, n));
            let end = self.numbers.len() as u32;
            self.outputs.extend(end - outputs as u32..end);
        }
        if !self.rope_positions.is_empty() {
            self.rope_positions.resize(self.ids.len(), BY_POSITION);
            let by_position =
                self.rope_positions.iter_mut().zip(&self.positions).filter(|(rotary, _)| **rotary == BY_POSITION);
            by_position.for_each(|(rotary, position)| *rotary = [*position; 3]);
        }
        if !self.spans.is_empty() {
            self.spans.resize(self.ids.len(), [0; 2]);
        }
        Ok(())
    }
}
