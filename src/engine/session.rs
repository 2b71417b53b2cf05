//! One timeline: tokens, positions, committed length, rewind, fork, and the tokens that follow.
//! A call that fails leaves the timeline as it was. Refuses to know how KV bytes lie in memory.

use std::sync::Arc;
use std::time::Instant;

use super::metrics::Phase;
use super::model::{MAX_STEP_OUTPUTS, Model};
use super::{Cancel, LogLevel, Reservation};
use crate::backend::{Batch, Exec, FOLLOWING, Kv, KvSpec, RING_ALIGN};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::model::config::Config;
use crate::quant;
use crate::sample::{self, Sampler};
use crate::tensor::DType;

/// Steps of one timeline that a performer works on before others may have it.
const STEPS_AHEAD: usize = 32;

/// Tokens of a cache whose capacity nobody named, unless the model declares fewer.
const DEFAULT_CAPACITY: u32 = 8192;

pub struct CacheParams {
    /// Tokens; 0: what the model declares, at most 8,192.
    pub capacity: u32,
    pub k_type: DType,
    pub v_type: DType,
}

impl Default for CacheParams {
    fn default() -> Self {
        CacheParams { capacity: 0, k_type: quant::F16, v_type: quant::F16 }
    }
}

/// Why generation returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The output is full.
    More,
    /// The last token ends a turn or a text.
    Done,
}

/// Where the logits after the last token are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Logits {
    /// There are none.
    None,
    Here,
    /// Not brought here from the device: the last token gives them once more.
    Away,
}

/// What a step leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Nothing,
    /// Where the device keeps logits to itself, no more than that.
    Argmax,
    Logits,
}

pub struct Session {
    model: Arc<Model>,
    kv: Box<dyn Kv>,
    /// All tokens whose keys and values are in the cache.
    tokens: Vec<u32>,
    /// After the last token, `[vocab]`; meaningful where they are here.
    logits: Vec<f32>,
    state: Logits,
    /// Per-step inputs, sized once for the largest step.
    positions: Vec<u32>,
    slots: Vec<u32>,
    /// Positions that were written since the first one was last: what layers with a window keep follows from it.
    written: usize,
    /// Heeded by every step, beside that of the call.
    cancel: Option<Arc<Cancel>>,
    _memory: Reservation,
}

/// What layers with a window keep: what the first and the last token of a step see together.
fn rings(config: &Config, step: usize) -> Result<Vec<usize>> {
    let mut rings = try_vec("the layers of a cache", config.layers.len())?;
    rings.extend(config.layers.iter().map(|l| match l.window as usize {
        0 => 0,
        window => (window + step).next_multiple_of(RING_ALIGN),
    }));
    Ok(rings)
}

/// The shape of a cache for a model whose steps take `step` tokens at most.
pub(super) fn kv_spec(config: &Config, params: &CacheParams, step: usize) -> Result<KvSpec> {
    let capacity = match params.capacity {
        0 => config.context_length.clamp(1, DEFAULT_CAPACITY),
        n => n,
    };
    Ok(KvSpec {
        layers: config.layers.len(),
        n_kv_heads: config.n_kv_heads,
        head_dim: config.head_dim,
        capacity: capacity as usize,
        k_type: params.k_type,
        v_type: params.v_type,
        rings: rings(config, step)?,
    })
}

impl Session {
    pub fn new(model: &Arc<Model>, params: &CacheParams) -> Result<Session> {
        for t in [params.k_type, params.v_type] {
            if ![quant::F16, quant::F32, quant::Q8_0].contains(&t) {
                return Err(Error::invalid(format!("a cache of type {} is not supported", t.0)));
            }
        }
        let spec = kv_spec(model.config()?, params, model.max_step_tokens()?)?;
        let declared = model.config()?.context_length;
        if declared > 0 && params.capacity > declared {
            let what = format!("a cache of {} tokens, the model was made for {declared}", params.capacity);
            model.runtime().log(LogLevel::Warning, &what);
        }
        Session::with_kv(model, model.new_kv(&spec)?, spec.capacity)
    }

