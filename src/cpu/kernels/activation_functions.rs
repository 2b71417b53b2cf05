//! The activation functions on one row, ungated and as gates. Each public function checks lengths, then runs the same
//! code for every instruction set.
#![allow(unsafe_code)]

use super::elementwise::{Binary, Itself, ScaleBy, Unary, map, zip};
use super::math::{exp, softplus, tanh};
use super::simd::{LANES, Simd};
use super::{Isa, dispatch};
use crate::graph::op::{self, Activation};

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
        Activation::SignedRoot => map(s, SignedRoot, x),
        Activation::Softplus => map(s, Softplus, x),
        Activation::Tanh => map(s, Tanh, x),
        Activation::Silu => map(s, Silu, x),
        Activation::Gelu => map(s, Gelu, x),
        Activation::GeluErf => map(s, GeluErf, x),
        Activation::QuickGelu => map(s, QuickGelu, x),
        Activation::Relu => map(s, Relu, x),
        Activation::Relu2 => map(s, Relu2, x),
        Activation::ClampedSwiglu => map(s, Clamped::gpt_oss(s), x),
        Activation::SwigluOfClamped(limit) => map(s, Clamped::before(s, limit), x),
        Activation::SwigluThenClamped(limit) => map(s, Clamped::after(s, limit), x),
        Activation::TanhSwiglu(limits) => map(s, TanhSwiglu::new(s, limits), x),
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
        Activation::SignedRoot => zip(s, Gated(SignedRoot), gate, up),
        Activation::Softplus => zip(s, Gated(Softplus), gate, up),
        Activation::Tanh => zip(s, Gated(Tanh), gate, up),
        Activation::Silu => zip(s, Gated(Silu), gate, up),
        Activation::Gelu => zip(s, Gated(Gelu), gate, up),
        Activation::GeluErf => zip(s, Gated(GeluErf), gate, up),
        Activation::QuickGelu => zip(s, Gated(QuickGelu), gate, up),
        Activation::Relu => zip(s, Gated(Relu), gate, up),
        Activation::Relu2 => zip(s, Gated(Relu2), gate, up),
        Activation::ClampedSwiglu => zip(s, Clamped::gpt_oss(s), gate, up),
        Activation::SwigluOfClamped(limit) => zip(s, Clamped::before(s, limit), gate, up),
        Activation::SwigluThenClamped(limit) => zip(s, Clamped::after(s, limit), gate, up),
        Activation::TanhSwiglu(limits) => zip(s, TanhSwiglu::new(s, limits), gate, up),
    }
}

/// Computes `x = x * sigmoid(gate)`; each value of `gate` applies to `x.len() / gate.len()` values of `x`.
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

/// Computes `x = curve(x)`
pub fn xielu(isa: Isa, x: &mut [f32], curve: op::Xielu) {
    dispatch!(isa, xielu_lanes(x: &mut [f32], curve: op::Xielu))
}

