//! Rules for devices, followed by the sampler of the host: the standard that devices are held to. Refuses to know devices.

use crate::backend::rule::Rule;
use crate::error::{Error, Result, try_vec};
use crate::sample::{Sampler, SamplerParams};

/// Chooses a token from logits by a sampler as a rule has it, and tells the state of its random numbers behind that.
pub fn host_choice(rule: &Rule, logits: &[f32]) -> Result<(u32, u64)> {
    let mut left = try_vec("logits", logits.len())?;
    let has = |bits: &[u32], id: u32| bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
    let is_left = |id| rule.allowed.is_none_or(|bits| has(bits, id)) && !rule.banned.contains(&id);
    left.extend((0..).zip(logits).map(|(id, logit)| if is_left(id) { *logit } else { f32::NEG_INFINITY }));
    let mut sampler = Sampler::new(SamplerParams {
        seed: rule.random,
        logit_biases: rule.biases.to_vec(),
        repeat_penalty: rule.repeat_penalty,
        presence_penalty: rule.presence_penalty,
        frequency_penalty: rule.frequency_penalty,
        penalty_window: rule.window as u32,
        top_k: rule.top_k,
        top_p: rule.top_p,
        min_p: rule.min_p,
        temperature: rule.temperature,
        temperature_first: false,
    })?;
    let recent: Vec<u32> = rule.newest().collect();
    let token = match sampler.sample(&left, &recent) {
        Err(Error::InvalidArgument(_)) => rule.none,
        token => token?,
    };
    Ok((token, sampler.random_behind(0)))
}
