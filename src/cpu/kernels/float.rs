//! The types of float weights. Owns how sixteen weights of each type are read.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use super::simd::{PANEL_ROWS, Simd};

/// A type of float weights.
pub trait Float {
    /// Size of one weight in bytes.
    const BYTES: usize;
    /// Reads sixteen weights.
    ///
    /// # Safety
    /// `p` must point to sixteen weights.
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F;
}

pub struct F32;
impl Float for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by this function's contract.
        unsafe { s.load_f32(p.cast()) }
    }
}

pub struct F16;
impl Float for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by this function's contract.
        unsafe { s.load_f16(p) }
    }
}

pub struct Bf16;
impl Float for Bf16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by this function's contract.
        unsafe { s.load_bf16(p) }
    }
}

/// E4M3. Its exponent and mantissa, read as binary16, give 2^-8 of the value.
pub struct F8;
impl Float for F8 {
    const BYTES: usize = 1;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        let mut halves = [0u16; PANEL_ROWS];
        for row in 0..PANEL_ROWS {
            // SAFETY: by this function's contract.
            let bits = u16::from(unsafe { *p.add(row) });
            let nan = if bits & 0x7f == 0x7f { 0x7c00 } else { 0 };
            halves[row] = (bits & 0x80) << 8 | (bits & 0x7f) << 7 | nan;
        }
        // SAFETY: sixteen 16-bit values.
        s.mul(unsafe { s.load_f16(halves.as_ptr().cast()) }, s.splat(256.0))
    }
}
