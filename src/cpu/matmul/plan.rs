//! The plan of matrix products: the operands, the parts of rows, columns and tokens, and the memory for them. Nothing
//! here computes; the parts depend neither on timing nor on the executing thread.

use std::ops::Range;

use crate::cpu::kernels::activations::InputType;
use crate::cpu::kernels::float_gemm::FLOAT_PANELS;
use crate::cpu::kernels::table::{BlockKernels, FloatKernels, MatmulKernels};
use crate::cpu::kernels::{GROUP, PANEL_ROWS};
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::cpu::memory::Lines;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::error::Result;

/// Returns the maximum number of columns of a tile: two row panels of unpacked weights and their activations fit in an
/// L1 cache of 32 KiB. A multiple of every block length.
pub const fn max_columns(input: InputType) -> usize {
    match input {
        InputType::I8 => 768,
        InputType::I16 => 384,
        // Processors with AMX tiles have an L1 cache of 48 KiB.
        InputType::Bf16 => 512,
    }
}
/// Maximum number of columns of F32 weights that are multiplied at a time.
pub const FLOAT_COLUMNS: usize = 256;

/// Number of tokens that share an unpacked tile: their activations in its columns, and results of some tiles, fit in an
/// L2 cache of 1 MiB.
pub const TOKEN_BLOCK: usize = 256;

/// Maximum number of tiles in a unit of work; more would hardly improve the reuse of activations.
pub const TILES_PER_UNIT: usize = 8;

/// Number of units of work per thread if there are many tokens, so that threads finish together.
pub const UNITS_PER_THREAD: usize = 6;

/// Maximum number of row panels in a tile.
pub const TILE_PANELS: usize = 2;

/// One product of a call of `multiply`.
pub struct MatmulJob<'a> {
    pub(crate) matrix: WeightMatrix,
    pub(crate) bytes: &'a [u8],
    pub(crate) bias: Option<&'a [f32]>,
    /// `[tokens, rows]`
    pub(crate) out: DisjointSlice<'a, f32>,
}

impl<'a> MatmulJob<'a> {
    /// Returns a job for `out = W x + bias`; `out` is `[tokens, rows]`.
    pub fn new(matrix: WeightMatrix, bytes: &'a [u8], bias: Option<&'a [f32]>, out: &'a mut [f32]) -> Self {
        assert!(bytes.len() == matrix.bytes(), "{} bytes, {} expected", bytes.len(), matrix.bytes());
        assert!(bias.is_none_or(|bias| bias.len() == matrix.rows));
        MatmulJob { matrix, bytes, bias, out: DisjointSlice::new(out) }
    }

    /// Returns the number of row panels.
    pub(crate) fn panels(&self) -> usize {
        self.matrix.rows.div_ceil(PANEL_ROWS)
    }
}

