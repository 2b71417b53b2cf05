//! Convolutions before an audio encoder: each chunk of a spectrogram is a step of a program of its own, over columns
//! (im2col) gathered by the host.

use super::stage::{Stage, StageExecutor, StageInputs, StageState};
use crate::device::sequence::Sequence;
use crate::device::{Backend, StepBudget};
use crate::error::{Result, try_filled, try_vec};
use crate::model::vision::{Grid, SoundFacts, TileInputs};

/// The convolutions of an audio part, which may be paused.
pub(super) struct Convolving {
    /// One executor per convolution.
    executors: Vec<StageExecutor>,
    sequence: Option<Sequence>,
    /// Number of finished chunks, and of finished convolutions of the current chunk.
    chunk: usize,
    layer: usize,
    /// Result of the last convolution, and input columns of the next one.
    grid: Grid,
    columns: Grid,
    /// The encoder's input for the finished chunks.
    made: Vec<f32>,
}

/// Returns the output size of each convolution for a chunk of `times` frames and `bins` bins.
pub(super) fn places(stages: &[Stage], [mut times, mut bins]: [usize; 2]) -> Vec<usize> {
    let halve = |_| {
        (times, bins) = (times.div_ceil(2), bins.div_ceil(2));
        times * bins
    };
    stages.iter().map(halve).collect()
}

impl Convolving {
    /// Prepares the convolutions, if there are any.
    pub fn new(backend: &Backend, stages: &[Stage], chunk: [usize; 2]) -> Result<Convolving> {
        let places = places(stages, chunk);
        let sequence = match (places.iter().max(), stages.first()) {
            (Some(most), Some(stage)) => Some(backend.new_sequence(&stage.cache(*most, backend.is_on_cpu()))?),
            _ => None,
        };
        let executor = |(stage, n): (&Stage, &usize)| StageExecutor::new(backend, stage, *n);
        Ok(Convolving {
            executors: stages.iter().zip(&places).map(executor).collect::<Result<_>>()?,
            sequence,
            chunk: 0,
            layer: 0,
            grid: Grid::default(),
            columns: Grid::default(),
            made: Vec::new(),
        })
    }

    /// Returns the number of scratch bytes.
    pub fn bytes(backend: &Backend, stages: &[Stage], chunk: [usize; 2]) -> u64 {
        let bytes = stages.iter().zip(places(stages, chunk)).map(|(stage, n)| {
            let numbers = stage.inputs.iter().chain(&stage.results).map(|id| stage.program.width(*id)).sum::<usize>();
            backend.executor_bytes(&stage.program, Stage::limits(n)) + 4 * n.saturating_mul(numbers) as u64
        });
        bytes.sum()
    }

    /// Abandons the current step.
    pub fn reset(&mut self) -> Result<()> {
        (self.chunk, self.layer) = (0, 0);
        self.made = Vec::new();
        self.executors.iter_mut().try_for_each(StageExecutor::reset)
    }

    /// Computes the encoder's input for the frames of a part; returns true if complete, or without convolutions.
    pub fn advance(
        &mut self,
        stages: &[Stage],
        sound: &SoundFacts,
        inputs: &mut TileInputs,
        budget: &StepBudget,
    ) -> Result<bool> {
        let Some(sequence) = self.sequence.as_mut().filter(|_| !inputs.frames.is_empty()) else { return Ok(true) };
        while let Some((chunk, states)) = sound.chunk(&inputs.frames, self.chunk)? {
            while let Some((stage, executor)) = stages.get(self.layer).zip(self.executors.get_mut(self.layer)) {
                if executor.state == StageState::Fresh {
                    self.columns = if self.layer == 0 { chunk.columns()? } else { self.grid.columns()? };
                }
                let n = self.columns.times * self.columns.bins;
                let written = &[&self.columns.values[..]];
                let of_step = StageInputs { n, written, ..StageInputs::default() };
                if !executor.advance(stage, sequence, of_step, budget)? {
                    return Ok(false);
                }
                let channels = stage.program.width(stage.results[0]);
                let mut values = try_filled("frames", n * channels, 0f32)?;
                executor.executor.read(stage.results[0], &mut values)?;
                self.grid = Grid { values, times: self.columns.times, bins: self.columns.bins };
                executor.state = StageState::Fresh;
                self.layer += 1;
            }
            let width = self.grid.values.len() / states.max(1);
            if self.made.is_empty() {
                self.made = try_vec("frames", inputs.n.saturating_mul(width))?;
            }
            let seen = states.min(inputs.n.saturating_sub(self.chunk * states)) * width;
            self.made.extend_from_slice(&self.grid.values[..seen]);
            (self.chunk, self.layer) = (self.chunk + 1, 0);
        }
        inputs.patches = std::mem::take(&mut self.made);
        inputs.frames = Vec::new();
        self.chunk = 0;
        Ok(true)
    }
}
