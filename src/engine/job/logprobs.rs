//! The log-probabilities of a job's tokens, until they are read: of each token its own and those of the likeliest ones.
//! All memory is set aside with the job.

use crate::error::{Error, Result, try_vec};
use crate::sampling;

/// Most likeliest tokens that are kept with a token.
const MOST: usize = 32;

pub struct JobLogprobs {
    /// Number of the likeliest tokens.
    k: usize,
    /// Row by row: a token that was made and the `k` likeliest in its place, and the logarithms of their probabilities.
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    /// Room for the order of the vocabulary.
    order: Vec<u32>,
    /// Number of the last rows of which it is open whether they are wanted.
    held: usize,
}

impl JobLogprobs {
    /// Room for `rows` tokens of a vocabulary, with the `k` likeliest for each; `None` if nothing is kept.
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

    /// Keeps those of a token that was chosen from some logits.
    pub fn push(&mut self, token: u32, logits: &[f32]) {
        self.tokens.push(token);
        self.logprobs.push(sampling::logprob(logits, token));
        sampling::likeliest_into(logits, self.k, &mut self.order, &mut self.tokens, &mut self.logprobs);
    }

    /// `push` of a row of which it is open whether it is wanted.
    pub fn push_held(&mut self, token: u32, logits: &[f32]) {
        self.push(token, logits);
        self.held += 1;
    }

    /// Decides on the rows of which it was open whether they are wanted.
    pub fn settle(&mut self, are_wanted: bool) {
        if !are_wanted {
            let n = self.tokens.len() - self.held * (1 + self.k);
            self.tokens.truncate(n);
            self.logprobs.truncate(n);
        }
        self.held = 0;
    }

    /// Shows `read` those that are new, which are gone where that succeeds.
    pub fn read<T>(&mut self, read: impl FnOnce(&[u32], &[f32]) -> Result<T>) -> Result<T> {
        let ready = self.tokens.len() - self.held * (1 + self.k);
        let result = read(&self.tokens[..ready], &self.logprobs[..ready])?;
        self.tokens.drain(..ready);
        self.logprobs.drain(..ready);
        Ok(result)
    }
}
