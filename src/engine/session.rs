//! A session: the tokens of one text, their committed length, rewind, fork, and the tokens that follow. In C it is
//! `rz_cache`. A call that fails leaves the session as it was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adapter::{self, Adapter};
use super::cache::{CacheParams, state_spec};
use super::chooser::{self, Chooser, DeviceRules};
use super::metrics::Phase;
use super::model::Model;
use super::network::Network;
use super::pipelined::{self, Lanes};
use super::step::Step;
use super::{Cancel, LogLevel, Reservation};
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::quant;
use crate::sampling::{self, SamplingRule};

/// Why generation returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The output is full.
    More,
    /// The last token ends a turn or a text.
    Done,
}

/// The place of the logits after the last token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Logits {
    /// There are no logits.
    None,
    OnHost,
    /// The device kept them: the last token is computed again to read them.
    OnDevice,
}

/// The result that a step makes beside the cached keys and values.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Nothing,
    /// A token that the device chooses.
    Token(DeviceRules<'a>),
    Logits,
    /// The logits after each token, for the function that runs after the step.
    AllLogits,
}

/// A sequence, and the bytes of it that count against the ceiling.
pub(super) type Memory = (Sequence, Option<Reservation>);

pub struct Session {
    model: Arc<Model>,
    network: Arc<Network>,
    sequence: Sequence,
    /// The committed tokens: as many as `sequence` has.
    tokens: Vec<u32>,
    /// Logits after the last token, `[vocab]`; valid where `logits_at` is `OnHost`.
    logits: Vec<f32>,
    logits_at: Logits,
    step: Step,
    /// Heeded by every step, beside that of the call.
    cancel: Option<Arc<Cancel>>,
    /// Those of the sequence, whose memory is counted here.
    adapters: Vec<Arc<Adapter>>,
    /// `None` where the memory was given back.
    memory: Option<Reservation>,
    /// Number of the first tokens whose memory is that of the session it was forked from.
    shared: usize,
}

impl Session {
    pub fn new(model: &Arc<Model>, params: &CacheParams) -> Result<Session> {
        for t in [params.k_type, params.v_type] {
            if ![quant::F16, quant::F32, quant::Q8_0, quant::Q4_0].contains(&t) {
                return Err(Error::invalid(format!("a cache of type {} is not supported", t.0)));
            }
        }
        let network = model.network()?;
        let declared = network.context_length;
        if params.capacity > declared {
            let what = format!("a cache of {} tokens, the model was made for {declared}", params.capacity);
            model.runtime().log(LogLevel::Warning, &what);
        }
        let spec = state_spec(&network.program, declared, params, network.limits);
        let (sequence, memory) = Session::set_aside(model, &spec)?;
        Session::with_sequence(model, sequence, memory)
    }

    /// An empty sequence, and the bytes that count against the ceiling.
    fn set_aside(model: &Arc<Model>, spec: &SequenceSpec) -> Result<Memory> {
        let sequence = model.network()?.new_sequence(spec)?;
        let memory = model.runtime().reserve("the cache", sequence.host_bytes())?;
        Ok((sequence, Some(memory)))
    }

    /// Memory for a sequence that was released.
    pub(super) fn fresh_memory(&self) -> Result<Option<Memory>> {
        self.sequence.is_released().then(|| Session::set_aside(&self.model, self.sequence.spec())).transpose()
    }

    /// Goes on in such memory: all tokens are to be computed again.
    pub(super) fn set_memory(&mut self, memory: Memory) {
        let adapters = self.sequence.adapters().cloned().unwrap_or_default();
        (self.sequence, self.memory) = memory;
        self.sequence.set_adapters(adapters);
        self.sequence.claim(self.tokens.len());
    }

