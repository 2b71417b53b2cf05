//! The decoder of `quant::grouped`: one for all of these formats, whose parameters are known at run time.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::marker::PhantomData;

use super::activations::InputType;
use super::codec::Kind;
use super::float::{F8, Float};
use super::gemm::store_quants;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::gemm::{add_tokens, load_results, prefetch_ahead, store_results};
use super::simd::{GROUP, PANEL_ROWS, Simd};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::weight_group::CodeGroup;
use super::weight_group::tile_bytes;
use crate::quant::grouped::{Code, Grouped, Number, Offset};
use crate::tensor::DType;

/// The kinds of grouped formats.
pub enum GroupedKind {
    /// Integers of at most 4 bits, `codec::Min4`: more of their products fit a 16-bit sum.
    Four,
    /// Integers of 5 bits, `codec::Min5`.
    Five,
    /// Integers of 6 and 7 bits, `codec::Min7`.
    Seven,
    /// Integers of 8 bits, `codec::WideMin`.
    Bytes,
    /// Floats, `codec::Int16`.
    Floats,
}

/// Returns the kind of a type; `None` for other types.
pub fn kind(dtype: DType) -> Option<GroupedKind> {
    Some(match Grouped::of(dtype)?.code {
        Code::Int(..=4) => GroupedKind::Four,
        Code::Int(5) => GroupedKind::Five,
        Code::Int(6 | 7) => GroupedKind::Seven,
        Code::Int(_) => GroupedKind::Bytes,
        Code::Nf4 | Code::Fp4 | Code::E4m3 => GroupedKind::Floats,
    })
}

/// Runs `$run` with the code as a constant, for codes of the kind `$K`. In a loop shared by the decoders of several
/// codes, offsets and shifts would be run-time values, and the integers of a group would move through memory.
macro_rules! for_code {
    ($K:ty, $code:expr, $run:ident) => {
        match $code {
            Code::Int(1) if const { <$K>::BITS == 4 } => $run!(Code::Int(1)),
            Code::Int(2) if const { <$K>::BITS == 4 } => $run!(Code::Int(2)),
            Code::Int(3) if const { <$K>::BITS == 4 } => $run!(Code::Int(3)),
            Code::Int(4) if const { <$K>::BITS == 4 } => $run!(Code::Int(4)),
            Code::Int(5) if const { <$K>::BITS == 5 } => $run!(Code::Int(5)),
            Code::Int(6) if const { <$K>::BITS == 7 } => $run!(Code::Int(6)),
            Code::Int(7) if const { <$K>::BITS == 7 } => $run!(Code::Int(7)),
            Code::Int(8) if const { <$K>::BITS == 8 } => $run!(Code::Int(8)),
            Code::Nf4 if const { <$K>::BITS == 16 } => $run!(Code::Nf4),
            Code::Fp4 if const { <$K>::BITS == 16 } => $run!(Code::Fp4),
            Code::E4m3 if const { <$K>::BITS == 16 } => $run!(Code::E4m3),
            // Codes of another kind.
            Code::Int(_) | Code::Nf4 | Code::Fp4 | Code::E4m3 => {}
        }
    };
}

/// Unpacks `n` groups of 32 columns, whole blocks, as `gemm::unpack` does.
///
/// # Safety
/// `dtype` must be of the kind `K`, `w` must point to packed blocks of it and `tile` to a tile of their groups.
#[inline(always)]
pub unsafe fn unpack<S: Simd, K: Kind, const R: usize>(s: S, dtype: DType, w: *const u8, n: usize, tile: *mut u8) {
    let Some(grouped) = Grouped::of(dtype) else { return };
    macro_rules! unpack {
        ($code:expr) => {
            // SAFETY: the same contract.
            unsafe { unpack_blocks::<S, K, R>(s, Grouped { code: $code, ..grouped }, w, n, tile) }
        };
    }
    for_code!(K, grouped.code, unpack);
}

