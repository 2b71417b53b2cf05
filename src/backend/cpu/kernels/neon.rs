//! NEON: the sixteen lanes are four registers. With the dot product instruction a dot product is one instruction a
//! register, without it five.
#![allow(unsafe_code)]
#![cfg(target_arch = "aarch64")]

use std::arch::aarch64::*;
use std::arch::asm;

use super::simd::{EXPONENT, INVERSE_POWER, LEAST_POWER, PAIR_STEP, Points, Simd};
use super::small::Small;

/// Proof of what `Neon` stands for, with the dot product instruction or without.
#[derive(Clone, Copy)]
struct Quad<const DOT: bool>(());

// One group by three tokens: twelve integer sums and twelve results in 32 registers.
pub mod plain {
    use super::Quad;
    use crate::backend::cpu::kernels::matmul::instantiate;
    instantiate!(KERNELS, Quad::<false>(()), 1 groups, few tokens 1, tokens 1 2 3, #[target_feature(enable = "neon")]);
}
pub mod dotprod {
    use super::Quad;
    use crate::backend::cpu::kernels::matmul::instantiate;
    instantiate!(KERNELS, Quad::<true>(()), 1 groups, few tokens 1, tokens 1 2 3, #[target_feature(enable = "neon,dotprod")]);
}

/// `$value` for each register `$i`, as a method of `Simd` needs it.
macro_rules! four {
    ($i:ident => $value:expr) => {
        // SAFETY: `self` proves the instruction set; pointers are used as far as the method's contract goes.
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

impl<const DOT: bool> Simd for Quad<DOT> {
    type I = [int32x4_t; 4];
    type F = [float32x4_t; 4];
    const WIDE_ZERO: i32 = 0;

    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> Self::I {
        four!(i => vreinterpretq_s32_u8(vld1q_u8(p.add(16 * i))))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8, v: Self::I) {
        four!(i => vst1q_u8(p.add(16 * i), vreinterpretq_u8_s32(v[i])));
    }
    #[inline(always)]
    fn splat(self, x: i32) -> Self::I {
        four!(_i => vdupq_n_s32(x))
    }
    #[inline(always)]
    fn add(self, a: Self::I, b: Self::I) -> Self::I {
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
            // A comparison that holds is -1.
            let minus = vaddq_u8(vcgtq_u8(v, vdupq_n_u8(85)), vcgtq_u8(v, vdupq_n_u8(170)));
            vreinterpretq_s32_s8(vnegq_s8(vreinterpretq_s8_u8(minus)))
        })
    }
    #[inline(always)]
    fn points4<const N: usize>(self, table: &Points<4, N>, index: [Self::I; 4]) -> [Self::I; 4] {
        let mut out = index;
        for n in 0..4 {
            let mut lanes = [0u32; 16];
            four!(i => vst1q_s32(lanes.as_mut_ptr().add(4 * i).cast(), index[n][i]));
            for lane in &mut lanes {
                *lane = u32::from_le_bytes(table.points[*lane as usize % N]);
            }
            out[n] = four!(i => vld1q_s32(lanes.as_ptr().add(4 * i).cast()));
        }
        out
    }
    #[inline(always)]
    fn points8<const N: usize>(self, table: &Points<8, N>, index: [Self::I; 4]) -> [Self::I; 8] {
        let mut out = [index[0]; 8];
        for n in 0..4 {
            let (mut lanes, mut points) = ([0u32; 16], [0u64; 16]);
            four!(i => vst1q_s32(lanes.as_mut_ptr().add(4 * i).cast(), index[n][i]));
            for (point, lane) in points.iter_mut().zip(lanes) {
                *point = u64::from_le_bytes(table.points[lane as usize % N]);
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
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        four!(i => {
            let (w, x) = (vreinterpretq_s8_s32(w[i]), vreinterpretq_s8_s32(vdupq_n_s32(x)));
            if DOT {
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
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        four!(i => {
            let (w, x) = (vreinterpretq_s16_s32(w[i]), vreinterpretq_s16_s32(vdupq_n_s32(x)));
            let low = vmull_s16(vget_low_s16(w), vget_low_s16(x));
            vaddq_s32(acc[i], vpaddq_s32(low, vmull_high_s16(w, x)))
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
    fn pair(self, a: Self::F, b: Self::F) -> Self::I {
        let (a, b) = (self.to_i32(a), self.to_i32(b));
        four!(i => vsliq_n_s32::<16>(a[i], b[i]))
    }
    #[inline(always)]
    fn small<const M: u32>(self, v: Self::I) -> Self::I {
        four!(i => {
            let v = vreinterpretq_u16_s32(v[i]);
            let index = vshlq_u16(v, vdupq_n_s16(-(Small::<M>::INDEX as i16)));
            // A shift looks at the low byte alone; offsets are looked up byte by byte.
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
    fn pack(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]) {
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
    fn peak(self, a: Self::F, b: Self::F) -> f32 {
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
    fn splat_f32(self, x: f32) -> Self::F {
        four!(_i => vdupq_n_f32(x))
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
        // SAFETY: 16 bytes by contract.
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
        // SAFETY: 16 bytes by contract.
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
        // SAFETY: 16 bytes by contract.
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
}
