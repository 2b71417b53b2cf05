//! AVX-512 with VNNI: the sixteen lanes are one register. With VBMI, codebooks are looked up without gathers.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx2::{max8, sum8};
use super::simd::{Codebook, EXPONENT, INVERSE_POWER, LANES, LEAST_POWER, PAIR_STEP, Simd};
use super::small::Small;
use super::table::MatmulKernels;

/// The token of AVX-512 F, BW, DQ, VL and VNNI, of AVX2, FMA and F16C, and, if `VBMI`, of VBMI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx512Vnni<const VBMI: bool>(pub(super) ());

impl<const VBMI: bool> Avx512Vnni<VBMI> {
    /// Returns the token if the processor has the instruction set.
    pub fn detect() -> Option<Self> {
        let base = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        (base && (!VBMI || is_x86_feature_detected!("avx512vbmi"))).then_some(Avx512Vnni(()))
    }

    /// Returns the token without VBMI.
    pub fn base(self) -> Avx512Vnni<false> {
        Avx512Vnni(())
    }

    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        if VBMI { &vbmi::KERNELS } else { &plain::KERNELS }
    }
}

// Two panels by four tokens: eight integer sums, their scaled halves and eight results in 32 registers, and six loads
// per eight dot products.
pub(super) mod plain {
    use super::Avx512Vnni;
    use crate::cpu::kernels::table::instantiate;
    instantiate!(
        Avx512Vnni::<false>(()),
        2 panels,
        gemv tokens 1 2 4 8,
        gemm tokens 1 2 3 4,
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    );
}
/// The formats that VBMI accelerates; everything else is as without it.
pub(super) mod vbmi {
    use super::{Avx512Vnni, plain};
    use crate::cpu::kernels::codec_iq;
    use crate::cpu::kernels::table::{BlockKernels, MatmulKernels, instantiate_blocks};
    use crate::quant;
    instantiate_blocks!(
        Avx512Vnni::<true>(()),
        2 panels,
        gemv tokens 1 2 4 8,
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx2,fma,f16c")]
    );

    impl<Q: Codec> PackedKernels<Q> {
        pub const BLOCKS: BlockKernels =
            BlockKernels { gemv: Self::GEMV, unpack: unpack::<Q>, ..plain::PackedKernels::<Q>::BLOCKS };
    }

    pub const KERNELS: MatmulKernels = MatmulKernels {
        blocks: |dtype| match dtype {
            quant::IQ2_XXS => Some(&PackedKernels::<codec_iq::Iq2Xxs>::BLOCKS),
            quant::IQ2_XS => Some(&PackedKernels::<codec_iq::Iq2Xs>::BLOCKS),
            quant::IQ3_XXS => Some(&PackedKernels::<codec_iq::Iq3Xxs>::BLOCKS),
            quant::IQ3_S => Some(&PackedKernels::<codec_iq::Iq3S>::BLOCKS),
            _ => plain::blocks(dtype),
        },
        ..plain::KERNELS
    };
}

/// Wraps the intrinsics of a method of `Simd`.
macro_rules! run {
    ($($code:tt)*) => {
        // SAFETY: `self` proves the instruction set; pointers are used within the method's contract.
        unsafe { $($code)* }
    };
}

