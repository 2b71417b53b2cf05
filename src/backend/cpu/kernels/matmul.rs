//! The loops of matrix multiplication, written once over `Simd` and instantiated for each instruction set.
//!
//! Rows lie in lanes: a group is sixteen rows. Every result is built in the same order whichever loop makes it: for
//! each set of 32 columns `acc += isum * (scale * x_scale)`, or `acc += (isum0 * scale0 + isum1 * scale1) * x_scale` where
//! its halves have scales of their own, then `acc += x_min * min` for each min; `isum` is an exact integer, and every
//! product is fused with the sum to its left. One column goes straight from packed weights to the result (`fused`); more columns
//! share a tile of unpacked weights in the first-level cache (`unpack`, then `multiply` for each few columns).
#![allow(unsafe_code)]
// Loops over registers are written over indices, which unroll.
#![allow(clippy::needless_range_loop)]

use std::array;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

use super::codec::{Codec, Kind};
use super::prefetch;
use super::simd::Simd;
use super::small::{Columns, packing};
use crate::tensor::DType;

/// Rows of a group, one a lane.
pub const GROUP: usize = 16;

/// Columns of a set that share a scale of the activations.
pub const SET: usize = 32;

/// Activations: for each set of 32 columns the records of some tokens, one after the other. A record begins with the
/// quants in the order of the columns.
pub mod record {
    /// f32
    pub const SCALE: usize = 32;
    /// i32: -64 times the sum of the quants, for weights that are stored with an offset.
    pub const ZERO: usize = 36;
    /// f32: scale times sum, the factor of mins.
    pub const MIN: usize = 40;
    /// The same two for both halves of the set, half by half.
    pub const ZERO_HALVES: usize = 44;
    pub const MIN_HALVES: usize = 52;
    pub const BYTES: usize = 60;
    /// Of 16-bit quants, which have a scale and nothing else.
    pub const PAIRS_SCALE: usize = 64;
    pub const PAIRS_BYTES: usize = 68;
}

/// What the activations become before they are multiplied with a format's weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// 8 bits a value.
    Bytes,
    /// 16 bits a value, for weights of 16 bits.
    Pairs,
}

impl Activation {
    /// Of a token's record.
    pub const fn bytes(self) -> usize {
        match self {
            Activation::Bytes => record::BYTES,
            Activation::Pairs => record::PAIRS_BYTES,
        }
    }

    const fn scale(self) -> usize {
        match self {
            Activation::Bytes => record::SCALE,
            Activation::Pairs => record::PAIRS_SCALE,
        }
    }

    /// Registers of quants of 32 columns.
    const fn registers(self) -> usize {
        match self {
            Activation::Bytes => 8,
            Activation::Pairs => 16,
        }
    }
}

/// Bytes of a group in one set of 32 columns of a tile: quants, scales, mins.
pub const fn tile_bytes<K: Kind>() -> usize {
    64 * (K::ACTIVATION.registers() + K::SUBS * (1 + K::MIN as usize))
}

/// Zero point of unpacked bytes of 7 bits, whatever it was in the packed format.
const TILE_ZERO: i32 = 64;

/// First value of an integer sum: what makes up for the zero point.
#[inline(always)]
unsafe fn start<S: Simd>(s: S, x: *const u8, zero: i32) -> S::I {
    if zero == 0 {
        return s.splat(0);
    }
    // SAFETY: the callers' records hold it.
    let minus_64_sums = s.splat(unsafe { x.cast::<i32>().read_unaligned() });
    let shift = zero.trailing_zeros() as i32 - TILE_ZERO.trailing_zeros() as i32;
    if shift == 0 { minus_64_sums } else { s.shift(minus_64_sums, shift) }
}

#[inline(always)]
fn dot<S: Simd, K: Kind>(s: S, acc: S::I, w: S::I, x: i32) -> S::I {
    match K::ACTIVATION {
        Activation::Pairs => s.dot_pairs(acc, w, x),
        Activation::Bytes if K::WIDE => s.dot_wide(acc, w, x),
        Activation::Bytes => s.dot(acc, w, x),
    }
}

#[inline(always)]
unsafe fn read<T: Copy>(p: *const u8, offset: usize) -> T {
    // SAFETY: by the callers' contract.
    unsafe { p.add(offset).cast::<T>().read_unaligned() }
}