#[inline(always)]
fn xielu_lanes<S: Simd>(s: S, x: &mut [f32], curve: op::Xielu) {
    let op::Xielu { rise, fall, slope, eps } = curve;
    map(s, Xielu { rise: s.splat(rise), fall: s.splat(fall), slope: s.splat(slope), eps: s.splat(eps) }, x);
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

/// See `Activation::SignedRoot`. Scalar code per lane: `Simd` has no square root.
#[derive(Clone, Copy)]
struct SignedRoot;
impl<S: Simd> Unary<S> for SignedRoot {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        let mut lanes = [0.0; LANES];
        s.store(x, &mut lanes);
        for x in &mut lanes {
            let size = if x.abs() < 1e-6 { 1e-6 } else { x.abs() };
            *x = if *x == 0.0 { 0.0 } else { size.sqrt().copysign(*x) };
        }
        s.load(&lanes)
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

#[derive(Clone, Copy)]
struct Tanh;
impl<S: Simd> Unary<S> for Tanh {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        tanh(s, x)
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
        // One-sided tail probability at |x|.
        let tail = s.mul(s.mul(s.splat(0.5), p), exp(s, s.sub(zero, s.mul(z, z))));
        s.sub(s.max(zero, x), s.mul(distance, tail))
    }
}

/// `x * sigmoid(1.702 x)`
#[derive(Clone, Copy)]
struct QuickGelu;
impl<S: Simd> Unary<S> for QuickGelu {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        times_sigmoid(s, x, s.mul(x, s.splat(1.702)))
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

/// Gates with limits: `min(g * sigmoid(slope * g), most) * (min(max(up, -limit), limit) + shift)` for `g = min(gate,
/// highest)`.
#[derive(Clone, Copy)]
struct Clamped<V> {
    highest: V,
    most: V,
    limit: V,
    slope: V,
    shift: V,
    /// Value of `up` for an activation without a gate.
    no_up: V,
}
impl<V: Copy> Clamped<V> {
    #[inline(always)]
    fn new<S: Simd<F = V>>(s: S, limits: [f32; 3], slope: f32, shift: f32, no_up: f32) -> Self {
        let [highest, most, limit] = limits.map(|x| s.splat(x));
        Clamped { highest, most, limit, slope: s.splat(slope), shift: s.splat(shift), no_up: s.splat(no_up) }
    }

    #[inline(always)]
    fn gpt_oss<S: Simd<F = V>>(s: S) -> Self {
        Clamped::new(s, [7.0, f32::INFINITY, 7.0], 1.702, 1.0, 0.0)
    }

    #[inline(always)]
    fn before<S: Simd<F = V>>(s: S, limit: f32) -> Self {
        Clamped::new(s, [limit, f32::INFINITY, limit], 1.0, 0.0, 1.0)
    }

    #[inline(always)]
    fn after<S: Simd<F = V>>(s: S, limit: f32) -> Self {
        Clamped::new(s, [f32::INFINITY, limit, limit], 1.0, 0.0, 1.0)
    }
}
impl<S: Simd> Binary<S> for Clamped<S::F> {
    #[inline(always)]
    fn at(self, s: S, gate: S::F, up: S::F) -> S::F {
        // The operand that may be NaN comes last, so that NaN is kept.
        let g = s.min(self.highest, gate);
        let u = s.max(s.sub(s.splat(0.0), self.limit), s.min(self.limit, up));
        let g = s.min(self.most, times_sigmoid(s, g, s.mul(g, self.slope)));
        s.mul(g, s.add(u, self.shift))
    }
}
impl<S: Simd> Unary<S> for Clamped<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        Binary::at(self, s, x, self.no_up)
    }
}

/// See `Activation::TanhSwiglu`.
#[derive(Clone, Copy)]
struct TanhSwiglu<V> {
    most: V,
    /// Limit of `|up|`; `None`: unlimited.
    limit: Option<V>,
}
impl<V: Copy> TanhSwiglu<V> {
    #[inline(always)]
    fn new<S: Simd<F = V>>(s: S, [most, limit]: [f32; 2]) -> Self {
        TanhSwiglu { most: s.splat(most), limit: (limit > 0.0).then(|| s.splat(limit)) }
    }

    #[inline(always)]
    fn bounded<S: Simd<F = V>>(s: S, x: V, limit: V) -> V {
        s.mul(limit, tanh(s, s.div(x, limit)))
    }
}
impl<S: Simd> Binary<S> for TanhSwiglu<S::F> {
    #[inline(always)]
    fn at(self, s: S, gate: S::F, up: S::F) -> S::F {
        let up = match self.limit {
            Some(limit) => Self::bounded(s, up, limit),
            None => up,
        };
        s.mul(times_sigmoid(s, Self::bounded(s, gate, self.most), gate), up)
    }
}
impl<S: Simd> Unary<S> for TanhSwiglu<S::F> {
    #[inline(always)]
    fn at(self, s: S, x: S::F) -> S::F {
        Binary::at(self, s, x, s.splat(1.0))
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
        // 1 for x <= 0, and 0 for x > 0 except the smallest numbers.
        let is_below = s.sub(one, s.min(one, s.max(zero, s.mul(x, s.splat(1e38)))));
        let fall = s.mul(self.fall, s.mul(bent, is_below));
        s.fma(s.mul(self.rise, above), above, s.fma(self.slope, x, fall))
    }
}

