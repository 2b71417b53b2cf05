//! The SIMD abstraction in which every kernel is written once for all instruction sets: sixteen lanes of 32 bits. Owns
//! the trait and the constants that its implementations share; knows no instruction set and no block format.
//!
//! Only `sum`, `max_lane`, `max_abs`, `pack_bytes`, `swap_neighbors` and `transpose` cross lanes, in one fixed order.
//! Every result is therefore the same sequence of roundings for any register width, and all instruction sets are
//! bit-identical.
#![allow(unsafe_code)]

use std::array;

/// Number of lanes of a vector.
pub const LANES: usize = 16;

/// Number of rows that are interleaved in memory and multiplied together, one per lane.
pub const PANEL_ROWS: usize = LANES;

/// Number of columns that share a scale of the quantized activations.
pub const GROUP: usize = 32;

/// Mask of the exponent in the bits of an f32.
pub const EXPONENT: i32 = 0x7f80_0000;
/// Bits of 2^-100 as f32.
pub const LEAST_POWER: i32 = 27 << 23;
/// Minuend from which the bits of 2^n are subtracted to give the bits of 2^-n.
pub const INVERSE_POWER: i32 = 254 << 23;
/// Scale of signed 14-bit integers, relative to the power of two of the largest value of their group.
pub const PAIR_STEP: f32 = 1.0 / 4096.0;

/// A codebook of `N` vectors of `DIMS` bytes, `N` a power of two, in the two orders that instruction sets read.
#[repr(C, align(64))]
pub struct Codebook<const DIMS: usize, const N: usize> {
    /// The vectors, one after the other.
    pub codewords: [[u8; DIMS]; N],
    /// The vectors transposed: coordinate 0 of all vectors, then coordinate 1, ...
    pub planes: [[u8; N]; DIMS],
}

/// Sixteen lanes of 32 bits, in as many registers as the instruction set needs. Values of an implementing type exist
/// only if the instruction set was detected, so that safe methods may use it. The methods become single instructions
/// only inside a function that enables the instruction set: see `dispatch!` and `instantiate!`.
pub trait Simd: Copy {
    /// 16 x i32, also used as 64 bytes, lane after lane.
    type I: Copy;
    /// 16 x f32.
    type F: Copy;
    /// 16 x 2 x i16, in the order that `dot_pairs` reads.
    type Pairs: Copy;

    /// Offset that `wide` adds to a signed byte.
    const WIDE_ZERO: i32;
    /// Number of accumulator vectors that stay in registers in addition to the operands of a product.
    const ACCUMULATORS: usize;
    /// True if loop bodies are copied with constant indices instead of loops at run time.
    const UNROLL: bool;

    /// True if dot products are first 16-bit sums, several of which may be added before they are widened.
    const SUMS_OF_16_BITS: bool = false;

    /// True if `dot_two` is an instruction. Tiles of quants are then woven.
    const PAIRS_OF_TOKENS: bool = false;

