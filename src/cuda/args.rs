//! What the host and the kernels share: the parameter of each kernel, the structs that it points to, and constants.
//!
//! The only definition of both: the build writes `kernels/args.cuh` from this file. There a constant `BINS` is `kBins`,
//! a variant `Add` is `kAdd`, and these comments stand above what they describe. `[n, width]` is the shape of an array,
//! the last dimension contiguous; sizes and strides count values, not bytes.

use super::probe::Address;
use crate::graph::step;
use crate::quant;
use crate::tensor::DType;

/// What an address in device memory points to. Typed for the kernels; the host only computes with addresses.
pub trait Pointee {
    type Address;
}

impl<T> Pointee for T {
    type Address = Address;
}

/// The address of values that a kernel reads.
pub type ConstPtr<T> = <T as Pointee>::Address;

/// The address of values that a kernel writes.
pub type Ptr<T> = <T as Pointee>::Address;

/// Threads of a warp.
pub const WARP: usize = 32;

/// Types of matrices and caches, by GGML's numbers.
#[expect(non_camel_case_types)]
#[repr(u32)]
pub enum Type {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30,
}

/// A matrix in up to four planes, row after row and block after block; `quant.cuh` reads them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMatrix {
    pub planes: [ConstPtr<u8>; 4],
    /// `Type`.
    pub dtype: u32,
    pub rows: u32,
    /// A multiple of 32; columns after the model's own are zero.
    pub cols: u32,
    /// A power of two that scales of blocks are multiplied by to become normal numbers of binary16.
    pub factor: f32,
}

impl DeviceMatrix {
    pub fn dtype(&self) -> DType {
        DType(self.dtype)
    }
}

#[repr(u32)]
pub enum NormKind {
    NoNorm = 0,
    /// x / sqrt(mean of squares + eps)
    Rms = 1,
    /// (x - mean) / sqrt(variance + eps)
    Layer = 2,
}

/// The normalisation of a vector of `n` values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceNorm {
    /// `[n]`, or null for ones.
    pub weight: ConstPtr<f32>,
    /// `[n]`, or null for zeros.
    pub bias: ConstPtr<f32>,
    pub eps: f32,
    /// `NormKind`.
    pub kind: u32,
}

#[repr(u32)]
pub enum Activation {
    Silu = 0,
    /// By its tanh approximation.
    Gelu = 1,
    GeluErf = 2,
    Relu = 3,
    /// relu(x)^2
    Relu2 = 4,
    /// The activation of gpt-oss.
    ClampedSwiglu = 5,
    Identity = 6,
    Sigmoid = 7,
    Softplus = 8,
    /// silu(min(gate, limit)) * min(max(up, -limit), limit)
    SwigluOfClamped = 9,
    /// min(silu(gate), limit) * min(max(up, -limit), limit)
    SwigluThenClamped = 10,
    Tanh = 11,
    /// x * sigmoid(1.702 x)
    QuickGelu = 12,
    /// sqrt(max(|x|, 1e-6)) with the sign of x
    SignedRoot = 13,
    /// limit * tanh(gate / limit) * sigmoid(gate) * up_limit * tanh(up / up_limit), whose last factor is up for an
    /// up_limit of 0
    TanhSwiglu = 14,
}

/// The cache of one sequence. Keys and values are `[layer, kv head, position, stride]`, the stride being the width of a
/// head rounded up to 32. A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p %
/// ring.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceKv {
    pub k: Ptr<u8>,
    pub v: Ptr<u8>,
    /// Scales of Q8_0 and Q4_0: one binary16 for each 32 keys, in their order.
    pub k_scales: Ptr<u16>,
    pub v_scales: Ptr<u16>,
    /// Recurrent memories before the step; null: all are zero.
    pub from: ConstPtr<f32>,
    /// Recurrent memories after the step.
    pub to: Ptr<f32>,
    /// Positions; 0 for rows of padding, which write neither keys and values nor states.
    pub capacity: u32,
    /// Positions that a layer with a window keeps.
    pub ring: u32,
    /// `Type`: F32, F16, Q8_0 or Q4_0. Rows of the last are turned, `turn.cu`.
    pub k_type: u32,
    pub v_type: u32,
}

/// Values a position of all layers before one.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValuesBefore {
    /// Those of layers that keep all positions.
    pub whole: u32,
    /// Those of layers that keep a ring of the newest positions.
    pub rings: u32,
}

