//! The matrix products of attention, written once over rows, vectors and depth. Owns the register block sizes, and the
//! expansion of a vector of keys or values.
#![allow(unsafe_code)]

use crate::cpu::kernels::attention::kv_storage::BLOCK;
use crate::cpu::kernels::prefetch;
use crate::cpu::kernels::quantize::{QuantizedBytes, QuantizedRows};
use crate::cpu::kernels::simd::{LANES, Simd};

/// Rows of f32, `stride` elements apart.
#[derive(Clone, Copy)]
pub struct FloatRows {
    pub data: *const f32,
    pub stride: usize,
}

#[derive(Clone, Copy)]
pub struct FloatRowsMut {
    pub data: *mut f32,
    pub stride: usize,
}

impl FloatRowsMut {
    /// Returns vector `v` of row `r`.
    ///
    /// # Safety
    /// The vector must lie within the rows.
    #[inline(always)]
    unsafe fn vector<'a>(self, r: usize, v: usize) -> &'a mut [f32; LANES] {
        // SAFETY: by this function's contract.
        unsafe { &mut *self.data.add(r * self.stride + v * LANES).cast() }
    }

    /// Loads a block that begins with row `r` and vector `v`.
    ///
    /// # Safety
    /// The block must lie within the rows.
    #[inline(always)]
    unsafe fn load<S: Simd, const R: usize, const V: usize>(self, s: S, r: usize, v: usize) -> [[S::F; V]; R] {
        // SAFETY: by this function's contract.
        std::array::from_fn(|i| std::array::from_fn(|j| s.load(unsafe { self.vector(r + i, v + j) })))
    }

    /// Stores a block that begins with row `r` and vector `v`.
    ///
    /// # Safety
    /// The block must lie within the rows.
    #[inline(always)]
    unsafe fn store<S: Simd, const R: usize, const V: usize>(self, s: S, r: usize, v: usize, block: &[[S::F; V]; R]) {
        for (i, row) in block.iter().enumerate() {
            for (j, &vector) in row.iter().enumerate() {
                // SAFETY: by this function's contract.
                s.store(vector, unsafe { self.vector(r + i, v + j) });
            }
        }
    }
}

/// The sums of rows `r..r + R` and vectors `v..v + V` of `c`. The sums are in registers, or in `c` itself if the
/// products of 32 columns leave too few registers.
struct BlockSums<S: Simd, const R: usize, const V: usize> {
    s: S,
    c: FloatRowsMut,
    r: usize,
    v: usize,
    held: [[S::F; V]; R],
}

impl<S: Simd, const R: usize, const V: usize> BlockSums<S, R, V> {
    const IN_MEMORY: bool = 2 * R * V > S::ACCUMULATORS;

    /// Starts with the sums in `c`, or with zeros if the products begin with their `first` block.
    ///
    /// # Safety
    /// The block must lie within `c` as long as the result is used.
    #[inline(always)]
    unsafe fn new(s: S, c: FloatRowsMut, r: usize, v: usize, first: bool) -> Self {
        let held = match Self::IN_MEMORY || first {
            true => [[s.splat(0.0); V]; R],
            // SAFETY: by this function's contract.
            false => unsafe { c.load(s, r, v) },
        };
        BlockSums { s, c, r, v, held }
    }

    /// Adds `x * y` to the sum of row `r + i` and vector `v + j`; `first`: sets the sum instead.
    #[inline(always)]
    fn add(&mut self, i: usize, j: usize, x: S::F, y: S::F, first: bool) {
        let s = self.s;
        if Self::IN_MEMORY {
            // SAFETY: by the contract of `new`.
            let sum = unsafe { self.c.vector(self.r + i, self.v + j) };
            let before = if first { s.splat(0.0) } else { s.load(sum) };
            s.store(s.fma(x, y, before), sum);
        } else {
            self.held[i][j] = s.fma(x, y, self.held[i][j]);
        }
    }

    /// Stores the sums.
    #[inline(always)]
    fn end(self) {
        if !Self::IN_MEMORY {
            // SAFETY: by the contract of `new`.
            unsafe { self.c.store(self.s, self.r, self.v, &self.held) }
        }
    }
}

