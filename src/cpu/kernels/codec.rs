//! Decoders of the packed block formats: sixteen rows of one block, in the order of `packed`, become eight vectors of
//! bytes per 32 columns, and their scales and mins.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use super::activations::InputType;
use super::float::{self, Float};
use super::simd::Simd;
use crate::quant::{fp4, iq::IQ4_VALUES};

/// The properties of a format on which the arithmetic depends. A value is `scale * (q - zero)`, or `scale * q + min` if
/// `MIN`.
pub trait Kind {
    const INPUT: InputType = InputType::I8;
    /// Number of scales per 32 columns of a row: 1 or 2.
    const SUBS: usize;
    const MIN: bool;
    /// True for signed bytes that need all eight bits; their zero point is `Simd::WIDE_ZERO`.
    const WIDE: bool;
    /// Number of bits of the bytes.
    const BITS: u32;
    /// Zero point of the bytes in a tile, at least the codec's; 0 if there are mins.
    const ZERO: i32 = if Self::MIN { 0 } else { 1 << (Self::BITS - 1) };
    /// Number of dot products of four bytes with activations of -127 to 127 that can be added in 16-bit halves.
    const RUN: usize = match Self::BITS {
        ..=4 => 8 / Self::SUBS,
        5 => 4,
        6 => 2,
        _ => 1,
    };
}

macro_rules! kinds {
    ($($name:ident $subs:literal $min:literal $wide:literal $bits:literal)*) => {$(
        pub struct $name;
        impl Kind for $name {
            const SUBS: usize = $subs;
            const MIN: bool = $min;
            const WIDE: bool = $wide;
            const BITS: u32 = $bits;
        }
    )*};
}
kinds! {
    Offset4 1 false false 4
    Offset5 1 false false 5
    Offset7 1 false false 7
    OffsetHalves4 2 false false 4
    OffsetHalves5 2 false false 5
    OffsetHalves6 2 false false 6
    OffsetHalves7 2 false false 7
    Wide 1 false true 8
    Min4 1 true false 4
    Min5 1 true false 5
    MinHalves4 2 true false 4
    Min7 1 true false 7
    WideMin 1 true true 8
}

/// The kind of 16-bit integers.
pub struct Int16;
impl Kind for Int16 {
    const INPUT: InputType = InputType::I16;
    const SUBS: usize = 1;
    const MIN: bool = false;
    const WIDE: bool = false;
    const BITS: u32 = 16;
}

/// A block format, sixteen rows interleaved.
pub trait Codec {
    /// Groups of 32 columns in a block: 1, 2, 4 or 8.
    const GROUPS: usize = 8;
    /// Bytes of sixteen rows of a block.
    const BYTES: usize;
    /// True if the code is copied for each group of a block; useless if look-ups dominate.
    const UNROLL: bool = true;
    type Kind: Kind;
    /// Zero point of the bytes, a power of two; 0 if the kind has mins or its own offset.
    const ZERO: i32 = 0;
    /// Byte offset of the scale, if the block has one; a min follows it.
    const SCALE: usize = 0;

    /// Reads the scales of the sub-blocks in order, and the mins if any. By default one scale (and min) covers the
    /// whole block.
    ///
    /// # Safety
    /// `p` must point to `BYTES` readable bytes.
    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], min: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            *scale = [s.load_f16(p.add(Self::SCALE)); 16];
            if <Self::Kind as Kind>::MIN {
                min[0] = s.load_f16(p.add(Self::SCALE + 32));
            }
        }
    }

    /// Decodes the bytes of 32 columns, columns `4 j .. 4 j + 4` to vector `j`, or 16-bit integers of 16 columns, two
    /// per vector. `scale` is the columns' result of `scales`.
    ///
    /// # Safety
    /// `p` must point to `BYTES` readable bytes; `b < GROUPS`, or `b < 2 * GROUPS` for 16-bit integers.
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, scale: S::F) -> [S::I; 8];
}

/// Evaluates `$value` for each `$j` of eight. A macro, because the compiler might compile a closure outside of the
/// functions that enable the instruction set.
macro_rules! eight {
    ($s:ident, $j:ident => $value:expr) => {{
        let mut out = [$s.splat_i32(0); 8];
        for $j in 0..8 {
            out[$j] = $value;
        }
        out
    }};
}
pub(super) use eight;