/// The place of a layer in a cache, counted in values a position, so that a recorded launch serves caches of every
/// capacity.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvPlace {
    pub k: ValuesBefore,
    pub v: ValuesBefore,
    pub k_stride: u32,
    pub v_stride: u32,
    /// Boolean.
    pub is_ring: u32,
    /// Boolean: values are the first numbers of their keys, whose place `v` repeats.
    pub is_latent: u32,
    /// Positions that share a key, which their last one stores.
    pub pool: u32,
    pub pad: u32,
}

/// Consecutive tokens of one sequence: those of a tile of attention, or all of the step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceTile {
    /// Index of the first token in the step.
    pub first: u32,
    /// Number of tokens.
    pub count: u32,
    /// Index of the sequence in `StepArgs::kvs`.
    pub slot: u32,
    /// Index of the sequence's last token in the step.
    pub last: u32,
}

/// Inputs of a step, arrays that are replaced before each step.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StepArgs {
    /// `[n]`, tokens.
    pub ids: ConstPtr<u32>,
    /// `[n]`
    pub positions: ConstPtr<u32>,
    /// `[n]`, indices into `kvs`.
    pub slots: ConstPtr<u32>,
    /// `[n_outputs]`, indices of the tokens that need logits.
    pub outputs: ConstPtr<u32>,
    /// `[n_tiles]`
    pub tiles: ConstPtr<DeviceTile>,
    /// One for each sequence of the step.
    pub kvs: ConstPtr<DeviceKv>,
    /// `[n, media_width]`, the numbers of tokens that are rows of media, or null: none is.
    pub media: ConstPtr<f32>,
    /// `[n, 3]`, what time, row and column of each token are ahead of its position, or null: nothing.
    pub turns: ConstPtr<u32>,
    /// `[n, 2]`, the last position that each token sees, and that of its sequence in the step, or null: its own.
    pub last: ConstPtr<u32>,
    /// Tokens.
    pub n: u32,
    pub n_outputs: u32,
    pub n_tiles: u32,
    pub media_width: u32,
}

/// In place of a token: the one that the step before has chosen.
pub const CHOSEN_BEFORE: u32 = 0xffffffff;

/// The id that stands for a row of media instead of a token.
pub const MEDIA_ROW: u32 = 0xfffffffe;

/// x = scale * row of a table, or x += that. For `MEDIA_ROW` x = the first numbers of the row of media, or row 0 of the
/// table counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EmbedArgs {
    pub table: DeviceMatrix,
    /// `[n]`, the row of each token, or null for row 0.
    pub rows: ConstPtr<u32>,
    /// `[n]`, the rows that `CHOSEN_BEFORE` stands for.
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

/// Numbers of a hash of ids, at most.
pub const NGRAM: usize = 8;

/// A head of an embedding of n-grams.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct NgramHead {
    /// Its first row of the table.
    pub first: u64,
    /// Number of its rows.
    pub rows: u64,
    /// Number of ids in a hash.
    pub n: u32,
    pub pad: u32,
}

/// Heads that one launch embeds.
pub const NGRAM_HEADS: usize = 16;

/// out = rows of a table side by side, by hashes of a token's id and of those before it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NgramArgs {
    pub step: StepArgs,
    pub table: DeviceMatrix,
    /// `[n]`, the ids that `CHOSEN_BEFORE` stands for.
    pub following: ConstPtr<u32>,
    /// `[n, stride]`, from the first head on.
    pub out: Ptr<f32>,
    /// Place of the memory, `[kept]`: one more than the ids of the last tokens, 0 where there are none.
    pub memory: u64,
    pub multipliers: [u64; NGRAM],
    pub heads: [NgramHead; NGRAM_HEADS],
    /// Numbers of a row of the table.
    pub width: u32,
    pub stride: u32,
    pub kept: u32,
    /// The id that ends what is hashed.
    pub end: u32,
    /// Boolean: keeps the ids for the next step.
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
    /// `[groups, group]`, changed only where there is a delta.
    pub x: Ptr<f32>,
    /// `[groups, group]`, or null: x stays.
    pub delta: ConstPtr<f32>,
    /// `[groups, group]`, or null: only the addition.
    pub out: Ptr<f32>,
    pub group: u32,
    /// Number of consecutive groups with weights of their own; the norm has `[own, group]` of them.
    pub own: u32,
    /// Factor on delta.
    pub scale: f32,
    /// Boolean: x += scale * norm(delta), and no more.
    pub of_delta: u32,
}

