//! Quantization to `Q4_K`, `Q5_K` and `Q6_K`, designed for this library. Each sub-block tries a few steps around the
//! one that spans its values and keeps the best least-squares scale (and minimum). Then the block rounds these, fits
//! its own scale to them, and finally rounds the values with the scales as a reader will see them.
//!
//! Errors are weighted by `rms + |x|`: large weights matter more than their number suggests.

use half::f16;

use super::block::Encode;
use super::k::{BlockQ4K, BlockQ5K, BlockQ6K, pack_scale_min};

/// Bound of values that every block can represent: a minimum is at most the largest f16 times 63, rounded down.
const LIMIT: f32 = 4e6;

/// Differences that the trials add to the number of steps in the range of a sub-block.
const TRIALS: [f32; 7] = [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9];

impl Encode for BlockQ4K {
    fn encode(x: &[f32]) -> Self {
        let Affine { d, dmin, scales, q } = affine(x, 15.0);
        let nibbles = |i: usize| q[i / 32 * 2][i % 32] | q[i / 32 * 2 + 1][i % 32] << 4;
        BlockQ4K { d, dmin, scales, qs: std::array::from_fn(nibbles) }
    }
}

impl Encode for BlockQ5K {
    fn encode(x: &[f32]) -> Self {
        let Affine { d, dmin, scales, q } = affine(x, 31.0);
        let nibbles = |i: usize| q[i / 32 * 2][i % 32] & 15 | q[i / 32 * 2 + 1][i % 32] << 4;
        let fifths = |i: usize| q.iter().rev().fold(0, |bits, q| bits << 1 | q[i] >> 4);
        BlockQ5K { d, dmin, scales, qh: std::array::from_fn(fifths), qs: std::array::from_fn(nibbles) }
    }
}

impl Encode for BlockQ6K {
    fn encode(x: &[f32]) -> Self {
        let x: [[f32; 16]; 16] = sub_blocks(x);
        let w = x.map(|x| weights(&x));
        let fitted: [f32; 16] = std::array::from_fn(|n| fit_scale(&x[n], &w[n]));
        let d = to_f16(signed_peak(&fitted) / -128.0);
        let sc = fitted.map(|s| round(quotient(s, d).clamp(-128.0, 127.0)));

        let quantized =
            |d: f32| -> [[f32; 16]; 16] { std::array::from_fn(|n| signed_steps(&x[n], quotient(1.0, d * sc[n]))) };
        let q = quantized(d);
        let (mut qx, mut qq) = (0.0, 0.0);
        for n in 0..16 {
            qx += sc[n] * sum::<16>(|i| w[n][i] * q[n][i] * x[n][i]);
            qq += sc[n] * sc[n] * sum::<16>(|i| w[n][i] * q[n][i] * q[n][i]);
        }
        let d = to_f16(quotient(qx, qq));

        let q = quantized(d).map(|q| q.map(|q| (q + 32.0) as u8));
        let q = |half: usize, i: usize| q.as_flattened()[128 * half + i];
        BlockQ6K {
            ql: std::array::from_fn(|i| q(i / 64, i % 64) & 15 | q(i / 64, i % 64 + 64) << 4),
            qh: std::array::from_fn(|i| (0..4).fold(0, |bits, n| bits | q(i / 32, i % 32 + 32 * n) >> 4 << (2 * n))),
            scales: sc.map(|s| s as i8 as u8),
            d: f16::from_f32(d).to_le_bytes(),
        }
    }
}

/// A block of `Q4_K` or `Q5_K` before its values are packed.
struct Affine {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
    q: [[u8; 32]; 8],
}

/// `q` in `0..=max`.
fn affine(x: &[f32], max: f32) -> Affine {
    let x: [[f32; 32]; 8] = sub_blocks(x);
    let w = x.map(|x| weights(&x));
    let fitted: [(f32, f32); 8] = std::array::from_fn(|n| fit_scale_min(&x[n], &w[n], max));
    let d = to_f16(fitted.iter().fold(0.0f32, |m, f| m.max(f.0)) / 63.0);
    let dmin = to_f16(fitted.iter().fold(0.0f32, |m, f| m.max(f.1)) / 63.0);
    let sc = fitted.map(|f| round(quotient(f.0, d).min(63.0)));
    let m = fitted.map(|f| round(quotient(f.1, dmin).min(63.0)));

    let quantized = |d: f32, dmin: f32| -> [[f32; 32]; 8] {
        std::array::from_fn(|n| steps(&x[n], quotient(1.0, d * sc[n]), dmin * m[n], max))
    };
    let q = quantized(d, dmin);
    // Least squares in d and dmin: x = d * (sc * q) - dmin * m
    let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for n in 0..8 {
        aa += sc[n] * sc[n] * sum::<32>(|i| w[n][i] * q[n][i] * q[n][i]);
        ab -= sc[n] * m[n] * sum::<32>(|i| w[n][i] * q[n][i]);
        bb += m[n] * m[n] * sum::<32>(|i| w[n][i]);
        ax += sc[n] * sum::<32>(|i| w[n][i] * q[n][i] * x[n][i]);
        bx -= m[n] * sum::<32>(|i| w[n][i] * x[n][i]);
    }
    let det = aa * bb - ab * ab;
    let (d, dmin) = if det > 1e-4 * aa * bb {
        (to_f16((ax * bb - bx * ab) / det), to_f16((bx * aa - ax * ab) / det))
    } else {
        (d, dmin)
    };
    let q = quantized(d, dmin);
    Affine {
        d: f16::from_f32(d).to_le_bytes(),
        dmin: f16::from_f32(dmin).to_le_bytes(),
        scales: pack_scale_min(&sc.map(|s| s as u8), &m.map(|m| m as u8)),
        q: q.map(|q| q.map(|q| q as u8)),
    }
}