/// Decodes nibbles: columns `i` and `i + 16` of 32 share a byte.
#[inline(always)]
unsafe fn nibbles<S: Simd>(s: S, p: *const u8) -> [S::I; 8] {
    // SAFETY: 256 bytes by the callers' contract.
    eight!(s, j => unsafe { s.field(s.load_bytes(p.add(64 * (j % 4))), if j < 4 { 0 } else { 4 }, 15) })
}

/// Adds a fifth bit from a plane, each byte of which holds the bit for vectors 0 to 7.
#[inline(always)]
unsafe fn fifth_bits<S: Simd>(s: S, p: *const u8, q: [S::I; 8]) -> [S::I; 8] {
    // SAFETY: 64 bytes by the callers' contract.
    let plane = unsafe { s.load_bytes(p) };
    eight!(s, j => s.or(q[j], s.field(plane, j as i32 - 4, 16)))
}

/// Decodes a bit field of each byte of eight vectors at `p`.
#[inline(always)]
unsafe fn fields<S: Simd>(s: S, p: *const u8, shift: i32, mask: u8) -> [S::I; 8] {
    // SAFETY: 512 bytes by the callers' contract.
    eight!(s, j => unsafe { s.field(s.load_bytes(p.add(64 * j)), shift, mask) })
}

#[inline(always)]
fn or8<S: Simd>(s: S, a: [S::I; 8], b: [S::I; 8]) -> [S::I; 8] {
    eight!(s, j => s.or(a[j], b[j]))
}

/// Scales of sub-blocks as bytes, sixteen rows per sub-block.
#[repr(align(64))]
struct ScaleBytes([u8; 256]);

/// Defines formats of one group of columns with one scale, by kind, bytes and zero point.
macro_rules! single_groups {
    ($($name:ident $kind:ident $bytes:literal $zero:literal |$s:ident, $p:ident| $quants:expr)*) => {$(
        pub struct $name;
        impl Codec for $name {
            type Kind = $kind;
            const GROUPS: usize = 1;
            const BYTES: usize = $bytes;
            const ZERO: i32 = $zero;

            #[inline(always)]
            unsafe fn quants<S: Simd>($s: S, $p: *const u8, _: usize, _: S::F) -> [S::I; 8] {
                // SAFETY: inside the block.
                unsafe { $quants }
            }
        }
    )*};
}

single_groups! {
    Q4_0 Offset4 288 8 |s, p| nibbles(s, p.add(32))
    Q4_1 Min4 320 0 |s, p| nibbles(s, p.add(64))
    Q5_0 Offset5 352 16 |s, p| fifth_bits(s, p.add(32), nibbles(s, p.add(96)))
    Q5_1 Min5 384 0 |s, p| fifth_bits(s, p.add(64), nibbles(s, p.add(128)))
    Q8_0 Wide 544 0 |s, p| eight!(s, j => s.wide(s.load_bytes(p.add(32 + 64 * j))))
    Iq4Nl Wide 288 0 |s, p| iq4(s, p.add(32))
}

/// Decodes nibbles to the values of the nonlinear four-bit formats.
#[inline(always)]
unsafe fn iq4<S: Simd>(s: S, p: *const u8) -> [S::I; 8] {
    // SAFETY: 256 bytes by the callers' contract.
    let q = unsafe { nibbles(s, p) };
    eight!(s, j => s.wide(s.lookup(&IQ4_VALUES, q[j])))
}

/// Reads the scales of the 4- and 5-bit formats with 256 columns: `d`, `dmin`, then eight 6-bit scales and mins in the
/// twelve bytes of `get_scale_min_k4` (ggml).
#[inline(always)]
unsafe fn scales_k4<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], min: &mut [S::F; 16]) {
    let mut bytes = [ScaleBytes([0; 256]), ScaleBytes([0; 256])];
    let [sc, m] = &mut bytes;
    // SAFETY: `d`, `dmin` and 3 x 64 bytes of scales are inside the block; both arrays hold 128 bytes and more.
    unsafe {
        let (d, dmin) = (s.load_f16(p), s.mul(s.load_f16(p.add(32)), s.splat(-1.0)));
        let (a, b, c) = (s.load_bytes(p.add(64)), s.load_bytes(p.add(128)), s.load_bytes(p.add(192)));
        s.store_bytes(sc.0.as_mut_ptr(), s.field(a, 0, 63));
        s.store_bytes(sc.0.as_mut_ptr().add(64), s.or(s.field(c, 0, 15), s.field(a, 2, 48)));
        s.store_bytes(m.0.as_mut_ptr(), s.field(b, 0, 63));
        s.store_bytes(m.0.as_mut_ptr().add(64), s.or(s.field(c, 4, 15), s.field(b, 2, 48)));
        for i in 0..8 {
            scale[i] = s.mul(d, s.load_u8(sc.0.as_ptr().add(16 * i)));
            min[i] = s.mul(dmin, s.load_u8(m.0.as_ptr().add(16 * i)));
        }
    }
}

