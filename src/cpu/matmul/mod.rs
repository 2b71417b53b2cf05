//! Matrix products: `out = W x + bias` for one token or many, for every matrix that shares the input.
//!
//! Owns the loops over row panels, column blocks and tiles of tokens, and their division among the threads. Relies on
//! `plan` for the parts, on `packed` for the order of weights and on `kernels` for the arithmetic. A result
//! depends neither on the number of tokens beside it, nor on threads, nor on the instruction set.
#![allow(unsafe_code)]

pub mod matrix;
pub mod packed;
pub mod packed_file;
pub mod plan;
mod quantize;

use std::array;
use std::ops::Range;

use super::kernels::float_gemm::{FLOAT_PANELS, FloatPanels};
use super::kernels::table::{BlockKernels, FloatKernels, MatmulKernels};
use super::kernels::{GROUP, Isa, PANEL_ROWS, prefetch};
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::cpu::matmul::plan::{
    FLOAT_COLUMNS, JobKernels, MatmulJob, MatmulWorkspace, ProductCursor, QuantizedActivations, SCRATCH, TILE_PANELS,
    TILES_PER_UNIT, TOKEN_BLOCK, ThreadScratch, TokenTiling, UNITS_PER_THREAD, WEIGHTS, column_blocks, max_columns,
};
use crate::cpu::matmul::quantize::quantize;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result};
use crate::quant;
use crate::tensor::DType;

/// Computes `out = W x + bias` for each job, `x` being `[tokens, cols]`. The tokens' activations are quantized once, in
/// groups of 32, for all matrices of a kind: to 8 bits for block formats, to 16 bits for floats of 16 bits and less.
/// Other matrices read them as floats.
pub fn multiply(
    team: &Team,
    isa: Isa,
    workspace: &mut MatmulWorkspace,
    x: &[f32],
    tokens: usize,
    jobs: &mut [MatmulJob],
) {
    multiply_chunk(team, isa, workspace, x, tokens, jobs, &mut ProductCursor::default());
}

/// Computes `multiply` from the cursor on; true when all is done. Between chunks nothing may change the workspace.
pub fn multiply_chunk(
    team: &Team,
    isa: Isa,
    workspace: &mut MatmulWorkspace,
    x: &[f32],
    tokens: usize,
    jobs: &mut [MatmulJob],
    cursor: &mut ProductCursor,
) -> bool {
    let Some(cols) = columns(x, tokens, jobs) else { return true };
    let threads = team.threads();
    assert!(workspace.threads.len() >= threads * SCRATCH);
    let (kernels, tiling) = (isa.matmul(), TokenTiling::of(tokens, isa.matmul(), jobs));
    let MatmulWorkspace { activations, threads: scratch } = workspace;
    if cursor.is_new() {
        quantize(kernels, x, cols, tiling, activations, jobs, |tiles, tile| {
            // A single tile is done before another thread has started.
            if tiles == 1 { tile(0) } else { team.for_each(tiles, tile) }
        });
    }
    let call = MatmulCall { kernels, tiling, cols, x, activations, jobs };
    let unit_panels = cursor.unit_panels(call.unit_panels(threads), cols, tiling, kernels);
    let units = |job: &MatmulJob| job.panels().div_ceil(unit_panels);
    let costs = || jobs.iter().flat_map(|job| std::iter::repeat_n(call.unit_cost(job), units(job)));
    let (cost, taken) = cursor.take(costs(), threads, tiling);
    // One range of about the same cost for each thread.
    let (mut unit, mut spent, mut left) = (taken.start, 0, costs().skip(taken.start));
    let range = |share: usize| {
        let start = unit;
        let until = (cost as u128 * (share as u128 + 1) / threads as u128) as usize;
        while spent < until
            && let Some(cost) = left.next()
        {
            spent += cost;
            unit += 1;
        }
        start..unit
    };
    let scratch = DisjointSlice::new(scratch);
    team.for_each_within(range, |share, unit| {
        // SAFETY: each share has its own scratch.
        let scratch = unsafe { scratch.slice_mut(share * SCRATCH..(share + 1) * SCRATCH) };
        call.execute(unit, unit_panels, &mut ThreadScratch::new(scratch));
    });
    taken.end == jobs.iter().map(units).sum::<usize>()
}

