//! The state of a job, published after each pass, so that threads read it while another one works on the job.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::engine::cancel::Cancel;
use crate::error::{Error, Result};

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
    /// An error of its own.
    Failed,
    /// A call that stops it.
    Cancelled,
}

/// What may stop a job.
pub(super) struct Cancels([Option<Arc<Cancel>>; 2]);

impl Cancels {
    pub(super) fn new(of_job: Option<Arc<Cancel>>, of_session: Option<Arc<Cancel>>) -> Cancels {
        Cancels([of_job, of_session])
    }

    pub(super) fn check(&self) -> Result<()> {
        Cancel::check(&[self.0[0].as_deref(), self.0[1].as_deref()])
    }
}

/// The state of a job at one time.
#[derive(Clone, Debug)]
pub struct JobInfo {
    pub end: Option<End>,
    /// The error that has ended it.
    pub failure: Option<Error>,
    /// The error with which a step would end because somebody asks the job to stop.
    pub stopped: Result<()>,
    pub prompt_total: usize,
    pub prompt_done: usize,
    pub tokens: usize,
    /// Tokens of reasoning among them.
    pub reasoning: usize,
    /// Tokens of drafts that were computed, and how many of them were right.
    pub drafted: usize,
    pub accepted: usize,
    pub cache_len: usize,
    /// Time of the passes in which it had prompt tokens and single ones, and of drafts with the latter.
    pub prompt_time: Duration,
    pub token_time: Duration,
    /// Time from its making to its first token; zero before that.
    pub first_token: Duration,
}

impl JobInfo {
    /// The state of a new job with so many tokens in its prompt and in its cache.
    pub(super) fn new(prompt_total: usize, cache_len: usize) -> JobInfo {
        JobInfo {
            end: None,
            failure: None,
            stopped: Ok(()),
            prompt_total,
            prompt_done: 0,
            tokens: 0,
            reasoning: 0,
            drafted: 0,
            accepted: 0,
            cache_len,
            prompt_time: Duration::ZERO,
            token_time: Duration::ZERO,
            first_token: Duration::ZERO,
        }
    }
}

/// The state of a job as of its last pass.
pub struct JobProgress {
    info: Mutex<JobInfo>,
    cancels: Cancels,
}

impl JobProgress {
    pub(super) fn new(info: JobInfo, cancels: Cancels) -> JobProgress {
        JobProgress { info: Mutex::new(info), cancels }
    }

    /// The state of the job as of its last pass; whether it is asked to stop is looked at now.
    pub fn info(&self) -> JobInfo {
        let info = self.info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stopped = if info.end.is_some() { Ok(()) } else { self.cancels.check() };
        JobInfo { stopped, ..info }
    }

    /// Replaces the state, unless the published one is final.
    pub(super) fn publish(&self, info: impl FnOnce() -> JobInfo) {
        let mut published = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        if published.end.is_none() {
            *published = info();
        }
    }
}
