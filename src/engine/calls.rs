//! Computation of calls on a session: prefill, scores, decode and generation. A call that fails leaves the session
//! unchanged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cancel::Cancel;
use super::chooser::{self, Chooser, DeviceRules};
use super::job::pipelined::{self, Lanes};
use super::metrics::Phase;
use super::nan;
use super::network::pass::{Lane, Pass};
use super::prompt::Prompt;
use super::runs::Text;
use super::session::{Logits, Session};
use crate::device::StepBudget;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::step::StepLimits;
use crate::sampling;

/// Why generation returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The output is full.
    More,
    /// The last token ends a turn or a text.
    Done,
}

impl Session {
    /// Copies logits from the device if the device sampled the last token.
    pub fn fetch_logits(&mut self) -> Result<()> {
        if self.has_logits_on_device() { self.read_last() } else { Ok(()) }
    }

    /// Recomputes the last token for its logits.
    fn read_last(&mut self) -> Result<()> {
        let Some(before) = self.len().checked_sub(1) else { return Ok(()) };
        // Source rows have no logits.
        if self.runs().source().is_some() && self.runs().end() == self.len() {
            return Ok(());
        }
        let before = self.runs().whole(before);
        self.restore(before, None)?;
        let again = self.len() - before;
        Session::step(Lane { again, outputs: 1, ..Lane::new(self, &[]) }, None).map(|_| ())
    }

    /// Appends tokens and computes the logits of the last one.
    pub fn prefill(&mut self, tokens: &[u32], cancel: Option<&Cancel>) -> Result<()> {
        self.prefill_text(Text::plain(tokens), cancel)
    }

    /// Appends the prompt's tokens from index `first` on. There must be at least one such token.
    pub fn prefill_prompt(&mut self, prompt: &Prompt, first: usize, cancel: Option<&Cancel>) -> Result<()> {
        let text = prompt.from(first, self.model())?;
        match text.tokens.is_empty() {
            true => Err(Error::invalid("there are no tokens to append")),
            false => self.prefill_text(text, cancel),
        }
    }

    fn prefill_text(&mut self, text: Text, cancel: Option<&Cancel>) -> Result<()> {
        self.check_text(text, None)?;
        self.expect(Some(self.runs_with(text)?));
        let appended = self.append_all(text.tokens, cancel);
        self.expect(None);
        appended
    }

    fn append_all(&mut self, tokens: &[u32], cancel: Option<&Cancel>) -> Result<()> {
        let started = Instant::now();
        let (before, logits_at) = (self.len(), self.logits_at());
        let mut rest = tokens;
        while !rest.is_empty() {
            let n = self.piece(self.len(), rest.len(), self.network().call_piece());
            let (piece, after) = rest.split_at(n);
            rest = after;
            // Only the last piece reads logits, so that the previous logits survive a failure of an earlier piece.
            let outputs = usize::from(rest.is_empty());
            let appended = self.append(piece, outputs, cancel);
            appended.inspect_err(|e| {
                // The rejected logits have overwritten the previous ones.
                let is_overwritten = matches!(e, Error::Format { .. });
                self.rewind(before, if is_overwritten { logits_at.overwritten() } else { logits_at });
            })?;
        }
        self.model().metrics().record_phase(Phase::Prefill, started.elapsed());
        Ok(())
    }

    /// Appends tokens and computes the log probability of each token, given all tokens before it. The first token of an
    /// empty session gets 0. `out` must be as long as `tokens`.
    pub fn score(&mut self, tokens: &[u32], out: &mut [f32], cancel: Option<&Cancel>) -> Result<()> {
        self.check(tokens, None)?;
        let started = Instant::now();
        let before = self.len();
        if self.logits().is_none() {
            self.read_last()?;
        }
        if let ([score, ..], [token, ..]) = (&mut *out, tokens) {
            *score = self.logits().map_or(0.0, |logits| sampling::logprob(logits, *token));
        }
        let mut row = try_filled("logits", self.network().program.vocab, 0f32)?;
        let StepLimits { max_tokens, max_outputs } = self.network().limits;
        let step = max_tokens.min(max_outputs);
        for (i, piece) in tokens.chunks(step).enumerate() {
            let first = i * step + 1;
            // Each output scores the token after it; the last one scores none.
            let following = tokens[first..].iter().zip(&mut out[first..]).take(piece.len()).enumerate();
            let scored = self.append(piece, piece.len(), cancel).and_then(|mut pass| {
                for (i, (token, score)) in following {
                    pass.step().executor.read_logits(i, &mut row)?;
                    nan::check_logits(self.model(), &row, before + first - 1 + i)?;
                    self.network().suppress(&mut row);
                    *score = sampling::logprob(&row, *token);
                }
                Ok(())
            });
            let left = if before == 0 { Logits::None } else { Logits::OnDevice };
            let scored = scored.map_err(|e| match e {
                Error::Format { .. } => {
                    let first = self.first_failure(before + first - 1, piece, cancel);
                    first.filter(|first| matches!(first, Error::Format { .. })).unwrap_or(e)
                }
                e => e,
            });
            scored.inspect_err(|_| self.rewind(before, left))?;
        }
        self.model().metrics().record_phase(Phase::Prefill, started.elapsed());
        Ok(())
    }

