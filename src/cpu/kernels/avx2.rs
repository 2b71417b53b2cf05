//! AVX2: the sixteen lanes are two registers. With AVX-VNNI a dot product is one instruction, without it three or four.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::arch::x86_64::*;

use super::simd::{Codebook, EXPONENT, INVERSE_POWER, LANES, LEAST_POWER, PAIR_STEP, Simd};
use super::small::Small;
use super::table::MatmulKernels;

/// The token of AVX2, FMA and F16C, and, if `VNNI`, of AVX-VNNI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx2<const VNNI: bool>(());

impl<const VNNI: bool> Avx2<VNNI> {
    /// Returns the token if the processor has the instruction set.
    pub fn detect() -> Option<Self> {
        let base =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        (base && (!VNNI || is_x86_feature_detected!("avxvnni"))).then_some(Avx2(()))
    }

    /// Returns the token without AVX-VNNI.
    pub fn base(self) -> Avx2<false> {
        Avx2(())
    }

    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        if VNNI { &vnni::KERNELS } else { &plain::KERNELS }
    }
}

// One panel by three tokens: six integer sums and six results in 16 registers.
mod plain {
    use super::Avx2;
    use crate::cpu::kernels::table::instantiate;
    instantiate!(
        Avx2::<false>(()),
        1 panels,
        gemv tokens 1,
        gemm tokens 1 2 3,
        #[target_feature(enable = "avx2,fma,f16c")]
    );
}
/// The kernels that multiply by dot products, including the bytes of wide formats; everything else is as without VNNI.
mod vnni {
    use super::{Avx2, plain};
    use crate::cpu::kernels::activations;
    use crate::cpu::kernels::table::{MatmulKernels, instantiate_blocks, instantiate_gemm};
    instantiate_blocks!(
        Avx2::<true>(()),
        1 panels,
        gemv tokens 1,
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    );
    instantiate_gemm!(
        Avx2::<true>(()),
        1 panels,
        gemv tokens 1,
        gemm tokens 1 2 3,
        unpack if Q::Kind::WIDE { unpack::<Q> } else { plain::unpack::<Q> },
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    );
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn quantize_i8(x: &[f32], out: &mut [u8], n: usize, t: usize, halves: bool) {
        activations::quantize_i8(Avx2::<true>(()), x, out, n, t, halves)
    }
    pub(super) static KERNELS: MatmulKernels = MatmulKernels { blocks, quantize_i8, ..plain::KERNELS };
}

/// Wraps the intrinsics of a method of `Simd`.
macro_rules! run {
    ($($code:tt)*) => {
        // SAFETY: `self` proves the instruction set; pointers are used within the method's contract.
        unsafe { $($code)* }
    };
}

