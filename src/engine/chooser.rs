//! Samplers as rules by which a device chooses tokens. Refuses to know how either does it.

use super::model::Model;
use crate::backend::rule::{NO_TOKEN, Rule};
use crate::error::Result;
use crate::sample::{self, Sampler};

/// A sampler, or the most likely token without one, as a device needs it to choose in its place.
#[derive(Clone, Copy)]
pub struct Chooser<'a> {
    sampler: Option<&'a Sampler>,
    suppressed: &'a [u32],
}

impl<'a> Chooser<'a> {
    /// `None` where the host has to choose: on a CPU, with too long lists, with filters behind a temperature, or where the mask of a
    /// grammar is not prepared.
    pub fn new(model: &'a Model, sampler: Option<&'a Sampler>) -> Option<Chooser<'a>> {
        let is_ready = sampler.is_none_or(|sampler| {
            (!sampler.has_grammar() || sampler.mask().is_some()) && !sampler.params().filters_tempered()
        });
        let chooser = Chooser { sampler, suppressed: model.suppressed() };
        (is_ready && model.chooses(&chooser.full_rule([&[]; 2], 0))).then_some(chooser)
    }

    fn full_rule(&self, recent: [&'a [u32]; 2], draws: u64) -> Rule<'a> {
        let Some(sampler) = self.sampler else { return Rule { banned: self.suppressed, ..Rule::default() } };
        let params = sampler.params();
        Rule {
            random: sampler.random_behind(draws),
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            repeat_penalty: params.repeat_penalty,
            presence_penalty: params.presence_penalty,
            frequency_penalty: params.frequency_penalty,
            window: if params.penalises() { params.window() } else { 0 },
            recent,
            biases: &params.logit_biases,
            banned: self.suppressed,
            allowed: sampler.mask(),
            none: NO_TOKEN,
        }
    }

    /// The rule behind some tokens, in two parts, and some draws; `None` for the most likely token.
    pub fn rule(&self, recent: [&'a [u32]; 2], draws: u64) -> Option<Rule<'a>> {
        let rule = self.full_rule(recent, draws);
        (self.sampler.is_some() || !rule.banned.is_empty()).then_some(rule)
    }
}

/// Takes the token that a device has chosen in the place of a sampler.
pub fn chosen(token: u32, sampler: Option<&mut Sampler>) -> Result<u32> {
    if token == NO_TOKEN {
        return Err(sample::no_token());
    }
    if let Some(sampler) = sampler {
        sampler.was_replaced();
    }
    Ok(token)
}

/// Prepares the mask of a sampler with a grammar for the token behind a timeline and one token more, where a device may
/// have a use for it.
pub fn prepare_mask(model: &Model, sampler: &mut Sampler, timeline: &mut Vec<u32>, more: &[u32]) -> Result<()> {
    sampler.forget_mask();
    if !sampler.has_grammar() || !model.chooses(&Rule::default()) {
        return Ok(());
    }
    let len = timeline.len();
    timeline.extend_from_slice(more);
    let result = sampler.prepare_mask(timeline);
    timeline.truncate(len);
    result
}