/// The columns of all jobs, whose shapes fit the input; none where there is nothing to do.
fn columns(x: &[f32], tokens: usize, jobs: &[MatmulJob]) -> Option<usize> {
    let cols = jobs.first()?.matrix.cols();
    assert!(x.len() == tokens * cols, "{} values for {tokens} tokens of {cols}", x.len());
    assert!(jobs.iter().all(|job| job.matrix.cols() == cols && job.out.len() == tokens * job.matrix.rows));
    (tokens > 0).then_some(cols)
}

/// Some row panels and columns of a matrix that are multiplied with some tiles of tokens.
struct WeightTile<'a> {
    panels: Range<usize>,
    columns: Range<usize>,
    tiling: TokenTiling,
    token_tiles: Range<usize>,
    /// Its part of a thread's results.
    results: Range<usize>,
    /// Packed weights of the tile after it.
    next: [&'a [u8]; TILE_PANELS],
}

/// Results of a unit: tile by tile, in each token by token, in each `tile_panels` row panels.
struct UnitResults<'a> {
    values: &'a [f32],
    tile_panels: usize,
    /// Tokens for which there is room.
    slots: usize,
    /// Tiles whose results have already been written to the output.
    done: usize,
}

/// A call of `multiply`.
struct MatmulCall<'a> {
    kernels: &'static MatmulKernels,
    tiling: TokenTiling,
    cols: usize,
    x: &'a [f32],
    activations: &'a QuantizedActivations,
    jobs: &'a [MatmulJob<'a>],
}

