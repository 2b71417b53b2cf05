//! The rule by which one token is chosen: the parameters of a sampler, the newest tokens, and those that may be chosen.
//! Devices follow it as the host does.

use super::SamplerParams;

/// The token that stands for none, where none can be chosen.
pub const NO_TOKEN: u32 = u32::MAX;

/// The answer of a device instead of a token if a logit is NaN or infinite.
pub const NOT_A_NUMBER: u32 = u32::MAX - 2;

/// Biases, banned and newest tokens that a device takes for one output.
pub const MAX_ENTRIES: usize = 512;

#[derive(Clone, Copy, Debug)]
pub struct SamplingRule<'a> {
    /// The parameters of a sampler, which has put defaults in the place of zeros; their seed does not count.
    pub params: &'a SamplerParams,
    /// State of the generator of random numbers (SplitMix64) ahead of the draw.
    pub random: u64,
    /// The most surprise, in bits, that Mirostat admits; a device has no use for it.
    pub bound: f64,
    /// The tokens ahead of the choice, oldest first, in two parts, of which the newest count.
    pub recent: [&'a [u32]; 2],
    /// Tokens that are never chosen.
    pub banned: &'a [u32],
    /// A bit a token: those that may be chosen.
    pub allowed: Option<&'a [u32]>,
    /// Token that a device chooses where none can be.
    pub none: u32,
}

/// What a rule chooses, and how it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// `None` where no token can be chosen.
    pub token: Option<u32>,
    /// State of the generator of random numbers after the draw.
    pub random: u64,
    /// The bound of Mirostat after it.
    pub bound: f64,
}

impl Default for SamplingRule<'_> {
    /// The likeliest token.
    fn default() -> Self {
        SamplingRule {
            params: const { &SamplerParams::LIKELIEST },
            random: 0,
            bound: 0.0,
            recent: [&[]; 2],
            banned: &[],
            allowed: None,
            none: NO_TOKEN,
        }
    }
}

impl<'a> SamplingRule<'a> {
    /// Number of newest tokens that are penalised; `usize::MAX`: all.
    pub fn window(&self) -> usize {
        match (self.params.penalises(), self.params.penalty_window) {
            (false, _) => 0,
            (true, 0) => usize::MAX,
            (true, window) => window as usize,
        }
    }

    /// Number of biases, banned and newest tokens.
    pub fn entries(&self) -> usize {
        self.params.logit_biases.len().saturating_add(self.banned.len()).saturating_add(self.window())
    }

    /// The newest tokens that count, oldest first.
    pub fn newest(&self) -> impl Iterator<Item = u32> + 'a {
        self.last(self.window())
    }

    /// The `n` last tokens, or all there are, oldest first.
    pub(super) fn last(&self, n: usize) -> impl Iterator<Item = u32> + 'a {
        let [before, last] = self.recent;
        let from = (before.len() + last.len()).saturating_sub(n);
        before.iter().chain(last).skip(from).copied()
    }

    /// Logits decide as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.entries() == 0 && self.allowed.is_none() && !self.params.forbids_repetitions()
    }

    pub(super) fn allows(&self, id: u32) -> bool {
        let has = |bits: &[u32]| bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        self.allowed.is_none_or(has)
    }
}
