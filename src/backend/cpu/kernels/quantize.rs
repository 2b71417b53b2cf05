//! Rounding of rows to integers with scales, for the key-value cache and for attention. Owns the types whose scale is the
//! largest magnitude over the largest integer; activations of matrix products are in `activations`.
#![allow(unsafe_code)]

use super::kv_storage::BLOCK;
use super::simd::{LANES, Simd};
use super::{Isa, dispatch};
use crate::error::{Result, try_filled};

/// Quantizes at most 32 values with one scale: `x = scale * quant`, integers within -127..=127. Returns the scale.
pub fn quantize_i8(isa: Isa, x: &[f32], quants: &mut [i8]) -> f32 {
    assert_eq!(x.len(), quants.len());
    dispatch!(isa, quantize_i8_lanes(x: &[f32], quants: &mut [i8]) -> f32)
}

#[inline(always)]
fn quantize_i8_lanes<S: Simd>(s: S, x: &[f32], quants: &mut [i8]) -> f32 {
    let (scale, inverse) = scale_for(s, x, 127.0);
    for (x, quants) in x.chunks(LANES).zip(quants.chunks_mut(LANES)) {
        let mut bytes = [0; LANES];
        s.store_i8(quants_of(s, s.load_slice(x), inverse, 127.0), &mut bytes);
        quants.copy_from_slice(&bytes[..quants.len()]);
    }
    scale
}

/// Quantizes values with one scale: `x = scale * quant`, integers within `-I16_PEAK..=I16_PEAK`. Returns the scale. Values beyond
/// 2^40, infinities and NaN become finite.
pub fn quantize_i16(isa: Isa, x: &[f32], quants: &mut [i16]) -> f32 {
    assert_eq!(x.len(), quants.len());
    dispatch!(isa, quantize_i16_lanes(x: &[f32], quants: &mut [i16]) -> f32)
}

#[inline(always)]
pub(super) fn quantize_i16_lanes<S: Simd>(s: S, x: &[f32], quants: &mut [i16]) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, quants) in x.chunks(LANES).zip(quants.chunks_mut(LANES)) {
        let q = quants_of(s, s.load_slice(x), inverse, I16_PEAK);
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

/// Quantizes as `quantize_i16` to half `side` of each pair, in the byte order of the machine; the other half is kept.
pub fn quantize_i16_beside(isa: Isa, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    assert!(x.len() <= pairs.len() && side < 2);
    dispatch!(isa, quantize_i16_beside_lanes(x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32)
}

#[inline(always)]
fn quantize_i16_beside_lanes<S: Simd>(s: S, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, pairs) in x.chunks(LANES).zip(pairs.chunks_mut(LANES)) {
        let mut words = [0; LANES];
        s.store_i16(quants_of(s, s.load_slice(x), inverse, I16_PEAK), &mut words);
        for (pair, q) in pairs.iter_mut().zip(&words[..x.len()]) {
            pair[2 * side..][..2].copy_from_slice(&q.to_ne_bytes());
        }
    }
    scale
}

/// Largest integer of 16 bits with which the sum of 32 products stays within an i32.
pub const I16_PEAK: f32 = 8191.0;

/// Computes the scale with which the largest of some values becomes the integer `peak`, and its inverse, or 0 where that
/// would overflow.
#[inline(always)]
fn scale_for<S: Simd>(s: S, x: &[f32], peak: f32) -> (f32, f32) {
    /// So that neither products of scales overflow nor stale entries of a cache times a weight of zero are not zero.
    const LARGEST: f32 = (1u64 << 40) as f32;
    let mut largest = s.splat(0.0);
    for x in x.chunks(LANES) {
        let v = s.load_slice(x);
        // The operand that may be NaN stands first, where it is dropped.
        largest = s.max(s.max(v, s.sub(s.splat(0.0), v)), largest);
    }
    let scale = s.max_lane(largest).min(LARGEST) / peak;
    (scale, if scale > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 })
}

/// Computes `x * inverse`, within `-peak..=peak`.
#[inline(always)]
fn quants_of<S: Simd>(s: S, x: S::F, inverse: f32, peak: f32) -> S::F {
    // The operand that may be NaN stands first, where it is dropped.
    s.min(s.max(s.mul(x, s.splat(inverse)), s.splat(-peak)), s.splat(peak))
}

/// Rows of 16-bit integers; each 32 of a row share a scale.
pub struct QuantizedRows {
    /// `[blocks][rows]`
    pub(super) quants: Vec<[i16; BLOCK]>,
    /// `[blocks][rows]`
    pub(super) scales: Vec<f32>,
}

impl QuantizedRows {
    /// Allocates `rows` rows of `len` numbers.
    pub fn new(rows: usize, len: usize) -> Result<QuantizedRows> {
        let n = rows * len.div_ceil(BLOCK);
        Ok(QuantizedRows {
            quants: try_filled("attention scratch", n, [0; BLOCK])?,
            scales: try_filled("attention scratch", n, 0.0)?,
        })
    }
}

/// Quantizes `factor * x`, where `x` is `[n, d]`, to rows `first..first + n` of `rows`.
pub fn quantize_rows(isa: Isa, x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut QuantizedRows) {
    assert!(first + x.len() / d <= rows && rows * d.div_ceil(BLOCK) <= out.scales.len());
    dispatch!(
        isa,
        quantize_rows_lanes(x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut QuantizedRows)
    )
}

#[inline(always)]
fn quantize_rows_lanes<S: Simd>(
    s: S,
    x: &[f32],
    d: usize,
    factor: f32,
    first: usize,
    rows: usize,
    out: &mut QuantizedRows,
) {
    for (r, x) in x.chunks_exact(d).enumerate() {
        let (whole, rest) = x.as_chunks::<BLOCK>();
        for (block, x) in whole.iter().enumerate() {
            let i = block * rows + first + r;
            out.scales[i] = factor * quantize_i16_lanes(s, x, &mut out.quants[i]);
        }
        if !rest.is_empty() {
            let i = whole.len() * rows + first + r;
            out.scales[i] = factor * quantize_i16_lanes(s, rest, &mut out.quants[i][..rest.len()]);
            out.quants[i][rest.len()..].fill(0);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reproducible values around 0, most of them small.
    pub fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let unit = (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
                unit * unit * unit * 40.0
            })
            .collect()
    }

    #[test]
    fn conversions_for_the_cache() {
        for isa in Isa::available() {
            for n in [1, 8, 16, 17, 32, 80] {
                let x = values(n, n as u64);
                let peak = x.iter().fold(0f32, |m, x| m.max(x.abs()));
                let mut bytes = vec![0i8; n];
                let mut words = vec![0i16; n];
                let scales = [quantize_i8(isa, &x, &mut bytes), quantize_i16(isa, &x, &mut words)];
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
            assert_eq!(quantize_i8(isa, &[0.0; 20], &mut quants), 0.0);
            assert_eq!(quants, [0; 20]);
            let mut quants = [1i16; 20];
            assert_eq!(quantize_i16(isa, &[0.0; 20], &mut quants), 0.0);
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
                    assert!(quantize_i8(isa, &x[..n], &mut bytes) <= 1e10, "{}", isa.name());
                    assert!(quantize_i16(isa, &x[..n], &mut words) <= 1e9, "{}", isa.name());
                    assert!(bytes.iter().all(|q| q.unsigned_abs() <= 127), "{}: {bytes:?}", isa.name());
                    assert!(words.iter().all(|q| q.unsigned_abs() <= 8191), "{}: {words:?}", isa.name());
                }
            }
        }
    }
}
