//! Quantization of rows for the KV cache and for attention. `activations` quantizes the activations of matrix products.
#![allow(unsafe_code)]

use half::bf16;

use super::simd::{LANES, Simd};
use super::{Isa, dispatch};
use crate::cpu::kernels::attention::kv_storage::BLOCK;
use crate::error::{Result, try_filled};

/// Quantizes at most 32 values with one scale: `x = scale * code`; codes are integers within -127..=127 in two's
/// complement. Returns the bits of the scale, a bf16.
pub fn quantize_to_bytes(isa: Isa, x: &[f32], codes: &mut [u8]) -> u16 {
    assert!(x.len() <= BLOCK && x.len() == codes.len());
    dispatch!(isa, quantize_to_bytes_lanes(x: &[f32], codes: &mut [u8]) -> u16)
}

#[inline(always)]
fn quantize_to_bytes_lanes<S: Simd>(s: S, x: &[f32], codes: &mut [u8]) -> u16 {
    let scale = bf16::from_f32(peak_of(s, x) / I8_PEAK);
    let inverse = inverse_of(scale.to_f32());
    for (x, codes) in x.chunks(LANES).zip(codes.chunks_mut(LANES)) {
        let mut bytes = [0; LANES];
        s.store_i8(quants_of(s, s.load_slice(x), inverse, -I8_PEAK, I8_PEAK), &mut bytes);
        codes.iter_mut().zip(bytes).for_each(|(code, byte)| *code = byte as u8);
    }
    scale.to_bits()
}

/// Candidate scales for 4 bits, relative to the scale that makes the largest magnitude -8. If that magnitude is an
/// outlier, a smaller scale rounds the other values better.
const FACTORS: [f32; 6] = [1.0, 0.95, 0.9, 0.85, -1.1, 1.05];

/// Quantizes at most 32 values with the scale of `FACTORS` that has the least sum of squared errors: `x = scale * (code
/// - 8)`, codes below 16. Returns the bits of the scale, a bf16, which may be negative.
pub fn quantize_to_nibbles(isa: Isa, x: &[f32], codes: &mut [u8]) -> u16 {
    assert!(x.len() <= BLOCK && x.len() == codes.len());
    dispatch!(isa, quantize_to_nibbles_lanes(x: &[f32], codes: &mut [u8]) -> u16)
}

#[inline(always)]
fn quantize_to_nibbles_lanes<S: Simd>(s: S, x: &[f32], codes: &mut [u8]) -> u16 {
    let (low, high) = x.split_at(x.len().min(LANES));
    let (low, high) = (s.load_slice(low), s.load_slice(high));
    let peak = peak_of(s, x);
    let zero = s.splat(0.0);
    let is_negative = s.max_lane(s.max(s.max(low, zero), s.max(high, zero))) < peak;
    let (mut best, mut least) = (bf16::ZERO, f32::INFINITY);
    for factor in FACTORS {
        let scale = bf16::from_f32(peak * if is_negative { factor / 8.0 } else { factor / -8.0 });
        let inverse = inverse_of(scale.to_f32());
        let mut errors = s.splat(0.0);
        for x in [low, high] {
            let quants = s.round(quants_of(s, x, inverse, -8.0, 7.0));
            let error = s.fma(quants, s.splat(-scale.to_f32()), x);
            errors = s.fma(error, error, errors);
        }
        let error = s.sum(errors);
        // Takes the first scale if all errors are NaN.
        if error < least || best == bf16::ZERO {
            (best, least) = (scale, error);
        }
    }
    let inverse = inverse_of(best.to_f32());
    for (x, codes) in [low, high].into_iter().zip(codes.chunks_mut(LANES)) {
        let mut bytes = [0; LANES];
        s.store_i8(quants_of(s, x, inverse, -8.0, 7.0), &mut bytes);
        codes.iter_mut().zip(bytes).for_each(|(code, byte)| *code = (byte + 8) as u8);
    }
    best.to_bits()
}

/// Quantizes values with one scale: `x = scale * quant`, integers within `-I16_PEAK..=I16_PEAK`. Returns the scale.
/// Values beyond 2^40, infinities and NaN become finite.
pub fn quantize_i16(isa: Isa, x: &[f32], quants: &mut [i16]) -> f32 {
    assert_eq!(x.len(), quants.len());
    dispatch!(isa, quantize_i16_lanes(x: &[f32], quants: &mut [i16]) -> f32)
}

