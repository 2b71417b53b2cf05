//! Attention of a few query rows over one chunk of keys and values, and the joining of chunks.
//!
//! Both halves, `Q K^T` and `P V`, are the same product: rows times a matrix whose vectors of 16 lanes are positions of
//! keys or dimensions of values, so that nothing is ever summed across lanes. Keys lie in panels of 16 positions, dimension
//! by dimension; values lie row by row.
//!
//! With 16-bit caches this is a product of integers: processors multiply twice as many of them as of floats, and their
//! sums are exact. Terms go in pairs, and in blocks of 32 that share a scale: a query and a key have one for each 32
//! dimensions. The values of a position have one, which is multiplied into the position's weight; the weights of a row then
//! share one for each 32 positions, so that where a large weight meets a small value, as at the first token of a text, the
//! other weights keep their bits. Other caches are expanded to f32 in registers.
//!
//! The softmax is online (Milakov and Gimelshein, arXiv 1805.02867): a chunk yields its peak, the sum of its weights
//! and its weighted values, all relative to the peak, and chunks are joined in the order of positions. Every element
//! is computed in the same order of operations whatever rows surround it, and a key that a row does not see adds
//! exact zeros; therefore results do not depend on how queries are grouped.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Isa;
use super::elementwise::{I16_PEAK, quantise_i16_lanes};
use super::lanes::{LANES, Lanes, dispatch};
use super::prefetch;
use crate::error::{Result, try_filled};

/// Positions in a chunk. Large enough that joining chunks costs little, small enough that the scores of a tile and the keys
/// and values of a chunk stay in the second-level cache.
pub const CHUNK: usize = 256;

/// Numbers that share a scale, and positions in a panel of values.
pub const BLOCK: usize = 32;

/// How keys and values lie in memory, for heads of `d` dimensions and `p = padded(d)`.
///
/// | | panel of 16 keys | panel of 32 values |
/// |---|---|---|
/// | `F32` | `[d][16]` f32 | `[32][p]` f32 |
/// | `I16` | for each 32 dimensions: `[16 or fewer][16][2]` i16, `[16]` f32 scales | `[16][p][2]` i16, `[32]` f32 scales |
/// | `I8` | `[d][16]` i8, then `[ceil(d / 32)][16]` f32 scales | `[32]` rows: `[p]` i8, `[ceil(p / 32)]` f32 scales |
///
/// Two i16 side by side are two dimensions of a key, the last one 0 where `d` is odd, or two positions of values. Panels of
/// keys are padded to a multiple of 64 bytes. All memory is 4-byte aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    F32,
    I16,
    I8,
}

/// Dimensions of a value row: whole vectors.
pub const fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

impl Storage {
    pub fn key_panel_bytes(self, head_dim: usize) -> usize {
        let bytes = match self {
            Storage::F32 => 4 * LANES * head_dim,
            Storage::I16 => KEY_LINE * (head_dim.div_ceil(2) + head_dim.div_ceil(BLOCK)),
            Storage::I8 => LANES * head_dim + 4 * LANES * head_dim.div_ceil(BLOCK),
        };
        bytes.next_multiple_of(64)
    }

    /// Bytes of a panel of values, divided by its positions.
    pub fn value_bytes(self, head_dim: usize) -> usize {
        let dims = padded(head_dim);
        match self {
            Storage::F32 => 4 * dims,
            Storage::I16 => 2 * dims + 4,
            Storage::I8 => dims + 4 * dims.div_ceil(BLOCK),
        }
    }
}

/// Bytes of two dimensions of a panel of `Storage::I16`, and of the scales of 32.
pub const KEY_LINE: usize = 64;

/// Keys and values of one head from some position that is a multiple of 32 onwards.
#[derive(Clone, Copy)]
pub struct Cached<'a> {
    pub head_dim: usize,
    pub key_storage: Storage,
    /// Whole panels.
    pub keys: &'a [u8],
    pub value_storage: Storage,
    /// Whole panels, but for f32.
    pub values: &'a [u8],
    /// Bytes from a position's values to the next, on average over a panel.
    pub value_stride: usize,
}

