//! Sampling: from logits to a token id. Parameters become a rule for each choice; the host (`choose`) and devices apply
//! the same rule with the same result.

mod arithmetic;
mod candidates;
mod choose;
#[cfg(test)]
mod definitions;
mod edit;
mod filter;
mod logprobs;
mod params;
mod repetitions;
mod rule;

pub use choose::{Scratch, choose, choose_of};
pub use edit::LogitsEdit;
pub use filter::Filter;
pub use logprobs::{likeliest, likeliest_into, logprob};
pub use params::SamplerParams;
pub(crate) use params::numbers;
pub use rule::{Choice, MAX_ENTRIES, NO_TOKEN, NOT_A_NUMBER, SamplingRule};

use std::sync::Arc;

use arithmetic::SplitMix64;

use crate::error::{Error, Result};

/// Samples one token after another. Memory is allocated for a vocabulary by the first `sample`.
#[derive(Debug)]
pub struct Sampler {
    params: Arc<SamplerParams>,
    /// State of the random number generator (SplitMix64).
    random: u64,
    /// Mirostat's current maximum surprise in bits.
    bound: f64,
    scratch: Scratch,
    /// Logits edited by the caller.
    edited: Vec<f32>,
}

impl Sampler {
    /// Fails with `InvalidArgument` naming the field that is out of range.
    pub fn new(params: SamplerParams) -> Result<Sampler> {
        let params = Arc::new(params.checked()?);
        let bound = 2.0 * f64::from(params.mirostat_tau);
        Ok(Sampler { random: params.seed, bound, params, scratch: Scratch::default(), edited: Vec::new() })
    }

    /// Returns a second sampler with the same state, without its scratch memory.
    pub fn copy(&self) -> Sampler {
        Sampler { params: self.params.clone(), scratch: Scratch::default(), edited: Vec::new(), ..*self }
    }

    pub fn params(&self) -> &SamplerParams {
        &self.params
    }

    /// State of the random numbers after `draws` draws.
    pub fn random_after(&self, draws: u64) -> u64 {
        SplitMix64(self.random).after(draws)
    }

    /// Records that a device sampled a token instead of this sampler.
    pub fn was_replaced(&mut self) {
        if self.params.temperature > 0.0 {
            self.random = self.random_after(1);
        }
    }

    /// Fails with `InvalidArgument` for the first id in the parameters' lists outside a vocabulary of `n` tokens.
    pub fn check_vocab(&self, n: usize) -> Result<()> {
        self.params.check_vocab(n)
    }

    /// Samples a token. `logits: [vocab]`; `history`: the tokens so far, oldest first, ignoring ids outside the
    /// vocabulary; `allowed`: bit mask of allowed tokens. NaN counts as negative infinity, which is never sampled; if
    /// nothing else is left, fails with `InvalidArgument` without consuming a random number.
    pub fn sample(&mut self, logits: &[f32], history: &[u32], allowed: Option<&[u32]>) -> Result<u32> {
        self.check_vocab(logits.len())?;
        let (params, random, bound) = (&*self.params, self.random, self.bound);
        let logits = match &params.edit {
            Some(edit) => {
                edit.apply(logits, history, &mut self.edited)?;
                &self.edited[..]
            }
            None => logits,
        };
        let rule = SamplingRule { params, random, bound, recent: [history, &[]], allowed, ..Default::default() };
        let choice = choose(&rule, logits, &mut self.scratch)?;
        (self.random, self.bound) = (choice.random, choice.bound);
        choice.token.ok_or_else(no_token)
    }
}

/// Returns the arg-max, and its lead over all other logits; infinity if there is no other.
pub fn lead(logits: &[f32]) -> (u32, f32) {
    let best = argmax(logits);
    let (before, rest) = logits.split_at((best as usize).min(logits.len()));
    let others = before.iter().chain(rest.iter().skip(1)).fold(f32::NEG_INFINITY, |max, logit| max.max(*logit));
    (best, rest.first().map_or(0.0, |logit| logit - others))
}

/// Returns the index of the largest logit; ties: the lowest; NaN never wins. 0 if there is none.
pub fn argmax(logits: &[f32]) -> u32 {
    // Maxima of lanes, which compilers vectorize.
    let (chunks, rest) = logits.as_chunks::<32>();
    let mut lanes = [f32::NEG_INFINITY; 32];
    let larger = |max: &mut f32, logit: f32| *max = if logit > *max { logit } else { *max };
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(max, &logit)| larger(max, logit));
    }
    lanes.iter_mut().zip(rest).for_each(|(max, &logit)| larger(max, logit));
    let max = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let found = logits.iter().position(|&logit| logit == max && max > f32::NEG_INFINITY);
    found.map_or(0, |id| id as u32)
}

pub fn no_token() -> Error {
    Error::invalid("no token can be chosen: every logit is NaN or negative infinity")
}
