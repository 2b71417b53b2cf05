//! The loops of attention: the division of queries and keys among the threads. `kernels::attention` has the arithmetic.
//!
//! Queries that share a KV head are computed together, and tokens in tiles, so that each row of the KV cache is read
//! once for all of them. A tile may contain tokens of several sequences that share memory, as forks do; shared chunks
//! are read once. A tile processes its segments in order. If there are too few tiles for the threads, segments are
//! spread over the threads and merged in the same order. Either way each result is the same sequence of operations.
#![allow(unsafe_code)]

mod nan;
mod plan;
mod scratch;
mod select;
mod source;

use std::f32::consts::LOG2_E;

pub use self::nan::carry_nan;
pub use self::plan::{Heads, Scoring};
use self::plan::{QueryTile, SEGMENT, SMALL, SegmentTask, Span, bits, chunks, divide, keys_of, segments, visible};
pub use self::scratch::AttentionScratch;
use self::scratch::{PartialBuffer, TileScratch};
pub use self::select::{SelectRows, select};
use self::source::PlainCache;
pub use self::source::{KvSource, LayerSource};
use super::kernels::hadamard::rotate;
use super::kernels::quantize::{quantize_bytes, quantize_rows};
use super::kernels::{Isa, elementwise};
use crate::cpu::kernels::attention::kv_storage::{BLOCK, Storage, padded};
use crate::cpu::kernels::attention::{CHUNK, ChunkScratch, Partial, Queries, QueryRows, Visible, attend_chunk, join};
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result};

/// Computes `out = softmax(scale * Q K^T) V` from the cursor of the scratch on; returns true when all is done.
/// `positions` and `sequences` are `[n]`, with the tokens of a sequence adjacent; `q` is `[n, queries * dim]`, `out`
/// `[n, queries * value_dim]`, `sums` `[n, queries]` or empty: see `op::Half`. The source must hold every position up
/// to each token's own.
pub fn attend(
    team: &Team,
    isa: Isa,
    scoring: &Scoring,
    positions: &[u32],
    sequences: &[u32],
    source: &impl KvSource,
    q: &[f32],
    [out, sums]: [&mut [f32]; 2],
    scratch: &mut AttentionScratch,
) -> bool {
    let AttentionScratch { heads, per_thread, partials, joined, spans, tiles, tasks, cursor } = scratch;
    let heads = *heads;
    let n = positions.len();
    assert!(sequences.len() == n && n <= tiles.capacity() && team.threads() <= per_thread.len());
    assert!(q.len() == n * heads.queries * heads.dim && out.len() == n * heads.queries * heads.value_dim);
    let threads = per_thread.len();
    let memory = |sequence, chunk| source.memory(sequence, chunk);
    divide(heads, scoring, positions, sequences, &memory, threads, spans, tiles);

    let (out, sums) = (DisjointSlice::new(out), DisjointSlice::new(sums));
    let pass = AttentionPass { isa, heads, scoring, positions, source, spans, q, out, sums };
    let per_thread = DisjointSlice::new(per_thread);
    let products: usize = tiles.iter().map(|t| t.tokens * t.sees.len() * heads.queries * heads.dim).sum();
    let pairs = tiles.len() * heads.kv;
    // The thread count of the scratch, because the team's may change between chunks of the op.
    if pairs >= 2 * threads || products <= SMALL || partials.is_empty() {
        let execute = |share: usize, i: usize| {
            // Last tiles first: they see the most keys, and the work that is left when other threads are done should be
            // short.
            let tile = &tiles[tiles.len() - 1 - i / heads.kv];
            // SAFETY: a share runs on one thread at a time.
            let scratch = &mut unsafe { per_thread.slice_mut(share..share + 1) }[0];
            pass.attend_tile(tile, i % heads.kv, scratch);
        };
        if products <= SMALL {
            (0..pairs).for_each(|i| execute(0, i));
            return true;
        }
        let taken = cursor.take(pairs, products, threads);
        team.for_each_with(taken.len(), |share, i| execute(share, taken.start + i));
        return cursor.ends(taken.end == pairs);
    }

    tasks.clear();
    let (mut n_done, mut waves) = (cursor.done, 0);
    for (t, tile) in tiles.iter().enumerate() {
        for kv in 0..heads.kv {
            for segment in segments(&tile.sees) {
                if n_done > 0 {
                    n_done -= 1;
                    continue;
                }
                tasks.push(SegmentTask { tile: t, kv, segment });
                if tasks.len() == tasks.capacity() {
                    pass.attend_segments(team, tiles, tasks, &per_thread, partials, joined);
                    cursor.done += tasks.len();
                    tasks.clear();
                    waves += 1;
                    if waves >= cursor.op_chunk.of(1) {
                        return false;
                    }
                }
            }
        }
    }
    pass.attend_segments(team, tiles, tasks, &per_thread, partials, joined);
    cursor.ends(true)
}