/// One of the matrices of a product.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub w: DeviceMatrix,
    /// `[n, w.rows]`
    pub out: Ptr<f32>,
    /// `[w.rows]`, or null.
    pub bias: ConstPtr<f32>,
}

/// Columns that a warp prepares at once; prepared rows of input are padded to a multiple.
pub const INPUT_STEP: usize = 256;

/// Matrices that one launch takes.
pub const MAX_SEGMENTS: usize = 4;

/// Threads of a block of matrix times vector (`gemv.cu`).
pub const GEMV_THREADS: usize = 384;

/// Rows of input that share each weight that `gemv.cu` reads, of matrices without blocks.
pub const GEMV_ROWS: usize = 8;

/// Rows of input of a block of `small_batch.cu`, at most.
pub const SMALL_BATCH_ROWS: usize = 64;

/// Columns of a turn of `small_batch.cu`.
pub const SMALL_BATCH_TURN: usize = 128;

/// The operation on the result y of a product.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Epilogue {
    /// out = y
    Store = 0,
    /// out += scale * y
    Add = 1,
    /// out of segment 0 = activation(y of segment 0) * y of segment 1
    Glu = 2,
    /// out = softcap * tanh(scale * y / softcap), or scale * y where softcap is 0
    Cap = 3,
}

/// Products of matrices that share an input: row y of the output is the matrix times row y of the input.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectArgs {
    pub segments: [Segment; 4],
    pub n_segments: u32,
    /// Columns of the input, without padding.
    pub cols: u32,
    pub epilogue: u32,
    /// `Activation` of the epilogue `Glu`.
    pub activation: u32,
    /// Factor of the epilogues `Add` and `Cap`.
    pub scale: f32,
    /// Bound of the epilogue `Cap`; `GluArgs::limit` of the epilogue `Glu`.
    pub softcap: f32,
    /// Rows of the output.
    pub n: u32,
    /// For one row or two (`gemv.cu`), here to `norm`. Bits: the block prepares the input as f32 (1), as signed bytes
    /// (2).
    pub forms: u32,
    /// `[rows, x_stride]`, rows that satisfy `PrepareArgs::simple`.
    pub x: ConstPtr<f32>,
    pub x_stride: u32,
    /// Row y of the output is of input row y / x_divisor.
    pub x_divisor: u32,
    /// `[n]`, or null. Matrices are stacks, of which row y uses matrix experts[y].
    pub experts: ConstPtr<u32>,
    /// Of the input.
    pub norm: DeviceNorm,
    /// For up to 8 rows of a matrix without blocks: `[n, padded cols]`, what `prepare` has left.
    pub prepared: ConstPtr<f32>,
    /// For `gemv.cu`: rows of all matrices, pairs of rows, or pairs of gate and up, one for a turn of a warp.
    pub turns: u32,
    /// Warps that share the turns.
    pub warps: u32,
    /// For tiles (`small_batch.cu`, `gemm.cu`, `wgmma.cu`), here to the end. `[rows, padded cols]`, binary16.
    pub halves: ConstPtr<u16>,
    /// `[rows]`, what `halves` was divided by.
    pub row_scales: ConstPtr<f32>,
    /// `[n]`, or null. Rows of the output sorted by expert: expert z = blockIdx.z has order[starts[z]..starts[z + 1]],
    /// which are of input rows order[i] / x_divisor.
    pub order: ConstPtr<u32>,
    /// `[experts + 1]`
    pub starts: ConstPtr<u32>,
    /// `[tiles with splits, splits, rows of a tile * tokens]`, partial sums.
    pub parts: Ptr<f32>,
    /// One for each tile, zero between launches.
    pub counters: Ptr<u32>,
    /// Blocks that share the columns of each tile after the first `whole`; the last of them adds their sums in order.
    pub splits: u32,
    /// Bit n: a matrix is of type n.
    pub types: u32,
    /// Tiles that have one block each, counted by rows first and tokens second.
    pub whole: u32,
    /// Tiles along the rows of the matrices.
    pub tiles: u32,
}