impl MatmulCall<'_> {
    /// Returns the row panels in a unit of work.
    fn unit_panels(&self, threads: usize) -> usize {
        // One token of floats takes no more at once, whether or not there is a `gemv` of other types.
        if self.tiling.gemv || self.tiling.tokens == 1 {
            return FLOAT_PANELS;
        }
        let tiles: usize = self.jobs.iter().map(|job| job.matrix.rows.div_ceil(PANEL_ROWS * self.kernels.panels)).sum();
        self.kernels.panels * (tiles / (threads * UNITS_PER_THREAD)).clamp(1, TILES_PER_UNIT)
    }

    /// Returns the cost of a unit of a job, relative to other jobs.
    fn unit_cost(&self, job: &MatmulJob) -> usize {
        if self.tiling.gemv { job.matrix.layout.panel_bytes() } else { self.cols }
    }

    fn execute(&self, mut unit: usize, unit_panels: usize, scratch: &mut ThreadScratch) {
        for job in self.jobs {
            let panels = job.panels();
            let units = panels.div_ceil(unit_panels);
            if unit < units {
                let panels = unit * unit_panels..panels.min((unit + 1) * unit_panels);
                match JobKernels::of(self.kernels, &job.matrix) {
                    JobKernels::Blocks(kernels) if self.tiling.gemv => self.gemv(job, kernels, panels, scratch),
                    JobKernels::Floats(kernels) if self.tiling.tokens == 1 => {
                        self.float_gemv(job, kernels, panels, scratch);
                    }
                    kernels => self.gemm(job, kernels, panels, scratch),
                }
                return;
            }
            unit -= units;
        }
    }

    /// Multiplies packed weights with a few tokens.
    fn gemv(&self, job: &MatmulJob, kernels: &BlockKernels, panels: Range<usize>, scratch: &mut ThreadScratch) {
        let (tokens, rows) = (0..self.tiling.tokens, job.matrix.rows);
        let slots = self.tiling.slots(&tokens);
        let gemv = kernels.gemv[slots.trailing_zeros() as usize];
        let max_columns = if job.matrix.layout.interleaved { self.cols } else { max_columns(kernels.input) };
        // Results of whole panels for all slots are written to the output at once.
        let done = if slots == tokens.len() { panels.len().min(rows / PANEL_ROWS - panels.start) } else { 0 };
        for (i, sum) in scratch.results.chunks_exact_mut(slots * PANEL_ROWS).enumerate().take(panels.len()) {
            for columns in column_blocks(self.cols, max_columns) {
                let x = self.activations.of(kernels.input);
                let x = &x[self.tiling.activations(kernels.input, &tokens, &columns)];
                let weights = weights_of(self.kernels, job, panels.start + i, columns.clone(), scratch.weights);
                let blocks = columns.len() / GROUP / kernels.groups;
                let (out, stride) = if i < done && columns.end == self.cols {
                    (job.out.as_mut_ptr().wrapping_add((panels.start + i) * PANEL_ROWS), rows)
                } else {
                    (sum.as_mut_ptr(), PANEL_ROWS)
                };
                let (weights, x) = (weights.as_ptr(), x.as_ptr());
                // SAFETY: the table is that of a detected instruction set; weights and activations of these columns;
                // results of a panel so far; its rows, which are this thread's.
                unsafe { gemv(weights, blocks, x, sum.as_ptr(), columns.start == 0, out, stride) }
            }
        }
        self.finish(job, panels, tokens, UnitResults { values: scratch.results, tile_panels: 1, slots, done });
    }

    /// Multiplies float weights with one token.
    fn float_gemv(&self, job: &MatmulJob, kernels: &FloatKernels, panels: Range<usize>, scratch: &mut ThreadScratch) {
        let max_columns = if job.matrix.layout.interleaved { self.cols } else { FLOAT_COLUMNS };
        for columns in column_blocks(self.cols, max_columns) {
            let weights = self.float_weights(job, &panels, columns.clone(), scratch.weights);
            let (x, out) = (&self.x[columns.clone()], &mut scratch.results[..FLOAT_PANELS * PANEL_ROWS]);
            // SAFETY: the table is that of a detected instruction set; weights and values of these columns, and as many
            // results.
            unsafe {
                let first = columns.start == 0;
                (kernels.gemv)(&weights, x.len(), 1, x.as_ptr(), self.cols, out.as_mut_ptr(), first);
            }
        }
        let values = &*scratch.results;
        self.finish(job, panels, 0..1, UnitResults { values, tile_panels: FLOAT_PANELS, slots: 1, done: 0 });
    }

    /// Multiplies tile by tile with many tokens.
    fn gemm(&self, job: &MatmulJob, kernels: JobKernels, panels: Range<usize>, scratch: &mut ThreadScratch) {
        let tile_panels = self.kernels.panels;
        let block = TOKEN_BLOCK / self.kernels.tokens;
        let max_columns = match kernels {
            JobKernels::Blocks(kernels) => max_columns(kernels.input),
            JobKernels::Floats(_) => FLOAT_COLUMNS,
        };
        // Floats have no `gemv` for several tokens.
        let tiling = TokenTiling::gemm(self.tiling.tokens, self.kernels);
        for first in (0..tiling.tiles).step_by(block) {
            let token_tiles = first..tiling.tiles.min(first + block);
            let tokens = tiling.range(first).start..tiling.range(token_tiles.end - 1).end;
            let tile_results = tokens.len() * tile_panels * PANEL_ROWS;
            let starts = panels.clone().step_by(tile_panels);
            let tiles = column_blocks(self.cols, max_columns)
                .flat_map(|columns| starts.clone().map(move |start| (start, columns.clone())));
            // The unit that follows is likely to be this thread's as well.
            let following = column_blocks(self.cols, max_columns).next().map(|columns| (panels.end, columns));
            let mut tiles = tiles.chain(following).peekable();
            while let Some((start, columns)) = tiles.next()
                && let Some((next, next_columns)) = tiles.peek()
            {
                let i = (start - panels.start) / tile_panels;
                let tile = WeightTile {
                    panels: start..panels.end.min(start + tile_panels),
                    columns,
                    tiling,
                    token_tiles: token_tiles.clone(),
                    results: i * tile_results..(i + 1) * tile_results,
                    next: array::from_fn(|r| packed_columns(job, next + r, next_columns).unwrap_or_default()),
                };
                match kernels {
                    JobKernels::Blocks(kernels) => self.gemm_tile(job, kernels, tile, scratch),
                    JobKernels::Floats(kernels) => self.float_gemm_tile(job, kernels, tile, scratch),
                }
            }
            let done = match kernels {
                JobKernels::Blocks(_) => {
                    (job.matrix.rows - panels.start * PANEL_ROWS).min(panels.len() * PANEL_ROWS)
                        / (tile_panels * PANEL_ROWS)
                }
                JobKernels::Floats(_) => 0,
            };
            let slots = tokens.len();
            self.finish(job, panels.clone(), tokens, UnitResults { values: scratch.results, tile_panels, slots, done });
        }
    }

    fn gemm_tile(&self, job: &MatmulJob, kernels: &BlockKernels, tile: WeightTile, scratch: &mut ThreadScratch) {
        let WeightTile { panels, columns, tiling, token_tiles, results, next } = tile;
        let groups = columns.len() / GROUP;
        for r in 0..self.kernels.panels {
            // The last panel stands in for one that is missing from the last tile.
            let panel = (panels.start + r).min(panels.end - 1);
            let weights = weights_of(self.kernels, job, panel, columns.clone(), scratch.weights);
            assert!(scratch.tile.len() >= groups * self.kernels.panels * kernels.tile_bytes);
            // SAFETY: the table is that of a detected instruction set; weights of these columns, and a tile of them.
            unsafe {
                let tile = scratch.tile.as_mut_ptr().add(64 * r);
                (kernels.unpack)(weights.as_ptr(), groups / kernels.groups, tile, job.matrix.dtype())
            }
        }
        // Sums stay together until the last columns complete them: rows of many tokens, a power of two apart, would
        // drive each other out of the caches.
        let (start, width) = (panels.start * PANEL_ROWS, self.kernels.panels * PANEL_ROWS);
        let whole = columns.end == self.cols && start + width <= job.matrix.rows;
        let mut results = &mut scratch.results[results];
        let mut next =
            next.map(|bytes| bytes.chunks(bytes.len().div_ceil(token_tiles.len()).next_multiple_of(64).max(64)));
        for tile in token_tiles {
            next.iter_mut().filter_map(Iterator::next).for_each(prefetch::later);
            let tokens = tiling.range(tile);
            let (sum, rest) = results.split_at_mut(tokens.len() * width);
            results = rest;
            let x = self.activations.of(kernels.input);
            let x = &x[tiling.activations(kernels.input, &tokens, &columns)];
            let (out, stride) = if whole {
                (job.out.as_mut_ptr().wrapping_add(tokens.start * job.matrix.rows + start), job.matrix.rows)
            } else {
                (sum.as_mut_ptr(), width)
            };
            // SAFETY: the table is that of a detected instruction set; the tile, these tokens' activations, and their
            // results so far; their rows, which are this thread's.
            unsafe {
                let gemm = kernels.gemm[tokens.len() - 1];
                let (tile, x) = (scratch.tile.as_ptr(), x.as_ptr());
                gemm(tile, groups, x, tokens.len(), sum.as_ptr(), columns.start == 0, out, stride);
            }
        }
    }

    fn float_gemm_tile(&self, job: &MatmulJob, kernels: &FloatKernels, tile: WeightTile, scratch: &mut ThreadScratch) {
        let WeightTile { panels, columns, tiling, token_tiles, results, .. } = tile;
        let weights = self.float_weights(job, &panels, columns.clone(), scratch.weights);
        let mut results = &mut scratch.results[results];
        for tile in token_tiles {
            let tokens = tiling.range(tile);
            let (out, rest) = results.split_at_mut(tokens.len() * self.kernels.panels * PANEL_ROWS);
            results = rest;
            let x = &self.x[tokens.start * self.cols + columns.start..(tokens.end - 1) * self.cols + columns.end];
            // SAFETY: the table is that of a detected instruction set; weights, values and results of these columns and
            // tokens.
            unsafe {
                let gemm = kernels.gemm[tokens.len() - 1];
                gemm(
                    &weights,
                    columns.len(),
                    tokens.len(),
                    x.as_ptr(),
                    self.cols,
                    out.as_mut_ptr(),
                    columns.start == 0,
                );
            }
        }
    }

    /// Copies the results of some tokens to the output and adds the bias.
    fn finish(&self, job: &MatmulJob, panels: Range<usize>, tokens: Range<usize>, results: UnitResults) {
        let rows = panels.start * PANEL_ROWS..job.matrix.rows.min(panels.end * PANEL_ROWS);
        let done = results.done * results.tile_panels;
        if rows.len() <= done * PANEL_ROWS && job.bias.is_none() {
            return;
        }
        for (t, token) in tokens.enumerate() {
            let start = token * job.matrix.rows;
            // SAFETY: the rows of this unit are this thread's.
            let out = unsafe { job.out.slice_mut(start + rows.start..start + rows.end) };
            for (panel, out) in out.chunks_mut(PANEL_ROWS).enumerate().skip(done) {
                let (tile, r) = (panel / results.tile_panels, panel % results.tile_panels);
                let from = &results.values[((tile * results.slots + t) * results.tile_panels + r) * PANEL_ROWS..]
                    [..PANEL_ROWS];
                match out.as_chunks_mut::<PANEL_ROWS>() {
                    // A known length makes this a move and no call.
                    ([out], []) => out.copy_from_slice(from),
                    (_, out) => out.copy_from_slice(&from[..out.len()]),
                }
            }
            if let Some(bias) = job.bias {
                out.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
            }
        }
    }

    /// Returns pointers to the columns of row panels of float weights; those beyond the last panel repeat it.
    fn float_weights(
        &self,
        job: &MatmulJob,
        panels: &Range<usize>,
        columns: Range<usize>,
        weights: &mut [u8],
    ) -> FloatPanels {
        let mut parts = weights.chunks_exact_mut(WEIGHTS / FLOAT_PANELS);
        let mut last = std::ptr::null();
        std::array::from_fn(|r| {
            if let (true, Some(part)) = (panels.start + r < panels.end, parts.next()) {
                last = weights_of(self.kernels, job, panels.start + r, columns.clone(), part).as_ptr();
            }
            last
        })
    }
}