/// The common arguments of all tiles of a call.
struct AttentionPass<'a, S> {
    isa: Isa,
    heads: Heads,
    scoring: &'a Scoring<'a>,
    positions: &'a [u32],
    source: &'a S,
    spans: &'a [Span],
    q: &'a [f32],
    out: DisjointSlice<'a, f32>,
    sums: DisjointSlice<'a, f32>,
}

impl<S: KvSource> AttentionPass<'_, S> {
    fn spans(&self, tile: &QueryTile) -> &[Span] {
        &self.spans[tile.spans.clone()]
    }

    /// Returns the tokens of a tile.
    fn tokens(&self, tile: &QueryTile) -> impl Iterator<Item = usize> {
        self.spans(tile).iter().flat_map(|span| span.tokens.clone())
    }

    /// Computes one tile and one KV head, from queries to output.
    fn attend_tile(&self, tile: &QueryTile, kv: usize, scratch: &mut TileScratch) {
        let dims = padded(self.heads.value_dim);
        let rows = self.gather_queries(tile, kv, scratch);
        let TileScratch { all, segment, .. } = scratch;
        let (mut all, mut segment) = (std::mem::take(all), std::mem::take(segment));
        self.begin(tile, kv, rows, &mut all);
        for s in segments(&tile.sees) {
            self.attend_segment(tile, kv, s, rows, scratch, &mut segment);
            join(self.isa, &mut all.rows(0..rows, dims), &segment.rows(0..rows, dims));
        }
        self.finish(tile, kv, &all);
        (scratch.all, scratch.segment) = (all, segment);
    }

    /// Executes tasks on all threads, then merges their results in order.
    fn attend_segments(
        &self,
        team: &Team,
        tiles: &[QueryTile],
        tasks: &[SegmentTask],
        per_thread: &DisjointSlice<TileScratch>,
        partials: &mut [PartialBuffer],
        joined: &mut PartialBuffer,
    ) {
        let dims = padded(self.heads.value_dim);
        let slots = DisjointSlice::new(partials);
        team.for_each_with(tasks.len(), |share, i| {
            let SegmentTask { tile, kv, segment } = tasks[i];
            // SAFETY: a share runs on one thread at a time.
            let scratch = &mut unsafe { per_thread.slice_mut(share..share + 1) }[0];
            let rows = self.gather_queries(&tiles[tile], kv, scratch);
            // SAFETY: every task has its own slot.
            let partial = &mut unsafe { slots.slice_mut(i..i + 1) }[0];
            self.attend_segment(&tiles[tile], kv, segment, rows, scratch, partial);
        });
        for (task, partial) in tasks.iter().zip(partials) {
            let tile = &tiles[task.tile];
            let rows = tile.tokens * self.heads.sharing(task.kv).len();
            if task.segment == segments(&tile.sees).start {
                self.begin(tile, task.kv, rows, joined);
            }
            join(self.isa, &mut joined.rows(0..rows, dims), &partial.rows(0..rows, dims));
            if task.segment + 1 == segments(&tile.sees).end {
                self.finish(tile, task.kv, joined);
            }
        }
    }

    /// Resets the rows of a tile to rows that have seen no key except the attention sink of their head, or to the
    /// results of another layer.
    fn begin(&self, tile: &QueryTile, kv: usize, rows: usize, all: &mut PartialBuffer) {
        let (d, dims) = (self.heads.value_dim, padded(self.heads.value_dim));
        all.clear(rows, dims);
        if self.scoring.continues {
            // A tile without keys in this layer has no segments and leaves these results unchanged.
            for (r, at) in self.rows_of(tile, kv).enumerate() {
                // SAFETY: this head of this token belongs only to this tile and KV head.
                let (out, sums) =
                    unsafe { (self.out.slice_mut(at * d..(at + 1) * d), self.sums.slice_mut(at..at + 1)) };
                all.values[r * dims..][..d].copy_from_slice(out);
                (all.peaks[r], all.sums[r]) = (sums[0], 1.0);
            }
        }
        if let Some(sinks) = self.scoring.sinks {
            let of_rows = sinks[self.heads.sharing(kv)].iter().cycle();
            for ((peak, sum), sink) in all.peaks[..rows].iter_mut().zip(&mut all.sums).zip(of_rows) {
                (*peak, *sum) = (sink * LOG2_E, 1.0);
            }
        }
    }

    /// Computes the partial results of the gathered queries of a tile over a segment.
    fn attend_segment(
        &self,
        tile: &QueryTile,
        kv: usize,
        segment: usize,
        rows: usize,
        scratch: &mut TileScratch,
        out: &mut PartialBuffer,
    ) {
        let dims = padded(self.heads.value_dim);
        let TileScratch { floats, integers, bytes, visible, products, chunk, converted, .. } = scratch;
        let spans = self.spans(tile);
        let all = match self.source.key_storage(spans[0].sequence) {
            Storage::F32 => QueryRows::Floats(&floats[..rows * self.heads.dim]),
            Storage::I16 => QueryRows::Integers(integers),
            Storage::I8 | Storage::I4 => QueryRows::Bytes(bytes),
        };
        let chunks = chunks(&tile.sees);
        out.clear(rows, dims);
        for c in chunks.start.max(segment * SEGMENT)..chunks.end.min((segment + 1) * SEGMENT) {
            let memory = |span: &Span| self.source.memory(span.sequence, c);
            let mut end = 0;
            for spans in spans.chunk_by(|a, b| memory(a) == memory(b)) {
                let tokens: usize = spans.iter().map(|span| span.tokens.len()).sum();
                let rows_of = end..end + tokens * self.heads.sharing(kv).len();
                end = rows_of.end;
                let queries = Queries { all, of: rows, first: rows_of.start };
                let (visible, partial) = (&mut visible[rows_of.clone()], &mut chunk.rows(rows_of.clone(), dims));
                if self.attend_chunk(spans, kv, c, queries, visible, products, converted, partial) {
                    join(self.isa, &mut out.rows(rows_of, dims), partial);
                }
            }
        }
    }

    /// Returns the query heads of the tokens of a tile that read KV head `kv`, counted across all tokens.
    fn rows_of(&self, tile: &QueryTile, kv: usize) -> impl Iterator<Item = usize> {
        let (sharing, queries) = (self.heads.sharing(kv), self.heads.queries);
        self.tokens(tile).flat_map(move |token| sharing.clone().map(move |head| token * queries + head))
    }

    /// Copies the queries of a tile that read KV head `kv`, multiplied by the scale, in the form that the keys need.
    /// Returns the number of queries.
    fn gather_queries(&self, tile: &QueryTile, kv: usize, scratch: &mut TileScratch) -> usize {
        let d = self.heads.dim;
        let sharing = self.heads.sharing(kv);
        let scale = match self.scoring.softcap {
            0.0 => self.scoring.scale * LOG2_E,
            cap => self.scoring.scale / cap,
        };
        let rows = tile.tokens * sharing.len();
        let storage = self.source.key_storage(self.spans(tile)[0].sequence);
        for (token, first) in self.tokens(tile).zip((0..rows).step_by(sharing.len())) {
            let queries = &self.q[(token * self.heads.queries + sharing.start) * d..][..sharing.len() * d];
            prepare(self.isa, self.heads, storage, scale, queries, first, rows, scratch);
        }
        rows
    }

    /// Computes the partial results of the queries of spans over a chunk that the spans share. Returns false if the
    /// chunk is masked for all of them.
    fn attend_chunk(
        &self,
        spans: &[Span],
        kv: usize,
        chunk: usize,
        queries: Queries,
        rows: &mut [Visible],
        products: &mut ChunkScratch,
        converted: &mut [f32],
        out: &mut Partial,
    ) -> bool {
        let start = spans.iter().map(|span| span.sees.start).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.sees.end).max().unwrap_or(0);
        let from = (chunk * CHUNK).max(start / BLOCK * BLOCK);
        let to = ((chunk + 1) * CHUNK).min(end);
        if from >= to {
            return false;
        }
        let sharing = self.heads.sharing(kv);
        let tokens = spans.iter().flat_map(|span| span.tokens.clone().map(move |token| (token, span.len)));
        for ((token, len), rows) in tokens.zip(rows.chunks_exact_mut(sharing.len())) {
            let position = self.positions[token];
            let sees = visible(self.scoring, token, position, len);
            let keys = sees.start.clamp(from, to) - from..sees.end.clamp(from, to) - from;
            let chosen =
                self.scoring.among.and_then(|all| all.chunks_exact(all.len() / self.positions.len()).nth(token));
            let among =
                chosen.filter(|row| row.len() < keys_of(position, self.scoring.pool)).map(|row| bits(row, from));
            rows.fill(Visible { keys, slope: 0.0, first: from as f32 - position as f32, table: 0..0, among });
            if let Some(slopes) = self.scoring.slopes {
                rows.iter_mut().zip(&slopes[sharing.clone()]).for_each(|(row, slope)| row.slope = slope * LOG2_E);
            }
            if let Some(distances) = self.scoring.distances {
                let each = distances.len() / self.heads.queries;
                let heads = rows.iter_mut().zip(sharing.clone());
                heads.for_each(|(row, head)| row.table = head * each..(head + 1) * each);
            }
        }
        let cached = self.source.read(spans[0].sequence, kv, from..to, converted);
        let cap = self.scoring.softcap * LOG2_E;
        let distances = self.scoring.distances.unwrap_or_default();
        attend_chunk(self.isa, queries, rows, distances, &cached, to - from, cap, products, out);
        true
    }

    /// Writes the finished rows of a tile to the output.
    fn finish(&self, tile: &QueryTile, kv: usize, all: &PartialBuffer) {
        let (d, dims) = (self.heads.value_dim, padded(self.heads.value_dim));
        let rotates = self.source.value_storage(self.spans(tile)[0].sequence).is_rotated() && !self.heads.is_latent;
        for (r, at) in self.rows_of(tile, kv).enumerate() {
            // SAFETY: this head of this token belongs only to this tile and KV head.
            let out = unsafe { self.out.slice_mut(at * d..(at + 1) * d) };
            if self.sums.len() > 0 && !self.scoring.continues {
                // SAFETY: as above.
                let sum = unsafe { self.sums.slice_mut(at..at + 1) };
                sum[0] = all.peaks[r] + libm::log2f(all.sums[r]);
            }
            out.copy_from_slice(&all.values[r * dims..][..d]);
            elementwise::scale(self.isa, out, 1.0 / all.sums[r]);
            if rotates {
                rotate(self.isa, out, d);
            }
        }
    }
}

