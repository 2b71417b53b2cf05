//! Arguments of ops on rows of activations: embeddings, norms, activation functions, and residual streams.

use super::{ConstPtr, DeviceMatrix, DeviceNorm, Ptr, StepArgs};

/// x = scale * row of a table, or x += scale * row. For `MEDIA_ROW`, x = the start of the media row, or table row 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EmbedArgs {
    pub table: DeviceMatrix,
    /// `[n]`, the row of each token, or null for row 0.
    pub rows: ConstPtr<u32>,
    /// `[n]`, the rows that replace `CHOSEN_BEFORE`.
    pub following: ConstPtr<u32>,
    /// `[n, media_width]`, or null.
    pub media: ConstPtr<f32>,
    /// `[n, width]`
    pub x: Ptr<f32>,
    pub width: u32,
    /// Boolean: adds to x instead of replacing it.
    pub accumulate: u32,
    pub scale: f32,
    pub media_width: u32,
}

/// Maximum number of ids in a hash.
pub const NGRAM: usize = 8;

/// A head of an n-gram embedding.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct NgramHead {
    /// First row of the head in the table.
    pub first: u64,
    /// Number of rows of the head.
    pub rows: u64,
    /// Number of ids in a hash.
    pub n: u32,
    pub pad: u32,
}

/// Number of heads per launch.
pub const NGRAM_HEADS: usize = 16;

/// out = adjacent rows of a table, by hashes of a token's id and the preceding ids.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NgramArgs {
    pub step: StepArgs,
    pub table: DeviceMatrix,
    /// `[n]`, the ids that replace `CHOSEN_BEFORE`.
    pub following: ConstPtr<u32>,
    /// `[n, stride]`, starting at the first head.
    pub out: Ptr<f32>,
    /// Offset of the state, `[kept]`: ids of the last tokens plus one, 0 if there are none.
    pub recurrent: u64,
    pub multipliers: [u64; NGRAM],
    pub heads: [NgramHead; NGRAM_HEADS],
    /// Width of a table row.
    pub width: u32,
    pub stride: u32,
    pub kept: u32,
    /// The id at which hashing stops.
    pub end: u32,
    /// Boolean: saves the ids for the next step.
    pub keeps: u32,
    pub pad: u32,
}

/// Copies rows of two activations: to[i][r] = from[i][rows[r]].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeepRowsArgs {
    /// `[rows of the step, widths[i]]` each.
    pub from: [ConstPtr<f32>; 2],
    /// `[kept rows, widths[i]]` each.
    pub to: [Ptr<f32>; 2],
    /// `[kept rows]`
    pub rows: ConstPtr<u32>,
    pub widths: [u32; 2],
}

/// x += scale * delta, then out = norm(x), in groups of `group` values.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NormArgs {
    pub norm: DeviceNorm,
    /// `[groups, group]`, changed only if there is a delta.
    pub x: Ptr<f32>,
    /// `[groups, group]`, or null: x is unchanged.
    pub delta: ConstPtr<f32>,
    /// `[groups, group]`, or null: only the addition.
    pub out: Ptr<f32>,
    pub group: u32,
    /// Number of consecutive groups with their own weights; the norm has `[own, group]` weights.
    pub own: u32,
    /// Factor on delta.
    pub scale: f32,
    /// Boolean: only x += scale * norm(delta).
    pub of_delta: u32,
}

/// gate = activation(gate) * up
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GluArgs {
    /// `[n]`
    pub gate: Ptr<f32>,
    /// `[n]`, or null: gate = activation(gate).
    pub up: ConstPtr<f32>,
    pub n: u64,
    /// `Activation`.
    pub activation: u32,
    /// Limit of the activation.
    pub limit: f32,
    /// Limit of `up` in the activation `TanhSwiglu`.
    pub up_limit: f32,
    pub pad: u32,
}

