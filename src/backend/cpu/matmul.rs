//! Matrix products: `out = W x + bias` for one token or many, for every matrix that shares the input.
//!
//! Owns the loops over groups of rows, panels of columns and tiles of tokens, and how they are shared out among the
//! threads. Relies on `packed` for the order of weights and on `kernels::matmul` for the arithmetic. A result depends
//! neither on the number of tokens beside it, nor on threads, nor on the instruction set.
#![allow(unsafe_code)]

use std::array;
use std::ops::Range;

use super::kernels::Isa;
use super::kernels::matmul::{
    Activation, BlockKernels, FloatGroups, FloatKernels, GROUP, Kernels, ONE_TOKEN_GROUPS, SET,
};
use super::kernels::prefetch;
use super::memory::Lines;
use super::packed::Layout;
use super::pool::{Shared, Team};
use crate::error::{Error, Result};
use crate::quant;
use crate::tensor::DType;

/// Columns of a panel: two groups of unpacked weights and what they are multiplied with stay in a first-level cache
/// of 32 KiB. A multiple of every block.
const fn panel(activation: Activation) -> usize {
    match activation {
        Activation::Bytes => 768,
        Activation::Pairs => 384,
    }
}
/// The same for f32 weights.
const FLOAT_PANEL: usize = 256;

/// Tokens that share an unpacked tile: their activations of a panel, and results of some tiles, fit in a second-level
/// cache of 1 MiB.
const CHUNK: usize = 256;

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

    /// A matrix that stays in the order of the file, for weights that are mapped and tables; packed again for each
    /// product.
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
        let start = self.layout.bytes(rows.start).unwrap_or(0);
        start..start + self.layout.bytes(rows.len()).unwrap_or(0)
    }

    /// Packs rows of the file, from a multiple of 16 on, into their place `range(rows)`. Allocates nothing; any thread,
    /// several at once. All instruction sets write the same finite values.
    pub fn pack(&self, isa: Isa, raw: &[u8], out: &mut [u8]) {
        let rows = raw.len() / self.layout.row_bytes.max(1);
        assert!(raw.len() == rows * self.layout.row_bytes && Some(out.len()) == self.layout.bytes(rows));
        self.layout.pack(isa.matmul(), raw, out);
    }

    /// Decodes a row to what the reference codec makes of it; of packed 16-bit floats to what they are multiplied as.
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

/// Memory for the products of one step at a time: quantised activations and each thread's scratch. What no product
/// has needed takes no room.
pub struct Workspace {
    records: Records,
    threads: Lines,
}

/// Activations of both kinds.
struct Records {
    bytes: Lines,
    pairs: Lines,
}

impl Records {
    fn of(&self, activation: Activation) -> &[u8] {
        match activation {
            Activation::Bytes => &self.bytes,
            Activation::Pairs => &self.pairs,
        }
    }

    fn of_mut(&mut self, activation: Activation) -> &mut [u8] {
        match activation {
            Activation::Bytes => &mut self.bytes,
            Activation::Pairs => &mut self.pairs,
        }
    }
}

/// Groups in a tile at most.
const TILE_GROUPS: usize = 2;

/// Bytes of the parts of a thread's scratch.
const TILE: usize = TILE_GROUPS * panel(Activation::Bytes) / SET * 12 * 64;
const WEIGHTS: usize = ONE_TOKEN_GROUPS * FLOAT_PANEL * GROUP * 4;
const RESULTS: usize = RUN * CHUNK * TILE_GROUPS * GROUP * 4;
const SCRATCH: usize = TILE + WEIGHTS + RESULTS;

impl Workspace {
    /// For inputs of at most `max_tokens` tokens of at most `max_cols` values.
    pub fn new(threads: usize, max_tokens: usize, max_cols: usize) -> Result<Workspace> {
        // Few tokens are made a power of two.
        let slots = max_tokens.max(1).checked_next_power_of_two().unwrap_or(max_tokens);
        let records = |activation: Activation| {
            let bytes = max_cols.div_ceil(SET).checked_mul(activation.bytes()).and_then(|n| n.checked_mul(slots));
            Lines::new("activations", bytes)
        };
        Ok(Workspace {
            records: Records { bytes: records(Activation::Bytes)?, pairs: records(Activation::Pairs)? },
            threads: Lines::new("scratch of the threads", threads.checked_mul(SCRATCH))?,
        })
    }
}

