//! Runs the steps of a program on the device or devices of its model.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::pipeline::PipelineExecutor;
use super::sequence::{OnCpu, OnGpu};
use crate::cpu::executor::CpuExecutor;
use crate::error::{Error, Result};
use crate::gpu::GpuExecutor;
use crate::graph::device_info::Times;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::{OpenStep, StepLimits};
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
    Gpu(Box<dyn GpuExecutor>),
    Pipeline(Box<PipelineExecutor>),
}

impl DeviceExecutor {
    fn step(&mut self) -> &mut dyn OpenStep {
        match self {
            DeviceExecutor::Cpu(cpu) => &mut **cpu,
            DeviceExecutor::Gpu(gpu) => &mut **gpu,
            DeviceExecutor::Pipeline(pipeline) => &mut **pipeline,
        }
    }
}

impl Executor {
    /// `program` and `limits` are those that the device's executor was made for.
    pub fn new(program: &Arc<Program>, limits: StepLimits, device: DeviceExecutor) -> Executor {
        Executor { program: program.clone(), limits, device, gpu: 0 }
    }

    /// Names of the kernels that the open step has launched on a GPU.
    pub fn kernels(&self) -> Vec<&'static str> {
        match &self.device {
            DeviceExecutor::Gpu(gpu) => gpu.kernels(),
            _ => Vec::new(),
        }
    }

    /// False where more threads have come than there is scratch for; the executor works on with those it knows.
    pub fn fits_threads(&self) -> bool {
        match &self.device {
            DeviceExecutor::Cpu(cpu) => cpu.fits_threads(),
            DeviceExecutor::Gpu(_) => true,
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
            DeviceExecutor::Gpu(gpu) => gpu.follows(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.follows(),
        };
        batch.check(&self.program, self.limits, follows)?;
        if ops.start > ops.end || ops.end > self.program.ops.len() {
            return Err(Error::invalid(format!("ops {ops:?} of {}", self.program.ops.len())));
        }
        let inputs = &batch.inputs;
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.begin(inputs, &OnCpu(batch.sequences), ops),
            DeviceExecutor::Gpu(gpu) => gpu.begin(inputs, &OnGpu(batch.sequences, self.gpu), ops),
            DeviceExecutor::Pipeline(pipeline) => pipeline.begin(batch, ops),
        }
    }

    /// Executes ops in order until none is left or `budget`, asked between chunks of them, pauses; true when all are
    /// done. After a pause the step goes on with the same batch; others may have the threads meanwhile.
    pub fn advance(&mut self, batch: &mut Batch, budget: &StepBudget) -> Result<bool> {
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.advance(&batch.inputs, &mut OnCpu(batch.sequences), budget),
            DeviceExecutor::Gpu(gpu) => gpu.advance(budget),
            DeviceExecutor::Pipeline(pipeline) => pipeline.advance(batch, budget),
        }
    }

    /// `OpenStep::token`
    pub fn token(&mut self, i: usize) -> Result<u32> {
        self.device.step().token(i)
    }

    /// `OpenStep::read_logits`
    pub fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.device.step().read_logits(i, out)
    }

    /// `OpenStep::write`
    pub fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        self.device.step().write(tensor, values)
    }

    /// `OpenStep::read`
    pub fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        self.device.step().read(tensor, out)
    }

    /// `OpenStep::read_rows`
    pub fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        self.device.step().read_rows(tensor, first, out)
    }

    /// `OpenStep::end`
    pub fn end(&mut self) -> Result<()> {
        self.device.step().end()
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
            DeviceExecutor::Gpu(gpu) => gpu.times(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.times(),
        }
    }

    /// Number of steps that may be submitted before the oldest is collected; 0 where none can be.
    pub fn ahead(&self) -> usize {
        match &self.device {
            DeviceExecutor::Cpu(_) => 0,
            DeviceExecutor::Gpu(gpu) => gpu.ahead(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.ahead(),
        }
    }

    /// Ends the step without waiting for its work, so that the next one can begin. Its results are gone but for the
    /// tokens after its outputs, which `collect` returns and the next step can have for its own (`CHOSEN_BEFORE`).
    pub fn submit(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Gpu(gpu) => gpu.submit(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.submit(),
            DeviceExecutor::Cpu(_) => Err(Error::unsupported("steps ahead")),
        }
    }

    /// Waits for the oldest step that was submitted: the tokens after its first outputs.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Gpu(gpu) => gpu.collect(tokens),
            DeviceExecutor::Pipeline(pipeline) => pipeline.collect(tokens),
            DeviceExecutor::Cpu(_) => Err(Error::invalid("no step was submitted")),
        }
    }
}
