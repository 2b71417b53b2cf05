//! The K types: blocks of 256 values in sub-blocks of 16 or 32, each with a scale, itself quantized under a scale of
//! the block (`d`). `Q2_K`, `Q4_K`, `Q5_K` add a minimum per sub-block, quantized likewise (`dmin`).

use super::block::{Decode, block};
use super::float::scale;

block! {
    /// `y = d * sc * q - dmin * m`; sub-blocks of 16, each a byte of `scales` with `sc` in its low and `m` in its high
    /// nibble. Byte `i` of 32 has two bits of values `i + 32 * n` of a run of 128.
    BlockQ2K: 84 bytes { scales: 16, qs: 64, d: 2, dmin: 2 }
}
block! {
    /// `y = d * (sc - 32) * (q - 4)`; sub-blocks of 16. `q` has its low two bits in `qs` as in `Q2_K`; bit `n` of byte
    /// `i` of `hmask` is the third bit of value `i + 32 * n`.
    BlockQ3K: 110 bytes { hmask: 32, qs: 64, scales: 12, d: 2 }
}
block! {
    /// `y = d * sc * q - dmin * m`; sub-blocks of 32, two per 32 bytes of `qs`: low nibbles, then high ones.
    BlockQ4K: 144 bytes { d: 2, dmin: 2, scales: 12, qs: 128 }
}
block! {
    /// `Q4_K` with a fifth bit: bit `n` of byte `i` of `qh` belongs to value `i` of sub-block `n`.
    BlockQ5K: 176 bytes { d: 2, dmin: 2, scales: 12, qh: 32, qs: 128 }
}
block! {
    /// `y = d * sc * (q - 32)`, `sc` signed; sub-blocks of 16. In each half of 128 values, 64 bytes of `ql` have the
    /// low four bits of values `i` and `i + 64`, 32 bytes of `qh` two more of values `i + 32 * n`.
    BlockQ6K: 210 bytes { ql: 128, qh: 64, scales: 16, d: 2 }
}

impl Decode for BlockQ2K {
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (scale(self.d), scale(self.dmin));
        for (n, (y, s)) in y.chunks_exact_mut(16).zip(self.scales).enumerate() {
            let (d, m) = (d * f32::from(s & 15), dmin * f32::from(s >> 4));
            for (y, q) in y.iter_mut().zip(two_bits(&self.qs, n)) {
                *y = d * f32::from(q) - m;
            }
        }
    }
}

impl Decode for BlockQ3K {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        let (low, high) = self.scales.split_at(8);
        for (n, y) in y.chunks_exact_mut(16).enumerate() {
            let s = low[n % 8] >> (4 * (n / 8)) & 15 | (high[n % 4] >> (2 * (n / 4)) & 3) << 4;
            let d = d * (f32::from(s) - 32.0);
            let thirds = self.hmask[n % 2 * 16..].iter().map(|h| h >> (n / 2) & 1);
            for ((y, q), third) in y.iter_mut().zip(two_bits(&self.qs, n)).zip(thirds) {
                *y = d * (f32::from(q | third << 2) - 4.0);
            }
        }
    }
}

impl Decode for BlockQ4K {
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (scale(self.d), scale(self.dmin));
        for (n, y) in y.chunks_exact_mut(32).enumerate() {
            let (sc, m) = scale_min(&self.scales, n);
            let (d, m) = (d * f32::from(sc), dmin * f32::from(m));
            for (y, q) in y.iter_mut().zip(&self.qs[n / 2 * 32..]) {
                *y = d * f32::from(q >> (4 * (n % 2)) & 15) - m;
            }
        }
    }
}

impl Decode for BlockQ5K {
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (scale(self.d), scale(self.dmin));
        for (n, y) in y.chunks_exact_mut(32).enumerate() {
            let (sc, m) = scale_min(&self.scales, n);
            let (d, m) = (d * f32::from(sc), dmin * f32::from(m));
            for ((y, q), h) in y.iter_mut().zip(&self.qs[n / 2 * 32..]).zip(self.qh) {
                *y = d * f32::from(q >> (4 * (n % 2)) & 15 | (h >> n & 1) << 4) - m;
            }
        }
    }
}

impl Decode for BlockQ6K {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (n, (y, s)) in y.chunks_exact_mut(16).zip(self.scales).enumerate() {
            let d = d * f32::from(s as i8);
            let (half, n) = (n / 8, n % 8);
            let low = self.ql[half * 64 + n % 4 * 16..].iter().map(|q| q >> (4 * (n / 4)) & 15);
            let high = self.qh[half * 32 + n % 2 * 16..].iter().map(|q| q >> (2 * (n / 2)) & 3);
            for ((y, l), h) in y.iter_mut().zip(low).zip(high) {
                *y = d * (f32::from(l | h << 4) - 32.0);
            }
        }
    }
}

/// Returns the 2-bit values of sub-block `n` of 16, as stored by `Q2_K` and `Q3_K`.
fn two_bits(qs: &[u8; 64], n: usize) -> impl Iterator<Item = u8> {
    let (half, n) = (n / 8, n % 8);
    qs[half * 32 + n % 2 * 16..].iter().map(move |q| q >> (2 * (n / 2)) & 3)
}

/// Returns the scale and minimum of sub-block `n` of `Q4_K` and `Q5_K`, 6 bits each: of the first four sub-blocks in
/// the low bits of bytes 0-3 and 4-7; of the last four with their low nibbles in bytes 8-11 and their upper two bits
/// above the former.
fn scale_min(scales: &[u8; 12], n: usize) -> (u8, u8) {
    if n < 4 {
        (scales[n] & 63, scales[n + 4] & 63)
    } else {
        (scales[n + 4] & 15 | scales[n - 4] >> 6 << 4, scales[n + 4] >> 4 | scales[n] >> 6 << 4)
    }
}

/// The inverse of `scale_min`; scales and minima must be below 64.
pub(super) fn pack_scale_min(sc: &[u8; 8], m: &[u8; 8]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..4 => sc[i] | sc[i + 4] >> 4 << 6,
        4..8 => m[i - 4] | m[i] >> 4 << 6,
        _ => sc[i - 4] & 15 | m[i - 4] << 4,
    })
}
