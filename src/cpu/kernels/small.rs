//! The integers that represent 16-bit floats in products: 14-bit integers and a power of two per 32 columns of a row,
//! packed without loss into 13 bits (F16) or 11 bits (BF16) each and one byte for the power. Owns this encoding, and
//! how a group of 32 columns and sixteen rows is written and read.
//!
//! `q = round(w / scale)`, ties to even; `scale` is the smallest power of two with which the largest of the 32 fits, so
//! that only far smaller weights lose bits. Such a `q` has no more significant bits than `w`, and can therefore be
//! encoded as a float with a small exponent. A dot product takes two columns of sixteen rows from a register, and a
//! group has sixteen such column pairs. They are stored in as many registers as a small float has bits; the other pairs
//! are stored in the spare bits.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use std::marker::PhantomData;

use super::codec::{Codec, Int16};
use super::float::{self, Float};
use super::gemm::unroll;
use super::simd::{GROUP, PANEL_ROWS, Simd};
use crate::quant;
use crate::tensor::DType;

/// The integers from -8192 to 8191 with at most `M + 1` significant bits, encoded as floats in the upper `BITS` bits of
/// 16: a sign, an exponent `e`, and `M` bits of mantissa `m`. The value is `(m + o) << c` with `c = max(e, 1) - 1`; `o`
/// is 0, or `1 << M` if `e > 0`; for negative values `o` is `-1 << M` or `-2 << M`.
pub struct Small<const M: u32>;

impl<const M: u32> Small<M> {
    const EXPONENT: u32 = (14 - M).next_power_of_two().trailing_zeros();
    pub const BITS: usize = (1 + Self::EXPONENT + M) as usize;
    pub const SPARE: usize = 16 - Self::BITS;
    /// Mask of the mantissa.
    pub const MANTISSA: u16 = ((1 << M) - 1) << Self::SPARE;
    /// Position of the bits of sign and exponent, which index the tables below.
    pub const INDEX: u32 = 15 - Self::EXPONENT;
    /// Right shift of the mantissa in bits; next, `OFFSETS`, to be added to the shifted mantissa.
    pub const SHIFTS: [u8; 16] = Self::TABLES.0;
    pub const OFFSETS: [i16; 16] = Self::TABLES.1;

    /// Factors of the mantissa (after a shift to the lowest bit), and the bytes of `OFFSETS`: the same tables for
    /// instruction sets that look up bytes and have no such shifts.
    #[cfg(target_arch = "x86_64")]
    pub const FACTORS: [u8; 16] = {
        let (mut factors, mut i) = ([0; 16], 0);
        while i < 16 {
            factors[i] = (1 << Self::SPARE >> Self::SHIFTS[i]) as u8;
            i += 1;
        }
        factors
    };
    #[cfg(target_arch = "x86_64")]
    pub const OFFSET_BYTES: [[u8; 16]; 2] = {
        let (mut bytes, mut i) = ([[0; 16]; 2], 0);
        while i < 16 {
            [bytes[0][i], bytes[1][i]] = Self::OFFSETS[i].to_le_bytes();
            i += 1;
        }
        bytes
    };

    /// The tables for eight indices, low bytes first, then high bytes: `OFFSETS`, and factors whose products have the
    /// shifted mantissa in their high halves.
    #[cfg(target_arch = "x86_64")]
    pub const EIGHT: [[u8; 16]; 2] = {
        let (mut tables, mut i) = ([[0; 16]; 2], 0);
        while i < 8 {
            [tables[0][i], tables[0][8 + i]] = Self::OFFSETS[i].to_le_bytes();
            [tables[1][i], tables[1][8 + i]] = (((1u32 << 16) >> Self::SHIFTS[i]) as u16).to_le_bytes();
            i += 1;
        }
        tables
    };

    const TABLES: ([u8; 16], [i16; 16]) = {
        let (mut shifts, mut offsets) = ([0; 16], [0; 16]);
        let mut i = 0;
        // One exponent may be unused.
        while i < 2 * (14 - M as usize).next_power_of_two() {
            let (negative, e) = (i >> Self::EXPONENT == 1, i as u32 % (1 << Self::EXPONENT));
            let (offset, c) = if e > 0 { (1i16 << M, e - 1) } else { (0, 0) };
            let offset = if !negative {
                offset
            } else if e > 0 {
                -2 * offset
            } else {
                -1 << M
            };
            shifts[i] = (Self::SPARE as u32).saturating_sub(c) as u8;
            offsets[i] = offset << c;
            i += 1;
        }
        (shifts, offsets)
    };

