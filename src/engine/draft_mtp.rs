//! Drafts by the layer of a model that predicts a further token (multi-token prediction): a timeline of its own behind the
//! job's. Each of its rows is made of the hidden state of a token, as passes of the job leave it, and of the token that
//! follows; rows of drafted tokens have those that the layer made itself, and are forgotten with the draft.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Reservation;
use super::cache::{CacheParams, state_spec};
use super::draft_model::Choice;
use super::executors::Counted;
use super::model::Model;
use super::step::StepBuffers;
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::sampling;

/// Hidden states that wait until a draft needs them, at most: rows that come together are computed faster.
const WAITING: usize = 32;

pub struct DraftMtp {
    model: Arc<Model>,
    state: Sequence,
    /// The position of its first row in the job's timeline.
    from: usize,
    /// Hidden states behind those that the state holds for good, `[n, width]`. The last one is computed again for each draft.
    waiting: Vec<f32>,
    room: usize,
    /// Tokens of the rows behind those that the state holds for good: that of the last hidden state, and drafted ones.
    ahead: Vec<u32>,
    /// The hidden state that the newest row has made, and the logits of it.
    made: Vec<f32>,
    logits: Vec<f32>,
    /// The tokens of the open step, if any, whether it was begun, and the time that it has taken.
    step: Vec<u32>,
    begun: bool,
    busy: Duration,
    inputs: StepBuffers,
    /// With an executor while a draft is made.
    executor: Option<Counted>,
    _memory: Reservation,
}

impl DraftMtp {
    /// `capacity`: of the timeline that it will follow. `most`: tokens of a draft.
    pub fn new(model: &Arc<Model>, capacity: usize, most: usize) -> Result<DraftMtp> {
        let predictor = model.predictor()?;
        let params = CacheParams { capacity: capacity as u32, ..Default::default() };
        let state = model.new_sequence(&state_spec(&predictor.program, 0, &params, predictor.limits))?;
        let max_tokens = predictor.limits.max_tokens;
        let room = max_tokens + WAITING;
        let bytes = 4 * (room as u64).saturating_mul(predictor.width as u64);
        Ok(DraftMtp {
            _memory: model.runtime().reserve("the cache of drafts", state.host_bytes().saturating_add(bytes))?,
            state,
            from: 0,
            waiting: try_vec("hidden states", room.saturating_mul(predictor.width))?,
            room,
            ahead: try_vec("the tokens of a draft", most + 1)?,
            made: try_filled("hidden states", predictor.width, 0f32)?,
            logits: try_filled("logits", predictor.program.vocab, 0f32)?,
            step: try_vec("the tokens of a draft", max_tokens)?,
            begun: false,
            busy: Duration::ZERO,
            inputs: StepBuffers::new(max_tokens)?,
            executor: None,
            model: model.clone(),
        })
    }

    /// Number of rows that the state holds for good.
    fn held(&self) -> usize {
        self.state.len() - self.ahead.len()
    }

    /// Number of hidden states that wait.
    fn n_waiting(&self) -> usize {
        self.waiting.len() / self.made.len()
    }

    /// Takes the hidden states of tokens at some positions from a pass, where they begin with a row of it.
    pub fn take(&mut self, executor: &mut Executor, row: usize, positions: Range<usize>) -> Result<()> {
        let predictor = self.model.predictor()?;
        let known = self.from + self.held() + self.n_waiting();
        let is_new = known == self.from || positions.start > known;
        // Those of tokens that came again are known.
        let first = if is_new { positions.start } else { known };
        let n = positions.end.saturating_sub(first);
        if is_new || self.n_waiting() + n > self.room {
            self.state.truncate(0);
            self.ahead.clear();
            self.waiting.clear();
            self.step.clear();
            self.from = first;
        }
        let before = self.waiting.len();
        self.waiting.resize(before + n * predictor.width, 0.0);
        executor.read_rows(predictor.states, row + first - positions.start, &mut self.waiting[before..])
    }

    /// Computes rows of a timeline where many wait; false where `pace` pauses.
    pub fn catch_up(&mut self, timeline: &[u32], pace: &StepBudget) -> Result<bool> {
        while self.n_waiting() > WAITING && self.from + self.held() + self.n_waiting() <= timeline.len() {
            if self.advance(timeline, pace)?.is_none() {
                return Ok(false);
            }
            self.rest();
        }
        Ok(true)
    }