/// Returns `acc + a . b` over two i16. The compiler would split the intrinsic `vpdpwssd` into a product and a sum, and
/// would order many sums so that registers spill.
#[target_feature(enable = "avx2")]
#[inline]
fn dot_pairs<const VNNI: bool>(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: register operations; callers that set `VNNI` hold a token of AVX-VNNI.
    unsafe {
        if VNNI {
            asm!(
                "{{vex}} vpdpwssd {}, {}, {}",
                inout(ymm_reg) acc, in(ymm_reg) a, in(ymm_reg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
        } else {
            asm!(
                "vpmaddwd {product}, {a}, {b}",
                "vpaddd {acc}, {acc}, {product}",
                acc = inout(ymm_reg) acc, a = in(ymm_reg) a, b = in(ymm_reg) b, product = out(ymm_reg) _,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
    acc
}

/// Returns `acc + w . x` over four bytes, in assembly for the same reason.
#[target_feature(enable = "avx2")]
#[inline]
fn dot_bytes(mut acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: register operations.
    unsafe {
        asm!(
            "vpmaddubsw {product}, {w}, {x}",
            "vpmaddwd {product}, {product}, {ones}",
            "vpaddd {acc}, {acc}, {product}",
            acc = inout(ymm_reg) acc, w = in(ymm_reg) w, x = in(ymm_reg) x, ones = in(ymm_reg) _mm256_set1_epi16(1),
            product = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// Returns `acc + w . x` over four signed bytes: the magnitudes of `w` times `x` with the signs of `w`. Two products of
/// 128 * 127 fit in 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn dot_signed_bytes(mut acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: register operations.
    unsafe {
        asm!(
            "vpsignb {product}, {x}, {w}",
            "vpmaddubsw {product}, {magnitude}, {product}",
            "vpmaddwd {product}, {product}, {ones}",
            "vpaddd {acc}, {acc}, {product}",
            acc = inout(ymm_reg) acc, w = in(ymm_reg) w, magnitude = in(ymm_reg) _mm256_abs_epi8(w), x = in(ymm_reg) x,
            ones = in(ymm_reg) _mm256_set1_epi16(1), product = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// Returns `sum + w[0] * x[0] + w[1] * x[1]` over two bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn add_products(mut sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: register operations.
    unsafe {
        asm!(
            "vpmaddubsw {product}, {w}, {x}",
            "vpaddw {sum}, {sum}, {product}",
            sum = inout(ymm_reg) sum, w = in(ymm_reg) w, x = in(ymm_reg) x, product = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// Returns the sum of eight lanes: lane i + lane i + 4, then i + 2, i + 1.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sum8(a: __m256) -> f32 {
    let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
}

/// Returns the largest of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn max8(a: __m256) -> f32 {
    let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    type I = [__m256i; 2];
    type F = [__m256; 2];
    type Pairs = [__m256i; 2];
    const WIDE_ZERO: i32 = if VNNI { 128 } else { 0 };
    const ACCUMULATORS: usize = 6;
    const UNROLL: bool = true;
    const SUMS_OF_16_BITS: bool = !VNNI;

    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Self::I {
        run!([_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast())])
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, v: Self::I) {
        run! {
            _mm256_storeu_si256(p.cast(), v[0]);
            _mm256_storeu_si256(p.add(32).cast(), v[1]);
        }
    }
    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        run!([_mm256_set1_epi32(x); 2])
    }
    #[inline(always)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        run!([_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn shift(self, v: Self::I, n: i32) -> Self::I {
        run! {
            if n >= 0 {
                let n = _mm_cvtsi32_si128(n);
                [_mm256_sll_epi32(v[0], n), _mm256_sll_epi32(v[1], n)]
            } else {
                let n = _mm_cvtsi32_si128(-n);
                [_mm256_sra_epi32(v[0], n), _mm256_sra_epi32(v[1], n)]
            }
        }
    }
    #[inline(always)]
    fn or(self, a: Self::I, b: Self::I) -> Self::I {
        run!([_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn add_bytes(self, a: Self::I, b: u8) -> Self::I {
        run! {
            let b = _mm256_set1_epi8(b as i8);
            [_mm256_add_epi8(a[0], b), _mm256_add_epi8(a[1], b)]
        }
    }
    #[inline(always)]
    fn field(self, v: Self::I, shift: i32, mask: u8) -> Self::I {
        run! {
            let v = if shift >= 0 {
                let shift = _mm_cvtsi32_si128(shift);
                [_mm256_srl_epi16(v[0], shift), _mm256_srl_epi16(v[1], shift)]
            } else {
                let shift = _mm_cvtsi32_si128(-shift);
                [_mm256_sll_epi16(v[0], shift), _mm256_sll_epi16(v[1], shift)]
            };
            let mask = _mm256_set1_epi8(mask as i8);
            [_mm256_and_si256(v[0], mask), _mm256_and_si256(v[1], mask)]
        }
    }
    #[inline(always)]
    fn bits(self, v: Self::I, shift: i32, mask: u32) -> Self::I {
        run! {
            let v = if shift >= 0 {
                let shift = _mm_cvtsi32_si128(shift);
                [_mm256_srl_epi32(v[0], shift), _mm256_srl_epi32(v[1], shift)]
            } else {
                let shift = _mm_cvtsi32_si128(-shift);
                [_mm256_sll_epi32(v[0], shift), _mm256_sll_epi32(v[1], shift)]
            };
            let mask = _mm256_set1_epi32(mask as i32);
            [_mm256_and_si256(v[0], mask), _mm256_and_si256(v[1], mask)]
        }
    }
    #[inline(always)]
    fn spread(self, v: Self::I, n: usize) -> Self::I {
        run! {
            let places = _mm256_or_si256(
                _mm256_set1_epi8(n as i8),
                _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0),
            );
            [_mm256_shuffle_epi8(v[0], places), _mm256_shuffle_epi8(v[1], places)]
        }
    }
    #[inline(always)]
    fn reflect(self, v: Self::I, bits: Self::I, mask: u32) -> Self::I {
        run! {
            let (mask, twice) = (_mm256_set1_epi32(mask as i32), _mm256_set1_epi8(-128));
            let low = _mm256_cmpeq_epi8(_mm256_and_si256(bits[0], mask), mask);
            let high = _mm256_cmpeq_epi8(_mm256_and_si256(bits[1], mask), mask);
            [
                _mm256_blendv_epi8(v[0], _mm256_sub_epi8(twice, v[0]), low),
                _mm256_blendv_epi8(v[1], _mm256_sub_epi8(twice, v[1]), high),
            ]
        }
    }
    #[inline(always)]
    fn ternary_digit(self, v: Self::I, power: u8) -> Self::I {
        // A byte in the upper half of 16 bits: the low product drops multiples of 256, the high one leaves the digit.
        macro_rules! digits {
            ($bytes:expr) => {
                _mm256_mulhi_epu16(_mm256_mullo_epi16($bytes, _mm256_set1_epi16(power.into())), _mm256_set1_epi16(3))
            };
        }
        macro_rules! all_digits {
            ($v:expr) => {{
                let odd = digits!(_mm256_and_si256($v, _mm256_set1_epi16(-256)));
                _mm256_or_si256(digits!(_mm256_slli_epi16::<8>($v)), _mm256_slli_epi16::<8>(odd))
            }};
        }
        run!([all_digits!(v[0]), all_digits!(v[1])])
    }
    #[inline(always)]
    fn codewords4<const N: usize>(self, codebook: &Codebook<4, N>, index: [Self::I; 4]) -> [Self::I; 4] {
        const { assert!(N.is_power_of_two()) }
        let mut out = index;
        for n in 0..4 {
            let [a, b] = self.bits(index[n], 0, N as u32 - 1);
            let p = codebook.codewords.as_ptr().cast();
            out[n] = run!([_mm256_i32gather_epi32::<4>(p, a), _mm256_i32gather_epi32::<4>(p, b)]);
        }
        out
    }
    #[inline(always)]
    fn codewords8<const N: usize>(self, codebook: &Codebook<8, N>, index: [Self::I; 4]) -> [Self::I; 8] {
        const { assert!(N.is_power_of_two()) }
        let mut out = [index[0]; 8];
        for n in 0..4 {
            let index = self.bits(index[n], 0, N as u32 - 1);
            for i in 0..2 {
                run! {
                    let p = codebook.codewords.as_ptr().cast();
                    // Unpacking words works within 128 bits, so that lanes 0 1 4 5 come with lanes 2 3 6 7.
                    let index = _mm256_permute4x64_epi64::<0b11_01_10_00>(index[i]);
                    let a = _mm256_i32gather_epi64::<8>(p, _mm256_castsi256_si128(index));
                    let b = _mm256_i32gather_epi64::<8>(p, _mm256_extracti128_si256::<1>(index));
                    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
                    out[2 * n][i] = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
                    out[2 * n + 1][i] = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
                }
            }
        }
        out
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], v: Self::I) -> Self::I {
        run! {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            [_mm256_shuffle_epi8(table, v[0]), _mm256_shuffle_epi8(table, v[1])]
        }
    }
    #[inline(always)]
    fn wide(self, v: Self::I) -> Self::I {
        if VNNI { self.add_bytes(v, 128) } else { v }
    }
    #[inline(always)]
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        run! {
            let x = _mm256_set1_epi32(x);
            if VNNI {
                [_mm256_dpbusd_avx_epi32(acc[0], w[0], x), _mm256_dpbusd_avx_epi32(acc[1], w[1], x)]
            } else {
                // Two products of seven bits and a signed byte fit in 16 bits.
                [dot_bytes(acc[0], w[0], x), dot_bytes(acc[1], w[1], x)]
            }
        }
    }
    #[inline(always)]
    fn dot_unsigned(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        run! {
            let x = _mm256_set1_epi32(x);
            if VNNI {
                [_mm256_dpbusd_avx_epi32(acc[0], x, w[0]), _mm256_dpbusd_avx_epi32(acc[1], x, w[1])]
            } else {
                [dot_bytes(acc[0], x, w[0]), dot_bytes(acc[1], x, w[1])]
            }
        }
    }
    #[inline(always)]
    fn products(self, w: Self::I, x: i32) -> Self::I {
        run! {
            let x = _mm256_set1_epi32(x);
            [_mm256_maddubs_epi16(w[0], x), _mm256_maddubs_epi16(w[1], x)]
        }
    }
    #[inline(always)]
    fn start_products(self, pair: i32, shift: u32) -> Self::I {
        run!([_mm256_sll_epi16(_mm256_set1_epi32(pair), _mm_cvtsi32_si128(shift as i32)); 2])
    }
    #[inline(always)]
    fn add_products(self, sum: Self::I, w: Self::I, x: i32) -> Self::I {
        run! {
            let x = _mm256_set1_epi32(x);
            [add_products(sum[0], w[0], x), add_products(sum[1], w[1], x)]
        }
    }
    #[inline(always)]
    fn sum_products(self, acc: Self::I, products: Self::I) -> Self::I {
        run! {
            let ones = _mm256_set1_epi16(1);
            self.add_i32(acc, [_mm256_madd_epi16(products[0], ones), _mm256_madd_epi16(products[1], ones)])
        }
    }
    #[inline(always)]
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        if VNNI {
            return self.dot(acc, w, x);
        }
        run! {
            let x = _mm256_set1_epi32(x);
            [dot_signed_bytes(acc[0], w[0], x), dot_signed_bytes(acc[1], w[1], x)]
        }
    }
    #[inline(always)]
    fn pairs(self, v: Self::I) -> Self::Pairs {
        v
    }
    #[inline(always)]
    unsafe fn load_pairs(self, p: *const u8) -> Self::Pairs {
        // SAFETY: 64 bytes by this function's contract.
        unsafe { self.load_bytes(p) }
    }
    #[inline(always)]
    fn splat_pair(self, x: i32) -> Self::Pairs {
        self.splat_i32(x)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
        run!([dot_pairs::<VNNI>(acc[0], a[0], b[0]), dot_pairs::<VNNI>(acc[1], a[1], b[1])])
    }
    #[inline(always)]
    fn max_magnitude(self, max: Self::I, v: Self::F) -> Self::I {
        run! {
            let magnitude = _mm256_set1_epi32(i32::MAX);
            let low = _mm256_and_si256(_mm256_castps_si256(v[0]), magnitude);
            let high = _mm256_and_si256(_mm256_castps_si256(v[1]), magnitude);
            [_mm256_max_epi32(max[0], low), _mm256_max_epi32(max[1], high)]
        }
    }
    #[inline(always)]
    fn pair_scale(self, max: Self::I) -> Self::F {
        run! {
            let (exponent, least) = (_mm256_set1_epi32(EXPONENT), _mm256_set1_epi32(LEAST_POWER));
            let low = _mm256_max_epi32(_mm256_and_si256(max[0], exponent), least);
            let high = _mm256_max_epi32(_mm256_and_si256(max[1], exponent), least);
            self.mul([_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)], self.splat(PAIR_STEP))
        }
    }
    #[inline(always)]
    fn inverse_power(self, v: Self::F) -> Self::F {
        run! {
            let ones = _mm256_set1_epi32(INVERSE_POWER);
            let low = _mm256_sub_epi32(ones, _mm256_castps_si256(v[0]));
            let high = _mm256_sub_epi32(ones, _mm256_castps_si256(v[1]));
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
    #[inline(always)]
    fn round_to_pair(self, a: Self::F, b: Self::F) -> Self::I {
        run! {
            let (a, b) = (self.to_i32(a), self.to_i32(b));
            let low = _mm256_blend_epi16::<0b1010_1010>(a[0], _mm256_slli_epi32::<16>(b[0]));
            let high = _mm256_blend_epi16::<0b1010_1010>(a[1], _mm256_slli_epi32::<16>(b[1]));
            [low, high]
        }
    }
    #[inline(always)]
    fn small<const M: u32>(self, v: Self::I) -> Self::I {
        // AVX2 has neither 16-bit shifts by different amounts nor 16-bit tables: factors and offsets come from byte
        // tables. A macro, because a closure may not be inlined.
        macro_rules! look_up {
            ($table:expr, $index:expr) => {{
                let table: &[u8; 16] = $table;
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), $index)
            }};
        }
        macro_rules! integers {
            ($v:expr) => {
                if const { Small::<M>::INDEX == 13 } {
                    // Eight indices, so that a table holds words: index `i` finds the low byte, `8 + i` the high byte.
                    let [offsets, factors] = &Small::<M>::EIGHT;
                    let index = _mm256_and_si256($v, _mm256_set1_epi16(-1 << 13));
                    let index = _mm256_mulhi_epu16(index, _mm256_set1_epi16(0x0101 << 3));
                    let index = _mm256_or_si256(index, _mm256_set1_epi16(8 << 8));
                    let mantissa = _mm256_and_si256($v, _mm256_set1_epi16(Small::<M>::MANTISSA as i16));
                    let mantissa = _mm256_mulhi_epu16(mantissa, look_up!(factors, index));
                    _mm256_add_epi16(mantissa, look_up!(offsets, index))
                } else {
                    // The high bytes of an index look up 0.
                    let index = _mm256_srl_epi16($v, _mm_cvtsi32_si128(Small::<M>::INDEX as i32));
                    let index = _mm256_or_si256(index, _mm256_set1_epi16(i16::MIN));
                    let mantissa = _mm256_srl_epi16($v, _mm_cvtsi32_si128(Small::<M>::SPARE as i32));
                    let mantissa = _mm256_and_si256(mantissa, _mm256_set1_epi16((1 << M) - 1));
                    let [low, high] = &Small::<M>::OFFSET_BYTES;
                    let high = _mm256_slli_epi16::<8>(look_up!(high, index));
                    let offset = _mm256_or_si256(look_up!(low, index), high);
                    _mm256_add_epi16(_mm256_mullo_epi16(mantissa, look_up!(&Small::<M>::FACTORS, index)), offset)
                }
            };
        }
        run!([integers!(v[0]), integers!(v[1])])
    }
    #[inline(always)]
    fn to_f32(self, v: Self::I) -> Self::F {
        run!([_mm256_cvtepi32_ps(v[0]), _mm256_cvtepi32_ps(v[1])])
    }
    #[inline(always)]
    fn to_i32(self, v: Self::F) -> Self::I {
        run!([_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1])])
    }
    #[inline(always)]
    fn pack_bytes(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]) {
        run! {
            // Packing works within 128 bits, so that words come out as 0 2 4 6 1 3 5 7.
            let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(b[0], b[1]));
            let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            let sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
            let sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b01_00_11_10>(sums));
            let sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b10_11_00_01>(sums));
            let sums = [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)];
            (std::mem::transmute::<__m256i, [u32; 8]>(bytes), sums)
        }
    }
    #[inline(always)]
    fn max_abs(self, a: Self::F, b: Self::F) -> f32 {
        // Magnitudes are ordered as integers, so that NaN is the largest.
        run! {
            let mut max = _mm256_setzero_si256();
            for v in [a[0], a[1], b[0], b[1]] {
                let magnitude = _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fff_ffff));
                max = _mm256_max_epu32(max, magnitude);
            }
            let max = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256::<1>(max));
            let max = _mm_max_epu32(max, _mm_shuffle_epi32::<0b01_00_11_10>(max));
            let max = _mm_max_epu32(max, _mm_shuffle_epi32::<0b10_11_00_01>(max));
            f32::from_bits(_mm_cvtsi128_si32(max) as u32)
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        run!([_mm256_set1_ps(x); 2])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        run! {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            [_mm256_round_ps::<NEAREST>(a[0]), _mm256_round_ps::<NEAREST>(a[1])]
        }
    }
    #[inline(always)]
    fn scale_by_power(self, p: Self::F, n: Self::F) -> Self::F {
        run! {
            let bias = _mm256_set1_epi32(127);
            let (a, b) = (_mm256_add_epi32(_mm256_cvtps_epi32(n[0]), bias), _mm256_add_epi32(_mm256_cvtps_epi32(n[1]), bias));
            let a = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(a));
            let b = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(b));
            [_mm256_mul_ps(p[0], a), _mm256_mul_ps(p[1], b)]
        }
    }
    #[inline(always)]
    fn swap_neighbors(self, a: Self::F) -> Self::F {
        run! {
            [_mm256_permute_ps::<0b10_11_00_01>(a[0]), _mm256_permute_ps::<0b10_11_00_01>(a[1])]
        }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        run!(sum8(_mm256_add_ps(a[0], a[1])))
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        run!(max8(_mm256_max_ps(a[0], a[1])))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        run!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        run!([_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])])
    }
    #[inline(always)]
    unsafe fn load_f32(self, p: *const f32) -> Self::F {
        run!([_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))])
    }
    #[inline(always)]
    unsafe fn store_f32(self, p: *mut f32, v: Self::F) {
        run! {
            _mm256_storeu_ps(p, v[0]);
            _mm256_storeu_ps(p.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u8) -> Self::F {
        run!([_mm256_cvtph_ps(_mm_loadu_si128(p.cast())), _mm256_cvtph_ps(_mm_loadu_si128(p.add(16).cast()))])
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8) -> Self::F {
        run! {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.add(16).cast()));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)), _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high))]
        }
    }
    #[inline(always)]
    unsafe fn load_powers(self, p: *const u8) -> Self::F {
        run! {
            let v = _mm_loadu_si128(p.cast());
            let (low, high) = (_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(v)));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<23>(low)), _mm256_castsi256_ps(_mm256_slli_epi32::<23>(high))]
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        run! {
            let v = _mm_loadu_si128(p.cast());
            self.to_f32([_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(v))])
        }
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8) -> Self::F {
        run! {
            let v = _mm_loadu_si128(p.cast());
            self.to_f32([_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(v))])
        }
    }
    #[inline(always)]
    fn store_i8(self, v: Self::F, to: &mut [i8; LANES]) {
        run! {
            // Packing works within halves of the register, so that the quarters come out as 0, 2, 1, 3.
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes)
        }
    }
    #[inline(always)]
    fn store_i16(self, v: Self::F, to: &mut [i16; LANES]) {
        run! {
            // As above.
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(words))
        }
    }
}
