//! The elementwise ops on one row: norms, sums, activations, rotary embedding, transposition, arg-max. Each public
//! function checks lengths, then runs the same code for every instruction set.
#![allow(unsafe_code)]

use super::math::{exp, softplus, tanh};
use super::simd::{LANES, Simd};
use super::{Isa, dispatch};
use crate::graph::op::{self, Activation};

/// Computes `x += scale * delta`
pub fn add_scaled(isa: Isa, x: &mut [f32], delta: &[f32], scale: f32) {
    assert_eq!(x.len(), delta.len());
    dispatch!(isa, add_scaled_lanes(x: &mut [f32], delta: &[f32], scale: f32))
}

#[inline(always)]
fn add_scaled_lanes<S: Simd>(s: S, x: &mut [f32], delta: &[f32], scale: f32) {
    zip(s, AddTimes(s.splat(scale)), x, delta);
}

/// Computes `x = x / sqrt(mean(x^2) + eps) * weight`, the weight 1 where absent.
pub fn rms_norm(isa: Isa, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    assert!(weight.is_none_or(|weight| weight.len() == x.len()));
    dispatch!(isa, rms_norm_lanes(x: &mut [f32], weight: Option<&[f32]>, eps: f32))
}

#[inline(always)]
fn rms_norm_lanes<S: Simd>(s: S, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    let mean = sum_of(s, Square, x) / x.len() as f32;
    times_both(s, x, 1.0 / (mean + eps).sqrt(), weight);
}

#[inline(always)]
fn times_both<S: Simd>(s: S, x: &mut [f32], factor: f32, weight: Option<&[f32]>) {
    match weight {
        Some(weight) => zip(s, TimesBoth(s.splat(factor)), x, weight),
        None => map(s, ScaleBy(s.splat(factor)), x),
    }
}

/// Computes `x = (x - mean) / sqrt(var + eps) * weight`, the weight 1 where absent.
pub fn layer_norm(isa: Isa, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    assert!(weight.is_none_or(|weight| weight.len() == x.len()));
    dispatch!(isa, layer_norm_lanes(x: &mut [f32], weight: Option<&[f32]>, eps: f32));
}

#[inline(always)]
fn layer_norm_lanes<S: Simd>(s: S, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    let n = x.len() as f32;
    let mean = sum_of(s, Itself, x) / n;
    // Of the differences, because the mean may be far larger than they are.
    map(s, Plus(s.splat(-mean)), x);
    let variance = sum_of(s, Square, x) / n;
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

/// Computes `x = cap * tanh(scale * x / cap)`
pub fn softcap(isa: Isa, x: &mut [f32], scale: f32, cap: f32) {
    dispatch!(isa, softcap_lanes(x: &mut [f32], scale: f32, cap: f32))
}

#[inline(always)]
fn softcap_lanes<S: Simd>(s: S, x: &mut [f32], scale: f32, cap: f32) {
    map(s, Softcap { inner: s.splat(scale / cap), cap: s.splat(cap) }, x);
}

/// Computes `x = activation(x)`
pub fn activate(isa: Isa, activation: Activation, x: &mut [f32]) {
    dispatch!(isa, activate_lanes(activation: Activation, x: &mut [f32]))
}

#[inline(always)]
fn activate_lanes<S: Simd>(s: S, activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Identity => {}
        Activation::Sigmoid => map(s, Sigmoid, x),
        Activation::Softplus => map(s, Softplus, x),
        Activation::Silu => map(s, Silu, x),
        Activation::Gelu => map(s, Gelu, x),
        Activation::GeluErf => map(s, GeluErf, x),
        Activation::Relu => map(s, Relu, x),
        Activation::Relu2 => map(s, Relu2, x),
        Activation::ClampedSwiglu => map(s, ClampedSwiglu, x),
    }
}

/// Computes `gate = activation(gate) * up`
pub fn glu(isa: Isa, activation: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    dispatch!(isa, glu_lanes(activation: Activation, gate: &mut [f32], up: &[f32]))
}