/// Rows of integers. Those of a row in a block of 32 share a scale.
pub struct Quantised {
    /// `[blocks][rows]`
    quants: Vec<[i16; BLOCK]>,
    /// `[blocks][rows]`
    scales: Vec<f32>,
}

impl Quantised {
    /// Room for so many rows.
    pub fn new(rows: usize, len: usize) -> Result<Quantised> {
        let n = rows * len.div_ceil(BLOCK);
        Ok(Quantised {
            quants: try_filled("attention scratch", n, [0; BLOCK])?,
            scales: try_filled("attention scratch", n, 0.0)?,
        })
    }
}

/// Quantises `factor * x`, where `x` is `[n, d]`, to rows `first..first + n` of `rows`.
pub fn quantise_rows(isa: Isa, x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut Quantised) {
    assert!(first + x.len() / d <= rows && rows * d.div_ceil(BLOCK) <= out.scales.len());
    dispatch!(
        isa,
        quantise_rows_lanes(x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut Quantised)
    )
}

#[inline(always)]
fn quantise_rows_lanes<S: Lanes>(
    s: S,
    x: &[f32],
    d: usize,
    factor: f32,
    first: usize,
    rows: usize,
    out: &mut Quantised,
) {
    for (r, x) in x.chunks_exact(d).enumerate() {
        let (whole, rest) = x.as_chunks::<BLOCK>();
        for (block, x) in whole.iter().enumerate() {
            let i = block * rows + first + r;
            out.scales[i] = factor * quantise_i16_lanes(s, x, &mut out.quants[i]);
        }
        if !rest.is_empty() {
            let i = whole.len() * rows + first + r;
            out.scales[i] = factor * quantise_i16_lanes(s, rest, &mut out.quants[i][..rest.len()]);
            out.quants[i][rest.len()..].fill(0);
        }
    }
}

/// Queries as the keys' storage wants them, already multiplied by the scale.
#[derive(Clone, Copy)]
pub enum Queries<'a> {
    /// `[rows, head_dim]`
    Floats(&'a [f32]),
    /// For keys of `Storage::I16`.
    Integers(&'a Quantised),
}

/// Memory for `attend_chunk`.
pub struct Room {
    /// `[rows, CHUNK]`, and then weights.
    scores: Vec<f32>,
    /// `[rows, CHUNK]`, times the scales of the values.
    weights: Quantised,
}

impl Room {
    pub fn new(rows: usize) -> Result<Room> {
        let scores = try_filled("attention scratch", rows * CHUNK, 0.0)?;
        Ok(Room { scores, weights: Quantised::new(rows, CHUNK)? })
    }
}

/// What rows have gathered from the positions so far, or from one chunk of them.
pub struct Partial<'a> {
    /// `[rows]`, largest score; minus infinity where nothing was seen.
    pub peaks: &'a mut [f32],
    /// `[rows]`, sum of `2^(score - peak)`.
    pub sums: &'a mut [f32],
    /// `[rows, padded(head_dim)]`, values weighted by the same.
    pub values: &'a mut [f32],
}

