//! A generation that runs in slices: a timeline with the tokens that are to be appended, and the tokens and the text that
//! have come of it. Knows how a token is chosen and why a text ends; when it works, `schedule` knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Cancel;
use super::job_text::JobText;
use super::pass::{Member, Parked};
use super::session::{Memory, Session};
use crate::backend::Executor;
use crate::backend::state::State;
use crate::error::{Error, Result, try_vec};
use crate::sample::Sampler;

/// The reason why a job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A token that ends a turn or a text.
    Token,
    /// As many tokens as were asked for.
    Length,
    /// A stop string.
    Stop,
    /// The cache is full.
    Context,
    /// A token that ends a text, where a grammar allows it.
    Grammar,
}

#[derive(Default)]
pub struct JobParams<'a> {
    /// Tokens to make at most; 0: as many as the cache has room for.
    pub max_tokens: usize,
    /// `None`: always the most likely token.
    pub sampler: Option<Sampler>,
    pub stops: &'a [&'a str],
    pub cancel: Option<Arc<Cancel>>,
}

/// The state of a job at one time.
#[derive(Debug)]
pub struct JobInfo {
    pub end: Option<End>,
    /// The error with which a step would end because somebody asks the job to stop.
    pub stopped: Result<()>,
    pub prompt_total: usize,
    pub prompt_done: usize,
    pub tokens: usize,
    pub cache_len: usize,
    /// Time of the passes in which it had prompt tokens and single ones.
    pub prompt_time: Duration,
    pub token_time: Duration,
    /// Time from its making to its first token; zero before that.
    pub first_token: Duration,
}

pub struct Job {
    pub(super) id: u64,
    session: Session,
    cancel: Option<Arc<Cancel>>,
    sampler: Option<Sampler>,
    /// Tokens to append first: those that the cache's layers have forgotten, then the prompt.
    input: Vec<u32>,
    /// Number of `input` that were forgotten, and of those that were appended.
    forgotten: usize,
    appended: usize,
    /// Tokens made, the last of which may not be appended yet, and the number of those that were read.
    made: Vec<u32>,
    read: usize,
    max_tokens: usize,
    text: JobText,
    end: Option<End>,
    /// There are logits of which no token was chosen yet.
    undecided: bool,
    /// The paused pass that it takes part in.
    pub(super) parked: Option<Parked>,
    /// Passes since its last one.
    pub(super) waited: u32,
    begun: Instant,
    prompt_time: Duration,
    token_time: Duration,
    first_token: Duration,
}

/// A job that can be made of a timeline: everything that can fail has been done.
pub struct Request {
    prompt: Vec<u32>,
    input: Vec<u32>,
    made: Vec<u32>,
    max_tokens: usize,
    text: JobText,
    sampler: Option<Sampler>,
    cancel: Option<Arc<Cancel>>,
    /// That of a timeline whose memory was given back.
    memory: Option<Memory>,
}

impl Request {
    /// Refuses what could not be done with the timeline as it is.
    pub fn new(session: &Session, prompt: &[u32], params: JobParams) -> Result<Request> {
        if prompt.is_empty() {
            return Err(Error::invalid("a job needs a prompt of at least one token"));
        }
        session.check(prompt)?;
        if let Some(sampler) = &params.sampler {
            sampler.check_vocab(session.model().program()?.vocab)?;
        }
        if !params.stops.is_empty() {
            session.model().tokenizer()?;
        }
        // The last token made is not appended.
        let room = session.capacity() - session.len() - prompt.len() + 1;
        let max_tokens = if params.max_tokens == 0 { usize::MAX } else { params.max_tokens };
        let mut copy = try_vec("a job's prompt", prompt.len())?;
        copy.extend_from_slice(prompt);
        Ok(Request {
            prompt: copy,
            input: try_vec("a job's prompt", session.len() + prompt.len())?,
            made: try_vec("a job's tokens", max_tokens.min(room))?,
            max_tokens,
            text: JobText::new(params.stops)?,
            sampler: params.sampler,
            cancel: params.cancel,
            memory: session.fresh_memory()?,
        })
    }
}

impl Job {
    /// A job on the timeline that the request was made for.
    pub fn new(mut session: Session, request: Request) -> Job {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let Request { prompt, mut input, made, max_tokens, text, sampler, cancel, memory } = request;
        if let Some(memory) = memory {
            session.set_memory(memory);
        }
        session.forget_incomplete(&mut input);
        let forgotten = input.len();
        input.extend(prompt);
        Job {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            session,
            cancel,
            sampler,
            input,
            forgotten,
            appended: 0,
            made,
            read: 0,
            max_tokens,
            text,
            end: None,
            undecided: false,
            parked: None,
            waited: 0,
            begun: Instant::now(),
            prompt_time: Duration::ZERO,
            token_time: Duration::ZERO,
            first_token: Duration::ZERO,
        }
    }

