//! Buffers of the activations of a program.

use crate::graph::op::Op;
use crate::graph::program::Program;

/// Returns the width of each activation buffer, and the buffer of each `TensorId`: if `KeepOutputs` copies rows, and if
/// all tokens are outputs so that nothing is copied.
pub fn places(program: &Program) -> (Vec<usize>, [Vec<usize>; 2]) {
    let mut widths = program.buffers.clone();
    let copied: Vec<usize> = program.tensors.iter().map(|tensor| tensor.buffer).collect();
    let mut shared = copied.clone();
    let mut exchanged: Vec<usize> = (0..widths.len()).collect();
    for (i, op) in program.ops.iter().enumerate() {
        let Op::KeepOutputs { moves } = op else { continue };
        let mut later = vec![false; copied.len()];
        program.ops[i + 1..].iter().for_each(|op| op.for_each_tensor(|tensor| later[tensor.0 as usize] = true));
        // Activations that the host may read stay in their buffer.
        for [from, to] in moves.iter().filter(|[from, to]| later[to.0 as usize] && !program.kept.contains(from)) {
            let pair = [from, to].map(|tensor| copied[tensor.0 as usize]);
            exchanged.swap(pair[0], pair[1]);
            let width = widths[pair[0]].max(widths[pair[1]]);
            pair.iter().for_each(|&buffer| widths[buffer] = width);
        }
        let moved = |tensor: usize| if later[tensor] { exchanged[copied[tensor]] } else { copied[tensor] };
        shared = (0..copied.len()).map(moved).collect();
    }
    (widths, [copied, shared])
}
