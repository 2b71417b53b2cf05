//! The IQ types. `IQ4_*` look each value up in a table of 16; the others look up a codebook point (4 or 8 values at
//! once) and, except for `IQ1_*`, apply a sign bit per value. Blocks have 256 values, `IQ4_NL`'s 32.

use super::block::{Decode, block};
use super::float::scale;
use super::iq_grids as grids;
use super::legacy::nibbles;

block! {
    /// `qs` has two words per 32 values: four codebook indices of 8 bits; four sign indices of 7 bits and a scale of 4.
    BlockIq2Xxs: 66 bytes { d: 2, qs: 64 }
}
block! {
    /// `qs` has 16 bits per 8 values: a codebook index of 9 and a sign index of 7; `scales` has 4 bits per 16 values.
    BlockIq2Xs: 74 bytes { d: 2, qs: 64, scales: 8 }
}
block! {
    /// A codebook index of 10 bits per 8 values, the upper two in `qh`; `scales` has 4 bits per 16 values.
    BlockIq2S: 82 bytes { d: 2, qs: 32, signs: 32, qh: 8, scales: 8 }
}
block! {
    /// A codebook index of 8 bits per 4 values; `signs` has a word per 32 values: four sign indices of 7 bits and a
    /// scale of 4.
    BlockIq3Xxs: 98 bytes { d: 2, qs: 64, signs: 32 }
}
block! {
    /// A codebook index of 9 bits per 4 values, the uppermost in `qh`; `scales` has 4 bits per 32 values.
    BlockIq3S: 110 bytes { d: 2, qs: 64, qh: 8, signs: 32, scales: 4 }
}
block! {
    /// A codebook index of 11 bits per 8 values. `qh` has 16 bits per 32 values: the upper three bits of four indices,
    /// a scale of 3 bits, the sign of the offset.
    BlockIq1S: 50 bytes { d: 2, qs: 32, qh: 16 }
}
block! {
    /// A codebook index of 11 bits per 8 values. `qh` has 4 bits per 8 values: the upper three of the index, the sign
    /// of the offset. `scales` has four times 16 bits: four scales of 3 bits for 16 values each, and 4 bits of `d`.
    BlockIq1M: 56 bytes { qs: 32, qh: 16, scales: 8 }
}
block! {
    /// `y = d * IQ4_VALUES[q]`; nibbles as in `Q4_0`.
    BlockIq4Nl: 18 bytes { d: 2, qs: 16 }
}
block! {
    /// Eight times 32 values like `IQ4_NL`, each with a scale of 6 bits whose upper two are in `scales_h`.
    BlockIq4Xs: 136 bytes { d: 2, scales_h: 2, scales_l: 4, qs: 128 }
}

/// Levels of the 4-bit types, denser near zero, where most weights are.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Added to, or subtracted from, every value of an `IQ1_*` codebook.
const IQ1_OFFSET: f32 = 0.125;

impl Decode for BlockIq2Xxs {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (y, &qs) in y.chunks_exact_mut(32).zip(self.qs.as_chunks::<8>().0) {
            let [i0, i1, i2, i3, word @ ..] = qs;
            let word = u32::from_le_bytes(word);
            let d = d * (0.5 + (word >> 28) as f32) * 0.25;
            for (n, (y, i)) in y.chunks_exact_mut(8).zip([i0, i1, i2, i3]).enumerate() {
                signed(y, d, &grids::IQ2_XXS[usize::from(i)], even_signs(word >> (7 * n)));
            }
        }
    }
}

impl Decode for BlockIq2Xs {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (n, (y, &q)) in y.chunks_exact_mut(8).zip(self.qs.as_chunks().0).enumerate() {
            let q = u16::from_le_bytes(q);
            let d = d * (0.5 + f32::from(nibble(&self.scales, n / 2))) * 0.25;
            signed(y, d, &grids::IQ2_XS[usize::from(q & 511)], even_signs(u32::from(q >> 9)));
        }
    }
}

impl Decode for BlockIq2S {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (n, ((y, &q), &signs)) in y.chunks_exact_mut(8).zip(&self.qs).zip(&self.signs).enumerate() {
            let d = d * (0.5 + f32::from(nibble(&self.scales, n / 2))) * 0.25;
            let high = self.qh[n / 4] >> (2 * (n % 4)) & 3;
            signed(y, d, &grids::IQ2_S[index(q, high)], signs);
        }
    }
}

