//! The choice of a token.

use super::{ConstPtr, Ptr};

/// How the token after a row of logits is chosen.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// The largest logit.
    Likeliest = 0,
    /// A draw among tokens in the order of their ids.
    InOrder = 1,
    /// A draw among the tokens that `top_k` and `top_p` leave, the likeliest first.
    ByRank = 2,
}

/// Added to the logit of a token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bias {
    pub id: u32,
    pub value: f32,
}

/// A rule by which a token is chosen; the results are those of src/sample, to the bit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceRule {
    /// 1 / temperature
    pub inverse: f64,
    /// `[n_biases]`, those of the same token in their order.
    pub biases: ConstPtr<Bias>,
    /// `[window]`, the newest tokens in any order.
    pub recent: Ptr<u32>,
    /// One bit for each token, or null: all are allowed.
    pub allowed: ConstPtr<u32>,
    /// `RuleKind`.
    pub kind: u32,
    pub n_biases: u32,
    pub window: u32,
    /// Chosen where no token can be.
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

/// The part of a rule that each choice changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RuleState {
    /// State of SplitMix64.
    pub random: u64,
    /// Tokens in `recent`.
    pub n_recent: u32,
    /// Index in `recent` of the next one.
    pub next: u32,
    /// Slot of the step among those in flight.
    pub slot: u32,
    pub pad: u32,
}

impl RuleState {
    pub fn to_bytes(self) -> [u8; size_of::<RuleState>()] {
        in_bytes(&[self.random], [self.n_recent, self.next, self.slot, self.pad])
    }
}

/// Long words, then words, in the order of the device's bytes.
fn in_bytes<const N: usize>(longs: &[u64], words: impl IntoIterator<Item = u32>) -> [u8; N] {
    let mut bytes = [0; N];
    let all = longs.iter().flat_map(|w| w.to_le_bytes()).chain(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    bytes
}

/// Threads of a block of `sample.cu`.
pub const SAMPLE_THREADS: usize = 256;

/// Bins of logits, by their distance from the largest.
pub const BINS: usize = 512;

/// Tokens that a block sorts, at most.
pub const LISTED: usize = 2048;

/// Intermediate results of the kernels that choose a token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Draw {
    /// Sums of weights, by bin or by block.
    pub sums: [u64; BINS],
    /// Numbers of tokens, by bin.
    pub counts: [u32; BINS],
    /// The tokens of the bins up to `limit`, in any order.
    pub list: [u32; LISTED],
    /// Sum of all weights.
    pub total: u64,
    /// The largest logit.
    pub peak: f32,
    /// The last bin that may have tokens which are kept.
    pub limit: u32,
    /// Number of tokens in the bins up to `limit`.
    pub filled: u32,
    /// Number of tokens in `list`.
    pub listed: u32,
}

/// Chooses a token for each row of logits.
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
    /// `[rows, blocks]`, its token.
    pub at: Ptr<u32>,
    /// `[rows]`, zero between launches.
    pub counters: Ptr<u32>,
    /// `[slots, stride]`, in memory of the host.
    pub answers: Ptr<u32>,
    /// `[rows]`, the chosen tokens, for the next step.
    pub tokens: Ptr<u32>,
    /// `[rows]`, `StepArgs::ids`: becomes that of the next step, which may follow where all tokens of this one have
    /// logits.
    pub ids: Ptr<u32>,
    /// `[rows]`, `StepArgs::positions`: likewise.
    pub positions: Ptr<u32>,
    /// Integer weight of the largest logit.
    pub unit: f64,
    pub width: u32,
    pub slots: u32,
    pub stride: u32,
    pub pad: u32,
}
