//! Matrix products: `out = W x + bias` for one token or many, for every matrix that shares the input.
//!
//! Owns the loops over groups of rows, panels of columns and tiles of tokens, and how they are shared out among the
//! threads. Relies on `packed` for the order of weights and on `kernels::matmul` for the arithmetic. A result depends
//! neither on the number of tokens beside it, nor on threads, nor on the instruction set.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kernels::Isa;
use super::kernels::matmul::{BlockKernels, FloatGroups, FloatKernels, GROUP, Kernels, ONE_TOKEN_GROUPS, SET, record};
use super::packed::Layout;
use super::pool::{Shared, Team};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::quant;
use crate::tensor::DType;

/// Columns of a panel: two groups of unpacked weights and what they are multiplied with stay in a first-level cache
/// of 32 KiB. A multiple of every block.
const PANEL: usize = 768;
/// The same for f32 weights.
const FLOAT_PANEL: usize = 256;

/// Tokens that share an unpacked tile: their activations of a panel fit in a second-level cache of 1 MiB.
const CHUNK: usize = 512;

/// Most tiles in a unit of work; more would not reuse the activations of a panel much better.
const RUN: usize = 8;

/// Units of work a thread where there are many tokens, so that threads finish together.
const UNITS_PER_THREAD: usize = 6;

/// A matrix `[rows, cols]` whose bytes somebody else keeps.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub rows: usize,
    layout: Layout,
}

impl Matrix {
    /// A matrix to be packed.
    pub fn packed(dtype: DType, rows: usize, cols: usize) -> Result<Matrix> {
        Matrix::new(rows, Layout::packed(dtype, cols)?)
    }

    /// A matrix that stays in the order of the file, for weights that are mapped; packed again for each use.
    pub fn mapped(dtype: DType, rows: usize, cols: usize) -> Result<Matrix> {
        Matrix::new(rows, Layout::raw(dtype, cols)?)
    }

    fn new(rows: usize, layout: Layout) -> Result<Matrix> {
        let too_large = || Error::invalid(format!("a matrix of {rows} rows of {} values is too large", layout.cols));
        if rows == 0 || layout.cols == 0 {
            return Err(Error::invalid(format!("a matrix of {rows} rows of {} values is empty", layout.cols)));
        }
        // Room for padding, so that no later sum can overflow.
        layout.bytes(rows).and_then(|bytes| bytes.checked_add(1 << 16)).ok_or_else(too_large)?;
        Ok(Matrix { rows, layout })
    }

    pub fn dtype(&self) -> DType {
        self.layout.dtype
    }

    pub fn cols(&self) -> usize {
        self.layout.cols
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        self.layout.bytes(self.rows).unwrap_or(usize::MAX)
    }

    /// Bytes of a row in the file.
    pub fn row_bytes(&self) -> usize {
        self.layout.row_bytes
    }

    /// Where some rows, from a multiple of 16 on, lie in the packed bytes.
    pub fn range(&self, rows: Range<usize>) -> Range<usize> {
        assert!(rows.start.is_multiple_of(GROUP) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let start = rows.start * self.layout.row_bytes;
        start..start + self.layout.bytes(rows.len()).unwrap_or(0)
    }

    /// Packs rows of the file, from a multiple of 16 on, into their place `range(rows)`. Allocates nothing; any thread,
    /// several at once.
    pub fn pack(&self, raw: &[u8], out: &mut [u8]) {
        let rows = raw.len() / self.layout.row_bytes.max(1);
        assert!(raw.len() == rows * self.layout.row_bytes && Some(out.len()) == self.layout.bytes(rows));
        self.layout.pack(raw, out);
    }

    /// Decodes a row to what the reference codec makes of it.
    pub fn decode_row(&self, bytes: &[u8], row: usize, out: &mut [f32]) {
        assert!(bytes.len() == self.bytes() && row < self.rows && out.len() == self.layout.cols);
        self.layout.decode_row(bytes, row, out);
    }

    /// Some rows, from a multiple of 16 on, as a matrix of their own, with its bytes.
    pub fn part<'a>(&self, bytes: &'a [u8], rows: Range<usize>) -> (Matrix, &'a [u8]) {
        let range = self.range(rows.clone());
        (Matrix { rows: rows.len(), layout: self.layout }, &bytes[range])
    }
}

