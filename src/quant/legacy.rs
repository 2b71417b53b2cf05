//! Blocks of 32 values with one scale: `Q4_0` and `Q5_0` are symmetric, `Q4_1` and `Q5_1` add a minimum, `Q8_0` has
//! signed bytes. In the 4-bit part byte `i` has value `i` in its low and value `i + 16` in its high nibble; the fifth
//! bit of value `i` is bit `i` of `qh`.
//!
//! Quantization is bit-identical to the `gguf` package for finite values. Values whose scale exceeds FP16 dequantize to
//! infinities, NaN to any value.

use super::block::{Decode, Encode, block};
use super::float::{scale, scale_bytes};

block! {
    /// `y = d * (q - 8)`
    BlockQ4_0: 18 bytes { d: 2, qs: 16 }
}
block! {
    /// `y = d * q + m`
    BlockQ4_1: 20 bytes { d: 2, m: 2, qs: 16 }
}
block! {
    /// `y = d * (q - 16)`
    BlockQ5_0: 22 bytes { d: 2, qh: 4, qs: 16 }
}
block! {
    /// `y = d * q + m`
    BlockQ5_1: 24 bytes { d: 2, m: 2, qh: 4, qs: 16 }
}
block! {
    /// `y = d * q`, `q` signed
    BlockQ8_0: 34 bytes { d: 2, qs: 32 }
}

impl Decode for BlockQ4_0 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (y, q) in y.iter_mut().zip(nibbles(&self.qs)) {
            *y = d * (f32::from(q) - 8.0);
        }
    }
}

impl Encode for BlockQ4_0 {
    fn encode(x: &[f32]) -> Self {
        let (d, q) = symmetric(x, 8.0);
        BlockQ4_0 { d: scale_bytes(d), qs: pack(&q).0 }
    }
}

impl Decode for BlockQ4_1 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let (d, m) = (scale(self.d), scale(self.m));
        for (y, q) in y.iter_mut().zip(nibbles(&self.qs)) {
            *y = d * f32::from(q) + m;
        }
    }
}

impl Encode for BlockQ4_1 {
    fn encode(x: &[f32]) -> Self {
        let (d, m, q) = affine(x, 15.0);
        BlockQ4_1 { d: scale_bytes(d), m: scale_bytes(m), qs: pack(&q).0 }
    }
}

impl Decode for BlockQ5_0 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (y, q) in y.iter_mut().zip(five_bits(&self.qs, self.qh)) {
            *y = d * (f32::from(q) - 16.0);
        }
    }
}

impl Encode for BlockQ5_0 {
    fn encode(x: &[f32]) -> Self {
        let (d, q) = symmetric(x, 16.0);
        let (qs, qh) = pack(&q);
        BlockQ5_0 { d: scale_bytes(d), qh, qs }
    }
}

impl Decode for BlockQ5_1 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let (d, m) = (scale(self.d), scale(self.m));
        for (y, q) in y.iter_mut().zip(five_bits(&self.qs, self.qh)) {
            *y = d * f32::from(q) + m;
        }
    }
}

impl Encode for BlockQ5_1 {
    fn encode(x: &[f32]) -> Self {
        let (d, m, q) = affine(x, 31.0);
        let (qs, qh) = pack(&q);
        BlockQ5_1 { d: scale_bytes(d), m: scale_bytes(m), qh, qs }
    }
}

impl Decode for BlockQ8_0 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (y, q) in y.iter_mut().zip(self.qs) {
            *y = f32::from(q as i8) * d;
        }
    }
}

impl Encode for BlockQ8_0 {
    fn encode(x: &[f32]) -> Self {
        let d = x.iter().fold(0.0, |m: f32, x| m.max(x.abs())) / 127.0;
        let inverse = inverse(d);
        let mut qs = [0; 32];
        for (q, x) in qs.iter_mut().zip(x) {
            *q = (x * inverse).round() as i8 as u8;
        }
        BlockQ8_0 { d: scale_bytes(d), qs }
    }
}

/// All low nibbles, then all high ones.
pub(super) fn nibbles(qs: &[u8]) -> impl Iterator<Item = u8> {
    qs.iter().map(|b| b & 15).chain(qs.iter().map(|b| b >> 4))
}

fn five_bits(qs: &[u8; 16], qh: [u8; 4]) -> impl Iterator<Item = u8> {
    let qh = u32::from_le_bytes(qh);
    nibbles(qs).zip(0..).map(move |(q, i)| q | ((qh >> i & 1) as u8) << 4)
}

/// The inverse of `nibbles` and `five_bits`.
fn pack(q: &[u8; 32]) -> ([u8; 16], [u8; 4]) {
    let mut qs = [0; 16];
    let (low, high) = q.split_at(16);
    for ((b, l), h) in qs.iter_mut().zip(low).zip(high) {
        *b = l & 15 | h << 4;
    }
    let qh = q.iter().zip(0..).fold(0, |bits, (q, i)| bits | u32::from(q >> 4 & 1) << i);
    (qs, qh.to_le_bytes())
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Returns the scale and `q` in `0..2 * half` with `x = d * (q - half)`. The (first) value of largest magnitude becomes
/// `q = 0` whatever its sign, to use the longer end of the range.
fn symmetric(x: &[f32], half: f32) -> (f32, [u8; 32]) {
    let peak = x.iter().fold(0.0f32, |peak, &x| if x.abs() > peak.abs() { x } else { peak });
    let d = peak / -half;
    let inverse = inverse(d);
    let mut q = [0; 32];
    for (q, x) in q.iter_mut().zip(x) {
        *q = (x * inverse + (half + 0.5)).min(2.0 * half - 1.0) as u8;
    }
    (d, q)
}

/// Returns the scale, minimum and `q` in `0..=max` with `x = d * q + m`.
fn affine(x: &[f32], max: f32) -> (f32, f32, [u8; 32]) {
    let (low, high) = x.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
    let d = (high - low) / max;
    let inverse = inverse(d);
    let mut q = [0; 32];
    for (q, x) in q.iter_mut().zip(x) {
        *q = ((x - low) * inverse + 0.5).min(max) as u8;
    }
    (d, low, q)
}