/// A matrix made of vectors of 16 f32.
#[derive(Clone, Copy)]
pub struct MatrixView {
    pub data: *const u8,
    /// Distance between rows in bytes.
    pub row: usize,
    /// Distance between vectors of a row in bytes.
    pub vector: usize,
    /// Prefetch distance in bytes.
    pub ahead: usize,
}

/// A product of two matrices in memory; each element is summed in the order of `depth`.
pub trait BlockProduct<S: Simd> {
    /// Computes rows `r..r + R` and vectors `v..v + V`.
    ///
    /// # Safety
    /// These rows and vectors must exist.
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize);
}

/// Computes all rows and vectors.
///
/// # Safety
/// These rows and vectors must exist.
#[inline(always)]
pub unsafe fn multiply<S: Simd>(s: S, rows: usize, vectors: usize, product: impl BlockProduct<S>) {
    let p = &product;
    let mut r = 0;
    while r < rows {
        // Rows and vectors of a block: as many as stay in registers, and enough to hide the latency of the
        // multiply-add. SAFETY: rows `r..r + n` exist.
        unsafe {
            r += if const { S::ACCUMULATORS == 1 } {
                row_block::<S, 1, 1>(s, r, vectors, p)
            } else if const { S::ACCUMULATORS >= 24 } {
                match rows - r {
                    12.. => row_block::<S, 12, 2>(s, r, vectors, p),
                    4.. => row_block::<S, 4, 4>(s, r, vectors, p),
                    3 => row_block::<S, 3, 4>(s, r, vectors, p),
                    2 => row_block::<S, 2, 4>(s, r, vectors, p),
                    _ => row_block::<S, 1, 4>(s, r, vectors, p),
                }
            } else {
                match rows - r {
                    6.. => row_block::<S, 6, 1>(s, r, vectors, p),
                    4.. => row_block::<S, 4, 1>(s, r, vectors, p),
                    3 => row_block::<S, 3, 1>(s, r, vectors, p),
                    2 => row_block::<S, 2, 2>(s, r, vectors, p),
                    _ => row_block::<S, 1, 4>(s, r, vectors, p),
                }
            };
        }
    }
}

/// Computes rows `r..r + R` and all vectors. Returns `R`.
///
/// # Safety
/// As for `multiply`.
#[inline(always)]
unsafe fn row_block<S: Simd, const R: usize, const V: usize>(
    s: S,
    r: usize,
    vectors: usize,
    product: &impl BlockProduct<S>,
) -> usize {
    // SAFETY: every block lies within `vectors`.
    unsafe {
        let whole = vectors - vectors % V;
        for v in (0..whole).step_by(V) {
            product.block::<R, V>(s, r, v);
        }
        for v in whole..vectors {
            product.block::<R, 1>(s, r, v);
        }
    }
    R
}

/// The product `C[rows][vectors * 16] = A[rows][depth] B[depth][vectors * 16]`
pub struct FloatBlocks {
    pub depth: usize,
    pub a: FloatRows,
    pub b: MatrixView,
    pub c: FloatRowsMut,
}

impl<S: Simd> BlockProduct<S> for FloatBlocks {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let mut sums = [[s.splat(0.0); V]; R];
        let b = &self.b;
        // The bytes that a step reads, treated as contiguous, and the distance between steps.
        let step = V * b.row.min(b.vector);
        let (start, stride) =
            (b.data.wrapping_add(v * b.vector + b.ahead), if b.row < b.vector { step } else { b.row });
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract.
        unsafe {
            let a = self.a.data.add(r * self.a.stride);
            for k in 0..self.depth {
                for line in (0..step).step_by(64) {
                    prefetch::near(start.wrapping_add(k * stride + line));
                }
                let mut vectors = [s.splat(0.0); V];
                for (i, vector) in vectors.iter_mut().enumerate() {
                    *vector = s.load_f32(b.data.add(k * b.row + (v + i) * b.vector).cast());
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = s.splat(*a.add(r * self.a.stride + k));
                    for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                        *sum = s.fma(x, vector, *sum);
                    }
                }
            }
            self.c.store(s, r, v, &sums);
        }
    }
}

