//! Attention of a few query rows over one chunk of the KV cache, and the merge of chunks.
//!
//! Both halves, `Q K^T` and `P V`, are the same product: rows times a matrix whose 16-lane vectors are positions of
//! keys or dimensions of values, so that no sum crosses lanes. Keys lie in panels of 16 positions, dimension by
//! dimension; values lie row by row.
//!
//! With 16-bit caches this is an integer product: processors have twice the integer throughput, and integer sums are
//! exact. Terms come in pairs, and in blocks of 32 that share a scale: queries and keys have one scale per 32
//! dimensions. The values of a position have one scale, which is multiplied into the position's weight; the weights of
//! a row then share one scale per 32 positions, so that a large weight of a small value (such as the first token's
//! attention sink) costs other weights no bits. Other caches are expanded to f32 in registers.
//!
//! The softmax is online (Milakov and Gimelshein, arXiv 1805.02867): a chunk yields its peak, the sum of its weights
//! and its weighted values, all relative to the peak; chunks are merged in the order of positions. Every element is
//! computed in the same order of operations for any set of rows, and a masked key adds exact zeros; therefore results
//! do not depend on how queries are grouped.
#![allow(unsafe_code)]

pub mod kv_storage;
pub mod latent;
mod products;

use std::f32::consts::LOG2_E;
use std::ops::Range;

use crate::cpu::kernels::attention::kv_storage::{BLOCK, KEY_LINE, KvView, SCALES, Storage, padded};
use crate::cpu::kernels::attention::products::{
    ByteBlocks, FloatBlocks, FloatRows, FloatRowsMut, IntegerBlocks, MatrixView, UnitView, multiply,
};
use crate::cpu::kernels::math::{exp2, tanh};
use crate::cpu::kernels::quantize::{I16_PEAK, QuantizedBytes, QuantizedRows};
use crate::cpu::kernels::simd::{LANES, Simd};
use crate::cpu::kernels::{Isa, dispatch, prefetch};
use crate::cpu::nan::has_nan;
use crate::error::{Result, try_filled};

/// Number of positions in a chunk: large enough that merging chunks is cheap, small enough that the scores of a tile
/// and the keys and values of a chunk stay in the L2 cache.
pub const CHUNK: usize = 256;

/// Query rows, already multiplied by the attention scale.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    pub all: QueryRows<'a>,
    /// Number of rows of `all`.
    pub of: usize,
    /// First row to compute.
    pub first: usize,
}

/// Queries in the form that the key storage needs.
#[derive(Clone, Copy)]
pub enum QueryRows<'a> {
    /// `[rows, head_dim]`
    Floats(&'a [f32]),
    /// For keys of `Storage::I16`.
    Integers(&'a QuantizedRows),
    /// For keys of `Storage::I8` and `Storage::I4`.
    Bytes(&'a QuantizedBytes),
}

/// Scratch memory of `attend_chunk`.
pub struct ChunkScratch {
    /// `[rows, CHUNK]`, overwritten by weights.
    scores: Vec<f32>,
    /// `[rows, CHUNK]`, multiplied by the scales of the values.
    weights: QuantizedRows,
    /// The same per 32 dimensions of 8-bit and 4-bit values; empty if `value_dim` is 0.
    bytes: QuantizedBytes,
}

impl ChunkScratch {
    pub fn new(rows: usize, value_dim: usize) -> Result<ChunkScratch> {
        Ok(ChunkScratch {
            scores: try_filled("attention scratch", rows * CHUNK, 0.0)?,
            weights: QuantizedRows::new(rows, CHUNK)?,
            bytes: QuantizedBytes::new(rows, CHUNK * value_dim.div_ceil(BLOCK))?,
        })
    }
}

/// The partial results of rows over some positions.
pub struct Partial<'a> {
    /// `[rows]`, largest score; minus infinity if no key was visible.
    pub peaks: &'a mut [f32],
    /// `[rows]`, sum of `2^(score - peak)`.
    pub sums: &'a mut [f32],
    /// `[rows, padded(value_dim)]`, values weighted by `2^(score - peak)`.
    pub values: &'a mut [f32],
}

/// The keys of a chunk that are visible to a row, and their distances.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    pub keys: Range<usize>,
    /// ALiBi slope: `slope * |first + i|` is subtracted from the score of key i.
    pub slope: f32,
    /// Position of the chunk's first key minus the row's position.
    pub first: f32,
    /// Range of the row's table of relative-position biases; empty without a table.
    pub table: Range<usize>,
    /// One bit per key of the chunk, set if the key is selected; `None`: all keys.
    pub among: Option<[u64; CHUNK / 64]>,
}