impl ProjectArgs {
    /// Replaces the matrices.
    pub fn take(&mut self, segments: &[Segment]) {
        self.segments[..segments.len()].copy_from_slice(segments);
        self.n_segments = segments.len() as u32;
    }
}

/// Normalises rows of input for matrices without blocks times few of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PrepareArgs {
    /// `[rows, cols]`
    pub x: ConstPtr<f32>,
    /// `[rows, padded]`, zero from `cols` on.
    pub rows: Ptr<f32>,
    pub norm: DeviceNorm,
    pub cols: u32,
    /// A multiple of `INPUT_STEP`.
    pub padded: u32,
    /// Boolean: `cols` is a multiple of four, and the norm has neither a mean nor a bias.
    pub simple: u32,
    pub pad: u32,
}

/// Orders of the columns of an input in binary16: that of the operands of the kernel that reads them.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnOrder {
    AsTheyAre = 0,
    /// For `small_batch.cu`.
    ForSmallBatch = 1,
    /// For `wgmma.cu`.
    ForGroups = 2,
}

/// halves = norm(x) / row_scales in binary16, each row divided by its own power of two.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HalvesArgs {
    /// `[rows, x_stride]`, `cols` values of each.
    pub x: ConstPtr<f32>,
    /// `[rows, padded]`, zero after the last column.
    pub halves: Ptr<u16>,
    /// `[rows]`
    pub row_scales: Ptr<f32>,
    pub norm: DeviceNorm,
    pub cols: u32,
    pub padded: u32,
    pub x_stride: u32,
    /// `ColumnOrder`.
    pub order: u32,
}

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
    /// The newest `window` positions up to its own; 0: all of them.
    Newest = 0,
    /// Those from the last multiple of `window` up to its own.
    OwnChunk = 1,
    /// Those of the sequence at most `window` away on either side.
    Around = 2,
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
pub const SELECT_DIM: usize = 128;

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

/// A change of the values of an activation.
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
    /// x = eps * tanh(factor * x / eps), or factor * x where eps is 0
    Softcap = 8,
}

/// Changes rows of `width` values in place.
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
    /// `[part]`, the place in `x` of each value, or null: in order.
    pub by: ConstPtr<f32>,
}

/// Tokens of a block of `project_heads` and of `adapt`, for which it expands the weights once.
pub const HEAD_TOKENS: usize = 8;

/// out[row, head] = w[head] * x[row, head][..cols], then x[row, head][cols..].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProjectHeadsArgs {
    /// `[heads * rows, cols]`
    pub w: DeviceMatrix,
    /// `[n, heads, from]`
    pub x: ConstPtr<f32>,
    /// `[n, heads, to]`
    pub out: Ptr<f32>,
    pub n: u32,
    pub heads: u32,
    /// Of the matrix of one head.
    pub rows: u32,
    pub cols: u32,
    pub from: u32,
    pub to: u32,
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

/// Sums of streams of a row, each times a factor of the row's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MixArgs {
    /// `[n, from, width]`
    pub x: ConstPtr<f32>,
    /// `[n, to, from]`, or null for ones.
    pub by: ConstPtr<f32>,
    /// `[n, out_width]`
    pub out: Ptr<f32>,
    /// Values of a stream.
    pub width: u32,
    /// Streams of `x`, and sums.
    pub from: u32,
    pub to: u32,
    /// Value of a row of `out` that its first sum begins with.
    pub first: u32,
    pub out_width: u32,
    /// Boolean: what `out` holds is a part of the sum.
    pub adds: u32,
    /// Factor on the sums.
    pub factor: f32,
    pub pad: u32,
}

/// Scales parts of rows to the size of a row of another activation, or leaves of rows what is far above their mean.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RescaleArgs {
    /// `[n, parts, width]`
    pub x: Ptr<f32>,
    /// `[n, width]`, or null.
    pub like: ConstPtr<f32>,
    pub width: u32,
    pub parts: u32,
    /// Deviations above the mean that a value has to have, without `like`.
    pub deviations: f32,
    pub pad: u32,
}

/// The sum of streams, weighted by a softmax of the product of each, over its root mean square, with a vector.
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

/// Makes a matrix of logits one whose rows and columns have the sum 1, and transposes it.
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

/// The dot products of heads of two activations.
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