    fn with_kv(model: &Arc<Model>, kv: Box<dyn Kv>, capacity: usize) -> Result<Session> {
        let memory = model.runtime().reserve("the cache", kv.host_bytes())?;
        let step = model.max_step_tokens()?;
        Ok(Session {
            kv,
            tokens: try_vec("the cache's tokens", capacity)?,
            logits: try_filled("logits", model.config()?.vocab, 0.0)?,
            state: Logits::None,
            positions: try_filled("positions", step, 0)?,
            slots: try_filled("slots", step, 0)?,
            model: model.clone(),
            written: 0,
            cancel: None,
            _memory: memory,
        })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// A request to stop that every step heeds from now on, those of forks too.
    pub fn set_cancel(&mut self, cancel: Option<Arc<Cancel>>) {
        self.cancel = cancel;
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn capacity(&self) -> usize {
        self.kv.spec().capacity
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// After the last token, `[vocab]`; `None` before the first, after a rewind, and where `fetch_logits` brings them.
    pub fn logits(&self) -> Option<&[f32]> {
        (self.state == Logits::Here).then_some(&self.logits[..])
    }

    /// Whether `fetch_logits` has something to do.
    pub fn has_logits_away(&self) -> bool {
        self.state == Logits::Away
    }

    /// Brings logits here that stayed on the device when a token was chosen there.
    pub fn fetch_logits(&mut self) -> Result<()> {
        if self.state != Logits::Away {
            return Ok(());
        }
        let Some(token) = self.tokens.pop() else { return Ok(()) };
        let result = self.append(&[token], Wanted::Logits, None, |_| Ok(()));
        if result.is_err() {
            self.tokens.push(token);
        }
        result
    }

    /// Rewinds to the first `len` tokens.
    pub fn truncate(&mut self, len: u32) -> Result<()> {
        let (len, now) = (len as usize, self.len());
        if len > now {
            return Err(Error::invalid(format!("the cache holds {now} tokens, it can't be rewound to {len}")));
        }
        if len < now {
            self.tokens.truncate(len);
            self.state = Logits::None;
        }
        Ok(())
    }

    /// A second timeline with the same past.
    pub fn fork(&self) -> Result<Session> {
        let mut fork = Session::with_kv(&self.model, self.kv.fork(self.len())?, self.capacity())?;
        fork.tokens.extend_from_slice(&self.tokens);
        fork.logits.copy_from_slice(&self.logits);
        fork.state = self.state;
        fork.written = self.written;
        fork.cancel = self.cancel.clone();
        Ok(fork)
    }

    fn check(&self, tokens: &[u32]) -> Result<()> {
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
        let (before, state) = (self.len(), self.state);
        let step = self.positions.len();
        for (i, piece) in tokens.chunks(step).enumerate() {
            let is_last = (i + 1) * step >= tokens.len();
            let wanted = if is_last { Wanted::Logits } else { Wanted::Nothing };
            if let Err(e) = self.append(piece, wanted, cancel, |_| Ok(())) {
                self.tokens.truncate(before);
                // Those of before are still there, because logits are read with the last piece only.
                self.state = state;
                return Err(e);
            }
        }
        self.model.metrics().record_phase(Phase::Prefill, started.elapsed());
        Ok(())
    }

    /// Whether layers with a window still hold what the next token sees. After a long rewind they do not.
    fn remembers(&self) -> Result<bool> {
        let spec = self.kv.spec();
        let holds = |(i, window): (usize, usize)| {
            let overwritten = self.written.saturating_sub(spec.kept(i));
            window == 0 || overwritten <= (self.len() + 1).saturating_sub(window)
        };
        Ok(self.model.config()?.layers.iter().map(|l| l.window as usize).enumerate().all(holds))
    }

    /// Computes the tokens of this timeline again from the first one.
    fn recall(&mut self, cancel: Option<&Cancel>) -> Result<()> {
        let mut tokens = try_vec("the cache's tokens", self.tokens.capacity())?;
        std::mem::swap(&mut tokens, &mut self.tokens);
        self.written = 0;
        let step = self.positions.len();
        for piece in tokens.chunks(step) {
            if let Err(e) = self.step(piece, Wanted::Nothing, cancel, |_| Ok(())) {
                std::mem::swap(&mut tokens, &mut self.tokens);
                // The next call tries again.
                self.written = usize::MAX;
                return Err(e);
            }
        }
        Ok(())
    }

    /// `step` on a timeline whose layers hold what it needs.
    fn append<T>(
        &mut self,
        tokens: &[u32],
        wanted: Wanted,
        cancel: Option<&Cancel>,
        after: impl FnOnce(&mut dyn Exec) -> Result<T>,
    ) -> Result<T> {
        if !self.remembers()? {
            self.recall(cancel)?;
        }
        self.step(tokens, wanted, cancel, after)
    }

    /// One step of at most `max_step_tokens` tokens of this timeline.
    fn step<T>(
        &mut self,
        tokens: &[u32],
        wanted: Wanted,
        cancel: Option<&Cancel>,
        after: impl FnOnce(&mut dyn Exec) -> Result<T>,
    ) -> Result<T> {
        let n = tokens.len();
        let first = self.len() as u32;
        // A step that fails may have written too.
        self.written = self.written.max(self.len() + n);
        self.positions[..n].iter_mut().zip(first..).for_each(|(p, at)| *p = at);
        let last = [n as u32 - 1];
        let mut kvs = [self.kv.as_mut()];
        let mut batch = Batch {
            ids: tokens,
            positions: &self.positions[..n],
            slots: &self.slots[..n],
            kvs: &mut kvs,
            outputs: if wanted == Wanted::Nothing { &[] } else { &last },
        };
        let logits = &mut self.logits;
        let (result, state) = self.model.forward(&mut batch, &[self.cancel.as_deref(), cancel], |exec| {
            let result = after(exec)?;
            let state = match wanted {
                Wanted::Nothing => Logits::None,
                Wanted::Argmax if exec.ahead() > 0 => Logits::Away,
                _ => exec.read_logits(0, logits).map(|()| Logits::Here)?,
            };
            Ok((result, state))
        })?;
        self.tokens.extend_from_slice(tokens);
        self.state = state;
        Ok(result)
    }

    /// Appends a token and chooses the next one; the arg-max where `sampler` is `None`.
    pub fn decode(&mut self, token: u32, sampler: Option<&mut Sampler>) -> Result<u32> {
        self.decode_cancellable(token, sampler, None)
    }

    fn decode_cancellable(
        &mut self,
        token: u32,
        sampler: Option<&mut Sampler>,
        cancel: Option<&Cancel>,
    ) -> Result<u32> {
        self.check(&[token])?;
        if let Some(sampler) = &sampler {
            sampler.check_vocab(self.logits.len())?;
        }
        let started = Instant::now();
        let next = match sampler {
            None => self.append(&[token], Wanted::Argmax, cancel, |exec| exec.argmax(0))?,
            Some(sampler) => {
                self.append(&[token], Wanted::Logits, cancel, |_| Ok(()))?;
                match self.sample(Some(sampler)) {
                    Ok(next) => next,
                    Err(e) => {
                        self.tokens.pop();
                        self.state = Logits::None;
                        return Err(e);
                    }
                }
            }
        };
        self.model.metrics().record_phase(Phase::Decode, started.elapsed());
        Ok(next)
    }

    /// Appends `token`, then each token it makes but the last, until `out` is full or a token ends the turn.
    /// `n` counts the tokens in `out`, also where an error ends the call: those stay in the timeline.
    pub fn generate(
        &mut self,
        token: u32,
        mut sampler: Option<&mut Sampler>,
        out: &mut [u32],
        n: &mut usize,
        cancel: Option<&Cancel>,
    ) -> Result<Outcome> {
        *n = 0;
        let mut token = token;
        while *n < out.len() {
            let rest = &mut out[*n..];
            if sampler.is_some() || !self.run_ahead(token, rest, n, cancel)? {
                rest[0] = self.decode_cancellable(token, sampler.as_deref_mut(), cancel)?;
                *n += 1;
            }
            token = out[*n - 1];
            if self.model.ends(token) {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::More)
    }

    /// Some steps of `generate` without a sampler, each begun before the one ahead of it has ended: the device hands its
    /// choice on by itself. What was begun behind a token that ends the text is forgotten. False where the device does not
    /// work ahead. `n` grows by the tokens made.
    fn run_ahead(&mut self, token: u32, out: &mut [u32], n: &mut usize, cancel: Option<&Cancel>) -> Result<bool> {
        self.check(&[token])?;
        if !self.remembers()? {
            self.recall(cancel)?;
        }
        let (first, room) = (self.len(), self.capacity() - self.len());
        let most = out.len().min(room).min(STEPS_AHEAD);
        let Session { model, kv, tokens, state, slots, written, cancel: sticky, .. } = self;
        model.perform(|exec| {
            let ahead = exec.ahead();
            let (mut sent, mut made, mut last) = (0, 0, token);
            let mut since = Instant::now();
            while ahead > 0 && made < most {
                while sent < most && sent - made < ahead {
                    let position = first + sent;
                    // A step that fails may have written too.
                    *written = (*written).max(position + 1);
                    let mut kvs = [kv.as_mut()];
                    let mut batch = Batch {
                        ids: &[if sent == 0 { token } else { FOLLOWING }],
                        positions: &[position as u32],
                        slots: &slots[..1],
                        kvs: &mut kvs,
                        outputs: &[0],
                    };
                    model.run(exec, &mut batch, &[sticky.as_deref(), cancel])?;
                    exec.submit()?;
                    sent += 1;
                }
                let next = exec.collect()?;
                tokens.push(last);
                (out[made], last) = (next, next);
                (made, *n, *state) = (made + 1, *n + 1, Logits::Away);
                let now = Instant::now();
                model.record(now - since, exec.first_share())?;
                model.metrics().record_phase(Phase::Decode, now - since);
                since = now;
                if model.ends(next) {
                    break;
                }
            }
            Ok(made > 0)
        })
    }

    /// Chooses from the current logits.
    pub fn sample(&mut self, sampler: Option<&mut Sampler>) -> Result<u32> {
        self.fetch_logits()?;
        if self.state == Logits::None {
            return Err(Error::invalid("there are no logits yet: append a token first"));
        }
        let started = Instant::now();
        let token = match sampler {
            None => sample::argmax(&self.logits),
            Some(sampler) => sampler.sample(&self.logits, &self.tokens)?,
        };
        self.model.metrics().record_phase(Phase::Sample, started.elapsed());
        Ok(token)
    }
}

/// One token for each of several timelines of one model, in one pass over the weights.
pub fn decode_batch(
    sessions: &mut [&mut Session],
    tokens: &[u32],
    samplers: &mut [Option<&mut Sampler>],
    next: &mut [u32],
) -> Result<()> {
    let n = sessions.len();
    if tokens.len() != n || samplers.len() != n || next.len() != n {
        return Err(Error::invalid("a batch needs as many tokens, samplers and results as caches"));
    }
    let Some(first) = sessions.first() else { return Ok(()) };
    let model = first.model.clone();
    let long = |s: &Session| model.config().is_ok_and(|c| c.long_rope_above.is_some_and(|n| s.capacity() > n as usize));
    let first_long = long(first);
    for (session, token) in sessions.iter().zip(tokens) {
        if !Arc::ptr_eq(&session.model, &model) {
            return Err(Error::Mismatch("the caches of a batch belong to different models".to_owned()));
        }
        if long(session) != first_long {
            let what =
                "the caches of a batch are on different sides of the context length that the model was trained for";
            return Err(Error::Mismatch(what.to_owned()));
        }
        session.check(std::slice::from_ref(token))?;
    }
    for sampler in samplers.iter().flatten() {
        sampler.check_vocab(first.logits.len())?;
    }
    let started = Instant::now();
    let width = MAX_STEP_OUTPUTS.min(model.max_step_tokens()?);
    let mut done = 0;
    let mut result = Ok(());
    for (group, tokens) in sessions.chunks_mut(width).zip(tokens.chunks(width)) {
        result = step_batch(&model, group, tokens);
        if result.is_err() {
            break;
        }
        done += group.len();
    }
    if result.is_ok() {
        for ((session, sampler), next) in sessions.iter_mut().zip(samplers).zip(next) {
            match session.sample(sampler.as_deref_mut()) {
                Ok(token) => *next = token,
                Err(e) => result = Err(e),
            }
        }
    }
    if result.is_err() {
        for session in &mut sessions[..done] {
            session.tokens.pop();
            session.state = Logits::None;
        }
    }
    model.metrics().record_phase(Phase::Decode, started.elapsed());
    result
}

fn step_batch(model: &Model, sessions: &mut [&mut Session], tokens: &[u32]) -> Result<()> {
    let n = sessions.len();
    let mut positions = try_vec("positions", n)?;
    positions.extend(sessions.iter().map(|s| s.len() as u32));
    let mut slots = try_vec("slots", n)?;
    slots.extend(0..n as u32);
    let mut kvs: Vec<&mut dyn Kv> = try_vec("caches", n)?;
    let mut logits = try_vec("logits", n)?;
    let mut cancels = try_vec("cancels", n)?;
    for session in sessions.iter_mut() {
        let session = &mut **session;
        session.written = session.written.max(session.tokens.len() + 1);
        kvs.push(session.kv.as_mut());
        logits.push(&mut session.logits);
        cancels.push(session.cancel.as_deref());
    }
    let mut batch = Batch { ids: tokens, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &slots };
    model.forward(&mut batch, &cancels, |exec| {
        logits.iter_mut().enumerate().try_for_each(|(i, l)| exec.read_logits(i, l))
    })?;
    for (session, token) in sessions.iter_mut().zip(tokens) {
        session.tokens.push(*token);
        session.state = Logits::Here;
    }
    Ok(())
}