/// Computes the partial results of `visible.len()` query rows over the first `n` positions of `cached`; row r sees
/// `visible[r]`. Scores are logarithms to base 2; if `cap` is not 0, they are `cap * tanh(q . k)`. `distances` are as
/// in `op::Attend`.
pub fn attend_chunk(
    isa: Isa,
    queries: Queries,
    visible: &[Visible],
    distances: &[f32],
    cached: &KvView,
    n: usize,
    cap: f32,
    scratch: &mut ChunkScratch,
    out: &mut Partial,
) {
    let rows = visible.len();
    assert_keys(queries, rows, cached, n, scratch);
    let (each, stride) = (cached.value_storage.value_bytes(cached.value_dim), cached.value_stride);
    match cached.value_storage {
        Storage::F32 => {
            assert!(each <= stride && stride.is_multiple_of(4) && cached.values.len() + stride >= n * stride + each);
        }
        _ => assert!(stride == each && cached.values.len() >= n.next_multiple_of(BLOCK) * each),
    }
    if cached.value_storage.is_rotated() {
        assert!(scratch.bytes.scales.len() >= rows * (CHUNK / BLOCK) * cached.value_dim.div_ceil(BLOCK));
    }
    assert!(cached.values.as_ptr().addr().is_multiple_of(4));
    assert!(scratch.weights.scales.len() >= rows * (CHUNK / BLOCK));
    assert!(out.peaks.len() == rows && out.sums.len() == rows && out.values.len() == rows * padded(cached.value_dim));
    dispatch!(
        isa,
        attend_chunk_lanes(
            queries: Queries,
            visible: &[Visible],
            distances: &[f32],
            cached: &KvView,
            n: usize,
            cap: f32,
            scratch: &mut ChunkScratch,
            out: &mut Partial,
        )
    )
}

/// Asserts the preconditions of `multiply_keys`.
fn assert_keys(queries: Queries, rows: usize, cached: &KvView, n: usize, scratch: &ChunkScratch) {
    let d = cached.head_dim;
    assert!(n <= CHUNK && d > 0 && queries.first + rows <= queries.of);
    let quants = queries.of * d.div_ceil(BLOCK);
    match queries.all {
        QueryRows::Floats(x) => assert!(x.len() == queries.of * d && cached.key_storage == Storage::F32),
        QueryRows::Integers(q) => assert!(q.scales.len() >= quants && cached.key_storage == Storage::I16),
        QueryRows::Bytes(q) => assert!(q.scales.len() >= quants && cached.key_storage.is_rotated()),
    }
    assert!(cached.keys.len() >= n.div_ceil(LANES) * cached.key_storage.key_panel_bytes(d));
    assert!(cached.keys.as_ptr().addr().is_multiple_of(4) && scratch.scores.len() >= rows * CHUNK);
}

/// Computes `sum over rows of weight * max(score, 0)` for the first `n` keys of `cached`. The queries are all heads of
/// a token, with one of `weights` each.
pub fn score_chunk(
    isa: Isa,
    queries: Queries,
    weights: &[f32],
    cached: &KvView,
    n: usize,
    scratch: &mut ChunkScratch,
    out: &mut [f32; CHUNK],
) {
    assert_keys(queries, weights.len(), cached, n, scratch);
    dispatch!(
        isa,
        score_chunk_lanes(
            queries: Queries,
            weights: &[f32],
            cached: &KvView,
            n: usize,
            scratch: &mut ChunkScratch,
            out: &mut [f32; CHUNK],
        )
    )
}

