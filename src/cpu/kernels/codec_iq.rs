//! Decoders of the formats whose integers are codebook indices (`quant::iq`): each row's codewords are read, then signs
//! or an offset are applied. All bytes have their zero point at 64; signs reflect them about it.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use super::codec::{Codec, Offset7, OffsetHalves7, eight};
use super::simd::{Codebook, Simd};
use crate::quant::iq_grids as grids;

/// Zero point of 7-bit values, above the largest value.
const ZERO: i32 = 64;

static IQ2_XXS: Codebook<8, 256> = codebook(&grids::IQ2_XXS);
static IQ2_XS: Codebook<8, 512> = codebook(&grids::IQ2_XS);
static IQ2_S: Codebook<8, 1024> = codebook(&grids::IQ2_S);
static IQ3_XXS: Codebook<4, 256> = codebook(&grids::IQ3_XXS);
static IQ3_S: Codebook<4, 512> = codebook(&grids::IQ3_S);
/// Codewords of eight times the value minus 1, so that the offsets of -1/8 and 1/8 are integers.
static IQ1: Codebook<8, 2048> = codebook(&eightfold(&grids::IQ1));

/// Adds the zero point to the codewords of a grid.
const fn codebook<const DIMS: usize, const N: usize>(grid: &[[u8; DIMS]; N]) -> Codebook<DIMS, N> {
    let mut table = Codebook { codewords: *grid, planes: [[0; N]; DIMS] };
    let mut i = 0;
    while i < DIMS * N {
        let (word, k) = (i / DIMS, i % DIMS);
        let value = grid[word][k].wrapping_add(ZERO as u8);
        table.codewords[word][k] = value;
        table.planes[k][word] = value;
        i += 1;
    }
    table
}

/// Multiplies by eight and subtracts 1.
const fn eightfold<const N: usize>(points: &[[i8; 8]; N]) -> [[u8; 8]; N] {
    let mut out = [[0; 8]; N];
    let mut i = 0;
    while i < 8 * N {
        out[i / 8][i % 8] = (8 * points[i / 8][i % 8] - 1) as u8;
        i += 1;
    }
    out
}

/// Bits of a sign byte for the first and the last four of eight columns.
const SIGNS: [u32; 2] = [0x0804_0201, 0x8040_2010];

/// Reflects bytes about their zero point, with one sign byte per eight columns.
#[inline(always)]
fn signed<S: Simd>(s: S, q: [S::I; 8], signs: S::I) -> [S::I; 8] {
    eight!(s, j => s.reflect(q[j], s.spread(signs, j / 2), SIGNS[j % 2]))
}

/// Reads the codewords of four plus four indices.
#[inline(always)]
fn codewords4<S: Simd, const N: usize>(s: S, table: &Codebook<4, N>, first: [S::I; 4], last: [S::I; 4]) -> [S::I; 8] {
    let (first, last) = (s.codewords4(table, first), s.codewords4(table, last));
    eight!(s, j => if j < 4 { first[j] } else { last[j - 4] })
}

/// Adds the eighth sign to bytes of seven, so that the number of negative values is even.
#[inline(always)]
fn even_signs<S: Simd>(s: S, seven: S::I) -> S::I {
    const ONES: [i8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];
    let ones = s.add_i32(s.lookup(&ONES, s.field(seven, 0, 15)), s.lookup(&ONES, s.field(seven, 4, 7)));
    s.or(seven, s.field(ones, -7, 128))
}

/// Decodes the sign bytes of a word that holds four times seven signs.
#[inline(always)]
fn signs_of_word<S: Simd>(s: S, word: S::I) -> S::I {
    let low = s.or(s.bits(word, 0, 0x7f), s.bits(word, -1, 0x7f00));
    let high = s.or(s.bits(word, -2, 0x7f_0000), s.bits(word, -3, 0x7f00_0000));
    even_signs(s, s.or(low, high))
}

/// Extracts the four bytes of each lane.
#[inline(always)]
fn bytes<S: Simd>(s: S, word: S::I) -> [S::I; 4] {
    [s.bits(word, 0, 255), s.bits(word, 8, 255), s.bits(word, 16, 255), s.bits(word, 24, 255)]
}

