//! The loops of matrix products with quantized activations. `gemv` multiplies packed weights with a few tokens. For
//! many tokens `unpack` and `gemm` unpack the weights once into a tile in the L1 cache. Relies on `codec` for the
//! weights and on `activations` for the tokens.
//!
//! Rows lie in SIMD lanes, sixteen rows per panel. Both loops compute every result in the same order: for each group of
//! 32 columns `acc += isum * (scale * x_scale)`, or, if the halves of a group have their own scales, `acc += (isum0 *
//! scale0 + isum1 * scale1) * x_scale`, then `acc += x_min * min` for each min. `isum` is an exact integer, and every
//! product is fused with the preceding sum.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

use super::activations::{InputType, PAIR_ZERO_STEP, ZERO_STEP, offset};
use super::codec::{Codec, Kind};
use super::prefetch;
use super::simd::{PANEL_ROWS, Simd};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::weight_group::RegisterGroup;
use super::weight_group::{TileGroup, WeightGroup, tile_bytes, woven};

/// Returns the initial value of an integer sum: the zero-point correction, from a token's activations.
#[inline(always)]
unsafe fn start<S: Simd, K: Kind>(s: S, x: *const u8, half: usize, zero: i32) -> S::I {
    if zero == 0 {
        return s.splat_i32(0);
    }
    if S::SUMS_OF_16_BITS && K::SUBS == 2 {
        // SAFETY: the activations hold this value, by the callers' contract.
        let pair = unsafe { read(x, offset::ZERO_HALVES + 4 * half) };
        let sums = s.sum_products(s.splat_i32(0), s.splat_i32(pair));
        return s.shift(sums, zero.trailing_zeros() as i32 - PAIR_ZERO_STEP.trailing_zeros() as i32);
    }
    let at = if K::SUBS == 1 { offset::ZERO } else { offset::ZERO_HALVES + 4 * half };
    // SAFETY: the activations hold this value, by the callers' contract.
    let minus_64_sums = s.splat_i32(unsafe { read(x, at) });
    let shift = zero.trailing_zeros() as i32 - ZERO_STEP.trailing_zeros() as i32;
    if shift == 0 { minus_64_sums } else { s.shift(minus_64_sums, shift) }
}

#[inline(always)]
fn dot<S: Simd, K: Kind>(s: S, acc: S::I, w: S::I, x: i32) -> S::I {
    match K::INPUT {
        InputType::I16 => s.dot_pairs(acc, s.pairs(w), s.splat_pair(x)),
        _ if K::WIDE => s.dot_wide(acc, w, x),
        _ => s.dot(acc, w, x),
    }
}

#[inline(always)]
unsafe fn read<T: Copy>(p: *const u8, offset: usize) -> T {
    // SAFETY: by the callers' contract.
    unsafe { p.add(offset).cast::<T>().read_unaligned() }
}

/// Repeats `$body` for each constant `$i` of 0..16 below the constant `$n`, unrolled, so that shifts and offsets are
/// constants: the compiler does not unroll loops that contain inline assembly. Expands to a loop if one of `$t` does
/// not unroll.
macro_rules! unroll {
    ($($t:ident)*, $i:ident < $n:expr, $body:block) => {
        if const { true $(&& $t::UNROLL)* } {
            $crate::cpu::kernels::gemm::unroll!(@ $n, $body, $i, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        } else {
            for $i in 0..const { $n } $body
        }
    };
    (@ $n:expr, $body:block, $i:ident, $($k:literal)*) => {
        $(if const { $k < $n } {
            let $i: usize = $k;
            $body
        })*
    };
}
pub(super) use unroll;

/// Prefetch distances of `gemv` in bytes, into the L1 and the L2 cache. Processors have fewer line fill buffers for L1.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const GEMV_PREFETCH: [usize; 2] = [2048, 8192];
/// Prefetch distance of `unpack` in bytes; its run of columns is short.
const UNPACK_PREFETCH: usize = 4096;

/// Calls `prefetch` for the lines of group `b` of the block at `w`.
#[inline(always)]
fn prefetch_block<Q: Codec>(w: *const u8, b: usize, prefetch: impl Fn(*const u8)) {
    // Without the fence the compiler moves all prefetches of a loop to its end: all at once and too late.
    compiler_fence(Ordering::SeqCst);
    let lines = Q::BYTES.div_ceil(64);
    for line in b * lines / Q::GROUPS..(b + 1) * lines / Q::GROUPS {
        prefetch(w.wrapping_add(64 * line));
    }
}

/// Prefetches what `gemv` will read after the line at `p`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) fn prefetch_ahead(p: *const u8) {
    let [near, next] = GEMV_PREFETCH;
    prefetch::near(p.wrapping_add(near));
    prefetch::next(p.wrapping_add(next));
}

