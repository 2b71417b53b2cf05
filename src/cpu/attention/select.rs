//! The selection of the positions that a token attends to (sparse attention), by the scores of an indexer: see
//! `op::Select`. A token's row depends only on that token and the KV cache.
#![allow(unsafe_code)]

use std::cmp::Ordering;

use super::plan::{Heads, keys_of};
use super::scratch::{AttentionScratch, TileScratch};
use super::source::LayerSource;
use super::{KvSource, prepare};
use crate::cpu::kernels::Isa;
use crate::cpu::kernels::attention::kv_storage::Storage;
use crate::cpu::kernels::attention::{CHUNK, Queries, QueryRows, score_chunk};
use crate::cpu::kv::CpuKv;
use crate::cpu::nan::all_finite;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::graph::op::Groups;

/// The tokens of a step that select positions.
pub struct SelectRows<'a> {
    /// `[n]`, position of each token; next, its sequence.
    pub positions: &'a [u32],
    pub sequences: &'a [u32],
    /// `[n, queries * dim]`
    pub q: &'a [f32],
    /// `[n, queries]`
    pub weights: &'a [f32],
}

/// Writes the selected positions of each token, `[n, top]`, from the cursor of the scratch on; returns true when all is
/// done. The source must hold every position up to each token's own; `pool` positions share a key.
pub fn select<'c>(
    team: &Team,
    isa: Isa,
    rows: SelectRows,
    source: &LayerSource<'c, impl Fn(u32) -> &'c CpuKv + Sync>,
    groups: Groups,
    pool: usize,
    out: &mut [f32],
    scratch: &mut AttentionScratch,
) -> bool {
    let AttentionScratch { heads, per_thread, cursor, .. } = scratch;
    let SelectRows { positions, sequences, q, weights } = rows;
    let (heads, n) = (*heads, positions.len());
    let top = out.len() / n.max(1);
    assert!(team.threads() <= per_thread.len() && sequences.len() == n && out.len() == n * top);
    assert!(q.len() == n * heads.queries * heads.dim && weights.len() == n * heads.queries);
    let products = positions.iter().map(|p| (*p as usize + 1) * heads.queries * heads.dim).sum();
    let taken = cursor.take(n, products, per_thread.len());
    let (per_thread, out) = (DisjointSlice::new(per_thread), DisjointSlice::new(out));
    team.for_each_with(taken.len(), |share, i| {
        let t = taken.start + i;
        let queries = &q[t * heads.queries * heads.dim..][..heads.queries * heads.dim];
        let weights = &weights[t * heads.queries..][..heads.queries];
        // SAFETY: a share runs on one thread at a time, and each row is one item.
        let (scratch, out) =
            unsafe { (&mut per_thread.slice_mut(share..share + 1)[0], out.slice_mut(t * top..(t + 1) * top)) };
        let len = keys_of(positions[t], pool);
        scratch.best.clear();
        if len <= top {
            scratch.best.extend((0..len as u32).map(|position| (0.0, position)));
        } else {
            let token = RankedToken { sequence: sequences[t], len, queries, weights };
            rank(isa, heads, source, token, Choice { groups, top }, scratch);
        }
        if !all_finite(queries) || !all_finite(weights) || source.nan(sequences[t]).start < len {
            // Attention to these keys gives NaN.
            return out.fill(f32::NAN);
        }
        out.fill(-1.0);
        let size = if len <= top { 1 } else { groups.size() };
        let chosen =
            scratch.best.iter().flat_map(|(_, group)| *group as usize * size..len.min((*group as usize + 1) * size));
        let tail = if matches!(groups, Groups::Pools(_)) && len > top { len / size * size..len } else { 0..0 };
        out.iter_mut().zip(chosen.chain(tail)).for_each(|(out, position)| *out = position as f32);
    });
    cursor.ends(taken.end == n)
}

/// A token for which groups of keys are selected.
struct RankedToken<'a> {
    sequence: u32,
    /// Number of the token's keys.
    len: usize,
    queries: &'a [f32],
    /// A weight for each query.
    weights: &'a [f32],
}

/// The parameters of the selection.
struct Choice {
    groups: Groups,
    /// Number of positions in all selected groups.
    top: usize,
}

/// Leaves the best groups of a token's keys in ascending order.
fn rank<'c>(
    isa: Isa,
    heads: Heads,
    source: &LayerSource<'c, impl Fn(u32) -> &'c CpuKv + Sync>,
    token: RankedToken,
    choice: Choice,
    scratch: &mut TileScratch,
) {
    let (RankedToken { sequence, len, queries, weights }, Choice { groups, top }) = (token, choice);
    let (storage, rows) = (source.key_storage(sequence), heads.queries);
    prepare(isa, heads, storage, 1.0, queries, 0, rows, scratch);
    let TileScratch { floats, integers, bytes, products, best, .. } = scratch;
    let all = match storage {
        Storage::F32 => QueryRows::Floats(&floats[..rows * heads.dim]),
        Storage::I16 => QueryRows::Integers(integers),
        Storage::I8 | Storage::I4 => QueryRows::Bytes(bytes),
    };
    let (size, top) = (groups.size(), top / groups.size());
    let mut scores = [0.0; CHUNK];
    // The best score of the current block.
    let mut peak = f32::NEG_INFINITY;
    for from in (0..len).step_by(CHUNK) {
        let n = CHUNK.min(len - from);
        let keys = source.keys(sequence, from);
        score_chunk(isa, Queries { all, of: rows, first: 0 }, weights, &keys, n, products, &mut scores);
        let scored = scores[..n].iter().copied().zip(from..);
        match groups {
            Groups::One => best.extend(scored.map(|(score, position)| (score, position as u32))),
            Groups::Pools(_) => {
                let whole = scored.filter(|(_, position)| (position + 1).is_multiple_of(size));
                best.extend(whole.map(|(score, position)| (score, (position / size) as u32)));
            }
            Groups::Blocks { local, .. } => {
                for (score, position) in scored {
                    peak = peak.max(score);
                    if (position + 1).is_multiple_of(size) || position + 1 == len {
                        let block = position / size;
                        let is_local = block + local as usize > (len - 1) / size;
                        best.push((if is_local { f32::INFINITY } else { peak }, block as u32));
                        peak = f32::NEG_INFINITY;
                    }
                }
            }
        }
        if best.len() > top {
            best.select_nth_unstable_by(top - 1, by_score);
            best.truncate(top);
        }
    }
    best.sort_unstable_by_key(|(_, position)| *position);
}

/// Orders from the greatest score to the least, then by position.
fn by_score(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}
