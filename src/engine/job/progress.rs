//! The state of a job, published after each pass for threads that read it while another one runs the job.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::engine::cancel::Cancel;
use crate::error::{Error, Result};

/// Why a job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A token that ends a turn or a text.
    Token,
    /// The token limit.
    Length,
    /// A stop sequence.
    Stop,
    /// A full context window.
    Context,
    /// A token that ends the text of a grammar.
    Grammar,
    /// An error.
    Failed,
    /// A call that stops the job.
    Cancelled,
}

/// The cancels of a job: the request's and the session's.
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
    /// The error that ended the job.
    pub failure: Option<Error>,
    /// The error that a step would return because of a cancel.
    pub stopped: Result<()>,
    pub prompt_total: usize,
    pub prompt_done: usize,
    pub tokens: usize,
    /// Number of reasoning tokens among `tokens`.
    pub reasoning: usize,
    /// Numbers of verified and of accepted draft tokens.
    pub drafted: usize,
    pub accepted: usize,
    pub cache_len: usize,
    /// Time of the passes with prompt tokens of the job; time of its decode passes and drafts.
    pub prompt_time: Duration,
    pub token_time: Duration,
    /// Time to first token; zero before it.
    pub first_token: Duration,
}

impl JobInfo {
    /// Returns the state of a new job.
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

/// The state of a job after its last pass.
pub struct JobProgress {
    info: Mutex<JobInfo>,
    cancels: Cancels,
}

impl JobProgress {
    pub(super) fn new(info: JobInfo, cancels: Cancels) -> JobProgress {
        JobProgress { info: Mutex::new(info), cancels }
    }

    /// Returns the state after the last pass; cancels are checked now.
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