/// Adds the products of one group of one row panel with the tokens of a `gemv`.
///
/// # Safety
/// As for `add_group`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) unsafe fn add_tokens<S: Simd, K: Kind, W: WeightGroup<S>, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    acc: &mut [[S::F; N]; 1],
) {
    // SAFETY: the same contract.
    unsafe {
        if N <= 4 {
            return add_group::<S, K, W, 1, N>(s, w, x, acc);
        }
        // Four tokens at a time: with more, the compiler moves all products of a block after its loads, which then
        // spill.
        unroll!(S, i < N / 4, {
            let acc = std::array::from_mut(&mut acc[0].as_chunks_mut::<4>().0[i]);
            add_group::<S, K, W, 1, 4>(s, w, x.add(K::INPUT.bytes() * 4 * i), acc);
        });
    }
}

/// Adds the products of a group of `R` row panels with `N` tokens to `acc`.
///
/// # Safety
/// `w` must be readable, and `x` must point to the group's activations of `N` tokens.
#[inline(always)]
unsafe fn add_group<S: Simd, K: Kind, W: WeightGroup<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    acc: &mut [[S::F; N]; R],
) {
    // Sums of the first half times their scales.
    let mut scaled = [[s.splat(0.0); N]; R];
    // SAFETY: the same contract.
    unsafe {
        for half in 0..K::SUBS {
            let sum = match W::WOVEN {
                true => woven_sums::<S, K, W, R, N>(s, w, x, half),
                false => sums_of_group::<S, K, W, R, N>(s, w, x, half),
            };
            add_half::<S, K, W, R, N>(s, w, x, half, sum, &mut scaled, acc);
        }
        add_mins::<S, K, W, R, N>(s, w, x, acc);
    }
}

