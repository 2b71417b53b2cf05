//! A program with precomputed information for the steps of its executor.

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
    /// Fusions in steps of the whole program.
    fusions: Fusions,
    /// Fusions in steps of the whole program with adapters, which add to a gate before its activation.
    adapted_fusions: Fusions,
    /// Index of `KeepOutputs`.
    keep: Option<usize>,
    /// Indices of the ops where the host executes a part of a step.
    crossings: Vec<usize>,
    pub has_head: bool,
    /// Context lengths above which RoPE frequencies change.
    pub rope_bounds: Vec<usize>,
    pub kv_places: Vec<KvPlace>,
    /// Offsets of recurrent states in a buffer, in values.
    pub recurrent_offsets: Vec<u64>,
}

/// Returns the offset of each recurrent state.
fn recurrent_offsets(recurrent: &[usize]) -> Vec<u64> {
    let place = |end: &mut u64, values: &usize| Some(std::mem::replace(end, *end + *values as u64));
    recurrent.iter().scan(0, place).collect()
}

fn is_crossing(op: &Op) -> bool {
    matches!(op, Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. })
}

/// True if every sequence has one token, and all tokens are outputs (or the step has only one token).
pub fn has_single_tokens(inputs: &StepInputs) -> bool {
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
            recurrent_offsets: recurrent_offsets(&program.recurrent),
            program: program.clone(),
        })
    }

    /// Returns the fusions in a step of the whole program or of a part of it, with or without adapters.
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

    /// True if the host executes no part of a step.
    pub fn is_of_device(&self) -> bool {
        self.crossings.is_empty()
    }

    /// Returns about the number of kernels of a step of one token: one per group of ops, and more for experts and for
    /// sampling.
    pub fn launches(&self) -> usize {
        let experts = self.program.ops.iter().filter(|op| matches!(op, Op::Experts(_))).count();
        self.fusions.groups(&self.program).len() + 3 * experts + usize::from(self.has_head)
    }

    /// Returns the end of `ops`, or the first op of the host among them.
    pub fn end_on_device(&self, ops: &Range<usize>) -> usize {
        let next = self.crossings.partition_point(|at| *at < ops.start);
        self.crossings.get(next).map_or(ops.end, |at| ops.end.min(*at))
    }

    /// Returns the first of `ops` if the host executes it.
    pub fn crossing(&self, ops: &Range<usize>) -> Option<&Op> {
        self.program.ops[..ops.end].get(ops.start).filter(|op| is_crossing(op))
    }

    /// True if activations hold only output rows at op `op`. In a part of a program this may hold from the start.
    pub fn is_kept(&self, op: usize) -> bool {
        self.keep.map_or(self.has_head, |keep| keep < op)
    }

    /// Returns where a step without outputs may end: at the first op that computes only output rows, or after the ops
    /// on media rows if all rows are media rows.
    pub fn end_without_outputs(&self, inputs: &StepInputs, ops: &Range<usize>) -> usize {
        let (of_media, is_media) = (self.program.of_media(), inputs.media.len() == inputs.ids.len());
        match self.keep {
            _ if self.is_kept(ops.start) => ops.start,
            _ if is_media && !of_media.is_empty() => of_media.end.max(ops.start),
            keep => keep.unwrap_or(ops.end),
        }
    }

    /// Returns the padded number of rows of a step with one token for each of several sequences: a power of two, so
    /// that few CUDA graphs serve all batches.
    pub fn padded(&self, inputs: &StepInputs, ops: &Range<usize>, limits: StepLimits) -> Option<usize> {
        let n = inputs.ids.len();
        let pads = (3..=SMALL_BATCH_ROWS).contains(&n)
            && has_single_tokens(inputs)
            && inputs.media.is_empty()
            && self.is_of_device()
            && self.is_whole(ops);
        pads.then(|| n.next_power_of_two().min(limits.max_tokens).min(limits.max_outputs))
    }
}
