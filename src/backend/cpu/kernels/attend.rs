//! Attention of a few query rows over one chunk of keys and values, and the joining of chunks.
//!
//! Both halves, `Q K^T` and `P V`, are the same product: rows of f32 times a matrix whose vectors of 16 lanes are
//! expanded from the cache's element type in registers. Keys lie in panels of 16 positions, dimension by dimension, so
//! that the lanes of a score are positions and nothing is ever summed across lanes; values lie row by row.
//!
//! The softmax is online (Milakov and Gimelshein, arXiv 1805.02867): a chunk yields its peak, the sum of its weights
//! and its weighted values, all relative to the peak, and chunks are joined in the order of positions. Every element
//! is computed in the same order of operations whatever rows surround it, and a key that a row does not see adds
//! exact zeros; therefore results do not depend on how queries are grouped.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Isa;
use super::lanes::{LANES, Lanes, dispatch};
use super::prefetch;

/// Positions in a chunk. Large enough that joining chunks costs little, small enough that keys and values of a chunk
/// stay in the first-level cache for heads of 64 and that a short context already occupies several threads.
pub const CHUNK: usize = 128;

/// Values that share a scale in `Storage::I8`.
pub const I8_BLOCK: usize = 32;

/// How keys and values lie in memory, for heads of `d` dimensions and `p = padded(d)`.
///
/// | | panel of 16 keys | row of one value |
/// |---|---|---|
/// | `F32`, `F16` | `[d][16]` elements | `[p]` elements |
/// | `I8` | `[d][16]` i8, then `[ceil(d / 32)][16]` f32 scales | `[p]` i8, then `[ceil(p / 32)]` f32 scales |
///
/// Panels are padded to a multiple of 64 bytes. All memory is 4-byte aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    F32,
    F16,
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
            Storage::F16 => 2 * LANES * head_dim,
            Storage::I8 => LANES * head_dim + 4 * LANES * head_dim.div_ceil(I8_BLOCK),
        };
        bytes.next_multiple_of(64)
    }

    pub fn value_row_bytes(self, head_dim: usize) -> usize {
        let dims = padded(head_dim);
        match self {
            Storage::F32 => 4 * dims,
            Storage::F16 => 2 * dims,
            Storage::I8 => dims + 4 * dims.div_ceil(I8_BLOCK),
        }
    }
}

/// Keys and values of one head from some position that is a multiple of 16 onwards.
#[derive(Clone, Copy)]
pub struct Cached<'a> {
    pub head_dim: usize,
    pub key_storage: Storage,
    /// Whole panels.
    pub keys: &'a [u8],
    pub value_storage: Storage,
    pub values: &'a [u8],
    /// Bytes from a row of values to the next.
    pub value_stride: usize,
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

/// Attends with `rows = visible.len()` queries `[rows, head_dim]`, already multiplied by the scale, over the first
/// `n` positions of `cached`, of which row r sees `visible[r]`. Scores are logarithms to base 2; with `cap` not 0 they
/// are `cap * tanh(q . k)`. `scores` is room for `rows * CHUNK`.
pub fn attend_chunk(
    isa: Isa,
    queries: &[f32],
    visible: &[Range<usize>],
    cached: &Cached,
    n: usize,
    cap: f32,
    scores: &mut [f32],
    out: &mut Partial,
) {
    let (rows, d) = (visible.len(), cached.head_dim);
    assert!(n <= CHUNK && d > 0);
    assert_eq!(queries.len(), rows * d);
    assert!(cached.keys.len() >= n.div_ceil(LANES) * cached.key_storage.key_panel_bytes(d));
    let (row, stride) = (cached.value_storage.value_row_bytes(d), cached.value_stride);
    assert!(row <= stride && stride.is_multiple_of(4) && cached.values.len() + stride >= n * stride + row);
    assert!(cached.keys.as_ptr().addr().is_multiple_of(4) && cached.values.as_ptr().addr().is_multiple_of(4));
    assert!(scores.len() >= rows * CHUNK);
    assert!(out.peaks.len() == rows && out.sums.len() == rows && out.values.len() == rows * padded(d));
    dispatch!(
        isa,
        attend_chunk_lanes(
            queries: &[f32],
            visible: &[Range<usize>],
            cached: &Cached,
            n: usize,
            cap: f32,
            scores: &mut [f32],
            out: &mut Partial,
        )
    )
}

