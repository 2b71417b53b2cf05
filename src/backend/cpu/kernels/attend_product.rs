//! The matrix products inside attention, written once over rows, vectors and depth. Owns the sizes of the blocks of sums
//! that stay in registers, and how a vector of keys or values is expanded.
#![allow(unsafe_code)]

use super::kv_storage::BLOCK;
use super::prefetch;
use super::quantize::QuantizedRows;
use super::simd::{LANES, Simd};

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
    /// Stores a block that begins with row `r` and vector `v`.
    ///
    /// # Safety
    /// It lies within the rows.
    #[inline(always)]
    unsafe fn store<S: Simd, const R: usize, const V: usize>(self, s: S, r: usize, v: usize, block: &[[S::F; V]; R]) {
        for (i, row) in block.iter().enumerate() {
            for (j, &vector) in row.iter().enumerate() {
                // SAFETY: by contract.
                s.store(vector, unsafe { &mut *self.data.add((r + i) * self.stride + (v + j) * LANES).cast() });
            }
        }
    }
}

/// A matrix made of vectors of 16 elements.
#[derive(Clone, Copy)]
pub struct MatrixView {
    pub data: *const u8,
    /// Bytes from a row to the next.
    pub row: usize,
    /// Bytes from a vector of a row to the next.
    pub vector: usize,
    /// Offset of the scales of `Storage::I8`: from the start of a panel of keys, or of a row of values.
    pub scales: usize,
    /// Distance in bytes at which memory is prefetched.
    pub ahead: usize,
}

/// A matrix whose vectors are expanded to f32.
pub trait Operand: Copy {
    /// Returns the place of the matrix in memory.
    fn matrix(&self) -> &MatrixView;

    /// Expands vector `v` of row `k`.
    ///
    /// # Safety
    /// The matrix has a row `k` and a vector `v`, and lies in memory as the implementation says.
    unsafe fn vector<S: Simd>(&self, s: S, k: usize, v: usize) -> S::F;
}