#[inline(always)]
fn score_chunk_lanes<S: Simd>(
    s: S,
    queries: Queries,
    weights: &[f32],
    cached: &KvView,
    n: usize,
    scratch: &mut ChunkScratch,
    out: &mut [f32; CHUNK],
) {
    let panels = n.div_ceil(LANES);
    // SAFETY: `assert_keys` has checked queries, keys and scores.
    unsafe { multiply_keys(s, queries, weights.len(), cached, panels, &mut scratch.scores) };
    for (panel, out) in out.as_chunks_mut::<LANES>().0[..panels].iter_mut().enumerate() {
        let mut sum = s.splat(0.0);
        for (weight, scores) in weights.iter().zip(scratch.scores.chunks_exact(CHUNK)) {
            let scores = s.load(&scores.as_chunks::<LANES>().0[panel]);
            sum = s.fma(s.splat(*weight), s.max(scores, s.splat(0.0)), sum);
        }
        s.store(sum, out);
    }
}

#[inline(always)]
fn attend_chunk_lanes<S: Simd>(
    s: S,
    queries: Queries,
    visible: &[Visible],
    distances: &[f32],
    cached: &KvView,
    n: usize,
    cap: f32,
    scratch: &mut ChunkScratch,
    out: &mut Partial,
) {
    let (rows, panels, lanes) = (visible.len(), n.div_ceil(LANES), n.next_multiple_of(BLOCK));
    let values = cached.values.as_ptr();
    let value_panel = BLOCK * cached.value_stride;
    let groups = cached.value_dim.div_ceil(BLOCK);
    let scales = match cached.value_storage {
        Storage::F32 => 0,
        Storage::I16 => 4 * BLOCK,
        Storage::I8 | Storage::I4 => 2 * BLOCK * groups,
    };
    // The scales are read before the values of their panels.
    for end in (1..=n.div_ceil(BLOCK)).map(|i| i * value_panel) {
        (end - scales..end).step_by(64).for_each(|line| prefetch::near(values.wrapping_add(line)));
    }

    // SAFETY: `attend_chunk` asserts that the queries are `rows` rows of `head_dim` in the form for this storage,
    // that `keys` holds `panels` panels, and that `scores` holds `rows` rows of CHUNK >= 16 * panels.
    unsafe { multiply_keys(s, queries, rows, cached, panels, &mut scratch.scores) };

    let ChunkScratch { scores, weights, bytes } = scratch;
    // Each pass covers all rows: a single row would be limited by latency.
    for ((scores, visible), peak) in scores.chunks_exact_mut(CHUNK).zip(visible).zip(&mut *out.peaks) {
        let table = &distances[visible.table.clone()];
        *peak = max_score(s, &mut scores[..lanes], visible, table, n, cap);
    }
    for ((scores, &peak), sum) in scores.chunks_exact_mut(CHUNK).zip(&*out.peaks).zip(&mut *out.sums) {
        *sum = softmax_weights(s, &mut scores[..lanes], peak);
    }
    for (block, panel) in cached.values.chunks_exact(value_panel).enumerate().take(lanes / BLOCK) {
        let blocks = block..lanes / BLOCK;
        match cached.value_storage {
            Storage::F32 => {}
            Storage::I16 => quantize_weights(s, scores, panel, block, rows, weights),
            Storage::I8 => quantize_weights_to_bytes::<S, false>(s, scores, panel, groups, blocks, rows, bytes),
            Storage::I4 => quantize_weights_to_bytes::<S, true>(s, scores, panel, groups, blocks, rows, bytes),
        }
    }

    // SAFETY: `attend_chunk` asserts that `scores`, `weights` and `bytes` hold `rows` rows of CHUNK >= n, that `values`
    // holds n positions, and that `out.values` holds `rows` rows of `padded(value_dim)`.
    unsafe { multiply_values(s, scratch, rows, cached, n, out.values) };
}