    fn with_sequence(model: &Arc<Model>, sequence: Sequence, memory: Option<Reservation>) -> Result<Session> {
        let network = model.network()?;
        Ok(Session {
            tokens: try_vec("the cache's tokens", sequence.spec().capacity)?,
            logits: try_filled("logits", network.program.vocab, 0.0)?,
            logits_at: Logits::None,
            step: Step::new(network.limits.max_tokens)?,
            model: model.clone(),
            network: network.clone(),
            sequence,
            cancel: None,
            adapters: Vec::new(),
            memory,
            shared: 0,
        })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// A request to stop that every step heeds from now on, those of forks too.
    pub fn set_cancel(&mut self, cancel: Option<Arc<Cancel>>) {
        self.cancel = cancel;
    }

    /// Has every step, those of forks too, add the products of some adapters, each with a factor. Forgets all tokens,
    /// which were computed with others.
    pub fn set_adapters(&mut self, adapters: &[Arc<Adapter>], scales: &[f32]) -> Result<()> {
        let set = adapter::set(&self.model, adapters, scales)?;
        let mut held = try_vec("adapters", adapters.len())?;
        held.extend_from_slice(adapters);
        self.rewind(0);
        self.sequence.set_adapters(set);
        self.adapters = held;
        Ok(())
    }

    /// True where adapters change the results.
    pub fn is_adapted(&self) -> bool {
        self.sequence.adapters().is_some_and(|adapters| !adapters.is_empty())
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub(super) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Memory that one more token of capacity takes, in bytes.
    /// Bytes of recurrent states, which each step reads and writes.
    pub fn memory_bytes(&self) -> u64 {
        self.sequence.spec().recurrent.iter().map(|values| 4 * *values as u64).sum()
    }

    pub(super) fn token_bytes(&self) -> Result<u64> {
        self.sequence.token_bytes()
    }

    /// The tokens, the logits and the sequence of an empty session, to be filled in.
    pub(super) fn parts(&mut self) -> (&mut Vec<u32>, &mut [f32], &mut Sequence) {
        (&mut self.tokens, &mut self.logits, &mut self.sequence)
    }

    pub(super) fn set_logits(&mut self, at: Logits) {
        self.logits_at = at;
    }

    /// Number of its tokens whose memory is its own.
    pub(super) fn unshared(&self) -> usize {
        self.len() - self.shared
    }

    /// Types of its keys and values.
    pub(super) fn types(&self) -> [u64; 2] {
        [self.sequence.spec().k_type, self.sequence.spec().v_type].map(|t| u64::from(t.0))
    }

    /// The parameters that it was made by.
    pub(super) fn params(&self) -> CacheParams {
        let spec = self.sequence.spec();
        CacheParams { capacity: spec.capacity as u32, k_type: spec.k_type, v_type: spec.v_type }
    }

    pub fn capacity(&self) -> usize {
        self.sequence.spec().capacity
    }

    /// True where rotations are those of long contexts, which follows from the room of all caches of a step: those of a
    /// step are all on one side.
    pub(super) fn is_long(&self) -> bool {
        self.network.long_rope_above().is_some_and(|above| self.capacity() > above)
    }

    /// Logits after the last token, `[vocab]`; `None` before the first, after a rewind, and where `fetch_logits` has
    /// yet to copy them.
    pub fn logits(&self) -> Option<&[f32]> {
        (self.logits_at == Logits::OnHost).then_some(&self.logits[..])
    }

    /// True where `fetch_logits` has logits to copy.
    pub fn has_logits_on_device(&self) -> bool {
        self.logits_at == Logits::OnDevice
    }

    /// Copies logits that stayed on the device when a token was chosen there.
    pub fn fetch_logits(&mut self) -> Result<()> {
        if self.logits_at != Logits::OnDevice {
            return Ok(());
        }
        let Some(&token) = self.tokens.last() else { return Ok(()) };
        self.rewind(self.len() - 1);
        let result = self.append(&[token], Wanted::Logits, None, |_| Ok(()));
        if result.is_err() {
            self.tokens.push(token);
            self.sequence.claim(self.tokens.len());
            self.logits_at = Logits::OnDevice;
        }
        result
    }

    /// Forgets `drop` tokens after the first `keep`. Those after them are computed again, at their new positions, by
    /// the next call: every value of theirs depends on the tokens before them.
    pub fn shift(&mut self, keep: u32, drop: u32) -> Result<()> {
        let (keep, end, len) = (keep as usize, keep as usize + drop as usize, self.len());
        if end > len {
            return Err(Error::invalid(format!("the cache holds {len} tokens, it can't forget {keep} to {end}")));
        }
        if drop > 0 {
            self.sequence.truncate(keep);
            self.tokens.drain(keep..end);
            self.sequence.claim(self.tokens.len());
            self.logits_at = if end == len { Logits::None } else { Logits::OnDevice };
        }
        Ok(())
    }

    /// Gives the memory of keys and values back; the next call computes them again. Logits stay.
    pub fn release(&mut self) -> Result<()> {
        self.sequence.release()?;
        self.memory = None;
        Ok(())
    }

    /// Number of the first of some tokens that the cache holds and can be rewound to without computing any again.
    pub fn matching(&self, tokens: &[u32]) -> usize {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.sequence.reach(same)
    }

    /// Rewinds to the first `len` tokens.
    pub fn truncate(&mut self, len: u32) -> Result<()> {
        let (len, now) = (len as usize, self.len());
        if len > now {
            return Err(Error::invalid(format!("the cache holds {now} tokens, it can't be rewound to {len}")));
        }
        if len < now {
            self.rewind(len);
        }
        Ok(())
    }

    /// Forgets the tokens from `len` on, of which there are some.
    pub(super) fn rewind(&mut self, len: usize) {
        self.sequence.truncate(len);
        self.tokens.truncate(len);
        self.shared = self.shared.min(len);
        self.logits_at = Logits::None;
    }

    pub(super) fn commit(&mut self, tokens: &[u32], logits_at: Logits) {
        self.sequence.commit(tokens.len());
        self.tokens.extend_from_slice(tokens);
        self.logits_at = logits_at;
    }

    /// A second session with the same past.
    pub fn fork(&self) -> Result<Session> {
        let mut held = try_vec("adapters", self.adapters.len())?;
        held.extend_from_slice(&self.adapters);
        let sequence = self.sequence.fork()?;
        let count = |_: &Reservation| self.model.runtime().reserve("the cache", sequence.host_bytes());
        let memory = self.memory.as_ref().map(count).transpose()?;
        let mut fork = Session::with_sequence(&self.model, sequence, memory)?;
        fork.tokens.extend_from_slice(&self.tokens);
        fork.logits.copy_from_slice(&self.logits);
        fork.logits_at = self.logits_at;
        fork.cancel = self.cancel.clone();
        fork.adapters = held;
        fork.shared = self.len();
        Ok(fork)
    }

    pub(super) fn check(&self, tokens: &[u32]) -> Result<()> {
        if self.logits.is_empty() {
            let architecture = &self.model.info().architecture;
            return Err(Error::unsupported(format!(
                "{architecture} makes no logits here, embeddings alone: rz_embed_into"
            )));
        }
        let vocab = self.logits.len();
        if let Some((i, t)) = tokens.iter().enumerate().find(|(_, t)| **t as usize >= vocab) {
            return Err(Error::invalid(format!("token {t} at index {i} is outside the vocabulary of {vocab}")));
        }
        if tokens.len() > self.capacity() - self.len() {
            return Err(Error::ContextFull { len: self.len(), capacity: self.capacity(), more: tokens.len() });
        }
        Ok(())
    }

    /// Appends tokens; afterwards the logits of the last one are there.
    pub fn prefill(&mut self, tokens: &[u32], cancel: Option<&Cancel>) -> Result<()> {
        self.check(tokens)?;
        let started = Instant::now();
        let (before, logits_at) = (self.len(), self.logits_at);
        let mut rest = tokens;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(self.network.call_piece()));
            rest = behind;
            let wanted = if rest.is_empty() { Wanted::Logits } else { Wanted::Nothing };
            if let Err(e) = self.append(piece, wanted, cancel, |_| Ok(())) {
                self.rewind(before);
                // Those of before are still there, because logits are read with the last piece only.
                self.logits_at = logits_at;
                return Err(e);
            }
        }
        self.model.metrics().record_phase(Phase::Prefill, started.elapsed());
        Ok(())
    }