#[inline(always)]
fn attend_chunk_lanes<S: Lanes>(
    s: S,
    queries: &[f32],
    visible: &[Range<usize>],
    cached: &Cached,
    n: usize,
    cap: f32,
    scores: &mut [f32],
    out: &mut Partial,
) {
    let (rows, d) = (visible.len(), cached.head_dim);
    let panels = n.div_ceil(LANES);

    let (a, c) = (Rows { data: queries.as_ptr(), stride: d }, RowsMut { data: scores.as_mut_ptr(), stride: CHUNK });
    let panel = cached.key_storage.key_panel_bytes(d);
    let k = Matrix { data: cached.keys.as_ptr(), row: 0, vector: panel, scales: LANES * d, ahead: AHEAD };
    // SAFETY: `attend_chunk` asserts that `queries` holds `rows` rows of d, that `keys` holds `panels` panels, and
    // that `scores` holds `rows` rows of CHUNK >= 16 * panels.
    unsafe {
        match cached.key_storage {
            Storage::F32 => product::<S, F32>(s, rows, panels, d, a, Matrix { row: 4 * LANES, ..k }, c),
            Storage::F16 => product::<S, F16>(s, rows, panels, d, a, Matrix { row: 2 * LANES, ..k }, c),
            Storage::I8 => product::<S, KeyI8>(s, rows, panels, d, a, Matrix { row: LANES, ..k }, c),
        }
    }

    for (r, visible) in visible.iter().enumerate() {
        let scores = &mut scores[r * CHUNK..][..panels * LANES];
        (out.peaks[r], out.sums[r]) = soften(s, scores, visible.start..visible.end.min(n), cap);
    }

    let dims = padded(d);
    let (a, c) =
        (Rows { data: scores.as_ptr(), stride: CHUNK }, RowsMut { data: out.values.as_mut_ptr(), stride: dims });
    let ahead = AHEAD / cached.value_storage.value_row_bytes(d) * cached.value_stride;
    let v = Matrix { data: cached.values.as_ptr(), row: cached.value_stride, vector: 0, scales: dims, ahead };
    let vectors = dims / LANES;
    // SAFETY: `attend_chunk` asserts that `scores` holds `rows` rows of CHUNK >= n, that `values` holds n rows, and
    // that `out.values` holds `rows` rows of `dims`.
    unsafe {
        match cached.value_storage {
            Storage::F32 => product::<S, F32>(s, rows, vectors, n, a, Matrix { vector: 4 * LANES, ..v }, c),
            Storage::F16 => product::<S, F16>(s, rows, vectors, n, a, Matrix { vector: 2 * LANES, ..v }, c),
            Storage::I8 => product::<S, ValueI8>(s, rows, vectors, n, a, Matrix { vector: LANES, ..v }, c),
        }
    }
}

/// How many bytes of keys or values ahead of their use they are asked for: a chunk is too short for the hardware to find
/// its stream.
const AHEAD: usize = 8192;