/// A product with a factor of an adapter.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AdaptSegment {
    pub w: DeviceMatrix,
    /// `[n, cols]`
    pub x: ConstPtr<f32>,
    /// `[n, rows of w]`
    pub out: Ptr<f32>,
    /// Columns of the input, without padding.
    pub cols: u32,
    /// Factor on the result where that is added.
    pub factor: f32,
}

/// Products with factors of an adapter, for rows of sequences that have it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdaptArgs {
    pub segments: [AdaptSegment; 4],
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// The factor on the adapter for each sequence of the step; 0: it has not the adapter.
    pub factors: ConstPtr<f32>,
    pub n: u32,
    /// Boolean: results are added, times both factors.
    pub adds: u32,
}

/// How scores of experts become weights.
#[repr(u32)]
pub enum RouterScore {
    Softmax = 0,
    SoftmaxOfChosen = 1,
    SigmoidOfScore = 2,
    /// sqrt(ln(1 + e^x))
    RootOfSoftplus = 3,
    /// Softmax over those left, in the order of their scores, that lie within a fiftieth.
    SparseMixer = 4,
}

/// The number in place of an expert for rows of padding, which have none; larger than that of any.
#[expect(dead_code, reason = "kernels alone have it")]
pub const NO_EXPERT: u32 = 0xffffffff;

/// Chooses experts by scores.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RouteArgs {
    /// `[n, n_experts]`
    pub scores: ConstPtr<f32>,
    /// `[n, n_used]`
    pub experts: Ptr<u32>,
    /// `[n, n_used]`
    pub weights: Ptr<f32>,
    /// `[n_experts]`, or null: added for the choice, not to the weights.
    pub bias: ConstPtr<f32>,
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// `StepArgs::kvs`, or null where no row is padding.
    pub kvs: ConstPtr<DeviceKv>,
    /// `[ids, n_used]`, or null: the experts of each token by its id.
    pub by_id: ConstPtr<f32>,
    /// `[n]`, `StepArgs::ids`.
    pub ids: ConstPtr<u32>,
    /// `[n]`, the ids that `CHOSEN_BEFORE` stands for.
    pub following: ConstPtr<u32>,
    pub n_experts: u32,
    pub n_used: u32,
    /// `RouterScore`.
    pub score: u32,
    /// Boolean: weights are divided by their sum.
    pub renormalise: u32,
    /// Groups of equally many experts.
    pub groups: u32,
    /// Groups that are chosen from: those with the largest sums of their two best.
    pub groups_used: u32,
    /// Factor on the weights.
    pub scale: f32,
    /// Experts that have the same matrices, of which `experts` gets the numbers.
    pub sharing: u32,
}

/// Sorts picks by expert and keeps their order within an expert. A pick is one chosen expert of a token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupArgs {
    /// `[picks]`
    pub experts: ConstPtr<u32>,
    /// `[picks]`, indices of picks.
    pub order: Ptr<u32>,
    /// `[n_experts + 1]`, where those of an expert begin in `order`.
    pub starts: Ptr<u32>,
    pub picks: u32,
    pub pad: u32,
}

/// gate = activation(gate) * up for chosen experts, after factors and biases on both products.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExpertGluArgs {
    /// `[picks, stride]`
    pub gate: Ptr<f32>,
    /// `[picks, stride]`, or null: gate = activation(gate).
    pub up: ConstPtr<f32>,
    /// `[picks]`
    pub experts: ConstPtr<u32>,
    /// `[picks]`, or null: factors on the input of the products.
    pub weights: ConstPtr<f32>,
    /// `[n_experts]` each, or null: factors on gate and up.
    pub factors: [ConstPtr<f32>; 2],
    /// `[n_experts, ffn]` each, or null.
    pub biases: [ConstPtr<f32>; 2],
    /// picks * ffn
    pub n: u64,
    pub ffn: u32,
    pub stride: u32,
    /// `Activation`.
    pub activation: u32,
    /// `GluArgs::limit`.
    pub limit: f32,
    /// `GluArgs::up_limit`.
    pub up_limit: f32,
    pub pad: u32,
}

