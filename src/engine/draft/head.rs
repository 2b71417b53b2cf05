//! Drafts by a head: the MTP layer of a model, or a draft head for another model (EAGLE). The head has its own
//! sequence. Each row combines the hidden state of a token, from the job's passes, with the token after it. Rows of
//! draft tokens use hidden states that the head has computed itself; these rows are removed together with the draft.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::model::{Choice, same_size, same_words};
use super::shared_end::SharedEnd;
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::engine::cache::{CacheParams, state_spec};
use crate::engine::model::Model;
use crate::engine::network::Network;
use crate::engine::network::executors::Acquired;
use crate::engine::network::observed::End;
use crate::engine::network::predictor::Predictor;
use crate::engine::runtime::Reservation;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::op::TensorId;
use crate::model::{OtherNetwork, PredictorOf};
use crate::sampling;

/// Maximum number of hidden states that wait for the next draft; a batch of rows is faster than single ones.
const WAITING: usize = 32;

pub struct DraftHead {
    /// The networks of the head and of its target; equal for an MTP layer.
    network: Arc<Network>,
    target: Arc<Network>,
    /// Target activations that are concatenated into a hidden state, and its width.
    states: Vec<TensorId>,
    width: usize,
    sequence: Sequence,
    /// Position of the head's first row in the job's session.
    from: usize,
    /// Hidden states after the committed rows, `[n, width]`. The last one is recomputed for each draft.
    waiting: Vec<f32>,
    room: usize,
    /// Rows of one activation, before concatenation.
    parts: Vec<f32>,
    /// Tokens of the uncommitted rows: the token after the last hidden state, then draft tokens.
    ahead: Vec<u32>,
    /// Hidden state and logits of the newest row.
    made: Vec<f32>,
    logits: Vec<f32>,
    /// The tokens of the open step, if any.
    tokens: Vec<u32>,
    /// The target's embedding table and output matrix, if the head has none of its own.
    table: Option<SharedEnd>,
    head: Option<SharedEnd>,
    /// The executor of an unfinished draft.
    acquired: Option<Acquired>,
    _memory: Reservation,
}

impl DraftHead {
    /// Drafts by the model's MTP layer. `capacity`: context length of the job's session. `most`: maximum draft tokens.
    pub fn of_layer(model: &Arc<Model>, capacity: usize, most: usize) -> Result<DraftHead> {
        let network = model.network()?;
        let states = match network.predictor()?.of {
            PredictorOf::Same(states) => vec![states],
            _ => network.check_whole().map(|()| Vec::new())?,
        };
        DraftHead::new(model, network, states, capacity, most)
    }

    /// Drafts by a head for `target`; `None` if `head` is not one.
    pub fn of_model(head: &Arc<Model>, target: &Arc<Model>, capacity: usize, most: usize) -> Result<Option<DraftHead>> {
        let Ok(Predictor { of: PredictorOf::Other(other), width, .. }) = head.network()?.predictor() else {
            return Ok(None);
        };
        same_size(head, target)?;
        if head.tokenizer().is_ok() && target.tokenizer().is_ok() {
            same_words(head, target)?;
        }
        let network = target.network()?;
        let n = network.program.layers.len();
        let usual = [2, n / 2, n.saturating_sub(3)];
        let states = network.observe(other.layers.as_deref().unwrap_or(&usual), other.width)?;
        let [table, lm_head] = network.ends();
        let shared = [(other.embeddings, table, "embeddings"), (other.normed, lm_head, "output matrix")];
        for (_, end, what) in shared.into_iter().filter(|(tensor, ..)| tensor.is_some()) {
            let Some(End { program, tensor, .. }) = end else {
                return Err(Error::unsupported(format!(
                    "a draft head without its own {what} is not supported for this model"
                )));
            };
            let found = program.width(*tensor);
            if found != *width {
                let what = format!("the draft model has no {what} of its own and is {width} wide, the model {found}");
                return Err(Error::Mismatch(what));
            }
        }
        DraftHead::new(head, network, states, capacity, most).map(Some)
    }

