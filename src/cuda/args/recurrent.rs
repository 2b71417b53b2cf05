//! Arguments of convolutions, pools and recurrences.

use super::{ConstPtr, Ptr, StepArgs};

/// Columns of a head's matrix per block of `recurrent.cu`.
pub const SCAN_COLUMNS: usize = 16;

/// Tokens per chunk of `recurrent_chunks.cu`, and columns per block.
pub const CHUNK_SIZE: usize = 32;

/// Threads per block of `recurrent_chunks.cu`.
pub const CHUNK_THREADS: usize = 256;

/// A causal convolution of each channel. In all recurrent ops, a tile holds all of a sequence's tokens in the step, and
/// `recurrent` is the offset, in values, of the op's state in the sequence's recurrent states.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConvArgs {
    pub step: StepArgs,
    /// `[n, width]`, replaced by the result.
    pub x: Ptr<f32>,
    /// `[taps, width]`, the oldest input first.
    pub kernel: ConstPtr<f32>,
    /// `[width]`, or null.
    pub bias: ConstPtr<f32>,
    /// The state is `[taps - 1, width]`.
    pub recurrent: u64,
    pub width: u32,
    pub taps: u32,
    /// Boolean: applies SiLU to the result.
    pub silu: u32,
    pub pad: u32,
}

/// Sums of groups of positions, weighted per channel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolArgs {
    pub step: StepArgs,
    /// `[n, width]`
    pub gate: ConstPtr<f32>,
    /// `[n, width]`
    pub x: ConstPtr<f32>,
    /// `[size, width]`
    pub bias: ConstPtr<f32>,
    /// `[n, out_width]`
    pub out: Ptr<f32>,
    /// The state is `[members - 1, 2, width]`: gates and values of the last tokens.
    pub recurrent: u64,
    pub width: u32,
    pub out_width: u32,
    pub size: u32,
    pub pad: u32,
}

/// The gated delta rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeltaArgs {
    pub step: StepArgs,
    /// `[n, key_heads, key_dim]`
    pub q: ConstPtr<f32>,
    /// `[n, key_heads, key_dim]`
    pub k: ConstPtr<f32>,
    /// `[n, heads, value_dim]`
    pub v: ConstPtr<f32>,
    /// `[n, heads]`, or `[n, heads, key_dim]` if `by_row`.
    pub dt: ConstPtr<f32>,
    /// `[n, heads]`
    pub beta: ConstPtr<f32>,
    /// `[heads]`
    pub rate: ConstPtr<f32>,
    /// `[n, heads, value_dim]`
    pub out: Ptr<f32>,
    /// The state is `[heads, key_dim, value_dim]`.
    pub recurrent: u64,
    pub heads: u32,
    pub key_heads: u32,
    pub key_dim: u32,
    pub value_dim: u32,
    /// Boolean: rows of the state have separate decays.
    pub by_row: u32,
    /// Boolean: head h reads key head h % key_heads, else h * key_heads / heads.
    pub tiled: u32,
    /// Number of input chunks that fit in shared memory, in `recurrent_chunks.cu`.
    pub stages: u32,
    pub pad: u32,
}

/// The selective scan.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScanArgs {
    pub step: StepArgs,
    /// `[n, heads, head_dim]`
    pub x: ConstPtr<f32>,
    /// `[n, heads]`
    pub dt: ConstPtr<f32>,
    /// `[n, groups, state]`
    pub b: ConstPtr<f32>,
    /// `[n, groups, state]`
    pub c: ConstPtr<f32>,
    /// `[heads]`, or `[state, heads]` if `by_state`.
    pub rate: ConstPtr<f32>,
    /// `[heads]`
    pub skip: ConstPtr<f32>,
    /// `[n, heads, head_dim]`
    pub out: Ptr<f32>,
    /// The state is `[state, heads, head_dim]`.
    pub recurrent: u64,
    pub heads: u32,
    pub head_dim: u32,
    pub groups: u32,
    pub state: u32,
    /// Boolean: rows of the state have separate decay rates.
    pub by_state: u32,
    /// As in `DeltaArgs`.
    pub stages: u32,
}

/// The recurrence of RWKV.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WkvArgs {
    pub step: StepArgs,
    /// `[n, heads, dim]`
    pub r: ConstPtr<f32>,
    /// `[n, key_heads, dim]`
    pub k: ConstPtr<f32>,
    /// `[n, key_heads, dim]`
    pub v: ConstPtr<f32>,
    /// `[n, heads, dim]`
    pub dt: ConstPtr<f32>,
    /// `a` and `b`, `[n, heads, dim]` each, or null.
    pub moved: [ConstPtr<f32>; 2],
    /// `[n, heads, dim]`
    pub out: Ptr<f32>,
    /// The state is `[heads, dim, dim]`.
    pub recurrent: u64,
    pub heads: u32,
    pub key_heads: u32,
    pub dim: u32,
    /// Boolean: rows decay by exp(rate * dt), else by exp(-exp(dt)).
    pub by_rate: u32,
    pub rate: f32,
    /// Boolean: results use the state before the token.
    pub before: u32,
    /// Boolean: keys are multiplied by 1 minus the decay.
    pub fades: u32,
    pub pad: u32,
}
