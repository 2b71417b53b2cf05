//! The recurrences on the tokens of one sequence: causal convolution, gated delta rule, selective scan and RWKV's
//! recurrence. Each function advances some channels or columns through all tokens, token by token, so that results do
//! not depend on how a prompt is split, while the recurrent state stays in the L1 cache.
//!
//! Lanes are channels of a convolution, columns of a delta-rule matrix, channels of a scan. A matrix lies in blocks of
//! sixteen lanes, row after row within a block.
#![allow(unsafe_code)]

use super::activation_functions::times_sigmoid;
use super::math::exp;
use super::simd::{LANES, Simd};
use super::{Isa, dispatch};
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::graph::program::{MAX_KEY_DIM, MAX_TAPS};

/// Number of blocks that are processed together.
pub const TILE: usize = 2;

/// Some columns of a matrix with one row per token.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    pub values: &'a [f32],
    pub width: usize,
    pub first: usize,
}

impl<'a> Columns<'a> {
    /// Returns `len` columns of token `t`.
    #[inline(always)]
    fn row(&self, t: usize, len: usize) -> &'a [f32] {
        &self.values[t * self.width + self.first..][..len]
    }
}

/// Writable columns.
pub struct ColumnsMut<'a> {
    pub values: &'a DisjointSlice<'a, f32>,
    pub width: usize,
    pub first: usize,
}

impl<'a> ColumnsMut<'a> {
    /// # Safety
    /// These columns must not be in use elsewhere.
    #[inline(always)]
    unsafe fn row(&self, t: usize, len: usize) -> &'a mut [f32] {
        let start = t * self.width + self.first;
        // SAFETY: these columns are not in use elsewhere by this function's contract.
        unsafe { self.values.slice_mut(start..start + len) }
    }
}

/// Some of the `width` channels of a convolution.
pub struct ConvChannels<'a> {
    pub n: usize,
    pub taps: usize,
    pub channels: std::ops::Range<usize>,
    pub width: usize,
    /// `[taps, width]`
    pub kernel: &'a [f32],
    pub bias: Option<&'a [f32]>,
    pub silu: bool,
    /// `[taps - 1, width]`: inputs before the first token; next, inputs before the next step's first token.
    pub from: &'a [f32],
    pub to: &'a DisjointSlice<'a, f32>,
    /// `[n, width]`
    pub x: &'a DisjointSlice<'a, f32>,
}

/// Convolves in place.
///
/// # Safety
/// These channels of `to` and `x` must not be in use elsewhere.
pub unsafe fn conv(isa: Isa, c: &ConvChannels) {
    assert!(c.taps <= MAX_TAPS && c.kernel.len() == c.taps * c.width && c.channels.end <= c.width);
    match c.taps {
        0..=4 => dispatch!(isa, conv_4(c: &ConvChannels)),
        _ => dispatch!(isa, conv_any(c: &ConvChannels)),
    }
}

#[inline(always)]
fn conv_4<S: Simd>(s: S, c: &ConvChannels) {
    conv_lanes::<S, 4>(s, c);
}

#[inline(always)]
fn conv_any<S: Simd>(s: S, c: &ConvChannels) {
    conv_lanes::<S, MAX_TAPS>(s, c);
}

/// Convolves with `T` taps; those before the kernel's taps are 0.
#[inline(always)]
fn conv_lanes<S: Simd, const T: usize>(s: S, c: &ConvChannels) {
    let (none, zero) = (T - c.taps, s.splat(0.0));
    for first in c.channels.clone().step_by(LANES) {
        let len = LANES.min(c.channels.end - first);
        let (mut kernel, mut inputs) = ([zero; T], [zero; T]);
        for j in none..T {
            kernel[j] = s.load_slice(&c.kernel[(j - none) * c.width + first..][..len]);
            if j + 1 < T {
                inputs[j] = s.load_slice(&c.from[(j - none) * c.width + first..][..len]);
            }
        }
        let bias = c.bias.map_or(zero, |bias| s.load_slice(&bias[first..][..len]));
        for t in 0..c.n {
            let at = t * c.width + first;
            // SAFETY: these channels are not in use elsewhere by `conv`'s contract.
            let row = unsafe { c.x.slice_mut(at..at + len) };
            inputs[T - 1] = s.load_slice(row);
            let mut sum = bias;
            for (x, w) in inputs.iter().zip(&kernel) {
                sum = s.fma(*x, *w, sum);
            }
            inputs.copy_within(1.., 0);
            s.store_slice(if c.silu { times_sigmoid(s, sum, sum) } else { sum }, row);
        }
        for (j, input) in inputs[none..T - 1].iter().enumerate() {
            let at = j * c.width + first;
            // SAFETY: as above.
            s.store_slice(*input, unsafe { c.to.slice_mut(at..at + len) });
        }
    }
}

