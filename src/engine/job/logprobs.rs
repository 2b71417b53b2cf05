//! Logprobs of a job's tokens, kept until they are read. Each row has the logprobs of the chosen token and of the `k`
//! most likely tokens. All memory is allocated with the job.

use crate::error::{Error, Result, try_vec};
use crate::sampling;

/// Maximum number of most likely tokens per token.
const MOST: usize = 32;

pub struct JobLogprobs {
    /// Number of most likely tokens.
    k: usize,
    /// Rows of the chosen token and the `k` most likely ones, and rows of their logprobs.
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    /// Scratch for sorting the vocabulary.
    order: Vec<u32>,
    /// Number of last rows that are pending: kept only if `settle` says so.
    held: usize,
}

impl JobLogprobs {
    /// Allocates `rows` rows with `k` most likely tokens; `None` without `k`.
    pub fn new(k: Option<usize>, vocab: usize, rows: usize) -> Result<Option<JobLogprobs>> {
        let Some(k) = k else { return Ok(None) };
        if k > MOST {
            return Err(Error::invalid(format!("the {k} likeliest tokens of each, at most {MOST} are kept")));
        }
        let k = k.min(vocab);
        let room = rows.saturating_mul(1 + k);
        Ok(Some(JobLogprobs {
            k,
            tokens: try_vec("log-probabilities", room)?,
            logprobs: try_vec("log-probabilities", room)?,
            order: try_vec("log-probabilities", vocab)?,
            held: 0,
        }))
    }

    /// Adds the row of a token chosen from `logits`.
    pub fn push(&mut self, token: u32, logits: &[f32]) {
        self.tokens.push(token);
        self.logprobs.push(sampling::logprob(logits, token));
        sampling::likeliest_into(logits, self.k, &mut self.order, &mut self.tokens, &mut self.logprobs);
    }

    /// Like `push`, for a pending row.
    pub fn push_held(&mut self, token: u32, logits: &[f32]) {
        self.push(token, logits);
        self.held += 1;
    }

    /// Keeps or drops the pending rows.
    pub fn settle(&mut self, are_wanted: bool) {
        if !are_wanted {
            let n = self.tokens.len() - self.held * (1 + self.k);
            self.tokens.truncate(n);
            self.logprobs.truncate(n);
        }
        self.held = 0;
    }

    /// Passes the new rows to `read`, and removes them if `read` succeeds.
    pub fn read<T>(&mut self, read: impl FnOnce(&[u32], &[f32]) -> Result<T>) -> Result<T> {
        let ready = self.tokens.len() - self.held * (1 + self.k);
        let result = read(&self.tokens[..ready], &self.logprobs[..ready])?;
        self.tokens.drain(..ready);
        self.logprobs.drain(..ready);
        Ok(result)
    }
}