pub struct Q4K;
impl Codec for Q4K {
    type Kind = Min4;
    const BYTES: usize = 64 + 192 + 2048;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], min: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe { scales_k4(s, p, scale, min) }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b / 2 < 4`, so that this is inside the block.
        unsafe { fields(s, p.add(256 + 512 * (b / 2)), 4 * (b & 1) as i32, 15) }
    }
}

pub struct Q5K;
impl Codec for Q5K {
    type Kind = Min5;
    const BYTES: usize = 64 + 192 + 512 + 2048;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], min: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe { scales_k4(s, p, scale, min) }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b / 2 < 4`, so that both are inside the block.
        unsafe {
            let low = fields(s, p.add(768 + 512 * (b / 2)), 4 * (b & 1) as i32, 15);
            or8(s, low, fields(s, p.add(256), b as i32 - 4, 16))
        }
    }
}

pub struct Q6K;
impl Codec for Q6K {
    type Kind = OffsetHalves6;
    const BYTES: usize = 2048 + 1024 + 256 + 32;
    const ZERO: i32 = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // SAFETY: inside the block.
        unsafe {
            let d = s.load_f16(p.add(3328));
            for i in 0..16 {
                scale[i] = s.mul(d, s.load_i8(p.add(3072 + 16 * i)));
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // Halves of 128 columns: 64 bytes of low nibbles, 32 bytes of high bit pairs.
        let (half, quarter) = (b / 4, b % 4);
        // SAFETY: `half < 2`, so that both are inside the block.
        unsafe {
            let low = fields(s, p.add(1024 * half + 512 * (quarter & 1)), 4 * (quarter / 2) as i32, 15);
            or8(s, low, fields(s, p.add(2048 + 512 * half), 2 * quarter as i32 - 4, 48))
        }
    }
}

pub struct Q2K;
impl Codec for Q2K {
    type Kind = MinHalves4;
    const BYTES: usize = 256 + 1024 + 32 + 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], min: &mut [S::F; 16]) {
        let mut bytes = [ScaleBytes([0; 256]), ScaleBytes([0; 256])];
        let [sc, m] = &mut bytes;
        // SAFETY: inside the block; both arrays hold 256 bytes.
        unsafe {
            let (d, dmin) = (s.load_f16(p.add(1280)), s.mul(s.load_f16(p.add(1312)), s.splat(-1.0)));
            for i in 0..4 {
                let v = s.load_bytes(p.add(64 * i));
                s.store_bytes(sc.0.as_mut_ptr().add(64 * i), s.field(v, 0, 15));
                s.store_bytes(m.0.as_mut_ptr().add(64 * i), s.field(v, 4, 15));
            }
            for i in 0..16 {
                scale[i] = s.mul(d, s.load_u8(sc.0.as_ptr().add(16 * i)));
                min[i] = s.mul(dmin, s.load_u8(m.0.as_ptr().add(16 * i)));
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b / 4 < 2`, so that this is inside the block.
        unsafe { fields(s, p.add(256 + 512 * (b / 4)), 2 * (b % 4) as i32, 3) }
    }
}

pub struct Q3K;
impl Codec for Q3K {
    type Kind = OffsetHalves4;
    const BYTES: usize = 512 + 1024 + 192 + 32;
    const ZERO: i32 = 4;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        let mut bytes = ScaleBytes([0; 256]);
        let sc = bytes.0.as_mut_ptr();
        // SAFETY: inside the block; the array holds 256 bytes.
        unsafe {
            let d = s.load_f16(p.add(1728));
            // Sixteen 6-bit scales with an offset of 32: low nibbles in eight bytes, high bit pairs in four.
            let (a, b, c) = (s.load_bytes(p.add(1536)), s.load_bytes(p.add(1600)), s.load_bytes(p.add(1664)));
            s.store_bytes(sc, s.add_bytes(s.or(s.field(a, 0, 15), s.field(c, -4, 48)), 224));
            s.store_bytes(sc.add(64), s.add_bytes(s.or(s.field(b, 0, 15), s.field(c, -2, 48)), 224));
            s.store_bytes(sc.add(128), s.add_bytes(s.or(s.field(a, 4, 15), s.field(c, 0, 48)), 224));
            s.store_bytes(sc.add(192), s.add_bytes(s.or(s.field(b, 4, 15), s.field(c, 2, 48)), 224));
            for i in 0..16 {
                scale[i] = s.mul(d, s.load_i8(sc.add(16 * i)));
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b / 4 < 2`, so that both are inside the block.
        unsafe {
            let low = fields(s, p.add(512 + 512 * (b / 4)), 2 * (b % 4) as i32, 3);
            or8(s, low, fields(s, p, b as i32 - 2, 4))
        }
    }
}

pub struct Iq4Xs;
impl Codec for Iq4Xs {
    type Kind = Wide;
    const BYTES: usize = 32 + 32 + 64 + 2048;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // 6-bit scales with an offset of 32: nibbles in four bytes, and bit pairs in one 16-bit word per row. SAFETY:
        // inside the block.
        unsafe {
            let d = s.load_f16(p);
            let mut bytes = [[0u8; 16]; 8];
            for row in 0..16 {
                let high = u16::from_le_bytes([*p.add(32 + 2 * row), *p.add(33 + 2 * row)]);
                for (i, bytes) in bytes.iter_mut().enumerate() {
                    let low = *p.add(64 + 16 * (i / 2) + row) >> (4 * (i & 1)) & 15;
                    bytes[row] = (low | ((high >> (2 * i)) as u8 & 3) << 4).wrapping_sub(32);
                }
            }
            for (i, bytes) in bytes.iter().enumerate() {
                scale[i] = s.mul(d, s.load_i8(bytes.as_ptr()));
            }
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 8`, so that this is inside the block.
        unsafe { iq4(s, p.add(128 + 256 * b)) }
    }
}

pub struct Mxfp4;
impl Codec for Mxfp4 {
    type Kind = Offset5;
    const GROUPS: usize = 1;
    const BYTES: usize = 16 + 256;
    const ZERO: i32 = 16;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // Arrays of fixed length and indices, so that the compiler vectorizes the loop.
        let mut halves = [0f32; 16];
        // SAFETY: inside the block.
        let bytes = unsafe { p.cast::<[u8; 16]>().read() };
        for row in 0..16 {
            halves[row] = fp4::half_scale(bytes[row]);
        }
        // SAFETY: sixteen values.
        scale[0] = unsafe { s.load_f32(halves.as_ptr()) };
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, _: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: inside the block.
        let q = unsafe { nibbles(s, p.add(16)) };
        eight!(s, j => s.lookup(&fp4::RAISED, q[j]))
    }
}

pub struct Nvfp4;
impl Codec for Nvfp4 {
    type Kind = OffsetHalves5;
    const GROUPS: usize = 2;
    const BYTES: usize = 64 + 512;
    const ZERO: i32 = 16;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        // Arrays of fixed length and indices, so that the compiler vectorizes the loop.
        let mut halves = [0u16; 64];
        // SAFETY: inside the block.
        let bytes = unsafe { p.cast::<[u8; 64]>().read() };
        for i in 0..64 {
            halves[i] = fp4::small_scale(bytes[i]);
        }
        for i in 0..4 {
            // Half of the scale, because the values are doubled. SAFETY: sixteen 16-bit values.
            scale[i] = s.mul(unsafe { s.load_f16(halves.as_ptr().add(16 * i).cast()) }, s.splat(128.0));
        }
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // Two words per 16 columns; low nibbles hold the first eight columns.
        eight!(s, j => {
            let (word, shift) = (4 * b + 2 * (j / 4) + j % 2, if j % 4 < 2 { 0 } else { 4 });
            // SAFETY: `b < 2`, so that this is inside the block.
            s.lookup(&fp4::RAISED, s.field(unsafe { s.load_bytes(p.add(64 + 64 * word)) }, shift, 15))
        })
    }
}

/// Factors that move a base-3 digit to the front.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

pub struct Tq1_0;
impl Codec for Tq1_0 {
    type Kind = Offset4;
    const BYTES: usize = 512 + 256 + 64 + 32;
    const ZERO: i32 = 1;
    const SCALE: usize = 832;

    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // First 32 bytes hold one digit per run of 32 columns, then 16 bytes one per run of 16, and the last bytes one
        // per run of four.
        eight!(s, j => {
            let (byte, digit) = match (b, j) {
                (0..5, _) => (64 * j, b),
                (7, 4..) => (768, j - 4),
                _ => (512 + 64 * (j % 4), 2 * (b - 5) + j / 4),
            };
            // SAFETY: `byte <= 768`, so that this is inside the block.
            s.ternary_digit(unsafe { s.load_bytes(p.add(byte)) }, POWERS[digit])
        })
    }
}

pub struct Ptq1_0;
impl Codec for Ptq1_0 {
    type Kind = Offset4;
    const GROUPS: usize = 4;
    const BYTES: usize = 256 + 128 + 32 + 32;
    const ZERO: i32 = 1;
    const SCALE: usize = 416;

    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // First 16 bytes hold one digit per run of 16 columns, then 8 bytes one per run of 8, and the last bytes one
        // per run of two.
        eight!(s, j => {
            let column = 32 * b + 4 * j;
            if column < 120 {
                let (word, digit) = match column.checked_sub(80) {
                    None => (column % 16 / 4, column / 16),
                    Some(column) => (4 + column % 8 / 4, column / 8),
                };
                // SAFETY: `word < 6`, so that this is inside the block.
                s.ternary_digit(unsafe { s.load_bytes(p.add(64 * word)) }, POWERS[digit])
            } else {
                let (mut bytes, digit) = ([0u8; 64], (column - 120) / 2);
                for (i, byte) in bytes.iter_mut().enumerate() {
                    // SAFETY: 32 bytes after the words, two per row.
                    *byte = unsafe { *p.add(384 + 2 * (i / 4) + i % 2) }.wrapping_mul(POWERS[digit + i % 4 / 2]);
                }
                // SAFETY: 64 bytes.
                s.ternary_digit(unsafe { s.load_bytes(bytes.as_ptr()) }, 1)
            }
        })
    }
}

pub struct Q1_0;
impl Codec for Q1_0 {
    type Kind = Offset4;
    const GROUPS: usize = 4;
    const BYTES: usize = 32 + 256;
    const ZERO: i32 = 1;

    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < 4`, so that this is inside the block.
        let plane = unsafe { s.load_bytes(p.add(32 + 64 * b)) };
        eight!(s, j => s.field(plane, j as i32 - 1, 2))
    }
}

/// Two-bit values, `GROUPS` groups of 32 under one scale.
pub struct PairBlocks<const GROUPS: usize>;
impl<const GROUPS: usize> Codec for PairBlocks<GROUPS> {
    type Kind = Offset4;
    const GROUPS: usize = GROUPS;
    const BYTES: usize = 32 + 128 * GROUPS;
    const ZERO: i32 = 1;

    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b < GROUPS`, so that this is inside the block.
        eight!(s, j => s.field(unsafe { s.load_bytes(p.add(32 + 128 * b + 64 * (j / 4))) }, 2 * (j % 4) as i32, 3))
    }
}

pub struct Tq2_0;
impl Codec for Tq2_0 {
    type Kind = Offset4;
    const BYTES: usize = 1024 + 32;
    const ZERO: i32 = 1;
    const SCALE: usize = 1024;

    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, _: S::F) -> [S::I; 8] {
        // SAFETY: `b / 4 < 2`, so that this is inside the block.
        unsafe { fields(s, p.add(512 * (b / 4)), 2 * (b % 4) as i32, 3) }
    }
}

/// 8-bit floats, 32 columns per block: `q = w / scale` in 14 bits; `scale` is the smallest power of two with which the
/// largest of the 32 values fits.
pub struct F8Blocks;
impl Codec for F8Blocks {
    type Kind = Int16;
    const GROUPS: usize = 1;
    const BYTES: usize = 32 * 16;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, p: *const u8, scale: &mut [S::F; 16], _: &mut [S::F; 16]) {
        let mut max = s.splat_i32(0);
        for column in 0..32 {
            // SAFETY: inside the block.
            max = s.max_magnitude(max, unsafe { float::F8::load(s, p.add(16 * column)) });
        }
        scale[0] = s.pair_scale(max);
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(s: S, p: *const u8, b: usize, scale: S::F) -> [S::I; 8] {
        let inverse = s.inverse_power(scale);
        // SAFETY: `b < 2`, so that this is inside the block.
        eight!(s, j => unsafe {
            let p = p.add(32 * (8 * b + j));
            let (even, odd) = (float::F8::load(s, p), float::F8::load(s, p.add(16)));
            s.round_to_pair(s.mul(even, inverse), s.mul(odd, inverse))
        })
    }
}
