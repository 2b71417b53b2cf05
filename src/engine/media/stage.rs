//! The programs of a media encoder with their inputs and outputs, and steps of them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::sequence::Sequence;
use crate::device::{Backend, Batch, Executor, StepBudget};
use crate::engine::cache::{CacheParams, state_spec};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::{StepInputs, StepLimits};
use crate::quant;

/// Duration of a GPU's work between two checks of the budget. A cancel has no effect before the next check.
const SLICE: Duration = Duration::from_millis(10);
/// Number of launches in the first slice, and maximum number of launches in a slice.
const FIRST_LAUNCHES: usize = 16;
const MOST_LAUNCHES: usize = 4096;

/// A program with the activations that the host writes and reads.
pub struct Stage {
    pub program: Arc<Program>,
    /// The inputs. Encoder: patches, positions and queries, if any. Projector: blocks. Convolution: columns.
    pub inputs: Vec<TensorId>,
    pub results: Vec<TensorId>,
}

impl Stage {
    /// Returns the limits of a step of `n` rows.
    pub fn limits(n: usize) -> StepLimits {
        StepLimits { max_tokens: n, max_outputs: 0 }
    }

    /// Returns the KV cache of a step of `n` rows. GPU kernels multiply keys and values in binary16, so they are stored
    /// as such there.
    pub fn cache(&self, n: usize, is_on_cpu: bool) -> SequenceSpec {
        let dtype = if is_on_cpu { quant::F32 } else { quant::F16 };
        let params = CacheParams { capacity: n as u32, k_type: dtype, v_type: dtype };
        state_spec(&self.program, 0, &params, Stage::limits(n))
    }
}

/// An executor and the state of its step.
pub struct StageExecutor {
    pub executor: Executor,
    pub state: StageState,
    ids: Vec<u32>,
    positions: Vec<u32>,
    /// Number of launches of the next slice on a GPU.
    launches: usize,
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
        let mut positions = try_vec("the inputs of a step", n)?;
        positions.extend(0..n as u32);
        Ok(StageExecutor {
            executor: backend.new_executor(&stage.program, Stage::limits(n))?,
            state: StageState::Fresh,
            ids: try_filled("the inputs of a step", n, 0u32)?,
            positions,
            launches: FIRST_LAUNCHES,
        })
    }

    /// Ends an abandoned step, so that the executor can be used again.
    pub fn reset(&mut self) -> Result<()> {
        self.state = StageState::Fresh;
        self.executor.end()
    }

    /// Works until the program is complete or `budget` pauses it; returns true if complete. A GPU gets the work in
    /// slices: the call waits for each one before it checks the budget.
    pub fn advance(
        &mut self,
        stage: &Stage,
        sequence: &mut Sequence,
        inputs: StageInputs,
        budget: &StepBudget,
    ) -> Result<bool> {
        let StageInputs { n, written, rope_positions, spans } = inputs;
        let StageExecutor { executor, state, ids, positions, launches } = self;
        let (ids, positions) = (&ids[..n], &positions[..n]);
        let inputs = StepInputs { ids, positions, sequences: ids, rope_positions, spans, ..Default::default() };
        let mut batch = Batch { inputs, sequences: &mut [sequence] };
        if *state == StageState::Fresh {
            executor.begin(&mut batch, executor.ops())?;
            stage.inputs.iter().zip(written).try_for_each(|(tensor, values)| executor.write(*tensor, values))?;
            *state = StageState::Open;
        }
        let is_complete = match executor.queues() {
            true => advance_in_slices(executor, &mut batch, budget, launches)?,
            false => executor.advance(&mut batch, budget)?,
        };
        if is_complete {
            executor.end()?;
            *state = StageState::Done;
        }
        Ok(is_complete)
    }
}

/// Advances a step on a GPU; `launches`: number of launches of the next slice, which adapts to their duration.
fn advance_in_slices(
    executor: &mut Executor,
    batch: &mut Batch,
    budget: &StepBudget,
    launches: &mut usize,
) -> Result<bool> {
    loop {
        let (started, left, is_over) = (Instant::now(), Cell::new(*launches), Cell::new(false));
        let stop = || {
            is_over.set(is_over.get() || budget.pauses(Duration::ZERO));
            is_over.get() || left.replace(left.get().saturating_sub(1)) == 0
        };
        let is_complete = executor.advance(batch, &StepBudget::new(&stop))?;
        executor.wait()?;
        if is_complete || is_over.get() {
            return Ok(is_complete);
        }
        *launches = match started.elapsed() {
            long if long > SLICE => launches.div_ceil(2),
            short if short < SLICE / 2 => (2 * *launches).min(MOST_LAUNCHES),
            _ => *launches,
        };
    }
}