#[inline(always)]
fn glu_lanes<S: Simd>(s: S, activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Identity => zip(s, Gated(Itself), gate, up),
        Activation::Sigmoid => zip(s, Gated(Sigmoid), gate, up),
        Activation::Softplus => zip(s, Gated(Softplus), gate, up),
        Activation::Silu => zip(s, Gated(Silu), gate, up),
        Activation::Gelu => zip(s, Gated(Gelu), gate, up),
        Activation::GeluErf => zip(s, Gated(GeluErf), gate, up),
        Activation::Relu => zip(s, Gated(Relu), gate, up),
        Activation::Relu2 => zip(s, Gated(Relu2), gate, up),
        Activation::ClampedSwiglu => zip(s, ClampedSwiglu, gate, up),
    }
}

/// Computes `x = x * sigmoid(gate)`, where each value of `gate` is the factor of as many values of `x`.
pub fn gate(isa: Isa, x: &mut [f32], gate: &[f32]) {
    assert!(!gate.is_empty() && x.len().is_multiple_of(gate.len()));
    dispatch!(isa, gate_lanes(x: &mut [f32], gate: &[f32]))
}

#[inline(always)]
fn gate_lanes<S: Simd>(s: S, x: &mut [f32], gate: &[f32]) {
    if x.len() == gate.len() {
        return zip(s, TimesSigmoid, x, gate);
    }
    for (x, gate) in x.chunks_exact_mut(x.len() / gate.len()).zip(gate) {
        let mut factor = [0.0; LANES];
        s.store(times_sigmoid(s, s.splat(1.0), s.splat(*gate)), &mut factor);
        map(s, ScaleBy(s.splat(factor[0])), x);
    }
}

/// Computes `x = x * by`, where each value of `by` is the factor of as many values of `x`.
pub fn multiply_each(isa: Isa, x: &mut [f32], by: &[f32]) {
    assert!(!by.is_empty() && x.len().is_multiple_of(by.len()));
    let each = x.len() / by.len();
    x.chunks_exact_mut(each).zip(by).for_each(|(x, by)| scale(isa, x, *by));
}

/// Computes `x = curve(x)`
pub fn xielu(isa: Isa, x: &mut [f32], curve: op::Xielu) {
    dispatch!(isa, xielu_lanes(x: &mut [f32], curve: op::Xielu))
}

#[inline(always)]
fn xielu_lanes<S: Simd>(s: S, x: &mut [f32], curve: op::Xielu) {
    let op::Xielu { rise, fall, slope, eps } = curve;
    map(s, Xielu { rise: s.splat(rise), fall: s.splat(fall), slope: s.splat(slope), eps: s.splat(eps) }, x);
}

/// Computes `x = min(max(x, -limit), limit)`
pub fn clamp(isa: Isa, x: &mut [f32], limit: f32) {
    dispatch!(isa, clamp_lanes(x: &mut [f32], limit: f32))
}

#[inline(always)]
fn clamp_lanes<S: Simd>(s: S, x: &mut [f32], limit: f32) {
    map(s, Clamp(s.splat(limit)), x);
}

/// Rotates dimension `i` of a head with `i + n`, where `n` is the length of `cos` and `sin`.
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

