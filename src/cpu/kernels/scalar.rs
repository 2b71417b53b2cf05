//! The scalar implementation of every kernel: plain Rust on arrays of lanes. All other instruction sets are
//! bit-identical to it; it runs the model on machines without any of them.
#![allow(unsafe_code)]

use half::{bf16, f16};

use super::simd::{Codebook, EXPONENT, INVERSE_POWER, LANES, LEAST_POWER, PAIR_STEP, Simd};
use super::small::Small;
use super::table::MatmulKernels;

// One panel by at most four tokens, always through an unpacked tile: code for each number of tokens and each format
// would be a fifth of the library.
mod plain {
    use super::Scalar;
    use crate::cpu::kernels::table::instantiate;
    instantiate!(Scalar, 1 panels, gemv tokens, gemm tokens 1 2 3 4,);
}

/// Two panels, as in AMX tiles, for the AMX emulation.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) mod pairs {
    use super::Scalar;
    use crate::cpu::kernels::table::instantiate;
    instantiate!(Scalar, 2 panels, gemv tokens, gemm tokens 1,);
}

/// The token of plain Rust, which needs no detection.
#[derive(Clone, Copy)]
pub struct Scalar;

impl Scalar {
    /// Returns the matrix kernels.
    pub fn matmul(self) -> &'static MatmulKernels {
        &plain::KERNELS
    }
}

type Bytes = [u8; 64];

fn bytes(v: [i32; LANES]) -> Bytes {
    let mut out = [0; 64];
    for (out, x) in out.chunks_exact_mut(4).zip(v) {
        out.copy_from_slice(&x.to_le_bytes());
    }
    out
}

fn lanes(v: Bytes) -> [i32; LANES] {
    std::array::from_fn(|i| i32::from_le_bytes([v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]]))
}

/// # Safety
/// `p` must point to `N` readable values.
unsafe fn read<T: Copy, const N: usize>(p: *const u8) -> [T; N] {
    // SAFETY: by this function's contract.
    unsafe { p.cast::<[T; N]>().read_unaligned() }
}

// Methods are not inlined: copies in the kernels of all formats would be half of the library, and no faster.
impl Simd for Scalar {
    type I = [i32; LANES];
    type F = [f32; LANES];
    type Pairs = [i32; LANES];
    const WIDE_ZERO: i32 = 0;
    const ACCUMULATORS: usize = 1;
    const UNROLL: bool = false;

