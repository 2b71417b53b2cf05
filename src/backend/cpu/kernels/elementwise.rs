//! The small verbs on one row: norms, sums, activations, rotary embedding, conversions for attention, arg-max.
//! Each public function checks lengths, then runs the same lanes for every instruction set.
#![allow(unsafe_code)]

use super::Isa;
use super::lanes::{LANES, Lanes, dispatch};
use crate::backend::op::Activation;

/// `x += scale * delta`
pub fn add_scaled(isa: Isa, x: &mut [f32], delta: &[f32], scale: f32) {
    assert_eq!(x.len(), delta.len());
    dispatch!(isa, add_scaled_lanes(x: &mut [f32], delta: &[f32], scale: f32))
}

#[inline(always)]
fn add_scaled_lanes<S: Lanes>(s: S, x: &mut [f32], delta: &[f32], scale: f32) {
    zip(s, AddTimes(s.splat(scale)), x, delta);
}

/// `x = x / sqrt(mean(x^2) + eps) * weight`
pub fn rms_norm(isa: Isa, x: &mut [f32], weight: &[f32], eps: f32) {
    assert_eq!(x.len(), weight.len());
    dispatch!(isa, rms_norm_lanes(x: &mut [f32], weight: &[f32], eps: f32))
}

#[inline(always)]
fn rms_norm_lanes<S: Lanes>(s: S, x: &mut [f32], weight: &[f32], eps: f32) {
    let mean = sum_of(s, Square, x) / x.len() as f32;
    zip(s, TimesBoth(s.splat(1.0 / (mean + eps).sqrt())), x, weight);
}

/// `x = (x - mean) / sqrt(var + eps) * weight + bias`
pub fn layer_norm(isa: Isa, x: &mut [f32], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
    assert_eq!(x.len(), weight.len());
    dispatch!(isa, layer_norm_lanes(x: &mut [f32], weight: &[f32], eps: f32));
    if let Some(bias) = bias {
        add_scaled(isa, x, bias, 1.0);
    }
}

#[inline(always)]
fn layer_norm_lanes<S: Lanes>(s: S, x: &mut [f32], weight: &[f32], eps: f32) {
    let n = x.len() as f32;
    let mean = sum_of(s, Itself, x) / n;
    // Of the differences, because the mean may be far larger than they are.
    map(s, Plus(s.splat(-mean)), x);
    let variance = sum_of(s, Square, x) / n;
    zip(s, TimesBoth(s.splat(1.0 / (variance + eps).sqrt())), x, weight);
}

/// `x = scale * x`
pub fn scale(isa: Isa, x: &mut [f32], scale: f32) {
    dispatch!(isa, scale_lanes(x: &mut [f32], scale: f32))
}

#[inline(always)]
fn scale_lanes<S: Lanes>(s: S, x: &mut [f32], scale: f32) {
    map(s, Times(s.splat(scale)), x);
}

/// `x = cap * tanh(scale * x / cap)`
pub fn softcap(isa: Isa, x: &mut [f32], scale: f32, cap: f32) {
    dispatch!(isa, softcap_lanes(x: &mut [f32], scale: f32, cap: f32))
}

#[inline(always)]
fn softcap_lanes<S: Lanes>(s: S, x: &mut [f32], scale: f32, cap: f32) {
    map(s, Softcap { inner: s.splat(scale / cap), cap: s.splat(cap) }, x);
}

/// `x = activation(x)`
pub fn activate(isa: Isa, activation: Activation, x: &mut [f32]) {
    dispatch!(isa, activate_lanes(activation: Activation, x: &mut [f32]))
}

#[inline(always)]
fn activate_lanes<S: Lanes>(s: S, activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Silu => map(s, Silu, x),
        Activation::Gelu => map(s, Gelu, x),
        Activation::GeluErf => map(s, GeluErf, x),
        Activation::Relu => map(s, Relu, x),
    }
}

/// `gate = activation(gate) * up`
pub fn glu(isa: Isa, activation: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    dispatch!(isa, glu_lanes(activation: Activation, gate: &mut [f32], up: &[f32]))
}

