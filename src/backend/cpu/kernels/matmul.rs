//! The loops of matrix multiplication, written once over `Simd` and instantiated for each instruction set.
//!
//! Rows lie in lanes: a group is sixteen rows. Every result is built in the same order whichever loop makes it: for
//! each set of 32 columns, sub-block by sub-block, `acc += isum * (scale * x_scale)`, then `acc += min * x_min`, where
//! `isum` is an exact integer. One column goes straight from packed weights to the result (`fused`); more columns
//! share a tile of unpacked weights in the first-level cache (`unpack`, then `multiply` for each few columns).
#![allow(unsafe_code)]
// Loops over registers are written over indices, which unroll.
#![allow(clippy::needless_range_loop)]

use super::codec::{Codec, Kind};
use super::simd::Simd;
use crate::tensor::DType;

/// Rows of a group, one a lane.
pub const GROUP: usize = 16;

/// Columns of a set that share a scale of the activations.
pub const SET: usize = 32;

/// Activations of `n` tokens, a record for each set of 32 columns. Offsets are for one token, all to be multiplied
/// by `n`: each part holds the tokens side by side, the quants in pieces of four columns.
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
}

/// Bytes of a group in one set of 32 columns of a tile: quants, scales, mins.
pub const fn tile_bytes<K: Kind>() -> usize {
    64 * (8 + K::SUBS * (1 + K::MIN as usize))
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

/// Zero point of the bytes that `Codec::quants` gives.
const fn packed_zero<S: Simd, Q: Codec>() -> i32 {
    if Q::Kind::WIDE { S::WIDE_ZERO } else { Q::ZERO }
}

const fn tile_zero<S: Simd, K: Kind>() -> i32 {
    if K::MIN {
        0
    } else if K::WIDE {
        S::WIDE_ZERO
    } else {
        TILE_ZERO
    }
}

#[inline(always)]
fn dot<S: Simd>(s: S, wide: bool, acc: S::I, w: S::I, x: i32) -> S::I {
    if wide { s.dot_wide(acc, w, x) } else { s.dot(acc, w, x) }
}

#[inline(always)]
unsafe fn read<T: Copy>(p: *const u8, offset: usize) -> T {
    // SAFETY: by the callers' contract.
    unsafe { p.add(offset).cast::<T>().read_unaligned() }
}

/// `$body` for each constant `$i` of 0..8 below `$n`, unrolled, so that shifts and offsets are constants.
macro_rules! unroll8 {
    ($i:ident < $n:expr, $body:block) => {
        unroll8!(@ $n, $body, $i, 0 1 2 3 4 5 6 7)
    };
    (@ $n:expr, $body:block, $i:ident, $($k:literal)*) => {
        $(if $k < $n {
            let $i: usize = $k;
            $body
        })*
    };
}

/// How far ahead of its use a packed weight is asked for.
const PREFETCH: usize = 2048;

/// One group times one token: adds the products of `n` blocks to `out`.
///
/// # Safety
/// `w` points to `n * Q::BYTES` bytes, `x` to `n * Q::BLOCKS` records of one token.
#[inline(always)]
pub unsafe fn fused<S: Simd, Q: Codec>(s: S, mut w: *const u8, n: usize, mut x: *const u8, out: &mut [f32; GROUP]) {
    // SAFETY: sixteen values.
    let mut acc = unsafe { s.load_f32(out.as_ptr()) };
    let zero = const { packed_zero::<S, Q>() };
    for _ in 0..n {
        for line in 0..Q::BYTES.div_ceil(64) {
            s.prefetch(w.wrapping_add(PREFETCH + 64 * line));
        }
        let (mut scale, mut min) = ([s.splat_f32(0.0); 16], [s.splat_f32(0.0); 16]);
        // SAFETY: block and records are inside by this function's contract.
        unsafe {
            Q::scales(s, w, &mut scale, &mut min);
            unroll8!(b < Q::BLOCKS, {
                let q = Q::quants(s, w, b);
                let x_scale = s.splat_f32(read(x, record::SCALE));
                let step = |acc, j: usize| dot(s, Q::Kind::WIDE, acc, q[j], read(x, 4 * j));
                let none = s.splat(0);
                if Q::Kind::SUBS == 1 {
                    // Two chains halve the latency; integers may be added in any order.
                    let even = step(step(step(step(start(s, x.add(record::ZERO), zero), 0), 2), 4), 6);
                    let odd = step(step(step(step(none, 1), 3), 5), 7);
                    acc = s.fma(s.to_f32(s.add(even, odd)), s.mul(scale[b], x_scale), acc);
                    if Q::Kind::MIN {
                        acc = s.fma(min[b], s.splat_f32(read(x, record::MIN)), acc);
                    }
                } else {
                    for half in 0..2 {
                        let sum = start(s, x.add(record::ZERO_HALVES + 4 * half), zero);
                        let sum = step(step(step(step(sum, 4 * half), 4 * half + 1), 4 * half + 2), 4 * half + 3);
                        acc = s.fma(s.to_f32(sum), s.mul(scale[2 * b + half], x_scale), acc);
                        if Q::Kind::MIN {
                            let x_min = s.splat_f32(read(x, record::MIN_HALVES + 4 * half));
                            acc = s.fma(min[2 * b + half], x_min, acc);
                        }
                    }
                }
                x = x.add(record::BYTES);
            });
            w = w.add(Q::BYTES);
        }
    }
    // SAFETY: sixteen values.
    unsafe { s.store_f32(out.as_mut_ptr(), acc) }
}

/// Unpacks `n` blocks of one group into a tile of `R` groups, whose sets of 32 columns hold eight times `R` registers
/// of bytes, then `R` of f32 scales for each sub-block, then the mins likewise. `tile` points to the group's first
/// register.
///
/// # Safety
/// `w` points to `n * Q::BYTES` bytes, `tile` to a tile of `n * Q::BLOCKS` sets.
#[inline(always)]
pub unsafe fn unpack<S: Simd, Q: Codec, const R: usize>(s: S, mut w: *const u8, n: usize, mut tile: *mut u8) {
    for _ in 0..n {
        let (mut scale, mut min) = ([s.splat_f32(0.0); 16], [s.splat_f32(0.0); 16]);
        // SAFETY: block and sets are inside by this function's contract.
        unsafe {
            Q::scales(s, w, &mut scale, &mut min);
            unroll8!(b < Q::BLOCKS, {
                for (j, q) in Q::quants(s, w, b).into_iter().enumerate() {
                    let q = if Q::Kind::WIDE || Q::Kind::MIN { q } else { s.add_bytes(q, (TILE_ZERO - Q::ZERO) as u8) };
                    s.store(tile.add(64 * R * j), q);
                }
                for half in 0..Q::Kind::SUBS {
                    s.store_f32(tile.add(64 * R * (8 + half)).cast(), scale[Q::Kind::SUBS * b + half]);
                    if Q::Kind::MIN {
                        s.store_f32(
                            tile.add(64 * R * (8 + Q::Kind::SUBS + half)).cast(),
                            min[Q::Kind::SUBS * b + half],
                        );
                    }
                }
                tile = tile.add(tile_bytes::<Q::Kind>() * R);
            });
            w = w.add(Q::BYTES);
        }
    }
}

/// A tile of `R` groups and `n` sets of 32 columns times `N` tokens: sets the results
/// where `first`, adds to them otherwise. Token `t`'s results are the `R` groups' rows at `out + t * stride`.
///
/// # Safety
/// `tile` points to `n` sets of a tile made by `unpack`, `x` to `n` records of `N` tokens, and every row of every token
/// at `out` is writable.
#[inline(always)]
pub unsafe fn multiply<S: Simd, K: Kind, const R: usize, const N: usize>(
    s: S,
    mut tile: *const u8,
    n: usize,
    mut x: *const u8,
    out: *mut f32,
    stride: usize,
    first: bool,
) {
    let zero = const { tile_zero::<S, K>() };
    let mut acc = [[s.splat_f32(0.0); N]; R];
    if !first {
        for (r, acc) in acc.iter_mut().enumerate() {
            for (t, acc) in acc.iter_mut().enumerate() {
                // SAFETY: one of the results.
                *acc = unsafe { s.load_f32(out.add(t * stride + GROUP * r)) };
            }
        }
    }
    for _ in 0..n {
        // SAFETY: set and records are inside by this function's contract.
        unsafe {
            for half in 0..K::SUBS {
                let mut sum = [[s.splat(0); N]; R];
                for t in 0..N {
                    let offset = if K::SUBS == 1 { record::ZERO * N } else { (record::ZERO_HALVES + 4 * half) * N };
                    let start = start(s, x.add(offset + 4 * t), zero);
                    for sum in &mut sum {
                        sum[t] = start;
                    }
                }
                for j in half * 4..half * 4 + 8 / K::SUBS {
                    let w: [S::I; R] = std::array::from_fn(|r| s.load(tile.add(64 * (R * j + r))));
                    for t in 0..N {
                        let x = read(x, 4 * (N * j + t));
                        for r in 0..R {
                            sum[r][t] = dot(s, K::WIDE, sum[r][t], w[r], x);
                        }
                    }
                }
                for r in 0..R {
                    let scale = s.load_f32(tile.add(64 * (R * (8 + half) + r)).cast());
                    for t in 0..N {
                        let x_scale = s.splat_f32(read(x, record::SCALE * N + 4 * t));
                        acc[r][t] = s.fma(s.to_f32(sum[r][t]), s.mul(scale, x_scale), acc[r][t]);
                    }
                }
                if K::MIN {
                    let offset = if K::SUBS == 1 { record::MIN * N } else { (record::MIN_HALVES + 4 * half) * N };
                    for r in 0..R {
                        let min = s.load_f32(tile.add(64 * (R * (8 + K::SUBS + half) + r)).cast());
                        for t in 0..N {
                            acc[r][t] = s.fma(min, s.splat_f32(read(x, offset + 4 * t)), acc[r][t]);
                        }
                    }
                }
            }
            x = x.add(record::BYTES * N);
            tile = tile.add(tile_bytes::<K>() * R);
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (t, &acc) in acc.iter().enumerate() {
            // SAFETY: one of the results.
            unsafe { s.store_f32(out.add(t * stride + GROUP * r), acc) }
        }
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

/// `R` groups of float weights times `N` tokens, `x_stride` values apart, over `n` columns: sets the results where
/// `first`, adds to them otherwise, as `multiply` does.
///
/// # Safety
/// The first `R` pointers of `w` point to `16 n` weights each, each token has `n` values, and every row of every token
/// at `out` is writable.
#[inline(always)]
pub unsafe fn multiply_floats<S: Simd, T: Float, const R: usize, const N: usize>(
    s: S,
    w: &FloatGroups,
    n: usize,
    x: *const f32,
    x_stride: usize,
    out: *mut f32,
    stride: usize,
    first: bool,
) {
    let mut acc = [[s.splat_f32(0.0); N]; R];
    if !first {
        for (r, acc) in acc.iter_mut().enumerate() {
            for (t, acc) in acc.iter_mut().enumerate() {
                // SAFETY: one of the results.
                *acc = unsafe { s.load_f32(out.add(t * stride + GROUP * r)) };
            }
        }
    }
    for k in 0..n {
        // SAFETY: column `k` of groups and tokens.
        unsafe {
            let weights: [S::F; R] = std::array::from_fn(|r| T::load(s, w[r].add(GROUP * T::BYTES * k)));
            if N == 1 {
                for r in 0..R {
                    s.prefetch(w[r].wrapping_add(GROUP * T::BYTES * k + PREFETCH));
                }
            }
            for t in 0..N {
                let x = s.splat_f32(*x.add(t * x_stride + k));
                for r in 0..R {
                    acc[r][t] = s.fma(weights[r], x, acc[r][t]);
                }
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (t, &acc) in acc.iter().enumerate() {
            // SAFETY: one of the results.
            unsafe { s.store_f32(out.add(t * stride + GROUP * r), acc) }
        }
    }
}

/// Writes the records of one token, number `t` of `n` side by side: for each 32 values, `scale = max |x| / 127` and
/// `q = round(x / scale)`, ties to even. Plain code, so that all instruction sets agree; a value that is not finite
/// makes its whole set so.
#[inline(always)]
pub fn quantise(x: &[f32], records: &mut [u8], n: usize, t: usize) {
    let put = |record: &mut [u8], at: usize, value: [u8; 4]| record[at..at + 4].copy_from_slice(&value);
    for (x, record) in x.chunks_exact(SET).zip(records.chunks_exact_mut(record::BYTES * n)) {
        // Ordered as integers, so that NaN is the largest.
        let bits = x.iter().fold(0, |max, v| max.max(v.to_bits() & 0x7fff_ffff));
        let amax = f32::from_bits(bits);
        // Below the square root of the smallest normal number the inverse could overflow, and nothing is lost.
        let (scale, inverse) = if amax < 1e-19 { (0.0, 0.0) } else { (amax / 127.0, 127.0 / amax) };
        let mut q = [0i8; SET];
        for (q, x) in q.iter_mut().zip(x) {
            *q = (x * inverse).round_ties_even() as i8;
        }
        let mut sums = [0i32; 2];
        for (i, q) in q.iter().enumerate() {
            sums[i / (SET / 2)] += i32::from(*q);
        }
        for (j, q) in q.chunks_exact(4).enumerate() {
            put(record, 4 * (n * j + t), [q[0] as u8, q[1] as u8, q[2] as u8, q[3] as u8]);
        }
        put(record, record::SCALE * n + 4 * t, scale.to_le_bytes());
        put(record, record::ZERO * n + 4 * t, (-TILE_ZERO * (sums[0] + sums[1])).to_le_bytes());
        put(record, record::MIN * n + 4 * t, (scale * (sums[0] + sums[1]) as f32).to_le_bytes());
        for (half, &sum) in sums.iter().enumerate() {
            put(record, (record::ZERO_HALVES + 4 * half) * n + 4 * t, (-TILE_ZERO * sum).to_le_bytes());
            put(record, (record::MIN_HALVES + 4 * half) * n + 4 * t, (scale * sum as f32).to_le_bytes());
        }
    }
}

/// `fused` of one format.
pub type Fused = unsafe fn(*const u8, usize, *const u8, &mut [f32; GROUP]);
/// `unpack` of one format.
pub type Unpack = unsafe fn(*const u8, usize, *mut u8);
/// `multiply` of one kind and number of tokens.
pub type Multiply = unsafe fn(*const u8, usize, *const u8, *mut f32, usize, bool);
/// `multiply_floats` of one type and number of tokens.
pub type MultiplyFloats = unsafe fn(&FloatGroups, usize, *const f32, usize, *mut f32, usize, bool);
/// `quantise`.
pub type Quantise = unsafe fn(&[f32], &mut [u8], usize, usize);

/// The kernels of a block format.
pub struct BlockKernels {
    /// Sets of 32 columns in a block.
    pub sets: usize,
    /// Bytes of a group in a set of an unpacked tile.
    pub tile_bytes: usize,
    pub fused: Fused,
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
    pub quantise: Quantise,
    pub blocks: fn(DType) -> Option<&'static BlockKernels>,
    pub floats: fn(DType) -> Option<&'static FloatKernels>,
    pub f32: &'static FloatKernels,
}

/// Instantiates the loops for the instruction set of `$token` as `pub static $name: Kernels`. The attributes enable the
/// instruction set for the functions into which everything else is inlined.
///
/// # Safety
/// Whoever takes a function from `$name` makes sure of the instruction set.
macro_rules! instantiate {
    ($name:ident, $token:expr, $groups:literal groups, tokens $($n:literal)*, $(#[$enable:meta])*) => {
        use std::marker::PhantomData;

        use $crate::backend::cpu::kernels::codec::{self, Codec, Kind};
        use $crate::backend::cpu::kernels::matmul::{self, BlockKernels, Float, FloatKernels, GROUP, Kernels};
        use $crate::quant;

        $(#[$enable])*
        unsafe fn fused<Q: Codec>(w: *const u8, n: usize, x: *const u8, out: &mut [f32; GROUP]) {
            // SAFETY: the same contract.
            unsafe { matmul::fused::<_, Q>($token, w, n, x, out) }
        }

        $(#[$enable])*
        unsafe fn unpack<Q: Codec>(w: *const u8, n: usize, tile: *mut u8) {
            // SAFETY: the same contract.
            unsafe { matmul::unpack::<_, Q, $groups>($token, w, n, tile) }
        }

        $(#[$enable])*
        unsafe fn multiply<K: Kind, const N: usize>(
            tile: *const u8, n: usize, x: *const u8, out: *mut f32, stride: usize, first: bool,
        ) {
            // SAFETY: the same contract.
            unsafe { matmul::multiply::<_, K, $groups, N>($token, tile, n, x, out, stride, first) }
        }

        $(#[$enable])*
        unsafe fn multiply_floats<T: Float, const R: usize, const N: usize>(
            w: &matmul::FloatGroups, n: usize, x: *const f32, x_stride: usize,
            out: *mut f32, stride: usize, first: bool,
        ) {
            // SAFETY: the same contract.
            unsafe {
                matmul::multiply_floats::<_, T, R, N>($token, w, n, x, x_stride, out, stride, first)
            }
        }

        $(#[$enable])*
        unsafe fn quantise(x: &[f32], records: &mut [u8], n: usize, t: usize) {
            matmul::quantise(x, records, n, t)
        }

        /// A place for the constants of a format.
        struct Of<T>(PhantomData<T>);

        impl<Q: Codec> Of<Q> {
            const BLOCKS: BlockKernels = BlockKernels {
                sets: Q::BLOCKS,
                tile_bytes: matmul::tile_bytes::<Q::Kind>(),
                fused: fused::<Q>,
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
            quantise,
            blocks: |dtype| Some(match dtype {
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
                _ => return None,
            }),
            floats: |dtype| Some(match dtype {
                quant::F32 => &Of::<matmul::F32>::FLOATS,
                quant::F16 => &Of::<matmul::F16>::FLOATS,
                quant::BF16 => &Of::<matmul::Bf16>::FLOATS,
                _ => return None,
            }),
            f32: &Of::<matmul::F32>::FLOATS,
        };
    };
}
pub(super) use instantiate;