impl<const VBMI: bool> Avx512Vnni<VBMI> {
    /// Returns, for byte `n` of each lane, the coordinate of codeword `index[n] % N` in each of four planes. One
    /// instruction looks up a table of 128 bytes in two registers; larger tables are looked up in parts.
    #[inline(always)]
    fn look_up<const N: usize>(self, planes: [&[u8; N]; 4], index: [__m512i; 4]) -> [__m512i; 4] {
        assert!(N == 256 || N == 512);
        let (mut low, mut high) = (self.splat_i32(0), self.splat_i32(0));
        for (n, &index) in index.iter().enumerate() {
            low = self.or(low, self.bits(index, -8 * n as i32, 0xff << (8 * n)));
            high = self.or(high, self.bits(index, 8 - 8 * n as i32, 0xff << (8 * n)));
        }
        let mut out = [low; 4];
        // SAFETY: `self` proves the instruction set; a plane is `N` bytes long.
        unsafe {
            let (odd_pair, last_half) = (_mm512_movepi8_mask(low), _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)));
            for (out, plane) in out.iter_mut().zip(planes) {
                let plane = plane.as_ptr();
                macro_rules! half {
                    ($at:expr) => {{
                        let p = plane.add($at);
                        let even = _mm512_permutex2var_epi8(self.load_bytes(p), low, self.load_bytes(p.add(64)));
                        let odd =
                            _mm512_permutex2var_epi8(self.load_bytes(p.add(128)), low, self.load_bytes(p.add(192)));
                        _mm512_mask_mov_epi8(even, odd_pair, odd)
                    }};
                }
                *out = half!(0);
                if N == 512 {
                    *out = _mm512_mask_mov_epi8(*out, last_half, half!(256));
                }
            }
        }
        out
    }

    /// Transposes 4 x 4 bytes within each lane: byte `k` of register `n` becomes byte `n` of register `k`.
    #[inline(always)]
    fn transpose_bytes(self, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        const HIGH: u64 = 0xcccc_cccc_cccc_cccc;
        macro_rules! swap {
            ($mask:ident, $bits:literal, $a:expr, $b:expr) => {
                (
                    _mm512_mask_mov_epi8($a, $mask, _mm512_slli_epi32::<$bits>($b)),
                    _mm512_mask_mov_epi8($b, !$mask, _mm512_srli_epi32::<$bits>($a)),
                )
            };
        }
        run! {
            let ((a, b), (c, d)) = (swap!(ODD, 8, a, b), swap!(ODD, 8, c, d));
            let ((a, c), (b, d)) = (swap!(HIGH, 16, a, c), swap!(HIGH, 16, b, d));
            [a, b, c, d]
        }
    }
}