/// Computes the scores of `rows` queries for the keys of `panels` panels, in rows of CHUNK.
///
/// # Safety
/// Queries, keys and scores must hold this many entries, in the form for the key storage.
#[inline(always)]
unsafe fn multiply_keys<S: Simd>(
    s: S,
    queries: Queries,
    rows: usize,
    cached: &KvView,
    panels: usize,
    scores: &mut [f32],
) {
    let (data, d) = (cached.keys.as_ptr(), cached.head_dim);
    let Queries { all, of, first } = queries;
    let (c, vector) =
        (FloatRowsMut { data: scores.as_mut_ptr(), stride: CHUNK }, cached.key_storage.key_panel_bytes(d));
    // SAFETY: by this function's contract.
    unsafe {
        match all {
            QueryRows::Integers(a) => {
                let b = UnitView { data, unit: KEY_LINE, block: (BLOCK / 2 + 1) * KEY_LINE, vector, ahead: AHEAD };
                multiply(s, rows, panels, IntegerBlocks::<true> { depth: d, from: 0, of, first, a, b, c });
            }
            QueryRows::Bytes(a) => {
                let nibbles = cached.key_storage == Storage::I4;
                let block = BLOCK / if nibbles { 8 } else { 4 } * KEY_LINE + SCALES;
                let b = UnitView { data, unit: KEY_LINE, block, vector, ahead: AHEAD };
                let (from, blocks) = (0, d.div_ceil(BLOCK));
                if nibbles {
                    multiply(s, rows, panels, ByteBlocks::<true, true> { depth: d, from, blocks, of, first, a, b, c });
                } else {
                    multiply(s, rows, panels, ByteBlocks::<false, true> { depth: d, from, blocks, of, first, a, b, c });
                }
            }
            QueryRows::Floats(q) => {
                let a = FloatRows { data: q.as_ptr().add(first * d), stride: d };
                let b = MatrixView { data, row: 4 * LANES, vector, ahead: AHEAD };
                multiply(s, rows, panels, FloatBlocks { depth: d, a, b, c });
            }
        }
    }
}

/// Computes the sums of the values of `n` positions times the weights of `rows` rows of `scratch`.
///
/// # Safety
/// Weights in the form for the value storage, values and `out` must hold this many entries.
#[inline(always)]
unsafe fn multiply_values<S: Simd>(
    s: S,
    scratch: &ChunkScratch,
    rows: usize,
    cached: &KvView,
    n: usize,
    out: &mut [f32],
) {
    let (data, dims) = (cached.values.as_ptr(), padded(cached.value_dim));
    let (vectors, block, vector) = (dims / LANES, BLOCK * cached.value_stride, 4 * LANES);
    let c = FloatRowsMut { data: out.as_mut_ptr(), stride: dims };
    let ChunkScratch { scores, weights, bytes } = scratch;
    // Integer vectors lie next to each other and are read one after the other: some blocks at a time, so that each
    // block is prefetched during the multiplication of the previous blocks.
    let step = if cached.value_storage == Storage::F32 { CHUNK / BLOCK } else { AHEAD.div_ceil(block) };
    let b = UnitView { data, unit: 4 * dims, block, vector, ahead: step * block };
    let (of, first, blocks) = (rows, 0, n.div_ceil(BLOCK));
    for from in (0..blocks).step_by(step) {
        let depth = n.min((from + step) * BLOCK);
        // SAFETY: by this function's contract.
        unsafe {
            match cached.value_storage {
                Storage::F32 => {
                    let a = FloatRows { data: scores.as_ptr(), stride: CHUNK };
                    let ahead = AHEAD / (4 * dims) * cached.value_stride;
                    let b = MatrixView { data, row: cached.value_stride, vector, ahead };
                    multiply(s, rows, vectors, FloatBlocks { depth, a, b, c });
                }
                Storage::I16 => {
                    multiply(s, rows, vectors, IntegerBlocks::<false> { depth, from, of, first, a: weights, b, c })
                }
                Storage::I8 => {
                    let product = ByteBlocks::<false, false> { depth, from, blocks, of, first, a: bytes, b, c };
                    multiply(s, rows, vectors, product)
                }
                Storage::I4 => {
                    let product = ByteBlocks::<true, false> { depth, from, blocks, of, first, a: bytes, b, c };
                    multiply(s, rows, vectors, product)
                }
            }
        }
    }
}

