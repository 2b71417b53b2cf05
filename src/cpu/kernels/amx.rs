//! AMX on top of AVX-512: products of block formats with many tokens in tiles of sixteen tokens by sixteen rows. All
//! other kernels are the AVX-512 VBMI ones. The instructions are from Intel's Software Developer's Manual, volume 2,
//! chapter 8 ("AMX").
//!
//! The rows of a panel are the columns of a tile, and the bytes of a group are in the order that `tdpbssd` reads. Its
//! sums are exact, so that results are bit-identical to all other instruction sets. Tiles hold weights without their
//! zero points, so that sums need no correction: scaling takes more time than tiles.
//!
//! Tiles and vectors are different execution units. Parts of the tile sums of a run alternate with parts of the vector
//! scaling of the previous run, close enough for the processor to execute both at once.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::activations::InputType;
use super::avx512vnni::Avx512Vnni;
use super::codec::Kind;
use super::gemm;
use super::simd::{PANEL_ROWS, Simd};
use super::table::{BlockKernels, MatmulKernels};
use super::weight_group;

/// Row panels of a tile of weights.
pub(super) const PANELS: usize = 2;
/// Tokens in a tile of the processor; next, the number of tiles of tokens.
pub(super) const TILE_TOKENS: usize = 16;
const TOKEN_TILES: usize = 2;
/// Maximum number of tokens of a product: all eight tiles hold its operands and sums.
pub(super) const MANY_TOKENS: usize = TOKEN_TILES * TILE_TOKENS;
/// Maximum number of tokens of a vector product of 16-bit integers.
const FEW: usize = 4;
/// Products of tiles along the columns in a run, each over a group or half of one. The sums of two runs leave space for
/// weights and activations in the L1 cache.
const RUN: usize = 2;

/// The token of AMX with integer and BF16 tiles, in addition to AVX-512 with VBMI and BF16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amx<T>(PhantomData<T>);

impl Amx<Processor> {
    /// Returns the token if the processor has the instruction set and, by `is_allowed`, the process may use it.
    pub fn detect(is_allowed: fn() -> bool) -> Option<Self> {
        const TILES_INT8_AND_BF16: u32 = 3 << 24 | 1 << 22;
        Avx512Vnni::<true>::detect().filter(|_| is_x86_feature_detected!("avx512bf16"))?;
        let found = __cpuid_count(7, 0).edx & TILES_INT8_AND_BF16 == TILES_INT8_AND_BF16 && is_allowed();
        found.then_some(Amx(PhantomData))
    }

    /// Returns the token of AVX-512.
    pub fn base(self) -> Avx512Vnni<false> {
        Avx512Vnni(())
    }

    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        &on_processor::KERNELS
    }
}

/// The vector kernels of a weight type; tiles replace a part of their work.
pub(super) trait Base {
    type Kind: Kind;
    const VECTORS: BlockKernels;
}

/// Finds the constant `BLOCKS` of `$tiled` for the vector kernels of an element type, as `block_kernels`; prefers the
/// kernels of `vbmi`.
macro_rules! tiled_kernels {
    ($dtype:expr, $tiled:ident, $blocks:ident, $grouped:ident) => {
        match $dtype {
            quant::IQ2_XXS => Some(&$tiled::<vbmi::PackedKernels<codec_iq::Iq2Xxs>>::BLOCKS),
            quant::IQ2_XS => Some(&$tiled::<vbmi::PackedKernels<codec_iq::Iq2Xs>>::BLOCKS),
            quant::IQ3_XXS => Some(&$tiled::<vbmi::PackedKernels<codec_iq::Iq3Xxs>>::BLOCKS),
            quant::IQ3_S => Some(&$tiled::<vbmi::PackedKernels<codec_iq::Iq3S>>::BLOCKS),
            dtype => block_kernels!(dtype, $blocks, $grouped),
        }
    };
}
pub(super) use tiled_kernels;

