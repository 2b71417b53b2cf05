//! Quantized activations: owns how a token's values are rounded and laid out before the product with quantized weights.
//!
//! Columns are split into groups of 32. Within each group the tokens follow one another; each token has its integers in
//! the order of the columns, followed by the fields of `offset`.
#![allow(unsafe_code)]

use super::simd::{GROUP, LANES, Simd};

/// Byte offsets of the factors after the integers of a token.
pub mod offset {
    /// f32: scale of the integers.
    pub const SCALE: usize = 32;
    /// i32: -64 times the sum of the integers, for weights that are stored with a zero point.
    pub const ZERO: usize = 36;
    /// f32: scale times sum, the factor of the weights' mins.
    pub const MIN: usize = 40;
    /// `ZERO` of both halves of the group. If `SUMS_OF_16_BITS`, two i16 per half instead: -4 times the sums of the
    /// first and the last two integers of every four.
    pub const ZERO_HALVES: usize = 44;
    /// `MIN` of both halves of the group.
    pub const MIN_HALVES: usize = 52;
    /// `SCALE` after 16-bit integers, which have no other factor.
    pub const SCALE_I16: usize = 64;
}

/// The type of activations in products with a format's weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputType {
    /// 8 bits, for block formats.
    I8,
    /// 14 bits in 16, for weights of 16-bit and 8-bit floats.
    I16,
    /// BF16, columns `k` and `k + 16` of a group paired, for all weights of BF16 products.
    Bf16,
}

impl InputType {
    /// Returns the size of a token in a group in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            InputType::I8 => 60,
            InputType::I16 => 68,
            InputType::Bf16 => 64,
        }
    }

    /// Returns the offset of the scale, which BF16 does not have.
    pub const fn scale(self) -> usize {
        match self {
            InputType::I8 => offset::SCALE,
            InputType::I16 | InputType::Bf16 => offset::SCALE_I16,
        }
    }

    /// Returns the number of weight vectors of a row panel in a group.
    pub const fn registers(self) -> usize {
        match self {
            InputType::I8 => 8,
            InputType::I16 | InputType::Bf16 => 16,
        }
    }
}

/// Factor of the sums of activations that correct for zero points: the 7-bit zero point, the largest.
pub const ZERO_STEP: i32 = 64;

/// The same for 16-bit sums: the 3-bit zero point, the smallest.
pub const PAIR_ZERO_STEP: i16 = 4;

/// Largest 16-bit integer: 32 products of two of them stay below 2^31.
const I16_MAX: f32 = 8191.0;

/// Quantizes the values of token `t` of `n` adjacent tokens: per 32 values, `scale = max |x| / 127` and `q = round(x /
/// scale)`, ties to even. An infinity or NaN makes the products of its group infinite or NaN. Writes the factors of the
/// halves of groups only if `halves`.
#[inline(always)]
pub fn quantize_i8<S: Simd>(s: S, x: &[f32], out: &mut [u8], n: usize, t: usize, halves: bool) {
    assert!(t < n);
    let bytes = const { InputType::I8.bytes() };
    for (x, out) in x.as_chunks::<GROUP>().0.iter().zip(out.chunks_exact_mut(bytes * n)) {
        // SAFETY: 32 values.
        let (a, b) = unsafe { (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(LANES))) };
        let (scale, inverse) = scale_and_inverse(s.max_abs(a, b), 127.0);
        let inverse = s.splat(inverse);
        let (words, sums) = s.pack_bytes(s.to_i32(s.mul(a, inverse)), s.to_i32(s.mul(b, inverse)));
        let out = &mut out[bytes * t..][..bytes];
        // SAFETY: the first 32 of at least 60 bytes.
        unsafe { out.as_mut_ptr().cast::<[u32; 8]>().write_unaligned(words) }
        let mut put = |at: usize, value: [u8; 4]| out[at..at + 4].copy_from_slice(&value);
        put(offset::SCALE, scale.to_ne_bytes());
        let sum = sums[0] + sums[1];
        put(offset::ZERO, (-ZERO_STEP * sum).to_ne_bytes());
        put(offset::MIN, (scale * sum as f32).to_ne_bytes());
        for (half, &sum) in sums.iter().enumerate().take(if halves { 2 } else { 0 }) {
            let zero = match S::SUMS_OF_16_BITS {
                true => pair_sums(&words[4 * half..4 * half + 4]),
                false => -ZERO_STEP * sum,
            };
            put(offset::ZERO_HALVES + 4 * half, zero.to_ne_bytes());
            put(offset::MIN_HALVES + 4 * half, (scale * sum as f32).to_ne_bytes());
        }
    }
}

/// Returns the zero-point factors of a half of a group for 16-bit sums, the first in the low half.
#[inline(always)]
fn pair_sums(words: &[u32]) -> i32 {
    let mut sums = [0i16; 2];
    for word in words {
        let [a, b, c, d] = word.to_le_bytes().map(|byte| i16::from(byte as i8));
        sums = [sums[0] + a + b, sums[1] + c + d];
    }
    let [first, last] = sums.map(|sum| i32::from(-PAIR_ZERO_STEP * sum));
    first & 0xffff | last << 16
}

/// Quantizes as `quantize_i8`, with `scale = max |x| / 8191`.
#[inline(always)]
pub fn quantize_i16<S: Simd>(s: S, x: &[f32], out: &mut [u8], n: usize, t: usize) {
    assert!(t < n);
    let bytes = const { InputType::I16.bytes() };
    for (x, out) in x.as_chunks::<GROUP>().0.iter().zip(out.chunks_exact_mut(bytes * n)) {
        // SAFETY: 32 values.
        let (a, b) = unsafe { (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(LANES))) };
        let (scale, inverse) = scale_and_inverse(s.max_abs(a, b), I16_MAX);
        let inverse = s.splat(inverse);
        let mut q = [0i32; GROUP];
        // SAFETY: 64 bytes twice.
        unsafe {
            s.store_bytes(q.as_mut_ptr().cast(), s.to_i32(s.mul(a, inverse)));
            s.store_bytes(q.as_mut_ptr().add(LANES).cast(), s.to_i32(s.mul(b, inverse)));
        }
        let out = &mut out[bytes * t..][..bytes];
        for (pair, q) in out.as_chunks_mut::<2>().0.iter_mut().zip(q) {
            *pair = (q as i16).to_ne_bytes();
        }
        out[offset::SCALE_I16..].copy_from_slice(&scale.to_ne_bytes());
    }
}

/// Returns the scale of integers of at most `most` for values of at most `max`, and its inverse.
#[inline(always)]
fn scale_and_inverse(max: f32, most: f32) -> (f32, f32) {
    // The inverse of such a small maximum could overflow, and the group is negligible compared to other values.
    if max < 1e-30 { (0.0, 0.0) } else { (max * (1.0 / most), most / max) }
}