/// Attends with `rows = visible.len()` queries over the first `n` positions of `cached`, of which row r sees `visible[r]`.
/// Scores are logarithms to base 2; with `cap` not 0 they are `cap * tanh(q . k)`.
pub fn attend_chunk(
    isa: Isa,
    queries: Queries,
    visible: &[Range<usize>],
    cached: &Cached,
    n: usize,
    cap: f32,
    room: &mut Room,
    out: &mut Partial,
) {
    let (rows, d) = (visible.len(), cached.head_dim);
    assert!(n <= CHUNK && d > 0);
    match queries {
        Queries::Floats(x) => assert!(x.len() == rows * d && cached.key_storage != Storage::I16),
        Queries::Integers(q) => {
            assert!(q.scales.len() >= rows * d.div_ceil(BLOCK) && cached.key_storage == Storage::I16);
        }
    }
    assert!(cached.keys.len() >= n.div_ceil(LANES) * cached.key_storage.key_panel_bytes(d));
    let (each, stride) = (cached.value_storage.value_bytes(d), cached.value_stride);
    match cached.value_storage {
        Storage::I16 => assert!(stride == each && cached.values.len() >= n.next_multiple_of(BLOCK) * each),
        _ => assert!(each <= stride && stride.is_multiple_of(4) && cached.values.len() + stride >= n * stride + each),
    }
    assert!(cached.keys.as_ptr().addr().is_multiple_of(4) && cached.values.as_ptr().addr().is_multiple_of(4));
    assert!(room.scores.len() >= rows * CHUNK && room.weights.scales.len() >= rows * (CHUNK / BLOCK));
    assert!(out.peaks.len() == rows && out.sums.len() == rows && out.values.len() == rows * padded(d));
    dispatch!(
        isa,
        attend_chunk_lanes(
            queries: Queries,
            visible: &[Range<usize>],
            cached: &Cached,
            n: usize,
            cap: f32,
            room: &mut Room,
            out: &mut Partial,
        )
    )
}

#[inline(always)]
fn attend_chunk_lanes<S: Lanes>(
    s: S,
    queries: Queries,
    visible: &[Range<usize>],
    cached: &Cached,
    n: usize,
    cap: f32,
    room: &mut Room,
    out: &mut Partial,
) {
    let (rows, d) = (visible.len(), cached.head_dim);
    let panels = n.div_ceil(LANES);
    let values = cached.values.as_ptr();
    let value_panel = BLOCK * cached.value_stride;
    if cached.value_storage == Storage::I16 {
        // The scales are read before the values of their panels.
        for end in (1..=n.div_ceil(BLOCK)).map(|i| i * value_panel) {
            prefetch::near(values.wrapping_add(end - 128));
            prefetch::near(values.wrapping_add(end - 64));
        }
    }

    let Room { scores, weights } = room;
    let c = RowsMut { data: scores.as_mut_ptr(), stride: CHUNK };
    let panel = cached.key_storage.key_panel_bytes(d);
    let data = cached.keys.as_ptr();
    // SAFETY: `attend_chunk` asserts that the queries are `rows` rows of d in the form for this storage, that `keys` holds
    // `panels` panels, and that `scores` holds `rows` rows of CHUNK >= 16 * panels.
    unsafe {
        match queries {
            Queries::Integers(q) => {
                let b = Pairs { data, pair: KEY_LINE, block: (BLOCK / 2 + 1) * KEY_LINE, vector: panel, ahead: AHEAD };
                cover(s, rows, panels, Integers::<true> { depth: d, rows, a: q, b, c });
            }
            Queries::Floats(q) => {
                let a = Rows { data: q.as_ptr(), stride: d };
                let b = Matrix { data, row: 0, vector: panel, scales: LANES * d, ahead: AHEAD };
                match cached.key_storage {
                    Storage::I8 => {
                        cover(s, rows, panels, Floats { depth: d, a, b: KeyI8(Matrix { row: LANES, ..b }), c })
                    }
                    _ => cover(s, rows, panels, Floats { depth: d, a, b: F32(Matrix { row: 4 * LANES, ..b }), c }),
                }
            }
        }
    }

    // One thing for all rows after the other: a row alone would wait for itself.
    for ((scores, visible), peak) in scores.chunks_exact_mut(CHUNK).zip(visible).zip(&mut *out.peaks) {
        *peak = peak_of(s, &mut scores[..panels * LANES], visible.start..visible.end.min(n), cap);
    }
    for ((scores, &peak), sum) in scores.chunks_exact_mut(CHUNK).zip(&*out.peaks).zip(&mut *out.sums) {
        *sum = soften(s, &mut scores[..panels * LANES], peak);
    }
    if cached.value_storage == Storage::I16 {
        for (r, weights_of) in scores.chunks_exact(CHUNK).take(rows).enumerate() {
            quantise_weights(s, &weights_of[..panels * LANES], cached.values, value_panel, r, rows, weights);
        }
    }

    let dims = padded(d);
    let vectors = dims / LANES;
    let (a, c) =
        (Rows { data: scores.as_ptr(), stride: CHUNK }, RowsMut { data: out.values.as_mut_ptr(), stride: dims });
    let ahead = AHEAD / cached.value_storage.value_bytes(d) * cached.value_stride;
    let b = Matrix { data: values, row: cached.value_stride, vector: 0, scales: dims, ahead };
    // SAFETY: `attend_chunk` asserts that `scores` and `weights` hold `rows` rows of CHUNK >= n, that `values` holds n
    // positions, and that `out.values` holds `rows` rows of `dims`.
    unsafe {
        match cached.value_storage {
            Storage::F32 => {
                cover(s, rows, vectors, Floats { depth: n, a, b: F32(Matrix { vector: 4 * LANES, ..b }), c });
            }
            Storage::I16 => {
                let ahead = AHEAD.next_multiple_of(value_panel);
                let b = Pairs { data: values, pair: 4 * dims, block: value_panel, vector: 4 * LANES, ahead };
                cover(s, rows, vectors, Integers::<false> { depth: n, rows, a: weights, b, c });
            }
            Storage::I8 => {
                cover(s, rows, vectors, Floats { depth: n, a, b: ValueI8(Matrix { vector: LANES, ..b }), c });
            }
        }
    }
}

