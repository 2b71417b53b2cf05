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

use std::sync::atomic::{Ordering, compiler_fence};

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

/// How many bytes ahead of its use a weight is asked for: of one stream, of several, and of a panel, which is itself not
/// much longer.
const PREFETCH: usize = 8192;
const FLOAT_PREFETCH: usize = 2048;
const PANEL_PREFETCH: usize = 4096;

/// Asks for what will be block `b` of the block `ahead` bytes ahead.
#[inline(always)]
fn prefetch_block<S: Simd, Q: Codec>(s: S, w: *const u8, b: usize, ahead: usize) {
    // Without the fence the compiler gathers all prefetches of a loop at its end, where they come at once and late.
    compiler_fence(Ordering::SeqCst);
    let lines = Q::BYTES.div_ceil(64);
    for line in b * lines / Q::BLOCKS..(b + 1) * lines / Q::BLOCKS {
        s.prefetch(w.wrapping_add(ahead + 64 * line));
    }
}

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
        let (mut scale, mut min) = ([s.splat_f32(0.0); 16], [s.splat_f32(0.0); 16]);
        // SAFETY: block and records are inside by this function's contract.
        unsafe {
            Q::scales(s, w, &mut scale, &mut min);
            unroll8!(b < Q::BLOCKS, {
                prefetch_block::<S, Q>(s, w, b, PREFETCH);
                let q = Q::quants(s, w, b);
                let x_scale = s.splat_f32(read(x, record::SCALE));
                macro_rules! chain {
                    ($start:expr, $($j:expr),+) => {{
                        let mut acc = $start;
                        $(acc = dot(s, Q::Kind::WIDE, acc, q[$j], read(x, 4 * $j));)+
                        acc
                    }};
                }
                if Q::Kind::SUBS == 1 {
                    // Two chains halve the latency; integers may be added in any order.
                    let even = chain!(start(s, x.add(record::ZERO), zero), 0, 2, 4, 6);
                    let odd = chain!(s.splat(0), 1, 3, 5, 7);
                    acc = s.fma(s.to_f32(s.add(even, odd)), s.mul(scale[b], x_scale), acc);
                    if Q::Kind::MIN {
                        acc = s.fma(min[b], s.splat_f32(read(x, record::MIN)), acc);
                    }
                } else {
                    macro_rules! half {
                        ($half:expr) => {{
                            let start = start(s, x.add(record::ZERO_HALVES + 4 * $half), zero);
                            s.to_f32(chain!(start, 4 * $half, 4 * $half + 1, 4 * $half + 2, 4 * $half + 3))
                        }};
                    }
                    let sum = s.mul(half!(0), scale[2 * b]);
                    acc = s.fma(s.fma(half!(1), scale[2 * b + 1], sum), x_scale, acc);
                    for half in 0..if Q::Kind::MIN { 2 } else { 0 } {
                        let x_min = s.splat_f32(read(x, record::MIN_HALVES + 4 * half));
                        acc = s.fma(min[2 * b + half], x_min, acc);
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
                prefetch_block::<S, Q>(s, w, b, PANEL_PREFETCH);
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
    // The next tokens' results, far apart in memory.
    for t in N..2 * N {
        for r in 0..R {
            s.prefetch(out.wrapping_add(t * stride + GROUP * r).cast());
        }
    }
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
            // The first half's sums times their scales.
            let mut scaled = [[s.splat_f32(0.0); N]; R];
            for half in 0..K::SUBS {
                let mut sum = [[s.splat(0); N]; R];
                for t in 0..N {
                    let offset = if K::SUBS == 1 { record::ZERO * N } else { (record::ZERO_HALVES + 4 * half) * N };
                    let start = start(s, x.add(offset + 4 * t), zero);
                    for r in 0..R {
                        sum[r][t] = start;
                    }
                }
                for j in half * 4..half * 4 + 8 / K::SUBS {
                    let mut w = [s.splat(0); R];
                    for r in 0..R {
                        w[r] = s.load(tile.add(64 * (R * j + r)));
                    }
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
                        let sum = s.to_f32(sum[r][t]);
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
                let offset = if K::SUBS == 1 { record::MIN * N } else { (record::MIN_HALVES + 4 * half) * N };
                for r in 0..R {
                    let min = s.load_f32(tile.add(64 * (R * (8 + K::SUBS + half) + r)).cast());
                    for t in 0..N {
                        acc[r][t] = s.fma(min, s.splat_f32(read(x, offset + 4 * t)), acc[r][t]);
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
            let mut weights = [s.splat_f32(0.0); R];
            for r in 0..R {
                weights[r] = T::load(s, w[r].add(GROUP * T::BYTES * k));
            }
            if N == 1 {
                for r in 0..R {
                    s.prefetch(w[r].wrapping_add(GROUP * T::BYTES * k + FLOAT_PREFETCH));
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
/// `q = round(x / scale)`, ties to even. A value that is not finite makes the products of its whole set so. What belongs
/// to the halves of sets is written only where `halves`.
#[inline(always)]
pub fn quantise<S: Simd>(s: S, x: &[f32], records: &mut [u8], n: usize, t: usize, halves: bool) {
    /// Sets that go through each of the steps together, so that their latencies overlap.
    const SETS: usize = 16;
    assert!(t < n);
    let (mut scale, mut inverse) = ([0f32; SETS], [0f32; SETS]);
    let (mut words, mut sums) = ([[0u32; 8]; SETS], [[0i32; 2]; SETS]);
    let chunks = x.as_chunks::<SET>().0.chunks(SETS).zip(records.chunks_mut(record::BYTES * n * SETS));
    for (x, records) in chunks {
        for (x, max) in x.iter().zip(&mut scale) {
            // SAFETY: 32 values.
            *max = unsafe { s.peak(s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(GROUP))) };
        }
        for (scale, inverse) in scale.iter_mut().zip(&mut inverse) {
            // So small a set could overflow the inverse, and is nothing beside other values.
            let max = if *scale < 1e-30 { 0.0 } else { *scale };
            *scale = max / 127.0;
            *inverse = if max == 0.0 { 0.0 } else { 127.0 / max };
        }
        for (i, x) in x.iter().enumerate() {
            let inverse = s.splat_f32(inverse[i]);
            // SAFETY: 32 values.
            let (a, b) = unsafe { (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(GROUP))) };
            (words[i], sums[i]) = s.pack(s.to_i32(s.mul(a, inverse)), s.to_i32(s.mul(b, inverse)));
        }
        for (i, record) in records.chunks_exact_mut(record::BYTES * n).enumerate().take(x.len()) {
            let record = record.as_mut_ptr();
            let put = |at: usize, value: [u8; 4]| {
                // SAFETY: `at` is one of the 15 words of a token and `t < n`, so that this is inside the record.
                unsafe { record.add(at * n + 4 * t).cast::<[u8; 4]>().write(value) }
            };
            for (j, word) in words[i].iter().enumerate() {
                put(4 * j, word.to_ne_bytes());
            }
            let (scale, sums) = (scale[i], sums[i]);
            let sum = sums[0] + sums[1];
            put(record::SCALE, scale.to_ne_bytes());
            put(record::ZERO, (-TILE_ZERO * sum).to_ne_bytes());
            put(record::MIN, (scale * sum as f32).to_ne_bytes());
            for (half, &sum) in sums.iter().enumerate().take(if halves { 2 } else { 0 }) {
                put(record::ZERO_HALVES + 4 * half, (-TILE_ZERO * sum).to_ne_bytes());
                put(record::MIN_HALVES + 4 * half, (scale * sum as f32).to_ne_bytes());
            }
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
pub type Quantise = unsafe fn(&[f32], &mut [u8], usize, usize, bool);

/// The kernels of a block format.
pub struct BlockKernels {
    /// Sets of 32 columns in a block.
    pub sets: usize,
    /// Whether halves of a set have scales of their own.
    pub halves: bool,
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
        unsafe fn quantise(x: &[f32], records: &mut [u8], n: usize, t: usize, halves: bool) {
            matmul::quantise($token, x, records, n, t, halves)
        }

        /// A place for the constants of a format.
        struct Of<T>(PhantomData<T>);

        impl<Q: Codec> Of<Q> {
            const BLOCKS: BlockKernels = BlockKernels {
                sets: Q::BLOCKS,
                halves: Q::Kind::SUBS == 2,
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
