//! The programs of a media encoder with their inputs and outputs, and steps of them.

use std::sync::Arc;

use crate::device::sequence::Sequence;
use crate::device::{Backend, Batch, Executor, StepBudget};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::{StepInputs, StepLimits};

/// A program with the activations that the host writes and reads.
pub struct Stage {
    pub program: Arc<Program>,
    /// The inputs: of the encoder its patches, positions and queries, if any; of the projector its blocks; of a
    /// convolution its columns.
    pub inputs: Vec<TensorId>,
    pub results: Vec<TensorId>,
}

/// An executor and the state of its step.
pub struct StageExecutor {
    pub executor: Executor,
    pub state: StageState,
    ids: Vec<u32>,
    positions: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StageState {
    Fresh,
    Open,
    Done,
}

/// The inputs of a stage's step.
#[derive(Clone, Copy, Default)]
pub struct StageInputs<'a> {
    /// Number of rows.
    pub n: usize,
    /// Values of the activations that the host writes, in the order of `Stage::inputs`.
    pub written: &'a [&'a [f32]],
    pub rope_positions: &'a [[u32; 3]],
    pub spans: &'a [[u32; 2]],
}

impl StageExecutor {
    /// Creates an executor for up to `n` rows.
    pub fn new(backend: &Backend, stage: &Stage, n: usize) -> Result<StageExecutor> {
        let limits = StepLimits { max_tokens: n, max_outputs: 0 };
        let mut positions = try_vec("the inputs of a step", n)?;
        positions.extend(0..n as u32);
        Ok(StageExecutor {
            executor: backend.new_executor(&stage.program, limits)?,
            state: StageState::Fresh,
            ids: try_filled("the inputs of a step", n, 0u32)?,
            positions,
        })
    }

    /// Works until the program is complete or `budget` pauses it; returns true if complete.
    pub fn advance(
        &mut self,
        stage: &Stage,
        sequence: &mut Sequence,
        inputs: StageInputs,
        budget: &StepBudget,
    ) -> Result<bool> {
        let StageInputs { n, written, rope_positions, spans } = inputs;
        let StageExecutor { executor, state, ids, positions } = self;
        let (ids, positions) = (&ids[..n], &positions[..n]);
        let inputs = StepInputs { ids, positions, sequences: ids, rope_positions, spans, ..Default::default() };
        let mut batch = Batch { inputs, sequences: &mut [sequence] };
        if *state == StageState::Fresh {
            executor.begin(&mut batch, executor.ops())?;
            stage.inputs.iter().zip(written).try_for_each(|(tensor, values)| executor.write(*tensor, values))?;
            *state = StageState::Open;
        }
        if executor.advance(&mut batch, budget)? {
            executor.end()?;
            *state = StageState::Done;
        }
        Ok(*state == StageState::Done)
    }
}