/// One product of a call of `multiply`.
pub struct Job<'a> {
    matrix: Matrix,
    bytes: &'a [u8],
    bias: Option<&'a [f32]>,
    /// `[n, rows]`
    out: Shared<'a, f32>,
}

impl<'a> Job<'a> {
    /// `out` is `[tokens, rows]`.
    pub fn new(matrix: Matrix, bytes: &'a [u8], bias: Option<&'a [f32]>, out: &'a mut [f32]) -> Self {
        assert!(bytes.len() == matrix.bytes(), "{} bytes, {} expected", bytes.len(), matrix.bytes());
        assert!(bias.is_none_or(|bias| bias.len() == matrix.rows));
        Job { matrix, bytes, bias, out: Shared::new(out) }
    }
}

/// Memory for the products of one step at a time: quantised activations and each thread's tiles.
pub struct Workspace {
    records: Vec<Line>,
    threads: Vec<Line>,
    claims: Vec<Claims>,
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Sizes of the parts of a thread's scratch, in lines.
const TILE: usize = 2 * (PANEL / SET) * 12;
const WEIGHTS: usize = ONE_TOKEN_GROUPS * FLOAT_PANEL * GROUP * 4 / 64;
const ROW: usize = FLOAT_PANEL * 4 / 64;
const RESULTS: usize = 2 * 6;
const SCRATCH: usize = TILE + WEIGHTS + ROW + RESULTS;

impl Workspace {
    /// For inputs of at most `max_tokens` tokens of at most `max_cols` values.
    pub fn new(threads: usize, max_tokens: usize, max_cols: usize) -> Result<Workspace> {
        let lines = |n: Option<usize>| {
            n.map(|n| n.div_ceil(64)).ok_or(Error::OutOfMemory { what: "activations", bytes: u64::MAX })
        };
        let records = lines(max_cols.div_ceil(SET).checked_mul(record::BYTES).and_then(|n| n.checked_mul(max_tokens)))?;
        let zero = Line([0; 64]);
        let mut claims = try_vec("threads", threads)?;
        claims.extend((0..threads).map(|_| Claims(AtomicU64::new(0))));
        Ok(Workspace {
            records: try_filled("activations", records, zero)?,
            threads: try_filled("scratch of the threads", threads.saturating_mul(SCRATCH), zero)?,
            claims,
        })
    }
}

/// One thread's units of work that nobody has taken yet: first and end. The owner takes from the front, so that it
/// streams through memory; others help from the back when they have finished.
#[repr(align(128))]
struct Claims(AtomicU64);

impl Claims {
    fn set(&self, units: Range<usize>) {
        self.0.store((units.start as u64) << 32 | units.end as u64, Ordering::Relaxed);
    }

    fn take(&self, front: bool) -> Option<usize> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (now >> 32, now & u64::from(u32::MAX));
            if start >= end {
                return None;
            }
            let (unit, next) = if front { (start, now + (1 << 32)) } else { (end - 1, now - 1) };
            match self.0.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(unit as usize),
                Err(other) => now = other,
            }
        }
    }
}

/// How the tokens are laid side by side: tiles of nearly the same size, none larger than a kernel takes.
#[derive(Clone, Copy)]
struct Tiling {
    tokens: usize,
    tiles: usize,
}

impl Tiling {
    fn new(tokens: usize, max: usize) -> Tiling {
        Tiling { tokens, tiles: tokens.div_ceil(max) }
    }

    /// The tokens of a tile.
    fn range(self, tile: usize) -> Range<usize> {
        let (each, more) = (self.tokens / self.tiles, self.tokens % self.tiles);
        let at = |tile: usize| tile * each + tile.min(more);
        at(tile)..at(tile + 1)
    }
}

