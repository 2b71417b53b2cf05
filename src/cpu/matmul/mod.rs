//! Matrix products: `out = W x + bias` for one token or many, for all matrices with the same input.
//!
//! Owns the loops over row panels, column blocks and token tiles, and their division among the threads. Relies on
//! `plan` for the division into units and tiles, on `packed` for the weight layout and on `kernels` for the arithmetic.
//! Results are batch-invariant, and bit-identical for any number of threads and any instruction set.
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

/// Computes `out = W x + bias` for each job; `x` is `[tokens, cols]`. The tokens' activations are quantized once, in
/// groups of 32, for all matrices of a kind: to 8 bits for block formats, to 16 bits for floats of at most 16 bits.
/// Other matrices read the activations as floats.
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

/// Continues `multiply` at the cursor; returns true once all products are complete. The workspace must not change
/// between chunks.
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
    let (kernels, tiling) = (isa.matmul(), TokenTiling::new(tokens, isa.matmul()));
    let MatmulWorkspace { activations, threads: scratch } = workspace;
    if cursor.is_new() {
        quantize(kernels, x, cols, tiling, activations, jobs, |tiles, tile| {
            // One thread completes a single tile before another thread could start.
            if tiles == 1 { tile(0) } else { team.for_each(tiles, tile) }
        });
    }
    let call = MatmulCall { kernels, tiling, cols, x, activations, jobs };
    let unit_panels = cursor.unit_panels(call.unit_panels(threads), cols, tiling, kernels);
    let units = |job: &MatmulJob| job.panels().div_ceil(unit_panels);
    let costs = || jobs.iter().flat_map(|job| std::iter::repeat_n(call.unit_cost(job), units(job)));
    let (cost, taken) = cursor.take(costs(), threads, tiling);
    // One range of similar cost per thread.
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

/// Returns the columns of all jobs, whose shapes must fit the input; `None` if there is nothing to do.
fn columns(x: &[f32], tokens: usize, jobs: &[MatmulJob]) -> Option<usize> {
    let cols = jobs.first()?.matrix.cols();
    assert!(x.len() == tokens * cols, "{} values for {tokens} tokens of {cols}", x.len());
    assert!(jobs.iter().all(|job| job.matrix.cols() == cols && job.out.len() == tokens * job.matrix.rows));
    (tokens > 0).then_some(cols)
}

/// Some row panels and columns of a matrix, to be multiplied with some token tiles.
struct WeightTile<'a> {
    panels: Range<usize>,
    columns: Range<usize>,
    tiling: TokenTiling,
    token_tiles: Range<usize>,
    /// The tile's range in a thread's results.
    results: Range<usize>,
    /// Packed weights of the following tile.
    next: [&'a [u8]; TILE_PANELS],
}