/// `TILE` blocks, or one, of columns of the matrix of one head.
pub struct DeltaColumns<'a> {
    pub n: usize,
    pub key_dim: usize,
    pub q: Columns<'a>,
    pub k: Columns<'a>,
    pub v: Columns<'a>,
    /// One value for the head, or one per row.
    pub dt: Columns<'a>,
    pub per_row: bool,
    pub beta: Columns<'a>,
    pub rate: f32,
    /// `[blocks, key_dim, 16]`: the state before the first token; next, after the last.
    pub from: &'a [f32],
    pub to: &'a mut [f32],
    pub out: ColumnsMut<'a>,
}

/// Computes `S = exp(rate dt) S; S += k (beta (v - S^T k))^T; out = S^T q` for each token.
///
/// # Safety
/// These columns of `out` must not be in use elsewhere.
pub unsafe fn delta_rule(isa: Isa, d: &mut DeltaColumns) {
    let block = d.key_dim * LANES;
    assert!(d.key_dim <= MAX_KEY_DIM && d.from.len() == d.to.len());
    match (d.from.len() == block, d.per_row) {
        (true, false) => dispatch!(isa, delta_one(d: &mut DeltaColumns)),
        (true, true) => dispatch!(isa, delta_one_per_row(d: &mut DeltaColumns)),
        (false, false) => dispatch!(isa, delta_tile(d: &mut DeltaColumns)),
        (false, true) => dispatch!(isa, delta_tile_per_row(d: &mut DeltaColumns)),
    }
}

#[inline(always)]
fn delta_one<S: Simd>(s: S, d: &mut DeltaColumns) {
    delta_lanes::<S, 1, false>(s, d);
}

#[inline(always)]
fn delta_one_per_row<S: Simd>(s: S, d: &mut DeltaColumns) {
    delta_lanes::<S, 1, true>(s, d);
}

#[inline(always)]
fn delta_tile<S: Simd>(s: S, d: &mut DeltaColumns) {
    delta_lanes::<S, TILE, false>(s, d);
}

#[inline(always)]
fn delta_tile_per_row<S: Simd>(s: S, d: &mut DeltaColumns) {
    delta_lanes::<S, TILE, true>(s, d);
}

/// Decay factors of the rows of S for a token; next, their products with the token's key.
struct DecayedKey {
    decay: [f32; MAX_KEY_DIM],
    key: [f32; MAX_KEY_DIM],
}

impl DecayedKey {
    /// Computes the decay factors of token `t`: one per row, or one at index 0.
    #[inline(always)]
    fn set<S: Simd, const PER_ROW: bool>(&mut self, s: S, d: &DeltaColumns, t: usize) {
        let rate = s.splat(d.rate);
        if !PER_ROW {
            let mut lanes = [0.0; LANES];
            s.store(exp(s, s.mul(rate, s.splat(d.dt.row(t, 1)[0]))), &mut lanes);
            self.decay[0] = lanes[0];
            return;
        }
        let (dt, k) = (d.dt.row(t, d.key_dim), d.k.row(t, d.key_dim));
        let rows = dt.chunks(LANES).zip(k.chunks(LANES));
        let to = self.decay.chunks_mut(LANES).zip(self.key.chunks_mut(LANES));
        for ((dt, k), (decay, key)) in rows.zip(to) {
            let factor = exp(s, s.mul(rate, s.load_slice(dt)));
            s.store_slice(factor, decay);
            s.store_slice(s.mul(factor, s.load_slice(k)), key);
        }
    }

