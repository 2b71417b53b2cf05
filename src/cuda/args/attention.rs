//! Arguments of heads, attention, and the selection of keys.

use super::{ConstPtr, DeviceKv, DeviceNorm, KvPlace, Ptr, StepArgs};

/// Queries and keys between projection and attention: norm, RoPE, then keys and values into the KV cache.
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
    /// `[n_pairs]`, radians per position, or null: no RoPE.
    pub inv_freq: ConstPtr<f64>,
    /// `[n_pairs]`, the M-RoPE axis of each pair, or null: axis 0 for all.
    pub axes: ConstPtr<u8>,
    pub n_pairs: u32,
    /// Boolean: rotates values 2i and 2i + 1 together, else i and i + n_pairs; i counts from `first`.
    pub adjacent: u32,
    /// Factor on sine and cosine.
    pub magnitude: f32,
    /// First value of a head that is rotated.
    pub first: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    /// Boolean: writes k and v to the KV cache.
    pub store: u32,
    /// Bits: norm weights differ by head, for q (1), for k (2).
    pub own_norms: u32,
    /// Subtracted from each rotary position, down to 0.
    pub position_offset: u32,
    pub pad: u32,
    pub layer: KvPlace,
}

/// Query rows per warp of attention, all of one KV head and one tile.
pub const ATTEND_ROWS: usize = 16;

/// Bytes of keys and values in the ring of a block of attention for few tokens.
pub const KV_RING_BYTES: usize = 64 << 10;

/// Warps per block of attention for few tokens.
pub const ATTEND_WARPS: usize = 4;

/// Rows per block of attention for prompts; half as many for heads wider than 128.
pub const PROMPT_ROWS: usize = 128;

/// Tokens per prompt tile, whose rows several blocks share.
pub const PROMPT_TOKENS: usize = 128;

/// The positions that are visible to a token.
#[repr(u32)]
pub enum Mask {
    /// The newest `window` positions up to the token's own (0: all), and later positions of its span.
    Newest = 0,
    /// Positions from the last multiple of `window` up to the token's own.
    OwnChunk = 1,
    /// Positions of the sequence at most `window` away from the token's.
    Around = 2,
    /// Positions of the token's span, or all of the sequence if the span is empty.
    Spans = 3,
    /// Positions of the token's span, or all up to its own if the span is empty.
    Source = 4,
    /// Positions after the end of the token's span, up to its own.
    AfterSpan = 5,
}

/// out = softmax(scale * q k^T + bias) v, head by head, over the KV cache.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendArgs {
    pub step: StepArgs,
    /// `[n, heads, head_dim]`
    pub q: ConstPtr<f32>,
    /// `[n, heads, value_dim]`
    pub out: Ptr<f32>,
    /// `[blocks of rows, splits, rows per block, 2 + value_dim]`: softmax maximum, softmax sum, weighted values.
    pub partials: Ptr<f32>,
    /// `[blocks of rows]`, zero between launches.
    pub counters: Ptr<u32>,
    /// `[heads]`, or null: ALiBi slopes; slope times distance is subtracted from a score.
    pub slopes: ConstPtr<f32>,
    /// `[heads]`, or null: attention sinks, scores without a value.
    pub sinks: ConstPtr<f32>,
    /// `[heads, 2 * distance_reach + 1]`, or null: biases of scores by key position minus query position.
    pub distances: ConstPtr<f32>,
    /// `[n, top]`, or null: visible positions of tokens that have more than `top`; ascending, padded with -1.
    pub among: ConstPtr<f32>,
    /// `[n, heads]`, or null: log2 of the softmax denominators of the attention that this launch continues in `out`.
    pub sums_before: ConstPtr<f32>,
    /// `[n, heads]`, or null: log2 of the final softmax denominators.
    pub sums: Ptr<f32>,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    pub mask: u32,
    /// Parameter of the mask, in positions.
    pub window: u32,
    /// Number of blocks among which the positions of a tile are split.
    pub splits: u32,
    pub scale: f32,
    /// Scores become softcap * tanh(score / softcap); 0: unchanged.
    pub softcap: f32,
    /// First tile of this launch.
    pub first_tile: u32,
    /// Largest distance in `distances`.
    pub distance_reach: u32,
    pub top: u32,
    pub layer: KvPlace,
}

/// Keys whose scores a block of `choose_keys` holds at once, and threads per block.
pub const SELECT_KEYS: usize = 256;

/// Maximum width of a key of `choose_keys`.
pub const SELECT_DIM: usize = 256;

/// The groups in which keys are selected.
#[repr(u32)]
pub enum GroupKind {
    /// Ranks groups by their last key; always adds all keys of the unfinished group.
    Pools = 0,
    /// Ranks groups by their best key.
    Blocks = 1,
}

/// out = the keys with the largest sums over heads of weight * max(q . k, 0); of equal keys, the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SelectArgs {
    pub step: StepArgs,
    /// `[n, heads, dim]`
    pub q: ConstPtr<f32>,
    /// `[n, heads]`
    pub weights: ConstPtr<f32>,
    /// `[n, top]`, in ascending order, padded with -1.
    pub out: Ptr<f32>,
    /// `[n, splits, groups]`, the groups selected in each split of the keys.
    pub found: Ptr<u64>,
    /// `[n]`, zero between launches.
    pub counters: Ptr<u32>,
    pub heads: u32,
    pub dim: u32,
    pub top: u32,
    /// Number of groups to select.
    pub groups: u32,
    /// Keys per group.
    pub size: u32,
    /// `GroupKind`.
    pub kind: u32,
    /// Number of newest groups that are always selected.
    pub local: u32,
    /// Number of blocks among which the keys of a token are split.
    pub splits: u32,
    /// Number of groups that a block keeps, a power of two.
    pub room: u32,
    pub pad: u32,
    pub layer: KvPlace,
}

/// `heads` and attention in one launch, for steps with one token per sequence.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendSingleArgs {
    pub attend: AttendArgs,
    pub heads: HeadsArgs,
}

/// Rotates heads for 4-bit caches: the Hadamard transform of every 32 values over sqrt(32), its own inverse.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HadamardArgs {
    /// `[n, heads, dim]`
    pub x: Ptr<f32>,
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// `StepArgs::kvs`.
    pub kvs: ConstPtr<DeviceKv>,
    pub heads: u32,
    /// Width of a head; values after the last whole 32 are unchanged.
    pub dim: u32,
    /// Boolean: applies if values (instead of keys) are in 4 bits.
    pub by_values: u32,
    pub pad: u32,
}