    /// The timeline, with all tokens whose steps are done.
    pub fn into_session(self) -> Session {
        let Job { mut session, input, forgotten, appended, parked, .. } = self;
        drop(parked);
        session.reclaim(input.get(appended..forgotten).unwrap_or_default());
        session
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn info(&self) -> JobInfo {
        JobInfo {
            end: self.end,
            stopped: if self.has_ended() { Ok(()) } else { self.check_cancels() },
            prompt_total: self.input.len() - self.forgotten,
            prompt_done: self.appended.saturating_sub(self.forgotten),
            tokens: self.made.len(),
            cache_len: self.session.len(),
            prompt_time: self.prompt_time,
            token_time: self.token_time,
            first_token: self.first_token,
        }
    }

    /// Shows `read` the text that is new, which is gone where that succeeds.
    pub fn read_text<T>(&mut self, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        self.session.model().tokenizer()?;
        self.text.read(read)
    }

    /// Shows `read` the tokens that are new, which are gone where that succeeds.
    pub fn read_tokens<T>(&mut self, read: impl FnOnce(&[u32]) -> Result<T>) -> Result<T> {
        let result = read(&self.made[self.read..])?;
        self.read = self.made.len();
        Ok(result)
    }

    fn check_cancels(&self) -> Result<()> {
        Cancel::check(&[self.cancel.as_deref(), self.session.cancel().map(|cancel| &**cancel)])
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// The cancels that may stop the job.
    pub(super) fn cancels(&self) -> impl Iterator<Item = Arc<Cancel>> {
        self.cancel.iter().chain(self.session.cancel()).cloned()
    }

    /// The memory of the timeline, for a step.
    pub(super) fn state(&mut self) -> &mut State {
        self.session.state_mut()
    }

    /// Tokens to append next: the rest of the prompt, or the token made last.
    pub(super) fn pending(&self) -> &[u32] {
        match self.input.get(self.appended..) {
            Some(rest) if !rest.is_empty() => rest,
            _ if self.has_ended() => &[],
            _ => &self.made[self.made.len().saturating_sub(1)..],
        }
    }

    pub(super) fn reads_prompt(&self) -> bool {
        self.appended < self.input.len()
    }

    /// Takes the results of a pass that took some time, `output` being the number of the job's own. True where a token was
    /// made.
    pub(super) fn accept(
        &mut self,
        member: Member,
        executor: &mut Executor,
        output: usize,
        time: Duration,
    ) -> Result<bool> {
        let greedy = self.sampler.is_none() && self.session.model().suppressed().is_empty();
        let output = member.output.then_some(output);
        let argmax = if self.reads_prompt() {
            let piece = &self.input[self.appended..self.appended + member.tokens];
            let argmax = self.session.accept(piece, executor, output, greedy)?;
            self.appended += member.tokens;
            self.prompt_time += time;
            argmax
        } else {
            let last = &self.made[self.made.len() - 1..];
            let argmax = self.session.accept(last, executor, output, greedy)?;
            self.token_time += time;
            argmax
        };
        self.undecided = output.is_some();
        if self.undecided {
            self.make_token(argmax)?;
        }
        Ok(output.is_some())
    }

    /// True where there are logits of which no token was chosen, because choosing failed.
    pub(super) fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// Chooses a token where the device has not.
    pub(super) fn make_token(&mut self, argmax: Option<u32>) -> Result<()> {
        let token = match argmax {
            Some(token) => token,
            None => self.session.sample(self.sampler.as_mut())?,
        };
        let model = self.session.model();
        self.end = if model.ends(token) {
            let by_grammar = self.sampler.as_ref().is_some_and(Sampler::has_grammar);
            Some(if by_grammar { End::Grammar } else { End::Token })
        } else if let Ok(tokenizer) = model.tokenizer()
            && self.text.push(tokenizer, token)?
        {
            Some(End::Stop)
        } else if self.made.len() + 1 >= self.max_tokens {
            Some(End::Length)
        } else if self.session.len() == self.session.capacity() {
            Some(End::Context)
        } else {
            None
        };
        if self.end.is_some_and(|end| end != End::Stop) {
            self.text.end();
        }
        if self.made.is_empty() {
            self.first_token = self.begun.elapsed();
        }
        self.made.push(token);
        self.undecided = false;
        Ok(())
    }
}