/// Instantiates the kernels with the tiles `$tiles` as `KERNELS`. Everything else is from the modules `plain` and
/// `vbmi`, whose vectors have the token `$token`.
macro_rules! instantiate_tiles {
    ($tiles:ty, $token:expr, $(#[$enable:meta])*) => {
        use std::marker::PhantomData;

        use $crate::cpu::kernels::activations::InputType;
        use $crate::cpu::kernels::amx::{Base, MANY_TOKENS, PANELS, multiply, subtract_zero_point};
        use $crate::cpu::kernels::codec::{Codec, Kind};
        use $crate::cpu::kernels::float::Float;
        use $crate::cpu::kernels::float_gemm::FloatPanels;
        use $crate::cpu::kernels::simd::PANEL_ROWS;
        use $crate::cpu::kernels::table::{
            BlockKernels, FloatKernels, FloatProduct, MatmulKernels, TileProduct, block_kernels,
        };
        use $crate::cpu::kernels::{codec, codec_iq, float, grouped, small};
        use $crate::quant;
        use $crate::tensor::DType;

        $(#[$enable])*
        unsafe fn unpack<B: Base>(w: *const u8, n: usize, tile: *mut u8, dtype: DType) {
            // SAFETY: the same contract.
            unsafe {
                (const { B::VECTORS.unpack })(w, n, tile, dtype);
                subtract_zero_point::<_, B::Kind>($token, tile, n * const { B::VECTORS.groups });
            }
        }

        $(#[$enable])*
        unsafe fn product<K: Kind>(
            tile: *const u8, n: usize, x: *const u8, tokens: usize,
            sum: *const f32, first: bool, out: *mut f32, stride: usize,
        ) {
            // SAFETY: the same contract.
            unsafe { multiply::<_, K, $tiles>($token, tile, n, x, tokens, sum, first, out, stride) }
        }

        unsafe fn float_product<W: Float>(
            w: &FloatPanels, n: usize, tokens: usize, x: *const f32, x_stride: usize, out: *mut f32, first: bool,
        ) {
            let gemm = const { plain::PackedKernels::<W>::FLOATS.gemm };
            for t in (0..tokens).step_by(gemm.len()) {
                let few = gemm.len().min(tokens - t);
                // SAFETY: the same contract; token `t` has its own values and results.
                unsafe {
                    let (x, out) = (x.add(x_stride * t), out.add(PANEL_ROWS * PANELS * t));
                    gemm[few - 1](w, n, few, x, x_stride, out, first)
                }
            }
        }

        impl<Q: Codec> Base for plain::PackedKernels<Q> {
            type Kind = Q::Kind;
            const VECTORS: BlockKernels = Self::BLOCKS;
        }

        impl<K: Kind> Base for plain::UnpackedKernels<K> {
            type Kind = K;
            const VECTORS: BlockKernels = Self::BLOCKS;
        }

        /// Namespace for the constants of a weight type.
        struct TiledKernels<B>(PhantomData<B>);

        impl<B: Base> TiledKernels<B> {
            // Without zero points kinds differ only in these properties.
            const PRODUCT: TileProduct = match (B::Kind::INPUT, B::Kind::SUBS, B::Kind::MIN) {
                (InputType::I16, ..) => product::<codec::Int16>,
                (_, 1, false) => product::<codec::Wide>,
                (_, 1, true) => product::<codec::WideMin>,
                (_, _, false) => product::<codec::OffsetHalves7>,
                (_, _, true) => product::<codec::MinHalves4>,
            };
            const BLOCKS: BlockKernels =
                BlockKernels { unpack: unpack::<B>, gemm: &[Self::PRODUCT; MANY_TOKENS], ..B::VECTORS };
        }

        impl<W: Float> TiledKernels<plain::PackedKernels<W>> {
            const FLOATS: FloatKernels =
                FloatKernels { gemm: &[float_product::<W> as FloatProduct; MANY_TOKENS], ..plain::PackedKernels::<W>::FLOATS };
        }

        type Blocks<Q> = TiledKernels<plain::PackedKernels<Q>>;
        type Grouped<K> = TiledKernels<plain::UnpackedKernels<K>>;

        pub const KERNELS: MatmulKernels = MatmulKernels {
            tokens: MANY_TOKENS,
            blocks: |dtype| tiled_kernels!(dtype, TiledKernels, Blocks, Grouped),
            floats: |dtype| {
                Some(match dtype {
                    quant::F32 => &Blocks::<float::F32>::FLOATS,
                    quant::F16 => &Blocks::<float::F16>::FLOATS,
                    quant::BF16 => &Blocks::<float::Bf16>::FLOATS,
                    quant::F8_E4M3 => &Blocks::<float::F8>::FLOATS,
                    _ => return None,
                })
            },
            ..vbmi::KERNELS
        };
    };
}

pub(super) mod on_processor {
    use crate::cpu::kernels::avx512vnni::{Avx512Vnni, plain, vbmi};
    instantiate_tiles!(
        super::Processor,
        Avx512Vnni::<false>(()),
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    );

    impl<Q: Codec> Base for vbmi::PackedKernels<Q> {
        type Kind = Q::Kind;
        const VECTORS: BlockKernels = Self::BLOCKS;
    }
}

/// Subtracts the zero points from `groups` groups of one row panel of a tile, whose bytes become signed.
///
/// # Safety
/// `tile` must point to the panel's first vector in a tile of `PANELS` panels and `groups` groups.
#[inline(always)]
unsafe fn subtract_zero_point<S: Simd, K: Kind>(s: S, mut tile: *mut u8, groups: usize) {
    let (zero, registers) = const { (weight_group::zero_of_tile::<S, K>(), K::INPUT.registers()) };
    for _ in 0..if zero == 0 { 0 } else { groups } {
        for j in 0..registers {
            // SAFETY: one of the group's vectors.
            unsafe {
                let p = tile.add(64 * PANELS * j);
                s.store_bytes(p, s.add_bytes(s.load_bytes(p), (-zero) as u8));
            }
        }
        tile = tile.wrapping_add(weight_group::tile_bytes::<K>() * PANELS);
    }
}

/// Bytes of the integer sums of a tile, `[token][row]`; next, of a part of a run.
const SUMS_OF_TILE: usize = 4 * PANEL_ROWS * TILE_TOKENS;
const SUMS_OF_PART: usize = SUMS_OF_TILE * PANELS;
/// Number of parts of a run: for each product along the columns, one per tile of tokens.
const PARTS: usize = RUN * TOKEN_TILES;

/// Integer sums of two runs, part after part, and the results so far, `[token][panel][row]`. Aligned, because a vector
/// that straddles two cache lines takes twice the time.
#[repr(C, align(64))]
struct Scratch {
    sums: [[[u8; SUMS_OF_PART]; PARTS]; 2],
    results: [[[f32; PANEL_ROWS]; PANELS]; MANY_TOKENS],
}

/// Computes `gemm::gemm` for up to `MANY_TOKENS` tokens.
///
/// # Safety
/// As for `gemm::gemm`, with `tokens` instead of `N`.
#[inline(always)]
unsafe fn multiply<S: Simd, K: Kind, T: Tiles>(
    s: S,
    tile: *const u8,
    n: usize,
    x: *const u8,
    tokens: usize,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: the same contract; token `t` has its own activations and results. In `scratch` the results of all tokens
    // are written before they are read.
    unsafe {
        if matches!(K::INPUT, InputType::I16) {
            for t in (0..tokens).step_by(FEW) {
                let x = x.add(const { K::INPUT.bytes() } * t);
                let (sum, out) = (sum.wrapping_add(PANEL_ROWS * PANELS * t), out.add(stride * t));
                match tokens - t {
                    1 => gemm::gemm::<_, K, PANELS, 1>(s, tile, n, x, tokens, sum, first, out, stride),
                    2 => gemm::gemm::<_, K, PANELS, 2>(s, tile, n, x, tokens, sum, first, out, stride),
                    3 => gemm::gemm::<_, K, PANELS, 3>(s, tile, n, x, tokens, sum, first, out, stride),
                    _ => gemm::gemm::<_, K, PANELS, FEW>(s, tile, n, x, tokens, sum, first, out, stride),
                }
            }
            return;
        }
        let mut scratch = MaybeUninit::<Scratch>::uninit();
        let (sums, results) = (&raw mut (*scratch.as_mut_ptr()).sums, &raw mut (*scratch.as_mut_ptr()).results);
        let (sums, results) = (sums.cast::<u8>(), results.cast::<f32>());
        for t in 0..tokens {
            let at = PANEL_ROWS * PANELS * t;
            let so_far = gemm::load_results::<S, PANELS, 1>(s, sum.wrapping_add(at), first);
            gemm::store_results(s, so_far, results.add(at), 0);
        }
        multiply_tiles::<S, K, T>(s, tile, n, x, tokens, sums, results);
        for t in 0..tokens {
            let done = gemm::load_results::<S, PANELS, 1>(s, results.add(PANEL_ROWS * PANELS * t), false);
            gemm::store_results(s, done, out.wrapping_add(stride * t), 0);
        }
    }
}

/// Adds products to `results`. Between the parts of a run, the sums of the previous run are scaled for some tokens at a
/// time.
///
/// # Safety
/// As for `multiply`; `sums` and `results` must point into a `Scratch` that holds the results of all tokens.
#[inline(always)]
unsafe fn multiply_tiles<S: Simd, K: Kind, T: Tiles>(
    s: S,
    tile: *const u8,
    n: usize,
    x: *const u8,
    tokens: usize,
    sums: *mut u8,
    results: *mut f32,
) {
    // A product covers a group or half of one, whose columns are counted in fours.
    let (quads, bytes, groups_of_run) = const { (8 / K::SUBS, K::INPUT.bytes(), RUN / K::SUBS) };
    let (tile_group, x_group) = (const { weight_group::tile_bytes::<K>() * PANELS }, bytes * tokens);
    // SAFETY: groups below `n`, halves, panels and tokens below `tokens` are in bounds of tile, activations and results
    // by this function's contract. Only sums that tiles have written are read.
    unsafe {
        let mut tiles = T::new(&Config::new(tokens, quads));
        for run in 0..=n.div_ceil(groups_of_run) {
            let of_run = |run: usize| sums.add(SUMS_OF_PART * PARTS * (run % 2));
            let (written, read) = (of_run(run), of_run(run + 1));
            // Nothing precedes the first run.
            let (mut part, mut t) = (0, if run == 0 { tokens } else { 0 });
            while part < PARTS || t < tokens {
                let (product, token_tile) = (RUN * run + part / TOKEN_TILES, part % TOKEN_TILES);
                let (group, half) = (product / K::SUBS, product % K::SUBS);
                if part < PARTS && group < n && TILE_TOKENS * token_tile < tokens {
                    let w = tile.add(tile_group * group + 64 * PANELS * quads * half);
                    let x = x.add(x_group * group + bytes * TILE_TOKENS * token_tile + 4 * quads * half);
                    multiply_tile(&mut tiles, w, x, bytes, token_tile, written.add(SUMS_OF_PART * part));
                }
                part += 1;
                if t < tokens {
                    let group = groups_of_run * (run - 1);
                    let (tile, x) = (tile.add(tile_group * group), x.add(x_group * group + bytes * t));
                    let sums = read.add(SUMS_OF_PART * (t / TILE_TOKENS) + 64 * (t % TILE_TOKENS));
                    let (groups, results) = (groups_of_run.min(n - group), results.add(PANEL_ROWS * PANELS * t));
                    t += match tokens - t {
                        8.. => add_scaled::<S, K, 8>(s, tile, groups, x, x_group, sums, results),
                        4..8 => add_scaled::<S, K, 4>(s, tile, groups, x, x_group, sums, results),
                        _ => add_scaled::<S, K, 1>(s, tile, groups, x, x_group, sums, results),
                    };
                }
            }
        }
        tiles.release();
    }
}

/// Multiplies the weight tiles at `w` with a token tile at `x`. The weight tiles are loaded for the first token tile.
///
/// # Safety
/// As for `Tiles`; `sums` must have space for the sums of both panels.
#[inline(always)]
unsafe fn multiply_tile<T: Tiles>(
    tiles: &mut T,
    w: *const u8,
    x: *const u8,
    bytes: usize,
    token_tile: usize,
    sums: *mut u8,
) {
    macro_rules! multiply {
        ($first:literal, $last:literal, $tokens:literal) => {
            tiles.zero::<$first>();
            tiles.zero::<$last>();
            tiles.load::<$tokens>(x, bytes);
            tiles.dot::<$first, $tokens, WEIGHTS>();
            tiles.dot::<$last, $tokens, { WEIGHTS + 1 }>();
            tiles.store::<$first>(sums, 64);
            tiles.store::<$last>(sums.add(SUMS_OF_TILE), 64);
        };
    }
    // SAFETY: by this function's contract.
    unsafe {
        if token_tile == 0 {
            tiles.load::<WEIGHTS>(w, 64 * PANELS);
            tiles.load::<{ WEIGHTS + 1 }>(w.add(64), 64 * PANELS);
            multiply!(0, 1, 4);
        } else {
            multiply!(2, 3, 5);
        }
    }
}

/// Adds the scaled sums of a run to the results of `N` tokens; returns `N`.
///
/// # Safety
/// As for `gemm::add_sums`.
#[inline(always)]
unsafe fn add_scaled<S: Simd, K: Kind, const N: usize>(
    s: S,
    tile: *const u8,
    groups: usize,
    x: *const u8,
    x_group: usize,
    sums: *const u8,
    results: *mut f32,
) -> usize {
    let strides = [SUMS_OF_PART * TOKEN_TILES, SUMS_OF_TILE];
    // SAFETY: the same contract.
    unsafe { gemm::add_sums::<S, K, PANELS, N>(s, tile, groups, x, x_group, sums, strides[0], strides[1], results) }
    N
}

/// The first of two weight tiles, `[four columns][row][column of the four]`. Tiles 0 to 3 hold sums, `[token][row]`,
/// two panels per token tile; tiles 4 and 5 hold activations, `[token][column]`.
pub(super) const WEIGHTS: usize = 6;

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
pub struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Row size of each tile in bytes.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// Returns the tile shapes for `4 * quads` columns.
    pub(super) fn new(tokens: usize, quads: usize) -> Config {
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let first = tokens.min(TILE_TOKENS);
        let mut shape = |tile: usize, rows: usize, bytes: usize| {
            // Tiles without rows must have a row size of 0.
            (config.rows[tile], config.row_bytes[tile]) = (rows as u8, if rows > 0 { bytes as u16 } else { 0 });
        };
        for (i, rows) in [first, tokens - first].into_iter().enumerate() {
            shape(2 * i, rows, 64);
            shape(2 * i + 1, rows, 64);
            shape(4 + i, rows, 4 * quads);
            shape(WEIGHTS + i, quads, 64);
        }
        config
    }
}

/// The tile instructions as methods, with tile numbers as parameters.
///
/// # Safety
/// Shapes must fit together, and memory must hold as many rows as the tile, `stride` bytes apart.
#[allow(clippy::missing_safety_doc)]
pub trait Tiles {
    /// Executes `ldtilecfg`.
    unsafe fn new(config: &Config) -> Self;
    /// Executes `tilezero`.
    unsafe fn zero<const TILE: usize>(&mut self);
    /// Executes `tileloadd`.
    unsafe fn load<const TILE: usize>(&mut self, from: *const u8, stride: usize);
    /// Executes `tdpbssd`: adds the dot products of rows of `A` with columns of four bytes of `B`, signed, to `SUM`.
    unsafe fn dot<const SUM: usize, const A: usize, const B: usize>(&mut self);
    /// Executes `tdpbf16ps`: adds the BF16 dot products of rows of `A` with columns of pairs of `B` to `SUM`. The first
    /// elements of pairs and the second ones are summed separately, and denormals count as 0.
    unsafe fn dot_bf16<const SUM: usize, const A: usize, const B: usize>(&mut self);
    /// Executes `tilestored`.
    unsafe fn store<const TILE: usize>(&mut self, to: *mut u8, stride: usize);
    /// Executes `tilerelease`.
    unsafe fn release(self);
}

/// The hardware tiles of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor;

/// Wraps an instruction; the assembler statement is volatile, so that instructions keep their order.
macro_rules! instruction {
    ($($code:tt)*) => {
        // SAFETY: by the contract of `Tiles`; a token of `Amx<Processor>` proves the instruction set.
        unsafe { asm!($($code)*, options(nostack, preserves_flags)) }
    };
}

impl Tiles for Processor {
    #[inline(always)]
    unsafe fn new(config: &Config) -> Self {
        instruction!("ldtilecfg [{}]", in(reg) config);
        Processor
    }
    #[inline(always)]
    unsafe fn zero<const TILE: usize>(&mut self) {
        instruction!("tilezero tmm{tile}", tile = const TILE);
    }
    #[inline(always)]
    unsafe fn load<const TILE: usize>(&mut self, from: *const u8, stride: usize) {
        instruction!("tileloadd tmm{tile}, [{} + {}*1]", in(reg) from, in(reg) stride, tile = const TILE);
    }
    #[inline(always)]
    unsafe fn dot<const SUM: usize, const A: usize, const B: usize>(&mut self) {
        instruction!("tdpbssd tmm{sum}, tmm{a}, tmm{b}", sum = const SUM, a = const A, b = const B);
    }
    #[inline(always)]
    unsafe fn dot_bf16<const SUM: usize, const A: usize, const B: usize>(&mut self) {
        instruction!("tdpbf16ps tmm{sum}, tmm{a}, tmm{b}", sum = const SUM, a = const A, b = const B);
    }
    #[inline(always)]
    unsafe fn store<const TILE: usize>(&mut self, to: *mut u8, stride: usize) {
        instruction!("tilestored [{} + {}*1], tmm{tile}", in(reg) to, in(reg) stride, tile = const TILE);
    }
    #[inline(always)]
    unsafe fn release(self) {
        instruction!("tilerelease");
    }
}

/// Scalar emulation of the tiles, by the manual's pseudocode, with scalar vectors.
#[cfg(test)]
pub mod emulation {
    use super::{Amx, Config, MatmulKernels, PhantomData, Tiles};

    pub mod on_emulation {
        use crate::cpu::kernels::scalar::{Scalar, pairs as plain, pairs as vbmi};
        instantiate_tiles!(super::EmulatedTiles, Scalar,);
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct EmulatedTiles {
        tiles: [[[u8; 64]; 16]; 8],
        rows: [usize; 8],
        row_bytes: [usize; 8],
    }

    impl Amx<EmulatedTiles> {
        /// The token of the emulation, which needs no detection.
        pub const TOKEN: Self = Amx(PhantomData);

        /// Returns the matrix kernels.
        pub fn matmul(self) -> &'static MatmulKernels {
            &on_emulation::KERNELS
        }
    }

    impl Tiles for EmulatedTiles {
        unsafe fn new(config: &Config) -> Self {
            assert!((config.palette, config.start_row, config.reserved) == (1, 0, [0; 14]));
            assert!(config.rows[8..].iter().all(|&n| n == 0) && config.row_bytes[8..].iter().all(|&n| n == 0));
            let (rows, row_bytes) = (config.rows.map(usize::from), config.row_bytes.map(usize::from));
            let (Some(&rows), Some(&row_bytes)) = (rows.first_chunk(), row_bytes.first_chunk()) else { unreachable!() };
            assert!(rows.iter().all(|&n| n <= 16) && row_bytes.iter().all(|&n| n <= 64));
            assert!(rows.iter().zip(&row_bytes).all(|(&rows, &bytes)| (rows == 0) == (bytes == 0)));
            // The bytes of an unwritten tile are undefined; this pattern exposes their use.
            EmulatedTiles { tiles: [[[0xa5; 64]; 16]; 8], rows, row_bytes }
        }
        unsafe fn zero<const TILE: usize>(&mut self) {
            assert!(self.rows[TILE] > 0);
            self.tiles[TILE] = [[0; 64]; 16];
        }
        unsafe fn load<const TILE: usize>(&mut self, from: *const u8, stride: usize) {
            assert!(self.rows[TILE] > 0);
            self.tiles[TILE] = [[0; 64]; 16];
            for r in 0..self.rows[TILE] {
                for i in 0..self.row_bytes[TILE] {
                    // SAFETY: by the contract of `Tiles`.
                    self.tiles[TILE][r][i] = unsafe { from.add(r * stride + i).read() };
                }
            }
        }
        unsafe fn dot<const SUM: usize, const A: usize, const B: usize>(&mut self) {
            assert!(SUM != A && A != B && SUM != B);
            assert!(self.rows[SUM] == self.rows[A] && self.row_bytes[SUM] == self.row_bytes[B]);
            assert!(
                self.row_bytes[A] == 4 * self.rows[B] && self.row_bytes[SUM].is_multiple_of(4) && self.rows[SUM] > 0
            );
            for m in 0..self.rows[SUM] {
                for n in 0..self.row_bytes[SUM] / 4 {
                    let mut bytes = [0; 4];
                    bytes.copy_from_slice(&self.tiles[SUM][m][4 * n..][..4]);
                    let mut sum = i32::from_le_bytes(bytes);
                    for k in 0..self.row_bytes[A] {
                        let (a, b) = (self.tiles[A][m][k] as i8, self.tiles[B][k / 4][4 * n + k % 4] as i8);
                        sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                    }
                    self.tiles[SUM][m][4 * n..][..4].copy_from_slice(&sum.to_le_bytes());
                }
            }
        }
        unsafe fn dot_bf16<const SUM: usize, const A: usize, const B: usize>(&mut self) {
            assert!(SUM != A && A != B && SUM != B);
            assert!(self.rows[SUM] == self.rows[A] && self.row_bytes[SUM] == self.row_bytes[B]);
            assert!(self.row_bytes[A] == 4 * self.rows[B] && self.rows[SUM] > 0);
            let normal = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
            let bf16 = |row: &[u8; 64], at: usize| {
                normal(f32::from_bits(u32::from(u16::from_le_bytes([row[2 * at], row[2 * at + 1]])) << 16))
            };
            for m in 0..self.rows[SUM] {
                for n in 0..self.row_bytes[SUM] / 4 {
                    let mut sums = [0f32; 2];
                    for k in 0..self.rows[B] {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            let (a, b) = (bf16(&self.tiles[A][m], 2 * k + i), bf16(&self.tiles[B][k], 2 * n + i));
                            *sum = normal(libm::fmaf(a, b, *sum));
                        }
                    }
                    let sum = &mut self.tiles[SUM][m].as_chunks_mut::<4>().0[n];
                    let so_far = normal(f32::from_le_bytes(*sum));
                    *sum = normal(so_far + normal(sums[0] + sums[1])).to_le_bytes();
                }
            }
        }
        unsafe fn store<const TILE: usize>(&mut self, to: *mut u8, stride: usize) {
            assert!(self.rows[TILE] > 0);
            for r in 0..self.rows[TILE] {
                for i in 0..self.row_bytes[TILE] {
                    // SAFETY: by the contract of `Tiles`.
                    unsafe { to.add(r * stride + i).write(self.tiles[TILE][r][i]) }
                }
            }
        }
        unsafe fn release(self) {}
    }
}