    /// Rewinds to the first `len` tokens, then appends `tokens` one by one. Returns the first error.
    fn first_failure(&mut self, len: usize, tokens: &[u32], cancel: Option<&Cancel>) -> Option<Error> {
        self.rewind(len, Logits::None);
        tokens.iter().find_map(|token| self.append(std::slice::from_ref(token), 1, cancel).err())
    }

    /// Restores the state after the first `len` tokens if the layers no longer hold it, for example after a rewind:
    /// recomputes tokens, starting at the newest position with a valid state. If the call fails, the next call
    /// continues.
    fn restore(&mut self, len: usize, cancel: Option<&Cancel>) -> Result<()> {
        let memory = self.fresh_memory()?;
        self.step_back(len, memory);
        while self.sequence().len() < len {
            let held = self.sequence().len();
            let again = self.piece(held, len - held, self.network().limits.max_tokens);
            Session::step(Lane { again, ..Lane::new(self, &[]) }, cancel)?;
        }
        Ok(())
    }

    /// Restores the state, then runs one step of `tokens`. The tokens must fit in one step.
    fn append(&mut self, tokens: &[u32], outputs: usize, cancel: Option<&Cancel>) -> Result<Pass> {
        self.restore(self.len(), cancel)?;
        Session::step(Lane { outputs, ..Lane::new(self, tokens) }, cancel).map(|(pass, _)| pass)
    }

    /// Runs and commits a step of one lane. Returns the pass, and the token that the device sampled.
    fn step(mut lane: Lane, cancel: Option<&Cancel>) -> Result<(Pass, Option<u32>)> {
        let own = lane.session.cancel().cloned();
        let mut pass = Pass::whole(std::slice::from_mut(&mut lane), &[own.as_deref(), cancel])?;
        let Lane { session, again, tokens, outputs, .. } = lane;
        let chosen = pass.commit(session, again, tokens, 0, outputs.checked_sub(1))?;
        Ok((pass, chosen))
    }

    /// Appends a token and samples the next one; greedy without `chooser`.
    pub fn decode(&mut self, token: u32, chooser: Option<&mut Chooser>) -> Result<u32> {
        self.decode_cancellable(token, chooser, None)
    }

    fn decode_cancellable(
        &mut self,
        token: u32,
        mut chooser: Option<&mut Chooser>,
        cancel: Option<&Cancel>,
    ) -> Result<u32> {
        self.check(&[token], chooser.as_deref())?;
        let started = Instant::now();
        self.restore(self.len(), cancel)?;
        let (tokens, before, logits_at) = ([token], self.len(), self.logits_at().overwritten());
        let lane = Lane { outputs: 1, chooser: chooser.as_deref_mut(), on_device: true, ..Lane::new(self, &tokens) };
        let (_, chosen) = Session::step(lane, cancel)?;
        let next = self.choose(chosen, chooser).inspect_err(|_| self.rewind(before, logits_at))?;
        self.model().metrics().record_phase(Phase::Decode, started.elapsed());
        Ok(next)
    }

    /// Returns the token that the device sampled, or samples one from the logits.
    pub(super) fn choose(&mut self, chosen: Option<u32>, chooser: Option<&mut Chooser>) -> Result<u32> {
        match chosen {
            Some(token) => chooser::chosen(token, chooser),
            None => self.sample(chooser),
        }
    }