/// `$body` for each constant `$i` of 0..16 below the constant `$n`, unrolled, so that shifts and offsets are constants. Loops with
/// inline assembly in them are not unrolled by the compiler.
macro_rules! unroll {
    ($i:ident < $n:expr, $body:block) => {
        unroll!(@ $n, $body, $i, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $n:expr, $body:block, $i:ident, $($k:literal)*) => {
        $(if const { $k < $n } {
            let $i: usize = $k;
            $body
        })*
    };
}

pub(super) use unroll;

/// How many bytes ahead of its use a weight is asked for: of one stream, of several, and of a panel, which is itself not
/// much longer.
const PREFETCH: usize = 8192;
const FLOAT_PREFETCH: usize = 2048;
const PANEL_PREFETCH: usize = 4096;

/// Asks for what will be block `b` of the block `ahead` bytes ahead.
#[inline(always)]
fn prefetch_block<Q: Codec>(w: *const u8, b: usize, ahead: usize) {
    // Without the fence the compiler gathers all prefetches of a loop at its end, where they come at once and late.
    compiler_fence(Ordering::SeqCst);
    let lines = Q::BYTES.div_ceil(64);
    for line in b * lines / Q::BLOCKS..(b + 1) * lines / Q::BLOCKS {
        prefetch::near(w.wrapping_add(ahead + 64 * line));
    }
}

/// The weights of one set of 32 columns and `R` groups, wherever they are.
trait Weights<S: Simd> {
    /// Zero point of the bytes.
    const ZERO: i32;
    /// # Safety
    /// Of all three: `r` is one of the groups, and what the set points to is readable.
    unsafe fn quants(&self, s: S, r: usize, j: usize) -> S::I;
    /// Of the set or one of its halves.
    unsafe fn scale(&self, s: S, r: usize, half: usize) -> S::F;
    unsafe fn min(&self, s: S, r: usize, half: usize) -> S::F;
}

/// A set of one group in registers, number `b` of its block.
struct Block<'a, S: Simd, Q> {
    quants: [S::I; 16],
    scale: &'a [S::F; 16],
    min: &'a [S::F; 16],
    b: usize,
    codec: PhantomData<Q>,
}

impl<S: Simd, Q: Codec> Weights<S> for Block<'_, S, Q> {
    const ZERO: i32 = if Q::Kind::WIDE { S::WIDE_ZERO } else { Q::ZERO };
    #[inline(always)]
    unsafe fn quants(&self, _: S, _: usize, j: usize) -> S::I {
        self.quants[j]
    }
    #[inline(always)]
    unsafe fn scale(&self, _: S, _: usize, half: usize) -> S::F {
        self.scale[Q::Kind::SUBS * self.b + half]
    }
    #[inline(always)]
    unsafe fn min(&self, _: S, _: usize, half: usize) -> S::F {
        self.min[Q::Kind::SUBS * self.b + half]
    }
}

/// A set of a tile made by `unpack`.
struct TileSet<K, const R: usize>(*const u8, PhantomData<K>);

impl<S: Simd, K: Kind, const R: usize> Weights<S> for TileSet<K, R> {
    const ZERO: i32 = match (K::ACTIVATION, K::MIN, K::WIDE) {
        (Activation::Pairs, ..) | (_, true, _) => 0,
        (_, _, true) => S::WIDE_ZERO,
        _ => TILE_ZERO,
    };
    #[inline(always)]
    unsafe fn quants(&self, s: S, r: usize, j: usize) -> S::I {
        // SAFETY: inside the set.
        unsafe { s.load(self.0.add(64 * (R * j + r))) }
    }
    #[inline(always)]
    unsafe fn scale(&self, s: S, r: usize, half: usize) -> S::F {
        // SAFETY: inside the set.
        unsafe { s.load_f32(self.0.add(64 * (R * (K::ACTIVATION.registers() + half) + r)).cast()) }
    }
    #[inline(always)]
    unsafe fn min(&self, s: S, r: usize, half: usize) -> S::F {
        // SAFETY: inside the set, for kinds that have mins.
        unsafe { s.load_f32(self.0.add(64 * (R * (K::ACTIVATION.registers() + K::SUBS + half) + r)).cast()) }
    }
}