/// What multiplies a matrix.
#[derive(Clone, Copy)]
enum Kernel {
    Blocks(&'static BlockKernels),
    Floats(&'static FloatKernels),
    /// Decoded by the reference codec, then multiplied as f32.
    Decoded(&'static FloatKernels),
}

impl Kernel {
    fn of(kernels: &Kernels, dtype: DType) -> Kernel {
        match ((kernels.blocks)(dtype), (kernels.floats)(dtype)) {
            (Some(blocks), _) => Kernel::Blocks(blocks),
            (None, Some(floats)) => Kernel::Floats(floats),
            (None, None) => Kernel::Decoded(kernels.f32),
        }
    }
}

/// `out = W x + bias` for each job, `x` being `[tokens, cols]`. The tokens' activations are quantised once, to 8 bits
/// in sets of 32, for all matrices that are quantised; float matrices see them as they are.
pub fn multiply(team: &Team, isa: Isa, workspace: &mut Workspace, x: &[f32], tokens: usize, jobs: &mut [Job]) {
    let (Some(cols), true) = (jobs.first().map(|job| job.matrix.cols()), tokens > 0) else { return };
    assert!(x.len() == tokens * cols, "{} values for {tokens} tokens of {cols}", x.len());
    for job in jobs.iter() {
        assert!(job.matrix.cols() == cols && job.out.len() == tokens * job.matrix.rows);
    }
    let kernels = isa.matmul();
    let tiling = Tiling::new(tokens, kernels.tokens);
    let threads = team.threads();
    assert!(workspace.claims.len() >= threads);
    let blocks = jobs.iter().filter_map(|job| (kernels.blocks)(job.matrix.dtype()));
    if let Some(halves) = blocks.map(|kernels| kernels.halves).reduce(|a, b| a | b) {
        quantise(team, kernels, &mut workspace.records, x, cols, tiling, halves);
    }
    let product = Product { kernels, tiling, cols, x, records: as_bytes(&workspace.records), jobs };
    // Cut into one range of about the same cost for each thread.
    let run = product.run(threads);
    let (mut unit, mut spent) = (0, 0);
    let units = |job: &Job| job.matrix.rows.div_ceil(GROUP).div_ceil(run);
    let cost: usize = jobs.iter().map(|job| units(job) * product.cost(job)).sum();
    let mut left = jobs.iter().flat_map(|job| std::iter::repeat_n(product.cost(job), units(job)));
    for (i, claims) in workspace.claims[..threads].iter().enumerate() {
        let start = unit;
        let until = (cost as u128 * (i as u128 + 1) / threads as u128) as usize;
        while spent < until
            && let Some(cost) = left.next()
        {
            spent += cost;
            unit += 1;
        }
        claims.set(start..unit);
    }
    let scratch = Shared::new(&mut workspace.threads);
    let claims = &workspace.claims[..threads];
    team.run(|share| {
        // SAFETY: each share has its own scratch.
        let scratch = unsafe { scratch.slice_mut(share * SCRATCH..(share + 1) * SCRATCH) };
        let mut scratch = Scratch::new(scratch);
        for helped in 0..threads {
            while let Some(unit) = claims[(share + helped) % threads].take(helped == 0) {
                product.perform(unit, run, &mut scratch);
            }
        }
    });
}

fn quantise(
    team: &Team,
    kernels: &Kernels,
    records: &mut [Line],
    x: &[f32],
    cols: usize,
    tiling: Tiling,
    halves: bool,
) {
    let token_bytes = cols / SET * record::BYTES;
    let records = as_bytes_mut(records);
    assert!(records.len() >= tiling.tokens * token_bytes);
    let records = Shared::new(records);
    let tile = |tile: usize| {
        let tokens = tiling.range(tile);
        // SAFETY: tiles do not overlap.
        let records = unsafe { records.slice_mut(tokens.start * token_bytes..tokens.end * token_bytes) };
        for (t, token) in tokens.clone().enumerate() {
            // SAFETY: the kernels are those of an instruction set that is there.
            unsafe { (kernels.quantise)(&x[token * cols..(token + 1) * cols], records, tokens.len(), t, halves) }
        }
    };
    // A single tile is done sooner than another thread has heard of it.
    if tiling.tiles == 1 { tile(0) } else { team.for_each(tiling.tiles, tile) }
}

/// A thread's scratch.
struct Scratch<'a> {
    tile: &'a mut [u8],
    weights: &'a mut [u8],
    row: &'a mut [f32],
    results: &'a mut [f32],
}

impl<'a> Scratch<'a> {
    fn new(lines: &'a mut [Line]) -> Self {
        let (tile, lines) = lines.split_at_mut(TILE);
        let (weights, lines) = lines.split_at_mut(WEIGHTS);
        let (row, results) = lines.split_at_mut(ROW);
        Scratch {
            tile: as_bytes_mut(tile),
            weights: as_bytes_mut(weights),
            row: as_f32_mut(row),
            results: as_f32_mut(results),
        }
    }
}

/// A call of `multiply`.
struct Product<'a> {
    kernels: &'static Kernels,
    tiling: Tiling,
    cols: usize,
    x: &'a [f32],
    records: &'a [u8],
    jobs: &'a [Job<'a>],
}