    /// Returns the key to multiply with the rows before they decay.
    #[inline(always)]
    fn key<'a, const PER_ROW: bool>(&'a self, d: &DeltaColumns<'a>, t: usize) -> &'a [f32] {
        if PER_ROW { &self.key[..d.key_dim] } else { d.k.row(t, d.key_dim) }
    }
}

#[inline(always)]
fn delta_lanes<S: Simd, const BLOCKS: usize, const PER_ROW: bool>(s: S, d: &mut DeltaColumns) {
    let (rows, zero) = (d.key_dim, s.splat(0.0));
    assert_eq!(d.to.len(), BLOCKS * rows * LANES);
    let mut from = d.from.as_ptr();
    let to = d.to.as_mut_ptr();
    let new = || DecayedKey { decay: [0.0; MAX_KEY_DIM], key: [0.0; MAX_KEY_DIM] };
    let (mut now, mut next) = (new(), new());
    now.set::<S, PER_ROW>(s, d, 0);
    // S^T k of the current token; if one decay factor applies to all rows, with S before its decay.
    let mut dots = [zero; BLOCKS];
    for (i, key) in now.key::<PER_ROW>(d, 0).iter().enumerate() {
        for (b, dot) in dots.iter_mut().enumerate() {
            // SAFETY: block `b` has `rows` vectors.
            *dot = s.fma(unsafe { s.load_f32(from.add((b * rows + i) * LANES)) }, s.splat(*key), *dot);
        }
    }
    for t in 0..d.n {
        let factor = s.splat(now.decay[0]);
        let (beta, v) = (s.splat(d.beta.row(t, 1)[0]), d.v.row(t, BLOCKS * LANES));
        let (mut deltas, mut sums) = ([zero; BLOCKS], [zero; BLOCKS]);
        for ((delta, dot), v) in deltas.iter_mut().zip(&dots).zip(v.chunks(LANES)) {
            let seen = if PER_ROW { *dot } else { s.mul(factor, *dot) };
            *delta = s.mul(beta, s.sub(s.load_slice(v), seen));
        }
        dots = [zero; BLOCKS];
        // After the last token the same token again; the result is unused.
        let following = (t + 1).min(d.n - 1);
        next.set::<S, PER_ROW>(s, d, following);
        let (k, q, coming) = (d.k.row(t, rows), d.q.row(t, rows), next.key::<PER_ROW>(d, following));
        for (i, ((k, q), coming)) in k.iter().zip(q).zip(coming).enumerate() {
            let (k, q, coming) = (s.splat(*k), s.splat(*q), s.splat(*coming));
            let decay = if PER_ROW { s.splat(now.decay[i]) } else { factor };
            for b in 0..BLOCKS {
                let at = (b * rows + i) * LANES;
                // SAFETY: block `b` has `rows` vectors in both.
                let old = unsafe { s.load_f32(from.add(at)) };
                let row = s.fma(k, deltas[b], s.mul(decay, old));
                // SAFETY: as above.
                unsafe { s.store_f32(to.add(at), row) };
                sums[b] = s.fma(row, q, sums[b]);
                dots[b] = s.fma(row, coming, dots[b]);
            }
        }
        // SAFETY: these columns are not in use elsewhere by `delta_rule`'s contract.
        let out = unsafe { d.out.row(t, BLOCKS * LANES) };
        for (out, sum) in out.chunks_mut(LANES).zip(sums) {
            s.store_slice(sum, out);
        }
        from = to;
        std::mem::swap(&mut now, &mut next);
    }
}