/// Adds the products of a set of `R` groups with `N` tokens to `acc`.
///
/// # Safety
/// `w` is readable and `x` points to the set's record of `N` tokens.
#[inline(always)]
unsafe fn add_set<S: Simd, K: Kind, W: Weights<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    acc: &mut [[S::F; N]; R],
) {
    let (registers, bytes) = const { (K::ACTIVATION.registers(), K::ACTIVATION.bytes()) };
    // A single chain of sums would wait for itself; integers may be added in any order. For pairs waiting takes longer,
    // but 2 and 3 are the tiles of instruction sets that have no registers for more chains.
    let chains = match (K::ACTIVATION, R * N * K::SUBS) {
        (_, 1) | (Activation::Bytes, 2..4) | (Activation::Pairs, 4..) => 2,
        _ => 1,
    };
    // SAFETY: set and record are readable by this function's contract.
    unsafe {
        // The first half's sums times their scales.
        let mut scaled = [[s.splat_f32(0.0); N]; R];
        for half in 0..K::SUBS {
            let mut sum = [[s.splat(0); N]; R];
            let mut other = [[s.splat(0); N]; R];
            for t in 0..N {
                let offset = if K::SUBS == 1 { record::ZERO } else { record::ZERO_HALVES + 4 * half };
                let start = start(s, x.wrapping_add(bytes * t + offset), const { W::ZERO });
                for r in 0..R {
                    sum[r][t] = start;
                }
            }
            macro_rules! column {
                ($j:expr) => {
                    let mut weights = [s.splat(0); R];
                    for r in 0..R {
                        weights[r] = w.quants(s, r, $j);
                    }
                    for t in 0..N {
                        let x = read(x, bytes * t + 4 * $j);
                        for r in 0..R {
                            if chains == 2 && $j % 2 == 1 {
                                other[r][t] = dot::<S, K>(s, other[r][t], weights[r], x);
                            } else {
                                sum[r][t] = dot::<S, K>(s, sum[r][t], weights[r], x);
                            }
                        }
                    }
                };
            }
            // By hand only where the compiler does not do it: many copies take it minutes.
            if const { matches!(K::ACTIVATION, Activation::Pairs) } {
                unroll!(j < K::ACTIVATION.registers(), {
                    column!(j);
                });
            } else {
                for j in half * registers / K::SUBS..(half + 1) * registers / K::SUBS {
                    column!(j);
                }
            }
            for r in 0..R {
                let scale = w.scale(s, r, half);
                for t in 0..N {
                    let x_scale = s.splat_f32(read(x, bytes * t + K::ACTIVATION.scale()));
                    let sum = s.to_f32(if chains == 2 { s.add(sum[r][t], other[r][t]) } else { sum[r][t] });
                    if K::SUBS == 1 {
                        acc[r][t] = s.fma(sum, s.mul(scale, x_scale), acc[r][t]);
                    } else if half == 0 {
                        scaled[r][t] = s.mul(sum, scale);
                    } else {
                        acc[r][t] = s.fma(s.fma(sum, scale, scaled[r][t]), x_scale, acc[r][t]);
                    }
                }
            }
        }
        for half in 0..if K::MIN { K::SUBS } else { 0 } {
            let offset = if K::SUBS == 1 { record::MIN } else { record::MIN_HALVES + 4 * half };
            for r in 0..R {
                let min = w.min(s, r, half);
                for t in 0..N {
                    acc[r][t] = s.fma(min, s.splat_f32(read(x, bytes * t + offset)), acc[r][t]);
                }
            }
        }
    }
}

/// `R` groups' rows of `N` tokens, one token after the other, or zeros.
///
/// # Safety
/// `out` points to that many values where it is read.
#[inline(always)]
unsafe fn load_results<S: Simd, const R: usize, const N: usize>(s: S, out: *const f32, zero: bool) -> [[S::F; N]; R] {
    let mut acc = [[s.splat_f32(0.0); N]; R];
    if !zero {
        for r in 0..R {
            for t in 0..N {
                // SAFETY: one of the results.
                acc[r][t] = unsafe { s.load_f32(out.add(GROUP * (R * t + r))) };
            }
        }
    }
    acc
}

/// The inverse of `load_results`, with tokens `stride` values apart.
///
/// # Safety
/// Every row of every token at `out` is writable.
#[inline(always)]
unsafe fn store_results<S: Simd, const R: usize, const N: usize>(
    s: S,
    acc: [[S::F; N]; R],
    out: *mut f32,
    stride: usize,
) {
    for r in 0..R {
        for t in 0..N {
            // SAFETY: one of the results.
            unsafe { s.store_f32(out.add(stride * t + GROUP * r), acc[r][t]) }
        }
    }
}