impl Product<'_> {
    /// Groups in a unit of work.
    fn run(&self, threads: usize) -> usize {
        if self.tiling.tokens == 1 {
            return ONE_TOKEN_GROUPS;
        }
        let tiles: usize = self.jobs.iter().map(|job| job.matrix.rows.div_ceil(GROUP * self.kernels.groups)).sum();
        self.kernels.groups * (tiles / (threads * UNITS_PER_THREAD)).clamp(1, RUN)
    }

    /// Of a unit, in proportion.
    fn cost(&self, job: &Job) -> usize {
        if self.tiling.tokens == 1 { job.matrix.layout.row_bytes } else { self.cols }
    }

    fn perform(&self, mut unit: usize, run: usize, scratch: &mut Scratch) {
        for job in self.jobs {
            let groups = job.matrix.rows.div_ceil(GROUP);
            let units = groups.div_ceil(run);
            if unit < units {
                let groups = unit * run..groups.min((unit + 1) * run);
                if self.tiling.tokens == 1 {
                    self.one_token(job, groups, scratch);
                } else {
                    self.many_tokens(job, groups.clone(), scratch);
                    self.add_bias(job, groups);
                }
                return;
            }
            unit -= units;
        }
    }

    fn one_token(&self, job: &Job, groups: Range<usize>, scratch: &mut Scratch) {
        let mut out = [[0f32; GROUP]; ONE_TOKEN_GROUPS];
        let layout = &job.matrix.layout;
        match Kernel::of(self.kernels, layout.dtype) {
            Kernel::Blocks(kernels) => {
                let panel = if layout.interleaved { self.cols } else { PANEL };
                for (out, group) in out.iter_mut().zip(groups.clone()) {
                    for columns in panels(self.cols, panel) {
                        let records =
                            &self.records[columns.start / SET * record::BYTES..columns.end / SET * record::BYTES];
                        let weights = panel_of(job, group, columns.clone(), scratch.weights, scratch.row);
                        let blocks = columns.len() / SET / kernels.sets;
                        // SAFETY: the instruction set is there; weights and records of these columns.
                        unsafe { (kernels.fused)(weights.as_ptr(), blocks, records.as_ptr(), out) }
                    }
                }
            }
            Kernel::Floats(kernels) | Kernel::Decoded(kernels) => {
                let panel = if layout.interleaved { self.cols } else { FLOAT_PANEL };
                for columns in panels(self.cols, panel) {
                    let weights = self.float_panels(job, &groups, columns.clone(), scratch.weights, scratch.row);
                    // SAFETY: the instruction set is there; weights and values of these columns, and 64 results.
                    unsafe {
                        (kernels.one_token)(
                            &weights,
                            columns.len(),
                            self.x[columns.clone()].as_ptr(),
                            self.cols,
                            out.as_flattened_mut().as_mut_ptr(),
                            0,
                            columns.start == 0,
                        );
                    }
                }
            }
        }
        let rows = groups.start * GROUP..job.matrix.rows.min(groups.end * GROUP);
        // SAFETY: the rows of this unit are this thread's.
        let results = unsafe { job.out.slice_mut(rows.clone()) };
        results.copy_from_slice(&out.as_flattened()[..rows.len()]);
        if let Some(bias) = job.bias {
            results.iter_mut().zip(&bias[rows]).for_each(|(y, b)| *y += b);
        }
    }

    fn many_tokens(&self, job: &Job, groups: Range<usize>, scratch: &mut Scratch) {
        let kernel = Kernel::of(self.kernels, job.matrix.dtype());
        let per_tile = self.kernels.groups;
        let chunk = CHUNK.div_ceil(self.kernels.tokens);
        for first in (0..self.tiling.tiles).step_by(chunk) {
            let token_tiles = first..self.tiling.tiles.min(first + chunk);
            let panel = if matches!(kernel, Kernel::Blocks(_)) { PANEL } else { FLOAT_PANEL };
            for columns in panels(self.cols, panel) {
                for tile in groups.clone().step_by(per_tile) {
                    let tile = tile..groups.end.min(tile + per_tile);
                    match kernel {
                        Kernel::Blocks(kernels) => {
                            self.tile_of_blocks(job, kernels, tile, &columns, token_tiles.clone(), scratch);
                        }
                        Kernel::Floats(kernels) | Kernel::Decoded(kernels) => {
                            self.tile_of_floats(job, kernels, tile, &columns, token_tiles.clone(), scratch);
                        }
                    }
                }
            }
        }
    }

    fn tile_of_blocks(
        &self,
        job: &Job,
        kernels: &BlockKernels,
        groups: Range<usize>,
        columns: &Range<usize>,
        token_tiles: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let sets = columns.len() / SET;
        for r in 0..self.kernels.groups {
            // A group that is missing from the last tile is another one twice.
            let group = (groups.start + r).min(groups.end - 1);
            let weights = panel_of(job, group, columns.clone(), scratch.weights, scratch.row);
            assert!(scratch.tile.len() >= sets * self.kernels.groups * kernels.tile_bytes);
            // SAFETY: the instruction set is there; weights of these columns, and a tile of them.
            unsafe { (kernels.unpack)(weights.as_ptr(), sets / kernels.sets, scratch.tile.as_mut_ptr().add(64 * r)) }
        }
        let token_bytes = self.cols / SET * record::BYTES;
        for tile in token_tiles {
            let tokens = self.tiling.range(tile);
            let n = tokens.len();
            let records = &self.records[tokens.start * token_bytes..tokens.end * token_bytes];
            let records = &records[n * record::BYTES * (columns.start / SET)..n * record::BYTES * (columns.end / SET)];
            let tile = scratch.tile.as_ptr();
            self.with_results(job, &groups, tokens, columns.start == 0, scratch.results, |out, stride, first| {
                // SAFETY: the instruction set is there; the tile, these tokens' records and their results.
                unsafe { (kernels.multiply[n - 1])(tile, sets, records.as_ptr(), out, stride, first) }
            });
        }
    }

    fn tile_of_floats(
        &self,
        job: &Job,
        kernels: &FloatKernels,
        groups: Range<usize>,
        columns: &Range<usize>,
        token_tiles: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let weights = self.float_panels(job, &groups, columns.clone(), scratch.weights, scratch.row);
        for tile in token_tiles {
            let tokens = self.tiling.range(tile);
            let n = tokens.len();
            let x = &self.x[tokens.start * self.cols + columns.start..(tokens.end - 1) * self.cols + columns.end];
            self.with_results(job, &groups, tokens, columns.start == 0, scratch.results, |out, stride, first| {
                // SAFETY: the instruction set is there; weights, values and results of these columns and tokens.
                unsafe { (kernels.multiply[n - 1])(&weights, columns.len(), x.as_ptr(), self.cols, out, stride, first) }
            });
        }
    }

    /// Pointers to the columns of groups of float weights; those beyond the last are another one.
    fn float_panels(
        &self,
        job: &Job,
        groups: &Range<usize>,
        columns: Range<usize>,
        weights: &mut [u8],
        row: &mut [f32],
    ) -> FloatGroups {
        let mut parts = weights.chunks_exact_mut(WEIGHTS * 64 / ONE_TOKEN_GROUPS);
        let mut last = std::ptr::null();
        std::array::from_fn(|r| {
            if let (true, Some(part)) = (groups.start + r < groups.end, parts.next()) {
                last = panel_of(job, groups.start + r, columns.clone(), part, row).as_ptr();
            }
            last
        })
    }

    /// Calls a kernel with room for the results of whole groups and of tokens: the job's output where it has all of
    /// those rows, and a copy of them otherwise.
    fn with_results(
        &self,
        job: &Job,
        groups: &Range<usize>,
        tokens: Range<usize>,
        first: bool,
        copy: &mut [f32],
        kernel: impl FnOnce(*mut f32, usize, bool),
    ) {
        let rows = job.matrix.rows;
        let start = groups.start * GROUP;
        let width = self.kernels.groups * GROUP;
        if start + width <= rows {
            // Inside `out`, since it is `[tokens, rows]` long.
            let out = job.out.as_mut_ptr().wrapping_add(tokens.start * rows + start);
            return kernel(out, rows, first);
        }
        let copy = &mut copy[..tokens.len() * width];
        for (copy, token) in copy.chunks_exact_mut(width).zip(tokens.clone()) {
            // SAFETY: the rows of this unit are this thread's.
            let out = unsafe { job.out.slice_mut(token * rows + start..(token + 1) * rows) };
            copy[..out.len()].copy_from_slice(out);
        }
        kernel(copy.as_mut_ptr(), width, first);
        for (copy, token) in copy.chunks_exact_mut(width).zip(tokens) {
            // SAFETY: as above.
            let out = unsafe { job.out.slice_mut(token * rows + start..(token + 1) * rows) };
            out.copy_from_slice(&copy[..out.len()]);
        }
    }

    fn add_bias(&self, job: &Job, groups: Range<usize>) {
        let Some(bias) = job.bias else { return };
        let rows = groups.start * GROUP..job.matrix.rows.min(groups.end * GROUP);
        for token in 0..self.tiling.tokens {
            let start = token * job.matrix.rows;
            // SAFETY: the rows of this unit are this thread's.
            let out = unsafe { job.out.slice_mut(start + rows.start..start + rows.end) };
            out.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
        }
    }
}