/// out = the weighted sum of the results of a token's experts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CombineArgs {
    /// `[n, n_used, width]`
    pub parts: ConstPtr<f32>,
    /// `[n, n_used]`, or null for ones.
    pub weights: ConstPtr<f32>,
    /// `[n, n_used]`
    pub experts: ConstPtr<u32>,
    /// `[n_experts]`, or null: factors on the parts.
    pub factors: ConstPtr<f32>,
    /// `[n_experts, width]`, or null.
    pub biases: ConstPtr<f32>,
    /// `[n, width]`
    pub out: Ptr<f32>,
    pub width: u32,
    pub n_used: u32,
    /// Boolean: adds `scale` times the sum to out instead of replacing it.
    pub accumulate: u32,
    pub scale: f32,
}

/// Columns of the matrix of a head that a block of `recurrent.cu` has.
pub const SCAN_COLUMNS: usize = 16;

/// Tokens of a chunk of `recurrent_chunks.cu`, and columns of a block.
pub const CHUNK_SIZE: usize = 32;

/// Threads of a block of `recurrent_chunks.cu`.
pub const CHUNK_THREADS: usize = 256;

/// A causal convolution of each channel. In all recurrences a tile of the step has all tokens of one sequence, and
/// `memory` is the place of an op's memory in that of the sequence, in values.
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
    /// The memory is `[taps - 1, width]`.
    pub memory: u64,
    pub width: u32,
    pub taps: u32,
    /// Boolean: the result goes through SiLU.
    pub silu: u32,
    pub pad: u32,
}

/// Sums of groups of positions, weighted channel by channel.
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
    /// The memory is `[members - 1, 2, width]`: gates and values of the last tokens.
    pub memory: u64,
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
    /// `[n, heads]`, or `[n, heads, key_dim]` where `by_row`.
    pub dt: ConstPtr<f32>,
    /// `[n, heads]`
    pub beta: ConstPtr<f32>,
    /// `[heads]`
    pub rate: ConstPtr<f32>,
    /// `[n, heads, value_dim]`
    pub out: Ptr<f32>,
    /// The memory is `[heads, key_dim, value_dim]`.
    pub memory: u64,
    pub heads: u32,
    pub key_heads: u32,
    pub key_dim: u32,
    pub value_dim: u32,
    /// Boolean: rows of the memory decay by steps of their own.
    pub by_row: u32,
    /// Boolean: head h reads key head h % key_heads, else h * key_heads / heads.
    pub tiled: u32,
    /// Chunks of inputs that shared memory has room for, in `recurrent_chunks.cu`.
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
    /// `[heads]`, or `[state, heads]` where `by_state`.
    pub rate: ConstPtr<f32>,
    /// `[heads]`
    pub skip: ConstPtr<f32>,
    /// `[n, heads, head_dim]`
    pub out: Ptr<f32>,
    /// The memory is `[state, heads, head_dim]`.
    pub memory: u64,
    pub heads: u32,
    pub head_dim: u32,
    pub groups: u32,
    pub state: u32,
    /// Boolean: rows of the memory decay by rates of their own.
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
    /// The memory is `[heads, dim, dim]`.
    pub memory: u64,
    pub heads: u32,
    pub key_heads: u32,
    pub dim: u32,
    /// Boolean: rows decay by exp(rate * dt), else by exp(-exp(dt)).
    pub by_rate: u32,
    pub rate: f32,
    /// Boolean: results are of the memory ahead of the token.
    pub before: u32,
    /// Boolean: keys count 1 less the decay times.
    pub fades: u32,
    pub pad: u32,
}

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

// What kernels know as constants and other parts of the library define.
const _: () = {
    assert!(CHOSEN_BEFORE == step::CHOSEN_BEFORE && MEDIA_ROW == step::MEDIA_ROW);
    assert!(NormKind::NoNorm as u32 == 0, "the kind of a default norm");
    assert!(Type::F32 as u32 == quant::F32.0 && Type::F16 as u32 == quant::F16.0 && Type::BF16 as u32 == quant::BF16.0);
    assert!(Type::Q4_0 as u32 == quant::Q4_0.0 && Type::Q4_1 as u32 == quant::Q4_1.0);
    assert!(Type::Q5_0 as u32 == quant::Q5_0.0 && Type::Q5_1 as u32 == quant::Q5_1.0);
    assert!(Type::Q8_0 as u32 == quant::Q8_0.0 && Type::Q4_K as u32 == quant::Q4_K.0);
    assert!(Type::Q5_K as u32 == quant::Q5_K.0 && Type::Q6_K as u32 == quant::Q6_K.0);
};
