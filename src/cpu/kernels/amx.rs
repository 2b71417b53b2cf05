//! AMX beside AVX-512: products of block formats with many tokens in tiles of sixteen tokens by sixteen rows. All else
//! is that of AVX-512 with VBMI. Instructions are those of Intel's Software Developer's Manual, volume 2, chapter 8
//! ("AMX").
//!
//! The rows of a panel are the columns of a tile, and the bytes of a group are in the order that `tdpbsud` reads. Its
//! sums are exact, so that results have the bits of all other instruction sets.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::marker::PhantomData;

use super::activations::InputType;
use super::avx512vnni::{Avx512Vnni, plain, vbmi};
use super::codec::{Codec, Kind};
use super::float::Float;
use super::float_gemm::{self, FloatPanels};
use super::gemm::{self, MANY_TOKENS};
use super::simd::PANEL_ROWS;
use super::table::{BlockKernels, FloatKernels, FloatProduct, MatmulKernels, TileProduct, block_kernels};
use super::{codec, codec_iq, float, grouped, small};
use crate::quant;

/// Row panels of a tile of weights.
const PANELS: usize = 2;
/// Most tokens of the kernels of AVX-512, which multiply what has no tiles.
const FEW: usize = 4;

/// The token of AMX with tiles of integers, beside that of AVX-512 with VBMI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amx<T>(PhantomData<T>);

impl Amx<Processor> {
    /// Returns the token where the processor has the instruction set and, by `is_allowed`, the process may use it.
    pub fn detect(is_allowed: fn() -> bool) -> Option<Self> {
        const TILES_AND_INT8: u32 = 3 << 24;
        Avx512Vnni::<true>::detect()?;
        let found = __cpuid_count(7, 0).edx & TILES_AND_INT8 == TILES_AND_INT8 && is_allowed();
        found.then_some(Amx(PhantomData))
    }
}

impl<T: Tiles> Amx<T> {
    /// Returns the token of AVX-512.
    pub fn base(self) -> Avx512Vnni<false> {
        Avx512Vnni(())
    }

    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        &Self::KERNELS
    }

    const KERNELS: MatmulKernels = MatmulKernels {
        tokens: MANY_TOKENS,
        blocks: |dtype| match dtype {
            quant::IQ2_XXS => Some(&Tiled::<codec_iq::Iq2Xxs, T>::VBMI),
            quant::IQ2_XS => Some(&Tiled::<codec_iq::Iq2Xs, T>::VBMI),
            quant::IQ3_XXS => Some(&Tiled::<codec_iq::Iq3Xxs, T>::VBMI),
            quant::IQ3_S => Some(&Tiled::<codec_iq::Iq3S, T>::VBMI),
            _ => block_kernels!(dtype, Tiled, TiledKind, T),
        },
        floats: |dtype| {
            Some(match dtype {
                quant::F32 => &Tiled::<float::F32, T>::FLOATS,
                quant::F16 => &Tiled::<float::F16, T>::FLOATS,
                quant::BF16 => &Tiled::<float::Bf16, T>::FLOATS,
                quant::F8_E4M3 => &Tiled::<float::F8, T>::FLOATS,
                _ => return None,
            })
        },
        ..vbmi::KERNELS
    };
}

/// A place for the constants of a type of weights.
struct Tiled<W, T>(PhantomData<(W, T)>);

impl<Q: Codec, T: Tiles> Tiled<Q, T> {
    const GEMM: &[TileProduct] = &[product::<Q::Kind, T> as TileProduct; MANY_TOKENS];
    const BLOCKS: BlockKernels = BlockKernels { gemm: Self::GEMM, ..plain::Packed::<Q>::BLOCKS };
    const VBMI: BlockKernels = BlockKernels { gemm: Self::GEMM, ..vbmi::Packed::<Q>::BLOCKS };
}

/// A place for the constants of a kind of grouped codes.
struct TiledKind<K, T>(PhantomData<(K, T)>);

