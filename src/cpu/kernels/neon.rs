//! NEON: the sixteen lanes are four registers. With the dot-product extension a dot product is one instruction per
//! register, without it five; with the matrix instruction of FEAT_I8MM one instruction serves two tokens.
#![allow(unsafe_code)]
#![cfg(target_arch = "aarch64")]

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::simd::{Codebook, EXPONENT, INVERSE_POWER, LANES, LEAST_POWER, PAIR_STEP, Simd};
use super::small::Small;
use super::table::MatmulKernels;

/// Extension of `Neon`: none.
pub const BASE: u8 = 0;
/// Extension of `Neon`: dot products.
pub const DOTPROD: u8 = 1;
/// Extension of `Neon`: dot products, and products of two rows with two columns.
pub const I8MM: u8 = 2;

/// The token of NEON with FP16 conversions, which every AArch64 processor has, and with an extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neon<const EXTENSION: u8>(());

impl<const EXTENSION: u8> Neon<EXTENSION> {
    /// Returns the token if the processor has the instruction set.
    pub fn detect() -> Option<Self> {
        let dotprod = EXTENSION < DOTPROD || is_aarch64_feature_detected!("dotprod");
        let i8mm = EXTENSION < I8MM || is_aarch64_feature_detected!("i8mm");
        (dotprod && i8mm).then_some(Neon(()))
    }

    /// Returns the token without extensions.
    pub fn base(self) -> Neon<BASE> {
        Neon(())
    }

    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        match EXTENSION {
            I8MM => &i8mm::KERNELS,
            DOTPROD => &dotprod::KERNELS,
            _ => &plain::KERNELS,
        }
    }
}

// One panel by three tokens: twelve integer sums and twelve results in 32 registers.
mod plain {
    use super::{BASE, Neon};
    use crate::cpu::kernels::table::instantiate;
    instantiate!(
        Neon::<BASE>(()),
        1 panels,
        gemv tokens 1,
        gemm tokens 1 2 3,
        #[target_feature(enable = "neon")]
    );
}
mod dotprod {
    use super::{DOTPROD, Neon};
    use crate::cpu::kernels::table::instantiate;
    instantiate!(
        Neon::<DOTPROD>(()),
        1 panels,
        gemv tokens 1,
        gemm tokens 1 2 3,
        #[target_feature(enable = "neon,dotprod")]
    );
}
// Two pairs of tokens share each load of weights: sixteen integer sums; results go through memory once per group.
mod i8mm {
    use super::{I8MM, Neon};
    use crate::cpu::kernels::table::instantiate;
    instantiate!(
        Neon::<I8MM>(()),
        1 panels,
        gemv tokens 1,
        gemm tokens 1 2 3 4,
        #[target_feature(enable = "neon,dotprod,i8mm")]
    );
}

/// Wraps the intrinsics of a method of `Simd`.
macro_rules! run {
    ($($code:tt)*) => {
        // SAFETY: `self` proves the instruction set; pointers are used within the method's contract.
        unsafe { $($code)* }
    };
}

/// Evaluates `$value` for each register `$i`, as an expression of a method of `Simd`.
macro_rules! four {
    ($i:ident => $value:expr) => {
        // SAFETY: `self` proves the instruction set; pointers are used within the method's contract.
        unsafe {
            [
                {
                    let $i = 0;
                    $value
                },
                {
                    let $i = 1;
                    $value
                },
                {
                    let $i = 2;
                    $value
                },
                {
                    let $i = 3;
                    $value
                },
            ]
        }
    };
}