/// Writes queries times `scale` from row `first` of `rows`, in the form that keys of `storage` need.
fn prepare(
    isa: Isa,
    heads: Heads,
    storage: Storage,
    scale: f32,
    queries: &[f32],
    first: usize,
    rows: usize,
    scratch: &mut TileScratch,
) {
    let d = heads.dim;
    if storage == Storage::I16 {
        return quantize_rows(isa, queries, d, scale, first, rows, &mut scratch.integers);
    }
    let floats = &mut scratch.floats[first * d..][..queries.len()];
    floats.copy_from_slice(queries);
    if storage == Storage::F32 {
        return elementwise::scale(isa, floats, scale);
    }
    if !heads.is_latent {
        rotate(isa, floats, d);
    }
    quantize_bytes(isa, floats, d, scale, first, rows, &mut scratch.bytes);
}

/// The query of a token, a KV cache in the caller's memory, and the token's own key and value, which follow the cached
/// ones.
#[derive(Clone, Copy)]
pub struct GqaInputs<'a> {
    /// `[queries * dim]`
    pub q: &'a [f32],
    /// `[len, kv * dim]`
    pub k_cache: &'a [f32],
    pub v_cache: &'a [f32],
    /// `[kv * dim]`
    pub current_k: &'a [f32],
    pub current_v: &'a [f32],
}