/// Ranges of at most `max` columns, of nearly the same length, a multiple of 256 but for the last.
fn panels(cols: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    let panels = cols.div_ceil(max);
    let len = cols.div_ceil(panels.max(1)).next_multiple_of(256).min(max);
    (0..cols).step_by(len.max(1)).map(move |start| start..cols.min(start + len))
}

/// Some columns of a group in the order of the kernels: in place where they lie in it, otherwise packed or decoded into
/// `scratch`.
fn panel_of<'a>(job: &'a Job, group: usize, columns: Range<usize>, scratch: &'a mut [u8], row: &mut [f32]) -> &'a [u8] {
    let Job { matrix: Matrix { rows, layout }, bytes, .. } = job;
    if layout.interleaved {
        let group = &bytes[group * layout.group_bytes()..][..layout.group_bytes()];
        return &group[layout.packed_range(columns)];
    }
    let rows = group * GROUP..(group * GROUP + GROUP).min(*rows);
    let raw = &bytes[rows.start * layout.row_bytes..rows.end * layout.row_bytes];
    if layout.has_fields() {
        let scratch = &mut scratch[..layout.packed_range(columns.clone()).len()];
        layout.pack_columns(raw, columns, scratch);
        return scratch;
    }
    let row = &mut row[..columns.len()];
    let panel = &mut scratch[..columns.len() * GROUP * 4];
    panel.fill(0);
    for (r, raw) in raw.chunks_exact(layout.row_bytes).enumerate() {
        layout.decode_columns(raw, columns.clone(), row);
        for (lanes, x) in panel.chunks_exact_mut(GROUP * 4).zip(&*row) {
            lanes[4 * r..4 * r + 4].copy_from_slice(&x.to_ne_bytes());
        }
    }
    panel
}

