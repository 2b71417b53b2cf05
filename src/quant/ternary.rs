//! Values of -1, 0 and 1, of -1 and 1, or of -1 to 2, with one scale per 64 to 256 of them.

use super::block::{Decode, block};
use super::float::scale;

block! {
    /// Base 3: `qs` has five digits per byte, `qh` four. A byte is the number times `256 / 243`, rounded up, so that
    /// the leading digit is the carry of a multiplication by 3.
    BlockTq1_0: 54 bytes { qs: 48, qh: 4, d: 2 }
}
block! {
    /// Base 4, in runs of 128 values: byte `i` has value `i + 32 * n` in its bits `2n` and `2n + 1`.
    BlockTq2_0: 66 bytes { qs: 64, d: 2 }
}
block! {
    /// `BlockTq1_0` with half as many values.
    BlockPtq1_0: 28 bytes { qs: 24, qh: 2, d: 2 }
}
block! {
    /// `y = d` if the value's bit is set, otherwise `-d`; bit `i % 8` of byte `i / 8` is value `i`'s.
    BlockQ1_0: 18 bytes { d: 2, qs: 16 }
}
block! {
    /// `y = d * (q - 1)`; byte `i` has the values `4 i ..`, the first in its lowest two bits.
    BlockQ2_0: 18 bytes { d: 2, qs: 16 }
}
block! {
    /// `BlockQ2_0` with twice as many values.
    BlockPq2_0: 34 bytes { d: 2, qs: 32 }
}

/// Decodes runs of bytes with the given number of digits each: digit 0 of every byte of a run, then digit 1, and so on.
fn decode_trits(d: [u8; 2], runs: [(&[u8], u32); 3], y: &mut [f32]) {
    let (d, mut y) = (scale(d), y.iter_mut());
    for (bytes, digits) in runs {
        for n in 0..digits {
            for (b, y) in bytes.iter().zip(&mut y) {
                let fraction = b.wrapping_mul(3u8.pow(n));
                let digit = (u16::from(fraction) * 3) >> 8;
                *y = d * (f32::from(digit) - 1.0);
            }
        }
    }
}

impl Decode for BlockTq1_0 {
    fn decode(&self, y: &mut [f32]) {
        let (first, second) = self.qs.split_at(32);
        decode_trits(self.d, [(first, 5), (second, 5), (&self.qh, 4)], y);
    }
}

impl Decode for BlockPtq1_0 {
    const LEN: usize = 128;

    fn decode(&self, y: &mut [f32]) {
        let (first, second) = self.qs.split_at(16);
        decode_trits(self.d, [(first, 5), (second, 5), (&self.qh, 4)], y);
    }
}

impl Decode for BlockQ1_0 {
    const LEN: usize = 128;

    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (i, y) in y.iter_mut().enumerate() {
            *y = if self.qs[i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
        }
    }
}

fn decode_pairs(d: [u8; 2], qs: &[u8], y: &mut [f32]) {
    let d = scale(d);
    for (i, y) in y.iter_mut().enumerate() {
        *y = d * (f32::from(qs[i / 4] >> (2 * (i % 4)) & 3) - 1.0);
    }
}

impl Decode for BlockQ2_0 {
    const LEN: usize = 64;

    fn decode(&self, y: &mut [f32]) {
        decode_pairs(self.d, &self.qs, y);
    }
}

impl Decode for BlockPq2_0 {
    const LEN: usize = 128;

    fn decode(&self, y: &mut [f32]) {
        decode_pairs(self.d, &self.qs, y);
    }
}

impl Decode for BlockTq2_0 {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (y, qs) in y.chunks_exact_mut(128).zip(self.qs.chunks_exact(32)) {
            for (n, y) in y.chunks_exact_mut(32).enumerate() {
                for (y, q) in y.iter_mut().zip(qs) {
                    *y = d * (f32::from(q >> (2 * n) & 3) - 1.0);
                }
            }
        }
    }
}