/// `TILE` blocks, or one, of channels of a scan that read one group.
pub struct ScanChannels<'a> {
    pub n: usize,
    pub state: usize,
    /// Channels per head.
    pub head_dim: usize,
    pub x: Columns<'a>,
    /// Values of all heads.
    pub dt: Columns<'a>,
    pub b: Columns<'a>,
    pub c: Columns<'a>,
    /// `[heads]`, or `[state, heads]`.
    pub rate: &'a [f32],
    pub per_state: bool,
    /// `[heads]`
    pub skip: &'a [f32],
    /// `[blocks, state, 16]`: the state before the first token; next, after the last.
    pub from: &'a [f32],
    pub to: &'a mut [f32],
    pub out: ColumnsMut<'a>,
}

/// Computes `h = exp(rate dt) h + dt x b^T; out = h c + skip x` for each token.
///
/// # Safety
/// These channels of `out` must not be in use elsewhere.
pub unsafe fn scan(isa: Isa, c: &mut ScanChannels) {
    assert_eq!(c.from.len(), c.to.len());
    match (c.from.len() == c.state * LANES, c.per_state) {
        (true, false) => dispatch!(isa, scan_one(c: &mut ScanChannels)),
        (true, true) => dispatch!(isa, scan_one_per_state(c: &mut ScanChannels)),
        (false, false) => dispatch!(isa, scan_tile(c: &mut ScanChannels)),
        (false, true) => dispatch!(isa, scan_tile_per_state(c: &mut ScanChannels)),
    }
}

#[inline(always)]
fn scan_one<S: Simd>(s: S, c: &mut ScanChannels) {
    scan_lanes::<S, 1, false>(s, c);
}

#[inline(always)]
fn scan_one_per_state<S: Simd>(s: S, c: &mut ScanChannels) {
    scan_lanes::<S, 1, true>(s, c);
}

#[inline(always)]
fn scan_tile<S: Simd>(s: S, c: &mut ScanChannels) {
    scan_lanes::<S, TILE, false>(s, c);
}

#[inline(always)]
fn scan_tile_per_state<S: Simd>(s: S, c: &mut ScanChannels) {
    scan_lanes::<S, TILE, true>(s, c);
}

/// Returns the values of sixteen channels from `channel` on; `head_dim` channels share one value.
#[inline(always)]
fn of_heads<S: Simd>(s: S, values: &[f32], head_dim: usize, channel: usize) -> S::F {
    if head_dim == 1 {
        return s.load_slice(&values[channel..][..LANES]);
    }
    if head_dim.is_multiple_of(LANES) {
        return s.splat(values[channel / head_dim]);
    }
    let lanes: [f32; LANES] = std::array::from_fn(|i| values[(channel + i) / head_dim]);
    s.load(&lanes)
}

#[inline(always)]
fn scan_lanes<S: Simd, const BLOCKS: usize, const PER_STATE: bool>(s: S, c: &mut ScanChannels) {
    let (rows, zero) = (c.state, s.splat(0.0));
    assert_eq!(c.to.len(), BLOCKS * rows * LANES);
    let mut from = c.from.as_ptr();
    let to = c.to.as_mut_ptr();
    let (mut rates, mut skips) = ([zero; BLOCKS], [zero; BLOCKS]);
    for b in 0..BLOCKS {
        let channel = c.x.first + b * LANES;
        if !PER_STATE {
            rates[b] = of_heads(s, c.rate, c.head_dim, channel);
        }
        skips[b] = of_heads(s, c.skip, c.head_dim, channel);
    }
    let heads = c.dt.width;
    for t in 0..c.n {
        let (dt, x) = (c.dt.row(t, heads), c.x.row(t, BLOCKS * LANES));
        let (mut times, mut inputs, mut decays, mut sums) =
            ([zero; BLOCKS], [zero; BLOCKS], [zero; BLOCKS], [zero; BLOCKS]);
        for (b, x) in x.chunks(LANES).enumerate() {
            times[b] = of_heads(s, dt, c.head_dim, c.x.first + b * LANES);
            let x = s.load_slice(x);
            inputs[b] = s.mul(times[b], x);
            sums[b] = s.mul(skips[b], x);
            if !PER_STATE {
                decays[b] = exp(s, s.mul(times[b], rates[b]));
            }
        }
        for (i, (weight, read)) in c.b.row(t, rows).iter().zip(c.c.row(t, rows)).enumerate() {
            let (weight, read) = (s.splat(*weight), s.splat(*read));
            for b in 0..BLOCKS {
                let decay = if PER_STATE {
                    let rate = &c.rate[i * heads + c.x.first + b * LANES..][..LANES];
                    exp(s, s.mul(times[b], s.load_slice(rate)))
                } else {
                    decays[b]
                };
                let at = (b * rows + i) * LANES;
                // SAFETY: block `b` has `rows` vectors in both.
                let old = unsafe { s.load_f32(from.add(at)) };
                let row = s.fma(decay, old, s.mul(inputs[b], weight));
                // SAFETY: as above.
                unsafe { s.store_f32(to.add(at), row) };
                sums[b] = s.fma(row, read, sums[b]);
            }
        }
        // SAFETY: these channels are not in use elsewhere by `scan`'s contract.
        let out = unsafe { c.out.row(t, BLOCKS * LANES) };
        for (out, sum) in out.chunks_mut(LANES).zip(sums) {
            s.store_slice(sum, out);
        }
        from = to;
    }
}