/// How many bytes of keys or values ahead of their use they are asked for: a chunk is too short for the hardware to find
/// its stream.
const AHEAD: usize = 8192;

/// The largest score of a row; those outside `visible` become minus infinity.
#[inline(always)]
fn peak_of<S: Lanes>(s: S, scores: &mut [f32], visible: Range<usize>, cap: f32) -> f32 {
    let (start, end) = (visible.start.min(scores.len()), visible.end.clamp(visible.start, scores.len()));
    if cap != 0.0 {
        for v in scores.as_chunks_mut::<LANES>().0 {
            let capped = s.mul(s.splat(cap), s.tanh(s.load(v)));
            s.store(capped, v);
        }
    }
    // Whatever stands in the lanes of keys that are not visible, it ends here.
    scores[..start].fill(f32::NEG_INFINITY);
    scores[end..].fill(f32::NEG_INFINITY);
    let mut peak = s.splat(f32::NEG_INFINITY);
    for v in scores.as_chunks::<LANES>().0 {
        peak = s.max(peak, s.load(v));
    }
    s.peak(peak)
}

/// Turns the scores of a row into weights relative to their peak. Returns their sum.
#[inline(always)]
fn soften<S: Lanes>(s: S, scores: &mut [f32], peak: f32) -> f32 {
    if peak == f32::NEG_INFINITY {
        scores.fill(0.0);
        return 0.0;
    }
    let mut sum = s.splat(0.0);
    for v in scores.as_chunks_mut::<LANES>().0 {
        let weight = s.exp2(s.sub(s.load(v), s.splat(peak)));
        sum = s.add(sum, weight);
        s.store(weight, v);
    }
    s.sum(sum)
}

/// Quantises the weights of row `r` of `rows`, multiplied by the scales of their values, which end panels of `panel` bytes.
#[inline(always)]
fn quantise_weights<S: Lanes>(
    s: S,
    weights: &[f32],
    values: &[u8],
    panel: usize,
    r: usize,
    rows: usize,
    out: &mut Quantised,
) {
    for (block, (weights, panel)) in weights.chunks(BLOCK).zip(values.chunks_exact(panel)).enumerate() {
        let scales = &panel[panel.len() - 4 * BLOCK..];
        let mut products = [s.splat(0.0); BLOCK / LANES];
        for (i, (product, weights)) in products.iter_mut().zip(weights.as_chunks().0).enumerate() {
            // SAFETY: `scales` are 32 aligned f32, as `attend_chunk` asserts.
            let scales = unsafe { &*scales.as_ptr().cast::<f32>().add(i * LANES).cast() };
            *product = s.mul(s.load(weights), s.load(scales));
        }
        let peak = s.peak(s.max(products[0], products[1]));
        let scale = peak * (1.0 / I16_PEAK);
        let inverse = s.splat(if scale > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 });
        let i = block * rows + r;
        out.scales[i] = scale;
        for (quants, product) in out.quants[i].as_chunks_mut().0.iter_mut().zip(products) {
            s.store_i16(s.mul(product, inverse), quants);
        }
    }
}

