//! The tables of matrix kernels, one per instruction set. Owns the types of the kernels and the macros that fill a
//! table; only `Isa::matmul` returns one.
#![allow(unsafe_code)]

use super::activations::InputType;
use super::float_gemm::FloatPanels;
use super::small::{Columns, packing};
use crate::tensor::DType;

/// `gemm::unpack` of one format, or `grouped::unpack` of one kind.
pub type Unpack = unsafe fn(*const u8, usize, *mut u8, DType);
/// `gemm::gemv` of one format, or `grouped::gemv` of one kind, for one number of tokens.
pub type QuantProduct = unsafe fn(*const u8, usize, *const u8, *const f32, bool, *mut f32, usize, DType);
/// `gemm::gemm` of one kind and number of tokens, which is the fourth argument.
pub type TileProduct = unsafe fn(*const u8, usize, *const u8, usize, *const f32, bool, *mut f32, usize);
/// `float_gemm::multiply` of one type and number of tokens, which is the third argument.
pub type FloatProduct = unsafe fn(&FloatPanels, usize, usize, *const f32, usize, *mut f32, bool);
/// `activations::quantize_i8`.
pub type QuantizeI8 = unsafe fn(&[f32], &mut [u8], usize, usize, bool);
/// `activations::quantize_i16`, or `bf16::quantize`.
pub type Quantize16 = unsafe fn(&[f32], &mut [u8], usize, usize);
/// `small::Pack` of one type.
pub type PackFloats = unsafe fn(&Columns, *mut u8);

/// The kernels of a block format.
pub struct BlockKernels {
    /// Number of groups of 32 columns in a block.
    pub groups: usize,
    pub input: InputType,
    /// True if halves of a group have their own scales.
    pub halves: bool,
    /// Size of a row panel in a group of an unpacked tile in bytes.
    pub tile_bytes: usize,
    /// For 1, 2, 4, ... tokens.
    pub gemv: &'static [QuantProduct],
    pub unpack: Unpack,
    /// Indexed by the number of tokens minus one.
    pub gemm: &'static [TileProduct],
}

/// The kernels of a float type.
pub struct FloatKernels {
    /// For one token and `FLOAT_PANELS` row panels.
    pub gemv: FloatProduct,
    /// Indexed by the number of tokens minus one.
    pub gemm: &'static [FloatProduct],
}

/// The matrix kernels of an instruction set.
#[derive(Clone, Copy)]
pub struct MatmulKernels {
    /// Number of row panels in a tile.
    pub panels: usize,
    /// Maximum number of tokens in a call of `gemm`.
    pub tokens: usize,
    /// Maximum number of tokens in a call of `gemv`, a power of two; 0 if there is no `gemv`.
    pub gemv_tokens: usize,
    pub quantize_i8: QuantizeI8,
    /// To integers, or to BF16 for BF16 products.
    pub quantize_16: Quantize16,
    /// For types that are packed as small floats.
    pub pack: fn(DType) -> Option<PackFloats>,
    pub blocks: fn(DType) -> Option<&'static BlockKernels>,
    pub floats: fn(DType) -> Option<&'static FloatKernels>,
}

impl MatmulKernels {
    /// Packs a group of 32 columns and sixteen rows of 16-bit floats; `out` must have exactly the packed size.
    pub fn pack_floats(&self, dtype: DType, columns: &Columns, out: &mut [u8]) {
        let (Some(pack), Some(packing)) = ((self.pack)(dtype), packing(dtype)) else { return };
        assert!(out.len() == packing.bytes);
        // SAFETY: tables come from an `Isa`, so their instruction set was detected; the length of `out` is asserted.
        unsafe { pack(columns, out.as_mut_ptr()) }
    }
}