/// `y = W x` for weights in the order of the file, on the calling thread.
pub fn matvec_raw(isa: Isa, dtype: DType, raw: &[u8], rows: usize, x: &[f32], y: &mut [f32]) -> Result<()> {
    let matrix = Matrix::mapped(dtype, rows, x.len())?;
    if raw.len() != matrix.bytes() || y.len() != rows {
        return Err(Error::invalid(format!(
            "{} bytes and {} results for a {} matrix of {rows} rows of {} values",
            raw.len(),
            y.len(),
            quant::format(dtype)?.name,
            x.len()
        )));
    }
    let mut workspace = Workspace::new(1, 1, x.len())?;
    let kernels = isa.matmul();
    let tiling = Tiling::new(1, 1);
    let jobs = [Job::new(matrix, raw, None, y)];
    if let Some(blocks) = (kernels.blocks)(dtype) {
        // SAFETY: the kernels are those of an instruction set that is there.
        unsafe { (kernels.quantise)(x, as_bytes_mut(&mut workspace.records), 1, 0, blocks.halves) }
    }
    let mut scratch = Scratch::new(&mut workspace.threads);
    let product = Product { kernels, tiling, cols: x.len(), x, records: as_bytes(&workspace.records), jobs: &jobs };
    for unit in 0..rows.div_ceil(GROUP * ONE_TOKEN_GROUPS) {
        product.perform(unit, ONE_TOKEN_GROUPS, &mut scratch);
    }
    Ok(())
}

fn as_bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is 64 bytes without padding.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

