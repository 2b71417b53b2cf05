//! Arguments of sampling.

use super::{ConstPtr, Ptr};

/// Sampling method for the token after a row of logits.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// Greedy: the largest logit.
    Likeliest = 0,
    /// A draw among all tokens in the order of their ids.
    InOrder = 1,
    /// A draw among the tokens that `top_k` and `top_p` keep, most likely first.
    ByRank = 2,
}

/// Value to add to the logit of a token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bias {
    pub id: u32,
    pub value: f32,
}

/// A sampling rule; results are bit-identical to src/sampling.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceRule {
    /// 1 / temperature
    pub inverse: f64,
    /// `[n_biases]`; biases of the same token in order.
    pub biases: ConstPtr<Bias>,
    /// `[window]`, the newest tokens, in any order.
    pub recent: Ptr<u32>,
    /// One bit per token, or null: all are allowed.
    pub allowed: ConstPtr<u32>,
    /// `RuleKind`.
    pub kind: u32,
    pub n_biases: u32,
    pub window: u32,
    /// Result if no token can be chosen.
    pub none: u32,
    pub repeat: f32,
    pub presence: f32,
    pub frequency: f32,
    /// 0: off.
    pub top_k: u32,
    /// 0: off.
    pub top_p: f32,
    /// 0: off.
    pub min_p: f32,
}

impl DeviceRule {
    pub fn to_bytes(self) -> [u8; size_of::<DeviceRule>()] {
        let longs = [self.inverse.to_bits(), self.biases, self.recent, self.allowed];
        let [repeat, presence, frequency] = [self.repeat, self.presence, self.frequency].map(f32::to_bits);
        let counts = [self.kind, self.n_biases, self.window, self.none, repeat, presence, frequency, self.top_k];
        let words = counts.into_iter().chain([self.top_p.to_bits(), self.min_p.to_bits()]);
        in_bytes(&longs, words)
    }
}

/// The mutable part of a rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RuleState {
    /// State of SplitMix64.
    pub random: u64,
    /// Number of tokens in `recent`.
    pub n_recent: u32,
    /// Index in `recent` of the next token.
    pub next: u32,
    /// Slot of the step in flight.
    pub slot: u32,
    pub pad: u32,
}

impl RuleState {
    pub fn to_bytes(self) -> [u8; size_of::<RuleState>()] {
        in_bytes(&[self.random], [self.n_recent, self.next, self.slot, self.pad])
    }
}

/// Encodes `longs`, then `words`, in the device's byte order.
fn in_bytes<const N: usize>(longs: &[u64], words: impl IntoIterator<Item = u32>) -> [u8; N] {
    let mut bytes = [0; N];
    let all = longs.iter().flat_map(|w| w.to_le_bytes()).chain(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    bytes
}

/// Threads per block of `sample.cu`.
pub const SAMPLE_THREADS: usize = 256;

/// Number of bins of logits, by their distance from the largest.
pub const BINS: usize = 512;

/// Maximum number of tokens that a block sorts.
pub const LISTED: usize = 2048;

/// Intermediate results of the sampling kernels.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Draw {
    /// Sums of weights, by bin or by block.
    pub sums: [u64; BINS],
    /// Number of tokens, by bin.
    pub counts: [u32; BINS],
    /// The tokens of the bins up to `limit`, in any order.
    pub list: [u32; LISTED],
    /// Sum of all weights.
    pub total: u64,
    /// Largest logit.
    pub peak: f32,
    /// Last bin that may have tokens to keep.
    pub limit: u32,
    /// Number of tokens in the bins up to `limit`.
    pub filled: u32,
    /// Number of tokens in `list`.
    pub listed: u32,
}

/// Samples a token for each row of logits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ChooseArgs {
    /// `[rows, width]`
    pub logits: Ptr<f32>,
    /// `[rows]`
    pub rules: ConstPtr<DeviceRule>,
    /// `[rows]`
    pub states: Ptr<RuleState>,
    /// `[rows]`
    pub draws: Ptr<Draw>,
    /// `[rows, blocks]`, the largest logit of each block.
    pub best: Ptr<f32>,
    /// `[rows, blocks]`, the token of the largest logit.
    pub at: Ptr<u32>,
    /// `[rows]`, zero between launches.
    pub counters: Ptr<u32>,
    /// `[slots, stride]`, in host memory.
    pub sampled: Ptr<u32>,
    /// `[rows]`, the sampled tokens, for the next step.
    pub tokens: Ptr<u32>,
    /// `[rows]`, `StepArgs::ids`, updated for the next step, which may follow if all tokens of this step have logits.
    pub ids: Ptr<u32>,
    /// `[rows]`, `StepArgs::positions`, updated likewise.
    pub positions: Ptr<u32>,
    /// Integer weight of the largest logit.
    pub unit: f64,
    pub width: u32,
    pub slots: u32,
    pub stride: u32,
    pub pad: u32,
}
