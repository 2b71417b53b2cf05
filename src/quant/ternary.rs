//! Values of -1, 0 and 1 with one scale for 256 of them.

use super::block::{Decode, block};
use super::float::scale;

block! {
    /// Base 3: `qs` holds five digits a byte, `qh` four. A byte is the number times `256 / 243`, rounded up, so that
    /// the leading digit is the carry of a multiplication by 3.
    BlockTq1_0: 54 bytes { qs: 48, qh: 4, d: 2 }
}
block! {
    /// Base 4, in runs of 128 values: byte `i` holds value `i + 32 * n` in its bits `2n` and `2n + 1`.
    BlockTq2_0: 66 bytes { qs: 64, d: 2 }
}

impl Decode for BlockTq1_0 {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        let (first, second) = self.qs.split_at(32);
        let mut y = y.iter_mut();
        for (bytes, digits) in [(first, 5), (second, 5), (&self.qh, 4)] {
            for n in 0..digits {
                for (b, y) in bytes.iter().zip(&mut y) {
                    let fraction = b.wrapping_mul(3u8.pow(n));
                    let digit = (u16::from(fraction) * 3) >> 8;
                    *y = d * (f32::from(digit) - 1.0);
                }
            }
        }
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