/// Adds what the rows of a later chunk have gathered. A row that saw nothing there is left as it is, to the bit.
pub fn join(isa: Isa, all: &mut Partial, chunk: &Partial) {
    let rows = all.peaks.len();
    assert!(all.sums.len() == rows && chunk.peaks.len() == rows && chunk.sums.len() == rows);
    assert_eq!(all.values.len(), chunk.values.len());
    dispatch!(isa, join_lanes(all: &mut Partial, chunk: &Partial))
}

#[inline(always)]
fn join_lanes<S: Lanes>(s: S, all: &mut Partial, chunk: &Partial) {
    let dims = all.values.len() / all.peaks.len().max(1);
    for r in 0..all.peaks.len() {
        let (old, new) = (all.peaks[r], chunk.peaks[r]);
        if new == f32::NEG_INFINITY {
            continue;
        }
        let peak = old.max(new);
        let (of_old, of_new) = (s.exp2(s.splat(old - peak)), s.exp2(s.splat(new - peak)));
        let mut sum = [0.0; LANES];
        s.store(s.fma(s.splat(chunk.sums[r]), of_new, s.mul(s.splat(all.sums[r]), of_old)), &mut sum);
        (all.peaks[r], all.sums[r]) = (peak, sum[0]);
        let range = r * dims..(r + 1) * dims;
        let (old, _) = all.values[range.clone()].as_chunks_mut::<LANES>();
        let (new, _) = chunk.values[range].as_chunks::<LANES>();
        for (old, new) in old.iter_mut().zip(new) {
            s.store(s.fma(s.load(new), of_new, s.mul(s.load(old), of_old)), old);
        }
    }
}

/// Rows of f32, `stride` elements apart.
#[derive(Clone, Copy)]
struct Rows {
    data: *const f32,
    stride: usize,
}

#[derive(Clone, Copy)]
struct RowsMut {
    data: *mut f32,
    stride: usize,
}

impl RowsMut {
    /// Stores a block that begins with row `r` and vector `v`.
    ///
    /// # Safety
    /// It lies within the rows.
    #[inline(always)]
    unsafe fn store<S: Lanes, const R: usize, const V: usize>(self, s: S, r: usize, v: usize, block: &[[S::V; V]; R]) {
        for (i, row) in block.iter().enumerate() {
            for (j, &vector) in row.iter().enumerate() {
                // SAFETY: by contract.
                s.store(vector, unsafe { &mut *self.data.add((r + i) * self.stride + (v + j) * LANES).cast() });
            }
        }
    }
}

/// A matrix made of vectors of 16 elements.
#[derive(Clone, Copy)]
struct Matrix {
    data: *const u8,
    /// Bytes from a row to the next.
    row: usize,
    /// Bytes from a vector of a row to the next.
    vector: usize,
    /// Where the scales of `Storage::I8` begin: from the start of a panel of keys, or of a row of values.
    scales: usize,
    /// Bytes to what is read soon.
    ahead: usize,
}

/// How a vector is expanded.
trait Operand: Copy {
    /// Where and how it lies.
    fn matrix(&self) -> &Matrix;

    /// # Safety
    /// The matrix has a row `k` and a vector `v`, and lies in memory as the implementation says.
    unsafe fn vector<S: Lanes>(&self, s: S, k: usize, v: usize) -> S::V;
}