impl<const EXTENSION: u8> Simd for Neon<EXTENSION> {
    type I = [int32x4_t; 4];
    type F = [float32x4_t; 4];
    /// The first numbers of eight lanes, then their second ones, then the same for the other eight lanes.
    type Pairs = [int16x8_t; 4];
    const WIDE_ZERO: i32 = 0;
    const ACCUMULATORS: usize = 6;
    const UNROLL: bool = true;
    const PAIRS_OF_TOKENS: bool = EXTENSION >= I8MM;

    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Self::I {
        four!(i => vreinterpretq_s32_u8(vld1q_u8(p.add(16 * i))))
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, v: Self::I) {
        four!(i => vst1q_u8(p.add(16 * i), vreinterpretq_u8_s32(v[i])));
    }
    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        four!(_i => vdupq_n_s32(x))
    }
    #[inline(always)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        four!(i => vaddq_s32(a[i], b[i]))
    }
    #[inline(always)]
    fn shift(self, v: Self::I, n: i32) -> Self::I {
        four!(i => vshlq_s32(v[i], vdupq_n_s32(n)))
    }
    #[inline(always)]
    fn or(self, a: Self::I, b: Self::I) -> Self::I {
        four!(i => vorrq_s32(a[i], b[i]))
    }
    #[inline(always)]
    fn add_bytes(self, a: Self::I, b: u8) -> Self::I {
        four!(i => vreinterpretq_s32_u8(vaddq_u8(vreinterpretq_u8_s32(a[i]), vdupq_n_u8(b))))
    }
    #[inline(always)]
    fn field(self, v: Self::I, shift: i32, mask: u8) -> Self::I {
        four!(i => {
            let v = vshlq_u8(vreinterpretq_u8_s32(v[i]), vdupq_n_s8(-shift as i8));
            vreinterpretq_s32_u8(vandq_u8(v, vdupq_n_u8(mask)))
        })
    }
    #[inline(always)]
    fn bits(self, v: Self::I, shift: i32, mask: u32) -> Self::I {
        four!(i => {
            let v = vshlq_u32(vreinterpretq_u32_s32(v[i]), vdupq_n_s32(-shift));
            vreinterpretq_s32_u32(vandq_u32(v, vdupq_n_u32(mask)))
        })
    }
    #[inline(always)]
    fn spread(self, v: Self::I, n: usize) -> Self::I {
        four!(i => {
            let v = vandq_u32(vshlq_u32(vreinterpretq_u32_s32(v[i]), vdupq_n_s32(-8 * n as i32)), vdupq_n_u32(255));
            vreinterpretq_s32_u32(vmulq_n_u32(v, 0x0101_0101))
        })
    }
    #[inline(always)]
    fn reflect(self, v: Self::I, bits: Self::I, mask: u32) -> Self::I {
        four!(i => {
            let hits = vtstq_u8(vreinterpretq_u8_s32(bits[i]), vreinterpretq_u8_u32(vdupq_n_u32(mask)));
            let v = vreinterpretq_u8_s32(v[i]);
            vreinterpretq_s32_u8(vbslq_u8(hits, vsubq_u8(vdupq_n_u8(128), v), v))
        })
    }
    #[inline(always)]
    fn ternary_digit(self, v: Self::I, power: u8) -> Self::I {
        four!(i => {
            let v = vmulq_u8(vreinterpretq_u8_s32(v[i]), vdupq_n_u8(power));
            // A true comparison is -1.
            let minus = vaddq_u8(vcgtq_u8(v, vdupq_n_u8(85)), vcgtq_u8(v, vdupq_n_u8(170)));
            vreinterpretq_s32_s8(vnegq_s8(vreinterpretq_s8_u8(minus)))
        })
    }
    #[inline(always)]
    fn codewords4<const N: usize>(self, codebook: &Codebook<4, N>, index: [Self::I; 4]) -> [Self::I; 4] {
        let mut out = index;
        for n in 0..4 {
            let mut lanes = [0u32; 16];
            four!(i => vst1q_s32(lanes.as_mut_ptr().add(4 * i).cast(), index[n][i]));
            for lane in &mut lanes {
                *lane = u32::from_le_bytes(codebook.codewords[*lane as usize % N]);
            }
            out[n] = four!(i => vld1q_s32(lanes.as_ptr().add(4 * i).cast()));
        }
        out
    }
    #[inline(always)]
    fn codewords8<const N: usize>(self, codebook: &Codebook<8, N>, index: [Self::I; 4]) -> [Self::I; 8] {
        let mut out = [index[0]; 8];
        for n in 0..4 {
            let (mut lanes, mut points) = ([0u32; 16], [0u64; 16]);
            four!(i => vst1q_s32(lanes.as_mut_ptr().add(4 * i).cast(), index[n][i]));
            for (point, lane) in points.iter_mut().zip(lanes) {
                *point = u64::from_le_bytes(codebook.codewords[lane as usize % N]);
            }
            let [a, b, c, d] = four!(i => vld2q_s32(points.as_ptr().add(4 * i).cast()));
            out[2 * n] = [a.0, b.0, c.0, d.0];
            out[2 * n + 1] = [a.1, b.1, c.1, d.1];
        }
        out
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], v: Self::I) -> Self::I {
        four!(i => vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(table.as_ptr()), vreinterpretq_u8_s32(v[i]))))
    }
    #[inline(always)]
    fn wide(self, v: Self::I) -> Self::I {
        v
    }
    #[inline(always)]
    fn dot_unsigned(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        four!(i => {
            let (w, x) = (vreinterpretq_s8_s32(w[i]), vreinterpretq_s8_s32(vdupq_n_s32(x)));
            if EXTENSION >= DOTPROD {
                // The intrinsic is not stable.
                let mut acc = acc[i];
                asm!(
                    ".arch_extension dotprod",
                    "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
                    inout(vreg) acc, in(vreg) w, in(vreg) x,
                    options(pure, nomem, nostack, preserves_flags)
                );
                acc
            } else {
                // Two products of at most 128 * 127 fit in 16 bits.
                let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
                vpadalq_s16(acc[i], vpaddq_s16(low, vmull_high_s8(w, x)))
            }
        })
    }
    #[inline(always)]
    fn weave(self, even: Self::I, odd: Self::I) -> [Self::I; 2] {
        [four!(i => vzip1q_s32(even[i], odd[i])), four!(i => vzip2q_s32(even[i], odd[i]))]
    }
    #[inline(always)]
    fn dot_two(self, acc: [Self::I; 2], w: [Self::I; 2], x: [i64; 2]) -> [Self::I; 2] {
        // SAFETY: `self` proves the instruction set.
        let x = unsafe { vcombine_s64(vcreate_s64(x[0] as u64), vcreate_s64(x[1] as u64)) };
        macro_rules! half {
            ($half:literal) => {
                four!(i => {
                    // The intrinsic is not stable.
                    let mut acc = acc[$half][i];
                    asm!(
                        ".arch_extension i8mm",
                        "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
                        inout(vreg) acc, in(vreg) w[$half][i], in(vreg) x,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                    acc
                })
            };
        }
        [half!(0), half!(1)]
    }
    #[inline(always)]
    fn part_two(self, sums: [Self::I; 2]) -> [Self::I; 2] {
        [four!(i => vuzp1q_s32(sums[0][i], sums[1][i])), four!(i => vuzp2q_s32(sums[0][i], sums[1][i]))]
    }
    #[inline(always)]
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn pairs(self, v: Self::I) -> Self::Pairs {
        // SAFETY: `self` proves the instruction set.
        unsafe {
            let [a, b, c, d] = v.map(|v| vreinterpretq_s16_s32(v));
            [vuzp1q_s16(a, b), vuzp2q_s16(a, b), vuzp1q_s16(c, d), vuzp2q_s16(c, d)]
        }
    }
    #[inline(always)]
    unsafe fn load_pairs(self, p: *const u8) -> Self::Pairs {
        // SAFETY: 64 bytes by this function's contract.
        unsafe {
            let (low, high) = (vld2q_s16(p.cast()), vld2q_s16(p.add(32).cast()));
            [low.0, low.1, high.0, high.1]
        }
    }
    #[inline(always)]
    fn splat_pair(self, x: i32) -> Self::Pairs {
        // SAFETY: `self` proves the instruction set.
        let [first, second] = [x as i16, (x >> 16) as i16].map(|x| unsafe { vdupq_n_s16(x) });
        [first, second, first, second]
    }
    #[inline(always)]
    fn dot_pairs(self, acc: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
        four!(i => {
            let (first, second) = (i / 2 * 2, i / 2 * 2 + 1);
            if i % 2 == 0 {
                let sum = vmlal_s16(acc[i], vget_low_s16(a[first]), vget_low_s16(b[first]));
                vmlal_s16(sum, vget_low_s16(a[second]), vget_low_s16(b[second]))
            } else {
                vmlal_high_s16(vmlal_high_s16(acc[i], a[first], b[first]), a[second], b[second])
            }
        })
    }
    #[inline(always)]
    fn max_magnitude(self, max: Self::I, v: Self::F) -> Self::I {
        four!(i => vmaxq_s32(max[i], vreinterpretq_s32_f32(vabsq_f32(v[i]))))
    }
    #[inline(always)]
    fn pair_scale(self, max: Self::I) -> Self::F {
        four!(i => {
            let power = vmaxq_s32(vandq_s32(max[i], vdupq_n_s32(EXPONENT)), vdupq_n_s32(LEAST_POWER));
            vmulq_n_f32(vreinterpretq_f32_s32(power), PAIR_STEP)
        })
    }
    #[inline(always)]
    fn inverse_power(self, v: Self::F) -> Self::F {
        four!(i => vreinterpretq_f32_s32(vsubq_s32(vdupq_n_s32(INVERSE_POWER), vreinterpretq_s32_f32(v[i]))))
    }
    #[inline(always)]
    fn round_to_pair(self, a: Self::F, b: Self::F) -> Self::I {
        let (a, b) = (self.to_i32(a), self.to_i32(b));
        four!(i => vsliq_n_s32::<16>(a[i], b[i]))
    }
    #[inline(always)]
    fn small<const M: u32>(self, v: Self::I) -> Self::I {
        four!(i => {
            let v = vreinterpretq_u16_s32(v[i]);
            let index = vshlq_u16(v, vdupq_n_s16(-(Small::<M>::INDEX as i16)));
            // A shift uses only the low byte; offsets are looked up byte by byte.
            let shift = vqtbl1q_u8(vld1q_u8(Small::<M>::SHIFTS.as_ptr()), vreinterpretq_u8_u16(index));
            let shift = vnegq_s16(vreinterpretq_s16_u8(shift));
            let bytes = vmlaq_n_u16(vdupq_n_u16(0x0100), index, 0x0202);
            let offsets = vld1q_u8_x2(Small::<M>::OFFSETS.as_ptr().cast());
            let offset = vreinterpretq_u16_u8(vqtbl2q_u8(offsets, vreinterpretq_u8_u16(bytes)));
            let mantissa = vandq_u16(v, vdupq_n_u16(Small::<M>::MANTISSA));
            vreinterpretq_s32_u16(vaddq_u16(vshlq_u16(mantissa, shift), offset))
        })
    }
    #[inline(always)]
    fn to_f32(self, v: Self::I) -> Self::F {
        four!(i => vcvtq_f32_s32(v[i]))
    }
    #[inline(always)]
    fn to_i32(self, v: Self::F) -> Self::I {
        four!(i => vcvtnq_s32_f32(v[i]))
    }
    #[inline(always)]
    fn pack_bytes(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]) {
        // SAFETY: `self` proves the instruction set; eight words are 32 bytes.
        unsafe {
            let mut words = [0u32; 8];
            let mut sums = [0; 2];
            for (half, v) in [a, b].into_iter().enumerate() {
                let low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
                let high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
                let bytes = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
                vst1q_u32(words.as_mut_ptr().add(4 * half), vreinterpretq_u32_s8(bytes));
                sums[half] = i32::from(vaddlvq_s8(bytes));
            }
            (words, sums)
        }
    }
    #[inline(always)]
    fn max_abs(self, a: Self::F, b: Self::F) -> f32 {
        // Magnitudes are ordered as integers, so that NaN is the largest.
        // SAFETY: `self` proves the instruction set.
        unsafe {
            let mut max = vdupq_n_u32(0);
            for i in 0..4 {
                max = vmaxq_u32(max, vreinterpretq_u32_f32(vabsq_f32(a[i])));
                max = vmaxq_u32(max, vreinterpretq_u32_f32(vabsq_f32(b[i])));
            }
            f32::from_bits(vmaxvq_u32(max))
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        four!(_i => vdupq_n_f32(x))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vaddq_f32(a[i], b[i]))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vsubq_f32(a[i], b[i]))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vdivq_f32(a[i], b[i]))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vbslq_f32(vcltq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        four!(i => vrndnq_f32(a[i]))
    }
    #[inline(always)]
    fn scale_by_power(self, p: Self::F, n: Self::F) -> Self::F {
        four!(i => {
            let biased = vaddq_s32(vcvtnq_s32_f32(n[i]), vdupq_n_s32(127));
            vmulq_f32(p[i], vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
        })
    }
    #[inline(always)]
    fn swap_neighbors(self, a: Self::F) -> Self::F {
        four!(i => vrev64q_f32(a[i]))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        run! {
            let b = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
            vget_lane_f32::<0>(c) + vget_lane_f32::<1>(c)
        }
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        run!(vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a[0], a[2]), vmaxnmq_f32(a[1], a[3]))))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        four!(i => vmulq_f32(a[i], b[i]))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        four!(i => vfmaq_f32(c[i], a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn load_f32(self, p: *const f32) -> Self::F {
        four!(i => vld1q_f32(p.add(4 * i)))
    }
    #[inline(always)]
    unsafe fn store_f32(self, p: *mut f32, v: Self::F) {
        four!(i => vst1q_f32(p.add(4 * i), v[i]));
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u8) -> Self::F {
        // The conversion has no stable intrinsic.
        four!(i => {
            let halves = vld1_u16(p.cast::<u16>().add(4 * i));
            let wide: float32x4_t;
            std::arch::asm!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) wide, in(vreg) halves, options(pure, nomem, nostack));
            wide
        })
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8) -> Self::F {
        four!(i => vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.cast::<u16>().add(4 * i)))))
    }
    #[inline(always)]
    unsafe fn load_powers(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe {
            let v = vld1q_u8(p);
            let (low, high) = (vmovl_u8(vget_low_u8(v)), vmovl_high_u8(v));
            let exponents = [
                vmovl_u16(vget_low_u16(low)),
                vmovl_high_u16(low),
                vmovl_u16(vget_low_u16(high)),
                vmovl_high_u16(high),
            ];
            exponents.map(|x| vreinterpretq_f32_u32(vshlq_n_u32::<23>(x)))
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe {
            let v = vld1q_u8(p);
            let (low, high) = (vmovl_u8(vget_low_u8(v)), vmovl_high_u8(v));
            [
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
                vcvtq_f32_u32(vmovl_high_u16(low)),
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
                vcvtq_f32_u32(vmovl_high_u16(high)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe {
            let v = vld1q_s8(p.cast());
            let (low, high) = (vmovl_s8(vget_low_s8(v)), vmovl_high_s8(v));
            [
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                vcvtq_f32_s32(vmovl_high_s16(low)),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                vcvtq_f32_s32(vmovl_high_s16(high)),
            ]
        }
    }
    #[inline(always)]
    fn store_i8(self, v: Self::F, to: &mut [i8; LANES]) {
        run! {
            let q = v.map(|v| vqmovn_s32(vcvtnq_s32_f32(v)));
            let (low, high) = (vqmovn_s16(vcombine_s16(q[0], q[1])), vqmovn_s16(vcombine_s16(q[2], q[3])));
            vst1q_s8(to.as_mut_ptr(), vcombine_s8(low, high))
        }
    }
    #[inline(always)]
    fn store_i16(self, v: Self::F, to: &mut [i16; LANES]) {
        four!(i => vst1_s16(to.as_mut_ptr().add(4 * i), vqmovn_s32(vcvtnq_s32_f32(v[i]))));
    }
}