    /// Encodes `q` with spare bits of 0.
    #[inline(always)]
    fn of(q: i16) -> u16 {
        let sign = (q >> 15) as u16;
        // The mantissa of a negative number is complemented.
        let (mut n, mut c) = (q as u16 ^ sign, 0);
        for _ in M..12 {
            let large = u16::from(n >= 2 << M);
            n >>= large;
            c += large;
        }
        // A mantissa of at least 1 << M has carried into the exponent.
        (((c << M) + n) ^ (sign & ((1 << (Self::BITS - 1)) | ((1 << M) - 1)))) << Self::SPARE
    }

    /// Decodes an integer; ignores the spare bits.
    #[inline(always)]
    pub fn value(small: u16) -> i16 {
        let i = usize::from(small >> Self::INDEX);
        ((small & Self::MANTISSA) >> Self::SHIFTS[i]) as i16 + Self::OFFSETS[i]
    }

    /// Number of pieces, minus one, of each float stored in spare bits (floats from `BITS` on).
    const PIECES: usize = (Self::BITS - 1) / Self::SPARE;
    /// Returns the location of piece `p` of float `BITS + i`: register, bit mask and left shift.
    const fn piece(i: usize, p: usize) -> (usize, u16, usize) {
        if p < Self::PIECES {
            (Self::PIECES * i + p, (1 << Self::SPARE) - 1, 16 - Self::SPARE * (p + 1))
        } else {
            (Self::BITS - 1, 1 << i, Self::SPARE - i)
        }
    }
}

/// A float type whose integers are small floats with `M` bits of mantissa.
pub struct SmallFloats<T, const M: u32>(PhantomData<T>);
pub type SmallF16 = SmallFloats<float::F16, 10>;
pub type SmallBf16 = SmallFloats<float::Bf16, 7>;

/// The columns of a group in sixteen rows, as bits from the file: two columns per word, the first in the low half.
pub type Columns = [[u32; PANEL_ROWS]; GROUP / 2];

/// The packed form of a float type in rows of whole groups.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Size of sixteen rows of a group in bytes.
    pub bytes: usize,
    /// Decodes row `row` of a group.
    pub decode: fn(group: &[u8], row: usize, out: &mut [f32]),
}

/// Returns the packing of a type that is packed as small floats; otherwise `None`.
pub fn packing(dtype: DType) -> Option<Packing> {
    match dtype {
        quant::F16 => Some(SmallF16::PACKING),
        quant::BF16 => Some(SmallBf16::PACKING),
        _ => None,
    }
}

/// A type that is packed as small floats.
pub trait Pack {
    /// Packs a group. A row with an infinity or NaN gets an infinite power and unspecified integers.
    ///
    /// # Safety
    /// `out` must point to as many writable bytes as `packing` says.
    unsafe fn pack<S: Simd>(s: S, columns: &Columns, out: *mut u8);
}