/// Implements `unpack`.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
unsafe fn unpack_blocks<S: Simd, K: Kind, const R: usize>(
    s: S,
    grouped: Grouped,
    mut w: *const u8,
    n: usize,
    mut tile: *mut u8,
) {
    let groups = grouped.columns / GROUP;
    for _ in 0..n / groups {
        // SAFETY: blocks and their groups are in bounds by this function's contract.
        unsafe {
            let (scale, min) = numbers(s, grouped, w);
            for b in 0..groups {
                let (quants, scale, min) = group::<S, K>(s, grouped, w.add(codes_at(grouped, b)), scale, min);
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

/// Multiplies `n` groups of 32 columns, whole blocks of one row panel, with `N` tokens, as `gemm::gemv` does.
///
/// # Safety
/// `dtype` must be of the kind `K`; otherwise as for `gemm::gemv`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub unsafe fn gemv<S: Simd, K: Kind, const N: usize>(
    s: S,
    dtype: DType,
    w: *const u8,
    n: usize,
    x: *const u8,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    let Some(grouped) = Grouped::of(dtype) else { return };
    macro_rules! multiply {
        ($code:expr) => {
            // SAFETY: the same contract.
            unsafe { gemv_blocks::<S, K, N>(s, Grouped { code: $code, ..grouped }, w, n, x, sum, first, out, stride) }
        };
    }
    for_code!(K, grouped.code, multiply);
}

/// Implements `gemv`.
///
/// # Safety
/// As for `gemv`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn gemv_blocks<S: Simd, K: Kind, const N: usize>(
    s: S,
    grouped: Grouped,
    mut w: *const u8,
    n: usize,
    mut x: *const u8,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    let groups = grouped.columns / GROUP;
    // SAFETY: results, blocks and activations are in bounds by this function's contract.
    unsafe {
        let mut acc = load_results::<S, 1, N>(s, sum, first);
        for _ in 0..n / groups {
            let (scale, min) = numbers(s, grouped, w);
            for b in 0..groups {
                let codes = w.add(codes_at(grouped, b));
                for line in 0..PANEL_ROWS * grouped.chunk_bytes() / 64 {
                    prefetch_ahead(codes.wrapping_add(64 * line));
                }
                let (quants, scale, min) = group::<S, K>(s, grouped, codes, scale, min);
                let group = CodeGroup::<S, K> { quants, scale, min, kind: PhantomData };
                add_tokens::<S, K, _, N>(s, &group, x, &mut acc);
                x = x.add(K::INPUT.bytes() * N);
            }
            w = w.add(PANEL_ROWS * grouped.block_bytes());
        }
        store_results(s, acc, out, stride);
    }
}

/// Returns the offset of the codes of group `b` in a block of sixteen rows.
#[inline(always)]
fn codes_at(grouped: Grouped, b: usize) -> usize {
    PANEL_ROWS * (grouped.scale.bytes() + grouped.offset_bytes() + grouped.chunk_bytes() * b)
}

/// Decodes a group to its integers, scale and min, given the scale and min of its block.
///
/// # Safety
/// `codes` must point to the codes of 32 columns.
#[inline(always)]
unsafe fn group<S: Simd, K: Kind>(
    s: S,
    grouped: Grouped,
    codes: *const u8,
    scale: S::F,
    min: S::F,
) -> ([S::I; 16], S::F, S::F) {
    // SAFETY: by this function's contract.
    unsafe {
        match (K::INPUT, grouped.code) {
            (InputType::I16, Code::E4m3) => {
                let (quants, power) = floats(s, codes);
                (quants, s.mul(scale, power), min)
            }
            (InputType::I16, code) => (indices(s, code, codes), s.mul(scale, s.splat(1.0 / steps(code))), min),
            (_, Code::Int(8)) => {
                let mut quants = integers::<S, 8>(s, codes);
                // Half of the codes become negative; the min compensates.
                for j in 0..8 {
                    quants[j] = s.wide(s.add_bytes(quants[j], 128));
                }
                (quants, scale, s.fma(scale, s.splat(128.0), min))
            }
            (_, code) => {
                let quants = match code {
                    Code::Int(1) => integers::<S, 1>(s, codes),
                    Code::Int(2) => integers::<S, 2>(s, codes),
                    Code::Int(3) => integers::<S, 3>(s, codes),
                    Code::Int(5) => integers::<S, 5>(s, codes),
                    Code::Int(6) => integers::<S, 6>(s, codes),
                    Code::Int(7) => integers::<S, 7>(s, codes),
                    _ => integers::<S, 4>(s, codes),
                };
                (quants, scale, min)
            }
        }
    }
}

/// Reads the scales and mins of a block; a value is `scale * q + min`.
///
/// # Safety
/// `p` must point to a block.
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
            Offset::CenteredBias => s.fma(scale, s.splat(-grouped.center()), load(s, grouped.scale, offset)),
        };
        (scale, min)
    }
}

