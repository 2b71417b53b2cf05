//! Products of float weights with float activations, for F32 and for rows that are not a whole number of groups.
#![allow(unsafe_code)]
// Loops over registers iterate over indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use super::float::Float;
use super::gemm::{load_results, store_results};
use super::prefetch;
use super::simd::{PANEL_ROWS, Simd};

/// Number of row panels of float weights that are multiplied with one token at once: enough accumulator chains to hide
/// the latency of a fused multiply-add.
pub const FLOAT_PANELS: usize = 4;
/// The columns of some row panels of float weights.
pub type FloatPanels = [*const u8; FLOAT_PANELS];

/// Prefetch distance of weights in bytes.
const PREFETCH: usize = 2048;

/// Multiplies `R` row panels of float weights with `N` tokens, `x_stride` values apart, over `n` columns. Sets the
/// results if `first`, otherwise adds to them. Results lie token by token, `R` panels each.
///
/// # Safety
/// The first `R` pointers of `w` must point to `16 n` weights each, each token must have `n` values, and `out` must
/// point to the results.
#[inline(always)]
pub unsafe fn multiply<S: Simd, T: Float, const R: usize, const N: usize>(
    s: S,
    w: &FloatPanels,
    n: usize,
    x: *const f32,
    x_stride: usize,
    out: *mut f32,
    first: bool,
) {
    // SAFETY: results, weights and values are in bounds by this function's contract.
    unsafe {
        let mut acc = load_results::<S, R, N>(s, out, first);
        for k in 0..n {
            let mut weights = [s.splat(0.0); R];
            for r in 0..R {
                weights[r] = T::load(s, w[r].add(PANEL_ROWS * T::BYTES * k));
            }
            if N == 1 {
                for r in 0..R {
                    prefetch::near(w[r].wrapping_add(PANEL_ROWS * T::BYTES * k + PREFETCH));
                }
            }
            for t in 0..N {
                let x = s.splat(*x.add(t * x_stride + k));
                for r in 0..R {
                    acc[r][t] = s.fma(weights[r], x, acc[r][t]);
                }
            }
        }
        store_results(s, acc, out, PANEL_ROWS * R);
    }
}