impl<T: Float, const M: u32> Pack for SmallFloats<T, M> {
    #[inline(always)]
    unsafe fn pack<S: Simd>(s: S, columns: &Columns, out: *mut u8) {
        let mut values = [[s.splat(0.0); 2]; GROUP / 2];
        let mut max = s.splat_i32(0);
        for j in 0..GROUP / 2 {
            for half in 0..2 {
                let mut column = [0u16; PANEL_ROWS];
                for row in 0..PANEL_ROWS {
                    column[row] = (columns[j][row] >> (16 * half)) as u16;
                }
                // SAFETY: sixteen 16-bit values.
                values[j][half] = unsafe { T::load(s, column.as_ptr().cast()) };
                max = s.max_magnitude(max, values[j][half]);
            }
        }
        let scale = s.pair_scale(max);
        let inverse = s.inverse_power(scale);
        let mut small = [[0u16; 2 * PANEL_ROWS]; GROUP / 2];
        for j in 0..GROUP / 2 {
            let [even, odd] = values[j];
            // SAFETY: 64 bytes.
            unsafe {
                s.store_bytes(small[j].as_mut_ptr().cast(), s.round_to_pair(s.mul(even, inverse), s.mul(odd, inverse)))
            }
            small[j] = small[j].map(|q| Small::<M>::of(q as i16));
        }
        for i in 0..Small::<M>::SPARE {
            for p in 0..=Small::<M>::PIECES {
                let (register, mask, shift) = Small::<M>::piece(i, p);
                for lane in 0..2 * PANEL_ROWS {
                    small[register][lane] |= small[Small::<M>::BITS + i][lane] >> shift & mask;
                }
            }
        }
        let mut scales = [0f32; PANEL_ROWS];
        // SAFETY: sixteen values; registers and bytes of powers are in bounds by this function's contract.
        unsafe {
            s.store_f32(scales.as_mut_ptr(), scale);
            for j in 0..Small::<M>::BITS {
                out.add(64 * j).cast::<[u16; 2 * PANEL_ROWS]>().write_unaligned(small[j].map(u16::to_le));
            }
            let powers = scales.map(|scale| (scale.to_bits() >> 23) as u8);
            out.add(64 * Small::<M>::BITS).cast::<[u8; PANEL_ROWS]>().write(powers);
        }
    }
}

impl<T: Float, const M: u32> SmallFloats<T, M> {
    const PACKING: Packing = Packing { bytes: Self::BYTES, decode: Self::decode };

    fn decode(group: &[u8], row: usize, out: &mut [f32]) {
        let (floats, powers) = group.split_at(64 * Small::<M>::BITS);
        let scale = f32::from_bits(u32::from(powers[row]) << 23);
        for (column, y) in out.iter_mut().enumerate() {
            let read = |register: usize| {
                let at = 64 * register + 4 * row + 2 * (column % 2);
                u16::from_le_bytes([floats[at], floats[at + 1]])
            };
            let small = match (column / 2).checked_sub(Small::<M>::BITS) {
                None => read(column / 2),
                Some(i) => (0..=Small::<M>::PIECES).fold(0, |small, p| {
                    let (register, mask, shift) = Small::<M>::piece(i, p);
                    small | (read(register) & mask) << shift
                }),
            };
            *y = f32::from(Small::<M>::value(small)) * scale;
        }
    }
}