#[inline(always)]
pub(super) fn quantize_i16_lanes<S: Simd>(s: S, x: &[f32], quants: &mut [i16]) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, quants) in x.chunks(LANES).zip(quants.chunks_mut(LANES)) {
        let q = quants_of(s, s.load_slice(x), inverse, -I16_PEAK, I16_PEAK);
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

/// Quantizes as `quantize_i16` to half `side` of each pair, in native byte order; the other half is unchanged.
pub fn quantize_i16_interleaved(isa: Isa, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    assert!(x.len() <= pairs.len() && side < 2);
    dispatch!(isa, quantize_i16_interleaved_lanes(x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32)
}

#[inline(always)]
fn quantize_i16_interleaved_lanes<S: Simd>(s: S, x: &[f32], pairs: &mut [[u8; 4]], side: usize) -> f32 {
    let (scale, inverse) = scale_for(s, x, I16_PEAK);
    for (x, pairs) in x.chunks(LANES).zip(pairs.chunks_mut(LANES)) {
        let mut words = [0; LANES];
        s.store_i16(quants_of(s, s.load_slice(x), inverse, -I16_PEAK, I16_PEAK), &mut words);
        for (pair, q) in pairs.iter_mut().zip(&words[..x.len()]) {
            pair[2 * side..][..2].copy_from_slice(&q.to_ne_bytes());
        }
    }
    scale
}

/// Largest 8-bit integer.
pub const I8_PEAK: f32 = 127.0;

/// Largest 16-bit integer for which a sum of 32 products fits an i32.
pub const I16_PEAK: f32 = 8191.0;

/// Returns the scale with which the largest magnitude becomes the integer `peak`, and its inverse, or 0 if the inverse
/// would overflow.
#[inline(always)]
fn scale_for<S: Simd>(s: S, x: &[f32], peak: f32) -> (f32, f32) {
    let scale = peak_of(s, x) / peak;
    (scale, inverse_of(scale))
}

/// Returns `1 / scale`, or 0 on overflow.
fn inverse_of(scale: f32) -> f32 {
    if scale.abs() > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 }
}

/// Returns the largest magnitude, at most 2^40. The limit keeps products of scales finite, so that stale cache entries
/// times a weight of zero are zero.
#[inline(always)]
fn peak_of<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut largest = s.splat(0.0);
    for x in x.chunks(LANES) {
        let v = s.load_slice(x);
        // The operand that may be NaN comes first, so that NaN is dropped.
        largest = s.max(s.max(v, s.sub(s.splat(0.0), v)), largest);
    }
    s.max_lane(largest).min((1u64 << 40) as f32)
}

/// Returns `x * inverse`, clamped to `least..=most`.
#[inline(always)]
fn quants_of<S: Simd>(s: S, x: S::F, inverse: f32, least: f32, most: f32) -> S::F {
    // The operand that may be NaN comes first, so that NaN is dropped.
    s.min(s.max(s.mul(x, s.splat(inverse)), s.splat(least)), s.splat(most))
}

/// Rows of 16-bit integers; every 32 integers of a row share a scale.
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

/// Quantizes `factor * x`, with `x` of shape `[n, d]`, to rows `first..first + n` of `rows`.
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

/// Rows of 8-bit integers; every 32 integers of a row share a scale.
pub struct QuantizedBytes {
    /// `[blocks][rows]`, four integers in the bytes of each word.
    pub(super) quants: Vec<[i32; BLOCK / 4]>,
    /// `[blocks][rows]`
    pub(super) scales: Vec<f32>,
    /// `[blocks][rows]`, sums of the integers.
    pub(super) sums: Vec<i32>,
}

impl QuantizedBytes {
    /// Allocates `rows` rows of `len` numbers.
    pub fn new(rows: usize, len: usize) -> Result<QuantizedBytes> {
        let n = rows * len.div_ceil(BLOCK);
        Ok(QuantizedBytes {
            quants: try_filled("attention scratch", n, [0; BLOCK / 4])?,
            scales: try_filled("attention scratch", n, 0.0)?,
            sums: try_filled("attention scratch", n, 0)?,
        })
    }

    /// Borrows `n` blocks from block `first` on.
    #[inline(always)]
    pub(super) fn rows(&mut self, first: usize, n: usize) -> BytesMut<'_> {
        let range = first..first + n;
        let (scales, sums) = (&mut self.scales[range.clone()], &mut self.sums[range.clone()]);
        BytesMut { quants: &mut self.quants[range], scales, sums }
    }
}

/// Some blocks of 8-bit integers.
pub(super) struct BytesMut<'a> {
    quants: &'a mut [[i32; BLOCK / 4]],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
}

impl BytesMut<'_> {
    /// Stores block `i` from `x`, with largest magnitude `peak` and without NaN; also its sum if `SUM`.
    #[inline(always)]
    pub(super) fn set<S: Simd, const SUM: bool>(&mut self, s: S, i: usize, x: [S::F; BLOCK / LANES], peak: f32) {
        let scale = peak * (1.0 / I8_PEAK);
        let inverse = s.splat(inverse_of(scale));
        let (words, sums) = s.pack_bytes(s.to_i32(s.mul(x[0], inverse)), s.to_i32(s.mul(x[1], inverse)));
        self.quants[i] = words.map(|word| word as i32);
        self.scales[i] = scale;
        if SUM {
            self.sums[i] = sums[0] + sums[1];
        }
    }
}