/// Returns some columns of a row panel where they lie packed in memory.
fn packed_columns<'a>(job: &'a MatmulJob, panel: usize, columns: &Range<usize>) -> Option<&'a [u8]> {
    let layout = &job.matrix.layout;
    let found = layout.interleaved && panel < job.panels();
    let bytes = layout.panel_bytes();
    found.then(|| &job.bytes[panel * bytes..][..bytes][layout.packed_range(columns.clone())])
}

/// Returns some columns of a row panel in the order of the kernels: in place where they lie in it, otherwise packed
/// into `scratch`.
fn weights_of<'a>(
    kernels: &MatmulKernels,
    job: &'a MatmulJob,
    panel: usize,
    columns: Range<usize>,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    if let Some(weights) = packed_columns(job, panel, &columns) {
        return weights;
    }
    let layout = &job.matrix.layout;
    let rows = panel * PANEL_ROWS..(panel * PANEL_ROWS + PANEL_ROWS).min(job.matrix.rows);
    let scratch = &mut scratch[..layout.packed_range(columns.clone()).len()];
    layout.pack_columns(
        kernels,
        &job.bytes[rows.start * layout.row_bytes..rows.end * layout.row_bytes],
        columns,
        scratch,
    );
    scratch
}

/// Computes as `multiply`, on the calling thread.
pub fn multiply_alone(isa: Isa, workspace: &mut MatmulWorkspace, x: &[f32], tokens: usize, jobs: &mut [MatmulJob]) {
    let Some(cols) = columns(x, tokens, jobs) else { return };
    let (kernels, tiling) = (isa.matmul(), TokenTiling::of(tokens, isa.matmul(), jobs));
    let MatmulWorkspace { activations, threads: scratch } = workspace;
    quantize(kernels, x, cols, tiling, activations, jobs, |tiles, tile| (0..tiles).for_each(tile));
    let mut scratch = ThreadScratch::new(&mut scratch[..SCRATCH]);
    let call = MatmulCall { kernels, tiling, cols, x, activations, jobs };
    let unit_panels = call.unit_panels(1);
    let units: usize = jobs.iter().map(|job| job.panels().div_ceil(unit_panels)).sum();
    (0..units).for_each(|unit| call.execute(unit, unit_panels, &mut scratch));
}

