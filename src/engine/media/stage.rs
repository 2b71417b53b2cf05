//! The programs of an encoder, each with what the host writes and reads, and the work on a step of one.

use std::sync::Arc;

use crate::device::sequence::Sequence;
use crate::device::{Backend, Batch, Executor, StepBudget};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::{StepInputs, StepLimits};

/// A program with what the host writes and reads.
pub struct Stage {
    pub program: Arc<Program>,
    /// The inputs: the patches of the encoder, their places and queries, where it has any; the blocks of the projector;
    /// the columns of a convolution.
    pub inputs: Vec<TensorId>,
    pub results: Vec<TensorId>,
}

/// An executor, and how far its step is.
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

/// The inputs of a step of a stage.
#[derive(Clone, Copy, Default)]
pub struct StageInputs<'a> {
    /// Number of rows.
    pub n: usize,
    /// What the activations that the host writes hold, in the order of `Stage::inputs`.
    pub written: &'a [&'a [f32]],
    pub turns: &'a [[u32; 3]],
    pub spans: &'a [[u32; 2]],
}

impl StageExecutor {
    /// An executor for up to `n` rows.
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

    /// Works on the program until it is done or `budget` pauses; true when it is done.
    pub fn advance(
        &mut self,
        stage: &Stage,
        sequence: &mut Sequence,
        inputs: StageInputs,
        budget: &StepBudget,
    ) -> Result<bool> {
        let StageInputs { n, written, turns, spans } = inputs;
        let StageExecutor { executor, state, ids, positions } = self;
        let (ids, positions) = (&ids[..n], &positions[..n]);
        let inputs = StepInputs { ids, positions, sequences: ids, turns, spans, ..Default::default() };
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