/// `n` packed blocks of one group times `N` tokens, with results as in `multiply`.
///
/// # Safety
/// `w` points to `n * Q::BYTES` bytes, `x` to `n * Q::BLOCKS` records of `N` tokens, `sum` and `out` to results.
#[inline(always)]
pub unsafe fn fused<S: Simd, Q: Codec, const N: usize>(
    s: S,
    mut w: *const u8,
    n: usize,
    mut x: *const u8,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: results, blocks and records are inside by this function's contract.
    unsafe {
        let mut acc = load_results::<S, 1, N>(s, sum, first);
        for _ in 0..n {
            let (mut scale, mut min) = ([s.splat_f32(0.0); 16], [s.splat_f32(0.0); 16]);
            Q::scales(s, w, &mut scale, &mut min);
            unroll!(b < Q::BLOCKS, {
                prefetch_block::<Q>(w, b, PREFETCH);
                let quants = quants_of_set::<S, Q>(s, w, b, &scale);
                let set = Block::<S, Q> { quants, scale: &scale, min: &min, b, codec: PhantomData };
                let bytes = const { Q::Kind::ACTIVATION.bytes() };
                if N <= 4 {
                    add_set::<S, Q::Kind, _, 1, N>(s, &set, x, &mut acc);
                } else {
                    // Four at a time: with more, the compiler moves all products of a block behind its loads, which
                    // then go through memory.
                    unroll!(i < N / 4, {
                        let acc = array::from_mut(&mut acc[0].as_chunks_mut::<4>().0[i]);
                        add_set::<S, Q::Kind, _, 1, 4>(s, &set, x.add(bytes * 4 * i), acc);
                    });
                }
                x = x.add(bytes * N);
            });
            w = w.add(Q::BYTES);
        }
        store_results(s, acc, out, stride);
    }
}

/// Set `b` of a block, in as many registers as its kind has.
///
/// # Safety
/// `w` points to a block.
#[inline(always)]
unsafe fn quants_of_set<S: Simd, Q: Codec>(s: S, w: *const u8, b: usize, scale: &[S::F; 16]) -> [S::I; 16] {
    let mut quants = [s.splat(0); 16];
    let octets = const { Q::Kind::ACTIVATION.registers() / 8 };
    unroll!(octet < Q::Kind::ACTIVATION.registers() / 8, {
        // SAFETY: by this function's contract.
        let part = unsafe { Q::quants(s, w, octets * b + octet, scale[Q::Kind::SUBS * b]) };
        for j in 0..8 {
            quants[8 * octet + j] = part[j];
        }
    });
    quants
}

/// Unpacks `n` blocks of one group into a tile of `R` groups, whose sets of 32 columns hold `R` times the kind's
/// registers of quants, then `R` of f32 scales for each sub-block, then the mins likewise. `tile` points to the group's
/// first register.
///
/// # Safety
/// `w` points to `n * Q::BYTES` bytes, `tile` to a tile of `n * Q::BLOCKS` sets.
#[inline(always)]
pub unsafe fn unpack<S: Simd, Q: Codec, const R: usize>(s: S, mut w: *const u8, n: usize, mut tile: *mut u8) {
    let registers = const { Q::Kind::ACTIVATION.registers() };
    for _ in 0..n {
        let (mut scale, mut min) = ([s.splat_f32(0.0); 16], [s.splat_f32(0.0); 16]);
        // SAFETY: block and sets are inside by this function's contract.
        unsafe {
            Q::scales(s, w, &mut scale, &mut min);
            unroll!(b < Q::BLOCKS, {
                prefetch_block::<Q>(w, b, PANEL_PREFETCH);
                let quants = quants_of_set::<S, Q>(s, w, b, &scale);
                for j in 0..registers {
                    let shifted = Q::Kind::ACTIVATION == Activation::Bytes && !Q::Kind::WIDE && !Q::Kind::MIN;
                    let q = if shifted { s.add_bytes(quants[j], (TILE_ZERO - Q::ZERO) as u8) } else { quants[j] };
                    s.store(tile.add(64 * R * j), q);
                }
                for half in 0..Q::Kind::SUBS {
                    let i = Q::Kind::SUBS * b + half;
                    s.store_f32(tile.add(64 * R * (registers + half)).cast(), scale[i]);
                    if Q::Kind::MIN {
                        s.store_f32(tile.add(64 * R * (registers + Q::Kind::SUBS + half)).cast(), min[i]);
                    }
                }
                tile = tile.add(tile_bytes::<Q::Kind>() * R);
            });
            w = w.add(Q::BYTES);
        }
    }
}

