//! Heads, attention, and choices of the keys that it sees.

use super::{ConstPtr, DeviceKv, DeviceNorm, KvPlace, Ptr, StepArgs};

/// Queries and keys between their projection and attention: norm, rotation, then keys and values into the cache.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeadsArgs {
    pub step: StepArgs,
    /// `[n, heads, head_dim]`
    pub q: Ptr<f32>,
    /// `[n, kv_heads, head_dim]`
    pub k: Ptr<f32>,
    /// `[n, kv_heads, value_dim]`, or null.
    pub v: ConstPtr<f32>,
    pub q_norm: DeviceNorm,
    pub k_norm: DeviceNorm,
    /// `[n_pairs]`, radians a position, or null: no rotation.
    pub inv_freq: ConstPtr<f64>,
    /// `[n_pairs]`, the turn of each pair, or null: 0 for all.
    pub axes: ConstPtr<u8>,
    pub n_pairs: u32,
    /// Boolean: pair i has values 2i and 2i + 1, else i and i + n_pairs; all after `first`.
    pub adjacent: u32,
    /// Factor on sine and cosine.
    pub magnitude: f32,
    /// Value of a head that the first pair begins with.
    pub first: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    /// Boolean: writes k and v to the cache.
    pub store: u32,
    /// Bits: each head has norm weights of its own, of q (1), of k (2).
    pub own_norms: u32,
    /// Less than a turn counts, down to 0.
    pub behind: u32,
    pub pad: u32,
    pub layer: KvPlace,
}

/// Rows of a warp of attention: queries of the same KV head, whose tokens are of one tile.
pub const ATTEND_ROWS: usize = 16;

/// Warps of a block of attention for few tokens.
pub const ATTEND_WARPS: usize = 4;

/// Rows of a block of attention for prompts; half as many for heads longer than 128.
pub const PROMPT_ROWS: usize = 128;

/// Tokens of a tile of a prompt, whose rows are those of several blocks.
pub const PROMPT_TOKENS: usize = 128;

/// The positions that a token sees.
#[repr(u32)]
pub enum Mask {
    /// The newest `window` positions up to its own, 0: all of them; and those after it that its span has.
    Newest = 0,
    /// Those from the last multiple of `window` up to its own.
    OwnChunk = 1,
    /// Those of the sequence at most `window` away on either side.
    Around = 2,
    /// Those of the token's span, or of the sequence where that is empty.
    Spans = 3,
    /// The positions of the token's span, or those up to its own where the span is empty.
    Source = 4,
    /// The positions behind its span, up to its own.
    Behind = 5,
}

/// out = softmax(scale * q k^T + bias) v, head by head, over the cache.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendArgs {
    pub step: StepArgs,
    /// `[n, heads, head_dim]`
    pub q: ConstPtr<f32>,
    /// `[n, heads, value_dim]`
    pub out: Ptr<f32>,
    /// `[blocks of rows, splits, rows of a block, 2 + value_dim]`: maximum and sum of the weights, then the weighted
    /// values.
    pub partials: Ptr<f32>,
    /// `[blocks of rows]`, zero between launches.
    pub counters: Ptr<u32>,
    /// `[heads]`, or null: times the distance, subtracted from a score.
    pub slopes: ConstPtr<f32>,
    /// `[heads]`, or null: one more score, without a value.
    pub sinks: ConstPtr<f32>,
    /// `[heads, 2 * distance_reach + 1]`, or null: added to a score by the distance of the position behind the token's.
    pub distances: ConstPtr<f32>,
    /// `[n, top]`, or null: the positions that a token with more than `top` keys sees, in ascending order, -1 behind
    /// them.
    pub among: ConstPtr<f32>,
    /// `[n, heads]`, or null: logarithms, to base 2, of sums of weights that a softmax goes on from, and from what
    /// `out` holds.
    pub sums_before: ConstPtr<f32>,
    /// `[n, heads]`, or null: those that it ends with.
    pub sums: Ptr<f32>,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    pub mask: u32,
    /// Positions.
    pub window: u32,
    /// Blocks that share the positions of a tile.
    pub splits: u32,
    pub scale: f32,
    /// Scores become softcap * tanh(score / softcap); 0: they stay.
    pub softcap: f32,
    /// Tile of the first block of this launch.
    pub first_tile: u32,
    /// Greatest distance in `distances`.
    pub distance_reach: u32,
    pub top: u32,
    pub layer: KvPlace,
}

/// Keys whose scores a block of `choose_keys` has at once, and threads of one.
pub const SELECT_KEYS: usize = 256;

/// Numbers of the longest key of `choose_keys`.
pub const SELECT_DIM: usize = 256;

/// The groups of keys that are chosen as one.
#[repr(u32)]
pub enum GroupKind {
    /// Ranked by the last of their keys; after them all keys of an unfinished one.
    Pools = 0,
    /// Ranked by the best of their keys.
    Blocks = 1,
}

/// out = the keys with the greatest sums over heads of weight * max(q . k, 0), of equal ones the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SelectArgs {
    pub step: StepArgs,
    /// `[n, heads, dim]`
    pub q: ConstPtr<f32>,
    /// `[n, heads]`
    pub weights: ConstPtr<f32>,
    /// `[n, top]`, in ascending order, -1 behind them.
    pub out: Ptr<f32>,
    /// `[n, splits, groups]`, what each share of the keys has found.
    pub found: Ptr<u64>,
    /// `[n]`, zero between launches.
    pub counters: Ptr<u32>,
    pub heads: u32,
    pub dim: u32,
    pub top: u32,
    /// Number of groups to choose.
    pub groups: u32,
    /// Keys of a group.
    pub size: u32,
    /// `GroupKind`.
    pub kind: u32,
    /// Last groups that are always chosen.
    pub local: u32,
    /// Blocks that share the keys of a token.
    pub splits: u32,
    /// Groups that a block keeps, a power of two.
    pub room: u32,
    pub pad: u32,
    pub layer: KvPlace,
}

/// `heads` and attention in one launch, for tokens that are the only ones of their sequences in a step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendAloneArgs {
    pub attend: AttendArgs,
    pub heads: HeadsArgs,
}

/// Turns heads of sequences whose cache holds them in 4 bits: the Hadamard transform of each 32 values, divided by the
/// root of 32, which is its own inverse.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TurnArgs {
    /// `[n, heads, dim]`
    pub x: Ptr<f32>,
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// `StepArgs::kvs`.
    pub kvs: ConstPtr<DeviceKv>,
    pub heads: u32,
    /// Values after the last whole 32 stay as they are.
    pub dim: u32,
    /// Boolean: where values are in 4 bits, and not keys.
    pub by_values: u32,
    pub pad: u32,
}
