//! The rule of one choice: the sampler's parameters, the newest tokens, and the allowed ones. The host and devices
//! apply it identically.

use super::SamplerParams;

/// The result if no token can be sampled.
pub const NO_TOKEN: u32 = u32::MAX;

/// A device's answer if a logit is NaN or infinite.
pub const NOT_A_NUMBER: u32 = u32::MAX - 2;

/// Maximum number of biases, banned tokens and newest tokens that a device takes per output.
pub const MAX_ENTRIES: usize = 512;

#[derive(Clone, Copy, Debug)]
pub struct SamplingRule<'a> {
    /// The sampler's parameters, with zeros replaced by defaults; their seed is unused.
    pub params: &'a SamplerParams,
    /// State of the random number generator (SplitMix64) before the draw.
    pub random: u64,
    /// Mirostat's maximum surprise in bits; unused by devices.
    pub bound: f64,
    /// The tokens before the choice, oldest first, in two parts; only the newest count.
    pub recent: [&'a [u32]; 2],
    /// Tokens that are never sampled.
    pub banned: &'a [u32],
    /// Bit mask of the allowed tokens.
    pub allowed: Option<&'a [u32]>,
    /// The device's answer if no token can be sampled.
    pub none: u32,
}

/// The result of a rule, and the next state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// `None` if no token can be sampled.
    pub token: Option<u32>,
    /// State of the random number generator after the draw.
    pub random: u64,
    /// Mirostat's next bound.
    pub bound: f64,
}

impl Default for SamplingRule<'_> {
    /// Greedy.
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
    /// Returns the number of newest tokens that are penalized; `usize::MAX`: all.
    pub fn window(&self) -> usize {
        match (self.params.penalizes(), self.params.penalty_window) {
            (false, _) => 0,
            (true, 0) => usize::MAX,
            (true, window) => window as usize,
        }
    }

    /// Returns the number of biases, banned tokens and newest tokens.
    pub fn entries(&self) -> usize {
        self.params.logit_biases.len().saturating_add(self.banned.len()).saturating_add(self.window())
    }

    /// Returns the newest tokens that count, oldest first.
    pub fn newest(&self) -> impl Iterator<Item = u32> + 'a {
        self.last(self.window())
    }

    /// Returns the last `n` tokens (or all), oldest first.
    pub(super) fn last(&self, n: usize) -> impl Iterator<Item = u32> + 'a {
        let [before, last] = self.recent;
        let from = (before.len() + last.len()).saturating_sub(n);
        before.iter().chain(last).skip(from).copied()
    }

    /// True if logits are used unchanged.
    pub(super) fn is_plain(&self) -> bool {
        self.entries() == 0 && self.allowed.is_none() && !self.params.forbids_repetitions()
    }

    pub(super) fn allows(&self, id: u32) -> bool {
        let has = |bits: &[u32]| bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        self.allowed.is_none_or(has)
    }
}