/// Returns `d * (2 n + 1)`; `n` is the word shifted right by `shift` and masked by `mask`.
#[inline(always)]
fn odd<S: Simd>(s: S, d: S::F, word: S::I, shift: i32, mask: u32) -> S::F {
    s.mul(d, s.to_f32(s.or(s.bits(word, shift - 1, 2 * mask), s.splat_i32(1))))
}

/// Reads the scale of a block, times a power of two.
///
/// # Safety
/// `p` must point to 32 readable bytes.
#[inline(always)]
unsafe fn d<S: Simd>(s: S, p: *const u8, factor: f32) -> S::F {
    // SAFETY: the same contract.
    s.mul(unsafe { s.load_f16(p) }, s.splat(factor))
}

/// Reads sixteen 4-bit scales, in two words at `p`.
///
/// # Safety
/// `p` must point to 128 readable bytes.
#[inline(always)]
unsafe fn sixteen_scales<S: Simd>(s: S, d: S::F, p: *const u8, scale: &mut [S::F; 16]) {
    for i in 0..16 {
        // SAFETY: the same contract.
        scale[i] = odd(s, d, unsafe { s.load_bytes(p.add(64 * (i / 8))) }, 4 * (i % 8) as i32, 15);
    }
}

pub struct Iq2Xxs;
impl Codec for Iq2Xxs {
    type Kind = Offset7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 1024;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            let d = d(s, p, 0.125);
            for i in 0..8 {
                scale[i] = odd(s, d, s.load_bytes(p.add(96 + 128 * i)), 28, 15);
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that both are inside the block.
        let (index, signs) = unsafe { (s.load_bytes(p.add(32 + 128 * b)), s.load_bytes(p.add(96 + 128 * b))) };
        signed(s, s.codewords8(&IQ2_XXS, bytes(s, index)), signs_of_word(s, signs))
    }
}

pub struct Iq2Xs;
impl Codec for Iq2Xs {
    type Kind = OffsetHalves7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 1024 + 128;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe { sixteen_scales(s, d(s, p, 0.125), p.add(1056), scale) }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that both are inside the block.
        let (u, v) = unsafe { (s.load_bytes(p.add(32 + 128 * b)), s.load_bytes(p.add(96 + 128 * b))) };
        let index = [s.bits(u, 0, 511), s.bits(u, 16, 511), s.bits(v, 0, 511), s.bits(v, 16, 511)];
        let low = s.or(s.bits(u, 9, 0x7f), s.bits(u, 17, 0x7f00));
        let high = s.or(s.bits(v, -7, 0x7f_0000), s.bits(v, 1, 0x7f00_0000));
        signed(s, s.codewords8(&IQ2_XS, index), even_signs(s, s.or(low, high)))
    }
}

pub struct Iq2S;
impl Codec for Iq2S {
    type Kind = OffsetHalves7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 512 + 512 + 128 + 128;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe { sixteen_scales(s, d(s, p, 0.125), p.add(1184), scale) }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that all are inside the block.
        let (low, signs, high) = unsafe {
            (
                s.load_bytes(p.add(32 + 64 * b)),
                s.load_bytes(p.add(544 + 64 * b)),
                s.load_bytes(p.add(1056 + 64 * (b / 4))),
            )
        };
        let (mut index, high) = (bytes(s, low), s.bits(high, 8 * (b % 4) as i32, 0xff));
        for n in 0..4 {
            index[n] = s.or(index[n], s.bits(high, 2 * n as i32 - 8, 0x300));
        }
        signed(s, s.codewords8(&IQ2_S, index), signs)
    }
}

pub struct Iq3Xxs;
impl Codec for Iq3Xxs {
    type Kind = Offset7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 1024 + 512;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            let d = d(s, p, 0.25);
            for i in 0..8 {
                scale[i] = odd(s, d, s.load_bytes(p.add(1056 + 64 * i)), 28, 15);
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that all are inside the block.
        let (u, v, signs) = unsafe {
            (s.load_bytes(p.add(32 + 128 * b)), s.load_bytes(p.add(96 + 128 * b)), s.load_bytes(p.add(1056 + 64 * b)))
        };
        signed(s, codewords4(s, &IQ3_XXS, bytes(s, u), bytes(s, v)), signs_of_word(s, signs))
    }
}

