//! A session (`rz_cache` in C): the tokens of one text, their KV cache, the logits after the last one; rewind, fork,
//! shift. *Invariant:* the sequence holds a prefix of the tokens; the next call recomputes the others (`pending`)
//! first. Only `commit` adds results of steps.

use std::sync::Arc;

use super::adapter::{Adapter, Adapters};
use super::cache::{CacheParams, state_spec};
use super::cancel::Cancel;
use super::chooser::Chooser;
use super::model::Model;
use super::network::Network;
use super::prompt::Prompt;
use super::runs::{MediaRuns, Run, Text};
use super::runtime::{LogLevel, Reservation};
use crate::cpu::nan::has_nan;
use crate::device::sequence::Sequence;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::MEDIA_ROW;
use crate::quant;
use crate::sampling;

/// Location of the logits after the last token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Logits {
    /// There are no logits.
    None,
    OnHost,
    /// The host has no valid copy: `fetch_logits` recomputes the last token.
    OnDevice,
}

impl Logits {
    /// Returns where the logits are after a failed step, which may have overwritten the logits on the host.
    pub(super) fn overwritten(self) -> Logits {
        if self == Logits::OnHost { Logits::OnDevice } else { self }
    }
}

/// A sequence, and its bytes counted against the memory limit.
pub(super) type Memory = (Sequence, Option<Reservation>);

pub struct Session {
    model: Arc<Model>,
    network: Arc<Network>,
    sequence: Sequence,
    /// The committed tokens; `sequence` holds a prefix of them.
    tokens: Vec<u32>,
    /// Which of the `tokens`, and of the tokens that are about to be appended, are rows of media items.
    runs: MediaRuns,
    /// Logits after the last token, `[vocab]`; valid if `logits_at` is `OnHost`.
    logits: Vec<f32>,
    logits_at: Logits,
    /// The cancel that every step checks, in addition to the cancel of the call.
    cancel: Option<Arc<Cancel>>,
    /// The LoRA adapters; their memory is counted here.
    adapters: Adapters,
    /// `None` after `release`.
    memory: Option<Reservation>,
}

/// The parts of a session that are saved.
pub(super) struct SessionParts<'a> {
    pub tokens: &'a mut Vec<u32>,
    pub runs: &'a mut MediaRuns,
    pub logits: &'a mut [f32],
    pub sequence: &'a mut Sequence,
}

impl Session {
    pub fn new(model: &Arc<Model>, params: &CacheParams) -> Result<Session> {
        for t in [params.k_type, params.v_type] {
            if ![quant::F16, quant::F32, quant::Q8_0, quant::Q4_0].contains(&t) {
                return Err(Error::invalid(format!("a cache of type {} is not supported", t.0)));
            }
        }
        let network = model.network()?;
        network.check_whole()?;
        let declared = network.context_length;
        if params.capacity > declared {
            let what = format!("a cache of {} tokens, the model was made for {declared}", params.capacity);
            model.runtime().log(LogLevel::Warning, &what);
        }
        let spec = state_spec(&network.program, declared, params, network.limits);
        let (sequence, memory) = Session::set_aside(model, &spec)?;
        Session::with_sequence(model, sequence, memory)
    }

    /// Creates a session; `fill` sets its tokens, logits and sequence.
    pub(super) fn filled(
        model: &Arc<Model>,
        params: &CacheParams,
        fill: impl FnOnce(SessionParts) -> Result<Logits>,
    ) -> Result<Session> {
        let mut session = Session::new(model, params)?;
        let Session { tokens, runs, logits, sequence, .. } = &mut session;
        session.logits_at = fill(SessionParts { tokens, runs, logits, sequence })?;
        if session.logits().is_some_and(has_nan) {
            return Err(Error::invalid("what was saved has logits that are NaN"));
        }
        Ok(session)
    }

    /// Creates an empty sequence, and counts its bytes against the memory limit.
    fn set_aside(model: &Arc<Model>, spec: &SequenceSpec) -> Result<Memory> {
        let network = model.network()?;
        let sequence = network.new_sequence(spec)?;
        let memory = network.reserve("the cache", sequence.host_bytes())?;
        Ok((sequence, Some(memory)))
    }

    /// If the sequence has been released, returns a new sequence with its memory reservation; otherwise `None`.
    pub(super) fn fresh_memory(&self) -> Result<Option<Memory>> {
        self.sequence.is_released().then(|| Session::set_aside(&self.model, self.sequence.spec())).transpose()
    }

