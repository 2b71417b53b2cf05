//! Products with matrices, and with the factors of adapters.

use super::{ConstPtr, DeviceMatrix, DeviceNorm, Ptr};

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
