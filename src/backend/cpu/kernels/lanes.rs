//! Sixteen lanes on every instruction set: one register of AVX-512, two of AVX2, four of NEON, an array elsewhere. They
//! hold f32, or i32 that sum products of pairs of i16. Kernels that are bound by arithmetic order rather than by exotic
//! instructions are written once in these terms. Since the number of lanes and every order of summation are the same
//! everywhere, instruction sets with a fused multiply-add agree bit for bit; `Scalar` rounds twice where they round once.
//!
//! The value that implements `Lanes` is the proof of its instruction set, so that its methods are safe to call. They
//! become single instructions only inside a function that enables the set: enter through `dispatch!`.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "aarch64")]
use super::Neon;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512Vnni};

pub const LANES: usize = 16;

/// Plain Rust.
#[derive(Clone, Copy)]
pub struct Scalar;

/// Operations on 16 lanes. A NaN in the second operand of `min` and `max` is kept.
pub trait Lanes: Copy {
    type V: Copy;
    /// Sums of integers.
    type I: Copy;
    /// Two i16 a lane.
    type Pairs: Copy;
    /// How many sums of 16 lanes stay in registers beside the operands of a product.
    const ACCUMULATORS: usize;

    fn splat(self, x: f32) -> Self::V;
    fn load(self, from: &[f32; LANES]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::V) -> Self::V;
    /// `p * 2^n` for integral n from -127 to 127 and p near 1; 0 at -127.
    fn scale_by_power(self, p: Self::V, n: Self::V) -> Self::V;
    /// Lanes 0 and 1 exchanged, 2 and 3, and so on.
    fn swap_pairs(self, a: Self::V) -> Self::V;
    /// Lane i joins lane i + 8, then i + 4, i + 2, i + 1.
    fn sum(self, a: Self::V) -> f32;
    /// The largest lane.
    fn peak(self, a: Self::V) -> f32;
    fn load_i8(self, from: &[i8; LANES]) -> Self::V;
    /// Rounded to nearest even; lanes are within -127..=127.
    fn store_i8(self, v: Self::V, to: &mut [i8; LANES]);
    /// Rounded to nearest even; lanes are within -32767..=32767.
    fn store_i16(self, v: Self::V, to: &mut [i16; LANES]);
    fn load_pairs(self, from: &[[i16; 2]; LANES]) -> Self::Pairs;
    fn splat_pair(self, pair: [i16; 2]) -> Self::Pairs;
    fn zero(self) -> Self::I;
    /// `sum + a[0] * b[0] + a[1] * b[1]`; quants are above -32768.
    fn dot_pairs(self, sum: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I;
    /// Rounded to nearest even.
    fn to_f32(self, sums: Self::I) -> Self::V;

    /// Lane j of vector i becomes lane i of vector j.
    #[inline(always)]
    fn transpose(self, rows: [Self::V; LANES]) -> [Self::V; LANES] {
        let mut columns = [[0.0; LANES]; LANES];
        for (i, row) in rows.into_iter().enumerate() {
            let mut lanes = [0.0; LANES];
            self.store(row, &mut lanes);
            for (column, x) in columns.iter_mut().zip(lanes) {
                column[i] = x;
            }
        }
        let mut out = rows;
        for (out, column) in out.iter_mut().zip(&columns) {
            *out = self.load(column);
        }
        out
    }

    /// The first lanes from a slice of at most 16, the others 0.
    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::V {
        let mut lanes = [0.0; LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }

    /// The first lanes to a slice of at most 16.
    #[inline(always)]
    fn store_part(self, v: Self::V, to: &mut [f32]) {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        to.copy_from_slice(&lanes[..to.len()]);
    }

    /// `2^x` for x up to 127, within 1 ulp where the result is normal, 0 below.
    #[inline(always)]
    fn exp2(self, x: Self::V) -> Self::V {
        let x = self.max(self.splat(-127.0), x);
        let n = self.round(x);
        self.scale_by_power(self.exp2_fraction(self.sub(x, n)), n)
    }

    /// `e^x` within 2 ulp where the result is normal; 0 below, `e^88` above.
    #[inline(always)]
    fn exp(self, x: Self::V) -> Self::V {
        // log2(e) in two parts, so that the fraction keeps its precision for large x.
        const HIGH: f32 = std::f32::consts::LOG2_E;
        const LOW: f32 = 1.925_963e-8;
        let x = self.min(self.splat(88.0), self.max(self.splat(-88.0), x));
        let high = self.splat(HIGH);
        let n = self.round(self.mul(x, high));
        let fraction = self.fma(x, self.splat(LOW), self.fma(x, high, self.sub(self.splat(0.0), n)));
        self.scale_by_power(self.exp2_fraction(fraction), n)
    }

    /// `2^f` for |f| <= 1/2: the polynomial of degree 6 with the least relative error (2e-9) among those that are
    /// exact at 0.
    #[inline(always)]
    fn exp2_fraction(self, f: Self::V) -> Self::V {
        let mut p = self.splat(1.535_336_2e-4);
        for c in [1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, std::f32::consts::LN_2, 1.0] {
            p = self.fma(p, f, self.splat(c));
        }
        p
    }

    /// `tanh(x)`, absolute error below 2e-7.
    #[inline(always)]
    fn tanh(self, x: Self::V) -> Self::V {
        let one = self.splat(1.0);
        let e = self.exp(self.add(x, x));
        self.sub(one, self.div(self.splat(2.0), self.add(e, one)))
    }
}

/// Runs `body(token, args...)` compiled for the instruction set in `isa`.
macro_rules! dispatch {
    ($isa:expr, $body:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?) => {{
        use $crate::backend::cpu::kernels::Isa;
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2(token: $crate::backend::cpu::kernels::Avx2, $($arg: $ty),*) $(-> $ret)? {
            $body(token, $($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn avx512(token: $crate::backend::cpu::kernels::Avx512Vnni, $($arg: $ty),*) $(-> $ret)? {
            $body(token, $($arg),*)
        }
        match $isa {
            // SAFETY: the token proves the features that the function enables.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(token) => unsafe { avx512(token, $($arg),*) },
            // SAFETY: the token proves the features that the function enables.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(token) => unsafe { avx2(token, $($arg),*) },
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(token) => $body(token, $($arg),*),
            _ => $body($crate::backend::cpu::kernels::lanes::Scalar, $($arg),*),
        }
    }};
}
pub(crate) use dispatch;

impl Lanes for Scalar {
    type V = [f32; LANES];
    type I = [i32; LANES];
    type Pairs = [[i16; 2]; LANES];
    const ACCUMULATORS: usize = 6;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Without the instruction `f32::mul_add` is a slow library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        // Adding 1.5 * 2^23 leaves no bits for a fraction; callers pass magnitudes far below that.
        const SHIFT: f32 = 12_582_912.0;
        std::array::from_fn(|i| (a[i] + SHIFT) - SHIFT)
    }
    #[inline(always)]
    fn scale_by_power(self, p: Self::V, n: Self::V) -> Self::V {
        std::array::from_fn(|i| p[i] * f32::from_bits(((n[i] as i32 + 127) << 23) as u32))
    }
    #[inline(always)]
    fn swap_pairs(self, a: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i ^ 1])
    }
    #[inline(always)]
    fn sum(self, mut a: Self::V) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] += a[i + half];
            }
        }
        a[0]
    }
    #[inline(always)]
    fn peak(self, a: Self::V) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        std::array::from_fn(|i| f32::from(from[i]))
    }
    #[inline(always)]
    fn store_i8(self, v: Self::V, to: &mut [i8; LANES]) {
        let v = self.round(v);
        *to = std::array::from_fn(|i| v[i] as i8);
    }
    #[inline(always)]
    fn store_i16(self, v: Self::V, to: &mut [i16; LANES]) {
        let v = self.round(v);
        *to = std::array::from_fn(|i| v[i] as i16);
    }
    #[inline(always)]
    fn load_pairs(self, from: &[[i16; 2]; LANES]) -> Self::Pairs {
        *from
    }
    #[inline(always)]
    fn splat_pair(self, pair: [i16; 2]) -> Self::Pairs {
        [pair; LANES]
    }
    #[inline(always)]
    fn zero(self) -> Self::I {
        [0; LANES]
    }
    #[inline(always)]
    fn dot_pairs(self, sum: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
        let product = |i: usize, j: usize| i32::from(a[i][j]) * i32::from(b[i][j]);
        std::array::from_fn(|i| sum[i].wrapping_add(product(i, 0)).wrapping_add(product(i, 1)))
    }
    #[inline(always)]
    fn to_f32(self, sums: Self::I) -> Self::V {
        sums.map(|x| x as f32)
    }
}