/// Returns `e^x - 1 - x` for `x <= 0`. Near 0 by its series, because the difference would cancel; further from 0 by the
/// difference from the value at -1/2.
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

/// Computes `x / (1 + e^-u)`
#[inline(always)]
pub(super) fn times_sigmoid<S: Simd>(s: S, x: S::F, u: S::F) -> S::F {
    s.div(x, s.add(s.splat(1.0), exp(s, s.sub(s.splat(0.0), u))))
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
    use crate::cpu::kernels::elementwise::tests::{apply, check};
    use crate::cpu::kernels::elementwise::{clamp, multiply_each};

    #[test]
    fn activations() {
        let mut x: Vec<f32> = (-4000..=4000).map(|i| i as f32 * 0.01).collect();
        x.extend([-1000.0, 1000.0, 0.0, -0.0]);
        let up = vec![0.5f32; x.len()];
        // The complementary error function by its integral, with Simpson's rule.
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
        let oracle: [(Activation, &dyn Fn(f64) -> f64); 8] = [
            (Activation::SignedRoot, &|x| if x == 0.0 { 0.0 } else { x.signum() * x.abs().max(1e-6).sqrt() }),
            (Activation::Tanh, &f64::tanh),
            (Activation::Silu, &|x| x / (1.0 + (-x).exp())),
            (Activation::Gelu, &|x| {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
            }),
            (Activation::GeluErf, &|x| if x < 0.0 { x * tail(-x) } else { x * (1.0 - tail(x)) }),
            (Activation::QuickGelu, &|x| x / (1.0 + (-1.702 * x).exp())),
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
        let silu = |x: f64| x / (1.0 + (-x).exp());
        let gpt_oss = |g: f64, u: f64| g.min(7.0) / (1.0 + (-1.702 * g.min(7.0)).exp()) * (u.clamp(-7.0, 7.0) + 1.0);
        type Gate<'a> = &'a dyn Fn(f64, f64) -> f64;
        let clamped: [(Activation, f64, Gate); 4] = [
            (Activation::ClampedSwiglu, 0.0, &gpt_oss),
            (Activation::SwigluOfClamped(0.7), 1.0, &|g, u| silu(g.min(0.7)) * u.clamp(-0.7, 0.7)),
            (Activation::TanhSwiglu([1.5, 0.6]), 1.0, &|g, u| {
                1.5 * (g / 1.5).tanh() / (1.0 + (-g).exp()) * 0.6 * (u / 0.6).tanh()
            }),
            (Activation::SwigluThenClamped(1.5), 1.0, &|g, u| silu(g).min(1.5) * u.clamp(-1.5, 1.5)),
        ];
        for (activation, no_up, f) in clamped {
            // Limits are 32-bit floats.
            let expected: Vec<f64> = x.iter().zip(&up).map(|(&g, &u)| f(f64::from(g), f64::from(u))).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| glu(isa, activation, x, &up)));
            let expected: Vec<f64> = x.iter().map(|&g| f(f64::from(g), no_up)).collect();
            check(&expected, 1e-6, |isa| apply(x.clone(), |x| activate(isa, activation, x)));
        }
        let expected: Vec<f64> = x.iter().map(|&x| f64::from(x).clamp(-1.5, 0.25)).collect();
        check(&expected, 0.0, |isa| apply(x.clone(), |x| clamp(isa, x, -1.5, 0.25)));
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
        // The error of tanh is absolute.
        check(&expected, 30.0 * 2e-7, |isa| apply(x.clone(), |x| softcap(isa, x, 2.0, 30.0)));
    }
}
