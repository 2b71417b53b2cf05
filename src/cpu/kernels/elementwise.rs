//! Elementwise ops on one row: norms, sums, RoPE, transposition, argmax, and the loops of all unary and binary
//! functions. Each public function checks lengths, then runs the same code for every instruction set.
#![allow(unsafe_code)]

use super::simd::{LANES, Simd};
use super::{Isa, dispatch};

/// Computes `x += scale * delta`
pub fn add_scaled(isa: Isa, x: &mut [f32], delta: &[f32], scale: f32) {
    assert_eq!(x.len(), delta.len());
    dispatch!(isa, add_scaled_lanes(x: &mut [f32], delta: &[f32], scale: f32))
}

#[inline(always)]
fn add_scaled_lanes<S: Simd>(s: S, x: &mut [f32], delta: &[f32], scale: f32) {
    zip(s, AddTimes(s.splat(scale)), x, delta);
}

/// Computes `x = x / sqrt(mean(x^2) + eps) * weight`; a missing weight is 1.
pub fn rms_norm(isa: Isa, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    assert!(weight.is_none_or(|weight| weight.len() == x.len()));
    dispatch!(isa, rms_norm_lanes(x: &mut [f32], weight: Option<&[f32]>, eps: f32))
}

#[inline(always)]
fn rms_norm_lanes<S: Simd>(s: S, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    times_both(s, x, 1.0 / (mean_square_lanes(s, x) + eps).sqrt(), weight);
}

#[inline(always)]
fn times_both<S: Simd>(s: S, x: &mut [f32], factor: f32, weight: Option<&[f32]>) {
    match weight {
        Some(weight) => zip(s, TimesBoth(s.splat(factor)), x, weight),
        None => map(s, ScaleBy(s.splat(factor)), x),
    }
}

/// Computes `x = (x - mean) / sqrt(var + eps) * weight`; a missing weight is 1.
pub fn layer_norm(isa: Isa, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    assert!(weight.is_none_or(|weight| weight.len() == x.len()));
    dispatch!(isa, layer_norm_lanes(x: &mut [f32], weight: Option<&[f32]>, eps: f32));
}

#[inline(always)]
fn layer_norm_lanes<S: Simd>(s: S, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    let variance = center(s, x);
    times_both(s, x, 1.0 / (variance + eps).sqrt(), weight);
}

/// Computes `x = scale * x`
pub fn scale(isa: Isa, x: &mut [f32], scale: f32) {
    dispatch!(isa, scale_lanes(x: &mut [f32], scale: f32))
}

#[inline(always)]
fn scale_lanes<S: Simd>(s: S, x: &mut [f32], scale: f32) {
    map(s, ScaleBy(s.splat(scale)), x);
}

/// Computes `x = x * y`
pub fn multiply(isa: Isa, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len());
    dispatch!(isa, multiply_lanes(x: &mut [f32], y: &[f32]))
}

#[inline(always)]
fn multiply_lanes<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    zip(s, TimesBoth(s.splat(1.0)), x, y);
}

/// Computes the mean of `groups` adjacent parts of `x`.
pub fn mean(isa: Isa, x: &[f32], groups: usize, out: &mut [f32]) {
    assert!(groups > 0 && x.len() == groups * out.len());
    let (first, others) = x.split_at(out.len());
    out.copy_from_slice(first);
    others.chunks_exact(out.len()).for_each(|part| add_scaled(isa, out, part, 1.0));
    scale(isa, out, 1.0 / groups as f32);
}

/// Computes `out[i] = x[by[i]]`.
pub fn gather(x: &[f32], by: &[f32], out: &mut [f32]) {
    assert_eq!(by.len(), out.len());
    out.iter_mut().zip(by).for_each(|(out, place)| *out = x[*place as usize]);
}

/// `x . y`
pub fn dot(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    dispatch!(isa, dot_lanes(x: &[f32], y: &[f32]) -> f32)
}

#[inline(always)]
fn dot_lanes<S: Simd>(s: S, x: &[f32], y: &[f32]) -> f32 {
    let mut sum = s.splat(0.0);
    for (x, y) in x.chunks(LANES).zip(y.chunks(LANES)) {
        sum = s.fma(s.load_slice(x), s.load_slice(y), sum);
    }
    let mut lanes = [0.0; LANES];
    s.store(sum, &mut lanes);
    lanes.iter().sum()
}