impl Decode for BlockIq3Xxs {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        let words = self.signs.as_chunks().0;
        for ((y, qs), &word) in y.chunks_exact_mut(32).zip(self.qs.chunks_exact(8)).zip(words) {
            let word = u32::from_le_bytes(word);
            let d = d * (0.5 + (word >> 28) as f32) * 0.5;
            for (n, (y, &q)) in y.chunks_exact_mut(4).zip(qs).enumerate() {
                let signs = even_signs(word >> (7 * (n / 2))) >> (4 * (n % 2));
                signed(y, d, &grids::IQ3_XXS[usize::from(q)], signs);
            }
        }
    }
}

impl Decode for BlockIq3S {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        for (n, (y, &q)) in y.chunks_exact_mut(4).zip(&self.qs).enumerate() {
            let d = d * f32::from(1 + 2 * nibble(&self.scales, n / 8));
            let high = self.qh[n / 8] >> (n % 8) & 1;
            signed(y, d, &grids::IQ3_S[index(q, high)], nibble(&self.signs, n));
        }
    }
}

impl Decode for BlockIq1S {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        let words = self.qh.as_chunks().0;
        for ((y, qs), &word) in y.chunks_exact_mut(32).zip(self.qs.chunks_exact(4)).zip(words) {
            let word = u16::from_le_bytes(word);
            let d = d * f32::from(1 + 2 * (word >> 12 & 7));
            for (n, (y, &q)) in y.chunks_exact_mut(8).zip(qs).enumerate() {
                let high = (word >> (3 * n) & 7) as u8;
                offset(y, d, &grids::IQ1[index(q, high)], word >> 15 == 1);
            }
        }
    }
}

impl Decode for BlockIq1M {
    fn decode(&self, y: &mut [f32]) {
        let scales: [u16; 4] =
            std::array::from_fn(|i| u16::from_le_bytes([self.scales[2 * i], self.scales[2 * i + 1]]));
        let bits = scales.iter().rev().fold(0, |bits, s| bits << 4 | s >> 12);
        let d = scale(bits.to_le_bytes());
        for (n, (y, &q)) in y.chunks_exact_mut(8).zip(&self.qs).enumerate() {
            let d = d * f32::from(1 + 2 * (scales[n / 8] >> (3 * (n / 2 % 4)) & 7));
            let high = nibble(&self.qh, n);
            offset(y, d, &grids::IQ1[index(q, high & 7)], high >= 8);
        }
    }
}

impl Decode for BlockIq4Nl {
    const LEN: usize = 32;

    fn decode(&self, y: &mut [f32]) {
        looked_up(y, scale(self.d), &self.qs);
    }
}

impl Decode for BlockIq4Xs {
    fn decode(&self, y: &mut [f32]) {
        let d = scale(self.d);
        let high = u16::from_le_bytes(self.scales_h);
        for (n, (y, qs)) in y.chunks_exact_mut(32).zip(self.qs.chunks_exact(16)).enumerate() {
            let s = nibble(&self.scales_l, n) | ((high >> (2 * n) & 3) as u8) << 4;
            looked_up(y, d * (f32::from(s) - 32.0), qs);
        }
    }
}

/// Returns element `n` of packed 4-bit numbers, low nibbles first.
fn nibble(bytes: &[u8], n: usize) -> u8 {
    bytes[n / 2] >> (4 * (n % 2)) & 15
}

fn index(low: u8, high: u8) -> usize {
    usize::from(low) | usize::from(high) << 8
}

/// Seven signs are stored; the eighth makes the number of negative values even.
fn even_signs(bits: u32) -> u8 {
    let seven = bits & 127;
    (seven | (seven.count_ones() & 1) << 7) as u8
}

/// `y = d * point`, negative if the bit of `signs` is set.
fn signed(y: &mut [f32], d: f32, point: &[u8], signs: u8) {
    for (k, (y, &p)) in y.iter_mut().zip(point).enumerate() {
        let v = d * f32::from(p);
        *y = if signs >> k & 1 == 1 { -v } else { v };
    }
}

fn offset(y: &mut [f32], d: f32, point: &[i8], negative: bool) {
    let offset = if negative { -IQ1_OFFSET } else { IQ1_OFFSET };
    for (y, &p) in y.iter_mut().zip(point) {
        *y = d * (f32::from(p) + offset);
    }
}

fn looked_up(y: &mut [f32], d: f32, qs: &[u8]) {
    for (y, q) in y.iter_mut().zip(nibbles(qs)) {
        *y = d * f32::from(IQ4_VALUES[usize::from(q)]);
    }
}