/// Prefetch distance of keys and values in bytes: a chunk is too short for the hardware prefetcher.
const AHEAD: usize = 8192;

/// Returns the largest of the `n` scores of a row; scores of masked keys become minus infinity.
#[inline(always)]
fn max_score<S: Simd>(s: S, scores: &mut [f32], seen: &Visible, table: &[f32], n: usize, cap: f32) -> f32 {
    let start = seen.keys.start.min(scores.len());
    let end = seen.keys.end.min(n).clamp(start, scores.len());
    if cap != 0.0 {
        for v in scores.as_chunks_mut::<LANES>().0 {
            let capped = s.mul(s.splat(cap), tanh(s, s.load(v)));
            s.store(capped, v);
        }
    }
    if seen.slope != 0.0 {
        let (slope, step) = (s.splat(seen.slope), s.splat(LANES as f32));
        let mut distance = s.load(&std::array::from_fn(|i| seen.first + i as f32));
        for v in scores.as_chunks_mut::<LANES>().0 {
            let away = s.max(distance, s.sub(s.splat(0.0), distance));
            let sum = s.fma(slope, s.sub(s.splat(0.0), away), s.load(v));
            s.store(sum, v);
            distance = s.add(distance, step);
        }
    }
    add_by_distance(scores, seen.first, table);
    // The lanes of masked keys may hold any value so far.
    scores[..start].fill(f32::NEG_INFINITY);
    scores[end..].fill(f32::NEG_INFINITY);
    if let Some(among) = seen.among {
        let unseen = |i: usize| among[i / 64] >> (i % 64) & 1 == 0;
        scores.iter_mut().enumerate().filter(|(i, _)| unseen(*i)).for_each(|(_, score)| *score = f32::NEG_INFINITY);
    }
    let mut peak = s.splat(f32::NEG_INFINITY);
    for v in scores.as_chunks::<LANES>().0 {
        peak = s.max(peak, s.load(v));
    }
    match s.max_lane(peak) {
        // No visible key has a score above negative infinity, and at least one score is NaN.
        f32::NEG_INFINITY if has_nan(&scores[start..end]) => f32::NAN,
        peak => peak,
    }
}

/// Adds to each score the table's bias for its distance; `first` is the distance of the first score's key. Distances
/// outside the table use its first or last entry.
#[inline(always)]
fn add_by_distance(scores: &mut [f32], first: f32, table: &[f32]) {
    let (Some(least), Some(most)) = (table.first(), table.last()) else { return };
    // Number of scores before the table's first distance, and of table entries before the first score.
    let start = (-first - (table.len() / 2) as f32).clamp(0.0, scores.len() as f32) as usize;
    let skipped = (first + (table.len() / 2) as f32).clamp(0.0, table.len() as f32) as usize;
    let (before, within) = scores.split_at_mut(start);
    let (within, later) = within.split_at_mut(within.len().min(table.len() - skipped));
    before.iter_mut().for_each(|score| *score += LOG2_E * least);
    within.iter_mut().zip(&table[skipped..]).for_each(|(score, x)| *score += LOG2_E * x);
    later.iter_mut().for_each(|score| *score += LOG2_E * most);
}

/// Replaces the scores of a row by weights relative to their peak. Returns the sum of the weights.
#[inline(always)]
fn softmax_weights<S: Simd>(s: S, scores: &mut [f32], peak: f32) -> f32 {
    if peak == f32::NEG_INFINITY {
        scores.fill(0.0);
        return 0.0;
    }
    let mut sum = s.splat(0.0);
    for v in scores.as_chunks_mut::<LANES>().0 {
        let weight = exp2(s, s.sub(s.load(v), s.splat(peak)));
        sum = s.add(sum, weight);
        s.store(weight, v);
    }
    s.sum(sum)
}