impl<K: Kind, T: Tiles> TiledKind<K, T> {
    const BLOCKS: BlockKernels =
        BlockKernels { gemm: &[product::<K, T> as TileProduct; MANY_TOKENS], ..plain::Unpacked::<K>::BLOCKS };
}

impl<W: Float, T> Tiled<W, T> {
    const FLOATS: FloatKernels =
        FloatKernels { gemm: &[float_product::<W> as FloatProduct; MANY_TOKENS], ..plain::Packed::<W>::FLOATS };
}

/// Computes `gemm::gemm` of up to `MANY_TOKENS` tokens.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn product<K: Kind, T: Tiles>(
    tile: *const u8,
    n: usize,
    x: *const u8,
    tokens: usize,
    sum: *const f32,
    first: bool,
    out: *mut f32,
    stride: usize,
) {
    let (s, bytes) = (Avx512Vnni::<false>(()), const { K::INPUT.bytes() });
    // SAFETY: the same contract; token `t` has its part of activations and results.
    unsafe {
        if matches!(K::INPUT, InputType::I16) {
            for t in (0..tokens).step_by(FEW) {
                let (x, sum) = (x.add(bytes * t), sum.wrapping_add(PANEL_ROWS * PANELS * t));
                let out = out.add(stride * t);
                match tokens - t {
                    1 => gemm::gemm::<_, K, PANELS, 1>(s, tile, n, x, tokens, sum, first, out, stride),
                    2 => gemm::gemm::<_, K, PANELS, 2>(s, tile, n, x, tokens, sum, first, out, stride),
                    3 => gemm::gemm::<_, K, PANELS, 3>(s, tile, n, x, tokens, sum, first, out, stride),
                    _ => gemm::gemm::<_, K, PANELS, FEW>(s, tile, n, x, tokens, sum, first, out, stride),
                }
            }
            return;
        }
        // A half of a group, or all of it.
        let quads = const { 8 / K::SUBS };
        let mut tiles = T::new(&Config::new(tokens, quads));
        gemm::gemm_of_sums::<_, K, PANELS>(s, tile, n, x, tokens, sum, first, out, stride, |tile, x, sums| {
            for (half, sums) in sums.0.iter_mut().enumerate().take(K::SUBS) {
                tiles.zero::<SUMS>();
                tiles.zero::<{ SUMS + 1 }>();
                tiles.load::<TOKENS>(x.add(4 * quads * half), bytes);
                let weights = tile.add(64 * PANELS * quads * half);
                tiles.load::<WEIGHTS>(weights, 64 * PANELS);
                tiles.load::<{ WEIGHTS + 1 }>(weights.add(64), 64 * PANELS);
                tiles.dot::<SUMS, TOKENS, WEIGHTS>();
                tiles.dot::<{ SUMS + 1 }, TOKENS, { WEIGHTS + 1 }>();
                tiles.store::<SUMS>(sums[0].as_mut_ptr().cast(), 64);
                tiles.store::<{ SUMS + 1 }>(sums[1].as_mut_ptr().cast(), 64);
            }
        });
        tiles.release();
    }
}

/// Computes `float_gemm::multiply` of up to `MANY_TOKENS` tokens.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn float_product<W: Float>(
    w: &FloatPanels,
    n: usize,
    tokens: usize,
    x: *const f32,
    x_stride: usize,
    out: *mut f32,
    first: bool,
) {
    let s = Avx512Vnni::<false>(());
    for t in (0..tokens).step_by(FEW) {
        // SAFETY: the same contract; token `t` has its part of values and results.
        unsafe {
            let (x, out) = (x.add(x_stride * t), out.add(PANEL_ROWS * PANELS * t));
            match tokens - t {
                1 => float_gemm::multiply::<_, W, PANELS, 1>(s, w, n, x, x_stride, out, first),
                2 => float_gemm::multiply::<_, W, PANELS, 2>(s, w, n, x, x_stride, out, first),
                3 => float_gemm::multiply::<_, W, PANELS, 3>(s, w, n, x, x_stride, out, first),
                _ => float_gemm::multiply::<_, W, PANELS, FEW>(s, w, n, x, x_stride, out, first),
            }
        }
    }
}