/// `TILE` blocks, or one, of columns of the matrix of one head of RWKV.
pub struct WkvColumns<'a> {
    pub n: usize,
    /// Number of rows of the matrix.
    pub dim: usize,
    pub r: Columns<'a>,
    pub k: Columns<'a>,
    pub v: Columns<'a>,
    pub dt: Columns<'a>,
    pub rate: Option<f32>,
    pub moved: Option<[Columns<'a>; 2]>,
    pub before: bool,
    pub fades: bool,
    /// `[blocks, dim, 16]`: the state before the first token; next, after the last.
    pub from: &'a [f32],
    pub to: &'a mut [f32],
    pub out: ColumnsMut<'a>,
}

/// Computes `S = diag(w) S + b (S^T a)^T + k v^T; out = S^T r` for each token.
///
/// # Safety
/// These columns of `out` must not be in use elsewhere.
pub unsafe fn wkv(isa: Isa, w: &mut WkvColumns) {
    let block = w.dim * LANES;
    assert!(w.dim <= MAX_KEY_DIM && w.dim.is_multiple_of(LANES) && w.from.len() == w.to.len());
    match w.from.len() == block {
        true => dispatch!(isa, wkv_one(w: &mut WkvColumns)),
        false => dispatch!(isa, wkv_tile(w: &mut WkvColumns)),
    }
}

#[inline(always)]
fn wkv_one<S: Simd>(s: S, w: &mut WkvColumns) {
    wkv_lanes::<S, 1>(s, w);
}

#[inline(always)]
fn wkv_tile<S: Simd>(s: S, w: &mut WkvColumns) {
    wkv_lanes::<S, TILE>(s, w);
}