/// Computes `y = W x` for weights in the order of the file, on the calling thread.
pub fn matvec_raw(isa: Isa, dtype: DType, raw: &[u8], rows: usize, x: &[f32], y: &mut [f32]) -> Result<()> {
    let matrix = WeightMatrix::mapped(dtype, rows, x.len())?;
    if raw.len() != matrix.bytes() || y.len() != rows {
        let name = quant::format(dtype)?.name;
        let given = format!("{} bytes and {} results for a {name} matrix", raw.len(), y.len());
        return Err(Error::invalid(format!("{given} of {rows} rows of {} values", x.len())));
    }
    let mut workspace = MatmulWorkspace::new(1, 1, x.len())?;
    multiply_alone(isa, &mut workspace, x, 1, &mut [MatmulJob::new(matrix, raw, None, y)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cpu::kernels::activations::InputType;
    use crate::cpu::matmul::plan::OpChunk;
    use crate::cpu::threads::pool::Pool;
    use crate::quant::grouped::{self, Grouped};
    use crate::quant::{FORMATS, Format};

    fn formats() -> impl Iterator<Item = Format> {
        let grouped = grouped::samples().map(|grouped| quant::format(grouped.dtype()).unwrap());
        FORMATS.iter().copied().chain(grouped)
    }

    /// Greatest error of a product, relative to the sum of the magnitudes that it adds.
    const TOLERANCE: f64 = 2e-5;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            // SplitMix64 (Steele, Lea and Flood, 2014).
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        /// Values with a wide spread of magnitudes.
        fn activations(&mut self, n: usize) -> Vec<f32> {
            let mut unit = || self.next() as f32 / u64::MAX as f32 - 0.5;
            (0..n).map(|_| unit() * (8.0 * unit()).exp()).collect()
        }

        /// Random blocks whose values are of a sensible size.
        fn blocks(&mut self, format: &Format, n: usize) -> Vec<u8> {
            let mut out = Vec::new();
            let mut values = vec![0f32; format.block_len];
            while out.len() < n * format.block_bytes {
                let block: Vec<u8> = (0..format.block_bytes).map(|_| self.next() as u8).collect();
                format.dequantize(&block, &mut values);
                let max =
                    values.iter().fold(0f32, |m, v| if v.is_nan() || m.is_nan() { f32::NAN } else { m.max(v.abs()) });
                if (0.001..100.0).contains(&max) {
                    out.extend(block);
                }
            }
            out
        }
    }

    struct Product {
        format: Format,
        raw: Vec<u8>,
        rows: usize,
        cols: usize,
        x: Vec<f32>,
        tokens: usize,
        bias: Vec<f32>,
    }

    impl Product {
        fn new(format: Format, rows: usize, cols: usize, tokens: usize) -> Product {
            let mut random = Random(u64::from(format.dtype.0) << 32 | (rows + cols + tokens) as u64);
            Product {
                format,
                raw: random.blocks(&format, rows * cols / format.block_len),
                rows,
                cols,
                x: random.activations(tokens * cols),
                tokens,
                bias: random.activations(rows),
            }
        }

        /// In f64, from the reference codec; activations and 16-bit weights rounded as `multiply` promises, together
        /// with the sum of the products' magnitudes.
        fn expected(&self) -> Vec<(f64, f64)> {
            let row_bytes = self.raw.len() / self.rows;
            let mut w = vec![0f32; self.cols];
            let matrix = WeightMatrix::mapped(self.format.dtype, self.rows, self.cols).unwrap();
            let input = match JobKernels::of(Isa::Scalar.matmul(), &matrix) {
                JobKernels::Blocks(kernels) => Some(kernels.input),
                _ => None,
            };
            let most = match input {
                Some(InputType::I8) => 127.0,
                Some(InputType::I16) => 8191.0,
                None => f32::INFINITY,
            };
            let max = |group: &[f32]| group.iter().fold(0f32, |m, v| m.max(v.abs()));
            // In f32, so that what lies near a tie is rounded the same way.
            let round = |group: &[f32], inverse: f32, step: f64| -> Vec<f64> {
                let round =
                    |v: f32| if step > 0.0 { step * f64::from((v * inverse).round_ties_even()) } else { v.into() };
                group.iter().map(|&v| round(v)).collect()
            };
            let quantize = |group: &[f32]| round(group, most / max(group), f64::from(max(group) / most));
            let x: Vec<f64> = self.x.chunks(32).flat_map(quantize).collect();
            // Tables and 8-bit floats become integers of 14 bits ahead of their scale.
            let is_early = Grouped::of(self.format.dtype).is_some_and(|g| !matches!(g.code, grouped::Code::Int(_)));
            let mut out = vec![(0.0, 0.0); self.tokens * self.rows];
            for row in 0..self.rows {
                self.format.dequantize(&self.raw[row * row_bytes..(row + 1) * row_bytes], &mut w);
                let quantize = |group: &[f32]| {
                    let power = max(group).log2().floor().exp2();
                    let step = if input == Some(InputType::I16) && !is_early { power / 4096.0 } else { 0.0 };
                    round(group, 4096.0 / power, f64::from(step))
                };
                let most: Vec<f64> = w.chunks(32).flat_map(|group| [f64::from(max(group)); 32]).collect();
                let w: Vec<f64> = w.chunks(32).flat_map(quantize).collect();
                for token in 0..self.tokens {
                    let x = &x[token * self.cols..][..self.cols];
                    let products = w.iter().zip(x).map(|(w, x)| w * x);
                    let bias = f64::from(self.bias[row]);
                    let rounded: f64 = most.iter().zip(x).map(|(most, x)| most * x.abs() / 8191.0).sum();
                    let magnitude = products.clone().map(f64::abs).sum::<f64>() + bias.abs();
                    let magnitude = magnitude + if is_early { rounded / TOLERANCE } else { 0.0 };
                    out[token * self.rows + row] = (products.sum::<f64>() + bias, magnitude);
                }
            }
            out
        }

        fn run(&self, isa: Isa, threads: usize, mapped: bool) -> Vec<f32> {
            let (dtype, rows, cols) = (self.format.dtype, self.rows, self.cols);
            let matrix =
                if mapped { WeightMatrix::mapped(dtype, rows, cols) } else { WeightMatrix::packed(dtype, rows, cols) }
                    .unwrap();
            let mut bytes = vec![0; matrix.bytes()];
            matrix.pack(isa, &self.raw, &mut bytes);
            let mut out = vec![f32::NAN; self.tokens * rows];
            let mut workspace = MatmulWorkspace::new(threads, self.tokens, cols).unwrap();
            let pool = Arc::new(Pool::new(threads).unwrap());
            let mut jobs = [MatmulJob::new(matrix, &bytes, Some(&self.bias), &mut out)];
            let op_chunk = if threads > 1 { OpChunk::Short } else { OpChunk::Whole };
            let (team, mut cursor) = (pool.enter().unwrap(), ProductCursor { op_chunk, ..Default::default() });
            while !multiply_chunk(&team, isa, &mut workspace, &self.x, self.tokens, &mut jobs, &mut cursor) {}
            out
        }
    }

    fn bits(v: &[f32]) -> Vec<u32> {
        v.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn products_agree_with_the_reference_codec() {
        for format in formats() {
            let cases = [(1, 1, 1), (40, 3, 1), (48, 5, 3), (35, 4, 7), (70, 2, 13)];
            let columns: &[usize] = if format.block_len == 1 { &[32, 43] } else { &[format.block_len] };
            for ((rows, blocks, tokens), columns) in
                cases.iter().flat_map(|&case| columns.iter().map(move |c| (case, c)))
            {
                let cols = columns * blocks;
                let case = Product::new(format, rows, cols, tokens);
                let found = case.run(Isa::detect(), 1, false);
                for (i, (found, (expected, magnitude))) in found.iter().zip(case.expected()).enumerate() {
                    // Rounding to f32 some hundred times; an activation that lies on a tie may be rounded either way.
                    let tolerance = TOLERANCE * magnitude;
                    assert!(
                        (f64::from(*found) - expected).abs() <= tolerance,
                        "{} {rows} x {cols}, {tokens} tokens, result {i}: {found}, {expected} expected",
                        format.name
                    );
                }
            }
        }
    }

    /// Whatever the instruction set, the threads, the tokens beside it and the order of the weights in memory, a
    /// result is the same to the last bit.
    #[test]
    fn nothing_changes_a_bit() {
        for format in formats() {
            let cols = if format.block_len == 256 { 1024 } else { 1024 - format.block_len.max(32) };
            let case = Product::new(format, 83, cols, 14);
            let expected = bits(&case.run(Isa::Scalar, 1, false));
            for isa in Isa::available() {
                for (threads, mapped) in [(1, false), (3, false), (2, true)] {
                    let found = bits(&case.run(isa, threads, mapped));
                    assert!(found == expected, "{} {} {threads} threads, mapped {mapped}", format.name, isa.name());
                }
                for tokens in [1, 2, 3, 5, 8, 9] {
                    let part =
                        Product { x: case.x[..tokens * cols].to_vec(), tokens, ..Product::new(format, 83, cols, 14) };
                    for mapped in [false, true] {
                        let found = bits(&part.run(isa, 2, mapped));
                        assert!(found == expected[..tokens * 83], "{} {} {tokens} tokens", format.name, isa.name());
                    }
                }
            }
            let mut y = vec![0f32; 83];
            matvec_raw(Isa::detect(), format.dtype, &case.raw, 83, &case.x[..cols], &mut y).unwrap();
            y.iter_mut().zip(&case.bias).for_each(|(y, b)| *y += b);
            assert!(bits(&y) == expected[..83], "{} raw", format.name);
        }
    }

    #[test]
    fn matrices_that_share_an_input_are_multiplied_together() {
        let formats = [quant::Q4_1, quant::F16, quant::Q6_K, quant::IQ3_S, quant::Q8_0];
        let cases: Vec<Product> = formats
            .iter()
            .enumerate()
            .map(|(i, &dtype)| Product::new(quant::format(dtype).unwrap(), 16 + 37 * i, 512, 9))
            .collect();
        let x = &cases[0].x;
        for tokens in [1, 9] {
            let matrices: Vec<WeightMatrix> =
                cases.iter().map(|c| WeightMatrix::packed(c.format.dtype, c.rows, 512).unwrap()).collect();
            let bytes: Vec<Vec<u8>> = cases
                .iter()
                .zip(&matrices)
                .map(|(case, matrix)| {
                    let mut bytes = vec![0; matrix.bytes()];
                    matrix.pack(Isa::detect(), &case.raw, &mut bytes);
                    bytes
                })
                .collect();
            let mut outs: Vec<Vec<f32>> = cases.iter().map(|c| vec![0.0; tokens * c.rows]).collect();
            let mut jobs: Vec<MatmulJob> = outs
                .iter_mut()
                .enumerate()
                .map(|(i, out)| MatmulJob::new(matrices[i], &bytes[i], Some(&cases[i].bias), out))
                .collect();
            let mut workspace = MatmulWorkspace::new(3, 9, 512).unwrap();
            let pool = Arc::new(Pool::new(3).unwrap());
            multiply(&pool.enter().unwrap(), Isa::detect(), &mut workspace, &x[..tokens * 512], tokens, &mut jobs);
            for (case, out) in cases.iter().zip(&outs) {
                let alone =
                    Product { x: x[..tokens * 512].to_vec(), tokens, ..Product::new(case.format, case.rows, 512, 9) };
                assert_eq!(bits(&alone.run(Isa::detect(), 1, false)), bits(out), "{}", case.format.name);
            }
        }
    }

    /// In products of one column, which are not quantized.
    #[test]
    fn every_8_bit_float_is_read() {
        let raw: Vec<u8> = (0..=255).collect();
        let mut expected = vec![0f32; 256];
        quant::dequantize(quant::F8_E4M3, &raw, &mut expected).unwrap();
        for isa in Isa::available() {
            let mut found = vec![0f32; 256];
            matvec_raw(isa, quant::F8_E4M3, &raw, 256, &[1.0], &mut found).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found == expected || found.is_nan() && expected.is_nan(), "{found}, {expected} expected");
            }
        }
    }

    #[test]
    fn values_that_are_not_finite_show() {
        for bad in [f32::NAN, f32::INFINITY] {
            let format = quant::format(quant::Q4_0).unwrap();
            let mut case = Product::new(format, 16, 64, 2);
            case.x[64 + 40] = bad;
            for isa in Isa::available() {
                let out = case.run(isa, 1, false);
                let shows = out[..16].iter().all(|y| y.is_finite()) && out[16..].iter().all(|y| !y.is_finite());
                assert!(shows, "{}", isa.name());
            }
        }
    }

    #[test]
    fn zeros_and_tiny_activations_give_the_bias() {
        let format = quant::format(quant::Q8_0).unwrap();
        for x in [0.0, 1e-30, -1e-42] {
            let mut case = Product::new(format, 16, 64, 1);
            case.x.fill(x);
            assert_eq!(case.run(Isa::detect(), 1, false), case.bias);
        }
    }
}