/// The kernels that multiply a matrix.
#[derive(Clone, Copy)]
pub enum JobKernels {
    Blocks(&'static BlockKernels),
    Floats(&'static FloatKernels),
}

impl JobKernels {
    pub fn of(kernels: &MatmulKernels, matrix: &WeightMatrix) -> JobKernels {
        match ((kernels.blocks)(matrix.dtype()), (kernels.floats)(matrix.dtype())) {
            (Some(blocks), _) if matrix.cols().is_multiple_of(GROUP * blocks.groups) => JobKernels::Blocks(blocks),
            (_, floats) => JobKernels::Floats(floats.expect("`PackedLayout` has checked the type")),
        }
    }
}

/// Memory for the products of one step at a time: quantized activations and each thread's scratch. Untouched parts take
/// no memory.
pub struct MatmulWorkspace {
    pub(crate) activations: QuantizedActivations,
    pub(crate) threads: Lines,
}

/// Activations of both integer types. BF16 activations, which never occur together with integers, use the space of
/// 16-bit integers.
pub struct QuantizedActivations {
    i8: Lines,
    i16: Lines,
}

impl QuantizedActivations {
    pub fn of(&self, input: InputType) -> &[u8] {
        match input {
            InputType::I8 => &self.i8,
            InputType::I16 | InputType::Bf16 => &self.i16,
        }
    }

    pub fn of_mut(&mut self, input: InputType) -> &mut [u8] {
        match input {
            InputType::I8 => &mut self.i8,
            InputType::I16 | InputType::Bf16 => &mut self.i16,
        }
    }
}

/// Sizes of the parts of a thread's scratch in bytes.
const TILE: usize = TILE_PANELS * max_columns(InputType::I8) / GROUP * 12 * 64;
pub const WEIGHTS: usize = FLOAT_PANELS * FLOAT_COLUMNS * PANEL_ROWS * 4;
const RESULTS: usize = TILES_PER_UNIT * TOKEN_BLOCK * TILE_PANELS * PANEL_ROWS * 4;
pub const SCRATCH: usize = TILE + WEIGHTS + RESULTS;

impl MatmulWorkspace {
    /// Allocates for inputs of at most `max_tokens` tokens with at most `max_cols` values each.
    pub fn new(threads: usize, max_tokens: usize, max_cols: usize) -> Result<MatmulWorkspace> {
        // `gemv` rounds the number of tokens up to a power of two.
        let slots = max_tokens.max(1).checked_next_power_of_two().unwrap_or(max_tokens);
        let activations = |input: InputType| {
            let bytes = max_cols.div_ceil(GROUP).checked_mul(input.bytes()).and_then(|n| n.checked_mul(slots));
            Lines::new("activations", bytes)
        };
        Ok(MatmulWorkspace {
            activations: QuantizedActivations { i8: activations(InputType::I8)?, i16: activations(InputType::I16)? },
            threads: Lines::new("scratch of the threads", threads.checked_mul(SCRATCH))?,
        })
    }
}

/// Length of the chunks of a divided op. Before each chunk a step may stop, or release the threads to other steps.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum OpChunk {
    /// The op is not divided.
    #[default]
    Whole,
    /// Milliseconds: the overhead of chunks is negligible.
    Long,
    /// Some hundred microseconds.
    Short,
}

impl OpChunk {
    /// Returns the amount of work in a chunk, given the amount `short` of a short one.
    pub fn of(self, short: usize) -> usize {
        match self {
            OpChunk::Whole => usize::MAX,
            OpChunk::Long => short.saturating_mul(LONG),
            OpChunk::Short => short,
        }
    }
}

/// Number of short chunks in a long one.
const LONG: usize = 16;

/// Number of products of many tokens in a short chunk, per thread.
pub const OP_CHUNK_PRODUCTS: usize = 32 << 20;

/// Bytes of weights that all threads together read in a short chunk if there are few tokens.
const OP_CHUNK_BYTES: usize = 4 << 20;

/// Progress of some products.
#[derive(Default)]
pub struct ProductCursor {
    /// Length of the chunk that a call computes.
    pub op_chunk: OpChunk,
    /// Number of units that are done.
    pub(crate) unit: usize,
    /// Number of row panels in a unit, set by the first chunk; 0 before.
    pub(crate) unit_panels: usize,
}

impl ProductCursor {
    /// True before the first chunk.
    pub fn is_new(&self) -> bool {
        self.unit_panels == 0
    }

    /// Returns the number of row panels in a unit, at most `most` for products of `cols` columns; fewer if a unit would
    /// take long.
    pub fn unit_panels(&mut self, most: usize, cols: usize, tiling: TokenTiling, kernels: &MatmulKernels) -> usize {
        if self.is_new() {
            let tile = kernels.panels * PANEL_ROWS * cols * tiling.tokens;
            let tiles = if tiling.gemv { most } else { (self.op_chunk.of(OP_CHUNK_PRODUCTS) / tile.max(1)).max(1) };
            self.unit_panels = most.min(kernels.panels.saturating_mul(tiles));
        }
        self.unit_panels
    }