/// A matrix of integers in blocks of at most 32 rows. A unit is one vector with 32 bits of rows per lane.
#[derive(Clone, Copy)]
pub struct UnitView {
    pub data: *const u8,
    /// Distance between units in bytes.
    pub unit: usize,
    /// Distance between blocks in bytes.
    pub block: usize,
    /// Distance between vectors in bytes.
    pub vector: usize,
    /// Prefetch distance in bytes.
    pub ahead: usize,
}

/// The product of `FloatBlocks` over integers, whose sums over a block are exact. `SCALED`: after the last pair of a
/// block, each vector has scales for its lanes.
pub struct IntegerBlocks<'a, const SCALED: bool> {
    pub depth: usize,
    /// The first block of `depth` to multiply; unless 0, products are added to the contents of `c`.
    pub from: usize,
    /// Number of rows of `a`; next, the first row to multiply.
    pub of: usize,
    pub first: usize,
    pub a: &'a QuantizedRows,
    pub b: UnitView,
    pub c: FloatRowsMut,
}

impl<S: Simd, const SCALED: bool> BlockProduct<S> for IntegerBlocks<'_, SCALED> {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let IntegerBlocks { depth, from, of, first, b, .. } = *self;
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract, so every pair does.
        unsafe {
            let mut sums = BlockSums::<S, R, V>::new(s, self.c, r, v, from == 0);
            // The first rows prefetch for all. Non-adjacent vectors are read together, but prefetched in memory order.
            let prefetches = r == 0;
            let mut soon = b.data.wrapping_add(v * b.vector + b.ahead);
            for block in from..depth.div_ceil(BLOCK) {
                let pairs = (depth - block * BLOCK).div_ceil(2).min(BLOCK / 2);
                let data = b.data.add(block * b.block + v * b.vector);
                let a = self.a.quants.as_ptr().add(block * of + first + r);
                let scales = self.a.scales.as_ptr().add(block * of + first + r);
                if !SCALED {
                    soon = data.wrapping_add(b.ahead);
                }
                let mut dots = [[s.splat_i32(0); V]; R];
                for pair in 0..pairs {
                    if prefetches {
                        for line in 0..V {
                            prefetch::near(soon.wrapping_add(line * 64));
                        }
                    }
                    soon = soon.wrapping_add(if SCALED { V * 64 } else { b.unit });
                    let mut vectors = [s.splat_pair(0); V];
                    for (i, vector) in vectors.iter_mut().enumerate() {
                        *vector = s.load_pairs(data.add(pair * b.unit + i * b.vector));
                    }
                    for (r, dots) in dots.iter_mut().enumerate() {
                        let x = s.splat_pair(a.add(r).cast::<i32>().add(pair).read_unaligned());
                        for (dot, &vector) in dots.iter_mut().zip(&vectors) {
                            *dot = s.dot_pairs(*dot, x, vector);
                        }
                    }
                }
                for i in 0..V {
                    let of_lanes = if SCALED {
                        if prefetches {
                            prefetch::near(soon.wrapping_add(i * 64));
                        }
                        s.load(&*data.add(pairs * b.unit + i * b.vector).cast())
                    } else {
                        s.splat(1.0)
                    };
                    for (r, dots) in dots.iter().enumerate() {
                        let scale = s.splat(*scales.add(r));
                        let scale = if SCALED { s.mul(scale, of_lanes) } else { scale };
                        sums.add(r, i, s.to_f32(dots[i]), scale, block == 0);
                    }
                }
                if SCALED {
                    soon = soon.wrapping_add(V * 64);
                }
            }
            sums.end();
        }
    }
}

/// The product of `IntegerBlocks` over 8-bit integers, or, if `NIBBLES`, 4-bit integers with an offset of 8. Unless
/// `SCALED`, `a` has separate rows per 32 columns of `b`; its integers must then not be negative if `b` has 8 bits.
pub struct ByteBlocks<'a, const NIBBLES: bool, const SCALED: bool> {
    pub depth: usize,
    /// The first block to multiply, as in `IntegerBlocks`.
    pub from: usize,
    /// Capacity of `a` in blocks.
    pub blocks: usize,
    /// Number of rows of `a`; next, the first row to multiply.
    pub of: usize,
    pub first: usize,
    pub a: &'a QuantizedBytes,
    pub b: UnitView,
    pub c: FloatRowsMut,
}