    /// Reads 64 bytes.
    ///
    /// # Safety
    /// `p` must point to 64 readable bytes, at any alignment, as for all loads and stores by pointer.
    unsafe fn load_bytes(self, p: *const u8) -> Self::I;
    /// Writes 64 bytes.
    ///
    /// # Safety
    /// `p` must point to 64 writable bytes.
    unsafe fn store_bytes(self, p: *mut u8, v: Self::I);
    /// Copies `x` to every lane.
    fn splat_i32(self, x: i32) -> Self::I;
    /// Returns `a + b`, wrapping.
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts each lane left, or arithmetically right by `-n`.
    fn shift(self, v: Self::I, n: i32) -> Self::I;
    /// Returns the bitwise or.
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// Adds `b` to each byte, wrapping.
    fn add_bytes(self, a: Self::I, b: u8) -> Self::I;
    /// Shifts each byte right, or left by `-shift`, then masks it; `mask` must cover no bit of a neighboring byte.
    fn field(self, v: Self::I, shift: i32, mask: u8) -> Self::I;
    /// Shifts each lane right, or left by `-shift`, then masks it.
    fn bits(self, v: Self::I, shift: i32, mask: u32) -> Self::I;
    /// Copies byte `n` of each lane to all four of its bytes.
    fn spread(self, v: Self::I, n: usize) -> Self::I;
    /// Replaces each byte by `128 - byte` if the byte of `bits` has the one bit of the byte of `mask`.
    fn reflect(self, v: Self::I, bits: Self::I, mask: u32) -> Self::I;
    /// Returns `3 * (power * byte % 256) / 256` for each byte.
    fn ternary_digit(self, v: Self::I, power: u8) -> Self::I;
    /// Reads codeword `lane % N` for each lane of four vectors.
    fn codewords4<const N: usize>(self, codebook: &Codebook<4, N>, index: [Self::I; 4]) -> [Self::I; 4];
    /// Reads codewords of eight bytes, which fill two vectors per vector of indices.
    fn codewords8<const N: usize>(self, codebook: &Codebook<8, N>, index: [Self::I; 4]) -> [Self::I; 8];
    /// Reads `table[byte]` for bytes below 16.
    fn lookup(self, table: &[i8; 16], v: Self::I) -> Self::I;
    /// Converts signed bytes to the form that `dot_wide` takes.
    fn wide(self, v: Self::I) -> Self::I;
    /// Returns `acc + w . x` in each lane, over four bytes: `w` unsigned 7-bit, `x` signed.
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;
    /// Returns `acc + w . x` in each lane, over four bytes: `w` signed and not -128, bytes of `x` from 0 to 127.
    fn dot_unsigned(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;
    /// Returns partial sums of `w . x`: `add_products` adds to them up to `Kind::RUN` times, `sum_products` sums them
    /// up.
    fn products(self, w: Self::I, x: i32) -> Self::I {
        self.dot(self.splat_i32(0), w, x)
    }
    /// If `SUMS_OF_16_BITS`, returns the initial partial sums with the zero-point correction: both halves of `pair`,
    /// shifted left.
    fn start_products(self, pair: i32, _shift: u32) -> Self::I {
        self.splat_i32(pair)
    }
    /// Returns `sum + products(w, x)`.
    fn add_products(self, sum: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot(sum, w, x)
    }
    /// Returns `acc` plus the sum of partial products.
    fn sum_products(self, acc: Self::I, products: Self::I) -> Self::I {
        self.add_i32(acc, products)
    }
    /// Interleaves the bytes of each lane of two neighboring column vectors in the order that `dot_two` takes.
    fn weave(self, even: Self::I, odd: Self::I) -> [Self::I; 2] {
        [even, odd]
    }
    /// Adds the dot products of woven weights (7-bit, or made by `wide`) over eight columns with two tokens, in an
    /// order that `part_two` undoes.
    fn dot_two(self, acc: [Self::I; 2], w: [Self::I; 2], x: [i64; 2]) -> [Self::I; 2] {
        array::from_fn(|t| {
            let acc = self.dot_wide(acc[t], w[0], x[t] as i32);
            self.dot_wide(acc, w[1], (x[t] >> 32) as i32)
        })
    }
    /// Separates the sums of `dot_two` by token.
    fn part_two(self, sums: [Self::I; 2]) -> [Self::I; 2] {
        sums
    }
    /// As `dot` for bytes made by `wide`, which adds `WIDE_ZERO * sum(x)` to the dot product of the signed bytes.
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;

    /// Converts lanes of two i16, the first in the low half, to pairs.
    fn pairs(self, v: Self::I) -> Self::Pairs;
    /// Reads sixteen pairs of i16.
    ///
    /// # Safety
    /// `p` must point to 64 readable bytes.
    unsafe fn load_pairs(self, p: *const u8) -> Self::Pairs;
    /// Copies a pair of i16, the first in the low half, to every lane.
    fn splat_pair(self, x: i32) -> Self::Pairs;
    /// Returns `acc + a[0] * b[0] + a[1] * b[1]` in each lane, wrapping; no number may be -32768.
    fn dot_pairs(self, acc: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I;
    /// Returns the larger of `max` and the bits of `|v|`. Bits of magnitudes are ordered as the magnitudes; NaN is the
    /// largest.
    fn max_magnitude(self, max: Self::I, v: Self::F) -> Self::I;
    /// Returns the scale for the 14-bit integers of some floats, from the bits of their largest magnitude: a power of
    /// two of at least 2^-112, or infinity if one of the floats is not finite.
    fn pair_scale(self, max: Self::I) -> Self::F;
    /// Returns `1 / v` for a power of two of normal size.
    fn inverse_power(self, v: Self::F) -> Self::F;
    /// Rounds to the nearest integers, `a` in the low and `b` in the high 16 bits.
    fn round_to_pair(self, a: Self::F, b: Self::F) -> Self::I;
    /// Decodes each 16 bits, a float of type `Small<M>`, to an integer.
    fn small<const M: u32>(self, v: Self::I) -> Self::I;

    /// Converts, rounding to nearest even.
    fn to_f32(self, v: Self::I) -> Self::F;
    /// Rounds to the nearest integer, ties to even; a value that does not fit gives an unspecified result.
    fn to_i32(self, v: Self::F) -> Self::I;
    /// Returns the low bytes of 32 lanes, and the sum of each sixteen of them as signed numbers.
    fn pack_bytes(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]);
    /// Returns the largest magnitude of 32 lanes; NaN if one of them is NaN.
    fn max_abs(self, a: Self::F, b: Self::F) -> f32;

    /// Copies `x` to every lane.
    fn splat(self, x: f32) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Returns the smaller operand; `b` if one is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns the larger operand; `b` if one is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// Rounds to the nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// Returns `p * 2^n` for integral n from -127 to 127 and p near 1; 0 at -127.
    fn scale_by_power(self, p: Self::F, n: Self::F) -> Self::F;
    /// Exchanges lanes 0 and 1, 2 and 3, ...
    fn swap_neighbors(self, a: Self::F) -> Self::F;
    /// Returns the sum of all lanes: lane i + lane i + 8, then i + 4, i + 2, i + 1.
    fn sum(self, a: Self::F) -> f32;
    /// Returns the largest lane.
    fn max_lane(self, a: Self::F) -> f32;

    /// # Safety
    /// `p` must point to 16 readable values.
    unsafe fn load_f32(self, p: *const f32) -> Self::F;
    /// # Safety
    /// `p` must point to 16 writable values.
    unsafe fn store_f32(self, p: *mut f32, v: Self::F);
    /// # Safety
    /// `p` must point to 32 readable bytes.
    unsafe fn load_f16(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` must point to 32 readable bytes.
    unsafe fn load_bf16(self, p: *const u8) -> Self::F;
    /// Reads bytes as exponents of f32, which gives powers of two.
    ///
    /// # Safety
    /// `p` must point to 16 readable bytes.
    unsafe fn load_powers(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` must point to 16 readable bytes.
    unsafe fn load_u8(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` must point to 16 readable bytes.
    unsafe fn load_i8(self, p: *const u8) -> Self::F;
    /// Rounds to nearest even and stores lanes within -127..=127.
    fn store_i8(self, v: Self::F, to: &mut [i8; LANES]);
    /// Rounds to nearest even and stores lanes within -32767..=32767.
    fn store_i16(self, v: Self::F, to: &mut [i16; LANES]);

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        // SAFETY: 16 values.
        unsafe { self.load_f32(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: Self::F, to: &mut [f32; LANES]) {
        // SAFETY: 16 values.
        unsafe { self.store_f32(to.as_mut_ptr(), v) }
    }

    /// Reads the first values of a slice; lanes past its end are 0.
    #[inline(always)]
    fn load_slice(self, from: &[f32]) -> Self::F {
        if let Some(from) = from.first_chunk() {
            return self.load(from);
        }
        let mut lanes = [0.0; LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }

    /// Writes the first values of a slice; lanes past its end are dropped.
    #[inline(always)]
    fn store_slice(self, v: Self::F, to: &mut [f32]) {
        if let Some(to) = to.first_chunk_mut() {
            return self.store(v, to);
        }
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        to.copy_from_slice(&lanes[..to.len()]);
    }

    /// Transposes a matrix of 16 vectors: lane j of vector i becomes lane i of vector j.
    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        let mut columns = [[0.0; LANES]; LANES];
        for (i, row) in rows.into_iter().enumerate() {
            let mut lanes = [0.0; LANES];
            self.store(row, &mut lanes);
            for (column, x) in columns.iter_mut().zip(lanes) {
                column[i] = x;
            }
        }
        let mut out = rows;
        for (out, column) in out.iter_mut().zip(&columns) {
            *out = self.load(column);
        }
        out
    }
}