    /// Appends tokens and finds the logarithm of the probability of each after all before it; 0 for the first of an
    /// empty session. `out` is as long as `tokens`.
    pub fn score(&mut self, tokens: &[u32], out: &mut [f32], cancel: Option<&Cancel>) -> Result<()> {
        self.check(tokens)?;
        let started = Instant::now();
        let before = self.len();
        if before > 0 && self.logits_at == Logits::None {
            self.logits_at = Logits::OnDevice;
        }
        self.fetch_logits()?;
        if let ([score, ..], [token, ..]) = (&mut *out, tokens) {
            *score = if before == 0 { 0.0 } else { sampling::logprob(&self.logits, *token) };
        }
        let mut row = try_filled("logits", self.logits.len(), 0f32)?;
        let StepLimits { max_tokens, max_outputs } = self.network.limits;
        let step = max_tokens.min(max_outputs);
        let network = self.network.clone();
        for (i, piece) in tokens.chunks(step).enumerate() {
            let first = i * step + 1;
            // The token after each, but that after the last.
            let following = tokens[first..].iter().zip(&mut out[first..]).take(piece.len()).enumerate();
            let result = self.append(piece, Wanted::AllLogits, cancel, |executor| {
                for (i, (token, score)) in following {
                    executor.read_logits(i, &mut row)?;
                    network.suppress(&mut row);
                    *score = sampling::logprob(&row, *token);
                }
                Ok(())
            });
            if let Err(e) = result {
                self.rewind(before);
                self.logits_at = if before == 0 { Logits::None } else { Logits::OnDevice };
                return Err(e);
            }
        }
        self.model.metrics().record_phase(Phase::Prefill, started.elapsed());
        Ok(())
    }