/// Methods whose bodies are intrinsics of the instruction set that `self` proves.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! intrinsics {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? { $($body:tt)* })*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: `self` proves the instruction set, and references to arrays are valid for their whole length.
            unsafe { $($body)* }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512Vnni {
    type V = __m512;
    type I = __m512i;
    type Pairs = __m512i;
    const ACCUMULATORS: usize = 24;

    intrinsics! {
        fn splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        fn load(from: &[f32; LANES]) -> __m512 { _mm512_loadu_ps(from.as_ptr()) }
        fn store(v: __m512, to: &mut [f32; LANES]) { _mm512_storeu_ps(to.as_mut_ptr(), v) }
        fn add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        fn sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        fn mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        fn div(a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        fn min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        fn max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        fn round(a: __m512) -> __m512 { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(a) }
        fn scale_by_power(p: __m512, n: __m512) -> __m512 {
            // Above -127 or NaN.
            let lanes = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(n, _mm512_set1_ps(-127.0));
            _mm512_maskz_scalef_ps(lanes, p, n)
        }
        fn swap_pairs(a: __m512) -> __m512 { _mm512_permute_ps::<0b10_11_00_01>(a) }
        fn sum(a: __m512) -> f32 {
            sum8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
        }
        fn peak(a: __m512) -> f32 {
            peak8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
        }
        fn transpose(r: [__m512; LANES]) -> [__m512; LANES] {
            // Within each quarter of the registers, four rows by four columns; then the quarters.
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
        fn load_i8(from: &[i8; LANES]) -> __m512 {
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast())))
        }
        fn store_i8(v: __m512, to: &mut [i8; LANES]) {
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)))
        }
        fn store_i16(v: __m512, to: &mut [i16; LANES]) {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)))
        }
        fn load_pairs(from: &[[i16; 2]; LANES]) -> __m512i { _mm512_loadu_si512(from.as_ptr().cast()) }
        fn splat_pair(pair: [i16; 2]) -> __m512i { _mm512_set1_epi32(std::mem::transmute::<[i16; 2], i32>(pair)) }
        fn zero() -> __m512i { _mm512_setzero_si512() }
        fn dot_pairs(sum: __m512i, a: __m512i, b: __m512i) -> __m512i { _mm512_dpwssd_epi32(sum, a, b) }
        fn to_f32(sums: __m512i) -> __m512 { _mm512_cvtepi32_ps(sums) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type V = (__m256, __m256);
    type I = (__m256i, __m256i);
    type Pairs = (__m256i, __m256i);
    const ACCUMULATORS: usize = 6;

    intrinsics! {
        fn splat(x: f32) -> Self::V { (_mm256_set1_ps(x), _mm256_set1_ps(x)) }
        fn load(from: &[f32; LANES]) -> Self::V {
            (_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8)))
        }
        fn store(v: Self::V, to: &mut [f32; LANES]) {
            _mm256_storeu_ps(to.as_mut_ptr(), v.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), v.1)
        }
        fn add(a: Self::V, b: Self::V) -> Self::V { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
        fn sub(a: Self::V, b: Self::V) -> Self::V { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
        fn mul(a: Self::V, b: Self::V) -> Self::V { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
        fn div(a: Self::V, b: Self::V) -> Self::V { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
        fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1))
        }
        fn min(a: Self::V, b: Self::V) -> Self::V { (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)) }
        fn max(a: Self::V, b: Self::V) -> Self::V { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
        fn round(a: Self::V) -> Self::V {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            (_mm256_round_ps::<NEAREST>(a.0), _mm256_round_ps::<NEAREST>(a.1))
        }
        fn scale_by_power(p: Self::V, n: Self::V) -> Self::V {
            let bias = _mm256_set1_epi32(127);
            let (a, b) = (_mm256_add_epi32(_mm256_cvtps_epi32(n.0), bias), _mm256_add_epi32(_mm256_cvtps_epi32(n.1), bias));
            let a = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(a));
            let b = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(b));
            (_mm256_mul_ps(p.0, a), _mm256_mul_ps(p.1, b))
        }
        fn swap_pairs(a: Self::V) -> Self::V {
            (_mm256_permute_ps::<0b10_11_00_01>(a.0), _mm256_permute_ps::<0b10_11_00_01>(a.1))
        }
        fn sum(a: Self::V) -> f32 { sum8(_mm256_add_ps(a.0, a.1)) }
        fn peak(a: Self::V) -> f32 { peak8(_mm256_max_ps(a.0, a.1)) }
        fn load_i8(from: &[i8; LANES]) -> Self::V {
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            let high = _mm_unpackhi_epi64(bytes, bytes);
            (_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)))
        }
        fn store_i8(v: Self::V, to: &mut [i8; LANES]) {
            // Packing works within halves of the register, so that the quarters come out as 0, 2, 1, 3.
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.0), _mm256_cvtps_epi32(v.1));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes)
        }
        fn store_i16(v: Self::V, to: &mut [i16; LANES]) {
            // As above.
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.0), _mm256_cvtps_epi32(v.1));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(words))
        }
        fn load_pairs(from: &[[i16; 2]; LANES]) -> Self::Pairs {
            let from = from.as_ptr().cast::<__m256i>();
            (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)))
        }
        fn splat_pair(pair: [i16; 2]) -> Self::Pairs {
            let pairs = _mm256_set1_epi32(std::mem::transmute::<[i16; 2], i32>(pair));
            (pairs, pairs)
        }
        fn zero() -> Self::I { (_mm256_setzero_si256(), _mm256_setzero_si256()) }
        fn dot_pairs(sum: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
            (
                _mm256_add_epi32(sum.0, _mm256_madd_epi16(a.0, b.0)),
                _mm256_add_epi32(sum.1, _mm256_madd_epi16(a.1, b.1)),
            )
        }
        fn to_f32(sums: Self::I) -> Self::V { (_mm256_cvtepi32_ps(sums.0), _mm256_cvtepi32_ps(sums.1)) }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sum8(a: __m256) -> f32 {
    let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn peak8(a: __m256) -> f32 {
    let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
}

#[cfg(target_arch = "aarch64")]
type Quad = [float32x4_t; 4];

#[cfg(target_arch = "aarch64")]
impl Lanes for Neon {
    type V = Quad;
    type I = [int32x4_t; 4];
    /// The first elements of eight lanes, their second ones, and those of the other eight.
    type Pairs = [int16x8_t; 4];
    const ACCUMULATORS: usize = 6;

    intrinsics! {
        fn splat(x: f32) -> Quad { [vdupq_n_f32(x); 4] }
        fn load(from: &[f32; LANES]) -> Quad {
            let p = from.as_ptr();
            [vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))]
        }
        fn store(v: Quad, to: &mut [f32; LANES]) {
            for i in 0..4 {
                vst1q_f32(to.as_mut_ptr().add(4 * i), v[i]);
            }
        }
        fn add(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vaddq_f32(a[i], b[i])) }
        fn sub(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vsubq_f32(a[i], b[i])) }
        fn mul(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vmulq_f32(a[i], b[i])) }
        fn div(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vdivq_f32(a[i], b[i])) }
        fn fma(a: Quad, b: Quad, c: Quad) -> Quad { std::array::from_fn(|i| vfmaq_f32(c[i], a[i], b[i])) }
        fn min(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vbslq_f32(vcltq_f32(a[i], b[i]), a[i], b[i])) }
        fn max(a: Quad, b: Quad) -> Quad { std::array::from_fn(|i| vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i])) }
        fn round(a: Quad) -> Quad { std::array::from_fn(|i| vrndnq_f32(a[i])) }
        fn scale_by_power(p: Quad, n: Quad) -> Quad {
            std::array::from_fn(|i| {
                let biased = vaddq_s32(vcvtnq_s32_f32(n[i]), vdupq_n_s32(127));
                vmulq_f32(p[i], vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
            })
        }
        fn swap_pairs(a: Quad) -> Quad { std::array::from_fn(|i| vrev64q_f32(a[i])) }
        fn sum(a: Quad) -> f32 {
            let b = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
            vget_lane_f32::<0>(c) + vget_lane_f32::<1>(c)
        }
        fn peak(a: Quad) -> f32 {
            vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a[0], a[2]), vmaxnmq_f32(a[1], a[3])))
        }
        fn load_i8(from: &[i8; LANES]) -> Quad {
            let bytes = vld1q_s8(from.as_ptr());
            let words = [vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes))];
            std::array::from_fn(|i| {
                let word = words[i / 2];
                vcvtq_f32_s32(vmovl_s16(if i % 2 == 0 { vget_low_s16(word) } else { vget_high_s16(word) }))
            })
        }
        fn store_i8(v: Quad, to: &mut [i8; LANES]) {
            let q: [int16x4_t; 4] = std::array::from_fn(|i| vqmovn_s32(vcvtnq_s32_f32(v[i])));
            let (low, high) = (vqmovn_s16(vcombine_s16(q[0], q[1])), vqmovn_s16(vcombine_s16(q[2], q[3])));
            vst1q_s8(to.as_mut_ptr(), vcombine_s8(low, high))
        }
        fn store_i16(v: Quad, to: &mut [i16; LANES]) {
            for i in 0..4 {
                vst1_s16(to.as_mut_ptr().add(4 * i), vqmovn_s32(vcvtnq_s32_f32(v[i])));
            }
        }
        fn load_pairs(from: &[[i16; 2]; LANES]) -> Self::Pairs {
            let (low, high) = (vld2q_s16(from.as_ptr().cast()), vld2q_s16(from.as_ptr().add(8).cast()));
            [low.0, low.1, high.0, high.1]
        }
        fn splat_pair(pair: [i16; 2]) -> Self::Pairs {
            let [first, second] = pair.map(|x| vdupq_n_s16(x));
            [first, second, first, second]
        }
        fn zero() -> Self::I { [vdupq_n_s32(0); 4] }
        fn dot_pairs(sum: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
            std::array::from_fn(|i| {
                let (first, second) = (i / 2 * 2, i / 2 * 2 + 1);
                if i % 2 == 0 {
                    let sum = vmlal_s16(sum[i], vget_low_s16(a[first]), vget_low_s16(b[first]));
                    vmlal_s16(sum, vget_low_s16(a[second]), vget_low_s16(b[second]))
                } else {
                    vmlal_high_s16(vmlal_high_s16(sum[i], a[first], b[first]), a[second], b[second])
                }
            })
        }
        fn to_f32(sums: Self::I) -> Quad { std::array::from_fn(|i| vcvtq_f32_s32(sums[i])) }
    }
}