/// Multiplies the integer sums of half `half` of a group by its scales. The first half's result goes to `scaled`, the
/// last one's to `acc`.
///
/// # Safety
/// As for `add_group`.
#[inline(always)]
unsafe fn add_half<S: Simd, K: Kind, W: WeightGroup<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    half: usize,
    sum: [[S::I; N]; R],
    scaled: &mut [[S::F; N]; R],
    acc: &mut [[S::F; N]; R],
) {
    for r in 0..R {
        // SAFETY: weights and activations are readable by this function's contract.
        let scale = unsafe { w.scale(s, r, half) };
        for t in 0..N {
            // SAFETY: as above.
            let x_scale = s.splat(unsafe { read(x, K::INPUT.bytes() * t + K::INPUT.scale()) });
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

/// Adds the mins of a group to `acc`.
///
/// # Safety
/// As for `add_group`.
#[inline(always)]
unsafe fn add_mins<S: Simd, K: Kind, W: WeightGroup<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    acc: &mut [[S::F; N]; R],
) {
    for half in 0..if K::MIN { K::SUBS } else { 0 } {
        let factor = if K::SUBS == 1 { offset::MIN } else { offset::MIN_HALVES + 4 * half };
        for r in 0..R {
            // SAFETY: weights and activations are readable by this function's contract.
            let min = unsafe { w.min(s, r, half) };
            for t in 0..N {
                // SAFETY: as above.
                let x = s.splat(unsafe { read(x, K::INPUT.bytes() * t + factor) });
                acc[r][t] = s.fma(min, x, acc[r][t]);
            }
        }
    }
}

/// True if 16-bit sums cover one half of a group and start with the zero-point correction. Such sums may wrap in
/// between, and fit at the end: at most 32 * 127 * 8. For one token this costs more than it saves.
const fn begins_with_zero_point<S: Simd, K: Kind>(zero: i32, tokens: usize) -> bool {
    let fits = zero > 0 && zero <= 32 && (1 << K::BITS) - zero <= 32;
    S::SUMS_OF_16_BITS && K::SUBS == 2 && fits && tokens > 1
}

/// Returns the integer sums of products of a half of a group, or of the whole group if it has no halves.
///
/// # Safety
/// As for `add_group`.
// One function, because all of it works on sums that stay in registers.
#[inline(always)]
unsafe fn sums_of_group<S: Simd, K: Kind, W: WeightGroup<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    half: usize,
) -> [[S::I; N]; R] {
    let (registers, bytes) = const { (K::INPUT.registers(), K::INPUT.bytes()) };
    // A single accumulator chain is limited by latency. Pair products have the longer latency, but `R * N * SUBS` of 2
    // or 3 occurs on instruction sets that lack registers for more chains. Without dot-product instructions the latency
    // of a chain is one cycle per addition.
    let chains = match (K::INPUT, R * N * K::SUBS) {
        (InputType::I8, 2..) if S::SUMS_OF_16_BITS => 1,
        (_, 1) | (InputType::I8, 2..4) | (InputType::I16, 4..) => 2,
        _ => 1,
    };
    // With 16-bit sums, `other` holds the sums of a run.
    let zero_in_run = const { begins_with_zero_point::<S, K>(W::ZERO, N) };
    let run = match (zero_in_run, S::SUMS_OF_16_BITS) {
        (true, _) => registers / K::SUBS,
        (_, true) => K::RUN,
        _ => 1,
    };
    // SAFETY: weights and activations are readable by this function's contract.
    unsafe {
        let mut sum = [[s.splat_i32(0); N]; R];
        let mut other = [[s.splat_i32(0); N]; R];
        // A macro, because a closure may not be inlined.
        macro_rules! start {
            ($t:expr) => {
                start::<S, K>(s, x.wrapping_add(bytes * $t), half, const { W::ZERO })
            };
        }
        if run == 1 {
            for t in 0..N {
                for r in 0..R {
                    sum[r][t] = start!(t);
                }
            }
        }
        macro_rules! column {
            ($j:expr) => {
                let mut weights = [s.splat_i32(0); R];
                for r in 0..R {
                    weights[r] = w.quants(s, r, $j);
                }
                for t in 0..N {
                    if zero_in_run && $j % run == 0 {
                        let shift = const { W::ZERO.trailing_zeros().saturating_sub(PAIR_ZERO_STEP.trailing_zeros()) };
                        let start = s.start_products(read(x, bytes * t + offset::ZERO_HALVES + 4 * half), shift);
                        for r in 0..R {
                            other[r][t] = start;
                        }
                    }
                    let x = read(x, bytes * t + 4 * $j);
                    for r in 0..R {
                        let (sum, other) = (&mut sum[r][t], &mut other[r][t]);
                        if run > 1 {
                            *other = match $j % run {
                                0 if !zero_in_run => s.products(weights[r], x),
                                _ => s.add_products(*other, weights[r], x),
                            };
                        } else if chains == 2 && $j % 2 == 1 {
                            *other = dot::<S, K>(s, *other, weights[r], x);
                        } else {
                            *sum = dot::<S, K>(s, *sum, weights[r], x);
                        }
                    }
                }
                if run > 1 && $j % run == run - 1 {
                    let first = $j % (registers / K::SUBS) == run - 1;
                    for t in 0..N {
                        let start = if first && !zero_in_run { start!(t) } else { s.splat_i32(0) };
                        for r in 0..R {
                            let sum = &mut sum[r][t];
                            *sum = s.sum_products(if first { start } else { *sum }, other[r][t]);
                        }
                    }
                }
            };
        }
        // Manual unrolling only if the compiler does not unroll: many copies take minutes to compile.
        if const { S::SUMS_OF_16_BITS || matches!(K::INPUT, InputType::I16) } {
            unroll!(S, j < K::INPUT.registers() / K::SUBS, {
                column!(half * (registers / K::SUBS) + j);
            });
        } else {
            for j in half * registers / K::SUBS..(half + 1) * registers / K::SUBS {
                column!(j);
            }
        }
        if chains == 2 && run == 1 {
            for r in 0..R {
                for t in 0..N {
                    sum[r][t] = s.add_i32(sum[r][t], other[r][t]);
                }
            }
        }
        sum
    }
}

/// Returns the sums of products of a half of a woven group, or of the whole group if it has no halves. If the number of
/// tokens is odd, the last token is paired with itself.
///
/// # Safety
/// As for `add_group`.
#[inline(always)]
unsafe fn woven_sums<S: Simd, K: Kind, W: WeightGroup<S>, const R: usize, const N: usize>(
    s: S,
    w: &W,
    x: *const u8,
    half: usize,
) -> [[S::I; N]; R] {
    let (bytes, columns) = const { (K::INPUT.bytes(), K::INPUT.registers() / K::SUBS) };
    let partner = |t: usize| (t + 1).min(N - 1);
    // For even t, element t holds the sums of tokens t and t + 1.
    let mut two = [[[s.splat_i32(0); 2]; N]; R];
    unroll!(S, pair < K::INPUT.registers() / K::SUBS / 2, {
        let j = half * columns + 2 * pair;
        for r in 0..R {
            // SAFETY: weights and activations are readable by this function's contract.
            let weights = unsafe { [w.quants(s, r, j), w.quants(s, r, j + 1)] };
            unroll!(S, i < N.div_ceil(2), {
                let t = 2 * i;
                // SAFETY: as above.
                let x = unsafe { [read(x, bytes * t + 4 * j), read(x, bytes * partner(t) + 4 * j)] };
                two[r][t] = s.dot_two(two[r][t], weights, x);
            });
        }
    });
    let mut sum = [[s.splat_i32(0); N]; R];
    for r in 0..R {
        for t in (0..N).step_by(2) {
            [sum[r][t], sum[r][partner(t)]] = s.part_two(two[r][t]);
        }
        if const { W::ZERO != 0 } {
            for t in 0..N {
                // SAFETY: as above.
                let start = unsafe { start::<S, K>(s, x.wrapping_add(bytes * t), half, const { W::ZERO }) };
                sum[r][t] = s.add_i32(sum[r][t], start);
            }
        }
    }
    sum
}

/// Reads the results of `R` row panels of `N` tokens, token by token, or returns zeros if `zero`.
///
/// # Safety
/// Unless `zero`, `out` must point to that many values.
#[inline(always)]
pub unsafe fn load_results<S: Simd, const R: usize, const N: usize>(
    s: S,
    out: *const f32,
    zero: bool,
) -> [[S::F; N]; R] {
    let mut acc = [[s.splat(0.0); N]; R];
    if !zero {
        for r in 0..R {
            for t in 0..N {
                // SAFETY: one of the results.
                acc[r][t] = unsafe { s.load_f32(out.add(PANEL_ROWS * (R * t + r))) };
            }
        }
    }
    acc
}

/// Writes results in the layout of `load_results`, except that tokens are `stride` values apart.
///
/// # Safety
/// Every row of every token at `out` must be writable.
#[inline(always)]
pub unsafe fn store_results<S: Simd, const R: usize, const N: usize>(
    s: S,
    acc: [[S::F; N]; R],
    out: *mut f32,
    stride: usize,
) {
    for r in 0..R {
        for t in 0..N {
            // SAFETY: one of the results.
            unsafe { s.store_f32(out.add(stride * t + PANEL_ROWS * r), acc[r][t]) }
        }
    }
}

/// Multiplies `n` packed blocks of one row panel with `N` tokens, with results as in `gemm`, on instruction sets with
/// SIMD registers.
///
/// # Safety
/// `w` must point to `n` blocks, `x` to the activations of `N` tokens in their groups, `sum` and `out` to results.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub unsafe fn gemv<S: Simd, Q: Codec, const N: usize>(
    s: S,
    mut w: *const u8,
    n: usize,
    mut x: *const u8,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: results, blocks and activations are in bounds by this function's contract.
    unsafe {
        let mut acc = load_results::<S, 1, N>(s, sum, first);
        for _ in 0..n {
            let (mut scale, mut min) = ([s.splat(0.0); 16], [s.splat(0.0); 16]);
            Q::scales(s, w, &mut scale, &mut min);
            unroll!(S Q, b < Q::GROUPS, {
                prefetch_block::<Q>(w, b, prefetch_ahead);
                let quants = quants_of_group::<S, Q>(s, w, b, &scale);
                let group = RegisterGroup::<S, Q> { quants, scale: &scale, min: &min, b, codec: PhantomData };
                add_tokens::<S, Q::Kind, _, N>(s, &group, x, &mut acc);
                x = x.add(const { Q::Kind::INPUT.bytes() } * N);
            });
            w = w.add(Q::BYTES);
        }
        store_results(s, acc, out, stride);
    }
}

