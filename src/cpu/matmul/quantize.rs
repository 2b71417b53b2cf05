//! The activations of matrix products, quantized once for all matrices of a kind with the same input.
#![allow(unsafe_code)]

use crate::cpu::kernels::activations::InputType;
use crate::cpu::kernels::table::MatmulKernels;
use crate::cpu::matmul::plan::{JobKernels, MatmulJob, QuantizedActivations, TokenTiling, column_blocks, max_columns};
use crate::cpu::threads::disjoint::DisjointSlice;

/// Quantizes the activations to the types that the jobs need. `for_each(n, f)` must call `f` for each of `n` tiles.
pub fn quantize(
    kernels: &MatmulKernels,
    x: &[f32],
    cols: usize,
    tiling: TokenTiling,
    activations: &mut QuantizedActivations,
    jobs: &[MatmulJob],
    for_each: impl Fn(usize, &(dyn Fn(usize) + Sync)),
) {
    for input in [InputType::I8, InputType::I16, InputType::Bf16] {
        let halves = jobs.iter().filter_map(|job| match JobKernels::of(kernels, &job.matrix) {
            JobKernels::Blocks(kernels) if kernels.input == input => Some(kernels.halves),
            _ => None,
        });
        let Some(halves) = halves.reduce(|a, b| a | b) else { continue };
        let out = DisjointSlice::new(activations.of_mut(input));
        for_each(tiling.tiles, &|tile| {
            let tokens = tiling.range(tile);
            let slots = tiling.slots(&tokens);
            for columns in column_blocks(cols, max_columns(input)) {
                // SAFETY: activations of other tokens or columns do not overlap.
                let out = unsafe { out.slice_mut(tiling.activations(input, &tokens, &columns)) };
                for (t, token) in tokens.clone().enumerate() {
                    let x = &x[token * cols..][columns.clone()];
                    // SAFETY: the table belongs to a detected instruction set.
                    unsafe {
                        match input {
                            InputType::I8 => (kernels.quantize_i8)(x, out, slots, t, halves),
                            InputType::I16 | InputType::Bf16 => (kernels.quantize_16)(x, out, slots, t),
                        }
                    }
                }
            }
        });
    }
}