/// How the tokens are laid side by side: few of them in one tile, with room up to the next power of two, otherwise in
/// tiles of nearly the same size, none larger than a kernel takes.
#[derive(Clone, Copy)]
struct Tiling {
    tokens: usize,
    tiles: usize,
    /// Whether the tokens are few.
    few: bool,
}

impl Tiling {
    fn new(tokens: usize, kernels: &Kernels) -> Tiling {
        if tokens <= kernels.few_tokens {
            return Tiling { tokens, tiles: 1, few: true };
        }
        Tiling::many(tokens, kernels)
    }

    /// However few there are.
    fn many(tokens: usize, kernels: &Kernels) -> Tiling {
        Tiling { tokens, tiles: tokens.div_ceil(kernels.tokens), few: false }
    }

    /// The tokens of a tile.
    fn range(self, tile: usize) -> Range<usize> {
        let (each, more) = (self.tokens / self.tiles, self.tokens % self.tiles);
        let at = |tile: usize| tile * each + tile.min(more);
        at(tile)..at(tile + 1)
    }

    /// Tokens of a tile for which its records have room.
    fn slots(self, tokens: &Range<usize>) -> usize {
        if self.few { tokens.len().next_power_of_two() } else { tokens.len() }
    }

    /// Where the records of a tile's tokens lie, for a panel of columns: panel by panel, and tile by tile within each,
    /// so that a tile of weights meets them in one stream.
    fn records(self, activation: Activation, tokens: &Range<usize>, columns: &Range<usize>) -> Range<usize> {
        let sets = columns.len() / SET * activation.bytes();
        let before = columns.start / SET * activation.bytes() * self.slots(&(0..self.tokens));
        before + tokens.start * sets..before + (tokens.start + self.slots(tokens)) * sets
    }
}

/// What multiplies a matrix.
#[derive(Clone, Copy)]
enum Kernel {
    Blocks(&'static BlockKernels),
    Floats(&'static FloatKernels),
}

impl Kernel {
    fn of(kernels: &Kernels, layout: &Layout) -> Kernel {
        match ((kernels.blocks)(layout.dtype), (kernels.floats)(layout.dtype)) {
            (Some(blocks), _) if layout.cols.is_multiple_of(SET * blocks.sets) => Kernel::Blocks(blocks),
            (_, floats) => Kernel::Floats(floats.expect("`Layout` has looked")),
        }
    }
}

/// `out = W x + bias` for each job, `x` being `[tokens, cols]`. The tokens' activations are quantised once, in sets of
/// 32, for all matrices of a kind: to 8 bits for block formats, to 16 bits for floats of 16 bits and less. Other
/// matrices see them as they are.
pub fn multiply(team: &Team, isa: Isa, workspace: &mut Workspace, x: &[f32], tokens: usize, jobs: &mut [Job]) {
    let (Some(cols), true) = (jobs.first().map(|job| job.matrix.cols()), tokens > 0) else { return };
    assert!(x.len() == tokens * cols, "{} values for {tokens} tokens of {cols}", x.len());
    for job in jobs.iter() {
        assert!(job.matrix.cols() == cols && job.out.len() == tokens * job.matrix.rows);
    }
    let threads = team.threads();
    assert!(workspace.threads.len() >= threads * SCRATCH);
    let (kernels, tiling) = (isa.matmul(), Tiling::new(tokens, isa.matmul()));
    for activation in [Activation::Bytes, Activation::Pairs] {
        let input = Input { kernels, activation, x, cols, tiling };
        // A single tile is done sooner than another thread has heard of it.
        input.quantise(
            &mut workspace.records,
            jobs,
            |tiles, tile| {
                if tiles == 1 { tile(0) } else { team.for_each(tiles, tile) }
            },
        );
    }
    let product = Product { kernels, tiling, cols, x, records: &workspace.records, jobs };
    // Cut into one range of about the same cost for each thread.
    let run = product.run(threads);
    let (mut unit, mut spent) = (0, 0);
    let units = |job: &Job| job.matrix.rows.div_ceil(GROUP).div_ceil(run);
    let cost: usize = jobs.iter().map(|job| units(job) * product.cost(job)).sum();
    let mut left = jobs.iter().flat_map(|job| std::iter::repeat_n(product.cost(job), units(job)));
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
    let scratch = Shared::new(&mut workspace.threads);
    team.for_each_within(range, |share, unit| {
        // SAFETY: each share has its own scratch.
        let scratch = unsafe { scratch.slice_mut(share * SCRATCH..(share + 1) * SCRATCH) };
        product.perform(unit, run, &mut Scratch::new(scratch));
    });
}

/// What is to be quantised.
struct Input<'a> {
    kernels: &'static Kernels,
    activation: Activation,
    x: &'a [f32],
    cols: usize,
    tiling: Tiling,
}

impl Input<'_> {
    /// Writes the records where one of the jobs needs them. `each` calls a function for each of so many tiles.
    fn quantise(&self, records: &mut Records, jobs: &[Job], each: impl FnOnce(usize, &(dyn Fn(usize) + Sync))) {
        let kernels = jobs.iter().filter_map(|job| match Kernel::of(self.kernels, &job.matrix.layout) {
            Kernel::Blocks(kernels) if kernels.activation == self.activation => Some(kernels.halves),
            _ => None,
        });
        let Some(halves) = kernels.reduce(|a, b| a | b) else { return };
        let records = Shared::new(records.of_mut(self.activation));
        each(self.tiling.tiles, &|tile| {
            let tokens = self.tiling.range(tile);
            let slots = self.tiling.slots(&tokens);
            for columns in panels(self.cols, panel(self.activation)) {
                // SAFETY: records of other tokens or columns do not overlap.
                let records = unsafe { records.slice_mut(self.tiling.records(self.activation, &tokens, &columns)) };
                for (t, token) in tokens.clone().enumerate() {
                    let x = &self.x[token * self.cols..][columns.clone()];
                    // SAFETY: the kernels are those of an instruction set that is there.
                    unsafe {
                        match self.activation {
                            Activation::Bytes => (self.kernels.quantise)(x, records, slots, t, halves),
                            Activation::Pairs => (self.kernels.quantise_pairs)(x, records, slots, t),
                        }
                    }
                }
            }
        });
    }
}