/// Rotates dimension `2i` of a head with `2i + 1`. `cos` holds each cosine twice, `sin` each sine negated and then as
/// it is.
pub fn rope_adjacent(isa: Isa, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(cos.len() == sin.len() && cos.len() <= head.len() && cos.len().is_multiple_of(2));
    dispatch!(isa, rope_adjacent_lanes(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

#[inline(always)]
fn rope_adjacent_lanes<S: Simd>(s: S, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    for ((x, cos), sin) in head[..n].chunks_mut(LANES).zip(cos.chunks(LANES)).zip(sin.chunks(LANES)) {
        let a = s.load_slice(x);
        let turned = s.add(s.mul(a, s.load_slice(cos)), s.mul(s.swap_neighbours(a), s.load_slice(sin)));
        s.store_slice(turned, x);
    }
}

/// Computes `out[j][i] = rows[i][j]`, `out` being `[n][16]` for rows of n.
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

/// Finds the index of the largest value, the lowest where several are equal; NaN is never the largest. 0 for an empty
/// slice.
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
fn peak_lanes<S: Simd>(s: S, x: &[f32]) -> f32 {
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
    s.max_lane(s.max(s.max(peaks[0], peaks[1]), s.max(peaks[2], peaks[3])))
}

/// A function of one value, in lanes. A trait rather than closures, which would not be compiled for the
/// instruction set of the function around them.
trait Unary<S: Simd>: Copy {
    fn at(self, s: S, x: S::F) -> S::F;
}

/// A function of two values.
trait Binary<S: Simd>: Copy {
    fn at(self, s: S, x: S::F, y: S::F) -> S::F;
}

#[inline(always)]
fn map<S: Simd>(s: S, f: impl Unary<S>, x: &mut [f32]) {
    let (xs, rest) = x.as_chunks_mut();
    for x in xs {
        s.store(f.at(s, s.load(x)), x);
    }
    if !rest.is_empty() {
        s.store_slice(f.at(s, s.load_slice(rest)), rest);
    }
}

#[inline(always)]
fn zip<S: Simd>(s: S, f: impl Binary<S>, x: &mut [f32], y: &[f32]) {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks_mut(), y.as_chunks());
    for (x, y) in xs.iter_mut().zip(ys) {
        s.store(f.at(s, s.load(x), s.load(y)), x);
    }
    if !x_rest.is_empty() {
        s.store_slice(f.at(s, s.load_slice(x_rest), s.load_slice(y_rest)), x_rest);
    }
}

/// The sum of a function that is 0 at 0. Four partial sums hide the latency of the addition.
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
struct Itself;
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
struct ScaleBy<V>(V);
impl<S: Simd> Unary<S> for ScaleBy<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.mul(x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Softcap<V> {
    /// Factor inside the hyperbolic tangent.
    inner: V,
    cap: V,
}
impl<S: Simd> Unary<S> for Softcap<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.mul(self.cap, tanh(s, s.mul(x, self.inner)))
    }
}

#[derive(Clone, Copy)]
struct Sigmoid;
impl<S: Simd> Unary<S> for Sigmoid {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        times_sigmoid(s, s.splat(1.0), x)
    }
}

/// `ln(1 + e^x)`
#[derive(Clone, Copy)]
struct Softplus;
impl<S: Simd> Unary<S> for Softplus {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        softplus(s, x)
    }
}

/// `x * sigmoid(x)`
#[derive(Clone, Copy)]
struct Silu;
impl<S: Simd> Unary<S> for Silu {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        times_sigmoid(s, x, x)
    }
}

/// `x/2 * (1 + tanh(u))` with `u = sqrt(2/pi) * (x + 0.044715 x^3)`, which is `x * sigmoid(2u)`.
#[derive(Clone, Copy)]
struct Gelu;
impl<S: Simd> Unary<S> for Gelu {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        const LINEAR: f32 = 1.595_769; // 2 * sqrt(2/pi)
        const CUBIC: f32 = 0.044_715 * LINEAR;
        let u = s.mul(x, s.fma(s.mul(x, x), s.splat(CUBIC), s.splat(LINEAR)));
        times_sigmoid(s, x, u)
    }
}

/// `x * P(N <= x)` for a standard normal N: Abramowitz and Stegun, formula 7.1.26, absolute error of P below 1e-7.
#[derive(Clone, Copy)]
struct GeluErf;
impl<S: Simd> Unary<S> for GeluErf {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        let zero = s.splat(0.0);
        let distance = s.max(x, s.sub(zero, x));
        let z = s.mul(distance, s.splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = s.div(s.splat(1.0), s.fma(z, s.splat(0.327_591_1), s.splat(1.0)));
        let mut p = s.splat(1.061_405_4);
        for c in [-1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6, 0.0] {
            p = s.fma(p, t, s.splat(c));
        }
        // Probability of lying beyond |x| on one side.
        let tail = s.mul(s.mul(s.splat(0.5), p), exp(s, s.sub(zero, s.mul(z, z))));
        s.sub(s.max(zero, x), s.mul(distance, tail))
    }
}