    /// Samples from the current logits.
    pub fn sample(&mut self, chooser: Option<&mut Chooser>) -> Result<u32> {
        self.fetch_logits()?;
        let none = || Error::not_ready("the cache has no logits; append a token first");
        let logits = self.logits().ok_or_else(none)?;
        let started = Instant::now();
        let token = match chooser {
            None => sampling::argmax(logits),
            Some(chooser) => chooser.sample(logits, self.tokens())?,
        };
        self.model().metrics().record_phase(Phase::Sample, started.elapsed());
        Ok(token)
    }

    /// Generates tokens into `out`, until `out` is full or a token ends the turn. Appends `token`, and then each
    /// generated token except the last one, to the session. `n` counts the tokens in `out`. After an error, these
    /// tokens stay in the session.
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
            if self.model().ends(token) {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::More)
    }

    /// Generates tokens for `generate` with pipelined steps: the device feeds back its own samples, so each step is
    /// submitted before the previous step has ended. Drops steps after the token that ends the text. Returns false if
    /// the device cannot pipeline, or if a grammar must see each token first. Adds the number of generated tokens to
    /// `n`.
    fn run_pipelined(
        &mut self,
        token: u32,
        chooser: Option<&mut Chooser>,
        out: &mut [u32],
        n: &mut usize,
        cancel: Option<&Cancel>,
    ) -> Result<bool> {
        self.check(&[token], chooser.as_deref())?;
        let network = self.network().clone();
        let has_grammar = chooser.as_deref().is_some_and(Chooser::has_grammar);
        if has_grammar || DeviceRules::new(&network, chooser.as_deref()).is_none() {
            return Ok(false);
        }
        self.restore(self.len(), cancel)?;
        let most = out.len().min(self.capacity() - self.len()).min(pipelined::MOST);
        let own = self.cancel().cloned();
        let cancels = [own.as_deref(), cancel];
        let stop = || Cancel::check(&cancels).is_err();
        let mut lane = OneLane { session: self, chooser, token: [token], out: out.iter_mut(), made: n, stop: &stop };
        let result = pipelined::run(&network, &mut lane, 1, most, &StepBudget::new(&stop));
        let [last] = lane.token;
        self.rewind(self.len(), self.logits_at());
        match result? {
            None => Ok(false),
            Some(steps) if (steps < most && !self.model().ends(last)) && stop() => Err(Cancel::reason(&cancels)),
            Some(_) => Ok(true),
        }
    }
}

/// A pipelined generation of one session.
struct OneLane<'a> {
    session: &'a mut Session,
    chooser: Option<&'a mut Chooser>,
    /// The newest token, not yet appended.
    token: [u32; 1],
    /// Space for the next tokens.
    out: std::slice::IterMut<'a, u32>,
    /// Number of generated tokens, including earlier steps.
    made: &'a mut usize,
    stop: &'a dyn Fn() -> bool,
}

impl Lanes for OneLane<'_> {
    fn lanes<'a>(&'a mut self, lanes: &mut Vec<Lane<'a>>) {
        let chooser = self.chooser.as_deref_mut();
        lanes.push(Lane { outputs: 1, chooser, on_device: true, ..Lane::new(self.session, &self.token) });
    }

    /// True if a cancel has fired or, after the first step, if another call waits for an executor.
    fn pauses(&self, _: usize, done: usize, _: Duration) -> bool {
        (self.stop)() || done > 0 && self.session.network().is_waited_for()
    }

    fn accept(&mut self, chosen: &[u32], _: Duration) -> Result<bool> {
        nan::check_chosen(self.session.model(), chosen[0], self.session.len())?;
        let next = chooser::chosen(chosen[0], self.chooser.as_deref_mut())?;
        self.session.commit(0, &self.token, 0, |_| Ok(Logits::OnDevice))?;
        self.token = [next];
        self.out.next().into_iter().for_each(|out| *out = next);
        *self.made += 1;
        Ok(!self.session.model().ends(next))
    }
}