/// A thread's scratch.
struct Scratch<'a> {
    tile: &'a mut [u8],
    weights: &'a mut [u8],
    /// Of the tiles of a unit: of one tile after the other, token by token.
    results: &'a mut [f32],
}

impl<'a> Scratch<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        let (tile, bytes) = bytes.split_at_mut(TILE);
        let (weights, results) = bytes.split_at_mut(WEIGHTS);
        Scratch { tile, weights, results: as_f32_mut(results) }
    }
}

/// Groups and columns of a matrix that are multiplied with some tiles of tokens.
struct Tile<'a> {
    groups: Range<usize>,
    columns: Range<usize>,
    tiling: Tiling,
    token_tiles: Range<usize>,
    /// Its part of a thread's results.
    results: Range<usize>,
    /// Packed weights of the tile after it.
    next: [&'a [u8]; TILE_GROUPS],
}

/// Results of a unit: tile by tile, in each token by token, in each `per_tile` groups.
struct Results<'a> {
    values: &'a [f32],
    per_tile: usize,
    /// Tokens for which there is room.
    slots: usize,
    /// Tiles whose results are where they belong.
    done: usize,
}

/// A call of `multiply`.
struct Product<'a> {
    kernels: &'static Kernels,
    tiling: Tiling,
    cols: usize,
    x: &'a [f32],
    records: &'a Records,
    jobs: &'a [Job<'a>],
}