impl<T: Float, const M: u32> Codec for SmallFloats<T, M> {
    type Kind = Int16;
    const GROUPS: usize = 1;
    const BYTES: usize = 64 * Small::<M>::BITS + PANEL_ROWS;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        scale[0] = unsafe { s.load_powers(p.add(64 * Small::<M>::BITS)) };
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        let mut out = [s.splat_i32(0); 8];
        unroll!(S, j < 8, {
            let register = 8 * b + j;
            let mut small = s.splat_i32(0);
            // SAFETY: `b < 2`; a float without a register has its pieces in the existing registers.
            unsafe {
                if register < Small::<M>::BITS {
                    small = s.load_bytes(p.add(64 * register));
                } else {
                    unroll!(S, n < Small::<M>::PIECES + 1, {
                        let (register, mask, shift) = Small::<M>::piece(register - Small::<M>::BITS, n);
                        let mask = u32::from(mask) << shift;
                        let piece = s.bits(s.load_bytes(p.add(64 * register)), -(shift as i32), mask << 16 | mask);
                        small = s.or(small, piece);
                    });
                }
            }
            // The compiler checks indices in the copies from the eighth on before it removes them.
            out[j % 8] = s.small::<M>(small);
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::cpu::kernels::Isa;

    /// Returns the integer and the power of two of `w` in a group with largest magnitude `max`, computed in f64.
    fn expected(w: f64, max: f64) -> (i16, f64) {
        let scale = max.log2().floor().max(-100.0).exp2() / 4096.0;
        ((w / scale).round_ties_even() as i16, scale)
    }

    /// Packs a group; returns its bytes, and its values row by row.
    fn pack(isa: Isa, dtype: DType, columns: &Columns) -> (Vec<u8>, [[f32; GROUP]; PANEL_ROWS]) {
        let packing = packing(dtype).unwrap();
        let mut group = vec![0; packing.bytes];
        isa.matmul().pack_floats(dtype, columns, &mut group);
        let mut rows = [[0f32; GROUP]; PANEL_ROWS];
        for (r, row) in rows.iter_mut().enumerate() {
            (packing.decode)(&group, r, row);
        }
        (group, rows)
    }

    fn every_integer<const M: u32>() {
        let mut found = 0;
        for q in -8191..=8191i16 {
            // Only integers with at most `M + 1` significant bits.
            if q == 0 || 15 - (q.unsigned_abs().leading_zeros() + q.trailing_zeros()) <= M {
                found += 1;
                let small = Small::<M>::of(q);
                assert_eq!(small % (1 << Small::<M>::SPARE), 0);
                for spare in 0..1 << Small::<M>::SPARE {
                    assert_eq!(Small::<M>::value(small | spare), q);
                }
            }
        }
        assert!(found > 1000);
    }

    #[test]
    fn every_integer_is_a_small_float() {
        every_integer::<10>();
        every_integer::<7>();
        assert_eq!((Small::<10>::BITS, Small::<7>::BITS), (13, 11));
    }

    /// Each of the 65536 floats with each power of two that may be the largest of its group.
    #[test]
    fn every_float_beside_every_exponent_is_rounded_once() {
        let f16_value = |bits| f16::from_bits(bits).to_f64();
        let types = [(quant::F16, f16_value as fn(u16) -> f64), (quant::BF16, |bits| bf16::from_bits(bits).to_f64())];
        for (dtype, value) in types {
            for top in (0..0x8000).filter(|&bits| {
                let v = value(bits);
                v.is_finite() && v > 0.0 && v == v.log2().floor().exp2()
            }) {
                let max = value(top);
                // Weights smaller than twice the power, in every slot of a group except one.
                let mut bits = (0..=u16::MAX).filter(|&b| value(b).abs() < 2.0 * max);
                loop {
                    let mut columns = Columns::default();
                    let mut left = false;
                    for (i, pair) in columns.iter_mut().flatten().enumerate() {
                        let [low, high] = [if i < PANEL_ROWS { None } else { bits.next() }, bits.next()];
                        left |= high.is_some();
                        *pair = u32::from(low.unwrap_or(top)) | u32::from(high.unwrap_or(top)) << 16;
                    }
                    if !left {
                        break;
                    }
                    let (_, rows) = pack(Isa::detect(), dtype, &columns);
                    for (r, row) in rows.iter().enumerate() {
                        for (c, &found) in row.iter().enumerate() {
                            let (q, scale) = expected(value((columns[c / 2][r] >> (16 * (c % 2))) as u16), max);
                            assert_eq!(f64::from(found), f64::from(q) * scale, "{dtype:?} {c} beside {max}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_instruction_sets_write_the_same() {
        for dtype in [quant::F16, quant::BF16] {
            let mut state = 1u32;
            for _ in 0..200 {
                let mut columns = Columns::default();
                for pair in columns.iter_mut().flatten() {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // No exponents of infinity or NaN.
                    *pair = (state ^ state >> 15) & if dtype == quant::F16 { 0xefff_efff } else { 0xfeff_feff };
                }
                let expected = pack(Isa::Scalar, dtype, &columns).0;
                for isa in Isa::available() {
                    assert!(pack(isa, dtype, &columns).0 == expected, "{}", isa.name());
                }
            }
        }
    }

    #[test]
    fn a_row_of_zeros_or_with_a_weight_that_is_not_finite_stays_one() {
        for (dtype, infinite) in [(quant::F16, 0x7c00u32), (quant::BF16, 0x7f80)] {
            for isa in Isa::available() {
                for bad in [infinite, infinite | 0x8000, infinite + 1] {
                    let mut columns = Columns::default();
                    columns[3][5] = bad << 16;
                    let (_, rows) = pack(isa, dtype, &columns);
                    assert!(rows[5].iter().all(|w| !w.is_finite()));
                    assert!(rows.iter().enumerate().all(|(r, row)| r == 5 || *row == [0.0; GROUP]));
                }
            }
        }
    }
}
