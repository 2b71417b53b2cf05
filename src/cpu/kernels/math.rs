//! Transcendental functions of sixteen lanes, built only from operations of `Simd`, so that all instruction sets are
//! bit-identical.

use super::simd::Simd;

/// Returns `2^x` for x up to 127, within 1 ulp if the result is normal, 0 below.
#[inline(always)]
pub fn exp2<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.max(s.splat(-127.0), x);
    let n = s.round(x);
    s.scale_by_power(exp2_fraction(s, s.sub(x, n)), n)
}

/// Returns `e^x`, within 2 ulp if the result is normal; 0 below, `e^88` above.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // log2(e) in two parts, so that the fraction keeps its precision for large x.
    const HIGH: f32 = std::f32::consts::LOG2_E;
    const LOW: f32 = 1.925_963e-8;
    let x = s.min(s.splat(88.0), s.max(s.splat(-88.0), x));
    let high = s.splat(HIGH);
    let n = s.round(s.mul(x, high));
    let fraction = s.fma(x, s.splat(LOW), s.fma(x, high, s.sub(s.splat(0.0), n)));
    s.scale_by_power(exp2_fraction(s, fraction), n)
}

/// Returns `2^f` for |f| <= 1/2 by the polynomial of degree 6 with the least relative error (2e-9) among those that are
/// exact at 0.
#[inline(always)]
fn exp2_fraction<S: Simd>(s: S, f: S::F) -> S::F {
    let mut p = s.splat(1.535_336_2e-4);
    for c in [1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, std::f32::consts::LN_2, 1.0] {
        p = s.fma(p, f, s.splat(c));
    }
    p
}

/// Returns `tanh(x)` with an absolute error below 2e-7.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let e = exp(s, s.add(x, x));
    s.sub(one, s.div(s.splat(2.0), s.add(e, one)))
}

/// Returns `ln(1 + e^x)`, within 4 ulp if `e^x` is normal.
#[inline(always)]
pub fn softplus<S: Simd>(s: S, x: S::F) -> S::F {
    let zero = s.splat(0.0);
    // max(x, 0) + ln(1 + u) with u = e^-|x|, and ln(1 + u) = 2 artanh(u / (2 + u)), whose argument is at most 1/3.
    let u = exp(s, s.min(x, s.sub(zero, x)));
    let z = s.div(u, s.add(s.splat(2.0), u));
    let square = s.mul(z, z);
    let mut p = s.splat(2.0 / 17.0);
    for n in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = s.fma(p, square, s.splat(2.0 / n));
    }
    s.fma(p, z, s.max(zero, x))
}

#[cfg(test)]
mod tests {
    use super::super::simd::LANES;
    use super::super::{Isa, dispatch};
    use super::*;

    #[test]
    fn softplus_is_near_the_logarithm() {
        fn body<S: Simd>(s: S, x: &[f32; LANES], out: &mut [f32; LANES]) {
            s.store(softplus(s, s.load(x)), out);
        }
        for isa in Isa::available() {
            for i in -40_000..40_000 {
                let x = i as f32 * (80.0 / 40_000.0);
                let (input, out) = (&[x; LANES], &mut [0.0; LANES]);
                dispatch!(isa, body(input: &[f32; LANES], out: &mut [f32; LANES]));
                let expected = f64::from(x).max(0.0) + (-f64::from(x).abs()).exp().ln_1p();
                let error = (f64::from(out[5]) - expected).abs() / expected;
                assert!(error <= 4.0 * 2f64.powi(-23), "{}: softplus({x}) = {}, not {expected}", isa.name(), out[5]);
            }
        }
    }

    #[test]
    fn exponentials_are_within_two_units_in_the_last_place() {
        fn both<S: Simd>(s: S, x: &[f32; LANES], out: &mut [[f32; LANES]; 2]) {
            s.store(exp2(s, s.load(x)), &mut out[0]);
            s.store(exp(s, s.load(x)), &mut out[1]);
        }
        for isa in Isa::available() {
            for i in -50_000..50_000 {
                let x = i as f32 * (87.0 / 50_000.0);
                let out = &mut [[0.0; LANES]; 2];
                let input = &[x; LANES];
                dispatch!(isa, both(input: &[f32; LANES], out: &mut [[f32; LANES]; 2]));
                for (got, expected) in [(out[0][3], f64::from(x).exp2()), (out[1][3], f64::from(x).exp())] {
                    if expected < f64::from(f32::MIN_POSITIVE) {
                        assert!(f64::from(got) <= 2.0 * f64::from(f32::MIN_POSITIVE));
                        continue;
                    }
                    let error = (f64::from(got) - expected).abs() / expected;
                    assert!(error <= 2.0 * 2f64.powi(-23), "{}: f({x}) = {got}, not {expected}", isa.name());
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
}