    #[inline(never)]
    unsafe fn load_bytes(self, p: *const u8) -> Self::I {
        // SAFETY: 64 bytes by this function's contract.
        lanes(unsafe { read(p) })
    }
    #[inline(never)]
    unsafe fn store_bytes(self, p: *mut u8, v: Self::I) {
        // SAFETY: 64 bytes by this function's contract.
        unsafe { p.cast::<Bytes>().write(bytes(v)) }
    }
    #[inline(never)]
    fn splat_i32(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(never)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(never)]
    fn shift(self, v: Self::I, n: i32) -> Self::I {
        v.map(|x| if n >= 0 { x << n } else { x >> -n })
    }
    #[inline(never)]
    fn or(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(never)]
    fn add_bytes(self, a: Self::I, b: u8) -> Self::I {
        lanes(bytes(a).map(|x| x.wrapping_add(b)))
    }
    #[inline(never)]
    fn field(self, v: Self::I, shift: i32, mask: u8) -> Self::I {
        lanes(bytes(v).map(|x| if shift >= 0 { x >> shift } else { x << -shift } & mask))
    }
    #[inline(never)]
    fn bits(self, v: Self::I, shift: i32, mask: u32) -> Self::I {
        v.map(|x| (if shift >= 0 { x as u32 >> shift } else { (x as u32) << -shift } & mask) as i32)
    }
    #[inline(never)]
    fn spread(self, v: Self::I, n: usize) -> Self::I {
        v.map(|x| i32::from_le_bytes([x.to_le_bytes()[n]; 4]))
    }
    #[inline(never)]
    fn reflect(self, v: Self::I, bits: Self::I, mask: u32) -> Self::I {
        let hits = bytes(bits.map(|x| x & mask as i32));
        let v = bytes(v);
        lanes(std::array::from_fn(|i| if hits[i] == 0 { v[i] } else { 128u8.wrapping_sub(v[i]) }))
    }
    #[inline(never)]
    fn ternary_digit(self, v: Self::I, power: u8) -> Self::I {
        lanes(bytes(v).map(|x| ((u16::from(x.wrapping_mul(power)) * 3) >> 8) as u8))
    }
    #[inline(never)]
    fn codewords4<const N: usize>(self, codebook: &Codebook<4, N>, index: [Self::I; 4]) -> [Self::I; 4] {
        index.map(|index| index.map(|i| i32::from_le_bytes(codebook.codewords[i as usize % N])))
    }
    #[inline(never)]
    fn codewords8<const N: usize>(self, codebook: &Codebook<8, N>, index: [Self::I; 4]) -> [Self::I; 8] {
        std::array::from_fn(|j| {
            index[j / 2].map(|i| i32::from_le_bytes(codebook.codewords[i as usize % N].as_chunks().0[j % 2]))
        })
    }
    #[inline(never)]
    fn lookup(self, table: &[i8; 16], v: Self::I) -> Self::I {
        lanes(bytes(v).map(|x| table[usize::from(x & 15)] as u8))
    }
    #[inline(never)]
    fn wide(self, v: Self::I) -> Self::I {
        v
    }
    #[inline(never)]
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot_wide(acc, w, x)
    }
    #[inline(never)]
    fn dot_unsigned(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        self.dot_wide(acc, w, x)
    }
    #[inline(never)]
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I {
        let x = x.to_le_bytes().map(|x| i32::from(x as i8));
        std::array::from_fn(|i| {
            let w = w[i].to_le_bytes().map(|w| i32::from(w as i8));
            acc[i].wrapping_add(w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3])
        })
    }
    #[inline(never)]
    fn pairs(self, v: Self::I) -> Self::Pairs {
        v
    }
    #[inline(never)]
    unsafe fn load_pairs(self, p: *const u8) -> Self::Pairs {
        // SAFETY: 64 bytes by this function's contract; two i16 in native byte order.
        unsafe { read::<[i16; 2], LANES>(p) }.map(|[a, b]| i32::from(a) & 0xffff | i32::from(b) << 16)
    }
    #[inline(never)]
    fn splat_pair(self, x: i32) -> Self::Pairs {
        [x; LANES]
    }
    #[inline(never)]
    fn dot_pairs(self, acc: Self::I, a: Self::Pairs, b: Self::Pairs) -> Self::I {
        let halves = |v: i32| (i32::from(v as i16), v >> 16);
        std::array::from_fn(|i| {
            let ((a0, a1), (b0, b1)) = (halves(a[i]), halves(b[i]));
            acc[i].wrapping_add(a0 * b0).wrapping_add(a1 * b1)
        })
    }
    #[inline(never)]
    fn max_magnitude(self, max: Self::I, v: Self::F) -> Self::I {
        std::array::from_fn(|i| max[i].max(v[i].abs().to_bits() as i32))
    }
    #[inline(never)]
    fn pair_scale(self, max: Self::I) -> Self::F {
        max.map(|max| f32::from_bits((max & EXPONENT).max(LEAST_POWER) as u32) * PAIR_STEP)
    }
    #[inline(never)]
    fn inverse_power(self, v: Self::F) -> Self::F {
        v.map(|v| f32::from_bits(INVERSE_POWER.wrapping_sub(v.to_bits() as i32) as u32))
    }
    #[inline(never)]
    fn round_to_pair(self, a: Self::F, b: Self::F) -> Self::I {
        let (a, b) = (self.to_i32(a), self.to_i32(b));
        std::array::from_fn(|i| a[i] & 0xffff | b[i] << 16)
    }
    #[inline(never)]
    fn small<const M: u32>(self, v: Self::I) -> Self::I {
        let value = |v: i32| i32::from(Small::<M>::value(v as u16));
        v.map(|v| value(v) & 0xffff | value(v >> 16) << 16)
    }
    #[inline(never)]
    fn to_f32(self, v: Self::I) -> Self::F {
        v.map(|x| x as f32)
    }
    #[inline(never)]
    fn to_i32(self, v: Self::F) -> Self::I {
        v.map(|x| x.round_ties_even() as i32)
    }
    #[inline(never)]
    fn pack_bytes(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]) {
        let word = |half: &[i32; LANES], j: usize| u32::from_le_bytes(std::array::from_fn(|i| half[4 * j + i] as u8));
        let words = std::array::from_fn(|j| if j < 4 { word(&a, j) } else { word(&b, j - 4) });
        (words, [a, b].map(|half| half.iter().map(|&q| i32::from(q as i8)).sum()))
    }
    #[inline(never)]
    fn max_abs(self, a: Self::F, b: Self::F) -> f32 {
        // Magnitudes are ordered as integers, so that NaN is the largest.
        f32::from_bits(a.iter().chain(&b).fold(0, |max, x| max.max(x.abs().to_bits())))
    }
    #[inline(never)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(never)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(never)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(never)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(never)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(never)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(never)]
    fn round(self, a: Self::F) -> Self::F {
        a.map(f32::round_ties_even)
    }
    #[inline(never)]
    fn scale_by_power(self, p: Self::F, n: Self::F) -> Self::F {
        std::array::from_fn(|i| p[i] * f32::from_bits(((n[i] as i32 + 127) << 23) as u32))
    }
    #[inline(never)]
    fn swap_neighbors(self, a: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i ^ 1])
    }
    #[inline(never)]
    fn sum(self, mut a: Self::F) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] += a[i + half];
            }
        }
        a[0]
    }
    #[inline(never)]
    fn max_lane(self, a: Self::F) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
    #[inline(never)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(never)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| libm::fmaf(a[i], b[i], c[i]))
    }
    #[inline(never)]
    unsafe fn load_f32(self, p: *const f32) -> Self::F {
        // SAFETY: 16 values by this function's contract.
        unsafe { read(p.cast()) }
    }
    #[inline(never)]
    unsafe fn store_f32(self, p: *mut f32, v: Self::F) {
        // SAFETY: 16 values by this function's contract.
        unsafe { p.cast::<Self::F>().write_unaligned(v) }
    }
    #[inline(never)]
    unsafe fn load_f16(self, p: *const u8) -> Self::F {
        // SAFETY: 32 bytes by this function's contract.
        unsafe { read::<u16, LANES>(p) }.map(|x| f16::from_bits(u16::from_le(x)).to_f32())
    }
    #[inline(never)]
    unsafe fn load_bf16(self, p: *const u8) -> Self::F {
        // SAFETY: 32 bytes by this function's contract.
        unsafe { read::<u16, LANES>(p) }.map(|x| bf16::from_bits(u16::from_le(x)).to_f32())
    }
    #[inline(never)]
    unsafe fn load_powers(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe { read::<u8, LANES>(p) }.map(|x| f32::from_bits(u32::from(x) << 23))
    }
    #[inline(never)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe { read::<u8, LANES>(p) }.map(f32::from)
    }
    #[inline(never)]
    unsafe fn load_i8(self, p: *const u8) -> Self::F {
        // SAFETY: 16 bytes by this function's contract.
        unsafe { read::<i8, LANES>(p) }.map(f32::from)
    }
    #[inline(never)]
    fn store_i8(self, v: Self::F, to: &mut [i8; LANES]) {
        *to = v.map(|x| x.round_ties_even() as i8);
    }
    #[inline(never)]
    fn store_i16(self, v: Self::F, to: &mut [i16; LANES]) {
        *to = v.map(|x| x.round_ties_even() as i16);
    }
}