/// Decodes one token for each of several sessions of a model, in one pass.
pub fn decode_batch(
    sessions: &mut [&mut Session],
    tokens: &[u32],
    choosers: &mut [Option<&mut Chooser>],
    next: &mut [u32],
) -> Result<()> {
    let n = sessions.len();
    if tokens.len() != n || choosers.len() != n || next.len() != n {
        return Err(Error::invalid("a batch needs as many tokens, samplers and results as caches"));
    }
    let Some(first) = sessions.first() else { return Ok(()) };
    let (model, first_is_long) = (first.model().clone(), first.is_long());
    for (i, ((session, token), chooser)) in sessions.iter().zip(tokens).zip(&*choosers).enumerate() {
        if !Arc::ptr_eq(session.model(), &model) {
            return Err(Error::Mismatch("the caches of a batch belong to different models".to_owned()));
        }
        if session.is_long() != first_is_long {
            let what =
                "the caches of a batch are on different sides of the context length that the model was trained for";
            return Err(Error::Mismatch(what.to_owned()));
        }
        session.check(std::slice::from_ref(token), chooser.as_deref()).map_err(|e| e.of_entry(i))?;
    }
    let started = Instant::now();
    let mut logits_at = try_vec("caches", n)?;
    logits_at.extend(sessions.iter().map(|session| session.logits_at().overwritten()));
    let mut chosen = try_vec("tokens", n)?;
    let mut result = step_batch(sessions, tokens, choosers, &mut chosen);
    if result.is_ok() {
        result = choose_all(sessions, choosers, &chosen, next);
    }
    if result.is_err() {
        for (session, logits_at) in sessions.iter_mut().zip(logits_at).take(chosen.len()) {
            session.rewind(session.len() - 1, logits_at);
        }
    }
    model.metrics().record_phase(Phase::Decode, started.elapsed());
    result
}

/// Samples the token after each session. Uses all threads if sampling takes long for several sessions and no callback
/// is set. Returns the first error.
fn choose_all(
    sessions: &mut [&mut Session],
    choosers: &mut [Option<&mut Chooser>],
    chosen: &[Option<u32>],
    next: &mut [u32],
) -> Result<()> {
    let Some(network) = sessions.first().map(|first| first.network().clone()) else { return Ok(()) };
    let long = choosers.iter().zip(chosen).filter(|(chooser, chosen)| chooser.is_some() && chosen.is_none()).count();
    let calls_back = choosers.iter().flatten().any(|chooser| chooser.calls_back());
    let mut choices = try_vec("tokens", next.len())?;
    for (((session, chooser), chosen), next) in sessions.iter_mut().zip(choosers).zip(chosen).zip(next) {
        choices.push((session, chooser, *chosen, next, Ok(())));
    }
    network.for_each(&mut choices, if calls_back { 1 } else { long }, |(session, chooser, chosen, next, result)| {
        *result = session.choose(*chosen, chooser.as_deref_mut()).map(|token| **next = token);
    })?;
    choices.into_iter().enumerate().try_for_each(|(i, (.., result))| result.map_err(|e: Error| e.of_entry(i)))
}

/// Runs and commits a step. `chosen` gets the token that the device sampled after each committed token.
fn step_batch(
    sessions: &mut [&mut Session],
    tokens: &[u32],
    choosers: &mut [Option<&mut Chooser>],
    chosen: &mut Vec<Option<u32>>,
) -> Result<()> {
    let Some(StepLimits { max_tokens, max_outputs }) = sessions.first().map(|first| first.network().limits) else {
        return Ok(());
    };
    let width = max_outputs.min(max_tokens);
    let groups = sessions.chunks_mut(width).zip(tokens.chunks(width)).zip(choosers.chunks_mut(width));
    for ((sessions, tokens), choosers) in groups {
        let n = sessions.len();
        let (mut lanes, mut own, mut cancels) = (try_vec("caches", n)?, try_vec("cancels", n)?, try_vec("cancels", n)?);
        for ((session, token), chooser) in sessions.iter_mut().zip(tokens).zip(choosers) {
            session.restore(session.len(), None)?;
            own.extend(session.cancel().cloned());
            let chooser = chooser.as_deref_mut();
            let lane = Lane::new(session, std::slice::from_ref(token));
            lanes.push(Lane { outputs: 1, chooser, on_device: true, ..lane });
        }
        cancels.extend(own.iter().map(|cancel| Some(&**cancel)));
        let mut pass = Pass::whole(&mut lanes, &cancels)?;
        for (i, lane) in lanes.into_iter().enumerate() {
            let committed = pass.commit(lane.session, 0, lane.tokens, 0, Some(i));
            chosen.push(committed.map_err(|e| e.of_entry(chosen.len()))?);
        }
    }
    Ok(())
}