#[derive(Clone, Copy)]
struct F32(Matrix);
impl Operand for F32 {
    #[inline(always)]
    fn matrix(&self) -> &Matrix {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Lanes>(&self, s: S, k: usize, v: usize) -> S::V {
        // SAFETY: inside the matrix by contract; aligned because the base and both distances are multiples of 4.
        s.load(unsafe { &*self.0.data.add(k * self.0.row + v * self.0.vector).cast() })
    }
}

/// Panels of keys: a vector is 16 positions, each with a scale of its own.
#[derive(Clone, Copy)]
struct KeyI8(Matrix);
impl Operand for KeyI8 {
    #[inline(always)]
    fn matrix(&self) -> &Matrix {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Lanes>(&self, s: S, k: usize, v: usize) -> S::V {
        let b = &self.0;
        // SAFETY: as above; the scales follow the quants, 16 a block.
        unsafe {
            let panel = b.data.add(v * b.vector);
            let scales = panel.add(b.scales + k / BLOCK * (4 * LANES));
            s.mul(s.load_i8(&*panel.add(k * b.row).cast()), s.load(&*scales.cast()))
        }
    }
}

/// Rows of values: two vectors share a scale.
#[derive(Clone, Copy)]
struct ValueI8(Matrix);
impl Operand for ValueI8 {
    #[inline(always)]
    fn matrix(&self) -> &Matrix {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Lanes>(&self, s: S, k: usize, v: usize) -> S::V {
        let b = &self.0;
        // SAFETY: as above; the scales follow the quants, one a block.
        unsafe {
            let row = b.data.add(k * b.row);
            let scale = *row.add(b.scales + v / (BLOCK / LANES) * 4).cast::<f32>();
            s.mul(s.load_i8(&*row.add(v * b.vector).cast()), s.splat(scale))
        }
    }
}

/// A product of two matrices that are in memory; each element is summed in the order of `depth`.
trait Product<S: Lanes> {
    /// Computes rows `r..r + R` and vectors `v..v + V`.
    ///
    /// # Safety
    /// They exist.
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize);
}

/// Computes all rows and vectors.
///
/// # Safety
/// They exist.
#[inline(always)]
unsafe fn cover<S: Lanes>(s: S, rows: usize, vectors: usize, product: impl Product<S>) {
    let p = &product;
    let mut r = 0;
    while r < rows {
        // Rows and vectors of a block: as many as stay in registers, and never so few that the latency of the
        // multiply-add shows.
        // SAFETY: rows `r..r + n` exist.
        unsafe {
            r += if const { S::ACCUMULATORS >= 24 } {
                match rows - r {
                    12.. => band::<S, 12, 2>(s, r, vectors, p),
                    4.. => band::<S, 4, 4>(s, r, vectors, p),
                    3 => band::<S, 3, 4>(s, r, vectors, p),
                    2 => band::<S, 2, 4>(s, r, vectors, p),
                    _ => band::<S, 1, 4>(s, r, vectors, p),
                }
            } else {
                match rows - r {
                    6.. => band::<S, 6, 1>(s, r, vectors, p),
                    4.. => band::<S, 4, 1>(s, r, vectors, p),
                    3 => band::<S, 3, 1>(s, r, vectors, p),
                    2 => band::<S, 2, 2>(s, r, vectors, p),
                    _ => band::<S, 1, 4>(s, r, vectors, p),
                }
            };
        }
    }
}

/// `R` rows of `cover`. Returns `R`.
///
/// # Safety
/// As for `cover`.
#[inline(always)]
unsafe fn band<S: Lanes, const R: usize, const V: usize>(
    s: S,
    r: usize,
    vectors: usize,
    product: &impl Product<S>,
) -> usize {
    // SAFETY: every block lies within `vectors`.
    unsafe {
        if vectors < V {
            for v in 0..vectors {
                product.block::<R, 1>(s, r, v);
            }
        } else {
            for v in (0..vectors).step_by(V) {
                // The last block may overlap the one before and compute the same again.
                product.block::<R, V>(s, r, v.min(vectors - V));
            }
        }
    }
    R
}

/// `C[rows][vectors * 16] = A[rows][depth] B[depth][vectors * 16]`
struct Floats<B> {
    depth: usize,
    a: Rows,
    b: B,
    c: RowsMut,
}

impl<S: Lanes, B: Operand> Product<S> for Floats<B> {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let mut sums = [[s.splat(0.0); V]; R];
        let b = self.b.matrix();
        // What a step reads, were it in one place, and how far apart steps then are.
        let step = V * b.row.min(b.vector);
        let (start, stride) =
            (b.data.wrapping_add(v * b.vector + b.ahead), if b.row < b.vector { step } else { b.row });
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract.
        unsafe {
            let a = self.a.data.add(r * self.a.stride);
            for k in 0..self.depth {
                for line in (0..step).step_by(64) {
                    prefetch::near(start.wrapping_add(k * stride + line));
                }
                let mut vectors = [s.splat(0.0); V];
                for (i, vector) in vectors.iter_mut().enumerate() {
                    *vector = self.b.vector(s, k, v + i);
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = s.splat(*a.add(r * self.a.stride + k));
                    for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                        *sum = s.fma(x, vector, *sum);
                    }
                }
            }
            self.c.store(s, r, v, &sums);
        }
    }
}