impl Product<'_> {
    /// Groups in a unit of work.
    fn run(&self, threads: usize) -> usize {
        if self.tiling.few {
            return ONE_TOKEN_GROUPS;
        }
        let tiles: usize = self.jobs.iter().map(|job| job.matrix.rows.div_ceil(GROUP * self.kernels.groups)).sum();
        self.kernels.groups * (tiles / (threads * UNITS_PER_THREAD)).clamp(1, RUN)
    }

    /// Of a unit, in proportion.
    fn cost(&self, job: &Job) -> usize {
        if self.tiling.few { job.matrix.layout.group_bytes() } else { self.cols }
    }

    fn perform(&self, mut unit: usize, run: usize, scratch: &mut Scratch) {
        for job in self.jobs {
            let groups = job.matrix.rows.div_ceil(GROUP);
            let units = groups.div_ceil(run);
            if unit < units {
                let groups = unit * run..groups.min((unit + 1) * run);
                match Kernel::of(self.kernels, &job.matrix.layout) {
                    Kernel::Blocks(kernels) if self.tiling.few => self.few_tokens(job, kernels, groups, scratch),
                    Kernel::Floats(kernels) if self.tiling.tokens == 1 => {
                        self.one_token(job, kernels, groups, scratch);
                    }
                    kernel => self.many_tokens(job, kernel, groups, scratch),
                }
                return;
            }
            unit -= units;
        }
    }

    /// Straight from packed weights to the results.
    fn few_tokens(&self, job: &Job, kernels: &BlockKernels, groups: Range<usize>, scratch: &mut Scratch) {
        let (tokens, rows) = (0..self.tiling.tokens, job.matrix.rows);
        let slots = self.tiling.slots(&tokens);
        let fused = kernels.fused[slots.trailing_zeros() as usize];
        let panel = if job.matrix.layout.interleaved { self.cols } else { panel(kernels.activation) };
        // Whole groups of all slots go to their rows at once.
        let done = if slots == tokens.len() { groups.len().min(rows / GROUP - groups.start) } else { 0 };
        for (i, sum) in scratch.results.chunks_exact_mut(slots * GROUP).enumerate().take(groups.len()) {
            for columns in panels(self.cols, panel) {
                let records = self.records.of(kernels.activation);
                let records = &records[self.tiling.records(kernels.activation, &tokens, &columns)];
                let weights = panel_of(self.kernels, job, groups.start + i, columns.clone(), scratch.weights);
                let blocks = columns.len() / SET / kernels.sets;
                let (out, stride) = if i < done && columns.end == self.cols {
                    (job.out.as_mut_ptr().wrapping_add((groups.start + i) * GROUP), rows)
                } else {
                    (sum.as_mut_ptr(), GROUP)
                };
                let (weights, records) = (weights.as_ptr(), records.as_ptr());
                // SAFETY: the instruction set is there; weights and records of these columns; results of a group so
                // far; its rows, which are this thread's.
                unsafe { fused(weights, blocks, records, sum.as_ptr(), columns.start == 0, out, stride) }
            }
        }
        self.finish(job, groups, tokens, Results { values: scratch.results, per_tile: 1, slots, done });
    }

    fn one_token(&self, job: &Job, kernels: &FloatKernels, groups: Range<usize>, scratch: &mut Scratch) {
        let panel = if job.matrix.layout.interleaved { self.cols } else { FLOAT_PANEL };
        for columns in panels(self.cols, panel) {
            let weights = self.float_panels(job, &groups, columns.clone(), scratch.weights);
            let (x, out) = (&self.x[columns.clone()], &mut scratch.results[..ONE_TOKEN_GROUPS * GROUP]);
            // SAFETY: the instruction set is there; weights and values of these columns, and as many results.
            unsafe {
                let first = columns.start == 0;
                (kernels.one_token)(&weights, x.len(), x.as_ptr(), self.cols, out.as_mut_ptr(), first);
            }
        }
        let values = &*scratch.results;
        self.finish(job, groups, 0..1, Results { values, per_tile: ONE_TOKEN_GROUPS, slots: 1, done: 0 });
    }

    fn many_tokens(&self, job: &Job, kernel: Kernel, groups: Range<usize>, scratch: &mut Scratch) {
        let per_tile = self.kernels.groups;
        let chunk = CHUNK / self.kernels.tokens;
        let panel = match kernel {
            Kernel::Blocks(kernels) => panel(kernels.activation),
            Kernel::Floats(_) => FLOAT_PANEL,
        };
        // Floats have no kernels for few.
        let tiling = Tiling::many(self.tiling.tokens, self.kernels);
        for first in (0..tiling.tiles).step_by(chunk) {
            let token_tiles = first..tiling.tiles.min(first + chunk);
            let tokens = tiling.range(first).start..tiling.range(token_tiles.end - 1).end;
            let tile_results = tokens.len() * per_tile * GROUP;
            let starts = groups.clone().step_by(per_tile);
            let places = panels(self.cols, panel).flat_map(|columns| starts.clone().map(move |s| (s, columns.clone())));
            // The unit that follows is likely to be this thread's as well.
            let following = panels(self.cols, panel).next().map(|columns| (groups.end, columns));
            let mut places = places.chain(following).peekable();
            while let Some((start, columns)) = places.next()
                && let Some((next, next_columns)) = places.peek()
            {
                let i = (start - groups.start) / per_tile;
                let tile = Tile {
                    groups: start..groups.end.min(start + per_tile),
                    columns,
                    tiling,
                    token_tiles: token_tiles.clone(),
                    results: i * tile_results..(i + 1) * tile_results,
                    next: array::from_fn(|r| packed_panel(job, next + r, next_columns).unwrap_or_default()),
                };
                match kernel {
                    Kernel::Blocks(kernels) => self.tile_of_blocks(job, kernels, tile, scratch),
                    Kernel::Floats(kernels) => self.tile_of_floats(job, kernels, tile, scratch),
                }
            }
            let done = match kernel {
                Kernel::Blocks(_) => {
                    (job.matrix.rows - groups.start * GROUP).min(groups.len() * GROUP) / (per_tile * GROUP)
                }
                Kernel::Floats(_) => 0,
            };
            let slots = tokens.len();
            self.finish(job, groups.clone(), tokens, Results { values: scratch.results, per_tile, slots, done });
        }
    }

    fn tile_of_blocks(&self, job: &Job, kernels: &BlockKernels, tile: Tile, scratch: &mut Scratch) {
        let Tile { groups, columns, tiling, token_tiles, results, next } = tile;
        let sets = columns.len() / SET;
        for r in 0..self.kernels.groups {
            // A group that is missing from the last tile is another one twice.
            let group = (groups.start + r).min(groups.end - 1);
            let weights = panel_of(self.kernels, job, group, columns.clone(), scratch.weights);
            assert!(scratch.tile.len() >= sets * self.kernels.groups * kernels.tile_bytes);
            // SAFETY: the instruction set is there; weights of these columns, and a tile of them.
            unsafe { (kernels.unpack)(weights.as_ptr(), sets / kernels.sets, scratch.tile.as_mut_ptr().add(64 * r)) }
        }
        // Sums stay together until the last columns complete them: rows of many tokens, a power of two apart, would
        // drive each other out of the caches.
        let (start, width) = (groups.start * GROUP, self.kernels.groups * GROUP);
        let whole = columns.end == self.cols && start + width <= job.matrix.rows;
        let mut results = &mut scratch.results[results];
        let mut next =
            next.map(|panel| panel.chunks(panel.len().div_ceil(token_tiles.len()).next_multiple_of(64).max(64)));
        for tile in token_tiles {
            next.iter_mut().filter_map(Iterator::next).for_each(prefetch::later);
            let tokens = tiling.range(tile);
            let (sum, rest) = results.split_at_mut(tokens.len() * width);
            results = rest;
            let records = self.records.of(kernels.activation);
            let records = &records[tiling.records(kernels.activation, &tokens, &columns)];
            let (out, stride) = if whole {
                (job.out.as_mut_ptr().wrapping_add(tokens.start * job.matrix.rows + start), job.matrix.rows)
            } else {
                (sum.as_mut_ptr(), width)
            };
            // SAFETY: the instruction set is there; the tile, these tokens' records, and their results so far; their
            // rows, which are this thread's.
            unsafe {
                let multiply = kernels.multiply[tokens.len() - 1];
                let (tile, records) = (scratch.tile.as_ptr(), records.as_ptr());
                multiply(tile, sets, records, sum.as_ptr(), columns.start == 0, out, stride);
            }
        }
    }

    fn tile_of_floats(&self, job: &Job, kernels: &FloatKernels, tile: Tile, scratch: &mut Scratch) {
        let Tile { groups, columns, tiling, token_tiles, results, .. } = tile;
        let weights = self.float_panels(job, &groups, columns.clone(), scratch.weights);
        let mut results = &mut scratch.results[results];
        for tile in token_tiles {
            let tokens = tiling.range(tile);
            let (out, rest) = results.split_at_mut(tokens.len() * self.kernels.groups * GROUP);
            results = rest;
            let x = &self.x[tokens.start * self.cols + columns.start..(tokens.end - 1) * self.cols + columns.end];
            // SAFETY: the instruction set is there; weights, values and results of these columns and tokens.
            unsafe {
                let multiply = kernels.multiply[tokens.len() - 1];
                multiply(&weights, columns.len(), x.as_ptr(), self.cols, out.as_mut_ptr(), columns.start == 0);
            }
        }
    }

    /// Moves the results of some tokens to their rows and adds the bias.
    fn finish(&self, job: &Job, groups: Range<usize>, tokens: Range<usize>, results: Results) {
        let rows = groups.start * GROUP..job.matrix.rows.min(groups.end * GROUP);
        let done = results.done * results.per_tile;
        if rows.len() <= done * GROUP && job.bias.is_none() {
            return;
        }
        for (t, token) in tokens.enumerate() {
            let start = token * job.matrix.rows;
            // SAFETY: the rows of this unit are this thread's.
            let out = unsafe { job.out.slice_mut(start + rows.start..start + rows.end) };
            for (g, out) in out.chunks_mut(GROUP).enumerate().skip(done) {
                let (tile, r) = (g / results.per_tile, g % results.per_tile);
                let from = &results.values[((tile * results.slots + t) * results.per_tile + r) * GROUP..][..GROUP];
                match out.as_chunks_mut::<GROUP>() {
                    // Of known length, which is a move and no call.
                    ([out], []) => out.copy_from_slice(from),
                    (_, out) => out.copy_from_slice(&from[..out.len()]),
                }
            }
            if let Some(bias) = job.bias {
                out.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
            }
        }
    }

    /// Pointers to the columns of groups of float weights; those beyond the last are another one.
    fn float_panels(&self, job: &Job, groups: &Range<usize>, columns: Range<usize>, weights: &mut [u8]) -> FloatGroups {
        let mut parts = weights.chunks_exact_mut(WEIGHTS / ONE_TOKEN_GROUPS);
        let mut last = std::ptr::null();
        std::array::from_fn(|r| {
            if let (true, Some(part)) = (groups.start + r < groups.end, parts.next()) {
                last = panel_of(self.kernels, job, groups.start + r, columns.clone(), part).as_ptr();
            }
            last
        })
    }
}