/// As `quantize_rows`, to 8 bits.
pub fn quantize_bytes(isa: Isa, x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut QuantizedBytes) {
    assert!(first + x.len() / d <= rows && rows * d.div_ceil(BLOCK) <= out.scales.len());
    dispatch!(
        isa,
        quantize_bytes_lanes(x: &[f32], d: usize, factor: f32, first: usize, rows: usize, out: &mut QuantizedBytes)
    )
}

#[inline(always)]
fn quantize_bytes_lanes<S: Simd>(
    s: S,
    x: &[f32],
    d: usize,
    factor: f32,
    first: usize,
    rows: usize,
    out: &mut QuantizedBytes,
) {
    for (r, x) in x.chunks_exact(d).enumerate() {
        for (block, x) in x.chunks(BLOCK).enumerate() {
            let (low, high) = x.split_at(x.len().min(LANES));
            let (peak, i) = (peak_of(s, x), block * rows + first + r);
            // Values beyond the peak and NaN are clamped.
            let low = quants_of(s, s.load_slice(low), 1.0, -peak, peak);
            let high = quants_of(s, s.load_slice(high), 1.0, -peak, peak);
            out.rows(i, 1).set::<S, true>(s, 0, [low, high], peak);
            out.scales[i] *= factor;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns reproducible values around 0, most of them small.
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
                let mut words = vec![0i16; n];
                let scale = quantize_i16(isa, &x, &mut words);
                assert!((scale - peak / I16_PEAK).abs() <= 1e-6 * scale);
                for (&x, q) in x.iter().zip(words) {
                    let error = (x - scale * f32::from(q)).abs();
                    assert!(error <= 0.502 * scale, "{}: {x} became {q}", isa.name());
                }
            }
            let mut quants = [1i16; 20];
            assert_eq!(quantize_i16(isa, &[0.0; 20], &mut quants), 0.0);
            assert_eq!(quants, [0; 20]);
        }
    }

    /// Returns the values of 8-bit or 4-bit codes, and their scale.
    fn decoded(isa: Isa, bits: u32, x: &[f32]) -> (Vec<f32>, f32) {
        let mut codes = vec![0xff; x.len()];
        if bits == 8 {
            let scale = bf16::from_bits(quantize_to_bytes(isa, x, &mut codes)).to_f32();
            (codes.iter().map(|&code| scale * f32::from(code as i8)).collect(), scale)
        } else {
            let scale = bf16::from_bits(quantize_to_nibbles(isa, x, &mut codes)).to_f32();
            assert!(codes.iter().all(|&code| code < 16));
            (codes.iter().map(|&code| scale * (f32::from(code) - 8.0)).collect(), scale)
        }
    }

    #[test]
    fn bytes_and_nibbles() {
        for (bits, n) in [8, 4].into_iter().flat_map(|bits| [1, 8, 16, 17, 32].map(|n| (bits, n))) {
            let x = values(n, n as u64);
            let peak = x.iter().fold(0f32, |m, x| m.max(x.abs()));
            let all: Vec<_> = Isa::available().into_iter().map(|isa| decoded(isa, bits, &x)).collect();
            assert!(all.iter().all(|one| *one == all[0]), "{bits} bits, {n} numbers");
            let error = |y: &[f32]| x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
            // Rounding with the scale of the largest magnitude, as GGUF's types do.
            let signed = x.iter().fold(0f32, |m, &x| if x.abs() > m.abs() { x } else { m });
            let scale = bf16::from_f32(if bits == 8 { peak / 127.0 } else { signed / -8.0 }).to_f32();
            let (least, most) = if bits == 8 { (-127.0, 127.0) } else { (-8.0, 7.0) };
            let plain: Vec<f32> = x.iter().map(|x| scale * (x / scale).round_ties_even().clamp(least, most)).collect();
            assert!(error(&all[0].0) <= 1.0001 * error(&plain), "{bits} bits, {n} numbers");
        }
        for isa in Isa::available() {
            for bits in [8, 4] {
                assert_eq!(decoded(isa, bits, &[0.0; 20]).0, [0.0; 20]);
            }
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
                    let mut words = vec![0; n];
                    assert!(quantize_i16(isa, &x[..n], &mut words) <= 1e9, "{}", isa.name());
                    assert!(words.iter().all(|q| q.unsigned_abs() <= 8191), "{}: {words:?}", isa.name());
                    for bits in [8, 4] {
                        let (y, scale) = decoded(isa, bits, &x[..n]);
                        assert!(scale.abs() <= 2e11 && y.iter().all(|y| y.is_finite()), "{}: {y:?}", isa.name());
                    }
                }
            }
        }
    }
}
