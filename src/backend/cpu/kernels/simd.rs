//! The vocabulary in which the matrix kernels are written once for every instruction set: sixteen 32-bit lanes, one
//! lane a matrix row. None of their operations crosses lanes, so that a row's result is the same sequence of roundings whatever
//! the registers underneath: all instruction sets agree to the last bit.

/// Bits of an f32: its exponent, 2^-100, and what turns the bits of 2^n into those of 2^-n.
pub const EXPONENT: i32 = 0x7f80_0000;
pub const LEAST_POWER: i32 = 27 << 23;
pub const INVERSE_POWER: i32 = 254 << 23;
/// The scale of 14 bits with a sign over the power of two of what they hold.
pub const PAIR_STEP: f32 = 1.0 / 4096.0;

/// `N` points of `DIMS` bytes, `N` a power of two, in the orders that instruction sets look them up in.
#[repr(C, align(64))]
pub struct Points<const DIMS: usize, const N: usize> {
    pub points: [[u8; DIMS]; N],
    /// One coordinate of all points after the other.
    pub planes: [[u8; N]; DIMS],
}

/// Sixteen lanes of 32 bits, in as many registers as the instruction set needs. A value of an implementing type is
/// the proof that the processor has it.
pub trait Simd: Copy {
    /// 16 x i32, also seen as 64 bytes, lane after lane.
    type I: Copy;
    /// 16 x f32
    type F: Copy;

    /// What `wide` adds to a signed byte.
    const WIDE_ZERO: i32;

    /// # Safety
    /// `p` points to 64 readable bytes.
    unsafe fn load(self, p: *const u8) -> Self::I;
    /// # Safety
    /// `p` points to 64 writable bytes.
    unsafe fn store(self, p: *mut u8, v: Self::I);
    fn splat(self, x: i32) -> Self::I;
    fn add(self, a: Self::I, b: Self::I) -> Self::I;
    /// Each 32-bit lane shifted left, or arithmetically right by `-n`.
    fn shift(self, v: Self::I, n: i32) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    fn add_bytes(self, a: Self::I, b: u8) -> Self::I;
    /// Each byte shifted right, or left by `-shift`, then masked. `mask` covers no bit that comes from a neighbour.
    fn field(self, v: Self::I, shift: i32, mask: u8) -> Self::I;
    /// Each lane shifted right, or left by `-shift`, then masked.
    fn bits(self, v: Self::I, shift: i32, mask: u32) -> Self::I;
    /// Byte `n` of each lane in all four of its bytes.
    fn spread(self, v: Self::I, n: usize) -> Self::I;
    /// `128 - byte` where the byte of `bits` has the one bit that is in the byte of `mask`.
    fn reflect(self, v: Self::I, bits: Self::I, mask: u32) -> Self::I;
    /// `3 * (power * byte % 256) / 256`
    fn ternary_digit(self, v: Self::I, power: u8) -> Self::I;
    /// Point `lane % N` for each of the indices.
    fn points4<const N: usize>(self, table: &Points<4, N>, index: [Self::I; 4]) -> [Self::I; 4];
    /// Likewise, a point being two registers.
    fn points8<const N: usize>(self, table: &Points<8, N>, index: [Self::I; 4]) -> [Self::I; 8];
    /// `table[byte]` for bytes below 16.
    fn lookup(self, table: &[i8; 16], v: Self::I) -> Self::I;
    /// Signed bytes in the form that `dot_wide` takes.
    fn wide(self, v: Self::I) -> Self::I;
    /// `acc + w . x` in each lane, over four bytes: `w` of 7 bits unsigned, `x` signed.
    fn dot(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;
    /// `dot` for bytes made by `wide`: adds `WIDE_ZERO * sum(x)` to the dot product of the signed bytes.
    fn dot_wide(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;

    /// `acc + w . x` in each lane, over two signed numbers of 16 bits.
    fn dot_pairs(self, acc: Self::I, w: Self::I, x: i32) -> Self::I;
    /// The larger of `max` and the bits of `|v|`, which are ordered as the magnitudes are; NaN is the largest.
    fn max_magnitude(self, max: Self::I, v: Self::F) -> Self::I;
    /// From the bits of the largest magnitude of some floats the power of two over which they are rounded to 14 bits:
    /// at least 2^-112, infinite where one of them is not finite.
    fn pair_scale(self, max: Self::I) -> Self::F;
    /// `1 / v` for a power of two of normal size.
    fn inverse_power(self, v: Self::F) -> Self::F;
    /// The nearest integers, `a` in the low and `b` in the high 16 bits.
    fn pair(self, a: Self::F, b: Self::F) -> Self::I;
    /// The integer of each 16 bits, a float of the kind `Small<M>`.
    fn small<const M: u32>(self, v: Self::I) -> Self::I;

    fn to_f32(self, v: Self::I) -> Self::F;
    /// To the nearest integer, ties to even; anything for what does not fit.
    fn to_i32(self, v: Self::F) -> Self::I;
    /// The low bytes of 32 lanes, and the sum of each sixteen of them as signed numbers.
    fn pack(self, a: Self::I, b: Self::I) -> ([u32; 8], [i32; 2]);
    /// The largest magnitude of 32 lanes; NaN where one of them is.
    fn peak(self, a: Self::F, b: Self::F) -> f32;
    fn splat_f32(self, x: f32) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// # Safety
    /// `p` points to 16 readable values, at any alignment, as for all loads and stores below.
    unsafe fn load_f32(self, p: *const f32) -> Self::F;
    /// # Safety
    /// `p` points to 16 writable values.
    unsafe fn store_f32(self, p: *mut f32, v: Self::F);
    /// # Safety
    /// `p` points to 32 readable bytes.
    unsafe fn load_f16(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` points to 32 readable bytes.
    unsafe fn load_bf16(self, p: *const u8) -> Self::F;
    /// The powers of two of which the bytes are the exponents in f32.
    ///
    /// # Safety
    /// `p` points to 16 readable bytes.
    unsafe fn load_powers(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` points to 16 readable bytes.
    unsafe fn load_u8(self, p: *const u8) -> Self::F;
    /// # Safety
    /// `p` points to 16 readable bytes.
    unsafe fn load_i8(self, p: *const u8) -> Self::F;
}