    fn new(
        model: &Arc<Model>,
        target: &Arc<Network>,
        states: Vec<TensorId>,
        capacity: usize,
        most: usize,
    ) -> Result<DraftHead> {
        let network = model.network()?;
        let predictor = network.predictor()?;
        let params = CacheParams { capacity: capacity as u32, ..Default::default() };
        let sequence = predictor.backend.new_sequence(&state_spec(&predictor.program, 0, &params, predictor.limits))?;
        let (max_tokens, room) = (predictor.limits.max_tokens, target.limits.max_tokens + WAITING);
        let (mut width, mut vocab, mut table, mut head) = (predictor.width, predictor.program.vocab, None, None);
        let mut bytes = sequence.host_bytes();
        if let PredictorOf::Other(other) = &predictor.of {
            width = other.width * states.len();
            let [of_table, of_head] = target.ends();
            let mut share = |end: &Option<End>, rows: usize| {
                let Some(end) = end else { return Ok(None) };
                let end = SharedEnd::new(end, rows)?;
                bytes = bytes.saturating_add(end.bytes());
                Ok::<_, Error>(Some(end))
            };
            if other.embeddings.is_some() {
                table = share(of_table, max_tokens)?;
            }
            if other.normed.is_some() {
                (head, vocab) = (share(of_head, 1)?, target.program.vocab);
            }
        }
        let n_parts =
            if let [_] = states[..] { 0 } else { target.limits.max_tokens.saturating_mul(width) / states.len().max(1) };
        bytes = bytes.saturating_add(4 * (room as u64).saturating_mul(width as u64)).saturating_add(4 * n_parts as u64);
        Ok(DraftHead {
            _memory: model.runtime().reserve("the cache of drafts", bytes)?,
            sequence,
            from: 0,
            waiting: try_vec("hidden states", room.saturating_mul(width))?,
            room,
            parts: try_filled("hidden states", n_parts, 0f32)?,
            ahead: try_vec("the tokens of a draft", most + 1)?,
            made: try_filled("hidden states", predictor.width, 0f32)?,
            logits: try_filled("logits", vocab, 0f32)?,
            tokens: try_vec("the tokens of a draft", max_tokens)?,
            table,
            head,
            acquired: None,
            network: network.clone(),
            target: target.clone(),
            states,
            width,
        })
    }

    /// True if the target's passes must keep extra hidden states for the head.
    pub fn observes(&self) -> bool {
        !Arc::ptr_eq(&self.network, &self.target)
    }

    /// Returns the number of committed rows.
    fn held(&self) -> usize {
        self.sequence.len() - self.ahead.len()
    }

    /// Returns the number of waiting hidden states.
    fn n_waiting(&self) -> usize {
        self.waiting.len() / self.width
    }

    /// Takes the hidden states of tokens at `positions` from a pass, the first one from `row`.
    pub fn take(&mut self, executor: &mut Executor, row: usize, positions: Range<usize>) -> Result<()> {
        let known = self.from + self.held() + self.n_waiting();
        let is_new = known == self.from || positions.start > known;
        // Hidden states of recomputed tokens are known already.
        let first = if is_new { positions.start } else { known };
        let n = positions.end.saturating_sub(first);
        if is_new || self.n_waiting() + n > self.room {
            self.sequence.truncate(0);
            self.ahead.clear();
            self.waiting.clear();
            self.release();
            self.from = first;
        }
        let (before, width, row) = (self.waiting.len(), self.width, row + first - positions.start);
        self.waiting.resize(before + n * width, 0.0);
        if let [states] = self.states[..] {
            return executor.read_rows(states, row, &mut self.waiting[before..]);
        }
        let part = width / self.states.len();
        let parts = &mut self.parts[..n * part];
        for (i, states) in self.states.iter().enumerate() {
            executor.read_rows(*states, row, parts)?;
            let rows = self.waiting[before..].chunks_exact_mut(width).zip(parts.chunks_exact(part));
            rows.for_each(|(row, values)| row[i * part..][..part].copy_from_slice(values));
        }
        Ok(())
    }

    /// Computes waiting rows if there are many; returns false if `budget` pauses.
    pub fn catch_up(&mut self, held: &[u32], budget: &StepBudget) -> Result<bool> {
        while self.n_waiting() > WAITING && self.from + self.held() + self.n_waiting() <= held.len() {
            if self.advance(held, budget)?.is_none() {
                return Ok(false);
            }
            self.release();
        }
        Ok(true)
    }