#[inline(always)]
fn glu_lanes<S: Lanes>(s: S, activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => zip(s, Gated(Silu), gate, up),
        Activation::Gelu => zip(s, Gated(Gelu), gate, up),
        Activation::GeluErf => zip(s, Gated(GeluErf), gate, up),
        Activation::Relu => zip(s, Gated(Relu), gate, up),
    }
}

/// Turns dimension `i` of a head with `i + n`, where `n` is the length of `cos` and `sin`.
pub fn rope_halves(isa: Isa, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(cos.len() == sin.len() && 2 * cos.len() <= head.len());
    dispatch!(isa, rope_halves_lanes(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

#[inline(always)]
fn rope_halves_lanes<S: Lanes>(s: S, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    let (low, high) = head[..2 * n].split_at_mut(n);
    for (((low, high), cos), sin) in
        low.chunks_mut(LANES).zip(high.chunks_mut(LANES)).zip(cos.chunks(LANES)).zip(sin.chunks(LANES))
    {
        let (a, b) = (load(s, low), load(s, high));
        let (cos, sin) = (load(s, cos), load(s, sin));
        store(s, s.sub(s.mul(a, cos), s.mul(b, sin)), low);
        store(s, s.add(s.mul(b, cos), s.mul(a, sin)), high);
    }
}

/// Turns dimension `2i` of a head with `2i + 1`. `cos` holds each cosine twice, `sin` each sine negated and then as
/// it is.
pub fn rope_adjacent(isa: Isa, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(cos.len() == sin.len() && cos.len() <= head.len() && cos.len().is_multiple_of(2));
    dispatch!(isa, rope_adjacent_lanes(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

#[inline(always)]
fn rope_adjacent_lanes<S: Lanes>(s: S, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    for ((x, cos), sin) in head[..n].chunks_mut(LANES).zip(cos.chunks(LANES)).zip(sin.chunks(LANES)) {
        let a = load(s, x);
        let turned = s.add(s.mul(a, load(s, cos)), s.mul(s.swap_pairs(a), load(s, sin)));
        store(s, turned, x);
    }
}

/// One scale for at most 32 values: `x = scale * quant`, quants within -127..=127. Returns the scale.
pub fn quantise_i8(isa: Isa, x: &[f32], quants: &mut [i8]) -> f32 {
    assert_eq!(x.len(), quants.len());
    dispatch!(isa, quantise_i8_lanes(x: &[f32], quants: &mut [i8]) -> f32)
}

#[inline(always)]
fn quantise_i8_lanes<S: Lanes>(s: S, x: &[f32], quants: &mut [i8]) -> f32 {
    let (scale, inverse) = scale_for(s, x, 127.0);
    for (x, quants) in x.chunks(LANES).zip(quants.chunks_mut(LANES)) {
        let mut bytes = [0; LANES];
        s.store_i8(quants_of(s, load(s, x), inverse, 127.0), &mut bytes);
        quants.copy_from_slice(&bytes[..quants.len()]);
    }
    scale
}

/// One scale for all values: `x = scale * quant`, quants within `-I16_PEAK..=I16_PEAK`. Returns the scale. Values beyond
/// 2^40, infinities and NaN become finite.
pub fn quantise_i16(isa: Isa, x: &[f32], quants: &mut [i16]) -> f32 {
    assert_eq!(x.len(), quants.len());
    dispatch!(isa, quantise_i16_lanes(x: &[f32], quants: &mut [i16]) -> f32)
}

#[inline(always)]
pub(super) fn quantise_i16_lanes<S: Lanes>(s: S, x: &[f32], quants: &mut [i16]) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, quants) in x.chunks(LANES).zip(quants.chunks_mut(LANES)) {
        let q = quants_of(s, load(s, x), inverse, I16_PEAK);
        match quants.first_chunk_mut() {
            Some(quants) => s.store_i16(q, quants),
            None => {
                let mut words = [0; LANES];
                s.store_i16(q, &mut words);
                quants.copy_from_slice(&words[..quants.len()]);
            }
        }
    }
    scale
}

/// `quantise_i16` to the half `side` of each pair, in the byte order of the machine; the other half is kept.
pub fn quantise_i16_beside(isa: Isa, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    assert!(x.len() <= pairs.len() && side < 2);
    dispatch!(isa, quantise_i16_beside_lanes(x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32)
}

#[inline(always)]
fn quantise_i16_beside_lanes<S: Lanes>(s: S, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, pairs) in x.chunks(LANES).zip(pairs.chunks_mut(LANES)) {
        let mut words = [0; LANES];
        s.store_i16(quants_of(s, load(s, x), inverse, I16_PEAK), &mut words);
        for (pair, q) in pairs.iter_mut().zip(&words[..x.len()]) {
            pair[2 * side..][..2].copy_from_slice(&q.to_ne_bytes());
        }
    }
    scale
}

/// Largest quant of 16 bits: the largest with which the sum of 32 products stays within an i32.
pub const I16_PEAK: f32 = 8191.0;

/// The scale with which the largest of some values becomes the quant `peak`, and its inverse, 0 where that would overflow.
#[inline(always)]
fn scale_for<S: Lanes>(s: S, x: &[f32], peak: f32) -> (f32, f32) {
    /// So that neither products of scales overflow nor stale entries of a cache times a weight of zero are not zero.
    const LARGEST: f32 = (1u64 << 40) as f32;
    let mut largest = s.splat(0.0);
    for x in x.chunks(LANES) {
        let v = load(s, x);
        // The operand that may be NaN stands first, where it is dropped.
        largest = s.max(s.max(v, s.sub(s.splat(0.0), v)), largest);
    }
    let scale = s.peak(largest).min(LARGEST) / peak;
    (scale, if scale > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 })
}

/// `x * inverse`, within `-peak..=peak`.
#[inline(always)]
fn quants_of<S: Lanes>(s: S, x: S::V, inverse: f32, peak: f32) -> S::V {
    // The operand that may be NaN stands first, where it is dropped.
    s.min(s.max(s.mul(x, s.splat(inverse)), s.splat(-peak)), s.splat(peak))
}

/// `out[j][i] = rows[i][j]`, `out` being `[n][16]` for rows of n.
pub fn transpose(isa: Isa, rows: &[&[f32]; LANES], out: &mut [f32]) {
    assert!(rows.iter().all(|row| row.len() * LANES == out.len()));
    dispatch!(isa, transpose_lanes(rows: &[&[f32]; LANES], out: &mut [f32]))
}

#[inline(always)]
fn transpose_lanes<S: Lanes>(s: S, rows: &[&[f32]; LANES], out: &mut [f32]) {
    for (j, out) in out.chunks_mut(LANES * LANES).enumerate() {
        let mut block = [s.splat(0.0); LANES];
        for (v, row) in block.iter_mut().zip(rows) {
            let row = &row[j * LANES..];
            *v = load(s, &row[..row.len().min(LANES)]);
        }
        for (out, v) in out.as_chunks_mut().0.iter_mut().zip(s.transpose(block)) {
            s.store(v, out);
        }
    }
}

/// Index of the largest value, the lowest where several are equal; NaN is never the largest. 0 for an empty slice.
pub fn argmax(isa: Isa, x: &[f32]) -> usize {
    /// Long enough that finding the peak is a matter of loads, short enough that the second look is in cache.
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
fn peak_lanes<S: Lanes>(s: S, x: &[f32]) -> f32 {
    let lowest = s.splat(f32::NEG_INFINITY);
    let mut peaks = [lowest; 4];
    let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
    for group in groups {
        for (peak, x) in peaks.iter_mut().zip(group.as_chunks().0) {
            // The operand that may be NaN stands first, where it is dropped.
            *peak = s.max(s.load(x), *peak);
        }
    }
    for x in rest.chunks(LANES) {
        let mut padded = [f32::NEG_INFINITY; LANES];
        padded[..x.len()].copy_from_slice(x);
        peaks[0] = s.max(s.load(&padded), peaks[0]);
    }
    s.peak(s.max(s.max(peaks[0], peaks[1]), s.max(peaks[2], peaks[3])))
}

#[inline(always)]
fn load<S: Lanes>(s: S, x: &[f32]) -> S::V {
    match x.first_chunk() {
        Some(x) => s.load(x),
        None => s.load_part(x),
    }
}

#[inline(always)]
fn store<S: Lanes>(s: S, v: S::V, x: &mut [f32]) {
    match x.first_chunk_mut() {
        Some(x) => s.store(v, x),
        None => s.store_part(v, x),
    }
}

/// A function of one value, in lanes. A trait rather than closures, which would not be compiled for the
/// instruction set of the function around them.
trait Unary<S: Lanes>: Copy {
    fn at(self, s: S, x: S::V) -> S::V;
}

/// A function of two values.
trait Binary<S: Lanes>: Copy {
    fn at(self, s: S, x: S::V, y: S::V) -> S::V;
}

#[inline(always)]
fn map<S: Lanes>(s: S, f: impl Unary<S>, x: &mut [f32]) {
    let (xs, rest) = x.as_chunks_mut();
    for x in xs {
        s.store(f.at(s, s.load(x)), x);
    }
    if !rest.is_empty() {
        s.store_part(f.at(s, s.load_part(rest)), rest);
    }
}

#[inline(always)]
fn zip<S: Lanes>(s: S, f: impl Binary<S>, x: &mut [f32], y: &[f32]) {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks_mut(), y.as_chunks());
    for (x, y) in xs.iter_mut().zip(ys) {
        s.store(f.at(s, s.load(x), s.load(y)), x);
    }
    if !x_rest.is_empty() {
        s.store_part(f.at(s, s.load_part(x_rest), s.load_part(y_rest)), x_rest);
    }
}

/// The sum of a function that is 0 at 0. Four partial sums hide the latency of the addition.
#[inline(always)]
fn sum_of<S: Lanes>(s: S, f: impl Unary<S>, x: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
    for group in groups {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks().0) {
            *sum = s.add(*sum, f.at(s, s.load(x)));
        }
    }
    for x in rest.chunks(LANES) {
        sums[0] = s.add(sums[0], f.at(s, load(s, x)));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

#[derive(Clone, Copy)]
struct Itself;
impl<S: Lanes> Unary<S> for Itself {
    #[inline(always)]
    fn at(self, _: S, x: S::V) -> S::V {
        x
    }
}

#[derive(Clone, Copy)]
struct Square;
impl<S: Lanes> Unary<S> for Square {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        s.mul(x, x)
    }
}

#[derive(Clone, Copy)]
struct Plus<V>(V);
impl<S: Lanes> Unary<S> for Plus<S::V> {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        s.add(x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Times<V>(V);
impl<S: Lanes> Unary<S> for Times<S::V> {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        s.mul(x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Softcap<V> {
    /// Factor inside the hyperbolic tangent.
    inner: V,
    cap: V,
}
impl<S: Lanes> Unary<S> for Softcap<S::V> {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        s.mul(self.cap, s.tanh(s.mul(x, self.inner)))
    }
}

/// `x * sigmoid(x)`
#[derive(Clone, Copy)]
struct Silu;
impl<S: Lanes> Unary<S> for Silu {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        times_sigmoid(s, x, x)
    }
}

/// `x/2 * (1 + tanh(u))` with `u = sqrt(2/pi) * (x + 0.044715 x^3)`, which is `x * sigmoid(2u)`.
#[derive(Clone, Copy)]
struct Gelu;
impl<S: Lanes> Unary<S> for Gelu {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        const LINEAR: f32 = 1.595_769; // 2 * sqrt(2/pi)
        const CUBIC: f32 = 0.044_715 * LINEAR;
        let u = s.mul(x, s.fma(s.mul(x, x), s.splat(CUBIC), s.splat(LINEAR)));
        times_sigmoid(s, x, u)
    }
}

/// `x * P(N <= x)` for a standard normal N: Abramowitz and Stegun, formula 7.1.26, absolute error of P below 1e-7.
#[derive(Clone, Copy)]
struct GeluErf;
impl<S: Lanes> Unary<S> for GeluErf {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        let zero = s.splat(0.0);
        let distance = s.max(x, s.sub(zero, x));
        let z = s.mul(distance, s.splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = s.div(s.splat(1.0), s.fma(z, s.splat(0.327_591_1), s.splat(1.0)));
        let mut p = s.splat(1.061_405_4);
        for c in [-1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6, 0.0] {
            p = s.fma(p, t, s.splat(c));
        }
        // Probability of lying beyond |x| on one side.
        let tail = s.mul(s.mul(s.splat(0.5), p), s.exp(s.sub(zero, s.mul(z, z))));
        s.sub(s.max(zero, x), s.mul(distance, tail))
    }
}

#[derive(Clone, Copy)]
struct Relu;
impl<S: Lanes> Unary<S> for Relu {
    #[inline(always)]
    fn at(self, s: S, x: S::V) -> S::V {
        s.max(s.splat(0.0), x)
    }
}

#[inline(always)]
fn times_sigmoid<S: Lanes>(s: S, x: S::V, u: S::V) -> S::V {
    s.div(x, s.add(s.splat(1.0), s.exp(s.sub(s.splat(0.0), u))))
}

#[derive(Clone, Copy)]
struct AddTimes<V>(V);
impl<S: Lanes> Binary<S> for AddTimes<S::V> {
    #[inline(always)]
    fn at(self, s: S, x: S::V, y: S::V) -> S::V {
        s.fma(self.0, y, x)
    }
}

#[derive(Clone, Copy)]
struct TimesBoth<V>(V);
impl<S: Lanes> Binary<S> for TimesBoth<S::V> {
    #[inline(always)]
    fn at(self, s: S, x: S::V, y: S::V) -> S::V {
        s.mul(s.mul(x, self.0), y)
    }
}

#[derive(Clone, Copy)]
struct Gated<F>(F);
impl<S: Lanes, F: Unary<S>> Binary<S> for Gated<F> {
    #[inline(always)]
    fn at(self, s: S, x: S::V, y: S::V) -> S::V {
        s.mul(self.0.at(s, x), y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible values around 0, most of them small.
    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let unit = (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
                unit * unit * unit * 40.0
            })
            .collect()
    }

    const LENGTHS: [usize; 10] = [1, 2, 7, 15, 16, 17, 64, 65, 172, 577];

    /// Runs `f` on every instruction set: each is near the oracle, and those with a fused multiply-add are equal.
    fn check(expected: &[f64], tolerance: f64, f: impl Fn(Isa) -> Vec<f32>) {
        let mut fused: Option<Vec<u32>> = None;
        for isa in Isa::available() {
            let got = f(isa);
            assert_eq!(got.len(), expected.len());
            for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
                let error = (f64::from(got) - expected).abs() / expected.abs().max(1.0);
                assert!(error <= tolerance, "{}: element {i} is {got}, expected {expected}", isa.name());
            }
            if isa != Isa::Scalar {
                let bits: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                let fused = fused.get_or_insert_with(|| bits.clone());
                let differs = fused.iter().zip(&bits).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{}", isa.name());
            }
        }
    }

    fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    fn apply(mut x: Vec<f32>, f: impl FnOnce(&mut [f32])) -> Vec<f32> {
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
        }
    }

    #[test]
    fn norms() {
        for n in LENGTHS {
            let (x, w, b) = (values(n, 3), values(n, 4), values(n, 5));
            let eps = 1e-5f32;
            let wide_x = wide(&x);
            let mean_square = wide_x.iter().map(|x| x * x).sum::<f64>() / n as f64;
            let inverse = 1.0 / (mean_square + f64::from(eps)).sqrt();
            let expected: Vec<f64> = wide_x.iter().zip(wide(&w)).map(|(x, w)| x * inverse * w).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rms_norm(isa, x, &w, eps)));

            let mean = wide_x.iter().sum::<f64>() / n as f64;
            let variance = wide_x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let inverse = 1.0 / (variance + f64::from(eps)).sqrt();
            let expected: Vec<f64> =
                wide_x.iter().zip(wide(&w)).zip(wide(&b)).map(|((x, w), b)| (x - mean) * inverse * w + b).collect();
            check(&expected, 2e-5, |isa| apply(x.clone(), |x| layer_norm(isa, x, &w, Some(&b), eps)));
        }
    }

    #[test]
    fn activations() {
        let mut x: Vec<f32> = (-4000..=4000).map(|i| i as f32 * 0.01).collect();
        x.extend([-1000.0, 1000.0, 0.0, -0.0]);
        let up = vec![0.5f32; x.len()];
        // The complementary error function by its integral, Simpson's rule.
        let tail = |z: f64| {
            let (steps, end) = (2000, z + 8.0);
            let h = (end - z) / steps as f64;
            let sum: f64 = (0..=steps)
                .map(|i| {
                    let t: f64 = z + i as f64 * h;
                    let weight = if i == 0 || i == steps { 1.0 } else { (2 * (1 + i % 2)) as f64 };
                    weight * (-t * t / 2.0).exp()
                })
                .sum();
            sum * h / 3.0 / (2.0 * std::f64::consts::PI).sqrt()
        };
        let oracle: [(Activation, &dyn Fn(f64) -> f64); 4] = [
            (Activation::Silu, &|x| x / (1.0 + (-x).exp())),
            (Activation::Gelu, &|x| {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
            }),
            (Activation::GeluErf, &|x| if x < 0.0 { x * tail(-x) } else { x * (1.0 - tail(x)) }),
            (Activation::Relu, &|x| x.max(0.0)),
        ];
        for (activation, f) in oracle {
            let expected: Vec<f64> = x.iter().map(|&x| f(f64::from(x))).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| activate(isa, activation, x)));
            let expected: Vec<f64> = expected.iter().map(|x| x * 0.5).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| glu(isa, activation, x, &up)));
        }
        let expected: Vec<f64> = x.iter().map(|&x| 30.0 * (f64::from(x) * 2.0 / 30.0).tanh()).collect();
        // The error of the hyperbolic tangent is absolute.
        check(&expected, 30.0 * 2e-7, |isa| apply(x.clone(), |x| softcap(isa, x, 2.0, 30.0)));
    }

    #[test]
    fn exponentials_are_within_two_units_in_the_last_place() {
        fn both<S: Lanes>(s: S, x: &[f32; LANES], out: &mut [[f32; LANES]; 2]) {
            s.store(s.exp2(s.load(x)), &mut out[0]);
            s.store(s.exp(s.load(x)), &mut out[1]);
        }
        for isa in Isa::available() {
            for i in -50_000..50_000 {
                let x = i as f32 * (87.0 / 50_000.0);
                let out = &mut [[0.0; LANES]; 2];
                let input = &[x; LANES];
                dispatch!(isa, both(input: &[f32; LANES], out: &mut [[f32; LANES]; 2]));
                for (got, expected, fused) in
                    [(out[0][3], f64::from(x).exp2(), true), (out[1][3], f64::from(x).exp(), isa != Isa::Scalar)]
                {
                    if expected < f64::from(f32::MIN_POSITIVE) {
                        assert!(f64::from(got) <= 2.0 * f64::from(f32::MIN_POSITIVE));
                        continue;
                    }
                    // Without a fused multiply-add the product with log2(e) is rounded: 2^-24 of up to 126.
                    let units = if fused { 2.0 } else { 100.0 };
                    let error = (f64::from(got) - expected).abs() / expected;
                    assert!(error <= units * 2f64.powi(-23), "{}: f({x}) = {got}, not {expected}", isa.name());
                }
            }
            for (x, [exp2, exp]) in [
                (f32::NEG_INFINITY, [0.0; 2]),
                (-200.0, [0.0; 2]),
                (0.0, [1.0; 2]),
                (100.0, [2f32.powi(100), 88f32.exp()]),
            ] {
                let out = &mut [[0.0; LANES]; 2];
                let input = &[x; LANES];
                dispatch!(isa, both(input: &[f32; LANES], out: &mut [[f32; LANES]; 2]));
                assert!(out[0][0] == exp2 && (out[1][15] - exp).abs() <= 1e-5 * exp, "{}: {x}", isa.name());
            }
        }
    }

    #[test]
    fn rotary_embedding() {
        for n in [2, 4, 8, 24, 32, 40, 64] {
            let head_dim = 2 * n + 6;
            let x = values(head_dim, 6);
            let angles: Vec<f64> = (0..n).map(|i| 0.37 * i as f64).collect();
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos() as f32, a.sin() as f32)).unzip();
            let turn = |first: &dyn Fn(usize) -> usize, second: &dyn Fn(usize) -> usize| {
                let mut expected = wide(&x);
                for (i, a) in angles.iter().enumerate() {
                    let (p, q) = (f64::from(x[first(i)]), f64::from(x[second(i)]));
                    expected[first(i)] = p * a.cos() - q * a.sin();
                    expected[second(i)] = q * a.cos() + p * a.sin();
                }
                expected
            };
            let expected = turn(&|i| i, &|i| i + n);
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rope_halves(isa, x, &cos, &sin)));
            let twice: Vec<f32> = cos.iter().flat_map(|&c| [c, c]).collect();
            let signed: Vec<f32> = sin.iter().flat_map(|&s| [-s, s]).collect();
            let expected = turn(&|i| 2 * i, &|i| 2 * i + 1);
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| rope_adjacent(isa, x, &twice, &signed)));
        }
    }

    #[test]
    fn conversions_for_the_cache() {
        for isa in Isa::available() {
            for n in [1, 8, 16, 17, 32, 80] {
                let x = values(n, n as u64);
                let peak = x.iter().fold(0f32, |m, x| m.max(x.abs()));
                let mut bytes = vec![0i8; n];
                let mut words = vec![0i16; n];
                let scales = [quantise_i8(isa, &x, &mut bytes), quantise_i16(isa, &x, &mut words)];
                let wide = bytes.iter().map(|&q| i16::from(q)).collect();
                for (scale, quants, steps) in [(scales[0], wide, 127.0), (scales[1], words, I16_PEAK)] {
                    assert!((scale - peak / steps).abs() <= 1e-6 * scale);
                    for (&x, q) in x.iter().zip(quants) {
                        let error = (x - scale * f32::from(q)).abs();
                        assert!(error <= 0.502 * scale, "{}: {x} became {q}", isa.name());
                    }
                }
            }
            let mut quants = [1i8; 20];
            assert_eq!(quantise_i8(isa, &[0.0; 20], &mut quants), 0.0);
            assert_eq!(quants, [0; 20]);
            let mut quants = [1i16; 20];
            assert_eq!(quantise_i16(isa, &[0.0; 20], &mut quants), 0.0);
            assert_eq!(quants, [0; 20]);
        }
    }

    #[test]
    fn whatever_is_stored_is_finite() {
        let x =
            [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e38, -3e13, 1.0, f32::MIN_POSITIVE, -0.0, 1e-45];
        for isa in Isa::available() {
            for i in 0..x.len() {
                let x = [&x[i..], &x[..i], &x].concat();
                for n in 1..x.len() {
                    let (mut bytes, mut words) = (vec![0; n], vec![0; n]);
                    assert!(quantise_i8(isa, &x[..n], &mut bytes) <= 1e10, "{}", isa.name());
                    assert!(quantise_i16(isa, &x[..n], &mut words) <= 1e9, "{}", isa.name());
                    assert!(bytes.iter().all(|q| q.unsigned_abs() <= 127), "{}: {bytes:?}", isa.name());
                    assert!(words.iter().all(|q| q.unsigned_abs() <= 8191), "{}: {words:?}", isa.name());
                }
            }
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
