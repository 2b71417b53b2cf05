//! The decoder of `quant::grouped`: one for all of these formats, whose parameters are known at run time. It fills
//! tiles; there is no `gemv` that would multiply packed codes.
#![allow(unsafe_code)]
// Loops over registers are written over indices, which unroll.
#![allow(clippy::needless_range_loop)]

use super::activations::InputType;
use super::codec::Kind;
use super::float::{F8, Float};
use super::gemm::{store_quants, tile_bytes};
use super::simd::{GROUP, PANEL_ROWS, Simd};
use crate::quant::grouped::{Code, Grouped, Number, Offset, planes};
use crate::tensor::DType;

/// The kinds of grouped codes.
pub enum GroupedKind {
    /// Integers of at most 7 bits, `codec::Min7`.
    Few,
    /// Integers of 8 bits, `codec::WideMin`.
    Bytes,
    /// Floats, `codec::Int16`.
    Floats,
}

/// The kind of a type, if it is one of these.
pub fn kind(dtype: DType) -> Option<GroupedKind> {
    Some(match Grouped::of(dtype)?.code {
        Code::Int(8) => GroupedKind::Bytes,
        Code::Int(_) => GroupedKind::Few,
        Code::Nf4 | Code::Fp4 | Code::E4m3 => GroupedKind::Floats,
    })
}

/// Unpacks `n` groups of 32 columns, whole blocks, as `gemm::unpack` does.
///
/// # Safety
/// `dtype` is of the kind `K`, `w` points to packed blocks of it and `tile` to a tile of their groups.
#[inline(always)]
pub unsafe fn unpack<S: Simd, K: Kind, const R: usize>(
    s: S,
    dtype: DType,
    mut w: *const u8,
    n: usize,
    mut tile: *mut u8,
) {
    let Some(grouped) = Grouped::of(dtype) else { return };
    let groups = grouped.columns / GROUP;
    let header = PANEL_ROWS * (grouped.scale.bytes() + grouped.offset_bytes());
    for _ in 0..n / groups {
        // SAFETY: scale and offset of sixteen rows begin a block, and the codes of its groups follow.
        unsafe {
            let (scale, min) = numbers(s, grouped, w);
            for b in 0..groups {
                let codes = w.add(header + PANEL_ROWS * grouped.chunk_bytes() * b);
                let (quants, scale, min) = match (K::INPUT, grouped.code) {
                    (InputType::I16, Code::E4m3) => {
                        let (quants, power) = floats(s, codes);
                        (quants, s.mul(scale, power), min)
                    }
                    (InputType::I16, code) => (indices(s, code, codes), s.mul(scale, s.splat(1.0 / steps(code))), min),
                    (InputType::I8, code) => {
                        let mut quants = integers(s, code.bits(), codes);
                        let mut min = min;
                        if K::WIDE {
                            // Half of the codes become negative, which the min makes up for.
                            for j in 0..8 {
                                quants[j] = s.wide(s.add_bytes(quants[j], 128));
                            }
                            min = s.fma(scale, s.splat(128.0), min);
                        }
                        (quants, scale, min)
                    }
                };
                store_quants::<S, K, R>(s, quants, tile);
                let registers = const { K::INPUT.registers() };
                s.store_f32(tile.add(64 * R * registers).cast(), scale);
                if K::MIN {
                    s.store_f32(tile.add(64 * R * (registers + 1)).cast(), min);
                }
                tile = tile.add(tile_bytes::<K>() * R);
            }
            w = w.add(PANEL_ROWS * grouped.block_bytes());
        }
    }
}

/// Reads the scales of a block, and the mins, with which a value is `scale * q + min`.
///
/// # Safety
/// `p` points to a block.
#[inline(always)]
unsafe fn numbers<S: Simd>(s: S, grouped: Grouped, p: *const u8) -> (S::F, S::F) {
    // SAFETY: inside the block.
    unsafe {
        let (scale, offset) = (load(s, grouped.scale, p), p.add(PANEL_ROWS * grouped.scale.bytes()));
        let minus = s.mul(scale, s.splat(-1.0));
        let min = match grouped.offset {
            Offset::None => s.splat(0.0),
            Offset::Zero => s.mul(s.load_u8(offset), minus),
            Offset::ZeroNumber => s.mul(load(s, grouped.scale, offset), minus),
            Offset::Bias => load(s, grouped.scale, offset),
            Offset::CentredBias => s.fma(scale, s.splat(-grouped.centre()), load(s, grouped.scale, offset)),
        };
        (scale, min)
    }
}