/// Results of a unit, in the order [tile][token][row panel]; a tile has `tile_panels` row panels.
struct UnitResults<'a> {
    values: &'a [f32],
    tile_panels: usize,
    /// Number of tokens for which there is space.
    slots: usize,
    /// Number of tiles whose results are already in the output.
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
    /// Returns the number of row panels in a unit of work.
    fn unit_panels(&self, threads: usize) -> usize {
        // With one token, float matrices use units of at most `FLOAT_PANELS` row panels, even if other types have no
        // `gemv` kernel.
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

    /// Multiplies packed weights by the activations of a few tokens.
    fn gemv(&self, job: &MatmulJob, kernels: &BlockKernels, panels: Range<usize>, scratch: &mut ThreadScratch) {
        let (tokens, rows) = (0..self.tiling.tokens, job.matrix.rows);
        let slots = self.tiling.slots(&tokens);
        let gemv = kernels.gemv[slots.trailing_zeros() as usize];
        let max_columns = if job.matrix.layout.interleaved { self.cols } else { max_columns(kernels.input) };
        // Results of whole panels for all slots go directly to the output.
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
                // SAFETY: the kernel table belongs to a detected instruction set. `weights` and `x` cover these
                // columns, `sum` holds one panel per slot, and the output rows belong to this thread.
                unsafe { gemv(weights, blocks, x, sum.as_ptr(), columns.start == 0, out, stride, job.matrix.dtype()) }
            }
        }
        self.finish(job, panels, tokens, UnitResults { values: scratch.results, tile_panels: 1, slots, done });
    }

    /// Multiplies float weights by the activations of one token.
    fn float_gemv(&self, job: &MatmulJob, kernels: &FloatKernels, panels: Range<usize>, scratch: &mut ThreadScratch) {
        let max_columns = if job.matrix.layout.interleaved { self.cols } else { FLOAT_COLUMNS };
        for columns in column_blocks(self.cols, max_columns) {
            let weights = self.float_weights(job, &panels, columns.clone(), scratch.weights);
            let (x, out) = (&self.x[columns.clone()], &mut scratch.results[..FLOAT_PANELS * PANEL_ROWS]);
            // SAFETY: the kernel table belongs to a detected instruction set. `weights` and `x` cover these columns,
            // and `out` holds `FLOAT_PANELS * PANEL_ROWS` results.
            unsafe {
                let first = columns.start == 0;
                (kernels.gemv)(&weights, x.len(), 1, x.as_ptr(), self.cols, out.as_mut_ptr(), first);
            }
        }
        let values = &*scratch.results;
        self.finish(job, panels, 0..1, UnitResults { values, tile_panels: FLOAT_PANELS, slots: 1, done: 0 });
    }

    /// Multiplies weights by the activations of many tokens, tile by tile.
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
            // This thread is likely to execute the following unit as well.
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
            // The last panel replaces a missing one in the last tile.
            let panel = (panels.start + r).min(panels.end - 1);
            let weights = weights_of(self.kernels, job, panel, columns.clone(), scratch.weights);
            assert!(scratch.tile.len() >= groups * self.kernels.panels * kernels.tile_bytes);
            // SAFETY: the kernel table belongs to a detected instruction set. `weights` covers these columns, and
            // `scratch.tile` has space for their tile (asserted above).
            unsafe {
                let tile = scratch.tile.as_mut_ptr().add(64 * r);
                (kernels.unpack)(weights.as_ptr(), groups / kernels.groups, tile, job.matrix.dtype())
            }
        }
        // Sums stay in scratch until the last columns complete them: output rows of many tokens, a power of two apart,
        // would evict each other from the caches.
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
            // SAFETY: the kernel table belongs to a detected instruction set. `tile`, `x` and `sum` cover these columns
            // and tokens, and the output rows belong to this thread.
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
            // SAFETY: the kernel table belongs to a detected instruction set. `weights`, `x` and `out` cover these
            // columns and tokens.
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
            // SAFETY: the rows of this unit belong to this thread.
            let out = unsafe { job.out.slice_mut(start + rows.start..start + rows.end) };
            for (panel, out) in out.chunks_mut(PANEL_ROWS).enumerate().skip(done) {
                let (tile, r) = (panel / results.tile_panels, panel % results.tile_panels);
                let from = &results.values[((tile * results.slots + t) * results.tile_panels + r) * PANEL_ROWS..]
                    [..PANEL_ROWS];
                match out.as_chunks_mut::<PANEL_ROWS>() {
                    // A known length compiles to a move instead of a call.
                    ([out], []) => out.copy_from_slice(from),
                    (_, out) => out.copy_from_slice(&from[..out.len()]),
                }
            }
            if let Some(bias) = job.bias {
                out.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
            }
        }
    }

    /// Returns pointers to the columns of row panels of float weights; missing panels repeat the last one.
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

/// Returns some columns of a row panel if they are packed in memory.
fn packed_columns<'a>(job: &'a MatmulJob, panel: usize, columns: &Range<usize>) -> Option<&'a [u8]> {
    let layout = &job.matrix.layout;
    let found = layout.interleaved && panel < job.panels();
    let bytes = layout.panel_bytes();
    found.then(|| &job.bytes[panel * bytes..][..bytes][layout.packed_range(columns.clone())])
}

/// Returns some columns of a row panel in kernel layout: in place if possible, otherwise packed into `scratch`.
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

/// Computes the same as `multiply`, on the calling thread.
pub fn multiply_on_caller(isa: Isa, workspace: &mut MatmulWorkspace, x: &[f32], tokens: usize, jobs: &mut [MatmulJob]) {
    let Some(cols) = columns(x, tokens, jobs) else { return };
    let (kernels, tiling) = (isa.matmul(), TokenTiling::new(tokens, isa.matmul()));
    let MatmulWorkspace { activations, threads: scratch } = workspace;
    quantize(kernels, x, cols, tiling, activations, jobs, |tiles, tile| (0..tiles).for_each(tile));
    let mut scratch = ThreadScratch::new(&mut scratch[..SCRATCH]);
    let call = MatmulCall { kernels, tiling, cols, x, activations, jobs };
    let unit_panels = call.unit_panels(1);
    let units: usize = jobs.iter().map(|job| job.panels().div_ceil(unit_panels)).sum();
    (0..units).for_each(|unit| call.execute(unit, unit_panels, &mut scratch));
}

/// Computes `y = W x` for weights in file layout, on the calling thread.
pub fn matvec_raw(isa: Isa, dtype: DType, raw: &[u8], rows: usize, x: &[f32], y: &mut [f32]) -> Result<()> {
    let matrix = WeightMatrix::mapped(dtype, rows, x.len())?;
    if raw.len() != matrix.bytes() || y.len() != rows {
        let name = quant::format(dtype)?.name;
        let given = format!("{} bytes and {} results for a {name} matrix", raw.len(), y.len());
        return Err(Error::invalid(format!("{given} values are given; {rows} rows of {} values are needed", x.len())));
    }
    let mut workspace = MatmulWorkspace::new(1, 1, x.len())?;
    multiply_on_caller(isa, &mut workspace, x, 1, &mut [MatmulJob::new(matrix, raw, None, y)]);
    Ok(())
}

#[cfg(test)]
mod tests;
