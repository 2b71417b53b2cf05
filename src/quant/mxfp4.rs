//! OCP Microscaling FP4: 32 values of 1 sign, 2 exponent and 1 mantissa bit under one power of two.
//! Open Compute Project, "OCP Microscaling Formats (MX) Specification", version 1.0.

use super::block::{Decode, block};
use super::legacy::nibbles;

block! {
    /// `e` is the biased exponent of the shared scale (E8M0); nibbles as in `Q4_0`.
    BlockMxfp4: 17 bytes { e: 1, qs: 16 }
}

/// The sixteen E2M1 numbers, doubled to be integers.
pub const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half of the scale `2^(e - 127)`, because `VALUES` are doubled. `e = 255`, NaN in the specification, is
/// read as one more power of two, as GGML does.
pub fn half_scale(e: u8) -> f32 {
    // Below 2 the half is subnormal.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

impl Decode for BlockMxfp4 {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        let d = half_scale(self.e[0]);
        for (y, q) in y.iter_mut().zip(nibbles(&self.qs)) {
            *y = d * f32::from(VALUES[usize::from(q)]);
        }
    }
}