    fn with_sequence(model: &Arc<Model>, sequence: Sequence, memory: Option<Reservation>) -> Result<Session> {
        let network = model.network()?;
        Ok(Session {
            tokens: try_vec("the cache's tokens", sequence.spec().capacity)?,
            runs: MediaRuns::default(),
            logits: try_filled("logits", network.program.vocab, 0.0)?,
            logits_at: Logits::None,
            model: model.clone(),
            network: network.clone(),
            sequence,
            cancel: None,
            adapters: Adapters::default(),
            memory,
        })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Sets the cancel that every later step checks, including steps of forked sessions.
    pub fn set_cancel(&mut self, cancel: Option<Arc<Cancel>>) {
        self.cancel = cancel;
    }

    /// Sets the LoRA adapters (with scales) for all later steps, including steps of forked sessions. Clears the
    /// session, because its KV cache was computed with other adapters.
    pub fn set_adapters(&mut self, adapters: &[Arc<Adapter>], scales: &[f32]) -> Result<()> {
        let adapters = Adapters::new(&self.model, adapters, scales)?;
        self.rewind(0, Logits::None);
        self.adapt(adapters);
        Ok(())
    }

    /// Sets adapters without clearing the session. The KV cache must have been computed with these adapters, or with
    /// adapters of the same digest.
    pub(super) fn adapt(&mut self, adapters: Adapters) {
        self.sequence.set_adapters(adapters.set().clone());
        self.adapters = adapters;
    }

    pub(super) fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// True if adapters change the results.
    pub fn is_adapted(&self) -> bool {
        !self.sequence.adapters().is_empty()
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

    /// Returns the media rows of the tokens, and of a text that is about to be appended.
    pub(super) fn runs(&self) -> &MediaRuns {
        &self.runs
    }

    /// Returns the tokens with their media.
    pub(super) fn text(&self) -> Text<'_> {
        Text { tokens: &self.tokens, runs: &self.runs, from: 0 }
    }

    /// Returns the media rows after `text` is appended.
    pub(super) fn runs_with(&self, text: Text) -> Result<MediaRuns> {
        let mut runs = self.runs.copy(self.len())?;
        runs.append(text.runs, text.from, self.len())?;
        Ok(runs)
    }

    /// Sets the media rows for a text about to be appended. `None` removes the rows of a text that was not appended.
    pub(super) fn expect(&mut self, runs: Option<MediaRuns>) {
        match runs {
            Some(runs) => self.runs = runs,
            None => self.runs.truncate(self.tokens.len()),
        }
    }

    /// Returns how many of the next `n` tokens a step of at most `room` tokens computes: as many as `MediaRuns::fit`
    /// returns. In a model with recurrent layers a step also ends after each media item, so that the recurrent state
    /// after the item is kept as a checkpoint, for other texts with the same prefix.
    pub(super) fn fit(&self, place: usize, n: usize, room: usize) -> usize {
        let fitting = self.runs.fit(place, n, room);
        match self.sequence.spec().recurrent.is_empty() {
            true => fitting,
            false => self.runs.up_to_media(place, fitting),
        }
    }

    /// Like `fit`, but if nothing fits, returns the number of rows that must be in one step.
    pub(super) fn piece(&self, place: usize, n: usize, room: usize) -> usize {
        match self.fit(place, n, room) {
            0 => self.runs.due(place).min(n),
            fitting => fitting,
        }
    }

    pub(super) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Returns the tokens at the end that are not in the sequence. The next call recomputes these tokens.
    pub(super) fn pending(&self) -> &[u32] {
        &self.tokens[self.sequence.len()..]
    }

    /// Returns the number of bytes of recurrent state, which each step reads and writes; public only for benches.
    #[doc(hidden)]
    pub fn recurrent_bytes(&self) -> u64 {
        self.sequence.spec().recurrent.iter().map(|values| 4 * *values as u64).sum()
    }

    /// Returns the number of bytes per token of capacity.
    pub(super) fn token_bytes(&self) -> Result<u64> {
        self.sequence.token_bytes()
    }

    /// Returns the number of bytes of the session, except its KV cache on the CPU, which `CpuKv::memory_pieces` counts.
    pub(super) fn own_bytes(&self) -> u64 {
        let on_gpus = self.sequence.bytes() - self.sequence.host_bytes();
        4 * (self.logits.len() + self.capacity()) as u64 + self.recurrent_bytes() + on_gpus
    }

    /// Returns the parameters that the session was created with.
    pub(super) fn params(&self) -> CacheParams {
        let spec = self.sequence.spec();
        CacheParams { capacity: spec.capacity as u32, k_type: spec.k_type, v_type: spec.v_type }
    }

    pub fn capacity(&self) -> usize {
        self.sequence.spec().capacity
    }

    /// True if RoPE uses the long-context factors, which depend on the capacity. All caches of a step must agree.
    pub(super) fn is_long(&self) -> bool {
        self.network.program.is_long(self.capacity())
    }

    /// Returns the logits after the last token, `[vocab]`; `None` if the session is empty, after a rewind, and before
    /// `fetch_logits` if the host has no valid copy.
    pub fn logits(&self) -> Option<&[f32]> {
        (self.logits_at == Logits::OnHost).then_some(&self.logits[..])
    }

    pub(super) fn logits_at(&self) -> Logits {
        self.logits_at
    }

    /// True if the host has no valid copy of the logits, so that `fetch_logits` recomputes the last token.
    pub fn has_logits_on_device(&self) -> bool {
        self.logits_at == Logits::OnDevice
    }

    /// Removes `drop` tokens after the first `keep`. The next call recomputes all later tokens at their new positions,
    /// because their keys and values depend on the removed tokens.
    pub fn shift(&mut self, keep: u32, drop: u32) -> Result<()> {
        let (keep, end, len) = (keep as usize, keep as usize + drop as usize, self.len());
        if end > len {
            return Err(Error::invalid(format!("the cache holds {len} tokens, it can't forget {keep} to {end}")));
        }
        if drop > 0 {
            if self.runs.source().is_some() && keep < self.runs.end() {
                return Err(Error::invalid("the source goes with the text that looks at it: rz_cache_truncate to 0"));
            }
            self.runs.check_cut(keep)?;
            self.runs.check_cut(end)?;
            self.runs.remove(keep..end)?;
            self.sequence.truncate(keep);
            self.tokens.drain(keep..end);
            self.logits_at = if end == len { Logits::None } else { Logits::OnDevice };
        }
        Ok(())
    }

    /// Frees the KV cache; the next call recomputes it. Logits stay.
    pub fn release(&mut self) -> Result<()> {
        self.sequence.release()?;
        self.memory = None;
        Ok(())
    }

    /// Like `matching_text`, for tokens without media.
    pub fn matching(&self, tokens: &[u32]) -> usize {
        self.matching_text(Text::plain(tokens))
    }

    /// Like `matching_text`, for a prompt.
    pub fn matching_prompt(&self, prompt: &Prompt) -> Result<usize> {
        Ok(self.matching_text(prompt.from(0, &self.model)?))
    }

    /// Returns the length of the common prefix with `text` that the session can be rewound to without recomputing.
    pub(super) fn matching_text(&self, text: Text) -> usize {
        let same = self.sequence.reach(self.text().common(text));
        self.sequence.reach(self.runs.whole(text.runs.whole(same)))
    }

    /// Rewinds to the first `len` tokens.
    pub fn truncate(&mut self, len: u32) -> Result<()> {
        let (len, now) = (len as usize, self.len());
        if len > now {
            return Err(Error::invalid(format!("the cache holds {now} tokens, it can't be rewound to {len}")));
        }
        self.runs.check_cut(len)?;
        if len < now {
            self.rewind(len, Logits::None);
        }
        Ok(())
    }

    /// Abandons steps in flight, removes all tokens after the first `len`, and sets the location of the logits.
    pub(super) fn rewind(&mut self, len: usize, logits_at: Logits) {
        self.sequence.truncate(len);
        self.tokens.truncate(len);
        self.runs.truncate(len);
        self.logits_at = logits_at;
    }

    /// Rewinds to the newest valid state at or before `len`. The tokens after it become pending. `memory`, if any,
    /// replaces the memory of the sequence.
    pub(super) fn step_back(&mut self, len: usize, memory: Option<Memory>) {
        if let Some(memory) = memory {
            let adapters = self.sequence.adapters().clone();
            (self.sequence, self.memory) = memory;
            self.sequence.set_adapters(adapters);
        }
        self.sequence.truncate(len);
        if !self.sequence.is_complete() {
            self.sequence.step_back();
        }
    }

    /// Commits the next results of a step: first the pending tokens that were recomputed, `again` in number, then the
    /// new `tokens`. If there are new tokens, no earlier token may stay pending. `left` is the number of tokens of the
    /// step that are not committed yet. `result` reads the logits or returns their location. Recurrent layers have a
    /// state only after a whole step, so the tokens of a partial step stay pending.
    pub(super) fn commit(
        &mut self,
        again: usize,
        tokens: &[u32],
        left: usize,
        result: impl FnOnce(&mut [f32]) -> Result<Logits>,
    ) -> Result<()> {
        let logits_at = result(&mut self.logits).inspect_err(|_| {
            self.logits_at = self.logits_at.overwritten();
        })?;
        self.tokens.extend_from_slice(tokens);
        if left == 0 || self.sequence.spec().recurrent.is_empty() {
            self.sequence.commit(if tokens.is_empty() { again } else { self.pending().len() });
        }
        if !tokens.is_empty() || logits_at != Logits::None {
            self.logits_at = logits_at;
        }
        Ok(())
    }

    /// Creates a second session with the same contents.
    pub fn fork(&self) -> Result<Session> {
        let count = |_: &Reservation| self.model.runtime().reserve("the cache", self.sequence.host_bytes());
        let mut fork = self.forked(self.memory.as_ref().map(count).transpose()?)?;
        fork.cancel = self.cancel.clone();
        fork.adapt(self.adapters.clone());
        Ok(fork)
    }

    /// Forks the session for the prefix cache, without cancel and adapters. The fork is only copied and never grows, so
    /// that only `bytes` count against the memory limit.
    pub(super) fn preserved(&self, bytes: u64) -> Result<Session> {
        self.forked(Some(self.model.runtime().reserve("a prefix", bytes)?))
    }

    fn forked(&self, memory: Option<Reservation>) -> Result<Session> {
        let mut sequence = self.sequence.fork()?;
        sequence.set_adapters(AdapterSet::default());
        let mut fork = Session::with_sequence(&self.model, sequence, memory)?;
        fork.tokens.extend_from_slice(&self.tokens);
        fork.runs = self.runs.copy(self.len())?;
        if let Some(logits) = self.logits() {
            fork.logits.copy_from_slice(logits);
        }
        fork.logits_at = self.logits_at;
        Ok(fork)
    }

    /// Rejects tokens that cannot be appended, and a sampler for another vocabulary size.
    pub(super) fn check(&self, tokens: &[u32], chooser: Option<&Chooser>) -> Result<()> {
        self.check_text(Text::plain(tokens), chooser)
    }

    /// Like `check`, for a text made for the session's model.
    pub(super) fn check_text(&self, text: Text, chooser: Option<&Chooser>) -> Result<()> {
        if self.logits.is_empty() {
            let architecture = &self.model.info().architecture;
            return Err(Error::unsupported(format!(
                "{architecture} makes no logits here, embeddings alone: rz_embed_into"
            )));
        }
        let (vocab, n) = (self.logits.len(), text.tokens.len());
        let is_known = |id: u32| (id as usize) < vocab || id == MEDIA_ROW && text.runs.end() > 0;
        if let Some((i, t)) = text.tokens.iter().enumerate().find(|(_, t)| !is_known(**t)) {
            return Err(Error::invalid(format!("token {t} at index {i} is outside the vocabulary of {vocab}")));
        }
        if n > self.capacity() - self.len() {
            return Err(Error::ContextFull { what: "the text", held: self.len(), more: n, capacity: self.capacity() });
        }
        if self.network.reads_source {
            self.check_source(text)?;
        }
        chooser.map_or(Ok(()), |chooser| chooser.check_vocab(vocab))
    }

    /// Encoder-decoder models: fails unless the session's tokens followed by `text` begin with one complete source,
    /// contain no other source, and end with a token of the decoder.
    fn check_source(&self, text: Text) -> Result<()> {
        let (runs, from) = if self.is_empty() { (text.runs, text.from) } else { (&self.runs, 0) };
        let is_whole = |run: &&Run| (run.place, run.first, run.len) == (from, 0, run.media.layout.n_rows());
        let Some(source) = runs.source().filter(is_whole) else {
            let what = "the model needs a source text first: append a prompt that begins with its media item";
            return Err(Error::invalid(format!("{what} (rz_media_from_tokens)")));
        };
        let rows = if self.is_empty() { source.len } else { 0 };
        if text.tokens.iter().filter(|id| **id == MEDIA_ROW).count() != rows {
            return Err(Error::invalid("a cache has one source, with which it begins"));
        }
        match text.tokens.last() {
            Some(&MEDIA_ROW) => Err(Error::invalid("behind the source there is no token that the decoder starts from")),
            _ => Ok(()),
        }
    }

    /// Returns the `k` most likely next tokens (or all) with their log probabilities, descending.
    pub fn logprobs(&self, k: usize) -> Result<(Vec<u32>, Vec<f32>)> {
        let none = || Error::not_ready("the cache has no logits; append a token first");
        sampling::likeliest(self.logits().ok_or_else(none)?, k)
    }

    pub(super) fn network(&self) -> &Arc<Network> {
        &self.network
    }

    pub fn cancel(&self) -> Option<&Arc<Cancel>> {
        self.cancel.as_ref()
    }

    /// Returns the sequence for a step, and the tokens.
    pub(super) fn for_step(&mut self) -> (&mut Sequence, &[u32]) {
        self.sequence.keep(self.runs.last_end(self.sequence.len()));
        (&mut self.sequence, &self.tokens)
    }

    /// Prepares the grammar mask for the token after `more`.
    pub(super) fn prepare_mask(&mut self, chooser: &mut Chooser, more: &[u32]) -> Result<()> {
        chooser.prepare_mask(&self.network, &mut self.tokens, more)
    }
}