/// The first of two tiles of sums, `[token][row]`.
const SUMS: usize = 0;
/// The tile of activations, `[token][column]`.
const TOKENS: usize = 2;
/// The first of two tiles of weights, `[four columns][row][column of the four]`.
const WEIGHTS: usize = 3;

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
pub struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each tile.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// Gives tiles their shapes for `4 * quads` columns.
    fn new(tokens: usize, quads: usize) -> Config {
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for r in 0..PANELS {
            (config.rows[SUMS + r], config.row_bytes[SUMS + r]) = (tokens as u8, 64);
            (config.rows[WEIGHTS + r], config.row_bytes[WEIGHTS + r]) = (quads as u8, 64);
        }
        (config.rows[TOKENS], config.row_bytes[TOKENS]) = (tokens as u8, 4 * quads as u16);
        config
    }
}

/// The instructions on tiles, as methods with the numbers of tiles.
///
/// # Safety
/// Methods need what their instructions do: shapes that fit, and memory of as many rows, `stride` bytes apart.
#[allow(clippy::missing_safety_doc)]
pub trait Tiles {
    /// Executes `ldtilecfg`.
    unsafe fn new(config: &Config) -> Self;
    /// Executes `tilezero`.
    unsafe fn zero<const TILE: usize>(&mut self);
    /// Executes `tileloadd`.
    unsafe fn load<const TILE: usize>(&mut self, from: *const u8, stride: usize);
    /// Executes `tdpbsud`: adds the dot products of rows of `A`, signed, with columns of four bytes of `B`, unsigned,
    /// to `SUM`.
    unsafe fn dot<const SUM: usize, const A: usize, const B: usize>(&mut self);
    /// Executes `tilestored`.
    unsafe fn store<const TILE: usize>(&mut self, to: *mut u8, stride: usize);
    /// Executes `tilerelease`.
    unsafe fn release(self);
}

/// The tiles of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor;

/// Wraps an instruction, whose order among others is kept.
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
        instruction!("tdpbsud tmm{sum}, tmm{a}, tmm{b}", sum = const SUM, a = const A, b = const B);
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

/// The scalar twin of the tiles, by the manual's pseudocode.
#[cfg(test)]
pub mod twin {
    use super::{Amx, Config, PhantomData, Tiles};
    use crate::cpu::kernels::avx512vnni::Avx512Vnni;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Twin {
        tiles: [[[u8; 64]; 16]; 8],
        rows: [usize; 8],
        row_bytes: [usize; 8],
    }

    impl Amx<Twin> {
        /// Returns the token where the processor has AVX-512 with VBMI.
        pub fn detect() -> Option<Self> {
            Avx512Vnni::<true>::detect().map(|_| Amx(PhantomData))
        }
    }

    impl Tiles for Twin {
        unsafe fn new(config: &Config) -> Self {
            assert!((config.palette, config.start_row, config.reserved) == (1, 0, [0; 14]));
            assert!(config.rows[8..].iter().all(|&n| n == 0) && config.row_bytes[8..].iter().all(|&n| n == 0));
            let (rows, row_bytes) = (config.rows.map(usize::from), config.row_bytes.map(usize::from));
            let (Some(&rows), Some(&row_bytes)) = (rows.first_chunk(), row_bytes.first_chunk()) else { unreachable!() };
            assert!(rows.iter().all(|&n| n <= 16) && row_bytes.iter().all(|&n| n <= 64));
            assert!(rows.iter().zip(&row_bytes).all(|(&rows, &bytes)| (rows == 0) == (bytes == 0)));
            // The bytes of a tile before it is written are not to be relied on.
            Twin { tiles: [[[0xa5; 64]; 16]; 8], rows, row_bytes }
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
                        let (a, b) = (self.tiles[A][m][k] as i8, self.tiles[B][k / 4][4 * n + k % 4]);
                        sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                    }
                    self.tiles[SUM][m][4 * n..][..4].copy_from_slice(&sum.to_le_bytes());
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