#[derive(Clone, Copy)]
pub struct F32Vectors(pub MatrixView);
impl Operand for F32Vectors {
    #[inline(always)]
    fn matrix(&self) -> &MatrixView {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Simd>(&self, s: S, k: usize, v: usize) -> S::F {
        // SAFETY: inside the matrix by contract; aligned because the base and both distances are multiples of 4.
        s.load(unsafe { &*self.0.data.add(k * self.0.row + v * self.0.vector).cast() })
    }
}

/// Panels of keys: a vector is 16 positions, each with a scale of its own.
#[derive(Clone, Copy)]
pub struct I8Keys(pub MatrixView);
impl Operand for I8Keys {
    #[inline(always)]
    fn matrix(&self) -> &MatrixView {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Simd>(&self, s: S, k: usize, v: usize) -> S::F {
        let b = &self.0;
        // SAFETY: as above; the scales follow the quants, 16 a block.
        unsafe {
            let panel = b.data.add(v * b.vector);
            let scales = panel.add(b.scales + k / BLOCK * (4 * LANES));
            s.mul(s.load_i8(panel.add(k * b.row)), s.load(&*scales.cast()))
        }
    }
}

/// Rows of values: two vectors share a scale.
#[derive(Clone, Copy)]
pub struct I8Values(pub MatrixView);
impl Operand for I8Values {
    #[inline(always)]
    fn matrix(&self) -> &MatrixView {
        &self.0
    }
    #[inline(always)]
    unsafe fn vector<S: Simd>(&self, s: S, k: usize, v: usize) -> S::F {
        let b = &self.0;
        // SAFETY: as above; the scales follow the quants, one a block.
        unsafe {
            let row = b.data.add(k * b.row);
            let scale = *row.add(b.scales + v / (BLOCK / LANES) * 4).cast::<f32>();
            s.mul(s.load_i8(row.add(v * b.vector)), s.splat(scale))
        }
    }
}

/// A product of two matrices that are in memory; each element is summed in the order of `depth`.
pub trait BlockProduct<S: Simd> {
    /// Computes rows `r..r + R` and vectors `v..v + V`.
    ///
    /// # Safety
    /// They exist.
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize);
}

/// Computes all rows and vectors.
///
/// # Safety
/// They exist.
#[inline(always)]
pub unsafe fn multiply<S: Simd>(s: S, rows: usize, vectors: usize, product: impl BlockProduct<S>) {
    let p = &product;
    let mut r = 0;
    while r < rows {
        // Rows and vectors of a block: as many as stay in registers, and never so few that the latency of the
        // multiply-add shows.
        // SAFETY: rows `r..r + n` exist.
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
        if vectors < V {
            for v in 0..vectors {
                product.block::<R, 1>(s, r, v);
            }
        } else {
            for v in (0..vectors).step_by(V) {
                // The last block may overlap the one before and compute the same again.
                product.block::<R, V>(s, r, v.min(vectors - V));
            }
        }
    }
    R
}

/// The product `C[rows][vectors * 16] = A[rows][depth] B[depth][vectors * 16]`
pub struct FloatBlocks<B> {
    pub depth: usize,
    pub a: FloatRows,
    pub b: B,
    pub c: FloatRowsMut,
}

impl<S: Simd, B: Operand> BlockProduct<S> for FloatBlocks<B> {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let mut sums = [[s.splat(0.0); V]; R];
        let b = self.b.matrix();
        // The bytes that a step reads, as if they were contiguous, and the distance of steps.
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
                    *vector = self.b.vector(s, k, v + i);
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

/// A matrix of pairs of i16: blocks of at most 16 pairs of rows, and in each lane of a vector a pair.
#[derive(Clone, Copy)]
pub struct PairView {
    pub data: *const u8,
    /// Bytes from a pair of rows to the next.
    pub pair: usize,
    /// Bytes from a block to the next.
    pub block: usize,
    /// Bytes from a vector to the next.
    pub vector: usize,
    /// Distance in bytes at which memory is prefetched.
    pub ahead: usize,
}

/// The product of `FloatBlocks` over integers, whose sums over a block are exact. `SCALED`: behind the last pair of a block, each vector
/// has scales for its lanes.
pub struct IntegerBlocks<'a, const SCALED: bool> {
    pub depth: usize,
    pub rows: usize,
    pub a: &'a QuantizedRows,
    pub b: PairView,
    pub c: FloatRowsMut,
}

impl<S: Simd, const SCALED: bool> BlockProduct<S> for IntegerBlocks<'_, SCALED> {
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize>(&self, s: S, r: usize, v: usize) {
        let IntegerBlocks { depth, rows, b, .. } = *self;
        let mut sums = [[s.splat(0.0); V]; R];
        // SAFETY: rows `r..r + R`, depth and vectors exist by contract, so that every pair does.
        unsafe {
            // The first rows prefetch for all. Vectors that lie apart are read at once, but prefetched in the order of memory.
            let prefetches = r == 0;
            let mut soon = b.data.wrapping_add(v * b.vector + b.ahead);
            for block in 0..depth.div_ceil(BLOCK) {
                let pairs = (depth - block * BLOCK).div_ceil(2).min(BLOCK / 2);
                let data = b.data.add(block * b.block + v * b.vector);
                let a = self.a.quants.as_ptr().add(block * rows + r);
                let scales = self.a.scales.as_ptr().add(block * rows + r);
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
                    soon = soon.wrapping_add(if SCALED { V * 64 } else { b.pair });
                    let mut vectors = [s.splat_pair(0); V];
                    for (i, vector) in vectors.iter_mut().enumerate() {
                        *vector = s.load_pairs(data.add(pair * b.pair + i * b.vector));
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
                        s.load(&*data.add(pairs * b.pair + i * b.vector).cast())
                    } else {
                        s.splat(1.0)
                    };
                    for r in 0..R {
                        let scale = s.splat(*scales.add(r));
                        let scale = if SCALED { s.mul(scale, of_lanes) } else { scale };
                        sums[r][i] = s.fma(s.to_f32(dots[r][i]), scale, sums[r][i]);
                    }
                }
                if SCALED {
                    soon = soon.wrapping_add(V * 64);
                }
            }
            self.c.store(s, r, v, &sums);
        }
    }
}