/// Computes the attention of one token; `out` is `[queries * dim]`. Inconsistent lengths are `InvalidArgument`.
pub fn attention_gqa(
    team: &Team,
    isa: Isa,
    heads: Heads,
    scale: f32,
    inputs: GqaInputs,
    out: &mut [f32],
) -> Result<()> {
    let GqaInputs { q, k_cache, v_cache, current_k, current_v } = inputs;
    let width = heads.kv.checked_mul(heads.dim);
    let queries = heads.queries.checked_mul(heads.dim);
    if Some(q.len()) != queries || Some(out.len()) != queries {
        return Err(Error::invalid(format!(
            "q has {} values and out {}; both must have {} heads of {}",
            q.len(),
            out.len(),
            heads.queries,
            heads.dim
        )));
    }
    if current_k.is_empty()
        || Some(current_k.len()) != width
        || Some(current_v.len()) != width
        || !k_cache.len().is_multiple_of(current_k.len())
        || v_cache.len() != k_cache.len()
    {
        return Err(Error::invalid(format!(
            "k_cache has {} values and v_cache {}; both must have positions of {} heads of {}",
            k_cache.len(),
            v_cache.len(),
            heads.kv,
            heads.dim
        )));
    }
    let position = u32::try_from(k_cache.len() / current_k.len())
        .map_err(|_| Error::invalid("k_cache has more than 2^32 - 1 positions"))?;
    let source =
        PlainCache { isa, heads, keys: k_cache, values: v_cache, current_key: current_k, current_value: current_v };
    let scoring = Scoring::new(scale);
    let mut scratch = AttentionScratch::new(heads, 1, team.threads(), true)?;
    attend(team, isa, &scoring, &[position], &[0], &source, q, [out, &mut []], &mut scratch);
    Ok(())
}

mod tests;