/// Reads sixteen numbers.
///
/// # Safety
/// `p` must point to sixteen numbers.
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

/// Decodes the codes of 32 columns, columns `4 j .. 4 j + 4` to vector `j` of eight.
///
/// # Safety
/// `p` must point to the codes.
#[inline(always)]
unsafe fn integers<S: Simd, const BITS: usize>(s: S, p: *const u8) -> [S::I; 16] {
    let mut out = [s.splat_i32(0); 16];
    macro_rules! add_plane {
        ($bits:literal) => {
            if const { BITS & $bits != 0 } {
                // Wider planes come first and hold the lower bits.
                let (first, at) = const { (64 * (BITS & !(2 * $bits - 1)), BITS & !(2 * $bits - 1)) };
                let mask = const { ((1u32 << $bits) - 1) << (BITS & !(2 * $bits - 1)) };
                for j in 0..8 {
                    // SAFETY: a plane has this many words.
                    let word = unsafe { s.load_bytes(p.add(first + 64 * (j * $bits / 8))) };
                    out[j] = s.or(out[j], s.field(word, (j * $bits % 8) as i32 - at as i32, mask as u8));
                }
            }
        };
    }
    add_plane!(8);
    add_plane!(4);
    add_plane!(2);
    add_plane!(1);
    out
}

/// Returns the integer that represents 1 in a table: one that makes all values integers, or the largest.
const fn steps(code: Code) -> f32 {
    match code {
        Code::Fp4 => 192.0,
        _ => 8191.0,
    }
}

/// Returns the integers of a table: their low bytes and their high bytes.
const fn bytes_of(code: Code) -> [[i8; 16]; 2] {
    let (mut bytes, mut i) = ([[0; 16]; 2], 0);
    while i < 16 {
        let value = match code.table() {
            Some(table) => table[i] * steps(code),
            None => 0.0,
        };
        let rounded = (value + if value < 0.0 { -0.5 } else { 0.5 }) as i16;
        let [low, high] = rounded.to_le_bytes();
        (bytes[0][i], bytes[1][i]) = (low as i8, high as i8);
        i += 1;
    }
    bytes
}

/// Decodes codes of 32 columns that are table indices, two columns per vector.
///
/// # Safety
/// `p` must point to the codes.
#[inline(always)]
unsafe fn indices<S: Simd>(s: S, code: Code, p: *const u8) -> [S::I; 16] {
    let table = match code {
        Code::Fp4 => const { &bytes_of(Code::Fp4) },
        _ => const { &bytes_of(Code::Nf4) },
    };
    // SAFETY: by this function's contract.
    let quants = unsafe { integers::<S, 4>(s, p) };
    let mut out = [s.splat_i32(0); 16];
    for j in 0..8 {
        let [low, high] = [s.lookup(&table[0], quants[j]), s.lookup(&table[1], quants[j])];
        let even = s.or(s.bits(low, 0, 0xff), s.bits(low, -8, 0xff << 16));
        let odd = s.or(s.bits(low, 16, 0xff), s.bits(low, 8, 0xff << 16));
        out[2 * j] = s.or(even, s.or(s.bits(high, -8, 0xff << 8), s.bits(high, -16, 0xff << 24)));
        out[2 * j + 1] = s.or(odd, s.or(s.bits(high, 8, 0xff << 8), s.bits(high, 0, 0xff << 24)));
    }
    out
}

/// Decodes the floats of 32 columns, two columns per vector, and their power of two.
///
/// # Safety
/// `p` must point to the codes.
#[inline(always)]
unsafe fn floats<S: Simd>(s: S, p: *const u8) -> ([S::I; 16], S::F) {
    let (mut values, mut max) = ([s.splat(0.0); GROUP], s.splat_i32(0));
    for column in 0..GROUP {
        let mut bytes = [0u8; PANEL_ROWS];
        for (row, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: 512 bytes, four columns of a row adjacent.
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