/// Quantizes block `block` of the weights of `rows` rows, multiplied by the scales of their values at the end of
/// `panel`.
#[inline(always)]
fn quantize_weights<S: Simd>(s: S, weights: &[f32], panel: &[u8], block: usize, rows: usize, out: &mut QuantizedRows) {
    // SAFETY: `panel` ends with 32 aligned f32, as `attend_chunk` asserts.
    let of_values = unsafe { &*panel.as_ptr().add(panel.len() - 4 * BLOCK).cast::<[[f32; LANES]; BLOCK / LANES]>() };
    let of_values = [s.load(&of_values[0]), s.load(&of_values[1])];
    let scales = &mut out.scales[block * rows..][..rows];
    let quants = &mut out.quants[block * rows..][..rows];
    for ((weights, scale), quants) in weights.chunks_exact(CHUNK).zip(scales).zip(quants) {
        let weights = &weights.as_chunks::<LANES>().0[block * (BLOCK / LANES)..];
        let products = [s.mul(s.load(&weights[0]), of_values[0]), s.mul(s.load(&weights[1]), of_values[1])];
        let peak = s.max_lane(s.max(products[0], products[1]));
        *scale = peak * (1.0 / I16_PEAK);
        let inverse = s.splat(if *scale > f32::MIN_POSITIVE { 1.0 / *scale } else { 0.0 });
        for (quants, product) in quants.as_chunks_mut().0.iter_mut().zip(products) {
            s.store_i16(s.mul(product, inverse), quants);
        }
    }
}

/// Quantizes block `blocks.start` as `quantize_weights` does, to 8 bits and once per group of dimensions with its own
/// scale, of `groups`. `out` holds `blocks.end` blocks per group. `SIGNED`: scales may be negative.
#[inline(always)]
fn quantize_weights_to_bytes<S: Simd, const SIGNED: bool>(
    s: S,
    weights: &[f32],
    panel: &[u8],
    groups: usize,
    blocks: Range<usize>,
    rows: usize,
    out: &mut QuantizedBytes,
) {
    for (group, scales) in panel[panel.len() - 2 * BLOCK * groups..].chunks_exact(2 * BLOCK).enumerate() {
        // SAFETY: `scales` are 32 of 2 bytes.
        let of_values = unsafe { [s.load_bf16(scales.as_ptr()), s.load_bf16(scales.as_ptr().add(2 * LANES))] };
        let mut out = out.rows((group * blocks.end + blocks.start) * rows, rows);
        for (r, weights) in weights.chunks_exact(CHUNK).take(rows).enumerate() {
            let weights = &weights.as_chunks::<LANES>().0[blocks.start * (BLOCK / LANES)..];
            let products = [s.mul(s.load(&weights[0]), of_values[0]), s.mul(s.load(&weights[1]), of_values[1])];
            let peak = match SIGNED {
                true => s.max_abs(products[0], products[1]),
                false => s.max_lane(s.max(products[0], products[1])),
            };
            out.set::<S, SIGNED>(s, r, products, peak);
        }
    }
}

/// Adds the partial results of a later chunk. A row for which that chunk has no visible key stays unchanged, bit by
/// bit.
pub fn join(isa: Isa, all: &mut Partial, chunk: &Partial) {
    let rows = all.peaks.len();
    assert!(all.sums.len() == rows && chunk.peaks.len() == rows && chunk.sums.len() == rows);
    assert_eq!(all.values.len(), chunk.values.len());
    dispatch!(isa, join_lanes(all: &mut Partial, chunk: &Partial))
}

#[inline(always)]
fn join_lanes<S: Simd>(s: S, all: &mut Partial, chunk: &Partial) {
    let dims = all.values.len() / all.peaks.len().max(1);
    for r in 0..all.peaks.len() {
        let (old, new) = (all.peaks[r], chunk.peaks[r]);
        if new == f32::NEG_INFINITY {
            continue;
        }
        let peak = old.max(new);
        let (of_old, of_new) = (exp2(s, s.splat(old - peak)), exp2(s, s.splat(new - peak)));
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