/// Computes `x = x * by`; each value of `by` multiplies `x.len() / by.len()` values of `x`.
pub fn multiply_each(isa: Isa, x: &mut [f32], by: &[f32]) {
    assert!(!by.is_empty() && x.len().is_multiple_of(by.len()));
    let each = x.len() / by.len();
    x.chunks_exact_mut(each).zip(by).for_each(|(x, by)| scale(isa, x, *by));
}

/// Computes `x *= sqrt(mean(like^2) / max(mean(x^2), 1e-5))` for each part of `x` of the length of `like`.
pub fn rescale(isa: Isa, x: &mut [f32], like: &[f32]) {
    assert!(!like.is_empty() && x.len().is_multiple_of(like.len()));
    dispatch!(isa, rescale_lanes(x: &mut [f32], like: &[f32]))
}

#[inline(always)]
fn rescale_lanes<S: Simd>(s: S, x: &mut [f32], like: &[f32]) {
    let size = mean_square_lanes(s, like);
    for x in x.chunks_exact_mut(like.len()) {
        let factor = (size / mean_square_lanes(s, x).max(1e-5)).sqrt();
        map(s, ScaleBy(s.splat(factor)), x);
    }
}

/// `mean(x^2)`
#[inline(always)]
fn mean_square_lanes<S: Simd>(s: S, x: &[f32]) -> f32 {
    sum_of(s, Square, x) / x.len() as f32
}

/// Computes `x = max(x - mean(x) - deviations * sqrt(var(x)), 0)`
pub fn threshold(isa: Isa, x: &mut [f32], deviations: f32) {
    dispatch!(isa, threshold_lanes(x: &mut [f32], deviations: f32))
}

#[inline(always)]
fn threshold_lanes<S: Simd>(s: S, x: &mut [f32], deviations: f32) {
    let variance = center(s, x);
    map(s, Above(s.splat(deviations * variance.sqrt())), x);
}

/// Subtracts the mean from each value. Returns the variance, computed from the differences, because the mean may be far
/// larger.
#[inline(always)]
fn center<S: Simd>(s: S, x: &mut [f32]) -> f32 {
    let mean = sum_of(s, Itself, x) / x.len() as f32;
    map(s, Plus(s.splat(-mean)), x);
    mean_square_lanes(s, x)
}

/// Computes `x = min(max(x, low), high)`; NaN stays NaN.
pub fn clamp(isa: Isa, x: &mut [f32], low: f32, high: f32) {
    dispatch!(isa, clamp_lanes(x: &mut [f32], low: f32, high: f32))
}

#[inline(always)]
fn clamp_lanes<S: Simd>(s: S, x: &mut [f32], low: f32, high: f32) {
    // Adding `zero` to the result changes a bound of -0 to +0; for other bounds it changes nothing.
    let zero = if low == 0.0 || high == 0.0 { 0.0 } else { -0.0 };
    map(s, Clamp { low: s.splat(low), high: s.splat(high), zero: s.splat(zero) }, x);
}