impl<S: Simd, const NIBBLES: bool, const SCALED: bool> BlockProduct<S> for ByteBlocks<'_, NIBBLES, SCALED> {
    // One function, because all of it works on sums that stay in registers.
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let ByteBlocks { depth, from, blocks, of, b, .. } = *self;
        let zero = if NIBBLES { 8 } else { S::WIDE_ZERO * i32::from(SCALED) };
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract, so every unit does.
        unsafe {
            let mut sums = BlockSums::<S, R, V>::new(s, self.c, r, v, from == 0);
            let prefetches = r == 0;
            let mut soon = b.data.wrapping_add(v * b.vector + b.ahead);
            for block in from..depth.div_ceil(BLOCK) {
                let units = (depth - block * BLOCK).min(BLOCK).div_ceil(if NIBBLES { 8 } else { 4 });
                let data = b.data.add(block * b.block + v * b.vector);
                // The row of `a` for each vector.
                let mut first = [block * of + self.first + r; V];
                if !SCALED {
                    for (i, first) in first.iter_mut().enumerate() {
                        *first += (v + i) * LANES / BLOCK * blocks * of;
                    }
                    soon = data.wrapping_add(b.ahead);
                }
                // The sum of a block of 4-bit products fits in 16 bits.
                let in_16_bits = const { NIBBLES && S::SUMS_OF_16_BITS };
                let offset = |i: usize, r: usize| s.splat_i32(-zero * *self.a.sums.as_ptr().add(first[i] + r));
                let mut dots = [[s.splat_i32(0); V]; R];
                if !in_16_bits && zero != 0 {
                    for (r, dots) in dots.iter_mut().enumerate() {
                        for (i, dot) in dots.iter_mut().enumerate() {
                            *dot = offset(i, r);
                        }
                    }
                }
                let quants = self.a.quants.as_ptr();
                for unit in 0..units {
                    if prefetches {
                        for line in 0..V {
                            prefetch::near(soon.wrapping_add(line * 64));
                        }
                    }
                    soon = soon.wrapping_add(if SCALED { V * 64 } else { b.unit });
                    let mut vectors = [s.splat_i32(0); V];
                    for (i, vector) in vectors.iter_mut().enumerate() {
                        *vector = s.load_bytes(data.add(unit * b.unit + i * b.vector));
                    }
                    if NIBBLES {
                        for half in 0..2 {
                            let mut wide = vectors;
                            for v in &mut wide {
                                *v = s.field(*v, 4 * half as i32, 15);
                            }
                            for (r, dots) in dots.iter_mut().enumerate() {
                                for (i, dot) in dots.iter_mut().enumerate() {
                                    let x = quants.add(first[i] + r).cast::<i32>().add(2 * unit + half);
                                    *dot = match in_16_bits {
                                        true => s.add_products(*dot, wide[i], *x),
                                        false => s.dot(*dot, wide[i], *x),
                                    };
                                }
                            }
                        }
                    } else {
                        if SCALED {
                            for v in &mut vectors {
                                *v = s.wide(*v);
                            }
                        }
                        for (r, dots) in dots.iter_mut().enumerate() {
                            for (i, dot) in dots.iter_mut().enumerate() {
                                let x = quants.add(first[i] + r).cast::<i32>().add(unit);
                                *dot = match SCALED {
                                    true => s.dot_wide(*dot, vectors[i], *x),
                                    false => s.dot_unsigned(*dot, vectors[i], *x),
                                };
                            }
                        }
                    }
                }
                for i in 0..V {
                    let of_lanes = if SCALED {
                        if prefetches && i % 2 == 0 {
                            prefetch::near(soon.wrapping_add(i * 32));
                        }
                        s.load_bf16(data.add(units * b.unit + i * b.vector))
                    } else {
                        s.splat(1.0)
                    };
                    for (r, dots) in dots.iter().enumerate() {
                        let scale = s.splat(*self.a.scales.as_ptr().add(first[i] + r));
                        let scale = if SCALED { s.mul(scale, of_lanes) } else { scale };
                        let dot = if in_16_bits { s.sum_products(offset(i, r), dots[i]) } else { dots[i] };
                        sums.add(r, i, s.to_f32(dot), scale, block == 0);
                    }
                }
                if SCALED {
                    soon = soon.wrapping_add(V * 32);
                }
            }
            sums.end();
        }
    }
}