/// A tile of `R` groups and `n` sets of 32 columns times `N` tokens, added to the results of earlier columns unless
/// they are the `first`. Results lie token by token, `R` groups each: those before at `sum`, the new ones at `out`,
/// `stride` values from one token to the next.
///
/// # Safety
/// `tile` points to `n` sets of a tile made by `unpack`, `x` to `n` records of `N` tokens, `sum` and `out` to results.
#[inline(always)]
pub unsafe fn multiply<S: Simd, K: Kind, const R: usize, const N: usize>(
    s: S,
    mut tile: *const u8,
    n: usize,
    mut x: *const u8,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    // Where the next tokens' results will go, which may be far apart in memory.
    for t in N..2 * N {
        for r in 0..R {
            prefetch::near(out.wrapping_add(t * stride + GROUP * r).cast());
        }
    }
    // SAFETY: results, sets and records are inside by this function's contract.
    unsafe {
        let mut acc = load_results::<S, R, N>(s, sum, first);
        for _ in 0..n {
            add_set::<S, K, _, R, N>(s, &TileSet::<K, R>(tile, PhantomData), x, &mut acc);
            x = x.add(K::ACTIVATION.bytes() * N);
            tile = tile.add(tile_bytes::<K>() * R);
        }
        store_results(s, acc, out, stride);
    }
}

/// Groups of float weights that are multiplied with one token at once: enough chains to hide the latency of a fused
/// multiply-add.
pub const ONE_TOKEN_GROUPS: usize = 4;
pub type FloatGroups = [*const u8; ONE_TOKEN_GROUPS];

/// How sixteen float weights are read.
pub trait Float {
    /// Of one weight.
    const BYTES: usize;
    /// # Safety
    /// `p` points to sixteen weights.
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F;
}

pub struct F32;
impl Float for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by contract.
        unsafe { s.load_f32(p.cast()) }
    }
}

pub struct F16;
impl Float for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by contract.
        unsafe { s.load_f16(p) }
    }
}

pub struct Bf16;
impl Float for Bf16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        // SAFETY: by contract.
        unsafe { s.load_bf16(p) }
    }
}

/// E4M3. The same exponent and mantissa are 2^-8 of the number in binary16.
pub struct F8;
impl Float for F8 {
    const BYTES: usize = 1;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u8) -> S::F {
        let mut halves = [0u16; GROUP];
        for row in 0..GROUP {
            // SAFETY: by contract.
            let bits = u16::from(unsafe { *p.add(row) });
            let nan = if bits & 0x7f == 0x7f { 0x7c00 } else { 0 };
            halves[row] = (bits & 0x80) << 8 | (bits & 0x7f) << 7 | nan;
        }
        // SAFETY: sixteen of 16 bits.
        s.mul(unsafe { s.load_f16(halves.as_ptr().cast()) }, s.splat_f32(256.0))
    }
}

/// `R` groups of float weights times `N` tokens, `x_stride` values apart, over `n` columns: sets the results where
/// `first`, adds to them otherwise, as `multiply` does.
///
/// # Safety
/// The first `R` pointers of `w` point to `16 n` weights each, each token has `n` values, `out` points to the results.
#[inline(always)]
pub unsafe fn multiply_floats<S: Simd, T: Float, const R: usize, const N: usize>(
    s: S,
    w: &FloatGroups,
    n: usize,
    x: *const f32,
    x_stride: usize,
    out: *mut f32,
    first: bool,
) {
    // SAFETY: results, weights and values are inside by this function's contract.
    unsafe {
        let mut acc = load_results::<S, R, N>(s, out, first);
        for k in 0..n {
            let mut weights = [s.splat_f32(0.0); R];
            for r in 0..R {
                weights[r] = T::load(s, w[r].add(GROUP * T::BYTES * k));
            }
            if N == 1 {
                for r in 0..R {
                    prefetch::near(w[r].wrapping_add(GROUP * T::BYTES * k + FLOAT_PREFETCH));
                }
            }
            for t in 0..N {
                let x = s.splat_f32(*x.add(t * x_stride + k));
                for r in 0..R {
                    acc[r][t] = s.fma(weights[r], x, acc[r][t]);
                }
            }
        }
        store_results(s, acc, out, GROUP * R);
    }
}

