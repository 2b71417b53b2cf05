//! Sets rows of an attention result to NaN if they must be NaN, because integer arithmetic does not propagate it.
#![allow(unsafe_code)]

use super::plan::{Scoring, keys_of, visible};
use super::source::LayerSource;
use crate::cpu::kv::CpuKv;
use crate::cpu::nan::all_finite;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;

/// Number of values that one thread checks before another one could have started.
const SMALL: usize = 32 * 1024;

/// Writes NaN to each row of `out` and `sums` whose query, or a key or value that it attends to, has an infinity or
/// NaN. Takes the arguments of `attend` and must run after it.
pub fn carry_nan<'c>(
    team: &Team,
    scoring: &Scoring,
    [positions, sequences]: [&[u32]; 2],
    source: &LayerSource<'c, impl Fn(u32) -> &'c CpuKv + Sync>,
    q: &[f32],
    [out, sums]: [&mut [f32]; 2],
) {
    let n = positions.len();
    let (q_width, width, n_sums) = (q.len() / n.max(1), out.len() / n.max(1), sums.len() / n.max(1));
    let (out, sums) = (DisjointSlice::new(out), DisjointSlice::new(sums));
    let row = |t: usize| {
        let sequence = sequences[t];
        let nan = source.nan(sequence);
        let sees = || {
            let last = sequences.iter().rposition(|other| *other == sequence).unwrap_or(t);
            visible(scoring, t, positions[t], keys_of(positions[last], scoring.pool))
        };
        let among = scoring.among.map_or(&[][..], |all| &all[t * (all.len() / n)..][..all.len() / n]);
        let is_seen = || {
            let sees = sees();
            nan.start.max(sees.start) < nan.end.min(sees.end)
        };
        let is_spoiled = !all_finite(&q[t * q_width..][..q_width]) || !all_finite(among);
        if is_spoiled || (!nan.is_empty() && is_seen()) {
            // SAFETY: each row is one item.
            unsafe {
                out.slice_mut(t * width..(t + 1) * width).fill(f32::NAN);
                sums.slice_mut(t * n_sums..(t + 1) * n_sums).fill(f32::NAN);
            }
        }
    };
    match q.len() <= SMALL {
        true => (0..n).for_each(row),
        false => team.for_each(n, row),
    }
}