pub struct Iq3S;
impl Codec for Iq3S {
    type Kind = Offset7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 1024 + 128 + 512 + 64;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            let (d, word) = (s.load_f16(p), s.load_bytes(p.add(1696)));
            for i in 0..8 {
                scale[i] = odd(s, d, word, 4 * i as i32, 15);
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that all are inside the block.
        let (u, v, high, signs) = unsafe {
            let (high, signs) = (s.load_bytes(p.add(1056 + 64 * (b / 4))), s.load_bytes(p.add(1184 + 64 * b)));
            (s.load_bytes(p.add(32 + 128 * b)), s.load_bytes(p.add(96 + 128 * b)), high, signs)
        };
        let (mut u, mut v, high) = (bytes(s, u), bytes(s, v), s.bits(high, 8 * (b % 4) as i32, 0xff));
        for n in 0..4 {
            u[n] = s.or(u[n], s.bits(high, n as i32 - 8, 0x100));
            v[n] = s.or(v[n], s.bits(high, n as i32 - 4, 0x100));
        }
        signed(s, codewords4(s, &IQ3_S, u, v), signs)
    }
}

/// Returns 2 in each byte, or 0 if bit `bit` of byte `n` is set; adding 2 changes the offset -1/8 of `IQ1` to 1/8.
#[inline(always)]
fn positive<S: Simd>(s: S, v: S::I, n: usize, bit: i32) -> S::I {
    const TWO: [i8; 16] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    s.lookup(&TWO, s.field(s.spread(v, n), bit, 1))
}

pub struct Iq1S;
impl Codec for Iq1S {
    type Kind = Offset7;
    const UNROLL: bool = false;
    const BYTES: usize = 32 + 512 + 256;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            let d = d(s, p, 0.125);
            for i in 0..8 {
                scale[i] = odd(s, d, s.load_bytes(p.add(544 + 64 * (i / 2))), 12 + 16 * (i % 2) as i32, 7);
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that both are inside the block.
        let (low, high) = unsafe { (s.load_bytes(p.add(32 + 64 * b)), s.load_bytes(p.add(544 + 64 * (b / 2)))) };
        let (mut index, high) = (bytes(s, low), s.bits(high, 16 * (b % 2) as i32, 0xffff));
        for n in 0..4 {
            index[n] = s.or(index[n], s.bits(high, 3 * n as i32 - 8, 0x700));
        }
        let (q, offset) = (s.codewords8(&IQ1, index), positive(s, high, 1, 7));
        eight!(s, j => s.add_i32(q[j], offset))
    }
}

pub struct Iq1M;
impl Codec for Iq1M {
    type Kind = OffsetHalves7;
    const UNROLL: bool = false;
    const BYTES: usize = 512 + 256 + 128;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block; both arrays hold what is written and read.
        unsafe {
            let words = [s.load_bytes(p.add(768)), s.load_bytes(p.add(832))];
            // The upper four bits of each 16 belong to `d`.
            let low = s.or(s.bits(words[0], 12, 0xf), s.bits(words[0], 24, 0xf0));
            let high = s.or(s.bits(words[1], 4, 0xf00), s.bits(words[1], 16, 0xf000));
            let (mut wide, mut halves) = ([0u32; 16], [0u16; 16]);
            s.store_bytes(wide.as_mut_ptr().cast(), s.or(low, high));
            for row in 0..16 {
                halves[row] = wide[row] as u16;
            }
            let d = d(s, halves.as_ptr().cast(), 0.125);
            for i in 0..16 {
                scale[i] = odd(s, d, words[i / 8], (16 * (i / 4 % 2) + 3 * (i % 4)) as i32, 7);
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that both are inside the block.
        let (low, high) = unsafe { (s.load_bytes(p.add(64 * b)), s.load_bytes(p.add(512 + 64 * (b / 2)))) };
        let (mut index, high) = (bytes(s, low), s.bits(high, 16 * (b % 2) as i32, 0xffff));
        for n in 0..4 {
            index[n] = s.or(index[n], s.bits(high, 4 * n as i32 - 8, 0x700));
        }
        let q = s.codewords8(&IQ1, index);
        eight!(s, j => s.add_i32(q[j], positive(s, high, j / 4, 3 + 4 * (j / 2 % 2) as i32)))
    }
}