    /// The token that follows a history, which goes on behind the tokens whose hidden states are known; `None` where `pace`
    /// pauses, to go on with the same history.
    pub fn next(&mut self, history: &[u32], pace: &StepBudget) -> Result<Option<Choice>> {
        let mut time = Duration::ZERO;
        loop {
            let Some(taken) = self.advance(history, pace)? else { return Ok(None) };
            time += taken;
            if self.from + self.state.len() + 1 == history.len() {
                let (token, lead) = sampling::lead(&self.logits);
                return Ok(Some(Choice { token, lead, time }));
            }
        }
    }

    /// Gives the executor back until there is more to do.
    pub fn rest(&mut self) {
        if let (Some(executor), Ok(predictor)) = (self.executor.take(), self.model.predictor()) {
            predictor.executors.give_back(executor);
        }
    }

    /// Makes a step of the next rows: the time that it took, or `None` where `pace` pauses.
    fn advance(&mut self, history: &[u32], pace: &StepBudget) -> Result<Option<Duration>> {
        let started = Instant::now();
        let result = self.run(history, pace);
        self.busy += started.elapsed();
        match result {
            Ok(true) => Ok(Some(std::mem::take(&mut self.busy))),
            Ok(false) => Ok(None),
            Err(e) => {
                self.step.clear();
                Err(e)
            }
        }
    }

    fn run(&mut self, history: &[u32], pace: &StepBudget) -> Result<bool> {
        if self.step.is_empty() {
            self.begin(history)?;
        }
        let (n, n_waiting, model) = (self.step.len(), self.n_waiting(), self.model.clone());
        let is_guess = !self.ahead.is_empty();
        let has_output = is_guess || n == n_waiting;
        let predictor = model.predictor()?;
        if self.executor.is_none() {
            let make = |limits| model.new_executor(&predictor.program, limits);
            (self.executor, self.begun) = (Some(predictor.executors.take_apart(make)?), false);
        }
        let DraftMtp { state, inputs, step, executor, waiting, made, begun, .. } = self;
        let Some(Counted { executor, .. }) = executor else {
            return Err(Error::invalid("a draft without an executor"));
        };
        let mut states = [state];
        let mut batch = if *begun {
            inputs.same(&mut states, step)
        } else {
            let outputs = std::iter::once((n, usize::from(has_output)));
            let mut batch = inputs.batch(&mut states, step, outputs, 0)?;
            executor.begin(&mut batch, 0..predictor.program.ops.len())?;
            executor.write(predictor.input, if is_guess { made } else { &waiting[..n * predictor.width] })?;
            *begun = true;
            batch
        };
        if !executor.advance_at(&mut batch, pace)? {
            return Ok(false);
        }
        executor.end()?;
        if has_output {
            executor.read(predictor.result, made)?;
            executor.read_logits(0, &mut self.logits)?;
        }
        self.state.commit(n);
        if has_output {
            self.ahead.extend(self.step.last());
        }
        if !is_guess {
            let done = n - usize::from(has_output);
            self.waiting.drain(..done * predictor.width);
        }
        self.step.clear();
        Ok(true)
    }

    /// Begins a step: of hidden states that wait, as many as there are tokens behind, or, where the last one was computed, of the
    /// token behind the newest row.
    fn begin(&mut self, history: &[u32]) -> Result<()> {
        let held = self.held();
        let behind = history.get(self.from + held + 1..).unwrap_or_default();
        (self.begun, self.busy) = (false, Duration::ZERO);
        match behind.strip_prefix(&self.ahead[..]) {
            Some([next, ..]) if !self.ahead.is_empty() && self.n_waiting() == 1 => self.step.push(*next),
            _ => {
                self.state.truncate(held);
                self.ahead.clear();
                let n = self.n_waiting().min(self.model.predictor()?.limits.max_tokens);
                self.step.extend(behind.iter().take(n));
            }
        }
        if self.step.is_empty() { Err(Error::invalid("a draft of nothing")) } else { Ok(()) }
    }
}
