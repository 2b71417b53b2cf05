//! Token selection: a sampler with an optional grammar (constrained decoding). Decides when a device may sample, and by
//! which rule.

use super::network::Network;
use crate::error::{Error, Result, try_vec};
use crate::grammar::Matcher;
use crate::sampling::{self, NO_TOKEN, Sampler, SamplerParams, SamplingRule};

/// A sampler with an optional grammar.
#[derive(Debug)]
pub struct Chooser {
    sampler: Sampler,
    grammar: Option<Matcher>,
    /// Bit mask of the tokens that the grammar allows next, for a device; empty if not prepared.
    mask: Vec<u32>,
}

impl Chooser {
    /// Fails with `InvalidArgument` naming the field that is out of range.
    pub fn new(params: SamplerParams) -> Result<Chooser> {
        Ok(Chooser { sampler: Sampler::new(params)?, grammar: None, mask: Vec::new() })
    }

    /// Copies the sampler's and grammar's state.
    pub fn copy(&self) -> Result<Chooser> {
        let grammar = self.grammar.as_ref().map(Matcher::copy).transpose()?;
        Ok(Chooser { sampler: self.sampler.copy(), grammar, mask: Vec::new() })
    }

    /// Sets the grammar of all later choices.
    pub fn set_grammar(&mut self, grammar: Option<Matcher>) {
        self.mask.clear();
        self.grammar = grammar;
    }

    /// True if a grammar constrains choices.
    pub fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// True if a callback of the caller edits the logits; it must run on the thread that called the library.
    pub fn calls_back(&self) -> bool {
        self.sampler.params().edit.is_some()
    }

    /// Fails with `InvalidArgument` if a list of the sampler contains a token id outside a vocabulary of `n` tokens
    /// (the error names the first such id), and with `Mismatch` if the grammar was compiled for a vocabulary of another
    /// size.
    pub fn check_vocab(&self, n: usize) -> Result<()> {
        if let Some(grammar) = self.grammar.as_ref().filter(|grammar| grammar.n_vocab() != n) {
            let what = format!("the grammar is of a vocabulary of {} tokens, the model has {n}", grammar.n_vocab());
            return Err(Error::Mismatch(what));
        }
        self.sampler.check_vocab(n)
    }

    /// Samples a token after `history`, like `Sampler::sample`.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32> {
        self.check_vocab(logits.len())?;
        let allowed = self.grammar.as_mut().map(|grammar| grammar.allowed(history)).transpose()?;
        self.sampler.sample(logits, history, allowed.as_ref().map(|allowed| allowed.bits()))
    }

    /// Appends the tokens that the grammar forces after `history` to `out`, at most `most` tokens. Without a grammar,
    /// appends none.
    pub fn forced(&mut self, history: &[u32], most: usize, out: &mut Vec<u32>) -> Result<()> {
        self.grammar.as_mut().map_or(Ok(()), |grammar| grammar.forced(history, most, out))
    }

    /// Returns the number of leading `tokens` that the grammar accepts after `history`. Without a grammar, returns the
    /// number of all tokens.
    pub fn admits(&mut self, history: &[u32], tokens: &[u32]) -> Result<usize> {
        self.grammar.as_mut().map_or(Ok(tokens.len()), |grammar| grammar.admits(history, tokens))
    }

    /// Prepares the mask for the token after `held` and `more`, if a device may use it.
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

/// The sampling rules of a chooser for a device; greedy without a chooser.
#[derive(Clone, Copy)]
pub struct DeviceRules<'a> {
    chooser: Option<&'a Chooser>,
    suppressed: &'a [u32],
}

impl<'a> DeviceRules<'a> {
    /// `None` if the host must sample: on a CPU, with parameters that the device does not support, or without a
    /// prepared grammar mask.
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
            random: sampler.random_after(draws),
            recent,
            allowed: (!mask.is_empty()).then_some(&mask[..]),
            ..likeliest
        }
    }

    /// Returns the rule after `recent` tokens (in two parts) and `draws` random draws; `None` for greedy.
    pub fn rule(&self, recent: [&'a [u32]; 2], draws: u64) -> Option<SamplingRule<'a>> {
        let rule = self.full(recent, draws);
        (self.chooser.is_some() || !rule.banned.is_empty()).then_some(rule)
    }
}

/// Accepts a token that a device sampled.
pub fn chosen(token: u32, chooser: Option<&mut Chooser>) -> Result<u32> {
    if token == NO_TOKEN {
        return Err(sampling::no_token());
    }
    if let Some(chooser) = chooser {
        chooser.sampler.was_replaced();
    }
    Ok(token)
}