/// Ranges of at most `max` columns, of nearly the same length, a multiple of 256 but for the last.
fn panels(cols: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    let panels = cols.div_ceil(max);
    let len = cols.div_ceil(panels.max(1)).next_multiple_of(256).min(max);
    (0..cols).step_by(len.max(1)).map(move |start| start..cols.min(start + len))
}

/// Some columns of a group in their place among packed weights, if it is there.
fn packed_panel<'a>(job: &'a Job, group: usize, columns: &Range<usize>) -> Option<&'a [u8]> {
    let Job { matrix: Matrix { rows, layout }, bytes, .. } = job;
    let there = layout.interleaved && group < rows.div_ceil(GROUP);
    there.then(|| &bytes[group * layout.group_bytes()..][..layout.group_bytes()][layout.packed_range(columns.clone())])
}

/// Some columns of a group in the order of the kernels: in place where they lie in it, otherwise packed into `scratch`.
fn panel_of<'a>(
    kernels: &Kernels,
    job: &'a Job,
    group: usize,
    columns: Range<usize>,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    if let Some(panel) = packed_panel(job, group, &columns) {
        return panel;
    }
    let Job { matrix: Matrix { rows, layout }, bytes, .. } = job;
    let rows = group * GROUP..(group * GROUP + GROUP).min(*rows);
    let scratch = &mut scratch[..layout.packed_range(columns.clone()).len()];
    layout.pack_columns(kernels, &bytes[rows.start * layout.row_bytes..rows.end * layout.row_bytes], columns, scratch);
    scratch
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
    let (kernels, tiling) = (isa.matmul(), Tiling::new(1, isa.matmul()));
    let jobs = [Job::new(matrix, raw, None, y)];
    for activation in [Activation::Bytes, Activation::Pairs] {
        let input = Input { kernels, activation, x, cols: x.len(), tiling };
        input.quantise(&mut workspace.records, &jobs, |_, tile| tile(0));
    }
    let mut scratch = Scratch::new(&mut workspace.threads);
    let product = Product { kernels, tiling, cols: x.len(), x, records: &workspace.records, jobs: &jobs };
    for unit in 0..rows.div_ceil(GROUP * ONE_TOKEN_GROUPS) {
        product.perform(unit, ONE_TOKEN_GROUPS, &mut scratch);
    }
    Ok(())
}

