//! The loops of attention: the division of queries and keys among the threads. The arithmetic is in `kernels::attend`.
//!
//! Queries that share a head of the cache are computed together, and a sequence's tokens in tiles, so that each row of the
//! cache is read once for all of them. A tile goes through its segments in order, or, where there are too few tiles for the
//! threads, segments are spread over the threads and joined in the same order. Either way each result is the same sequence
//! of operations.
#![allow(unsafe_code)]

mod plan;
mod scratch;
mod source;

use std::f32::consts::LOG2_E;

pub use self::plan::{Heads, Scoring};
use self::plan::{QueryTile, SEGMENT, SMALL, SegmentTask, chunks, divide, segments, visible};
pub use self::scratch::AttentionScratch;
use self::scratch::{PartialBuffer, TileScratch};
use self::source::PlainCache;
pub use self::source::{KvSource, LayerSource};
use super::disjoint::DisjointSlice;
use super::kernels::attend::{CHUNK, ChunkScratch, Partial, Queries, Seen, attend_chunk, join};
use super::kernels::kv_storage::{BLOCK, Storage, padded};
use super::kernels::quantize::quantize_rows;
use super::kernels::{Isa, elementwise};
use super::pool::Team;
use crate::error::{Error, Result};

/// Computes `out = softmax(scale * Q K^T) V` from the cursor of the scratch on; true when all is done. `positions` and
/// `sequences` are `[n]`, tokens of a sequence side by side; `q` is `[n, queries * dim]`, `out` `[n, queries * value_dim]`. The
/// source holds every position up to a token's own.
pub fn attend(
    team: &Team,
    isa: Isa,
    scoring: &Scoring,
    positions: &[u32],
    sequences: &[u32],
    source: &impl KvSource,
    q: &[f32],
    out: &mut [f32],
    scratch: &mut AttentionScratch,
) -> bool {
    let AttentionScratch { heads, per_thread, partials, joined, tiles, tasks, cursor } = scratch;
    let heads = *heads;
    let n = positions.len();
    assert!(sequences.len() == n && n <= tiles.capacity() && team.threads() <= per_thread.len());
    assert!(q.len() == n * heads.queries * heads.dim && out.len() == n * heads.queries * heads.value_dim);
    divide(heads, scoring, positions, sequences, tiles);

    let pass = AttentionPass { isa, heads, scoring, positions, source, q, out: DisjointSlice::new(out) };
    let threads = per_thread.len();
    let per_thread = DisjointSlice::new(per_thread);
    let products: usize = tiles.iter().map(|t| t.tokens.len() * t.sees.len() * heads.queries * heads.dim).sum();
    let pairs = tiles.len() * heads.kv;
    // The threads of the scratch, because those of the team may change between shares.
    if pairs >= 2 * threads || products <= SMALL || partials.is_empty() {
        let execute = |share: usize, i: usize| {
            // The last tiles see most; those that are left when other threads are done should be short.
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
    let mut n_done = cursor.done;
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
                    if cursor.divides {
                        return false;
                    }
                }
            }
        }
    }
    pass.attend_segments(team, tiles, tasks, &per_thread, partials, joined);
    cursor.ends(true)
}

/// The arguments that all tiles of a call share.
struct AttentionPass<'a, S> {
    isa: Isa,
    heads: Heads,
    scoring: &'a Scoring<'a>,
    positions: &'a [u32],
    source: &'a S,
    q: &'a [f32],
    out: DisjointSlice<'a, f32>,
}