/// Rotates dimension `i` of a head with `i + n`; `n` is the length of `cos` and `sin`.
pub fn rope_halves(isa: Isa, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(cos.len() == sin.len() && 2 * cos.len() <= head.len());
    dispatch!(isa, rope_halves_lanes(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

#[inline(always)]
fn rope_halves_lanes<S: Simd>(s: S, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    let (low, high) = head[..2 * n].split_at_mut(n);
    for (((low, high), cos), sin) in
        low.chunks_mut(LANES).zip(high.chunks_mut(LANES)).zip(cos.chunks(LANES)).zip(sin.chunks(LANES))
    {
        let (a, b) = (s.load_slice(low), s.load_slice(high));
        let (cos, sin) = (s.load_slice(cos), s.load_slice(sin));
        s.store_slice(s.sub(s.mul(a, cos), s.mul(b, sin)), low);
        s.store_slice(s.add(s.mul(b, cos), s.mul(a, sin)), high);
    }
}

/// Rotates dimension `2i` of a head with `2i + 1`. `cos` holds each cosine twice, `sin` each sine first negated, then
/// unchanged.
pub fn rope_adjacent(isa: Isa, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(cos.len() == sin.len() && cos.len() <= head.len() && cos.len().is_multiple_of(2));
    dispatch!(isa, rope_adjacent_lanes(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

#[inline(always)]
fn rope_adjacent_lanes<S: Simd>(s: S, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    for ((x, cos), sin) in head[..n].chunks_mut(LANES).zip(cos.chunks(LANES)).zip(sin.chunks(LANES)) {
        let a = s.load_slice(x);
        let rotated = s.add(s.mul(a, s.load_slice(cos)), s.mul(s.swap_neighbors(a), s.load_slice(sin)));
        s.store_slice(rotated, x);
    }
}

/// Computes `out[j][i] = rows[i][j]`; `out` is `[n][16]` for rows of n.
pub fn transpose(isa: Isa, rows: &[&[f32]; LANES], out: &mut [f32]) {
    assert!(rows.iter().all(|row| row.len() * LANES == out.len()));
    dispatch!(isa, transpose_lanes(rows: &[&[f32]; LANES], out: &mut [f32]))
}

#[inline(always)]
fn transpose_lanes<S: Simd>(s: S, rows: &[&[f32]; LANES], out: &mut [f32]) {
    for (j, out) in out.chunks_mut(LANES * LANES).enumerate() {
        let mut block = [s.splat(0.0); LANES];
        for (v, row) in block.iter_mut().zip(rows) {
            let row = &row[j * LANES..];
            *v = s.load_slice(&row[..row.len().min(LANES)]);
        }
        for (out, v) in out.as_chunks_mut().0.iter_mut().zip(s.transpose(block)) {
            s.store(v, out);
        }
    }
}

/// Returns the index of the largest value, the lowest index among equals; NaN is never the largest. 0 for an empty
/// slice.
pub fn argmax(isa: Isa, x: &[f32]) -> usize {
    /// Long enough that finding the peak is bound by loads, short enough that the second pass hits the cache.
    const CHUNK: usize = 1024;
    let mut best = (f32::NEG_INFINITY, 0);
    for (i, chunk) in x.chunks(CHUNK).enumerate() {
        let peak = peak(isa, chunk);
        if peak > best.0 {
            best = (peak, i * CHUNK);
        }
    }
    best.1 + x[best.1..].iter().position(|&v| v == best.0).unwrap_or(0)
}

fn peak(isa: Isa, x: &[f32]) -> f32 {
    dispatch!(isa, peak_lanes(x: &[f32]) -> f32)
}

#[inline(always)]
fn peak_lanes<S: Simd>(s: S, x: &[f32]) -> f32 {
    let lowest = s.splat(f32::NEG_INFINITY);
    let mut peaks = [lowest; 4];
    let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
    for group in groups {
        for (peak, x) in peaks.iter_mut().zip(group.as_chunks().0) {
            // The operand that may be NaN comes first, so that NaN is dropped.
            *peak = s.max(s.load(x), *peak);
        }
    }
    for x in rest.chunks(LANES) {
        let mut padded = [f32::NEG_INFINITY; LANES];
        padded[..x.len()].copy_from_slice(x);
        peaks[0] = s.max(s.load(&padded), peaks[0]);
    }
    s.max_lane(s.max(s.max(peaks[0], peaks[1]), s.max(peaks[2], peaks[3])))
}

/// A unary function in lanes. A trait, because closures would not be compiled for the instruction set of the
/// surrounding function.
pub(super) trait Unary<S: Simd>: Copy {
    fn at(self, s: S, x: S::F) -> S::F;
}

/// A binary function.
pub(super) trait Binary<S: Simd>: Copy {
    fn at(self, s: S, x: S::F, y: S::F) -> S::F;
}

#[inline(always)]
pub(super) fn map<S: Simd>(s: S, f: impl Unary<S>, x: &mut [f32]) {
    let (xs, rest) = x.as_chunks_mut();
    for x in xs {
        s.store(f.at(s, s.load(x)), x);
    }
    if !rest.is_empty() {
        s.store_slice(f.at(s, s.load_slice(rest)), rest);
    }
}

#[inline(always)]
pub(super) fn zip<S: Simd>(s: S, f: impl Binary<S>, x: &mut [f32], y: &[f32]) {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks_mut(), y.as_chunks());
    for (x, y) in xs.iter_mut().zip(ys) {
        s.store(f.at(s, s.load(x), s.load(y)), x);
    }
    if !x_rest.is_empty() {
        s.store_slice(f.at(s, s.load_slice(x_rest), s.load_slice(y_rest)), x_rest);
    }
}

/// Returns the sum of a function that is 0 at 0. Four partial sums hide the latency of the addition.
#[inline(always)]
fn sum_of<S: Simd>(s: S, f: impl Unary<S>, x: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
    for group in groups {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks().0) {
            *sum = s.add(*sum, f.at(s, s.load(x)));
        }
    }
    for x in rest.chunks(LANES) {
        sums[0] = s.add(sums[0], f.at(s, s.load_slice(x)));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

#[derive(Clone, Copy)]
pub(super) struct Itself;
impl<S: Simd> Unary<S> for Itself {
    #[inline(always)]
    fn at(self, _: S, x: S::F) -> S::F {
        x
    }
}

#[derive(Clone, Copy)]
struct Square;
impl<S: Simd> Unary<S> for Square {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.mul(x, x)
    }
}

#[derive(Clone, Copy)]
struct Plus<V>(V);
impl<S: Simd> Unary<S> for Plus<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.add(x, self.0)
    }
}

#[derive(Clone, Copy)]
pub(super) struct ScaleBy<V>(pub V);
impl<S: Simd> Unary<S> for ScaleBy<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.mul(x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Above<V>(V);
impl<S: Simd> Unary<S> for Above<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.max(s.splat(0.0), s.sub(x, self.0))
    }
}

#[derive(Clone, Copy)]
struct Clamp<V> {
    low: V,
    high: V,
    zero: V,
}
impl<S: Simd> Unary<S> for Clamp<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        // The operand that may be NaN comes last, so that NaN is kept.
        s.add(s.max(self.low, s.min(self.high, x)), self.zero)
    }
}