/// Writes the records of one token, number `t` of `n` side by side: for each 32 values, `scale = max |x| / 127` and
/// `q = round(x / scale)`, ties to even. A value that is not finite makes the products of its whole set so. What belongs
/// to the halves of sets is written only where `halves`.
#[inline(always)]
pub fn quantise<S: Simd>(s: S, x: &[f32], records: &mut [u8], n: usize, t: usize, halves: bool) {
    assert!(t < n);
    for (x, records) in x.as_chunks::<SET>().0.iter().zip(records.chunks_exact_mut(record::BYTES * n)) {
        // SAFETY: 32 values.
        let (a, b) = unsafe { (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(GROUP))) };
        let (scale, inverse) = scales_of_set(s.peak(a, b), 127.0);
        let inverse = s.splat_f32(inverse);
        let (words, sums) = s.pack(s.to_i32(s.mul(a, inverse)), s.to_i32(s.mul(b, inverse)));
        let record = &mut records[record::BYTES * t..][..record::BYTES];
        // SAFETY: the words are as many bytes.
        unsafe { record.as_mut_ptr().cast::<[u32; 8]>().write_unaligned(words) }
        let mut put = |at: usize, value: [u8; 4]| record[at..at + 4].copy_from_slice(&value);
        put(record::SCALE, scale.to_ne_bytes());
        let sum = sums[0] + sums[1];
        put(record::ZERO, (-TILE_ZERO * sum).to_ne_bytes());
        put(record::MIN, (scale * sum as f32).to_ne_bytes());
        for (half, &sum) in sums.iter().enumerate().take(if halves { 2 } else { 0 }) {
            put(record::ZERO_HALVES + 4 * half, (-TILE_ZERO * sum).to_ne_bytes());
            put(record::MIN_HALVES + 4 * half, (scale * sum as f32).to_ne_bytes());
        }
    }
}

/// What a set is multiplied with after and before its quants of at most `most`.
#[inline(always)]
fn scales_of_set(max: f32, most: f32) -> (f32, f32) {
    // So small a set could overflow the inverse, and is nothing beside other values.
    if max < 1e-30 { (0.0, 0.0) } else { (max * (1.0 / most), most / max) }
}

/// `quantise` to 16 bits: `scale = max |x| / 8191`, so that 32 products with weights of that size fit in 32 bits.
#[inline(always)]
pub fn quantise_pairs<S: Simd>(s: S, x: &[f32], records: &mut [u8], n: usize, t: usize) {
    assert!(t < n);
    for (x, records) in x.as_chunks::<SET>().0.iter().zip(records.chunks_exact_mut(record::PAIRS_BYTES * n)) {
        // SAFETY: 32 values.
        let (a, b) = unsafe { (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(GROUP))) };
        let (scale, inverse) = scales_of_set(s.peak(a, b), PAIRS_MAX);
        let inverse = s.splat_f32(inverse);
        let mut q = [0i32; SET];
        // SAFETY: 64 bytes twice.
        unsafe {
            s.store(q.as_mut_ptr().cast(), s.to_i32(s.mul(a, inverse)));
            s.store(q.as_mut_ptr().add(GROUP).cast(), s.to_i32(s.mul(b, inverse)));
        }
        let record = &mut records[record::PAIRS_BYTES * t..][..record::PAIRS_BYTES];
        for (pair, q) in record.as_chunks_mut::<2>().0.iter_mut().zip(q) {
            *pair = (q as i16).to_ne_bytes();
        }
        record[record::PAIRS_SCALE..].copy_from_slice(&scale.to_ne_bytes());
    }
}

/// Largest quant of 16 bits: 32 products of two of them stay below 2^31.
const PAIRS_MAX: f32 = 8191.0;

/// `unpack` of one format.
pub type Unpack = unsafe fn(*const u8, usize, *mut u8);
/// `fused` of one format, or `multiply` of one kind, and number of tokens.
pub type Multiply = unsafe fn(*const u8, usize, *const u8, *const f32, bool, *mut f32, usize);
/// `multiply_floats` of one type and number of tokens.
pub type MultiplyFloats = unsafe fn(&FloatGroups, usize, *const f32, usize, *mut f32, bool);
/// `quantise`.
pub type Quantise = unsafe fn(&[f32], &mut [u8], usize, usize, bool);
/// `quantise_pairs`.
pub type QuantisePairs = unsafe fn(&[f32], &mut [u8], usize, usize);

/// `small::Pack` of one type.
pub type PackFloats = unsafe fn(&Columns, *mut u8);

/// The kernels of a block format.
pub struct BlockKernels {
    /// Sets of 32 columns in a block.
    pub sets: usize,
    pub activation: Activation,
    /// Whether halves of a set have scales of their own.
    pub halves: bool,
    /// Bytes of a group in a set of an unpacked tile.
    pub tile_bytes: usize,
    /// For 1, 2, 4, ... tokens.
    pub fused: &'static [Multiply],
    pub unpack: Unpack,
    /// By number of tokens less one.
    pub multiply: &'static [Multiply],
}