/// Instantiates the functions that read packed blocks for the instruction set of `$token`: `unpack` for tiles of
/// `$panels` row panels, and `gemv` for some numbers of tokens as `PackedKernels::<Codec>::GEMV`. The attributes enable
/// the instruction set for the functions into which everything else is inlined.
macro_rules! instantiate_blocks {
    ($token:expr, $panels:literal panels, gemv tokens $($few:literal)*, $(#[$enable:meta])*) => {
        use std::marker::PhantomData;

        use $crate::cpu::kernels::codec::Codec;
        use $crate::cpu::kernels::gemm;
        use $crate::cpu::kernels::table::QuantProduct;
        use $crate::tensor::DType;

        $(#[$enable])*
        pub(super) unsafe fn unpack<Q: Codec>(
            w: *const u8, n: usize, tile: *mut u8, _: DType,
        ) {
            // SAFETY: the same contract.
            unsafe { gemm::unpack::<_, Q, $panels>($token, w, n, tile) }
        }

        /// Namespace for the constants of a weight type.
        pub struct PackedKernels<T>(PhantomData<T>);

        impl<Q: Codec> PackedKernels<Q> {
            const GEMV: &'static [QuantProduct] =
                $crate::cpu::kernels::table::instantiate_blocks!(@gemv $token, [$($few)*], $(#[$enable])*);
        }
    };
    (@gemv $token:expr, [], $(#[$enable:meta])*) => { &[] };
    (@gemv $token:expr, [$($few:literal)+], $(#[$enable:meta])*) => {{
        $(#[$enable])*
        unsafe fn gemv<Q: Codec, const N: usize>(
            w: *const u8, n: usize, x: *const u8, sum: *const f32, first: bool, out: *mut f32, stride: usize, _: DType,
        ) {
            // SAFETY: the same contract.
            unsafe { gemm::gemv::<_, Q, N>($token, w, n, x, sum, first, out, stride) }
        }
        &[$(gemv::<Q, $few>),+]
    }};
}
pub(super) use instantiate_blocks;

/// Finds the constant `BLOCKS` of `$of::<Codec>` for the codec of an element type, or of `$grouped` for the kind of a
/// grouped type.
macro_rules! block_kernels {
    ($dtype:expr, $of:ident, $grouped:ident) => {
        Some(match $dtype {
            quant::F16 => &$of::<small::SmallF16>::BLOCKS,
            quant::BF16 => &$of::<small::SmallBf16>::BLOCKS,
            quant::F8_E4M3 => &$of::<codec::F8Blocks>::BLOCKS,
            quant::Q4_0 => &$of::<codec::Q4_0>::BLOCKS,
            quant::Q4_1 => &$of::<codec::Q4_1>::BLOCKS,
            quant::Q5_0 => &$of::<codec::Q5_0>::BLOCKS,
            quant::Q5_1 => &$of::<codec::Q5_1>::BLOCKS,
            quant::Q8_0 => &$of::<codec::Q8_0>::BLOCKS,
            quant::Q2_K => &$of::<codec::Q2K>::BLOCKS,
            quant::Q3_K => &$of::<codec::Q3K>::BLOCKS,
            quant::Q4_K => &$of::<codec::Q4K>::BLOCKS,
            quant::Q5_K => &$of::<codec::Q5K>::BLOCKS,
            quant::Q6_K => &$of::<codec::Q6K>::BLOCKS,
            quant::IQ4_NL => &$of::<codec::Iq4Nl>::BLOCKS,
            quant::IQ4_XS => &$of::<codec::Iq4Xs>::BLOCKS,
            quant::MXFP4 => &$of::<codec::Mxfp4>::BLOCKS,
            quant::IQ1_S => &$of::<codec_iq::Iq1S>::BLOCKS,
            quant::IQ1_M => &$of::<codec_iq::Iq1M>::BLOCKS,
            quant::IQ2_XXS => &$of::<codec_iq::Iq2Xxs>::BLOCKS,
            quant::IQ2_XS => &$of::<codec_iq::Iq2Xs>::BLOCKS,
            quant::IQ2_S => &$of::<codec_iq::Iq2S>::BLOCKS,
            quant::IQ3_XXS => &$of::<codec_iq::Iq3Xxs>::BLOCKS,
            quant::IQ3_S => &$of::<codec_iq::Iq3S>::BLOCKS,
            quant::TQ1_0 => &$of::<codec::Tq1_0>::BLOCKS,
            quant::TQ2_0 => &$of::<codec::Tq2_0>::BLOCKS,
            quant::NVFP4 => &$of::<codec::Nvfp4>::BLOCKS,
            quant::Q1_0 => &$of::<codec::Q1_0>::BLOCKS,
            quant::Q2_0 => &$of::<codec::PairBlocks<2>>::BLOCKS,
            quant::PQ2_0 => &$of::<codec::PairBlocks<4>>::BLOCKS,
            quant::PTQ1_0 => &$of::<codec::Ptq1_0>::BLOCKS,
            dtype => match grouped::kind(dtype)? {
                grouped::GroupedKind::Four => &$grouped::<codec::Min4>::BLOCKS,
                grouped::GroupedKind::Five => &$grouped::<codec::Min5>::BLOCKS,
                grouped::GroupedKind::Seven => &$grouped::<codec::Min7>::BLOCKS,
                grouped::GroupedKind::Bytes => &$grouped::<codec::WideMin>::BLOCKS,
                grouped::GroupedKind::Floats => &$grouped::<codec::Int16>::BLOCKS,
            },
        })
    };
}
pub(super) use block_kernels;

/// Instantiates the products of unpacked blocks, all kernels of grouped formats, and the table of all block formats as
/// `blocks`, after `instantiate_blocks` with the same numbers of tokens for `gemv`. `$unpack` is the function that
/// unpacks `Q`.
macro_rules! instantiate_gemm {
    ($token:expr, $panels:literal panels, gemv tokens $($few:literal)*, gemm tokens $($n:literal)*,
        unpack $unpack:expr, $(#[$enable:meta])*) => {
        use $crate::cpu::kernels::codec::Kind;
        use $crate::cpu::kernels::table::BlockKernels;
        use $crate::cpu::kernels::{codec, codec_iq, grouped, small};
        use $crate::quant;

        $(#[$enable])*
        unsafe fn unpack_grouped<K: Kind>(w: *const u8, n: usize, tile: *mut u8, dtype: DType) {
            // SAFETY: the same contract.
            unsafe { grouped::unpack::<_, K, $panels>($token, dtype, w, n, tile) }
        }

        $(#[$enable])*
        unsafe fn gemm<K: Kind, const N: usize>(
            tile: *const u8, n: usize, x: *const u8, _: usize, sum: *const f32, first: bool, out: *mut f32, stride: usize,
        ) {
            // SAFETY: the same contract.
            unsafe { gemm::gemm::<_, K, $panels, N>($token, tile, n, x, N, sum, first, out, stride) }
        }

        impl<Q: Codec> PackedKernels<Q> {
            pub const BLOCKS: BlockKernels = BlockKernels {
                groups: Q::GROUPS,
                input: Q::Kind::INPUT,
                halves: Q::Kind::SUBS == 2,
                tile_bytes: $crate::cpu::kernels::weight_group::tile_bytes::<Q::Kind>(),
                gemv: Self::GEMV,
                unpack: $unpack,
                gemm: &[$(gemm::<Q::Kind, $n>),*],
            };
        }

        /// Namespace for the constants of a kind of grouped formats.
        pub struct UnpackedKernels<K>(PhantomData<K>);

        impl<K: Kind> UnpackedKernels<K> {
            pub const BLOCKS: BlockKernels = BlockKernels {
                groups: 1,
                input: K::INPUT,
                halves: false,
                tile_bytes: $crate::cpu::kernels::weight_group::tile_bytes::<K>(),
                gemv: $crate::cpu::kernels::table::instantiate_gemm!(@grouped $token, [$($few)*], $(#[$enable])*),
                unpack: unpack_grouped::<K>,
                gemm: &[$(gemm::<K, $n>),*],
            };
        }

        pub(super) fn blocks(dtype: DType) -> Option<&'static BlockKernels> {
            $crate::cpu::kernels::table::block_kernels!(dtype, PackedKernels, UnpackedKernels)
        }
    };
    (@grouped $token:expr, [], $(#[$enable:meta])*) => { &[] };
    (@grouped $token:expr, [$($few:literal)+], $(#[$enable:meta])*) => {{
        $(#[$enable])*
        unsafe fn gemv<K: Kind, const N: usize>(
            w: *const u8, n: usize, x: *const u8, sum: *const f32, first: bool, out: *mut f32, stride: usize,
            dtype: DType,
        ) {
            // SAFETY: the same contract.
            unsafe { $crate::cpu::kernels::grouped::gemv::<_, K, N>($token, dtype, w, n, x, sum, first, out, stride) }
        }
        &[$(gemv::<K, $few>),+]
    }};
}
pub(super) use instantiate_gemm;

/// Instantiates all kernels for the instruction set of `$token` as `KERNELS`.
macro_rules! instantiate {
    ($token:expr, $panels:literal panels, gemv tokens $($few:literal)*, gemm tokens $($n:literal)*, $(#[$enable:meta])*) => {
        $crate::cpu::kernels::table::instantiate_blocks!(
            $token, $panels panels, gemv tokens $($few)*, $(#[$enable])*
        );
        $crate::cpu::kernels::table::instantiate_gemm!(
            $token, $panels panels, gemv tokens $($few)*, gemm tokens $($n)*, unpack unpack::<Q>, $(#[$enable])*
        );

        use $crate::cpu::kernels::float::Float;
        use $crate::cpu::kernels::small::{Columns, Pack};
        use $crate::cpu::kernels::table::{FloatKernels, MatmulKernels};
        use $crate::cpu::kernels::{activations, float, float_gemm};

        $(#[$enable])*
        unsafe fn multiply_floats<T: Float, const R: usize, const N: usize>(
            w: &float_gemm::FloatPanels, n: usize, _: usize, x: *const f32, x_stride: usize, out: *mut f32, first: bool,
        ) {
            // SAFETY: the same contract.
            unsafe { float_gemm::multiply::<_, T, R, N>($token, w, n, x, x_stride, out, first) }
        }

        $(#[$enable])*
        unsafe fn quantize_i8(x: &[f32], out: &mut [u8], n: usize, t: usize, halves: bool) {
            activations::quantize_i8($token, x, out, n, t, halves)
        }

        $(#[$enable])*
        unsafe fn quantize_16(x: &[f32], out: &mut [u8], n: usize, t: usize) {
            activations::quantize_i16($token, x, out, n, t)
        }

        $(#[$enable])*
        unsafe fn pack<T: Pack>(columns: &Columns, out: *mut u8) {
            // SAFETY: the same contract.
            unsafe { T::pack($token, columns, out) }
        }

        impl<T: Float> PackedKernels<T> {
            pub const FLOATS: FloatKernels = FloatKernels {
                gemv: multiply_floats::<T, { float_gemm::FLOAT_PANELS }, 1>,
                gemm: &[$(multiply_floats::<T, $panels, $n>),*],
            };
        }

        pub const KERNELS: MatmulKernels = MatmulKernels {
            panels: $panels,
            tokens: [$($n),*].len(),
            gemv_tokens: { let tokens: &[usize] = &[$($few),*]; if let Some(most) = tokens.last() { *most } else { 0 } },
            quantize_i8,
            quantize_16,
            pack: |dtype| Some(match dtype {
                quant::F16 => pack::<small::SmallF16>,
                quant::BF16 => pack::<small::SmallBf16>,
                _ => return None,
            }),
            blocks,
            floats: |dtype| Some(match dtype {
                quant::F32 => &PackedKernels::<float::F32>::FLOATS,
                quant::F16 => &PackedKernels::<float::F16>::FLOATS,
                quant::BF16 => &PackedKernels::<float::Bf16>::FLOATS,
                quant::F8_E4M3 => &PackedKernels::<float::F8>::FLOATS,
                _ => return None,
            }),
        };
    };
}
pub(super) use instantiate;
