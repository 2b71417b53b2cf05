//! BF16 products with AMX tiles, if requested: their results are not bit-identical to other kernels. Weights of any
//! block format are unpacked as for vectors and converted to BF16 in the tile; activations are BF16 as well, and
//! results are F32. The instructions are from Intel's Software Developer's Manual, volume 2, "TDPBF16PS".
//!
//! A single token uses tiles too. Each row of a tile is summed separately, so that a result depends neither on the
//! other tokens of the batch nor on the columns of a tile.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::activations::InputType;
use super::amx::{Config, MANY_TOKENS, PANELS, TILE_TOKENS, Tiles, WEIGHTS};
use super::avx512vnni::Avx512Vnni;
use super::codec::Kind;
use super::gemm::unroll;
use super::simd::{GROUP, LANES, PANEL_ROWS, Simd};
use super::weight_group::{self, TileGroup, WeightGroup};

/// Number of vectors of a row panel in a group: columns `k` and `k + PAIRS` of sixteen rows each.
const PAIRS: usize = GROUP / 2;
/// Size of a row panel in a group in bytes; next, of a token.
const PANEL_BYTES: usize = 64 * PAIRS;
const TOKEN_BYTES: usize = InputType::Bf16.bytes();

/// Vectors that can be rounded to BF16.
pub trait RoundBf16: Simd {
    /// Rounds to nearest even, `low` into the low and `high` into the high 16 bits of each lane. Denormals become 0.
    ///
    /// # Safety
    /// With AVX-512, the processor must have its BF16 instructions.
    unsafe fn bf16_pairs(self, low: Self::F, high: Self::F) -> Self::I;
}

impl RoundBf16 for Avx512Vnni<false> {
    #[inline(always)]
    unsafe fn bf16_pairs(self, low: __m512, high: __m512) -> __m512i {
        const INTERLEAVED: [u16; 2 * LANES] = {
            let (mut order, mut i) = ([0; 2 * LANES], 0);
            while i < 2 * LANES {
                order[i] = (i / 2 + LANES * (i % 2)) as u16;
                i += 1;
            }
            order
        };
        // SAFETY: by this function's contract; `INTERLEAVED` has 64 bytes.
        unsafe {
            let halves: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
            _mm512_permutexvar_epi16(_mm512_loadu_si512(INTERLEAVED.as_ptr().cast()), halves)
        }
    }
}