/// The kernels of a float type.
pub struct FloatKernels {
    /// One token and `ONE_TOKEN_GROUPS` groups.
    pub one_token: MultiplyFloats,
    /// By number of tokens less one.
    pub multiply: &'static [MultiplyFloats],
}

/// The matrix kernels of an instruction set.
pub struct Kernels {
    /// Groups in a tile.
    pub groups: usize,
    /// Most tokens in a call of `multiply`.
    pub tokens: usize,
    /// Most tokens in a call of `fused`, a power of two.
    pub few_tokens: usize,
    pub quantise: Quantise,
    pub quantise_pairs: QuantisePairs,
    /// For types that are packed as small floats.
    pub pack: fn(DType) -> Option<PackFloats>,
    pub blocks: fn(DType) -> Option<&'static BlockKernels>,
    pub floats: fn(DType) -> Option<&'static FloatKernels>,
}

impl Kernels {
    /// Packs a set of 32 columns and sixteen rows of 16-bit floats into exactly the bytes that they take.
    pub fn pack_floats(&self, dtype: DType, columns: &Columns, out: &mut [u8]) {
        let (Some(pack), Some(packing)) = ((self.pack)(dtype), packing(dtype)) else { return };
        assert!(out.len() == packing.bytes);
        // SAFETY: kernels come from an `Isa`, and so for an instruction set that is there; `out` is as long as they say.
        unsafe { pack(columns, out.as_mut_ptr()) }
    }
}