/// Returns the scale and minimum, both nonnegative, with small weighted error in `x = scale * q - min` for `q` in
/// `0..=max`.
fn fit_scale_min(x: &[f32; 32], w: &[f32; 32], max: f32) -> (f32, f32) {
    let (low, high) = x.iter().fold((0.0f32, 0.0f32), |(l, h), &x| (l.min(x), h.max(x)));
    let mut best = ((high - low) / max, -low);
    let mut least = f32::INFINITY;
    let (sw, sx) = (sum::<32>(|i| w[i]), sum::<32>(|i| w[i] * x[i]));
    for trial in TRIALS {
        let q = steps(x, quotient(max + trial, high - low), -low, max);
        let (sq, sqq) = (sum::<32>(|i| w[i] * q[i]), sum::<32>(|i| w[i] * q[i] * q[i]));
        let sqx = sum::<32>(|i| w[i] * q[i] * x[i]);
        // The best minimum, unless all q are about equal; then the best scale for it.
        let det = sw * sqq - sq * sq;
        let min = if det > 1e-4 * sw * sqq { (sq * sqx - sqq * sx) / det } else { -low }.max(0.0);
        let scale = quotient(sqx + min * sq, sqq);
        let error = sum::<32>(|i| w[i] * (scale * q[i] - min - x[i]).powi(2));
        if error < least && scale >= 0.0 {
            (best, least) = ((scale, min), error);
        }
    }
    best
}

/// Signed scale with small weighted error in `x = scale * q` for `q` in `-32..=31`.
fn fit_scale(x: &[f32; 16], w: &[f32; 16]) -> f32 {
    let peak = signed_peak(x);
    let mut best = 0.0;
    let mut most = 0.0;
    for trial in TRIALS {
        let q = signed_steps(x, quotient(-32.0 - trial, peak));
        let (qx, qq) = (sum::<16>(|i| w[i] * q[i] * x[i]), sum::<16>(|i| w[i] * q[i] * q[i]));
        // The error is sum(w x^2) - qx^2 / qq.
        let gain = quotient(qx * qx, qq);
        if gain > most {
            (best, most) = (qx / qq, gain);
        }
    }
    best
}

fn steps(x: &[f32; 32], inverse: f32, min: f32, max: f32) -> [f32; 32] {
    x.map(|x| round(((x + min) * inverse).clamp(0.0, max)))
}

fn signed_steps(x: &[f32; 16], inverse: f32) -> [f32; 16] {
    x.map(|x| round((x * inverse).clamp(-32.0, 31.0)))
}

fn sub_blocks<const LEN: usize, const N: usize>(x: &[f32]) -> [[f32; LEN]; N] {
    let bounded = |x: f32| if x.is_nan() { 0.0 } else { x.clamp(-LIMIT, LIMIT) };
    std::array::from_fn(|n| std::array::from_fn(|i| bounded(x[n * LEN + i])))
}

fn weights<const N: usize>(x: &[f32; N]) -> [f32; N] {
    let rms = (sum::<N>(|i| x[i] * x[i]) / N as f32).sqrt();
    x.map(|x| rms + x.abs())
}

fn signed_peak(x: &[f32]) -> f32 {
    x.iter().fold(0.0f32, |peak, &x| if x.abs() > peak.abs() { x } else { peak })
}

fn to_f16(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

/// `a / b`, 0 if that is NaN or infinite.
fn quotient(a: f32, b: f32) -> f32 {
    let q = a / b;
    if q.is_finite() { q } else { 0.0 }
}

/// Rounds to the nearest integer, ties to even, for `|x| < 2^22`: an addition shifts the fraction out of the mantissa.
/// The compiler can vectorize this for every CPU, `f32::round_ties_even` only for some.
fn round(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23
    x + SHIFT - SHIFT
}

/// Returns the sum over `0..N` in eight lanes, so that the compiler can vectorize it.
fn sum<const N: usize>(f: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; 8];
    for i in (0..N).step_by(8) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            *lane += f(i + l);
        }
    }
    lanes.iter().sum()
}
