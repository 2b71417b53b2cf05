//! The rotation of keys, queries and values before their quantization to few bits: the normalized Hadamard transform.
//! It spreads an outlier over all dimensions, preserves dot products, and is its own inverse.

use super::{Isa, dispatch};

/// Longest transform; longer rows are rotated in parts.
pub const LONGEST: usize = 256;

/// Rotates rows of `dim` numbers in parts of the largest power of two that divides `dim`.
pub fn rotate(isa: Isa, x: &mut [f32], dim: usize) {
    let part = 1 << dim.trailing_zeros().min(LONGEST.trailing_zeros());
    assert!(x.len().is_multiple_of(part));
    dispatch!(isa, rotate_lanes(x: &mut [f32], part: usize));
}

/// Compiled for the instruction set; sums of two numbers round identically on all of them.
#[inline(always)]
fn rotate_lanes<S>(_: S, x: &mut [f32], part: usize) {
    let odd = !part.trailing_zeros().is_multiple_of(2);
    let norm = if odd { std::f32::consts::FRAC_1_SQRT_2 } else { 1.0 } / (1 << (part.trailing_zeros() / 2)) as f32;
    for x in x.chunks_exact_mut(part) {
        let mut half = 1;
        while half < part {
            for pair in x.chunks_exact_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        x.iter_mut().for_each(|x| *x *= norm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::quantize::tests::values;

    /// The matrix by its definition: the sign of an element is the parity of the common bits of row and column.
    #[test]
    fn rotations_are_hadamard_transforms() {
        for (dim, part) in [(1, 1), (18, 2), (64, 64), (80, 16), (96, 32), (128, 128), (768, 256)] {
            let x = values(2 * dim, dim as u64);
            let mut scalar = None;
            for isa in Isa::available() {
                let mut y = x.clone();
                rotate(isa, &mut y, dim);
                for (i, &y) in y.iter().enumerate() {
                    let row = &x[i / part * part..][..part];
                    let sign = |j: usize| if ((i % part) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                    let sum: f64 = row.iter().enumerate().map(|(j, &x)| sign(j) * f64::from(x)).sum();
                    assert!((sum / (part as f64).sqrt() - f64::from(y)).abs() < 1e-5, "{dim} {}", isa.name());
                }
                let bits: Vec<u32> = y.iter().map(|y| y.to_bits()).collect();
                assert_eq!(scalar.get_or_insert_with(|| bits.clone()), &bits, "{dim} {}", isa.name());
            }
        }
    }
}
