//! Arguments of products with matrices, and with the factors of LoRA adapters.

use super::{ConstPtr, DeviceMatrix, DeviceNorm, Ptr, RouteArgs};

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

/// Columns that a warp prepares at once; prepared input rows are padded to a multiple of it.
pub const INPUT_STEP: usize = 256;

/// Maximum number of matrices per launch.
pub const MAX_SEGMENTS: usize = 4;

/// Threads per block of `gemv.cu`.
pub const GEMV_THREADS: usize = 384;

/// Threads per block of `gemv_ring.cu`, columns of a piece of a row, and bytes of a block's ring.
pub const RING_THREADS: usize = 256;
pub const RING_COLUMNS: usize = 2048;
pub const RING_BYTES: usize = 80 << 10;

/// Maximum number of input rows per weight load of `gemv.cu`, for non-block matrices.
pub const GEMV_ROWS: usize = 8;

/// Maximum number of input rows per block of `small_batch.cu`.
pub const SMALL_BATCH_ROWS: usize = 64;

/// Columns per stage of `small_batch.cu`.
pub const SMALL_BATCH_CHUNK: usize = 128;

/// Stages of input in shared memory of `wgmma.cu`, of `SMALL_BATCH_CHUNK` columns each.
pub const GROUP_STAGES: usize = 3;

/// Columns per stage of `gemm_int8.cu`.
pub const BYTE_CHUNK: usize = 64;

/// Stages of input in shared memory of `gemm_int8.cu`.
pub const BYTE_STAGES: usize = 3;

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
    /// out = softcap * tanh(scale * y / softcap), or scale * y if softcap is 0
    Cap = 3,
}

/// Products of matrices with the same input: row y of the output is the matrix times row y of the input.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectArgs {
    pub segments: [Segment; 4],
    pub n_segments: u32,
    /// Number of input columns, without padding.
    pub cols: u32,
    pub epilogue: u32,
    /// `Activation` of the epilogue `Glu`.
    pub activation: u32,
    /// Factor of the epilogues `Add` and `Cap`.
    pub scale: f32,
    /// Bound of the epilogue `Cap`; `GluArgs::limit` of the epilogue `Glu`.
    pub softcap: f32,
    /// Number of output rows.
    pub n: u32,
    /// Fields up to `norm` are for one or two rows (`gemv.cu`). Bits: blocks prepare the input as f32 (1), as i8 (2).
    pub forms: u32,
    /// `[rows, x_stride]`, rows that satisfy `PrepareArgs::simple`.
    pub x: ConstPtr<f32>,
    pub x_stride: u32,
    /// Row y of the output uses input row y / x_divisor.
    pub x_divisor: u32,
    /// `[n]`, or null. For stacked matrices: row y uses matrix experts[y].
    pub experts: ConstPtr<u32>,
    /// For one row of experts (`gemv.cu`): selects `experts` and writes them to memory. Null `scores`: they are there.
    pub route: RouteArgs,
    /// Norm of the input.
    pub norm: DeviceNorm,
    /// For up to 8 rows of a non-block matrix: `[n, padded cols]`, the result of `prepare`.
    pub prepared: ConstPtr<f32>,
    /// For `gemv.cu`: number of row groups (a matrix row, a pair of rows, or a gate row with its up row).
    pub row_groups: u32,
    /// Number of warps; each handles one of `row_groups` at a time.
    pub warps: u32,
    /// From here on for tiles (`small_batch.cu`, `gemm.cu`, `gemm_int8.cu`, `wgmma.cu`). `[rows, padded cols]`, in
    /// binary16 or bytes (`ColumnOrder`).
    pub halves: ConstPtr<u16>,
    /// `[rows]`, divisors of `halves`.
    pub row_scales: ConstPtr<f32>,
    /// `[n]`, or null: output rows sorted by expert. Expert z = blockIdx.z has order[starts[z]..starts[z + 1]]; output
    /// row order[i] uses input row order[i] / x_divisor.
    pub order: ConstPtr<u32>,
    /// `[experts + 1]`
    pub starts: ConstPtr<u32>,
    /// `[tiles with splits, splits, rows per tile * tokens]`, partial sums.
    pub parts: Ptr<f32>,
    /// One per tile, zero between launches.
    pub counters: Ptr<u32>,
    /// Split-K factor of the tiles after the first `whole`; the last block of a tile adds the partial sums in order.
    pub splits: u32,
    /// Bit n: some matrix has type n.
    pub types: u32,
    /// Number of unsplit tiles, which come first; tiles are counted along matrix rows first, then along tokens.
    pub whole: u32,
    /// Number of tiles along the rows of the matrices.
    pub tiles: u32,
    /// For `ring_mixed`: number of blocks of each matrix.
    pub ring_blocks: [u32; 4],
}

impl ProjectArgs {
    /// Replaces the matrices.
    pub fn take(&mut self, segments: &[Segment]) {
        self.segments[..segments.len()].copy_from_slice(segments);
        self.n_segments = segments.len() as u32;
    }
}

/// Normalizes input rows for products with few rows and non-block matrices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PrepareArgs {
    /// `[rows, cols]`
    pub x: ConstPtr<f32>,
    /// `[rows, padded]`, zero from `cols` on.
    pub rows: Ptr<f32>,
    pub norm: DeviceNorm,
    pub cols: u32,
    /// Padded number of columns, a multiple of `INPUT_STEP`.
    pub padded: u32,
    /// Boolean: `cols` is a multiple of four, and the norm has neither a mean nor a bias.
    pub simple: u32,
    pub pad: u32,
}

/// Forms of an input: orders of the columns in binary16, each for the operands of some kernels, or bytes.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnOrder {
    AsTheyAre = 0,
    /// For operands in registers (`small_batch.cu`, `wgmma.cu`).
    ForOperands = 1,
    /// For `gemm_int8.cu`: `padded` signed bytes of a row, then a scale and a sum in f32 for each 32 of them.
    Bytes = 2,
}

/// halves = norm(x) / row_scales in binary16, each row divided by its own power of two; or norm(x) in bytes.
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

/// Tokens per block of `project_heads` and `adapt`, which dequantize the weights once.
pub const HEAD_TOKENS: usize = 8;

/// out[row, head] = concat(w[head] * x[row, head][..cols], x[row, head][cols..]).
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
    /// Number of rows of one head's matrix.
    pub rows: u32,
    pub cols: u32,
    pub from: u32,
    pub to: u32,
}

/// A product with matrix A or B of a LoRA adapter.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AdaptSegment {
    pub w: DeviceMatrix,
    /// `[n, cols]`
    pub x: ConstPtr<f32>,
    /// `[n, rows of w]`
    pub out: Ptr<f32>,
    /// Number of input columns, without padding.
    pub cols: u32,
    /// Scale of the result, if it is added.
    pub factor: f32,
}

/// Products with matrix A or B of a LoRA adapter, for rows of sequences that use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdaptArgs {
    pub segments: [AdaptSegment; 4],
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// The adapter's scale for each sequence of the step; 0: the sequence does not use the adapter.
    pub factors: ConstPtr<f32>,
    pub n: u32,
    /// Boolean: adds the results, times both scales, instead of storing them.
    pub adds: u32,
}