/// Decodes group `b` of a block into the number of vectors that its kind has.
///
/// # Safety
/// `w` must point to a block.
#[inline(always)]
unsafe fn quants_of_group<S: Simd, Q: Codec>(s: S, w: *const u8, b: usize, scale: &[S::F; 16]) -> [S::I; 16] {
    let mut quants = [s.splat_i32(0); 16];
    let octets = const { Q::Kind::INPUT.registers() / 8 };
    unroll!(S, octet < Q::Kind::INPUT.registers() / 8, {
        // SAFETY: by this function's contract.
        let part = unsafe { Q::quants(s, w, octets * b + octet, scale[Q::Kind::SUBS * b]) };
        for j in 0..8 {
            quants[8 * octet + j] = part[j];
        }
    });
    quants
}

/// Writes the integers of a group of one row panel to a tile of `R` panels.
///
/// # Safety
/// `tile` must point to the panel's first vector of the group.
#[inline(always)]
pub unsafe fn store_quants<S: Simd, K: Kind, const R: usize>(s: S, mut quants: [S::I; 16], tile: *mut u8) {
    let registers = const { K::INPUT.registers() };
    if const { woven::<S>(K::INPUT) } {
        for j in (0..registers).step_by(2) {
            [quants[j], quants[j + 1]] = s.weave(quants[j], quants[j + 1]);
        }
    }
    for j in 0..registers {
        // SAFETY: one of the group's vectors.
        unsafe { s.store_bytes(tile.add(64 * R * j), quants[j]) }
    }
}