    /// The `k` likeliest tokens after the last one, or all there are, with the logarithms of their probabilities,
    /// descending.
    pub fn logprobs(&self, k: usize) -> Result<(Vec<u32>, Vec<f32>)> {
        let none = || Error::invalid("the cache has no logits: append a token first");
        sampling::likeliest(self.logits().ok_or_else(none)?, k)
    }

    /// Computes tokens again where the sequence no longer holds what the next one needs, as after a rewind: from the
    /// newest position on at which it does.
    pub(super) fn restore(&mut self, cancel: Option<&Cancel>) -> Result<()> {
        if self.sequence.is_complete() {
            return Ok(());
        }
        let mut tokens = try_vec("the cache's tokens", self.tokens.capacity())?;
        if let Some(memory) = self.fresh_memory()? {
            self.set_memory(memory);
        }
        std::mem::swap(&mut tokens, &mut self.tokens);
        let from = self.sequence.step_back();
        self.tokens.extend_from_slice(&tokens[..from]);
        let step = self.network.limits.max_tokens;
        for piece in tokens[from..].chunks(step) {
            if let Err(e) = self.step(piece, Wanted::Nothing, cancel, |_| Ok(())) {
                std::mem::swap(&mut tokens, &mut self.tokens);
                // The next call goes on.
                self.sequence.claim(self.tokens.len());
                return Err(e);
            }
        }
        Ok(())
    }

