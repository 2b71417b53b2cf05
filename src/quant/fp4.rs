//! 4-bit floats: 1 sign, 2 exponent and 1 mantissa bit (E2M1). MXFP4 has 32 values per power-of-two scale (Open Compute
//! Project, "OCP Microscaling Formats (MX) Specification", version 1.0), NVFP4 16 values per 8-bit float scale, and a
//! scale per matrix in a tensor of its own.

use super::block::{Decode, block};
use super::float::scale;
use super::legacy::nibbles;

block! {
    /// `e` is the biased exponent of the shared scale (E8M0); nibbles as in `Q4_0`.
    BlockMxfp4: 17 bytes { e: 1, qs: 16 }
}

block! {
    /// Byte `k` of `s` is the scale of values `16 k ..`, whose nibbles are in bytes `8 k ..` of `qs`: the first eight
    /// values low, the others high.
    BlockNvfp4: 36 bytes { s: 4, qs: 32 }
}

/// The sixteen E2M1 numbers, doubled to be integers.
pub const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `VALUES` with a zero point of 16.
pub const RAISED: [i8; 16] = {
    let (mut raised, mut i) = (VALUES, 0);
    while i < 16 {
        raised[i] += 16;
        i += 1;
    }
    raised
};

/// Returns half of the scale `2^(e - 127)`, because `VALUES` are doubled. `e = 255`, NaN in the specification, is the
/// next power of two, as in GGML.
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

/// Returns an unsigned E4M3 scale as FP16, 2^8 times smaller. 0x7F, NaN in E4M3, is 0, as in GGML.
pub fn small_scale(s: u8) -> u16 {
    if s == 0x7f { 0 } else { u16::from(s & 0x7f) << 7 }
}

impl Decode for BlockNvfp4 {
    const LEN: usize = 64;

    fn decode(&self, y: &mut [f32]) {
        for ((y, qs), &s) in y.chunks_exact_mut(16).zip(self.qs.chunks_exact(8)).zip(&self.s) {
            // Half of the scale, because `VALUES` are doubled.
            let d = 128.0 * scale(small_scale(s).to_le_bytes());
            for (y, q) in y.iter_mut().zip(nibbles(qs)) {
                *y = d * f32::from(VALUES[usize::from(q)]);
            }
        }
    }
}