fn as_bytes_mut(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a line is 64 bytes without padding, and any bytes are a line.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

fn as_f32_mut(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line holds 16 aligned f32, and any bytes are an f32.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::cpu::pool::Pool;
    use crate::quant::{FORMATS, Format};

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
                (format.dequantize)(&block, &mut values);
                let max = values.iter().fold(0f32, |m, v| if v.is_nan() { f32::NAN } else { m.max(v.abs()) });
                if (0.001..100.0).contains(&max) {
                    out.extend(block);
                }
            }
            out
        }
    }

    struct Case {
        format: &'static Format,
        raw: Vec<u8>,
        rows: usize,
        cols: usize,
        x: Vec<f32>,
        tokens: usize,
        bias: Vec<f32>,
    }

    impl Case {
        fn new(format: &'static Format, rows: usize, cols: usize, tokens: usize) -> Case {
            let mut random = Random(u64::from(format.dtype.0) << 32 | (rows + cols + tokens) as u64);
            Case {
                format,
                raw: random.blocks(format, rows * cols / format.block_len),
                rows,
                cols,
                x: random.activations(tokens * cols),
                tokens,
                bias: random.activations(rows),
            }
        }

        /// In f64, from the reference codec; activations rounded as `multiply` promises where the type is quantised,
        /// together with the sum of the products' magnitudes.
        fn expected(&self) -> Vec<(f64, f64)> {
            let row_bytes = self.raw.len() / self.rows;
            let mut w = vec![0f32; self.cols];
            let quantised = isa_of_reference().blocks;
            let x: Vec<f64> = if quantised(self.format.dtype).is_some() {
                self.x
                    .chunks(32)
                    .flat_map(|set| {
                        let scale = set.iter().fold(0f32, |m, v| m.max(v.abs())) / 127.0;
                        set.iter().map(
                            move |v| if scale == 0.0 { 0.0 } else { f64::from(scale) * f64::from(v / scale).round() },
                        )
                    })
                    .collect()
            } else {
                self.x.iter().map(|&v| f64::from(v)).collect()
            };
            let mut out = vec![(0.0, 0.0); self.tokens * self.rows];
            for row in 0..self.rows {
                (self.format.dequantize)(&self.raw[row * row_bytes..(row + 1) * row_bytes], &mut w);
                for token in 0..self.tokens {
                    let x = &x[token * self.cols..][..self.cols];
                    let products = w.iter().zip(x).map(|(&w, x)| f64::from(w) * x);
                    let bias = f64::from(self.bias[row]);
                    out[token * self.rows + row] =
                        (products.clone().sum::<f64>() + bias, products.map(f64::abs).sum::<f64>() + bias.abs());
                }
            }
            out
        }

        fn run(&self, isa: Isa, threads: usize, mapped: bool) -> Vec<f32> {
            let (dtype, rows, cols) = (self.format.dtype, self.rows, self.cols);
            let matrix =
                if mapped { Matrix::mapped(dtype, rows, cols) } else { Matrix::packed(dtype, rows, cols) }.unwrap();
            let mut bytes = vec![0; matrix.bytes()];
            matrix.pack(&self.raw, &mut bytes);
            let mut out = vec![f32::NAN; self.tokens * rows];
            let mut workspace = Workspace::new(threads, self.tokens, cols).unwrap();
            let pool = Arc::new(Pool::new(threads).unwrap());
            let mut jobs = [Job::new(matrix, &bytes, Some(&self.bias), &mut out)];
            multiply(&pool.enter(), isa, &mut workspace, &self.x, self.tokens, &mut jobs);
            out
        }
    }

    fn isa_of_reference() -> &'static Kernels {
        Isa::Scalar.matmul()
    }

    fn bits(v: &[f32]) -> Vec<u32> {
        v.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn products_agree_with_the_reference_codec() {
        for format in FORMATS {
            for (rows, blocks, tokens) in [(1, 1, 1), (40, 3, 1), (48, 5, 3), (35, 4, 7), (70, 2, 13)] {
                let cols = if format.block_len == 1 { 43 * blocks } else { format.block_len * blocks };
                let case = Case::new(format, rows, cols, tokens);
                let found = case.run(Isa::detect(), 1, false);
                for (i, (found, (expected, magnitude))) in found.iter().zip(case.expected()).enumerate() {
                    // Rounding to f32 some hundred times; an activation that lies on a tie may be rounded either way.
                    let tolerance = 2e-5 * magnitude;
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
        for format in FORMATS {
            let cols = if format.block_len == 256 { 1024 } else { 992 };
            let case = Case::new(format, 83, cols, 14);
            let expected = bits(&case.run(Isa::Scalar, 1, false));
            for isa in Isa::available() {
                for (threads, mapped) in [(1, false), (3, false), (2, true)] {
                    let found = bits(&case.run(isa, threads, mapped));
                    assert!(found == expected, "{} {} {threads} threads, mapped {mapped}", format.name, isa.name());
                }
                for tokens in [1, 2, 5] {
                    let part = Case { x: case.x[..tokens * cols].to_vec(), tokens, ..Case::new(format, 83, cols, 14) };
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
        let cases: Vec<Case> = formats
            .iter()
            .enumerate()
            .map(|(i, &dtype)| Case::new(quant::format(dtype).unwrap(), 16 + 37 * i, 512, 9))
            .collect();
        let x = &cases[0].x;
        for tokens in [1, 9] {
            let matrices: Vec<Matrix> =
                cases.iter().map(|c| Matrix::packed(c.format.dtype, c.rows, 512).unwrap()).collect();
            let bytes: Vec<Vec<u8>> = cases
                .iter()
                .zip(&matrices)
                .map(|(case, matrix)| {
                    let mut bytes = vec![0; matrix.bytes()];
                    matrix.pack(&case.raw, &mut bytes);
                    bytes
                })
                .collect();
            let mut outs: Vec<Vec<f32>> = cases.iter().map(|c| vec![0.0; tokens * c.rows]).collect();
            let mut jobs: Vec<Job> = outs
                .iter_mut()
                .enumerate()
                .map(|(i, out)| Job::new(matrices[i], &bytes[i], Some(&cases[i].bias), out))
                .collect();
            let mut workspace = Workspace::new(3, 9, 512).unwrap();
            let pool = Arc::new(Pool::new(3).unwrap());
            multiply(&pool.enter(), Isa::detect(), &mut workspace, &x[..tokens * 512], tokens, &mut jobs);
            for (case, out) in cases.iter().zip(&outs) {
                let alone = Case { x: x[..tokens * 512].to_vec(), tokens, ..Case::new(case.format, case.rows, 512, 9) };
                assert_eq!(bits(&alone.run(Isa::detect(), 1, false)), bits(out), "{}", case.format.name);
            }
        }
    }

    #[test]
    fn a_part_is_those_rows() {
        let case = Case::new(quant::format(quant::Q5_0).unwrap(), 80, 64, 1);
        let matrix = Matrix::packed(quant::Q5_0, 80, 64).unwrap();
        let mut bytes = vec![0; matrix.bytes()];
        matrix.pack(&case.raw, &mut bytes);
        let (part, part_bytes) = matrix.part(&bytes, 32..64);
        let mut whole_row = vec![0f32; 64];
        let mut part_row = vec![1f32; 64];
        matrix.decode_row(&bytes, 35, &mut whole_row);
        part.decode_row(part_bytes, 3, &mut part_row);
        assert_eq!(whole_row, part_row);
    }

    #[test]
    fn values_that_are_not_finite_show() {
        for bad in [f32::NAN, f32::INFINITY] {
            let format = quant::format(quant::Q4_0).unwrap();
            let mut case = Case::new(format, 16, 64, 2);
            case.x[64 + 40] = bad;
            for isa in Isa::available() {
                let out = case.run(isa, 1, false);
                assert!(
                    out[..16].iter().all(|y| y.is_finite()) && out[16..].iter().all(|y| !y.is_finite()),
                    "{}",
                    isa.name()
                );
            }
        }
    }

    #[test]
    fn zeros_and_tiny_activations_give_the_bias() {
        let format = quant::format(quant::Q8_0).unwrap();
        for x in [0.0, 1e-30, -1e-42] {
            let mut case = Case::new(format, 16, 64, 1);
            case.x.fill(x);
            let out = case.run(Isa::detect(), 1, false);
            assert_eq!(out, case.bias);
        }
    }

    #[test]
    fn all_units_are_taken_once() {
        let claims = Claims(AtomicU64::new(0));
        claims.set(3..6);
        assert_eq!([true, false, true, true].map(|front| claims.take(front)), [Some(3), Some(5), Some(4), None]);
        for tokens in 1..40 {
            let tiling = Tiling::new(tokens, 6);
            let sizes: Vec<usize> = (0..tiling.tiles).map(|t| tiling.range(t).len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), tokens);
            assert!(sizes.iter().all(|n| (1..=6).contains(n)) && sizes[0] - sizes[sizes.len() - 1] <= 1);
        }
    }
}