    /// `step` on a session whose layers hold what it needs.
    fn append<T>(
        &mut self,
        tokens: &[u32],
        wanted: Wanted,
        cancel: Option<&Cancel>,
        after: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<T> {
        self.restore(cancel)?;
        self.step(tokens, wanted, cancel, after)
    }

    /// One step of some tokens of this session, as many as one step has room for.
    fn step<T>(
        &mut self,
        tokens: &[u32],
        wanted: Wanted,
        cancel: Option<&Cancel>,
        after: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<T> {
        let Session { network, sequence, tokens: held, step, logits, cancel: sticky, .. } = self;
        let (outputs, last) = match wanted {
            Wanted::Nothing => (0, 0),
            Wanted::Token(_) | Wanted::Logits => (1, 0),
            Wanted::AllLogits => (tokens.len(), tokens.len() - 1),
        };
        let rule = match wanted {
            Wanted::Token(rules) => rules.rule([held, tokens], 0),
            _ => None,
        };
        let rules: &[_] = if matches!(wanted, Wanted::Token(_)) { &[rule] } else { &[] };
        let (step, cancels) = (step.set(tokens, outputs), [sticky.as_deref(), cancel]);
        let (result, logits_at) = network.forward(step, &mut [sequence], rules, &cancels, |executor| {
            let result = after(executor)?;
            let logits_at = match wanted {
                Wanted::Nothing => Logits::None,
                Wanted::Token(_) => Logits::OnDevice,
                _ => executor.read_logits(last, logits).map(|()| Logits::OnHost)?,
            };
            network.suppress(logits);
            Ok((result, logits_at))
        })?;
        self.commit(tokens, logits_at);
        Ok(result)
    }

    /// Appends a token and chooses the next one; the arg-max where `chooser` is `None`.
    pub fn decode(&mut self, token: u32, chooser: Option<&mut Chooser>) -> Result<u32> {
        self.decode_cancellable(token, chooser, None)
    }

    fn decode_cancellable(
        &mut self,
        token: u32,
        mut chooser: Option<&mut Chooser>,
        cancel: Option<&Cancel>,
    ) -> Result<u32> {
        self.check(&[token])?;
        if let Some(chooser) = &chooser {
            chooser.check_vocab(self.logits.len())?;
        }
        let (started, network) = (Instant::now(), self.network.clone());
        if let Some(chooser) = chooser.as_deref_mut() {
            chooser.prepare_mask(&network, &mut self.tokens, &[token])?;
        }
        let rules = DeviceRules::new(&network, chooser.as_deref());
        let wanted = rules.map_or(Wanted::Logits, Wanted::Token);
        let read = |executor: &mut Executor| rules.is_some().then(|| executor.token(0)).transpose();
        let chosen = self.append(&[token], wanted, cancel, read)?;
        let next = self.choose(chosen, chooser).inspect_err(|_| self.rewind(self.len() - 1))?;
        self.model.metrics().record_phase(Phase::Decode, started.elapsed());
        Ok(next)
    }

    /// Takes the token that the device has chosen after the last one, or chooses it from the logits.
    pub(super) fn choose(&mut self, chosen: Option<u32>, chooser: Option<&mut Chooser>) -> Result<u32> {
        match chosen {
            Some(token) => chooser::chosen(token, chooser),
            None => self.sample(chooser),
        }
    }

    /// Appends `token`, then each token it makes but the last, until `out` is full or a token ends the turn.
    /// `n` counts the tokens in `out`, also where an error ends the call: those stay in the session.
    pub fn generate(
        &mut self,
        token: u32,
        mut chooser: Option<&mut Chooser>,
        out: &mut [u32],
        n: &mut usize,
        cancel: Option<&Cancel>,
    ) -> Result<Outcome> {
        *n = 0;
        let mut token = token;
        while *n < out.len() {
            let rest = &mut out[*n..];
            if !self.run_pipelined(token, chooser.as_deref_mut(), rest, n, cancel)? {
                rest[0] = self.decode_cancellable(token, chooser.as_deref_mut(), cancel)?;
                *n += 1;
            }
            token = out[*n - 1];
            if self.model.ends(token) {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::More)
    }

    /// Some steps of `generate`, each begun before the one ahead of it has ended: the device hands its choice on by
    /// itself. Steps that were begun after a token that ends the text are forgotten. False where the device does not
    /// work ahead, or a grammar has to see each token first. `n` grows by the tokens made.
    fn run_pipelined(
        &mut self,
        token: u32,
        mut chooser: Option<&mut Chooser>,
        out: &mut [u32],
        n: &mut usize,
        cancel: Option<&Cancel>,
    ) -> Result<bool> {
        self.check(&[token])?;
        if let Some(chooser) = &mut chooser {
            chooser.check_vocab(self.logits.len())?;
            chooser.forget_mask();
        }
        if DeviceRules::new(&self.network, chooser.as_deref()).is_none() {
            return Ok(false);
        }
        self.restore(cancel)?;
        let most = out.len().min(self.capacity() - self.len()).min(pipelined::MOST);
        let Session { model, network, sequence, tokens, logits_at, cancel: sticky, .. } = self;
        let cancels = [sticky.as_deref(), cancel];
        let stop = || Cancel::check(&cancels).is_err();
        let mut lane = OneLane {
            model,
            network,
            sequence,
            tokens,
            logits_at,
            chooser,
            token,
            out,
            steps: 0,
            made: n,
            stop: &stop,
        };
        let result = pipelined::run(network, &mut lane, [1, most], &StepBudget::new(&stop));
        let last = lane.token;
        self.sequence.forget_ahead();
        match result? {
            None => Ok(false),
            Some(steps) if (steps < most && !self.model.ends(last)) && stop() => Err(Cancel::reason(&cancels)),
            Some(_) => Ok(true),
        }
    }

    /// Takes the token of a step that ran ahead.
    pub(super) fn commit_ahead(&mut self, token: u32) {
        self.commit(&[token], Logits::OnDevice);
    }

    pub(super) fn network(&self) -> &Arc<Network> {
        &self.network
    }

    pub(super) fn cancel(&self) -> Option<&Arc<Cancel>> {
        self.cancel.as_ref()
    }

    /// The memory of the session, for a step that is made elsewhere and ends in `take` and `commit_step`.
    pub(super) fn sequence_mut(&mut self) -> &mut Sequence {
        &mut self.sequence
    }

    /// The memory of the session, its tokens, the place of its logits and its cancel.
    pub(super) fn parts_of_step(&mut self) -> (&mut Sequence, &[u32], &mut [f32], Option<&Cancel>) {
        (&mut self.sequence, &self.tokens, &mut self.logits, self.cancel.as_deref())
    }

    /// The memory of the session and its tokens.
    pub(super) fn sequence_and_tokens(&mut self) -> (&mut Sequence, &[u32]) {
        (&mut self.sequence, &self.tokens)
    }

    /// Prepares the mask of a chooser for the token after one more.
    pub(super) fn prepare_mask(&mut self, chooser: &mut Chooser, more: &[u32]) -> Result<()> {
        chooser.prepare_mask(&self.network, &mut self.tokens, more)
    }

    /// Takes the next tokens of a step that an executor has computed. With the number of its output, the logits of the
    /// last token are read; where the device has `chosen` the token after it, that is returned, and logits stay there.
    pub(super) fn take(
        &mut self,
        tokens: &[u32],
        executor: &mut Executor,
        output: Option<usize>,
        chosen: bool,
    ) -> Result<Option<u32>> {
        let Some(i) = output else {
            self.tokens.extend_from_slice(tokens);
            self.logits_at = Logits::None;
            return Ok(None);
        };
        let next = if chosen { Some(executor.token(i)?) } else { None };
        if !chosen {
            executor.read_logits(i, &mut self.logits)?;
            self.network.suppress(&mut self.logits);
        }
        self.tokens.extend_from_slice(tokens);
        self.logits_at = if chosen { Logits::OnDevice } else { Logits::OnHost };
        Ok(next)
    }

    /// Commits what `take` took of a step of `n` tokens.
    pub(super) fn commit_step(&mut self, n: usize) {
        self.sequence.commit_first(self.tokens.len() - self.sequence.len(), n);
    }

    /// Moves the tokens after the newest position at which layers hold what the next token needs to `forgotten`. They
    /// are appended again, or claimed with `reclaim`.
    pub(super) fn forget_incomplete(&mut self, forgotten: &mut Vec<u32>) {
        if !self.sequence.is_complete() {
            forgotten.extend(self.tokens.drain(self.sequence.step_back()..));
            self.logits_at = Logits::None;
        }
    }

    /// Takes tokens back that were forgotten and not all appended again: the next call computes what is missing.
    pub(super) fn reclaim(&mut self, tokens: &[u32]) {
        if !tokens.is_empty() {
            self.tokens.extend_from_slice(tokens);
            self.sequence.claim(self.tokens.len());
        }
    }

    /// Chooses from the current logits.
    pub fn sample(&mut self, chooser: Option<&mut Chooser>) -> Result<u32> {
        self.fetch_logits()?;
        if self.logits_at == Logits::None {
            return Err(Error::invalid("there are no logits yet: append a token first"));
        }
        let started = Instant::now();
        let token = match chooser {
            None => sampling::argmax(&self.logits),
            Some(chooser) => chooser.sample(&self.logits, &self.tokens)?,
        };
        self.model.metrics().record_phase(Phase::Sample, started.elapsed());
        Ok(token)
    }
}

/// A generation whose steps the device begins ahead.
struct OneLane<'a> {
    model: &'a Model,
    network: &'a Network,
    sequence: &'a mut Sequence,
    tokens: &'a mut Vec<u32>,
    logits_at: &'a mut Logits,
    chooser: Option<&'a mut Chooser>,
    /// The newest token, which is not appended yet.
    token: u32,
    out: &'a mut [u32],
    steps: usize,
    /// Number of tokens made, those of earlier steps included.
    made: &'a mut usize,
    stop: &'a dyn Fn() -> bool,
}

impl Lanes for OneLane<'_> {
    fn tokens(&mut self, ids: &mut Vec<u32>) {
        ids.push(self.token);
    }

    fn sequences<'a>(&'a mut self, sequences: &mut Vec<&'a mut Sequence>, rules: &mut Vec<Option<SamplingRule<'a>>>) {
        let recent = [&self.tokens[..], std::slice::from_ref(&self.token)];
        rules.push(DeviceRules::new(self.network, self.chooser.as_deref()).and_then(|all| all.rule(recent, 0)));
        sequences.push(self.sequence);
    }

    /// Between two steps the executor goes to a call that waits for it.
    fn pauses(&self, _: usize, done: usize, _: Duration) -> bool {
        (self.stop)() || done > 0 && self.network.is_waited_for()
    }

    fn accept(&mut self, chosen: &[u32], _: Duration) -> Result<bool> {
        let next = chooser::chosen(chosen[0], self.chooser.as_deref_mut())?;
        self.sequence.commit(1);
        self.tokens.push(std::mem::replace(&mut self.token, next));
        self.out[self.steps] = next;
        self.steps += 1;
        *self.made += 1;
        *self.logits_at = Logits::OnDevice;
        Ok(!self.model.ends(next))
    }
}
