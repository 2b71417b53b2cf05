//! The byte order of weights on a device: planes, each with a part of every block of the file.
//!
//! `kernels/quant.cuh` reads this layout.

use half::f16;

use crate::quant;
use crate::tensor::DType;

/// A part of each block: its bytes, and its extraction from the block.
pub struct Plane {
    pub bytes: usize,
    pub part: fn(&[u8], &mut [u8]),
}

const fn plane(bytes: usize, part: fn(&[u8], &mut [u8])) -> Plane {
    Plane { bytes, part }
}

/// Returns the planes of a type; `None` for types without kernels.
pub fn planes(dtype: DType) -> Option<&'static [Plane]> {
    Some(match dtype {
        quant::F32 => const { &[plane(4, field::<0>)] },
        quant::F16 | quant::BF16 => const { &[plane(2, field::<0>)] },
        quant::Q4_0 => const { &[plane(16, field::<2>), plane(2, field::<0>)] },
        quant::Q4_1 => const { &[plane(16, field::<4>), plane(4, field::<0>)] },
        quant::Q5_0 => const { &[plane(16, field::<6>), plane(2, field::<0>), plane(4, fifth_bits::<2>)] },
        quant::Q5_1 => const { &[plane(16, field::<8>), plane(4, field::<0>), plane(4, fifth_bits::<4>)] },
        quant::Q8_0 => const { &[plane(32, field::<2>), plane(2, field::<0>)] },
        quant::Q4_K => const { &[plane(128, nibbles::<16>), plane(16, field::<0>)] },
        quant::Q5_K => const { &[plane(128, nibbles::<48>), plane(16, field::<0>), plane(32, fifth_bits_of_k)] },
        quant::Q6_K => {
            const { &[plane(128, nibbles_of_6), plane(16, field::<192>), plane(64, upper_bits_of_6), plane(2, field::<208>)] }
        }
        _ => return None,
    })
}

/// Returns the maximum scale of a block, or an eighth of its maximum offset if larger.
pub fn scale_bound(dtype: DType, block: &[u8]) -> f32 {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32().abs();
    match dtype {
        quant::Q4_0 | quant::Q5_0 | quant::Q8_0 => half(0),
        quant::Q4_1 | quant::Q5_1 => half(0).max(half(2) / 8.0),
        quant::Q4_K | quant::Q5_K => 63.0 * half(0).max(half(2) / 8.0),
        quant::Q6_K => 128.0 * half(208),
        _ => 0.0,
    }
}

/// Returns the power of two that brings block scales, given their bound, just below 2^15, as `tiny` of
/// `kernels/quant.cuh` requires; 2^24 if the bound is 0.
pub fn factor(bound: f32) -> f32 {
    // A bound is 0, or a normal number below 2^23 with this exponent.
    let exponent = bound.to_bits() >> 23;
    f32::from_bits(if bound == 0.0 { 127 + 24 } else { 127 + 14 + 127 - exponent } << 23)
}

/// The bytes from `FROM` on.
fn field<const FROM: usize>(block: &[u8], to: &mut [u8]) {
    to.copy_from_slice(&block[FROM..FROM + to.len()]);
}

/// Packs the bits of the columns `4i + k` into byte `k`, `width` bits each; `bits` returns a column's bits.
fn gather(to: &mut [u8], columns: usize, width: usize, bits: impl Fn(usize) -> u8) {
    for (k, to) in to.iter_mut().enumerate() {
        *to = (0..columns / 4).fold(0, |byte, i| byte | bits(4 * i + k) << (width * i));
    }
}

/// Fifth bits of 32 columns, stored as a bit mask from byte `FROM` on.
fn fifth_bits<const FROM: usize>(block: &[u8], to: &mut [u8]) {
    gather(to, 32, 1, |column| (block[FROM + column / 8] >> (column % 8)) & 1);
}

/// Nibbles of Q4_K and Q5_K from byte `FROM` on: each 32 bytes hold a sub-block in their low nibbles, the next one in
/// their high nibbles.
fn nibbles<const FROM: usize>(block: &[u8], to: &mut [u8]) {
    for (from, to) in block[FROM..].chunks_exact(32).zip(to.chunks_exact_mut(32)) {
        let (low, high) = to.split_at_mut(16);
        for i in 0..16 {
            low[i] = from[i] & 15 | from[16 + i] << 4;
            high[i] = from[i] >> 4 | from[16 + i] & 0xf0;
        }
    }
}

/// Fifth bits of Q5_K: bit `n` of 32 bytes belongs to sub-block `n`.
fn fifth_bits_of_k(block: &[u8], to: &mut [u8]) {
    for (n, to) in to.chunks_exact_mut(4).enumerate() {
        gather(to, 32, 1, |column| (block[16 + column] >> n) & 1);
    }
}

/// Low nibbles of Q6_K: 64 bytes hold columns 0 to 63 of half a block in their low nibbles, the next 64 columns in
/// their high nibbles.
fn nibbles_of_6(block: &[u8], to: &mut [u8]) {
    for (from, to) in block[..128].chunks_exact(64).zip(to.chunks_exact_mut(64)) {
        for (n, to) in to.chunks_exact_mut(16).enumerate() {
            let (from, shift) = (&from[32 * (n % 2)..], 4 * (n / 2));
            for i in 0..16 {
                to[i] = (from[i] >> shift) & 15 | ((from[16 + i] >> shift) & 15) << 4;
            }
        }
    }
}

/// High bits of Q6_K: 32 bytes per half block, two bits for each 32 columns.
fn upper_bits_of_6(block: &[u8], to: &mut [u8]) {
    for (from, to) in block[128..192].chunks_exact(32).zip(to.chunks_exact_mut(32)) {
        for (n, to) in to.chunks_exact_mut(4).enumerate() {
            gather(to, 16, 2, |column| (from[n % 2 * 16 + column] >> (n / 2 * 2)) & 3);
        }
    }
}