/// Instantiates the kernels with the tiles `$tiles` as `KERNELS`, whose vectors have the token `$token`. Everything
/// else is from `amx`.
macro_rules! instantiate_bf16 {
    ($tiles:ty, $token:expr, $(#[$enable:meta])*) => {
        use std::marker::PhantomData;

        use $crate::cpu::kernels::activations::InputType;
        use $crate::cpu::kernels::amx::{Base, MANY_TOKENS, tiled_kernels};
        use $crate::cpu::kernels::codec::Kind;
        use $crate::cpu::kernels::table::{BlockKernels, MatmulKernels, TileProduct, block_kernels};
        use $crate::cpu::kernels::{bf16, codec, codec_iq, grouped, small};
        use $crate::quant;
        use $crate::tensor::DType;

        $(#[$enable])*
        unsafe fn expand<K: Kind>(tile: *mut u8, groups: usize) {
            // SAFETY: the same contract.
            unsafe { bf16::expand::<_, K>($token, tile, groups) }
        }

        unsafe fn unpack<B: Base>(w: *const u8, n: usize, tile: *mut u8, dtype: DType) {
            // SAFETY: the same contract.
            unsafe {
                (const { B::VECTORS.unpack })(w, n, tile, dtype);
                expand::<B::Kind>(tile, n * const { B::VECTORS.groups });
            }
        }

        unsafe fn product(
            tile: *const u8, n: usize, x: *const u8, tokens: usize,
            sum: *const f32, first: bool, out: *mut f32, stride: usize,
        ) {
            // SAFETY: the same contract.
            unsafe { bf16::multiply::<$tiles>(tile, n, x, tokens, sum, first, out, stride) }
        }

        $(#[$enable])*
        unsafe fn quantize(x: &[f32], out: &mut [u8], n: usize, t: usize) {
            // SAFETY: the same contract.
            unsafe { bf16::quantize($token, x, out, n, t) }
        }

        /// Namespace for the constants of a weight type.
        struct RoundedKernels<B>(PhantomData<B>);

        impl<B: Base> RoundedKernels<B> {
            const BLOCKS: BlockKernels = BlockKernels {
                input: InputType::Bf16,
                halves: false,
                tile_bytes: bf16::tile_bytes::<B::Kind>(),
                gemv: &[],
                unpack: unpack::<B>,
                gemm: &[product as TileProduct; MANY_TOKENS],
                ..B::VECTORS
            };
        }

        type Blocks<Q> = RoundedKernels<plain::PackedKernels<Q>>;
        type Grouped<K> = RoundedKernels<plain::UnpackedKernels<K>>;

        pub const KERNELS: MatmulKernels = MatmulKernels {
            gemv_tokens: 0,
            quantize_16: quantize,
            blocks: |dtype| tiled_kernels!(dtype, RoundedKernels, Blocks, Grouped),
            ..of_tiles::KERNELS
        };
    };
}

pub mod on_processor {
    use crate::cpu::kernels::amx::{Processor, on_processor as of_tiles};
    use crate::cpu::kernels::avx512vnni::{Avx512Vnni, plain, vbmi};
    instantiate_bf16!(
        Processor,
        Avx512Vnni::<false>(()),
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
    );
}

/// Returns the size in bytes of a row panel in a group of a tile, which holds integers and scales before BF16.
pub const fn tile_bytes<K: Kind>() -> usize {
    let unpacked = weight_group::tile_bytes::<K>();
    if unpacked > PANEL_BYTES { unpacked } else { PANEL_BYTES }
}

/// Multiplies the integers of `groups` groups of one row panel of a tile by their scales and rounds them to BF16, in
/// place: from the last group to the first if groups grow, from the first to the last if they shrink.
///
/// # Safety
/// `tile` must point to the panel's first vector in a tile of `PANELS` panels and `groups` groups of `tile_bytes`. The
/// processor must have the instructions that `RoundBf16` needs.
#[inline(always)]
pub unsafe fn expand<S: RoundBf16, K: Kind>(s: S, tile: *mut u8, groups: usize) {
    let unpacked = const { weight_group::tile_bytes::<K>() };
    let zero = const { weight_group::zero_of_tile::<S, K>() };
    for i in 0..groups {
        let group = if unpacked > PANEL_BYTES { i } else { groups - 1 - i };
        // SAFETY: the group's vectors, by this function's contract. All reads come before the first write.
        unsafe {
            let weights = TileGroup::<K, PANELS>(tile.add(unpacked * PANELS * group), PhantomData);
            let mut quants = [s.splat_i32(0); 16];
            for j in 0..K::INPUT.registers() {
                quants[j] = weights.quants(s, 0, j);
                if zero != 0 {
                    quants[j] = s.add_bytes(quants[j], (-zero) as u8);
                }
            }
            let (mut scale, mut min) = ([s.splat(0.0); 2], [s.splat(0.0); 2]);
            for half in 0..2 {
                scale[half] = weights.scale(s, 0, half * (K::SUBS - 1));
                if K::MIN {
                    min[half] = weights.min(s, 0, half * (K::SUBS - 1));
                }
            }
            let to = tile.add(PANEL_BYTES * PANELS * group);
            for j in 0..K::INPUT.registers() / 2 {
                let vectors = [quants[j], quants[K::INPUT.registers() / 2 + j]];
                unroll!(S, c < GROUP / K::INPUT.registers(), {
                    let mut pair = [s.splat(0.0); 2];
                    for half in 0..2 {
                        let q = s.to_f32(column::<S, K>(s, vectors[half], c));
                        pair[half] = if K::MIN { s.fma(q, scale[half], min[half]) } else { s.mul(q, scale[half]) };
                    }
                    let k = GROUP / K::INPUT.registers() * j + c;
                    s.store_bytes(to.add(64 * PANELS * k), s.bf16_pairs(pair[0], pair[1]));
                });
            }
        }
    }
}

/// Returns the integers of a column of a vector, sixteen rows.
#[inline(always)]
fn column<S: Simd, K: Kind>(s: S, vector: S::I, column: usize) -> S::I {
    // `GROUP / bits` columns share a 32-bit lane.
    let bits = const { K::INPUT.registers() };
    s.shift(s.shift(vector, 32 - (bits * (column + 1)) as i32), bits as i32 - 32)
}

/// Rounds the values of token `t` of `n` adjacent tokens to BF16.
///
/// # Safety
/// The processor must have the instructions that `RoundBf16` needs.
#[inline(always)]
pub unsafe fn quantize<S: RoundBf16>(s: S, x: &[f32], out: &mut [u8], n: usize, t: usize) {
    assert!(t < n);
    for (x, out) in x.as_chunks::<GROUP>().0.iter().zip(out.chunks_exact_mut(TOKEN_BYTES * n)) {
        let out = &mut out[TOKEN_BYTES * t..][..TOKEN_BYTES];
        // SAFETY: 32 values, and 64 bytes.
        unsafe {
            let (low, high) = (s.load_f32(x.as_ptr()), s.load_f32(x.as_ptr().add(PAIRS)));
            s.store_bytes(out.as_mut_ptr(), s.bf16_pairs(low, high));
        }
    }
}

/// Computes the sums of `gemm::gemm` for up to `MANY_TOKENS` tokens, from a BF16 tile.
///
/// # Safety
/// As for `gemm::gemm`, with `tokens` instead of `N`, and for `Tiles`.
#[inline(always)]
pub unsafe fn multiply<T: Tiles>(
    tile: *const u8,
    n: usize,
    x: *const u8,
    tokens: usize,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    /// Repeats `$body` for each token tile, with the number of its first sum tile (one per panel) and with its first
    /// token.
    macro_rules! token_tiles {
        ($sums:ident $t:ident $body:block) => {
            token_tiles!(@ $sums 0 $t 0 $body);
            if tokens > TILE_TOKENS {
                token_tiles!(@ $sums 2 $t TILE_TOKENS $body);
            }
        };
        (@ $sums:ident $first:literal $t:ident $token:tt $body:block) => {{
            const $sums: usize = $first;
            let $t = $token;
            $body
        }};
    }
    debug_assert!((1..=MANY_TOKENS).contains(&tokens));
    // SAFETY: groups, activations and results of panels and tokens are in bounds by this function's contract, and
    // shapes are those set by `Config`.
    unsafe {
        let mut tiles = T::new(&Config::new(tokens, PAIRS));
        token_tiles!(SUMS token {
            if first {
                tiles.zero::<SUMS>();
                tiles.zero::<{ SUMS + 1 }>();
            } else {
                let sum = sum.add(PANEL_ROWS * PANELS * token);
                tiles.load::<SUMS>(sum.cast(), 64 * PANELS);
                tiles.load::<{ SUMS + 1 }>(sum.add(PANEL_ROWS).cast(), 64 * PANELS);
            }
        });
        for group in 0..n {
            let (w, x) = (tile.add(PANEL_BYTES * PANELS * group), x.add(TOKEN_BYTES * tokens * group));
            tiles.load::<WEIGHTS>(w, 64 * PANELS);
            tiles.load::<{ WEIGHTS + 1 }>(w.add(64), 64 * PANELS);
            token_tiles!(SUMS token {
                tiles.load::<{ 4 + SUMS / 2 }>(x.add(TOKEN_BYTES * token), TOKEN_BYTES);
                tiles.dot_bf16::<SUMS, { 4 + SUMS / 2 }, WEIGHTS>();
                tiles.dot_bf16::<{ SUMS + 1 }, { 4 + SUMS / 2 }, { WEIGHTS + 1 }>();
            });
        }
        token_tiles!(SUMS token {
            let out = out.add(stride * token);
            tiles.store::<SUMS>(out.cast(), 4 * stride);
            tiles.store::<{ SUMS + 1 }>(out.add(PANEL_ROWS).cast(), 4 * stride);
        });
        tiles.release();
    }
}

/// The kernels on emulated tiles.
#[cfg(test)]
pub mod on_emulation {
    use half::bf16 as Bf16;

    use super::RoundBf16;
    use crate::cpu::kernels::amx::emulation::{EmulatedTiles, on_emulation as of_tiles};
    use crate::cpu::kernels::scalar::{Scalar, pairs as plain, pairs as vbmi};
    instantiate_bf16!(EmulatedTiles, Scalar,);

    impl RoundBf16 for Scalar {
        unsafe fn bf16_pairs(self, low: Self::F, high: Self::F) -> Self::I {
            let round = |x: f32| Bf16::from_f32(if x.is_subnormal() { 0f32.copysign(x) } else { x }).to_bits();
            std::array::from_fn(|i| i32::from(round(low[i])) | i32::from(round(high[i])) << 16)
        }
    }
}