#[derive(Clone, Copy)]
struct AddTimes<V>(V);
impl<S: Simd> Binary<S> for AddTimes<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F, y: S::F) -> S::F {
        s.fma(self.0, y, x)
    }
}

#[derive(Clone, Copy)]
struct TimesBoth<V>(V);
impl<S: Simd> Binary<S> for TimesBoth<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F, y: S::F) -> S::F {
        s.mul(s.mul(x, self.0), y)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cpu::kernels::quantize::tests::values;

    const LENGTHS: [usize; 10] = [1, 2, 7, 15, 16, 17, 64, 65, 172, 577];

    /// Checks that `f` is close to the expected values on every instruction set, and bit-identical on all of them.
    pub fn check(expected: &[f64], tolerance: f64, f: impl Fn(Isa) -> Vec<f32>) {
        let scalar = f(Isa::Scalar);
        for (i, (&got, &expected)) in scalar.iter().zip(expected).enumerate() {
            let error = (f64::from(got) - expected).abs() / expected.abs().max(1.0);
            assert!(error <= tolerance, "element {i} is {got}, expected {expected}");
        }
        for isa in Isa::available() {
            let got = f(isa);
            assert!(got.len() == expected.len());
            let differs = scalar.iter().zip(&got).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differs, None, "{}", isa.name());
        }
    }

    pub fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    pub fn apply(mut x: Vec<f32>, f: impl FnOnce(&mut [f32])) -> Vec<f32> {
        f(&mut x);
        x
    }

    #[test]
    fn sums_and_products() {
        for n in LENGTHS {
            let (x, y) = (values(n, 1), values(n, 2));
            let expected: Vec<f64> =
                x.iter().zip(&y).map(|(&x, &y)| f64::from(x) + 0.3f32 as f64 * f64::from(y)).collect();
            check(&expected, 1e-7, |isa| apply(x.clone(), |x| add_scaled(isa, x, &y, 0.3)));
            let expected: Vec<f64> = wide(&x).iter().map(|x| x * 1.75).collect();
            check(&expected, 1e-7, |isa| apply(x.clone(), |x| scale(isa, x, 1.75)));
            let expected: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) * f64::from(y)).collect();
            check(&expected, 1e-7, |isa| apply(x.clone(), |x| multiply(isa, x, &y)));
        }
    }

    #[test]
    fn norms() {
        for n in LENGTHS {
            let (x, w) = (values(n, 3), values(n, 4));
            let eps = 1e-5f32;
            let wide_x = wide(&x);
            let mean_square = wide_x.iter().map(|x| x * x).sum::<f64>() / n as f64;
            let inverse = 1.0 / (mean_square + f64::from(eps)).sqrt();
            let expected: Vec<f64> = wide_x.iter().zip(wide(&w)).map(|(x, w)| x * inverse * w).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rms_norm(isa, x, Some(&w), eps)));
            let bare: Vec<f64> = wide_x.iter().map(|x| x * inverse).collect();
            check(&bare, 1e-6, |isa| apply(x.clone(), |x| rms_norm(isa, x, None, eps)));

            let mean = wide_x.iter().sum::<f64>() / n as f64;
            let variance = wide_x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let inverse = 1.0 / (variance + f64::from(eps)).sqrt();
            let expected: Vec<f64> = wide_x.iter().zip(wide(&w)).map(|(x, w)| (x - mean) * inverse * w).collect();
            check(&expected, 2e-5, |isa| apply(x.clone(), |x| layer_norm(isa, x, Some(&w), eps)));
            let factor = (wide(&w).iter().map(|x| x * x).sum::<f64>() / n as f64 / mean_square.max(1e-5)).sqrt();
            let expected: Vec<f64> = wide_x.iter().map(|x| x * factor).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rescale(isa, x, &w)));
            let above = mean + 0.5 * variance.sqrt();
            let expected: Vec<f64> = wide_x.iter().map(|x| (x - above).max(0.0)).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| threshold(isa, x, 0.5)));
        }
    }

    #[test]
    fn rotary_embedding() {
        for n in [2, 4, 8, 24, 32, 40, 64] {
            let head_dim = 2 * n + 6;
            let x = values(head_dim, 6);
            let angles: Vec<f64> = (0..n).map(|i| 0.37 * i as f64).collect();
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos() as f32, a.sin() as f32)).unzip();
            let rotate = |first: &dyn Fn(usize) -> usize, second: &dyn Fn(usize) -> usize| {
                let mut expected = wide(&x);
                for (i, a) in angles.iter().enumerate() {
                    let (p, q) = (f64::from(x[first(i)]), f64::from(x[second(i)]));
                    expected[first(i)] = p * a.cos() - q * a.sin();
                    expected[second(i)] = q * a.cos() + p * a.sin();
                }
                expected
            };
            let expected = rotate(&|i| i, &|i| i + n);
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rope_halves(isa, x, &cos, &sin)));
            let twice: Vec<f32> = cos.iter().flat_map(|&c| [c, c]).collect();
            let signed: Vec<f32> = sin.iter().flat_map(|&s| [-s, s]).collect();
            let expected = rotate(&|i| 2 * i, &|i| 2 * i + 1);
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rope_adjacent(isa, x, &twice, &signed)));
        }
    }

    #[test]
    fn transposition() {
        for isa in Isa::available() {
            for n in [1, 8, 16, 40, 64] {
                let x = values(LANES * n, 9);
                let rows: [&[f32]; LANES] = std::array::from_fn(|i| &x[i * n..(i + 1) * n]);
                let mut out = vec![0.0; LANES * n];
                transpose(isa, &rows, &mut out);
                assert!((0..LANES * n).all(|i| out[i] == x[i % LANES * n + i / LANES]), "{}", isa.name());
            }
        }
    }

    #[test]
    fn argmax_takes_the_lowest_index_and_passes_over_nan() {
        for isa in Isa::available() {
            for n in [1usize, 5, 16, 100, 1024, 1025, 5000] {
                let mut x: Vec<f32> = values(n, 8);
                let expected = x.iter().enumerate().fold(0, |best, (i, &v)| if v > x[best] { i } else { best });
                assert_eq!(argmax(isa, &x), expected);
                x[n / 2] = 1e6;
                x[n - 1] = 1e6;
                assert_eq!(argmax(isa, &x), n / 2);
                x[0] = f32::NAN;
                assert_eq!(
                    argmax(isa, &x),
                    if n == 1 {
                        0
                    } else if n / 2 == 0 {
                        n - 1
                    } else {
                        n / 2
                    }
                );
            }
            assert_eq!(argmax(isa, &[f32::NAN; 40]), 0);
            assert_eq!(argmax(isa, &[f32::NEG_INFINITY; 40]), 0);
            assert_eq!(argmax(isa, &[]), 0);
        }
    }
}