/// An operation on the values of an activation.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modification {
    /// x *= factor
    Scale = 0,
    /// x = min(max(x, slope), factor)
    Limit = 1,
    /// x *= by[column]
    ByColumn = 2,
    /// x *= 1 + factor * ln(floor((position + offset) / length) + 1)
    ByPosition = 3,
    /// x *= sigmoid(by[row, column / length])
    BySigmoid = 4,
    /// x *= by[row, column / length]
    ByGate = 5,
    /// x = factor * x^2 + slope * x for x > 0, else fall * (e^min(x, eps) - 1 - x) + slope * x
    Xielu = 6,
    /// x += by[row, column] for rows of media, with `length` columns
    AddMedia = 7,
    /// x = eps * tanh(factor * x / eps), or factor * x if eps is 0
    Softcap = 8,
}

/// Modifies rows of `width` values in place.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ModifyArgs {
    /// `[rows, width]`
    pub x: Ptr<f32>,
    /// `[width]`, `[rows, width / length]`, or `[rows, length]`.
    pub by: ConstPtr<f32>,
    /// `[rows]`
    pub ids: ConstPtr<u32>,
    /// `[rows]`
    pub positions: ConstPtr<u32>,
    pub width: u32,
    /// `Modification`.
    pub kind: u32,
    pub factor: f32,
    pub length: u32,
    pub offset: u32,
    pub fall: f32,
    pub slope: f32,
    pub eps: f32,
}

/// out[row, head] = x[row, head][..part], or x[row, head][by], then tail[row].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct JoinArgs {
    /// `[rows, heads, x_stride]`
    pub x: ConstPtr<f32>,
    /// `[rows, tail_width]`
    pub tail: ConstPtr<f32>,
    /// `[rows, heads, part + tail_width]`
    pub out: Ptr<f32>,
    pub heads: u32,
    pub part: u32,
    pub x_stride: u32,
    pub tail_width: u32,
    /// `[part]`, the index in `x` of each value, or null: in order.
    pub by: ConstPtr<f32>,
}

/// Sums of the residual streams of a row, with factors per row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MixArgs {
    /// `[n, from, width]`
    pub x: ConstPtr<f32>,
    /// `[n, to, from]`, or null for ones.
    pub by: ConstPtr<f32>,
    /// `[n, out_width]`
    pub out: Ptr<f32>,
    /// Width of a stream.
    pub width: u32,
    /// Number of input streams, and of sums.
    pub from: u32,
    pub to: u32,
    /// Column of `out` where the first sum begins.
    pub first: u32,
    pub out_width: u32,
    /// Boolean: adds to `out` instead of replacing it.
    pub adds: u32,
    /// Factor on the sums.
    pub factor: f32,
    pub pad: u32,
}

/// Scales parts of rows to the RMS of a row of another activation, or thresholds rows above their mean.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RescaleArgs {
    /// `[n, parts, width]`
    pub x: Ptr<f32>,
    /// `[n, width]`, or null.
    pub like: ConstPtr<f32>,
    pub width: u32,
    pub parts: u32,
    /// Threshold in standard deviations above the mean, without `like`.
    pub deviations: f32,
    pub pad: u32,
}

/// The sum of streams, weighted by a softmax of each stream's product with a vector, divided by the stream's RMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MixByScoreArgs {
    /// `[n, streams, width]`
    pub x: ConstPtr<f32>,
    /// `[width]`
    pub by: ConstPtr<f32>,
    /// `[n, width]`
    pub out: Ptr<f32>,
    pub width: u32,
    pub streams: u32,
    pub eps: f32,
    pub pad: u32,
}

/// Sinkhorn normalization of a matrix of logits (rows and columns then sum to 1), followed by transposition.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SinkhornArgs {
    /// `[n, size, size]`
    pub x: Ptr<f32>,
    pub size: u32,
    pub rounds: u32,
    pub eps: f32,
    pub pad: u32,
}

/// Dot products of heads of two activations.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DotArgs {
    /// `[n, heads, dim]`
    pub x: ConstPtr<f32>,
    /// `[n, heads, dim]`
    pub y: ConstPtr<f32>,
    /// `[n, heads]`
    pub out: Ptr<f32>,
    pub heads: u32,
    pub dim: u32,
}