impl<S: KvSource> AttentionPass<'_, S> {
    /// Computes one tile and one head of the cache, from its queries to its output.
    fn attend_tile(&self, tile: &QueryTile, kv: usize, scratch: &mut TileScratch) {
        let dims = padded(self.heads.value_dim);
        let rows = self.gather_queries(tile, kv, scratch);
        let TileScratch { all, segment, .. } = scratch;
        let (mut all, mut segment) = (std::mem::take(all), std::mem::take(segment));
        self.begin(kv, rows, &mut all);
        for s in segments(&tile.sees) {
            self.attend_segment(tile, kv, s, rows, scratch, &mut segment);
            join(self.isa, &mut all.rows(rows, dims), &segment.rows(rows, dims));
        }
        self.finish(tile, kv, &all);
        (scratch.all, scratch.segment) = (all, segment);
    }

    /// Executes tasks on all threads, then joins their results in order.
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
            // SAFETY: every task has a slot of its own.
            let partial = &mut unsafe { slots.slice_mut(i..i + 1) }[0];
            self.attend_segment(&tiles[tile], kv, segment, rows, scratch, partial);
        });
        for (task, partial) in tasks.iter().zip(partials) {
            let tile = &tiles[task.tile];
            let rows = tile.tokens.len() * self.heads.sharing(task.kv).len();
            if task.segment == segments(&tile.sees).start {
                self.begin(task.kv, rows, joined);
            }
            join(self.isa, &mut joined.rows(rows, dims), &partial.rows(rows, dims));
            if task.segment + 1 == segments(&tile.sees).end {
                self.finish(tile, task.kv, joined);
            }
        }
    }

    /// Resets the rows of a tile to those that have seen no key but the sink of their head.
    fn begin(&self, kv: usize, rows: usize, all: &mut PartialBuffer) {
        all.clear(rows, padded(self.heads.value_dim));
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
        let TileScratch { floats, integers, visible, products, chunk, converted, .. } = scratch;
        let queries = match self.source.key_storage(tile.sequence) {
            Storage::I16 => Queries::Integers(integers),
            _ => Queries::Floats(&floats[..rows * self.heads.dim]),
        };
        let visible = &mut visible[..rows];
        let chunks = chunks(&tile.sees);
        out.clear(rows, dims);
        for c in chunks.start.max(segment * SEGMENT)..chunks.end.min((segment + 1) * SEGMENT) {
            let partial = &mut chunk.rows(rows, dims);
            self.attend_chunk(tile, kv, c, queries, visible, products, converted, partial);
            join(self.isa, &mut out.rows(rows, dims), partial);
        }
    }

    /// Copies the queries of a tile that read head `kv`, multiplied by the scale. Returns their number.
    fn gather_queries(&self, tile: &QueryTile, kv: usize, scratch: &mut TileScratch) -> usize {
        let d = self.heads.dim;
        let sharing = self.heads.sharing(kv);
        let scale = match self.scoring.softcap {
            0.0 => self.scoring.scale * LOG2_E,
            cap => self.scoring.scale / cap,
        };
        let rows = tile.tokens.len() * sharing.len();
        let storage = self.source.key_storage(tile.sequence);
        for (token, first) in tile.tokens.clone().zip((0..rows).step_by(sharing.len())) {
            let queries = &self.q[(token * self.heads.queries + sharing.start) * d..][..sharing.len() * d];
            if storage == Storage::I16 {
                quantize_rows(self.isa, queries, d, scale, first, rows, &mut scratch.integers);
            } else {
                let floats = &mut scratch.floats[first * d..][..queries.len()];
                floats.copy_from_slice(queries);
                elementwise::scale(self.isa, floats, scale);
            }
        }
        rows
    }

    /// Computes the partial results of some queries of a tile over a chunk.
    fn attend_chunk(
        &self,
        tile: &QueryTile,
        kv: usize,
        chunk: usize,
        queries: Queries,
        rows: &mut [Seen],
        products: &mut ChunkScratch,
        converted: &mut [f32],
        out: &mut Partial,
    ) {
        let from = (chunk * CHUNK).max(tile.sees.start / BLOCK * BLOCK);
        let to = ((chunk + 1) * CHUNK).min(tile.sees.end);
        let sharing = self.heads.sharing(kv);
        for (&position, rows) in self.positions[tile.tokens.clone()].iter().zip(rows.chunks_exact_mut(sharing.len())) {
            let sees = visible(self.scoring, position, tile.len);
            let keys = sees.start.clamp(from, to) - from..sees.end.clamp(from, to) - from;
            rows.fill(Seen { keys, slope: 0.0, first: from as f32 - position as f32 });
            if let Some(slopes) = self.scoring.slopes {
                rows.iter_mut().zip(&slopes[sharing.clone()]).for_each(|(row, slope)| row.slope = slope * LOG2_E);
            }
        }
        let cached = self.source.read(tile.sequence, kv, from..to, converted);
        let cap = self.scoring.softcap * LOG2_E;
        attend_chunk(self.isa, queries, rows, &cached, to - from, cap, products, out);
    }

    /// Writes the finished rows of a tile to the output.
    fn finish(&self, tile: &QueryTile, kv: usize, all: &PartialBuffer) {
        let (d, dims) = (self.heads.value_dim, padded(self.heads.value_dim));
        let sharing = self.heads.sharing(kv);
        for (r, (token, head)) in tile.tokens.clone().flat_map(|t| sharing.clone().map(move |h| (t, h))).enumerate() {
            let start = (token * self.heads.queries + head) * d;
            // SAFETY: this head of this token belongs to this tile and head of the cache alone.
            let out = unsafe { self.out.slice_mut(start..start + d) };
            out.copy_from_slice(&all.values[r * dims..][..d]);
            elementwise::scale(self.isa, out, 1.0 / all.sums[r]);
        }
    }
}

