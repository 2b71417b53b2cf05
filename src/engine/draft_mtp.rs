//! Drafts by the layer of a model that predicts a further token (multi-token prediction): a session of its own after
//! the job's. Each of its rows is made of the hidden state of a token, as passes of the job leave it, and of the token
//! that follows; rows of drafted tokens have those that the layer made itself, and are forgotten with the draft.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::Reservation;
use super::cache::{CacheParams, state_spec};
use super::draft_model::Choice;
use super::executors::Lent;
use super::model::Model;
use super::network::Network;
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::sampling;

/// Hidden states that wait until a draft needs them, at most: rows that come together are computed faster.
const WAITING: usize = 32;

pub struct DraftMtp {
    network: Arc<Network>,
    sequence: Sequence,
    /// The position of its first row in the job's session.
    from: usize,
    /// Hidden states after those that the sequence holds for good, `[n, width]`. The last one is computed again for
    /// each draft.
    waiting: Vec<f32>,
    room: usize,
    /// Tokens of the rows after those that the sequence holds for good: that of the last hidden state, and drafted
    /// ones.
    ahead: Vec<u32>,
    /// The hidden state that the newest row has made, and the logits of it.
    made: Vec<f32>,
    logits: Vec<f32>,
    /// The tokens of the open step, if any.
    tokens: Vec<u32>,
    /// The executor of a draft that is being made.
    lent: Option<Lent>,
    _memory: Reservation,
}

impl DraftMtp {
    /// `capacity`: of the session that it will follow. `most`: tokens of a draft.
    pub fn new(model: &Arc<Model>, capacity: usize, most: usize) -> Result<DraftMtp> {
        let network = model.network()?;
        let predictor = network.predictor()?;
        let params = CacheParams { capacity: capacity as u32, ..Default::default() };
        let sequence = network.new_sequence(&state_spec(&predictor.program, 0, &params, predictor.limits))?;
        let max_tokens = predictor.limits.max_tokens;
        let room = max_tokens + WAITING;
        let bytes = 4 * (room as u64).saturating_mul(predictor.width as u64);
        Ok(DraftMtp {
            _memory: model.runtime().reserve("the cache of drafts", sequence.host_bytes().saturating_add(bytes))?,
            sequence,
            from: 0,
            waiting: try_vec("hidden states", room.saturating_mul(predictor.width))?,
            room,
            ahead: try_vec("the tokens of a draft", most + 1)?,
            made: try_filled("hidden states", predictor.width, 0f32)?,
            logits: try_filled("logits", predictor.program.vocab, 0f32)?,
            tokens: try_vec("the tokens of a draft", max_tokens)?,
            lent: None,
            network: network.clone(),
        })
    }

    /// Number of rows that the sequence holds for good.
    fn held(&self) -> usize {
        self.sequence.len() - self.ahead.len()
    }

    /// Number of hidden states that wait.
    fn n_waiting(&self) -> usize {
        self.waiting.len() / self.made.len()
    }

    /// Takes the hidden states of tokens at some positions from a pass, where they begin with a row of it.
    pub fn take(&mut self, executor: &mut Executor, row: usize, positions: Range<usize>) -> Result<()> {
        let (network, width) = (self.network.clone(), self.made.len());
        let known = self.from + self.held() + self.n_waiting();
        let is_new = known == self.from || positions.start > known;
        // Hidden states of tokens that are computed again are known.
        let first = if is_new { positions.start } else { known };
        let n = positions.end.saturating_sub(first);
        if is_new || self.n_waiting() + n > self.room {
            self.sequence.truncate(0);
            self.ahead.clear();
            self.waiting.clear();
            self.rest();
            self.from = first;
        }
        let before = self.waiting.len();
        self.waiting.resize(before + n * width, 0.0);
        executor.read_rows(network.predictor()?.states, row + first - positions.start, &mut self.waiting[before..])
    }

    /// Computes rows of a session where many wait; false where `budget` pauses.
    pub fn catch_up(&mut self, held: &[u32], budget: &StepBudget) -> Result<bool> {
        while self.n_waiting() > WAITING && self.from + self.held() + self.n_waiting() <= held.len() {
            if self.advance(held, budget)?.is_none() {
                return Ok(false);
            }
            self.rest();
        }
        Ok(true)
    }

    /// The token that follows a history, which goes on after the tokens whose hidden states are known; `None` where
    /// `budget` pauses, to go on with the same history.
    pub fn next(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        let mut time = Duration::ZERO;
        loop {
            let Some(taken) = self.advance(history, budget)? else { return Ok(None) };
            time += taken;
            if self.from + self.sequence.len() + 1 == history.len() {
                let (token, lead) = sampling::lead(&self.logits);
                return Ok(Some(Choice { token, lead, time }));
            }
        }
    }

    /// Gives the executor back until there is more to do, and forgets the open step.
    pub fn rest(&mut self) {
        self.lent = None;
        self.tokens.clear();
    }

    /// Makes a step of the next rows: the time that it took, or `None` where `budget` pauses.
    fn advance(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Duration>> {
        let result = self.run(history, budget);
        result.inspect_err(|_| self.rest())
    }

    fn run(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Duration>> {
        if self.tokens.is_empty() {
            self.begin(history)?;
        }
        let (n, n_waiting, network) = (self.tokens.len(), self.n_waiting(), self.network.clone());
        let is_guess = !self.ahead.is_empty();
        let has_output = is_guess || n == n_waiting;
        let predictor = network.predictor()?;
        let DraftMtp { sequence, tokens, lent, waiting, made, .. } = self;
        let lent = match lent {
            Some(lent) => lent,
            None => {
                let make = |limits| network.new_executor(&predictor.program, limits);
                lent.insert(predictor.executors.take_apart(make)?)
            }
        };
        let step = lent.step();
        if step.is_empty() {
            step.add(&*tokens, usize::from(has_output));
        }
        let rows = if is_guess { &made[..] } else { &waiting[..n * predictor.width] };
        if !step.run(&mut [sequence], &[], |executor| executor.write(predictor.input, rows), budget)? {
            return Ok(None);
        }
        let time = step.time();
        let executor = &mut step.clear().executor;
        if has_output {
            executor.read(predictor.result, made)?;
            executor.read_logits(0, &mut self.logits)?;
        }
        self.sequence.commit(n);
        if has_output {
            self.ahead.extend(self.tokens.last());
        }
        if !is_guess {
            let done = n - usize::from(has_output);
            self.waiting.drain(..done * predictor.width);
        }
        self.tokens.clear();
        Ok(Some(time))
    }

    /// Begins a step: of hidden states that wait, as many as there are tokens after, or, where the last one was
    /// computed, of the token after the newest row.
    fn begin(&mut self, history: &[u32]) -> Result<()> {
        let held = self.held();
        let behind = history.get(self.from + held + 1..).unwrap_or_default();
        match behind.strip_prefix(&self.ahead[..]) {
            Some([next, ..]) if !self.ahead.is_empty() && self.n_waiting() == 1 => self.tokens.push(*next),
            _ => {
                self.sequence.truncate(held);
                self.ahead.clear();
                let n = self.n_waiting().min(self.network.predictor()?.limits.max_tokens);
                self.tokens.extend(behind.iter().take(n));
            }
        }
        if self.tokens.is_empty() { Err(Error::invalid("a draft of nothing")) } else { Ok(()) }
    }
}