#[derive(Clone, Copy)]
struct Relu;
impl<S: Simd> Unary<S> for Relu {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.max(s.splat(0.0), x)
    }
}

#[derive(Clone, Copy)]
struct Relu2;
impl<S: Simd> Unary<S> for Relu2 {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        let x = s.max(s.splat(0.0), x);
        s.mul(x, x)
    }
}

/// See `op::Activation`; the constants are those of gpt-oss.
#[derive(Clone, Copy)]
struct ClampedSwiglu;
impl<S: Simd> Binary<S> for ClampedSwiglu {
    #[inline(always)]
    fn at(self, s: S, gate: S::F, up: S::F) -> S::F {
        let g = s.min(gate, s.splat(7.0));
        let u = s.max(s.min(up, s.splat(7.0)), s.splat(-7.0));
        s.mul(times_sigmoid(s, g, s.mul(g, s.splat(1.702))), s.add(u, s.splat(1.0)))
    }
}
impl<S: Simd> Unary<S> for ClampedSwiglu {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        Binary::at(self, s, x, s.splat(0.0))
    }
}

/// `x * sigmoid(gate)`
#[derive(Clone, Copy)]
struct TimesSigmoid;
impl<S: Simd> Binary<S> for TimesSigmoid {
    #[inline(always)]
    fn at(self, s: S, x: S::F, gate: S::F) -> S::F {
        times_sigmoid(s, x, gate)
    }
}

/// See `op::Xielu`.
#[derive(Clone, Copy)]
struct Xielu<V> {
    rise: V,
    fall: V,
    slope: V,
    eps: V,
}
impl<S: Simd> Unary<S> for Xielu<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        let (zero, one) = (s.splat(0.0), s.splat(1.0));
        let (above, below) = (s.max(x, zero), s.min(x, zero));
        let power = s.min(below, self.eps);
        let bent = s.add(exp_beyond_line(s, power), s.sub(power, below));
        // 0 for all but the smallest numbers above 0.
        let is_below = s.sub(one, s.min(one, s.max(zero, s.mul(x, s.splat(1e38)))));
        let fall = s.mul(self.fall, s.mul(bent, is_below));
        s.fma(s.mul(self.rise, above), above, s.fma(self.slope, x, fall))
    }
}

/// Computes `e^x - 1 - x` for `x <= 0`: near 0 by its series, because the difference would lose its digits, beyond that
/// by what is added to the value at -1/2.
#[inline(always)]
fn exp_beyond_line<S: Simd>(s: S, x: S::F) -> S::F {
    let edge = s.splat(-0.5);
    let (near, far) = (s.max(x, edge), s.min(x, edge));
    let mut series = s.splat(1.0 / 40320.0);
    for c in [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        series = s.fma(series, near, s.splat(c));
    }
    let beyond = s.sub(s.sub(exp(s, far), far), s.sub(exp(s, edge), edge));
    s.fma(s.mul(series, near), near, beyond)
}

#[derive(Clone, Copy)]
struct Clamp<V>(V);
impl<S: Simd> Unary<S> for Clamp<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        s.max(s.min(x, self.0), s.sub(s.splat(0.0), self.0))
    }
}