/// Computes the attention of one token over a cache in memory of the caller and its own key and value.
///
/// `q` and `out` are `[queries * dim]`, the caches `[len, kv * dim]`, `current_k` and `current_v` `[kv * dim]`.
/// Lengths that do not fit together are `InvalidArgument`.
pub fn attention_gqa(
    team: &Team,
    isa: Isa,
    heads: Heads,
    scale: f32,
    q: &[f32],
    k_cache: &[f32],
    v_cache: &[f32],
    current_k: &[f32],
    current_v: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let width = heads.kv.checked_mul(heads.dim);
    let queries = heads.queries.checked_mul(heads.dim);
    if Some(q.len()) != queries || Some(out.len()) != queries {
        return Err(Error::invalid(format!("{heads:?} with {} query values and room for {}", q.len(), out.len())));
    }
    if current_k.is_empty()
        || Some(current_k.len()) != width
        || Some(current_v.len()) != width
        || !k_cache.len().is_multiple_of(current_k.len())
        || v_cache.len() != k_cache.len()
    {
        return Err(Error::invalid(format!("{heads:?} with caches of {} and {} values", k_cache.len(), v_cache.len())));
    }
    let position = u32::try_from(k_cache.len() / current_k.len())
        .map_err(|_| Error::invalid("a cache of more than 2^32 - 1 positions"))?;
    let source =
        PlainCache { isa, heads, keys: k_cache, values: v_cache, current_key: current_k, current_value: current_v };
    let scoring = Scoring::new(scale);
    let mut scratch = AttentionScratch::new(heads, 1, team.threads(), true)?;
    attend(team, isa, &scoring, &[position], &[0], &source, q, out, &mut scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use half::f16;

    use super::*;
    use crate::backend::cpu::kernels::kv_storage::BLOCK;
    use crate::backend::cpu::kv::CpuKv;
    use crate::backend::cpu::pool::Pool;
    use crate::backend::op::Mask;
    use crate::backend::state_spec::{KvLayer, StateSpec};
    use crate::quant;
    use crate::tensor::DType;

    fn spec(layers: usize, heads: Heads, capacity: usize, k_type: DType, v_type: DType) -> StateSpec {
        let Heads { kv: n_kv_heads, dim: head_dim, value_dim, is_latent, .. } = heads;
        let layers = vec![KvLayer { n_kv_heads, head_dim, value_dim, is_latent, window: 0 }; layers];
        StateSpec { layers, memories: vec![], capacity, k_type, v_type, max_step: capacity }
    }

    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// The numbers that a row becomes where so many of them share a scale, and their scales: 1 where there is none.
    fn stored(dtype: DType, row: &[f32], block: usize) -> Vec<(f64, f64)> {
        let peak = match dtype {
            quant::F32 => return row.iter().map(|&x| (f64::from(x), 1.0)).collect(),
            quant::F16 => 8191.0,
            _ => 127.0,
        };
        row.chunks(block)
            .flat_map(|block| {
                let scale = block.iter().fold(0f32, |m, x| m.max(x.abs())) / peak;
                let number = move |x: f32| f64::from(scale) * f64::from((x * (1.0 / scale)).round_ties_even());
                block.iter().map(move |&x| (number(x), f64::from(scale)))
            })
            .collect()
    }

    struct Case {
        heads: Heads,
        k_type: DType,
        v_type: DType,
        scoring: Scoring<'static>,
        /// Tokens before the first of those that are looked at.
        past: usize,
        n: usize,
    }

    impl Case {
        fn len(&self) -> usize {
            self.past + self.n
        }
        fn keys(&self) -> Vec<f32> {
            values(self.len() * self.heads.kv * self.heads.dim, 1)
        }
        /// Without those that are parts of keys.
        fn values(&self) -> Vec<f32> {
            let stored = if self.heads.is_latent { 0 } else { self.heads.value_dim };
            values(self.len() * self.heads.kv * stored, 2)
        }
        fn queries(&self) -> Vec<f32> {
            values(self.n * self.heads.queries * self.heads.dim, 3)
        }

        /// Attention in f64 over keys and values as they are stored, and how far from it the rounding of weights to 16 bits
        /// can lead: with values of `quant::F16`, 32 positions share a scale, and each weight times the scale of its value is
        /// off by half a quant at most.
        fn oracle(&self) -> Vec<(f64, f64)> {
            let Heads { queries, kv, dim, value_dim, is_latent } = self.heads;
            let rows = |dtype, x: &[f32], dim, block| -> Vec<Vec<(f64, f64)>> {
                x.chunks(dim).map(|row| stored(dtype, row, block)).collect()
            };
            let k = rows(self.k_type, &self.keys(), dim, BLOCK);
            // All dimensions of a value of 16 bits share a scale.
            let block = if self.v_type == quant::F16 { value_dim } else { BLOCK };
            let v = match is_latent {
                true => k.iter().map(|row| row[..value_dim].iter().map(|(x, _)| (*x, 1.0)).collect()).collect(),
                false => rows(self.v_type, &self.values(), value_dim, block),
            };
            // Queries are rounded where keys are integers of 16 bits.
            let q_type = if self.k_type == quant::F16 { quant::F16 } else { quant::F32 };
            let q = rows(q_type, &self.queries(), dim, BLOCK);
            let mut out = Vec::new();
            for t in 0..self.n {
                let position = self.past + t;
                let sees = visible(&self.scoring, position as u32, self.len());
                for head in 0..queries {
                    let q = &q[t * queries + head];
                    let of = head * kv / queries;
                    let scores: Vec<f64> = sees
                        .clone()
                        .map(|p| {
                            let dot: f64 = q.iter().zip(&k[p * kv + of]).map(|((q, _), (k, _))| q * k).sum();
                            let score = dot * f64::from(self.scoring.scale);
                            let slope = self.scoring.slopes.map_or(0.0, |slopes| f64::from(slopes[head]));
                            let distance = -(p as f64 - position as f64).abs();
                            match f64::from(self.scoring.softcap) {
                                0.0 => score + slope * distance,
                                cap => cap * (score / cap).tanh() + slope * distance,
                            }
                        })
                        .collect();
                    let sink = self.scoring.sinks.map(|sinks| f64::from(sinks[head]));
                    let peak = scores.iter().chain(&sink).fold(f64::MIN, |a, &b| a.max(b));
                    let sum: f64 = scores.iter().chain(&sink).map(|s| (s - peak).exp()).sum();
                    let weights: Vec<f64> = scores.iter().map(|s| (s - peak).exp() / sum).collect();
                    let mut row = vec![(0.0, 0.0); value_dim];
                    for p in sees.clone() {
                        let alike = (p / BLOCK * BLOCK).max(sees.start)..(p / BLOCK * BLOCK + BLOCK).min(sees.end);
                        let largest = alike.map(|p| weights[p - sees.start] * v[p * kv + of][0].1).fold(0.0, f64::max);
                        for (out, (v, scale)) in row.iter_mut().zip(&v[p * kv + of]) {
                            out.0 += weights[p - sees.start] * v;
                            if self.v_type == quant::F16 && !is_latent {
                                out.1 += 0.5 * largest / 8191.0 * (v / scale).abs();
                            }
                        }
                    }
                    out.extend(row);
                }
            }
            out
        }

        /// The tokens in pieces, each written to the cache just before it attends.
        fn run(&self, isa: Isa, threads: usize, piece: usize) -> Vec<f32> {
            let Heads { queries, kv, dim, value_dim, is_latent } = self.heads;
            let spec = spec(2, self.heads, self.len(), self.k_type, self.v_type);
            let mut cache = CpuKv::new(&spec).unwrap();
            let (keys, values, q) = (self.keys(), self.values(), self.queries());
            let write = |cache: &mut CpuKv, position: usize| {
                let stored = if is_latent { 0 } else { kv * value_dim };
                let value = &values[position * stored..][..stored];
                cache.write(isa, 1, position, &keys[position * kv * dim..][..kv * dim], value).unwrap();
            };
            (0..self.past).for_each(|p| write(&mut cache, p));
            let team = Arc::new(Pool::new(threads).unwrap()).enter();
            let mut scratch = AttentionScratch::new(self.heads, piece, threads, false).unwrap();
            let mut out = vec![f32::NAN; self.n * queries * value_dim];
            let all: Vec<u32> = (0..self.n as u32).collect();
            for tokens in all.chunks(piece) {
                let positions: Vec<u32> = tokens.iter().map(|t| self.past as u32 + t).collect();
                positions.iter().for_each(|&p| write(&mut cache, p as usize));
                let range = |width| tokens[0] as usize * width..(tokens[0] as usize + tokens.len()) * width;
                let sequences = vec![0; tokens.len()];
                let (q, out) = (&q[range(queries * dim)], &mut out[range(queries * value_dim)]);
                let source = LayerSource::new(isa, 1, |_| &cache);
                scratch.cursor.divides = threads == 3;
                while !attend(&team, isa, &self.scoring, &positions, &sequences, &source, q, out, &mut scratch) {}
            }
            out
        }

        fn check(&self) {
            let expected = self.oracle();
            let name = format!("{:?} {:?} past {} n {}", self.heads, self.scoring, self.past, self.n);
            let mut scalar = None;
            for isa in Isa::available() {
                let got = self.run(isa, 1, self.n);
                for (i, (&got, &(expected, rounding))) in got.iter().zip(&expected).enumerate() {
                    let error = (f64::from(got) - expected).abs();
                    assert!(
                        error < rounding + 2e-6 + 1e-6 * f64::from(self.scoring.softcap),
                        "{name} {}: element {i} is {got}, expected {expected}",
                        isa.name()
                    );
                }
                let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                let got = bits(got);
                let pieces = [(2, self.n), (3, self.n), (1, 1), (2, 1), (3, 1), (2, 7), (1, 64), (3, 64)];
                // A step has all tokens that another one of it sees.
                let whole = if self.scoring.mask.is_causal() { pieces.len() } else { 2 };
                for &(threads, piece) in &pieces[..whole] {
                    assert!(got == bits(self.run(isa, threads, piece)), "{name}: {threads} threads, pieces of {piece}");
                }
                let same = *scalar.get_or_insert_with(|| got.clone()) == got;
                assert!(same, "{name}: {}", isa.name());
            }
        }
    }

    fn heads(queries: usize, kv: usize, dim: usize) -> Heads {
        Heads::new(queries, kv, dim)
    }

    const FULL: Scoring = Scoring { scale: 0.3, softcap: 0.0, mask: Mask::Causal, slopes: None, sinks: None };

    #[test]
    fn heads_of_all_sizes_and_groups() {
        for heads in [
            heads(8, 4, 8),
            heads(9, 3, 64),
            heads(14, 2, 48),
            heads(5, 2, 80),
            heads(1, 1, 96),
            heads(50, 1, 16),
            heads(12, 1, 256),
            heads(2, 2, 18),
        ] {
            Case { heads, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past: 129, n: 70 }.check();
        }
    }

    #[test]
    fn values_narrower_and_wider_than_keys() {
        for (dim, value_dim, is_latent) in
            [(40, 24, false), (192, 128, false), (18, 50, false), (72, 64, true), (70, 45, true), (96, 96, true)]
        {
            for dtype in [quant::F32, quant::F16, quant::Q8_0] {
                let heads = Heads { queries: 6, kv: if is_latent { 1 } else { 2 }, dim, value_dim, is_latent };
                Case { heads, k_type: dtype, v_type: dtype, scoring: FULL, past: 300, n: 20 }.check();
            }
        }
        let heads = Heads { queries: 100, kv: 1, dim: 40, value_dim: 32, is_latent: true };
        Case { heads, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past: 700, n: 3 }.check();
    }

    #[test]
    fn cache_types() {
        for (k_type, v_type) in
            [(quant::F32, quant::F32), (quant::Q8_0, quant::F16), (quant::F16, quant::Q8_0), (quant::Q8_0, quant::Q8_0)]
        {
            for dim in [8, 48, 64] {
                Case { heads: heads(6, 2, dim), k_type, v_type, scoring: FULL, past: 300, n: 20 }.check();
            }
        }
    }

    #[test]
    fn windows_and_softcap() {
        for window in [1, 8, 16, 100, 130, 1000] {
            for softcap in [0.0, 5.0] {
                let scoring = Scoring { mask: Mask::Window(window), softcap, ..FULL };
                Case { heads: heads(4, 1, 32), k_type: quant::F16, v_type: quant::F16, scoring, past: 250, n: 90 }
                    .check();
            }
        }
    }

    #[test]
    fn chunks_sinks_and_linear_biases() {
        const SIX: Option<&[f32]> = Some(&[0.5, -2.0, 3.0, 0.0, 9.0, 1.0]);
        const SLOPES: Option<&[f32]> = Some(&[0.5, 0.25, 0.125, 0.0625, 0.01, 0.0]);
        for (mask, slopes, sinks) in
            [(Mask::Chunk(64), None, None), (Mask::Causal, SLOPES, SIX), (Mask::Window(100), None, SIX)]
        {
            for dtype in [quant::F32, quant::F16] {
                let scoring = Scoring { mask, slopes, sinks, ..FULL };
                let heads = heads(6, 2, 32);
                Case { heads, k_type: dtype, v_type: dtype, scoring, past: 600, n: 70 }.check();
                Case { heads, k_type: dtype, v_type: dtype, scoring, past: 2000, n: 1 }.check();
            }
        }
    }

    #[test]
    fn later_tokens_are_seen() {
        const SLOPES: Option<&[f32]> = Some(&[0.5, 0.25, 0.125, 0.0625, 0.01, 0.0]);
        for (mask, slopes) in
            [(Mask::All, None), (Mask::All, SLOPES), (Mask::Around(1), None), (Mask::Around(64), SLOPES)]
        {
            for n in [1, 2, 70, 333] {
                let (scoring, dtype) = (Scoring { mask, slopes, ..FULL }, quant::F32);
                Case { heads: heads(6, 2, 32), k_type: dtype, v_type: dtype, scoring, past: 0, n }.check();
            }
        }
    }

    #[test]
    fn long_contexts_in_which_waves_of_chunks_are_joined() {
        let f16 = quant::F16;
        Case { heads: heads(3, 1, 16), k_type: f16, v_type: f16, scoring: FULL, past: 9000, n: 3 }.check();
    }

    #[test]
    fn scores_far_apart() {
        let scoring = Scoring { scale: 100.0, ..FULL };
        let case = Case { heads: heads(4, 2, 64), k_type: quant::F32, v_type: quant::F32, scoring, past: 400, n: 2 };
        let (got, expected) = (case.run(Isa::detect(), 2, 2), case.oracle());
        // A score of 1000 has a rounding error of 6e-5.
        assert!(got.iter().zip(&expected).all(|(&a, &(b, _))| (f64::from(a) - b).abs() < 1e-3));
    }

    /// Error against attention in f64 over keys and values that nothing has rounded, relative to the result: of caches of 16
    /// bits, and of arithmetic without an error over halves.
    fn errors(heads: Heads, n: usize, q: &[f32], k: &[f32], v: &[f32]) -> [f64; 2] {
        let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f64::from(x)).collect() };
        let halves = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f16::from_f32(x).to_f64()).collect() };
        let exact = |k: &[f64], v: &[f64]| -> Vec<f64> {
            let scores: Vec<f64> = k
                .chunks(heads.dim)
                .map(|k| q.iter().zip(k).map(|(&q, k)| f64::from(q) * k).sum::<f64>() / (heads.dim as f64).sqrt())
                .collect();
            let peak = scores.iter().fold(f64::MIN, |a, &b| a.max(b));
            let sum: f64 = scores.iter().map(|s| (s - peak).exp()).sum();
            let weighted = |i| scores.iter().zip(v.chunks(heads.dim)).map(|(s, v)| (s - peak).exp() / sum * v[i]).sum();
            (0..heads.dim).map(weighted).collect()
        };
        let spec = spec(1, heads, n, quant::F16, quant::F16);
        let (isa, mut cache) = (Isa::detect(), CpuKv::new(&spec).unwrap());
        for (position, (k, v)) in k.chunks(heads.dim).zip(v.chunks(heads.dim)).enumerate() {
            cache.write(isa, 0, position, k, v).unwrap();
        }
        let team = Arc::new(Pool::new(1).unwrap()).enter();
        let mut scratch = AttentionScratch::new(heads, 1, 1, false).unwrap();
        let mut out = vec![0.0; heads.dim];
        let scoring = Scoring { scale: 1.0 / (heads.dim as f32).sqrt(), ..FULL };
        let source = LayerSource::new(isa, 0, |_| &cache);
        attend(&team, isa, &scoring, &[n as u32 - 1], &[0], &source, q, &mut out, &mut scratch);
        let expected = exact(&wide(k), &wide(v));
        [wide(&out), exact(&halves(k), &halves(v))].map(|out| {
            let difference: f64 = out.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum();
            (difference / expected.iter().map(|x| x * x).sum::<f64>()).sqrt()
        })
    }

    #[test]
    fn integers_stand_uneven_weights_and_dimensions() {
        let (n, shape) = (1000, heads(1, 1, 64));
        let q = values(64, 11);
        // Times the error of halves. An outlier of 100 leaves numbers around 1 steps of 100 / 8191, where halves have 2^-11;
        // but halves of the outlier itself are 2^-4 apart, so that they gain little from that.
        for (sink, outlier, most) in [(0.0, 0.0, 1.0), (8.0, 0.0, 1.0), (0.0, 100.0, 2.5), (8.0, 100.0, 2.5)] {
            let (mut k, mut v) = (values(64 * n, 12), values(64 * n, 13));
            if sink != 0.0 {
                // As much weight as e^8 others have, and hardly a value.
                let square: f32 = q.iter().map(|q| q * q).sum();
                for i in 0..64 {
                    k[i] = q[i] / square * 8.0 * sink;
                    v[i] *= 1e-2;
                }
            }
            for (p, k) in k.chunks_mut(64).enumerate() {
                k[5] += outlier * (1.0 + 1e-2 * (p as f32).sin());
                k[40] -= outlier * (1.0 + 1e-2 * (p as f32).cos());
            }
            let [ours, halves] = errors(shape, n, &q, &k, &v);
            assert!(ours < most * halves, "{ours} with a sink of {sink} and outliers of {outlier}, halves {halves}");
        }
    }

    #[test]
    fn a_cache_of_the_caller() {
        for (len, heads) in [(0, heads(8, 4, 8)), (1, heads(9, 3, 64)), (127, heads(5, 2, 80)), (700, heads(4, 4, 64))]
        {
            let case = Case { heads, k_type: quant::F32, v_type: quant::F32, scoring: FULL, past: len, n: 1 };
            let (keys, values, q) = (case.keys(), case.values(), case.queries());
            let (k_cache, k) = keys.split_at(len * heads.kv * heads.dim);
            let (v_cache, v) = values.split_at(len * heads.kv * heads.dim);
            for isa in Isa::available() {
                let mut out = vec![0.0; q.len()];
                let team = Arc::new(Pool::new(2).unwrap()).enter();
                attention_gqa(&team, isa, heads, FULL.scale, &q, k_cache, v_cache, k, v, &mut out).unwrap();
                assert_eq!(out, case.run(isa, 1, 1));
                assert!(attention_gqa(&team, isa, heads, 1.0, &q[1..], k_cache, v_cache, k, v, &mut out).is_err());
                assert!(attention_gqa(&team, isa, heads, 1.0, &q, k_cache, v, k, v, &mut out).is_err() || len == 1);
                assert!(attention_gqa(&team, isa, heads, 1.0, &q, k_cache, v_cache, &k[1..], v, &mut out).is_err());
            }
        }
    }

    #[test]
    fn many_sequences_in_one_batch() {
        let shape = heads(6, 3, 32);
        let cases: Vec<Case> = [40, 0, 333, 128]
            .map(|past| Case { heads: shape, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past, n: 1 })
            .into();
        let isa = Isa::detect();
        let mut caches: Vec<CpuKv> = Vec::new();
        let (mut q, mut expected) = (Vec::new(), Vec::new());
        for case in &cases {
            let spec = spec(1, shape, 400, quant::F16, quant::F16);
            let mut cache = CpuKv::new(&spec).unwrap();
            for (position, (k, v)) in case.keys().chunks(96).zip(case.values().chunks(96)).enumerate() {
                cache.write(isa, 0, position, k, v).unwrap();
            }
            caches.push(cache);
            q.extend(case.queries());
            expected.extend(case.run(isa, 1, 1));
        }
        let source = LayerSource::new(isa, 0, |sequence| &caches[sequence as usize]);
        for threads in 1..=3 {
            let team = Arc::new(Pool::new(threads).unwrap()).enter();
            let mut out = vec![0.0; q.len()];
            let mut scratch = AttentionScratch::new(shape, 4, threads, false).unwrap();
            attend(&team, isa, &FULL, &[40, 0, 333, 128], &[0, 1, 2, 3], &source, &q, &mut out, &mut scratch);
            assert_eq!(out, expected);
        }
    }
}