/// Returns `acc + a . b` over two i16 by `vpdpwssd`; the compiler would split its intrinsic into a product and a sum.
#[target_feature(enable = "avx512f,avx512vnni")]
#[inline]
fn dot_pairs(mut acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: a register operation of this function's instruction set.
    unsafe {
        asm!(
            "vpdpwssd {}, {}, {}",
            inout(zmm_reg) acc, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

impl<const VBMI: bool> Simd for Avx512Vnni<VBMI> {
    type I = __m512i;
    type F = __m512;
    type Pairs = __m512i;
    const WIDE_ZERO: i32 = 128;
    const ACCUMULATORS: usize = 24;
    const UNROLL: bool = true;

    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> __m512i {
        run!(_mm512_loadu_si512(p.cast()))
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, v: __m512i) {
        run!(_mm512_storeu_si512(p.cast(), v))
    }
    #[inline(always)]
    fn splat_i32(self, x: i32) -> __m512i {
        run!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn add_i32(self, a: __m512i, b: __m512i) -> __m512i {
        run!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn shift(self, v: __m512i, n: i32) -> __m512i {
        run! {
            if n >= 0 { _mm512_sll_epi32(v, _mm_cvtsi32_si128(n)) } else { _mm512_sra_epi32(v, _mm_cvtsi32_si128(-n)) }
        }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        run!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn add_bytes(self, a: __m512i, b: u8) -> __m512i {
        run!(_mm512_add_epi8(a, _mm512_set1_epi8(b as i8)))
    }
    #[inline(always)]
    fn field(self, v: __m512i, shift: i32, mask: u8) -> __m512i {
        run! {
            let v = if shift >= 0 {
                _mm512_srl_epi16(v, _mm_cvtsi32_si128(shift))
            } else {
                _mm512_sll_epi16(v, _mm_cvtsi32_si128(-shift))
            };
            _mm512_and_si512(v, _mm512_set1_epi8(mask as i8))
        }
    }
    #[inline(always)]
    fn bits(self, v: __m512i, shift: i32, mask: u32) -> __m512i {
        run! {
            let v = if shift >= 0 {
                _mm512_srl_epi32(v, _mm_cvtsi32_si128(shift))
            } else {
                _mm512_sll_epi32(v, _mm_cvtsi32_si128(-shift))
            };
            _mm512_and_si512(v, _mm512_set1_epi32(mask as i32))
        }
    }
    #[inline(always)]
    fn spread(self, v: __m512i, n: usize) -> __m512i {
        run! {
            let lanes = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
            _mm512_shuffle_epi8(v, _mm512_or_si512(lanes, _mm512_set1_epi8(n as i8)))
        }
    }
    #[inline(always)]
    fn reflect(self, v: __m512i, bits: __m512i, mask: u32) -> __m512i {
        run! {
            let hits = _mm512_test_epi8_mask(bits, _mm512_set1_epi32(mask as i32));
            _mm512_mask_sub_epi8(v, hits, _mm512_set1_epi8(-128), v)
        }
    }
    #[inline(always)]
    fn ternary_digit(self, v: __m512i, power: u8) -> __m512i {
        // A byte in the upper half of 16 bits: the low product drops multiples of 256, the high one leaves the digit.
        run! {
            let (power, three) = (_mm512_set1_epi16(power.into()), _mm512_set1_epi16(3));
            let even = _mm512_mullo_epi16(_mm512_slli_epi16::<8>(v), power);
            let odd = _mm512_mullo_epi16(_mm512_and_si512(v, _mm512_set1_epi16(-256)), power);
            let odd = _mm512_slli_epi16::<8>(_mm512_mulhi_epu16(odd, three));
            _mm512_or_si512(_mm512_mulhi_epu16(even, three), odd)
        }
    }
    #[inline(always)]
    fn codewords4<const N: usize>(self, codebook: &Codebook<4, N>, index: [__m512i; 4]) -> [__m512i; 4] {
        const { assert!(N.is_power_of_two()) }
        if VBMI && N <= 512 {
            let [p, q, r, s] = &codebook.planes;
            return self.transpose_bytes(self.look_up([p, q, r, s], index));
        }
        let mut out = index;
        for n in 0..4 {
            let index = self.bits(index[n], 0, N as u32 - 1);
            out[n] = run!(_mm512_i32gather_epi32::<4>(index, codebook.codewords.as_ptr().cast()));
        }
        out
    }
    #[inline(always)]
    fn codewords8<const N: usize>(self, codebook: &Codebook<8, N>, index: [__m512i; 4]) -> [__m512i; 8] {
        const { assert!(N.is_power_of_two()) }
        let mut out = [index[0]; 8];
        if VBMI && N <= 512 {
            let [p, q, r, s, t, u, v, w] = &codebook.planes;
            let low = self.transpose_bytes(self.look_up([p, q, r, s], index));
            let high = self.transpose_bytes(self.look_up([t, u, v, w], index));
            for n in 0..4 {
                out[2 * n] = low[n];
                out[2 * n + 1] = high[n];
            }
            return out;
        }
        for n in 0..4 {
            run! {
                let index = self.bits(index[n], 0, N as u32 - 1);
                let table = codebook.codewords.as_ptr().cast();
                let a = _mm512_i32gather_epi64::<8>(_mm512_castsi512_si256(index), table);
                let b = _mm512_i32gather_epi64::<8>(_mm512_extracti64x4_epi64::<1>(index), table);
                let low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let high = _mm512_or_si512(low, _mm512_set1_epi32(1));
                out[2 * n] = _mm512_permutex2var_epi32(a, low, b);
                out[2 * n + 1] = _mm512_permutex2var_epi32(a, high, b);
            }
        }
        out
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], v: __m512i) -> __m512i {
        run!(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), v))
    }
    #[inline(always)]
    fn wide(self, v: __m512i) -> __m512i {
        run!(_mm512_xor_si512(v, _mm512_set1_epi8(-128)))
    }
    #[inline(always)]
    fn dot(self, acc: __m512i, w: __m512i, x: i32) -> __m512i {
        run!(_mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(x)))
    }
    #[inline(always)]
    fn dot_unsigned(self, acc: __m512i, w: __m512i, x: i32) -> __m512i {
        run!(_mm512_dpbusd_epi32(acc, _mm512_set1_epi32(x), w))
    }
    #[inline(always)]
    fn dot_wide(self, acc: __m512i, w: __m512i, x: i32) -> __m512i {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn pairs(self, v: __m512i) -> __m512i {
        v
    }
    #[inline(always)]
    unsafe fn load_pairs(self, p: *const u8) -> __m512i {
        // SAFETY: 64 bytes by this function's contract.
        unsafe { self.load_bytes(p) }
    }
    #[inline(always)]
    fn splat_pair(self, x: i32) -> __m512i {
        self.splat_i32(x)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
        run!(dot_pairs(acc, a, b))
    }
    #[inline(always)]
    fn max_magnitude(self, max: __m512i, v: __m512) -> __m512i {
        run!(_mm512_max_epi32(max, _mm512_castps_si512(_mm512_abs_ps(v))))
    }
    #[inline(always)]
    fn pair_scale(self, max: __m512i) -> __m512 {
        run! {
            let power = _mm512_and_si512(max, _mm512_set1_epi32(EXPONENT));
            let power = _mm512_max_epi32(power, _mm512_set1_epi32(LEAST_POWER));
            _mm512_mul_ps(_mm512_castsi512_ps(power), _mm512_set1_ps(PAIR_STEP))
        }
    }
    #[inline(always)]
    fn inverse_power(self, v: __m512) -> __m512 {
        run!(_mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(INVERSE_POWER), _mm512_castps_si512(v))))
    }
    #[inline(always)]
    fn round_to_pair(self, a: __m512, b: __m512) -> __m512i {
        run!(_mm512_mask_blend_epi16(0xaaaa_aaaa, self.to_i32(a), _mm512_slli_epi32::<16>(self.to_i32(b))))
    }
    #[inline(always)]
    fn small<const M: u32>(self, v: __m512i) -> __m512i {
        run! {
            let index = _mm512_srl_epi16(v, _mm_cvtsi32_si128(Small::<M>::INDEX as i32));
            let shifts = _mm512_broadcast_i32x4(_mm_loadu_si128(Small::<M>::SHIFTS.as_ptr().cast()));
            let offsets = _mm512_broadcast_i64x4(_mm256_loadu_si256(Small::<M>::OFFSETS.as_ptr().cast()));
            let mantissa = _mm512_and_si512(v, _mm512_set1_epi16(Small::<M>::MANTISSA as i16));
            // Without the mask the compiler would handle shifts of more than 15 bits.
            let shift = _mm512_and_si512(_mm512_shuffle_epi8(shifts, index), _mm512_set1_epi16(15));
            _mm512_add_epi16(_mm512_srlv_epi16(mantissa, shift), _mm512_permutexvar_epi16(index, offsets))
        }
    }
    #[inline(always)]
    fn to_f32(self, v: __m512i) -> __m512 {
        run!(_mm512_cvtepi32_ps(v))
    }
    #[inline(always)]
    fn to_i32(self, v: __m512) -> __m512i {
        run!(_mm512_cvtps_epi32(v))
    }
    #[inline(always)]
    fn pack_bytes(self, a: __m512i, b: __m512i) -> ([u32; 8], [i32; 2]) {
        run! {
            let bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(b), _mm512_cvtepi32_epi8(a));
            let sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
            let sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b01_00_11_10>(sums));
            let sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b10_11_00_01>(sums));
            let sums = [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)];
            (std::mem::transmute::<__m256i, [u32; 8]>(bytes), sums)
        }
    }
    #[inline(always)]
    fn max_abs(self, a: __m512, b: __m512) -> f32 {
        // Magnitudes are ordered as integers, so that NaN is the largest.
        run! {
            let bits = _mm512_max_epu32(_mm512_castps_si512(_mm512_abs_ps(a)), _mm512_castps_si512(_mm512_abs_ps(b)));
            f32::from_bits(_mm512_reduce_max_epu32(bits))
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        run!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        run!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(a))
    }
    #[inline(always)]
    fn scale_by_power(self, p: __m512, n: __m512) -> __m512 {
        run! {
            // Above -127 or NaN.
            let lanes = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(n, _mm512_set1_ps(-127.0));
            _mm512_maskz_scalef_ps(lanes, p, n)
        }
    }
    #[inline(always)]
    fn swap_neighbors(self, a: __m512) -> __m512 {
        run!(_mm512_permute_ps::<0b10_11_00_01>(a))
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        run! {
            sum8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
        }
    }
    #[inline(always)]
    fn max_lane(self, a: __m512) -> f32 {
        run! {
            max8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
        }
    }
    #[inline(always)]
    fn transpose(self, r: [__m512; LANES]) -> [__m512; LANES] {
        run! {
            // First within each quarter of the registers, four rows by four columns; then across the quarters.
            let mut u = r;
            for i in (0..LANES).step_by(4) {
                let low = [_mm512_unpacklo_ps(r[i], r[i + 1]), _mm512_unpacklo_ps(r[i + 2], r[i + 3])];
                let high = [_mm512_unpackhi_ps(r[i], r[i + 1]), _mm512_unpackhi_ps(r[i + 2], r[i + 3])];
                u[i] = _mm512_shuffle_ps::<0b01_00_01_00>(low[0], low[1]);
                u[i + 1] = _mm512_shuffle_ps::<0b11_10_11_10>(low[0], low[1]);
                u[i + 2] = _mm512_shuffle_ps::<0b01_00_01_00>(high[0], high[1]);
                u[i + 3] = _mm512_shuffle_ps::<0b11_10_11_10>(high[0], high[1]);
            }
            let mut out = u;
            for i in 0..4 {
                const EVEN: i32 = 0b10_00_10_00;
                const ODD: i32 = 0b11_01_11_01;
                let even = [_mm512_shuffle_f32x4::<EVEN>(u[i], u[i + 4]), _mm512_shuffle_f32x4::<EVEN>(u[i + 8], u[i + 12])];
                let odd = [_mm512_shuffle_f32x4::<ODD>(u[i], u[i + 4]), _mm512_shuffle_f32x4::<ODD>(u[i + 8], u[i + 12])];
                out[i] = _mm512_shuffle_f32x4::<EVEN>(even[0], even[1]);
                out[i + 4] = _mm512_shuffle_f32x4::<EVEN>(odd[0], odd[1]);
                out[i + 8] = _mm512_shuffle_f32x4::<ODD>(even[0], even[1]);
                out[i + 12] = _mm512_shuffle_f32x4::<ODD>(odd[0], odd[1]);
            }
            out
        }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        run!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        run!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    unsafe fn load_f32(self, p: *const f32) -> __m512 {
        run!(_mm512_loadu_ps(p))
    }
    #[inline(always)]
    unsafe fn store_f32(self, p: *mut f32, v: __m512) {
        run!(_mm512_storeu_ps(p, v))
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u8) -> __m512 {
        run!(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8) -> __m512 {
        run!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))))
    }
    #[inline(always)]
    unsafe fn load_powers(self, p: *const u8) -> __m512 {
        run!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())))))
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> __m512 {
        run!(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))))
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8) -> __m512 {
        run!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))))
    }
    #[inline(always)]
    fn store_i8(self, v: __m512, to: &mut [i8; LANES]) {
        run! {
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)))
        }
    }
    #[inline(always)]
    fn store_i16(self, v: __m512, to: &mut [i16; LANES]) {
        run! {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)))
        }
    }
}