/// Turns the scores of a row into weights relative to their peak: 0 outside `visible`. Returns peak and sum.
#[inline(always)]
fn soften<S: Lanes>(s: S, scores: &mut [f32], visible: Range<usize>, cap: f32) -> (f32, f32) {
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
    let vectors = scores.as_chunks_mut::<LANES>().0;
    let mut peak = s.splat(f32::NEG_INFINITY);
    for v in vectors.iter() {
        peak = s.max(peak, s.load(v));
    }
    let peak = s.peak(peak);
    if peak == f32::NEG_INFINITY {
        scores.fill(0.0);
        return (peak, 0.0);
    }
    let mut sum = s.splat(0.0);
    for v in vectors {
        let weight = s.exp2(s.sub(s.load(v), s.splat(peak)));
        sum = s.add(sum, weight);
        s.store(weight, v);
    }
    (peak, s.sum(sum))
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

/// How a vector of a `Matrix` is expanded.
trait Operand {
    /// # Safety
    /// The matrix has a row `k` and a vector `v`, and lies in memory as the implementation says.
    unsafe fn vector<S: Lanes>(s: S, b: &Matrix, k: usize, v: usize) -> S::V;
}

struct F32;
impl Operand for F32 {
    #[inline(always)]
    unsafe fn vector<S: Lanes>(s: S, b: &Matrix, k: usize, v: usize) -> S::V {
        // SAFETY: inside the matrix by contract; aligned because the base and both distances are multiples of 4.
        s.load(unsafe { &*b.data.add(k * b.row + v * b.vector).cast() })
    }
}

struct F16;
impl Operand for F16 {
    #[inline(always)]
    unsafe fn vector<S: Lanes>(s: S, b: &Matrix, k: usize, v: usize) -> S::V {
        // SAFETY: as above.
        s.load_f16(unsafe { &*b.data.add(k * b.row + v * b.vector).cast() })
    }
}

/// Panels of keys: a vector is 16 positions, each with a scale of its own.
struct KeyI8;
impl Operand for KeyI8 {
    #[inline(always)]
    unsafe fn vector<S: Lanes>(s: S, b: &Matrix, k: usize, v: usize) -> S::V {
        // SAFETY: as above; the scales follow the quants, 16 a block.
        unsafe {
            let panel = b.data.add(v * b.vector);
            let scales = panel.add(b.scales + k / I8_BLOCK * (4 * LANES));
            s.mul(s.load_i8(&*panel.add(k * b.row).cast()), s.load(&*scales.cast()))
        }
    }
}

/// Rows of values: two vectors share a scale.
struct ValueI8;
impl Operand for ValueI8 {
    #[inline(always)]
    unsafe fn vector<S: Lanes>(s: S, b: &Matrix, k: usize, v: usize) -> S::V {
        // SAFETY: as above; the scales follow the quants, one a block.
        unsafe {
            let row = b.data.add(k * b.row);
            let scale = *row.add(b.scales + v / (I8_BLOCK / LANES) * 4).cast::<f32>();
            s.mul(s.load_i8(&*row.add(v * b.vector).cast()), s.splat(scale))
        }
    }
}

/// `C[rows][vectors * 16] = A[rows][depth] B[depth][vectors * 16]`; each element is summed in the order of `depth`.
///
/// # Safety
/// All three have these sizes in memory.
#[inline(always)]
unsafe fn product<S: Lanes, B: Operand>(
    s: S,
    rows: usize,
    vectors: usize,
    depth: usize,
    a: Rows,
    b: Matrix,
    c: RowsMut,
) {
    let mut r = 0;
    while r < rows {
        // SAFETY: rows `r..r + n` exist.
        unsafe {
            let a = Rows { data: a.data.add(r * a.stride), ..a };
            let c = RowsMut { data: c.data.add(r * c.stride), ..c };
            // Rows and vectors of a block: as many as stay in registers, and never so few that the latency of the
            // multiply-add shows.
            r += if const { S::ACCUMULATORS >= 24 } {
                match rows - r {
                    12.. => band::<S, B, 12, 2>(s, vectors, depth, a, b, c),
                    4.. => band::<S, B, 4, 4>(s, vectors, depth, a, b, c),
                    3 => band::<S, B, 3, 4>(s, vectors, depth, a, b, c),
                    2 => band::<S, B, 2, 4>(s, vectors, depth, a, b, c),
                    _ => band::<S, B, 1, 4>(s, vectors, depth, a, b, c),
                }
            } else {
                match rows - r {
                    6.. => band::<S, B, 6, 1>(s, vectors, depth, a, b, c),
                    4.. => band::<S, B, 4, 1>(s, vectors, depth, a, b, c),
                    3 => band::<S, B, 3, 1>(s, vectors, depth, a, b, c),
                    2 => band::<S, B, 2, 2>(s, vectors, depth, a, b, c),
                    _ => band::<S, B, 1, 4>(s, vectors, depth, a, b, c),
                }
            };
        }
    }
}

/// `R` rows of `product`. Returns `R`.
///
/// # Safety
/// As for `product`.
#[inline(always)]
unsafe fn band<S: Lanes, B: Operand, const R: usize, const V: usize>(
    s: S,
    vectors: usize,
    depth: usize,
    a: Rows,
    b: Matrix,
    c: RowsMut,
) -> usize {
    // SAFETY: every block lies within `vectors`.
    unsafe {
        if vectors < V {
            for v in 0..vectors {
                block::<S, B, R, 1>(s, v, depth, a, b, c);
            }
        } else {
            for v in (0..vectors).step_by(V) {
                // The last block may overlap the one before and compute the same again.
                block::<S, B, R, V>(s, v.min(vectors - V), depth, a, b, c);
            }
        }
    }
    R
}

/// # Safety
/// As for `product`, vectors `v..v + V`.
#[inline(always)]
unsafe fn block<S: Lanes, B: Operand, const R: usize, const V: usize>(
    s: S,
    v: usize,
    depth: usize,
    a: Rows,
    b: Matrix,
    c: RowsMut,
) {
    let mut sums = [[s.splat(0.0); V]; R];
    // What a step reads, were it in one place, and how far apart steps then are.
    let step = V * b.row.min(b.vector);
    let (start, stride) = (b.data.wrapping_add(v * b.vector + b.ahead), if b.row < b.vector { step } else { b.row });
    // SAFETY: rows 0..R, depth and vectors exist by contract.
    unsafe {
        for k in 0..depth {
            for line in (0..step).step_by(64) {
                prefetch::near(start.wrapping_add(k * stride + line));
            }
            let mut vectors = [s.splat(0.0); V];
            for (i, vector) in vectors.iter_mut().enumerate() {
                *vector = B::vector(s, &b, k, v + i);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = s.splat(*a.data.add(r * a.stride + k));
                for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                    *sum = s.fma(x, vector, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (i, &sum) in sums.iter().enumerate() {
                s.store(sum, &mut *c.data.add(r * c.stride + (v + i) * LANES).cast());
            }
        }
    }
}