/// A matrix of pairs of i16: blocks of at most 16 pairs of rows, and in each lane of a vector a pair.
#[derive(Clone, Copy)]
struct Pairs {
    data: *const u8,
    /// Bytes from a pair of rows to the next.
    pair: usize,
    /// Bytes from a block to the next.
    block: usize,
    /// Bytes from a vector to the next.
    vector: usize,
    /// Bytes to what is read soon.
    ahead: usize,
}

/// The same product of integers, whose sums over a block are exact. `SCALED`: behind the last pair of a block, each vector
/// has scales for its lanes.
struct Integers<'a, const SCALED: bool> {
    depth: usize,
    rows: usize,
    a: &'a Quantised,
    b: Pairs,
    c: RowsMut,
}

impl<S: Lanes, const SCALED: bool> Product<S> for Integers<'_, SCALED> {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let Integers { depth, rows, b, .. } = *self;
        let mut sums = [[s.splat(0.0); V]; R];
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract, so that every pair does.
        unsafe {
            // The first rows ask for all. Vectors that lie apart are read at once, but asked for in the order of memory.
            let asks = r == 0;
            let mut soon = b.data.wrapping_add(v * b.vector + b.ahead);
            for block in 0..depth.div_ceil(BLOCK) {
                let pairs = (depth - block * BLOCK).div_ceil(2).min(BLOCK / 2);
                let data = b.data.add(block * b.block + v * b.vector);
                let a = self.a.quants.as_ptr().add(block * rows + r);
                let scales = self.a.scales.as_ptr().add(block * rows + r);
                if !SCALED {
                    soon = data.wrapping_add(b.ahead);
                }
                let mut dots = [[s.zero(); V]; R];
                for pair in 0..pairs {
                    if asks {
                        for line in 0..V {
                            prefetch::near(soon.wrapping_add(line * 64));
                        }
                    }
                    soon = soon.wrapping_add(if SCALED { V * 64 } else { b.pair });
                    let mut vectors = [s.splat_pair([0; 2]); V];
                    for (i, vector) in vectors.iter_mut().enumerate() {
                        *vector = s.load_pairs(&*data.add(pair * b.pair + i * b.vector).cast());
                    }
                    for (r, dots) in dots.iter_mut().enumerate() {
                        let x = s.splat_pair(*a.add(r).cast::<[i16; 2]>().add(pair));
                        for (dot, &vector) in dots.iter_mut().zip(&vectors) {
                            *dot = s.dot_pairs(*dot, x, vector);
                        }
                    }
                }
                for i in 0..V {
                    let of_lanes = if SCALED {
                        if asks {
                            prefetch::near(soon.wrapping_add(i * 64));
                        }
                        s.load(&*data.add(pairs * b.pair + i * b.vector).cast())
                    } else {
                        s.splat(1.0)
                    };
                    for r in 0..R {
                        let scale = s.splat(*scales.add(r));
                        let scale = if SCALED { s.mul(scale, of_lanes) } else { scale };
                        sums[r][i] = s.fma(s.to_f32(dots[r][i]), scale, sums[r][i]);
                    }
                }
                if SCALED {
                    soon = soon.wrapping_add(V * 64);
                }
            }
            self.c.store(s, r, v, &sums);
        }
    }
}
