//! The rule by which a device chooses the token behind an output: the parameters, the newest tokens and the place in the
//! random numbers of a sampler. `sample` says what they mean. Knows no sampler.

use crate::error::Result;

/// The token that stands for none, where none can be chosen.
pub const NO_TOKEN: u32 = u32::MAX;

/// Chooses as the host does, by a rule, from logits: the token, and the state of the random numbers behind it.
pub type HostChoice = fn(&Rule, &[f32]) -> Result<(u32, u64)>;

/// Biases, banned and newest tokens that a device takes for one output.
pub const MAX_ENTRIES: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
pub struct Rule<'a> {
    /// State of the generator (SplitMix64) ahead of the draw.
    pub random: u64,
    /// 0: the likeliest token, without a draw.
    pub temperature: f32,
    /// 0: off.
    pub top_k: u32,
    /// 0 or 1: off.
    pub top_p: f32,
    /// 0: off.
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    /// Number of newest tokens that are penalised; 0: off.
    pub window: usize,
    /// The tokens ahead of the choice, oldest first, in two parts, of which the newest count.
    pub recent: [&'a [u32]; 2],
    /// Added to logits, in this order.
    pub biases: &'a [(u32, f32)],
    /// Tokens that are never chosen.
    pub banned: &'a [u32],
    /// A bit a token: those that may be chosen.
    pub allowed: Option<&'a [u32]>,
    /// Token that is chosen where none can be.
    pub none: u32,
}

impl<'a> Rule<'a> {
    /// Number of biases, banned and newest tokens.
    pub fn entries(&self) -> usize {
        self.biases.len().saturating_add(self.banned.len()).saturating_add(self.window)
    }

    /// The newest tokens that count, oldest first.
    pub fn newest(&self) -> impl Iterator<Item = u32> + 'a {
        let [before, last] = self.recent;
        let from = (before.len() + last.len()).saturating_sub(self.window);
        before.iter().chain(last).skip(from).copied()
    }
}