    /// Takes the next units of a chunk, at least one per thread if there are as many. `costs` are the relative costs of
    /// all units. Returns the sum of the costs of the units, and their range.
    pub fn take(
        &mut self,
        costs: impl Iterator<Item = usize>,
        threads: usize,
        tiling: TokenTiling,
    ) -> (usize, Range<usize>) {
        let most = match tiling.gemv {
            true => self.op_chunk.of(OP_CHUNK_BYTES) / self.unit_panels / (1 + tiling.tokens / 4),
            false => {
                self.op_chunk.of(OP_CHUNK_PRODUCTS).saturating_mul(threads)
                    / (self.unit_panels * PANEL_ROWS * tiling.tokens)
            }
        };
        let (start, mut sum) = (self.unit, 0);
        for cost in costs.skip(start) {
            if sum + cost > most && self.unit - start >= threads {
                break;
            }
            (sum, self.unit) = (sum + cost, self.unit + 1);
        }
        (sum, start..self.unit)
    }
}

/// A thread's scratch.
pub struct ThreadScratch<'a> {
    pub tile: &'a mut [u8],
    pub weights: &'a mut [u8],
    /// Results of a unit, tile by tile, token by token.
    pub results: &'a mut [f32],
}

impl<'a> ThreadScratch<'a> {
    /// Splits `SCRATCH` bytes.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let (tile, bytes) = bytes.split_at_mut(TILE);
        let (weights, results) = bytes.split_at_mut(WEIGHTS);
        ThreadScratch { tile, weights, results: crate::cpu::memory::as_f32_mut(results) }
    }
}

/// The division of tokens into tiles: one tile for `gemv`, with space up to the next power of two; otherwise tiles of
/// nearly the same size within the limit of the kernel.
#[derive(Clone, Copy)]
pub struct TokenTiling {
    pub tokens: usize,
    pub tiles: usize,
    /// True if the tokens are few enough for `gemv`.
    pub gemv: bool,
}

impl TokenTiling {
    /// Divides for `gemv` if it supports this many tokens, otherwise for `gemm`.
    pub fn new(tokens: usize, kernels: &MatmulKernels) -> TokenTiling {
        if tokens <= kernels.gemv_tokens {
            return TokenTiling { tokens, tiles: 1, gemv: true };
        }
        TokenTiling::gemm(tokens, kernels)
    }

    /// Divides for `gemm`, for any number of tokens.
    pub fn gemm(tokens: usize, kernels: &MatmulKernels) -> TokenTiling {
        TokenTiling { tokens, tiles: tokens.div_ceil(kernels.tokens), gemv: false }
    }

    /// Returns the tokens of a tile.
    pub fn range(self, tile: usize) -> Range<usize> {
        let (each, more) = (self.tokens / self.tiles, self.tokens % self.tiles);
        let at = |tile: usize| tile * each + tile.min(more);
        at(tile)..at(tile + 1)
    }

    /// Returns the number of tokens for which the activations of a tile have space.
    pub fn slots(self, tokens: &Range<usize>) -> usize {
        if self.gemv { tokens.len().next_power_of_two() } else { tokens.len() }
    }

    /// Returns the byte range of the activations of a tile's tokens in some columns. Activations are stored by column
    /// block, and by tile within a block, so that a weight tile reads them sequentially.
    pub fn activations(self, input: InputType, tokens: &Range<usize>, columns: &Range<usize>) -> Range<usize> {
        let groups = columns.len() / GROUP * input.bytes();
        let before = columns.start / GROUP * input.bytes() * self.slots(&(0..self.tokens));
        before + tokens.start * groups..before + (tokens.start + self.slots(tokens)) * groups
    }
}

/// Divides columns into blocks of at most `max` and nearly the same length, a multiple of 256 except for the last.
pub fn column_blocks(cols: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    let blocks = cols.div_ceil(max);
    let len = cols.div_ceil(blocks.max(1)).next_multiple_of(256).min(max);
    (0..cols).step_by(len.max(1)).map(move |start| start..cols.min(start + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::Isa;

    #[test]
    fn tiles_hold_all_tokens() {
        for isa in Isa::available() {
            let kernels = isa.matmul();
            for tokens in 1..40 {
                let tiling = TokenTiling::new(tokens, kernels);
                let sizes: Vec<usize> = (0..tiling.tiles).map(|t| tiling.range(t).len()).collect();
                assert_eq!(sizes.iter().sum::<usize>(), tokens);
                let most = if tokens <= kernels.gemv_tokens { kernels.gemv_tokens } else { kernels.tokens };
                assert!(sizes.iter().all(|n| (1..=most).contains(n)) && sizes[0] - sizes[sizes.len() - 1] <= 1);
            }
        }
    }
}