    /// Returns the draft token after `history`, which must extend the tokens with known hidden states. Returns `None`
    /// if `budget` pauses; call again with the same history.
    pub fn next(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        let mut time = Duration::ZERO;
        loop {
            let Some(taken) = self.advance(history, budget)? else { return Ok(None) };
            time += taken;
            if self.from + self.sequence.len() + 1 == history.len() {
                let (number, lead) = sampling::lead(&self.logits);
                let tokens = self.other()?.and_then(|other| other.tokens.as_ref());
                let token = tokens.and_then(|tokens| tokens.get(number as usize)).copied().unwrap_or(number);
                return Ok(Some(Choice { token, lead, time }));
            }
        }
    }

    /// Returns the executor to the pool until there is more to do, and drops the open step.
    pub fn release(&mut self) {
        self.acquired = None;
        self.tokens.clear();
    }

    /// Runs a step of the next rows. Returns its time, or `None` if `budget` pauses.
    fn advance(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Duration>> {
        let result = self.run(history, budget);
        result.inspect_err(|_| self.release())
    }

    /// Returns the head's description of its target if the head has a file of its own; otherwise `None`.
    fn other(&self) -> Result<Option<&OtherNetwork>> {
        Ok(match &self.network.predictor()?.of {
            PredictorOf::Other(other) => Some(other),
            _ => None,
        })
    }

    fn run(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Duration>> {
        let network = self.network.clone();
        if self.tokens.is_empty() {
            self.begin(history)?;
            if let Some(table) = &mut self.table {
                table.embed(&self.target, &self.tokens)?;
            }
        }
        let (n, n_waiting) = (self.tokens.len(), self.n_waiting());
        let is_guess = !self.ahead.is_empty();
        let has_output = is_guess || n == n_waiting;
        let predictor = network.predictor()?;
        let DraftHead { sequence, tokens, acquired, waiting, made, logits, table, head, target, width, .. } = self;
        let acquired = match acquired {
            Some(acquired) => acquired,
            None => {
                let make = |limits| network.executor_on(&predictor.backend, &predictor.program, limits);
                acquired.insert(predictor.executors.acquire_unqueued(make)?)
            }
        };
        let step = acquired.step();
        if step.is_empty() {
            step.add(&*tokens, usize::from(has_output));
        }
        let (states, fusing, embeddings) = match &predictor.of {
            PredictorOf::Other(other) => (other.states, other.fusing, other.embeddings.zip(table.as_ref())),
            _ => (predictor.input, 0, None),
        };
        let (first, input, rows) = match is_guess {
            true => (fusing, predictor.input, &made[..]),
            false => (0, states, &waiting[..n * *width]),
        };
        let write = |executor: &mut Executor| {
            executor.write(input, rows)?;
            embeddings.map_or(Ok(()), |(to, table)| executor.write(to, &table.values[..n * predictor.width]))
        };
        if !step.run_from(first, &mut [sequence], &[], write, budget)? {
            return Ok(None);
        }
        let mut time = step.time();
        let executor = &mut step.clear().executor;
        let normed = if let PredictorOf::Other(other) = &predictor.of { other.normed } else { None };
        match (normed, head) {
            _ if !has_output => {}
            (Some(normed), Some(head)) => {
                // Without an output matrix of its own, the program returns all rows.
                executor.read_rows(predictor.result, n - 1, made)?;
                executor.read_rows(normed, n - 1, &mut head.values)?;
                time += head.logits(target, logits)?;
            }
            _ => {
                executor.read(predictor.result, made)?;
                executor.read_logits(0, logits)?;
            }
        }
        self.sequence.commit(n);
        if has_output {
            self.ahead.extend(self.tokens.last());
        }
        if !is_guess {
            let done = n - usize::from(has_output);
            self.waiting.drain(..done * self.width);
        }
        self.tokens.clear();
        Ok(Some(time))
    }

    /// Begins a step with the rows of waiting hidden states or, if the head has computed all of them, with the row of
    /// the last draft token.
    fn begin(&mut self, history: &[u32]) -> Result<()> {
        let held = self.held();
        let after = history.get(self.from + held + 1..).unwrap_or_default();
        match after.strip_prefix(&self.ahead[..]) {
            Some([next, ..]) if !self.ahead.is_empty() && self.n_waiting() == 1 => self.tokens.push(*next),
            _ => {
                self.sequence.truncate(held);
                self.ahead.clear();
                let n = self.n_waiting().min(self.network.predictor()?.limits.max_tokens);
                self.tokens.extend(after.iter().take(n));
            }
        }
        if self.tokens.is_empty() { Err(Error::invalid("a draft needs a token")) } else { Ok(()) }
    }
}