fn as_f32_mut(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: any bytes are an f32; what is not aligned is not among them.
    let (before, floats, after) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && after.is_empty());
    floats
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

        /// In f64, from the reference codec; activations and 16-bit weights rounded as `multiply` promises, together
        /// with the sum of the products' magnitudes.
        fn expected(&self) -> Vec<(f64, f64)> {
            let row_bytes = self.raw.len() / self.rows;
            let mut w = vec![0f32; self.cols];
            let layout = Layout::raw(self.format.dtype, self.cols).unwrap();
            let activation = match Kernel::of(Isa::Scalar.matmul(), &layout) {
                Kernel::Blocks(kernels) => Some(kernels.activation),
                _ => None,
            };
            let most = match activation {
                Some(Activation::Bytes) => 127.0,
                Some(Activation::Pairs) => 8191.0,
                None => f32::INFINITY,
            };
            let max = |set: &[f32]| set.iter().fold(0f32, |m, v| m.max(v.abs()));
            // In f32, so that what lies near a tie is rounded the same way.
            let round = |set: &[f32], inverse: f32, step: f64| -> Vec<f64> {
                let round =
                    |v: f32| if step > 0.0 { step * f64::from((v * inverse).round_ties_even()) } else { v.into() };
                set.iter().map(|&v| round(v)).collect()
            };
            let quantise = |set: &[f32]| round(set, most / max(set), f64::from(max(set) / most));
            let x: Vec<f64> = self.x.chunks(32).flat_map(quantise).collect();
            let mut out = vec![(0.0, 0.0); self.tokens * self.rows];
            for row in 0..self.rows {
                (self.format.dequantize)(&self.raw[row * row_bytes..(row + 1) * row_bytes], &mut w);
                let quantise = |set: &[f32]| {
                    let power = max(set).log2().floor().exp2();
                    let step = if activation == Some(Activation::Pairs) { power / 4096.0 } else { 0.0 };
                    round(set, 4096.0 / power, f64::from(step))
                };
                let w: Vec<f64> = w.chunks(32).flat_map(quantise).collect();
                for token in 0..self.tokens {
                    let x = &x[token * self.cols..][..self.cols];
                    let products = w.iter().zip(x).map(|(w, x)| w * x);
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
            matrix.pack(isa, &self.raw, &mut bytes);
            let mut out = vec![f32::NAN; self.tokens * rows];
            let mut workspace = Workspace::new(threads, self.tokens, cols).unwrap();
            let pool = Arc::new(Pool::new(threads).unwrap());
            let mut jobs = [Job::new(matrix, &bytes, Some(&self.bias), &mut out)];
            multiply(&pool.enter(), isa, &mut workspace, &self.x, self.tokens, &mut jobs);
            out
        }
    }

    fn bits(v: &[f32]) -> Vec<u32> {
        v.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn products_agree_with_the_reference_codec() {
        for format in FORMATS {
            let cases = [(1, 1, 1), (40, 3, 1), (48, 5, 3), (35, 4, 7), (70, 2, 13)];
            let columns: &[usize] = if format.block_len == 1 { &[32, 43] } else { &[format.block_len] };
            for ((rows, blocks, tokens), columns) in
                cases.iter().flat_map(|&case| columns.iter().map(move |c| (case, c)))
            {
                let cols = columns * blocks;
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
                for tokens in [1, 2, 3, 5, 8, 9] {
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
                    matrix.pack(Isa::detect(), &case.raw, &mut bytes);
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
        matrix.pack(Isa::detect(), &case.raw, &mut bytes);
        let (part, part_bytes) = matrix.part(&bytes, 32..64);
        let mut whole_row = vec![0f32; 64];
        let mut part_row = vec![1f32; 64];
        matrix.decode_row(&bytes, 35, &mut whole_row);
        part.decode_row(part_bytes, 3, &mut part_row);
        assert_eq!(whole_row, part_row);
    }

    /// In products of one column, which are not quantised.
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
    fn tiles_hold_all_tokens() {
        let kernels = Isa::Scalar.matmul();
        for tokens in 1..40 {
            let tiling = Tiling::new(tokens, kernels);
            let sizes: Vec<usize> = (0..tiling.tiles).map(|t| tiling.range(t).len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), tokens);
            let most = if tokens <= kernels.few_tokens { kernels.few_tokens } else { kernels.tokens };
            assert!(sizes.iter().all(|n| (1..=most).contains(n)) && sizes[0] - sizes[sizes.len() - 1] <= 1);
        }
    }
}