/// Computes `x / (1 + e^-u)`
#[inline(always)]
pub(super) fn times_sigmoid<S: Simd>(s: S, x: S::F, u: S::F) -> S::F {
    s.div(x, s.add(s.splat(1.0), exp(s, s.sub(s.splat(0.0), u))))
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

#[derive(Clone, Copy)]
struct Gated<F>(F);
impl<S: Simd, F: Unary<S>> Binary<S> for Gated<F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F, y: S::F) -> S::F {
        s.mul(self.0.at(s, x), y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::quantize::tests::values;

    const LENGTHS: [usize; 10] = [1, 2, 7, 15, 16, 17, 64, 65, 172, 577];

    /// Checks that `f` is near the oracle on every instruction set and that all have the same bits.
    fn check(expected: &[f64], tolerance: f64, f: impl Fn(Isa) -> Vec<f32>) {
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
        let oracle: [(Activation, &dyn Fn(f64) -> f64); 5] = [
            (Activation::Silu, &|x| x / (1.0 + (-x).exp())),
            (Activation::Gelu, &|x| {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
            }),
            (Activation::GeluErf, &|x| if x < 0.0 { x * tail(-x) } else { x * (1.0 - tail(x)) }),
            (Activation::Relu, &|x| x.max(0.0)),
            (Activation::Relu2, &|x| x.max(0.0).powi(2)),
        ];
        for (activation, f) in oracle {
            let expected: Vec<f64> = x.iter().map(|&x| f(f64::from(x))).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| activate(isa, activation, x)));
            let expected: Vec<f64> = expected.iter().map(|x| x * 0.5).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| glu(isa, activation, x, &up)));
        }
        let up: Vec<f32> = x.iter().map(|x| 0.7 * x - 1.0).collect();
        let clamped = |gate: f32, up: f32| {
            let (g, u) = (f64::from(gate).min(7.0), f64::from(up).clamp(-7.0, 7.0));
            g / (1.0 + (-1.702 * g).exp()) * (u + 1.0)
        };
        let expected: Vec<f64> = x.iter().zip(&up).map(|(&g, &u)| clamped(g, u)).collect();
        check(&expected, 1e-6, |isa| apply(x.clone(), |x| glu(isa, Activation::ClampedSwiglu, x, &up)));
        let expected: Vec<f64> = x.iter().map(|&g| clamped(g, 0.0)).collect();
        check(&expected, 1e-6, |isa| apply(x.clone(), |x| activate(isa, Activation::ClampedSwiglu, x)));
        let expected: Vec<f64> = x.iter().map(|&x| f64::from(x).clamp(-1.5, 1.5)).collect();
        check(&expected, 0.0, |isa| apply(x.clone(), |x| clamp(isa, x, 1.5)));
        for (rise, fall, slope, eps) in [(0.9, 1.1, 0.5, -1e-6), (1.3, 0.4, -0.3, -0.2), (0.0, 2.0, 0.0, 0.0)] {
            let bent = |x: f64| fall * (x.min(eps).exp_m1() - x);
            let curve = |x: f64| slope * x + if x > 0.0 { rise * x * x } else { bent(x) };
            let small: Vec<f32> = x.iter().chain(&[0.0, -0.5, -60.0]).flat_map(|x| [*x, 0.01 * x]).collect();
            let expected: Vec<f64> = small.iter().map(|&x| curve(f64::from(x))).collect();
            let [rise, fall, slope, eps] = [rise, fall, slope, eps].map(|x| x as f32);
            let curve = op::Xielu { rise, fall, slope, eps };
            check(&expected, 1e-6, |isa| apply(small.clone(), |x| xielu(isa, x, curve)));
        }
        let sigmoid = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
        for gates in [x.len(), x.len() / 5, 1] {
            let (gate, each) = (&up[..gates], x.len() / gates);
            let x = &x[..gates * each];
            let expected: Vec<f64> = (0..x.len()).map(|i| f64::from(x[i]) * sigmoid(gate[i / each])).collect();
            check(&expected, 1e-6, |isa| apply(x.to_vec(), |x| self::gate(isa, x, gate)));
            let expected: Vec<f64> = (0..x.len()).map(|i| f64::from(x[i]) * f64::from(gate[i / each])).collect();
            check(&expected, 1e-7, |isa| apply(x.to_vec(), |x| multiply_each(isa, x, gate)));
        }
        let expected: Vec<f64> = x.iter().map(|&x| 30.0 * (f64::from(x) * 2.0 / 30.0).tanh()).collect();
        // The error of the hyperbolic tangent is absolute.
        check(&expected, 30.0 * 2e-7, |isa| apply(x.clone(), |x| softcap(isa, x, 2.0, 30.0)));
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
