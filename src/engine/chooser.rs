//! What chooses the tokens of a generation: a sampler, and the grammar that its text follows. Knows when a device may
//! choose in its place, and by which rule.

use super::network::Network;
use crate::error::{Error, Result, try_vec};
use crate::grammar::Matcher;
use crate::sampling::{self, NO_TOKEN, Sampler, SamplerParams, SamplingRule};

/// A sampler with the grammar that its choices follow.
#[derive(Debug)]
pub struct Chooser {
    sampler: Sampler,
    grammar: Option<Matcher>,
    /// The tokens that the grammar allows next, a bit a token, for a device; empty where none are prepared.
    mask: Vec<u32>,
}

impl Chooser {
    /// `InvalidArgument` names the field that is out of its range.
    pub fn new(params: SamplerParams) -> Result<Chooser> {
        Ok(Chooser { sampler: Sampler::new(params)?, grammar: None, mask: Vec::new() })
    }

    /// A second one that goes on from here.
    pub fn copy(&self) -> Result<Chooser> {
        let grammar = self.grammar.as_ref().map(Matcher::copy).transpose()?;
        Ok(Chooser { sampler: self.sampler.copy(), grammar, mask: Vec::new() })
    }

    /// The grammar that choices follow from now on.
    pub fn set_grammar(&mut self, grammar: Option<Matcher>) {
        self.mask.clear();
        self.grammar = grammar;
    }

    /// True where choices follow a grammar.
    pub fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// True if a function of the caller edits the logits, which must run on the thread that called the library.
    pub fn calls_back(&self) -> bool {
        self.sampler.params().edit.is_some()
    }

    /// `InvalidArgument` naming the first id of the sampler's lists that a vocabulary of `n` tokens does not have,
    /// `Mismatch` for a grammar of another vocabulary.
    pub fn check_vocab(&self, n: usize) -> Result<()> {
        if let Some(grammar) = self.grammar.as_ref().filter(|grammar| grammar.n_vocab() != n) {
            let what = format!("the grammar is of a vocabulary of {} tokens, the model has {n}", grammar.n_vocab());
            return Err(Error::Mismatch(what));
        }
        self.sampler.check_vocab(n)
    }

    /// Chooses a token after `history`, as `Sampler::sample` does.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32> {
        self.check_vocab(logits.len())?;
        let allowed = self.grammar.as_mut().map(|grammar| grammar.allowed(history)).transpose()?;
        self.sampler.sample(logits, history, allowed.as_ref().map(|allowed| allowed.bits()))
    }

    /// Appends tokens to `out`, `most` in all, that a grammar expects to follow `history`; none without a grammar.
    pub fn forced(&mut self, history: &[u32], most: usize, out: &mut Vec<u32>) -> Result<()> {
        self.grammar.as_mut().map_or(Ok(()), |grammar| grammar.forced(history, most, out))
    }

    /// Number of the first of `tokens` that a grammar lets follow `history`; all without a grammar.
    pub fn admits(&mut self, history: &[u32], tokens: &[u32]) -> Result<usize> {
        self.grammar.as_mut().map_or(Ok(tokens.len()), |grammar| grammar.admits(history, tokens))
    }

    /// Prepares the mask for the token after a session and one token more, where a device may have a use for it.
    pub(super) fn prepare_mask(&mut self, network: &Network, held: &mut Vec<u32>, more: &[u32]) -> Result<()> {
        self.mask.clear();
        let Some(grammar) = self.grammar.as_mut().filter(|_| network.chooses(&SamplingRule::default())) else {
            return Ok(());
        };
        let len = held.len();
        held.extend_from_slice(more);
        let result = grammar.allowed(held).and_then(|allowed| {
            let room = allowed.bits().len().saturating_sub(self.mask.capacity());
            if room > 0 {
                self.mask = try_vec("sampler", allowed.bits().len())?;
            }
            self.mask.extend_from_slice(allowed.bits());
            Ok(())
        });
        held.truncate(len);
        result
    }
}

/// The rules of a chooser, or of the most likely token without one, by which a device chooses in its place.
#[derive(Clone, Copy)]
pub struct DeviceRules<'a> {
    chooser: Option<&'a Chooser>,
    suppressed: &'a [u32],
}

impl<'a> DeviceRules<'a> {
    /// `None` where the host has to choose: on a CPU, by what a device does not follow, or where the mask of a grammar
    /// is not prepared.
    pub fn new(network: &'a Network, chooser: Option<&'a Chooser>) -> Option<DeviceRules<'a>> {
        let is_ready = chooser.is_none_or(|chooser| !chooser.has_grammar() || !chooser.mask.is_empty());
        let rules = DeviceRules { chooser, suppressed: &network.suppressed };
        (is_ready && network.chooses(&rules.full([&[]; 2], 0))).then_some(rules)
    }

    fn full(&self, recent: [&'a [u32]; 2], draws: u64) -> SamplingRule<'a> {
        let likeliest = SamplingRule { banned: self.suppressed, ..SamplingRule::default() };
        let Some(Chooser { sampler, mask, .. }) = self.chooser else { return likeliest };
        SamplingRule {
            params: sampler.params(),
            random: sampler.random_behind(draws),
            recent,
            allowed: (!mask.is_empty()).then_some(&mask[..]),
            ..likeliest
        }
    }

    /// The rule after some tokens, in two parts, and some draws; `None` for the most likely token.
    pub fn rule(&self, recent: [&'a [u32]; 2], draws: u64) -> Option<SamplingRule<'a>> {
        let rule = self.full(recent, draws);
        (self.chooser.is_some() || !rule.banned.is_empty()).then_some(rule)
    }
}

/// Takes the token that a device has chosen in the place of a chooser.
pub fn chosen(token: u32, chooser: Option<&mut Chooser>) -> Result<u32> {
    if token == NO_TOKEN {
        return Err(sampling::no_token());
    }
    if let Some(chooser) = chooser {
        chooser.sampler.was_replaced();
    }
    Ok(token)
}
