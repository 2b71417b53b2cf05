//! A program with what its executor looks up in each step.

use std::ops::Range;
use std::sync::Arc;

use super::args::{KvPlace, SMALL_BATCH_ROWS};
use super::device::CudaModel;
use super::scratch::AttentionShape;
use super::sequence::places;
use crate::error::Result;
use crate::gpu::fuse::Fusions;
use crate::graph::op::{Attend, Op};
use crate::graph::program::Program;
use crate::graph::step::{StepInputs, StepLimits};

pub struct PreparedProgram {
    pub program: Arc<Program>,
    /// Fusions in steps of a part of the program.
    fusions_of_part: Fusions,
    /// Fusions in steps of all of it.
    fusions: Fusions,
    /// Fusions in steps of all of it with adapters, which add to a gate before that is one.
    adapted_fusions: Fusions,
    /// Place of `KeepOutputs`.
    keep: Option<usize>,
    /// Places of ops at which the host has a part of a step.
    crossings: Vec<usize>,
    pub has_head: bool,
    /// Bounds above which rotations change.
    pub rope_bounds: Vec<usize>,
    pub kv_places: Vec<KvPlace>,
    /// Places of recurrent states in a buffer of them, in values.
    pub memory_places: Vec<u64>,
}

/// The place of each memory after those before it.
fn memory_places(recurrent: &[usize]) -> Vec<u64> {
    let place = |end: &mut u64, values: &usize| Some(std::mem::replace(end, *end + *values as u64));
    recurrent.iter().scan(0, place).collect()
}

fn is_crossing(op: &Op) -> bool {
    matches!(op, Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. })
}

/// Tells whether each token is the only one of its sequence, and where there are several all are outputs.
pub fn is_apart(inputs: &StepInputs) -> bool {
    let n = inputs.ids.len();
    inputs.sequences.iter().copied().eq(0..n as u32) && (n == 1 || inputs.outputs.len() == n)
}

impl PreparedProgram {
    pub fn new(model: &CudaModel, program: &Arc<Program>) -> Result<PreparedProgram> {
        let shape = |weight| {
            let matrix = model.weights.matrix(weight);
            (matrix.dtype, matrix.rows)
        };
        let is_of_heads = |attend: &Attend| AttentionShape::new(program, attend).is_of_heads();
        let bound = |op: &Op| match op {
            Op::Rope { rope, .. } => rope.long.map(|(above, _)| above),
            _ => None,
        };
        Ok(PreparedProgram {
            fusions_of_part: Fusions::none(program),
            fusions: model.device.fusions(program, shape),
            adapted_fusions: Fusions::all(program, |_, _| false, is_of_heads),
            keep: program.ops.iter().position(|op| matches!(op, Op::KeepOutputs { .. })),
            crossings: (0..program.ops.len()).filter(|&i| is_crossing(&program.ops[i])).collect(),
            has_head: matches!(program.ops.last(), Some(Op::Logits { .. })),
            rope_bounds: program.ops.iter().filter_map(bound).collect(),
            kv_places: places(&program.kv_layers)?,
            memory_places: memory_places(&program.recurrent),
            program: program.clone(),
        })
    }

    /// The fusions in a step of the whole program or of a part of it, with or without adapters.
    pub fn fusions(&self, is_whole: bool, is_adapted: bool) -> &Fusions {
        match (is_whole, is_adapted) {
            (false, _) => &self.fusions_of_part,
            (true, false) => &self.fusions,
            (true, true) => &self.adapted_fusions,
        }
    }

    pub fn is_whole(&self, ops: &Range<usize>) -> bool {
        *ops == (0..self.program.ops.len())
    }

    /// True if the host has no part in steps.
    pub fn is_of_device(&self) -> bool {
        self.crossings.is_empty()
    }

    /// The end of those of some ops that are ahead of the next part of the host.
    pub fn end_on_device(&self, ops: &Range<usize>) -> usize {
        let next = self.crossings.partition_point(|at| *at < ops.start);
        self.crossings.get(next).map_or(ops.end, |at| ops.end.min(*at))
    }

    /// The part of the host with which some ops begin.
    pub fn crossing(&self, ops: &Range<usize>) -> Option<&Op> {
        self.program.ops[..ops.end].get(ops.start).filter(|op| is_crossing(op))
    }

    /// Tells whether activations have rows for the outputs alone at some op, which they may from the beginning in a
    /// part of a program.
    pub fn is_kept(&self, op: usize) -> bool {
        self.keep.map_or(self.has_head, |keep| keep < op)
    }

    /// The end of some ops in a step without outputs: where rows of outputs alone go on, or behind the ops of rows of
    /// media where it has no other rows.
    pub fn end_without_outputs(&self, inputs: &StepInputs, ops: &Range<usize>) -> usize {
        let (of_media, is_media) = (self.program.of_media(), inputs.media.len() == inputs.ids.len());
        match self.keep {
            _ if self.is_kept(ops.start) => ops.start,
            _ if is_media && !of_media.is_empty() => of_media.end.max(ops.start),
            keep => keep.unwrap_or(ops.end),
        }
    }

    /// Number of rows that a step is computed with, where some of them may be padding: a token for each of several
    /// sequences takes as many as the next power of two, so that few records serve all batches.
    pub fn padded(&self, inputs: &StepInputs, ops: &Range<usize>, limits: StepLimits) -> Option<usize> {
        let n = inputs.ids.len();
        let pads = (3..=SMALL_BATCH_ROWS).contains(&n)
            && is_apart(inputs)
            && inputs.media.is_empty()
            && self.is_of_device()
            && self.is_whole(ops);
        pads.then(|| n.next_power_of_two().min(limits.max_tokens).min(limits.max_outputs))
    }
}
