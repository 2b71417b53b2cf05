//! Runs the steps of a program on the device or devices of its model.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::pipeline::PipelineExecutor;
use super::sequence::{OnCpu, OnGpu};
use crate::cpu::executor::CpuExecutor;
use crate::cuda::CudaExecutor;
use crate::error::{Error, Result};
use crate::graph::device_info::Times;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::graph::step_budget::StepBudget;

/// Executes the ops of one step at a time, between `begin` and `end` those of one batch. After an error the step is
/// abandoned with `end`; the next `begin` starts clean.
pub struct Executor {
    program: Arc<Program>,
    limits: StepLimits,
    device: DeviceExecutor,
    /// The number of the GPU among those of its sequences.
    pub(super) gpu: usize,
}

pub enum DeviceExecutor {
    Cpu(Box<CpuExecutor>),
    Cuda(Box<CudaExecutor>),
    Pipeline(Box<PipelineExecutor>),
}

/// The results of a step, from the device that has the head.
macro_rules! of_head {
    ($executor:expr, $e:ident => $call:expr) => {
        match &mut $executor.device {
            DeviceExecutor::Cpu($e) => $call,
            DeviceExecutor::Cuda($e) => $call,
            DeviceExecutor::Pipeline(pipeline) => {
                let $e = pipeline.head()?;
                $call
            }
        }
    };
}

/// The same method of each device.
macro_rules! of_device {
    ($executor:expr, $e:ident => $call:expr) => {
        match &mut $executor.device {
            DeviceExecutor::Cpu($e) => $call,
            DeviceExecutor::Cuda($e) => $call,
            DeviceExecutor::Pipeline($e) => $call,
        }
    };
}

impl Executor {
    /// `program` and `limits` are those that the device's executor was made for.
    pub fn new(program: &Arc<Program>, limits: StepLimits, device: DeviceExecutor) -> Executor {
        Executor { program: program.clone(), limits, device, gpu: 0 }
    }

    /// Names of the kernels that the open step has launched on a GPU.
    pub fn kernels(&self) -> Vec<&'static str> {
        match &self.device {
            DeviceExecutor::Cuda(cuda) => cuda.kernels().collect(),
            _ => Vec::new(),
        }
    }

    /// False where more threads have come than there is scratch for; the executor works on with those it knows.
    pub fn fits_threads(&self) -> bool {
        match &self.device {
            DeviceExecutor::Cpu(cpu) => cpu.fits_threads(),
            DeviceExecutor::Cuda(_) => true,
            DeviceExecutor::Pipeline(pipeline) => pipeline.fits_threads(),
        }
    }

    /// All ops of the program.
    pub fn ops(&self) -> Range<usize> {
        0..self.program.ops.len()
    }

    /// Opens a step of a range of the program's ops.
    pub fn begin(&mut self, batch: &mut Batch, ops: Range<usize>) -> Result<()> {
        let follows = match &self.device {
            DeviceExecutor::Cpu(_) => false,
            DeviceExecutor::Cuda(cuda) => cuda.follows(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.follows(),
        };
        batch.check(&self.program, self.limits, follows)?;
        if ops.start > ops.end || ops.end > self.program.ops.len() {
            return Err(Error::invalid(format!("ops {ops:?} of {}", self.program.ops.len())));
        }
        let inputs = &batch.inputs;
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.begin(inputs, &OnCpu(batch.sequences), ops),
            DeviceExecutor::Cuda(cuda) => cuda.begin(inputs, &OnGpu(batch.sequences, self.gpu), ops),
            DeviceExecutor::Pipeline(pipeline) => pipeline.begin(batch, ops),
        }
    }

    /// Executes ops in order until none is left or `stop`, asked between chunks of them, says so; true when all are
    /// done.
    pub fn advance(&mut self, batch: &mut Batch, stop: &dyn Fn() -> bool) -> Result<bool> {
        self.advance_at(batch, &StepBudget::new(stop))
    }

    /// `advance` at a budget. After a pause the step goes on with the same batch; others may have the threads
    /// meanwhile.
    pub fn advance_at(&mut self, batch: &mut Batch, budget: &StepBudget) -> Result<bool> {
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.advance(&batch.inputs, &mut OnCpu(batch.sequences), budget),
            DeviceExecutor::Cuda(cuda) => cuda.advance(budget),
            DeviceExecutor::Pipeline(pipeline) => pipeline.advance(batch, budget),
        }
    }

    /// The token after output `i` of the step: the most likely one, of which the lowest wins a tie, or on a GPU the one
    /// that its rule chooses.
    pub fn token(&mut self, i: usize) -> Result<u32> {
        of_head!(self, e => e.token(i))
    }

    /// Copies the logits of output `i` of the step.
    pub fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        of_head!(self, e => e.read_logits(i, out))
    }

    /// Sets an activation of the open step, `[n, width]`, from memory of the host.
    pub fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        of_device!(self, e => e.write(tensor, values))
    }

    /// Copies an activation of the step, `[n, width]`, to memory of the host.
    pub fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        of_device!(self, e => e.read(tensor, out))
    }

    /// Copies rows of the step from number `first` on of an activation that the program keeps, those too that are no
    /// outputs.
    pub fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        of_device!(self, e => e.read_rows(tensor, first, out))
    }

    /// Ends the step; device work has finished and its errors are reported, that of submitted steps too.
    pub fn end(&mut self) -> Result<()> {
        of_device!(self, e => e.end())
    }

    /// Time that the CPU worked on the step that was begun last, where it has the first of several parts.
    pub fn first_share(&self) -> Duration {
        match &self.device {
            DeviceExecutor::Pipeline(pipeline) => pipeline.first_share(),
            _ => Duration::ZERO,
        }
    }

    /// Times of the parts of steps since this was asked last; zeros where nothing is measured.
    pub fn times(&mut self) -> Times {
        match &mut self.device {
            DeviceExecutor::Cpu(_) => Times::default(),
            DeviceExecutor::Cuda(cuda) => cuda.times(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.times(),
        }
    }

    /// Number of steps that may be submitted before the oldest is collected; 0 where none can be.
    pub fn ahead(&self) -> usize {
        match &self.device {
            DeviceExecutor::Cpu(_) => 0,
            DeviceExecutor::Cuda(cuda) => cuda.ahead(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.ahead(),
        }
    }

    /// Ends the step without waiting for its work, so that the next one can begin. Its results are gone but for the
    /// tokens after its outputs, which `collect` returns and the next step can have for its own (`CHOSEN_BEFORE`).
    pub fn submit(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.submit(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.submit(),
            DeviceExecutor::Cpu(_) => Err(Error::unsupported("steps ahead")),
        }
    }

    /// Waits for the oldest step that was submitted: the tokens after its first outputs.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.collect(tokens),
            DeviceExecutor::Pipeline(pipeline) => pipeline.collect(tokens),
            DeviceExecutor::Cpu(_) => Err(Error::invalid("no step was submitted")),
        }
    }
}