/// Reads sixteen numbers.
///
/// # Safety
/// `p` points to them.
#[inline(always)]
unsafe fn load<S: Simd>(s: S, number: Number, p: *const u8) -> S::F {
    // SAFETY: by this function's contract.
    unsafe {
        match number {
            Number::F16 => s.load_f16(p),
            Number::Bf16 => s.load_bf16(p),
            Number::F32 => s.load_f32(p.cast()),
        }
    }
}

/// Decodes codes of 32 columns, columns `4 j .. 4 j + 4` to vector `j` of eight.
///
/// # Safety
/// `p` points to the codes.
#[inline(always)]
unsafe fn integers<S: Simd>(s: S, bits: usize, mut p: *const u8) -> [S::I; 16] {
    let mut out = [s.splat_i32(0); 16];
    for (plane, at) in planes(bits) {
        let mask = (((1u16 << plane) - 1) << at) as u8;
        for j in 0..8 {
            // SAFETY: a plane has so many words.
            let word = unsafe { s.load_bytes(p.add(64 * (j * plane / 8))) };
            out[j] = s.or(out[j], s.field(word, (j * plane % 8) as i32 - at as i32, mask));
        }
        p = p.wrapping_add(64 * plane);
    }
    out
}

/// The integer that stands for 1 in a table: one with which all values are integers, or the largest.
const fn steps(code: Code) -> f32 {
    match code {
        Code::Fp4 => 192.0,
        _ => 8191.0,
    }
}

/// Decodes codes of 32 columns that are indices into a table, two columns to a vector.
///
/// # Safety
/// `p` points to the codes.
#[inline(always)]
unsafe fn indices<S: Simd>(s: S, code: Code, p: *const u8) -> [S::I; 16] {
    let mut table = [0i16; 16];
    for (to, value) in table.iter_mut().zip(code.table().into_iter().flatten()) {
        *to = (value * steps(code)).round_ties_even() as i16;
    }
    // SAFETY: by this function's contract.
    let quants = unsafe { integers(s, 4, p) };
    let mut out = [s.splat_i32(0); 16];
    for j in 0..8 {
        let mut bytes = [0u8; 4 * PANEL_ROWS];
        // SAFETY: 64 bytes.
        unsafe { s.store_bytes(bytes.as_mut_ptr(), quants[j]) };
        for half in 0..2 {
            let mut pairs = [0i16; 2 * PANEL_ROWS];
            for (i, pair) in pairs.iter_mut().enumerate() {
                *pair = table[usize::from(bytes[4 * (i / 2) + 2 * half + i % 2] & 15)];
            }
            // SAFETY: 64 bytes.
            out[2 * j + half] = unsafe { s.load_bytes(pairs.as_ptr().cast()) };
        }
    }
    out
}

/// Decodes floats of 32 columns, two columns to a vector, and their power of two.
///
/// # Safety
/// `p` points to the codes.
#[inline(always)]
unsafe fn floats<S: Simd>(s: S, p: *const u8) -> ([S::I; 16], S::F) {
    let (mut values, mut max) = ([s.splat(0.0); GROUP], s.splat_i32(0));
    for column in 0..GROUP {
        let mut bytes = [0u8; PANEL_ROWS];
        for (row, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: 512 bytes, four columns of a row together.
            *byte = unsafe { *p.add(64 * (column / 4) + 4 * row + column % 4) };
        }
        // SAFETY: sixteen bytes.
        values[column] = unsafe { F8::load(s, bytes.as_ptr()) };
        max = s.max_magnitude(max, values[column]);
    }
    let power = s.pair_scale(max);
    let inverse = s.inverse_power(power);
    let mut out = [s.splat_i32(0); 16];
    for j in 0..16 {
        out[j] = s.round_to_pair(s.mul(values[2 * j], inverse), s.mul(values[2 * j + 1], inverse));
    }
    (out, power)
}