/// Unpacks `n` blocks of one row panel into a tile of `R` panels. Per group of 32 columns a tile holds `R` times the
/// kind's integer vectors, then `R` vectors of f32 scales for each sub-block, then the mins likewise. `tile` points to
/// the panel's first vector.
///
/// # Safety
/// `w` must point to `n` blocks, `tile` to a tile of their groups.
#[inline(always)]
pub unsafe fn unpack<S: Simd, Q: Codec, const R: usize>(s: S, mut w: *const u8, n: usize, mut tile: *mut u8) {
    let registers = const { Q::Kind::INPUT.registers() };
    for _ in 0..n {
        let (mut scale, mut min) = ([s.splat(0.0); 16], [s.splat(0.0); 16]);
        // SAFETY: block and groups are in bounds by this function's contract.
        unsafe {
            Q::scales(s, w, &mut scale, &mut min);
            unroll!(S Q, b < Q::GROUPS, {
                prefetch_block::<Q>(w, b, |line| prefetch::near(line.wrapping_add(UNPACK_PREFETCH)));
                let mut quants = quants_of_group::<S, Q>(s, w, b, &scale);
                let shifted = const { matches!(Q::Kind::INPUT, InputType::I8) && !Q::Kind::WIDE && Q::ZERO != Q::Kind::ZERO };
                for j in 0..if shifted { registers } else { 0 } {
                    quants[j] = s.add_bytes(quants[j], (Q::Kind::ZERO - Q::ZERO) as u8);
                }
                store_quants::<S, Q::Kind, R>(s, quants, tile);
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

/// Multiplies a tile of `R` row panels and `n` groups of 32 columns with `N` of the `tokens` tokens in `x`. Unless
/// `first`, adds the results of earlier columns at `sum`. Results lie token by token, `R` panels each; at `out` tokens
/// are `stride` values apart.
///
/// # Safety
/// `tile` must point to `n` groups of a tile made by `unpack`, `x` to the activations of `N` tokens in them, `sum` and
/// `out` to results.
#[inline(always)]
pub unsafe fn gemm<S: Simd, K: Kind, const R: usize, const N: usize>(
    s: S,
    mut tile: *const u8,
    n: usize,
    mut x: *const u8,
    tokens: usize,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    // Cache lines of the next tokens' results, which may be far apart in memory.
    for t in N..2 * N {
        for r in 0..R {
            prefetch::near(out.wrapping_add(t * stride + PANEL_ROWS * r).cast());
        }
    }
    // SAFETY: results, groups and activations are in bounds by this function's contract.
    unsafe {
        let mut acc = load_results::<S, R, N>(s, sum, first);
        for _ in 0..n {
            add_group::<S, K, _, R, N>(s, &TileGroup::<K, R>(tile, PhantomData), x, &mut acc);
            x = x.add(K::INPUT.bytes() * tokens);
            tile = tile.add(tile_bytes::<K>() * R);
        }
        store_results(s, acc, out, stride);
    }
}

/// Adds the products of `n` groups of a tile of `R` row panels with `N` tokens to `results`, token by token, from
/// integer sums that need no correction. `x` and `sums` point to the first group of the first token; groups are
/// `x_stride` bytes apart in `x`. `sums` holds sixteen rows per token; groups (or their halves) are `sub_stride` bytes
/// apart, panels `panel_stride` bytes.
///
/// # Safety
/// `tile`, `x`, `sums` and `results` must point to all these groups, activations, sums and results.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn add_sums<S: Simd, K: Kind, const R: usize, const N: usize>(
    s: S,
    tile: *const u8,
    n: usize,
    x: *const u8,
    x_stride: usize,
    sums: *const u8,
    sub_stride: usize,
    panel_stride: usize,
    results: *mut f32,
) {
    let mut acc = [[[s.splat(0.0); 1]; R]; N];
    // SAFETY: groups, activations, sums and results are in bounds by this function's contract.
    unsafe {
        for t in 0..N {
            acc[t] = load_results::<S, R, 1>(s, results.add(PANEL_ROWS * R * t), false);
        }
        for i in 0..n {
            let group = TileGroup::<K, R>(tile.add(tile_bytes::<K>() * R * i), PhantomData);
            for t in 0..N {
                let x = x.add(x_stride * i + K::INPUT.bytes() * t);
                let mut scaled = [[s.splat(0.0); 1]; R];
                for half in 0..K::SUBS {
                    let mut sum = [[s.splat_i32(0)]; R];
                    for r in 0..R {
                        let at = sub_stride * (K::SUBS * i + half) + panel_stride * r + 4 * PANEL_ROWS * t;
                        sum[r][0] = s.load_bytes(sums.add(at));
                    }
                    add_half::<S, K, _, R, 1>(s, &group, x, half, sum, &mut scaled, &mut acc[t]);
                }
                add_mins::<S, K, _, R, 1>(s, &group, x, &mut acc[t]);
            }
        }
        for t in 0..N {
            store_results(s, acc[t], results.add(PANEL_ROWS * R * t), 0);
        }
    }
}