/// Instantiates the loops for the instruction set of `$token` as `pub static $name: Kernels`. The attributes enable the
/// instruction set for the functions into which everything else is inlined. `blocks` says which of the block formats,
/// where it is not all of them.
///
/// # Safety
/// Whoever takes a function from `$name` makes sure of the instruction set.
macro_rules! instantiate {
    ($name:ident, $token:expr, $groups:literal groups, few tokens $($few:literal)*, tokens $($n:literal)*, $(#[$enable:meta])*) => {
        instantiate!(
            $name, $token, $groups groups, few tokens $($few)*, tokens $($n)*,
            blocks |dtype| {
                use $crate::backend::cpu::kernels::{codec, codec_iq, small};
                Some(match dtype {
                    quant::F16 => &Of::<small::F16>::BLOCKS,
                    quant::BF16 => &Of::<small::Bf16>::BLOCKS,
                    quant::F8_E4M3 => &Of::<codec::F8>::BLOCKS,
                    quant::Q4_0 => &Of::<codec::Q4_0>::BLOCKS,
                    quant::Q4_1 => &Of::<codec::Q4_1>::BLOCKS,
                    quant::Q5_0 => &Of::<codec::Q5_0>::BLOCKS,
                    quant::Q5_1 => &Of::<codec::Q5_1>::BLOCKS,
                    quant::Q8_0 => &Of::<codec::Q8_0>::BLOCKS,
                    quant::Q2_K => &Of::<codec::Q2K>::BLOCKS,
                    quant::Q3_K => &Of::<codec::Q3K>::BLOCKS,
                    quant::Q4_K => &Of::<codec::Q4K>::BLOCKS,
                    quant::Q5_K => &Of::<codec::Q5K>::BLOCKS,
                    quant::Q6_K => &Of::<codec::Q6K>::BLOCKS,
                    quant::IQ4_NL => &Of::<codec::Iq4Nl>::BLOCKS,
                    quant::IQ4_XS => &Of::<codec::Iq4Xs>::BLOCKS,
                    quant::MXFP4 => &Of::<codec::Mxfp4>::BLOCKS,
                    quant::IQ1_S => &Of::<codec_iq::Iq1S>::BLOCKS,
                    quant::IQ1_M => &Of::<codec_iq::Iq1M>::BLOCKS,
                    quant::IQ2_XXS => &Of::<codec_iq::Iq2Xxs>::BLOCKS,
                    quant::IQ2_XS => &Of::<codec_iq::Iq2Xs>::BLOCKS,
                    quant::IQ2_S => &Of::<codec_iq::Iq2S>::BLOCKS,
                    quant::IQ3_XXS => &Of::<codec_iq::Iq3Xxs>::BLOCKS,
                    quant::IQ3_S => &Of::<codec_iq::Iq3S>::BLOCKS,
                    quant::TQ1_0 => &Of::<codec::Tq1_0>::BLOCKS,
                    quant::TQ2_0 => &Of::<codec::Tq2_0>::BLOCKS,
                    _ => return None,
                })
            },
            $(#[$enable])*
        );
    };
    (
        $name:ident, $token:expr, $groups:literal groups, few tokens $($few:literal)*, tokens $($n:literal)*,
        blocks $blocks:expr, $(#[$enable:meta])*
    ) => {
        use std::marker::PhantomData;

        use $crate::backend::cpu::kernels::codec::{Codec, Kind};
        use $crate::backend::cpu::kernels::matmul::{self, BlockKernels, Float, FloatKernels, Kernels};
        use $crate::backend::cpu::kernels::small::{self, Columns, Pack};
        use $crate::quant;

        $(#[$enable])*
        unsafe fn fused<Q: Codec, const N: usize>(
            w: *const u8, n: usize, x: *const u8, sum: *const f32, first: bool, out: *mut f32, stride: usize,
        ) {
            // SAFETY: the same contract.
            unsafe { matmul::fused::<_, Q, N>($token, w, n, x, sum, first, out, stride) }
        }

        $(#[$enable])*
        unsafe fn unpack<Q: Codec>(w: *const u8, n: usize, tile: *mut u8) {
            // SAFETY: the same contract.
            unsafe { matmul::unpack::<_, Q, $groups>($token, w, n, tile) }
        }

        $(#[$enable])*
        unsafe fn multiply<K: Kind, const N: usize>(
            tile: *const u8, n: usize, x: *const u8, sum: *const f32, first: bool, out: *mut f32, stride: usize,
        ) {
            // SAFETY: the same contract.
            unsafe { matmul::multiply::<_, K, $groups, N>($token, tile, n, x, sum, first, out, stride) }
        }

        $(#[$enable])*
        unsafe fn multiply_floats<T: Float, const R: usize, const N: usize>(
            w: &matmul::FloatGroups, n: usize, x: *const f32, x_stride: usize, out: *mut f32, first: bool,
        ) {
            // SAFETY: the same contract.
            unsafe { matmul::multiply_floats::<_, T, R, N>($token, w, n, x, x_stride, out, first) }
        }

        $(#[$enable])*
        unsafe fn quantise(x: &[f32], records: &mut [u8], n: usize, t: usize, halves: bool) {
            matmul::quantise($token, x, records, n, t, halves)
        }

        $(#[$enable])*
        unsafe fn quantise_pairs(x: &[f32], records: &mut [u8], n: usize, t: usize) {
            matmul::quantise_pairs($token, x, records, n, t)
        }

        $(#[$enable])*
        unsafe fn pack<T: Pack>(columns: &Columns, out: *mut u8) {
            // SAFETY: the same contract.
            unsafe { T::pack($token, columns, out) }
        }

        /// A place for the constants of a format.
        struct Of<T>(PhantomData<T>);

        impl<Q: Codec> Of<Q> {
            const BLOCKS: BlockKernels = BlockKernels {
                sets: Q::BLOCKS,
                activation: Q::Kind::ACTIVATION,
                halves: Q::Kind::SUBS == 2,
                tile_bytes: matmul::tile_bytes::<Q::Kind>(),
                fused: &[$(fused::<Q, $few>),*],
                unpack: unpack::<Q>,
                multiply: &[$(multiply::<Q::Kind, $n>),*],
            };
        }

        impl<T: Float> Of<T> {
            const FLOATS: FloatKernels = FloatKernels {
                one_token: multiply_floats::<T, { matmul::ONE_TOKEN_GROUPS }, 1>,
                multiply: &[$(multiply_floats::<T, $groups, $n>),*],
            };
        }

        pub static $name: Kernels = Kernels {
            groups: $groups,
            tokens: [$($n),*].len(),
            few_tokens: 1 << ([$($few),*].len() - 1),
            quantise,
            quantise_pairs,
            pack: |dtype| Some(match dtype {
                quant::F16 => pack::<small::F16>,
                quant::BF16 => pack::<small::Bf16>,
                _ => return None,
            }),
            blocks: $blocks,
            floats: |dtype| Some(match dtype {
                quant::F32 => &Of::<matmul::F32>::FLOATS,
                quant::F16 => &Of::<matmul::F16>::FLOATS,
                quant::BF16 => &Of::<matmul::Bf16>::FLOATS,
                quant::F8_E4M3 => &Of::<matmul::F8>::FLOATS,
                _ => return None,
            }),
        };
    };
}
pub(super) use instantiate;
