//! The embedding of n-grams: see `op::EmbedNgrams`.

use super::recurrent::each_sequence;
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::cpu::sequence::CpuSequence;
use crate::cpu::tensors::{StepTensors, each};
use crate::cpu::threads::pool::Team;
use crate::error::Result;
use crate::graph::op::EmbedNgrams;
use crate::graph::step::{SequencesMut, StepInputs};

/// Writes the rows of all tokens of a step.
pub fn embed(
    team: &Team,
    op: &EmbedNgrams,
    table: WeightMatrix,
    bytes: &[u8],
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let (out, width) = tensors.get(op.out);
    let (kept, each_width) = (op.multipliers.len() - 1, width / op.heads.len());
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let ids = &inputs.ids[rows.clone()];
        // Token id plus one of a token of the sequence, counted from the first kept one.
        let id = |i: usize| match i.checked_sub(kept) {
            None => from[i] as u64,
            Some(t) => u64::from(ids[t]) + 1,
        };
        let out = &mut out[rows.start * width..rows.end * width];
        each(team, (out, width), |t, out| {
            for (head, out) in op.heads.iter().zip(out.chunks_exact_mut(each_width)) {
                let (mut hash, mut is_over) = (0, false);
                for (back, multiplier) in op.multipliers[..head.n].iter().enumerate() {
                    let known = id(kept + t - back);
                    is_over |= back > 0 && (known == 0 || known - 1 == u64::from(op.end));
                    let id = if is_over { op.end.into() } else { known - 1 };
                    hash ^= id.wrapping_mul(*multiplier);
                }
                table.decode_row(bytes, (head.first + hash % head.rows) as usize, out);
            }
        });
        to.iter_mut().enumerate().for_each(|(i, to)| *to = id(ids.len() + i) as f32);
    })
}