#[inline(always)]
fn wkv_lanes<S: Simd, const BLOCKS: usize>(s: S, w: &mut WkvColumns) {
    let (rows, zero, one) = (w.dim, s.splat(0.0), s.splat(1.0));
    assert_eq!(w.to.len(), BLOCKS * rows * LANES);
    let mut from = w.from.as_ptr();
    let to = w.to.as_mut_ptr();
    let (mut decay, mut key) = ([0.0; MAX_KEY_DIM], [0.0; MAX_KEY_DIM]);
    for t in 0..w.n {
        let (dt, k) = (w.dt.row(t, rows).chunks(LANES), w.k.row(t, rows).chunks(LANES));
        for ((dt, k), (decay, key)) in dt.zip(k).zip(decay.chunks_mut(LANES).zip(key.chunks_mut(LANES))) {
            let (dt, k) = (s.load_slice(dt), s.load_slice(k));
            let log = match w.rate {
                Some(rate) => s.mul(s.splat(rate), dt),
                None => s.sub(zero, exp(s, dt)),
            };
            let factor = exp(s, log);
            s.store_slice(factor, decay);
            s.store_slice(if w.fades { s.mul(k, s.sub(one, factor)) } else { k }, key);
        }
        let mut seen = [zero; BLOCKS];
        if let Some([a, _]) = w.moved {
            for (i, a) in a.row(t, rows).iter().enumerate() {
                for (b, seen) in seen.iter_mut().enumerate() {
                    // SAFETY: block `b` has `rows` vectors.
                    *seen = s.fma(unsafe { s.load_f32(from.add((b * rows + i) * LANES)) }, s.splat(*a), *seen);
                }
            }
        }
        let put = w.moved.map(|[_, b]| b.row(t, rows));
        let (mut sums, mut v) = ([zero; BLOCKS], [zero; BLOCKS]);
        v.iter_mut().zip(w.v.row(t, BLOCKS * LANES).chunks(LANES)).for_each(|(to, v)| *to = s.load_slice(v));
        for (i, r) in w.r.row(t, rows).iter().enumerate() {
            let (r, decay, key) = (s.splat(*r), s.splat(decay[i]), s.splat(key[i]));
            for (b, v) in v.iter().enumerate() {
                let at = (b * rows + i) * LANES;
                // SAFETY: block `b` has `rows` vectors in both.
                let old = unsafe { s.load_f32(from.add(at)) };
                let mut row = s.fma(key, *v, s.mul(decay, old));
                if let Some(put) = put {
                    row = s.fma(s.splat(put[i]), seen[b], row);
                }
                // SAFETY: as above.
                unsafe { s.store_f32(to.add(at), row) };
                sums[b] = s.fma(if w.before { old } else { row }, r, sums[b]);
            }
        }
        // SAFETY: these columns are not in use elsewhere by `wkv`'s contract.
        let out = unsafe { w.out.row(t, BLOCKS * LANES) };
        for (out, sum) in out.chunks_mut(LANES).zip(sums) {
            s.store_slice(sum, out);
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::quantize::tests::values;

    /// Checks that all instruction sets are bit-identical.
    fn check(f: impl Fn(Isa) -> Vec<f32>) {
        let expected = f(Isa::Scalar);
        assert!(expected.iter().all(|x| x.is_finite()) && expected.iter().any(|x| *x != 0.0));
        for isa in Isa::available() {
            let same = f(isa).iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{}", isa.name());
        }
    }

    const N: usize = 9;

    #[test]
    fn convolutions_have_the_same_bits_on_all_instruction_sets() {
        for (width, taps, silu) in [(37, 4, true), (64, 3, false), (20, 6, true)] {
            let (kernel, bias, from) = (values(taps * width, 1), values(width, 2), values((taps - 1) * width, 3));
            check(|isa| {
                let (mut x, mut to) = (values(N * width, 4), vec![0.0; (taps - 1) * width]);
                let (all, end) = (DisjointSlice::new(&mut x), DisjointSlice::new(&mut to));
                let (kernel, bias, from) = (&kernel[..], Some(&bias[..]), &from[..]);
                let (channels, x, to) = (0..width, &all, &end);
                // SAFETY: this is one thread.
                unsafe { conv(isa, &ConvChannels { n: N, taps, channels, width, kernel, bias, silu, from, to, x }) };
                [all_of(&all), all_of(&end)].concat()
            });
        }
    }

    fn all_of(slice: &DisjointSlice<f32>) -> Vec<f32> {
        // SAFETY: no other part is in use.
        unsafe { slice.slice_mut(0..slice.len()) }.to_vec()
    }

    #[test]
    fn delta_rules_have_the_same_bits_on_all_instruction_sets() {
        for (blocks, key_dim, per_row) in [(1, 24, false), (TILE, 24, false), (1, 40, true), (TILE, 128, true)] {
            let wide = blocks * LANES;
            let [q, k] = [5, 6].map(|seed| values(N * key_dim, seed).iter().map(|x| 0.02 * x).collect::<Vec<f32>>());
            let (v, from) = (values(N * wide, 7), values(wide * key_dim, 8));
            let decays = if per_row { key_dim } else { 1 };
            let [dt, beta] =
                [values(N * decays, 9), values(N, 10)].map(|x| x.iter().map(|x| x.abs()).collect::<Vec<_>>());
            check(|isa| {
                let (mut to, mut out) = (vec![0.0; from.len()], vec![0.0; N * wide]);
                let all = DisjointSlice::new(&mut out);
                let columns = |values, width| Columns { values, width, first: 0 };
                let mut part = DeltaColumns {
                    n: N,
                    key_dim,
                    q: columns(&q, key_dim),
                    k: columns(&k, key_dim),
                    v: columns(&v, wide),
                    dt: columns(&dt, decays),
                    per_row,
                    beta: columns(&beta, 1),
                    rate: -0.7,
                    from: &from,
                    to: &mut to,
                    out: ColumnsMut { values: &all, width: wide, first: 0 },
                };
                // SAFETY: this is one thread.
                unsafe { delta_rule(isa, &mut part) };
                [all_of(&all), to].concat()
            });
        }
    }

    #[test]
    fn scans_have_the_same_bits_on_all_instruction_sets() {
        for (blocks, state, head_dim, per_state) in [(1, 20, 8, false), (TILE, 128, 32, false), (TILE, 16, 1, true)] {
            let wide = blocks * LANES;
            let heads = wide / head_dim;
            let (x, b, c) = (values(N * wide, 1), values(N * state, 2), values(N * state, 3));
            let (skip, from) = (values(heads, 4), values(wide * state, 5));
            let dt: Vec<f32> = values(N * heads, 6).iter().map(|x| x.abs()).collect();
            let rate: Vec<f32> =
                values(if per_state { heads * state } else { heads }, 7).iter().map(|x| -x.abs()).collect();
            check(|isa| {
                let (mut to, mut out) = (vec![0.0; from.len()], vec![0.0; N * wide]);
                let all = DisjointSlice::new(&mut out);
                let columns = |values, width| Columns { values, width, first: 0 };
                let mut part = ScanChannels {
                    n: N,
                    state,
                    head_dim,
                    x: columns(&x, wide),
                    dt: columns(&dt, heads),
                    b: columns(&b, state),
                    c: columns(&c, state),
                    rate: &rate,
                    per_state,
                    skip: &skip,
                    from: &from,
                    to: &mut to,
                    out: ColumnsMut { values: &all, width: wide, first: 0 },
                };
                // SAFETY: this is one thread.
                unsafe { scan(isa, &mut part) };
                [all_of(&all), to].concat()
            });
        }
    }
    #[test]
    fn recurrences_of_rwkv_have_the_same_bits_on_all_instruction_sets() {
        for (blocks, dim, moves, rate) in
            [(1, 16, true, Some(-0.6)), (TILE, 64, true, Some(-0.6)), (TILE, 32, false, None)]
        {
            let wide = blocks * LANES;
            let small = |seed| values(N * dim, seed).iter().map(|x| 0.02 * x).collect::<Vec<f32>>();
            let [r, k, a, b] = [1, 2, 3, 4].map(small);
            let dt: Vec<f32> = values(N * dim, 5).iter().map(|x| x.abs()).collect();
            let (v, from) = (values(N * wide, 6), values(wide * dim, 7));
            check(|isa| {
                let (mut to, mut out) = (vec![0.0; from.len()], vec![0.0; N * wide]);
                let all = DisjointSlice::new(&mut out);
                let columns = |values, width| Columns { values, width, first: 0 };
                let mut part = WkvColumns {
                    n: N,
                    dim,
                    r: columns(&r, dim),
                    k: columns(&k, dim),
                    v: columns(&v, wide),
                    dt: columns(&dt, dim),
                    rate,
                    moved: moves.then(|| [columns(&a, dim), columns(&b, dim)]),
                    before: !moves,
                    fades: !moves,
                    from: &from,
                    to: &mut to,
                    out: ColumnsMut { values: &all, width: wide, first: 0 },
                };
                // SAFETY: this is one thread.
                unsafe { wkv(isa, &mut part) };
                [all_of(&all), to].concat()
            });
        }
    }
}
