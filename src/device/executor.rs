//! Executes the steps of a program on the devices of its model.

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

/// Executes one step at a time, from `begin` to `end`. After an error the step must be abandoned with `end`; the next
/// `begin` starts clean.
pub struct Executor {
    program: Arc<Program>,
    limits: StepLimits,
    device: DeviceExecutor,
    /// Index, in sequences, of the executor's GPU.
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
    /// `program` and `limits` must be those of the device's executor.
    pub fn new(program: &Arc<Program>, limits: StepLimits, device: DeviceExecutor) -> Executor {
        Executor { program: program.clone(), limits, device, gpu: 0 }
    }

    /// Returns the names of the kernels that the open step has launched on a GPU.
    pub fn kernels(&self) -> Vec<&'static str> {
        match &self.device {
            DeviceExecutor::Gpu(gpu) => gpu.kernels(),
            _ => Vec::new(),
        }
    }

    /// Returns the memory of each GPU that is allocated when steps of one token repeat, at most.
    pub fn graph_bytes(&self) -> Vec<u64> {
        match &self.device {
            DeviceExecutor::Cpu(_) => Vec::new(),
            DeviceExecutor::Gpu(gpu) => vec![gpu.graph_bytes()],
            DeviceExecutor::Pipeline(pipeline) => pipeline.graph_bytes(),
        }
    }

    /// False if the number of threads has outgrown the scratch memory; the executor keeps using fewer threads.
    pub fn fits_threads(&self) -> bool {
        match &self.device {
            DeviceExecutor::Cpu(cpu) => cpu.fits_threads(),
            DeviceExecutor::Gpu(_) => true,
            DeviceExecutor::Pipeline(pipeline) => pipeline.fits_threads(),
        }
    }

    pub fn ops(&self) -> Range<usize> {
        0..self.program.ops.len()
    }

    /// Begins a step of a range of the program's ops.
    pub fn begin(&mut self, batch: &mut Batch, ops: Range<usize>) -> Result<()> {
        let follows = match &self.device {
            DeviceExecutor::Cpu(_) => false,
            DeviceExecutor::Gpu(gpu) => gpu.follows(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.follows(),
        };
        batch.check(&self.program, self.limits, follows)?;
        if ops.start > ops.end || ops.end > self.program.ops.len() {
            return Err(Error::invalid(format!(
                "ops {ops:?} do not exist; the program has {}",
                self.program.ops.len()
            )));
        }
        let inputs = &batch.inputs;
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.begin(inputs, &OnCpu(batch.sequences), ops),
            DeviceExecutor::Gpu(gpu) => gpu.begin(inputs, &OnGpu(batch.sequences, self.gpu), ops),
            DeviceExecutor::Pipeline(pipeline) => pipeline.begin(batch, ops),
        }
    }

    /// Executes ops in order until complete or until `budget`, checked between chunks, pauses; returns true if
    /// complete. After a pause the step must continue with the same batch; meanwhile other steps may use the threads.
    pub fn advance(&mut self, batch: &mut Batch, budget: &StepBudget) -> Result<bool> {
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.advance(&batch.inputs, &mut OnCpu(batch.sequences), budget),
            DeviceExecutor::Gpu(gpu) => gpu.advance(budget),
            DeviceExecutor::Pipeline(pipeline) => pipeline.advance(batch, budget),
        }
    }

    /// True if `advance` queues work on a GPU and does not wait for it.
    pub fn queues(&self) -> bool {
        !matches!(self.device, DeviceExecutor::Cpu(_))
    }

    /// Waits for the work of the open step that a GPU has queued.
    pub fn wait(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Gpu(gpu) => gpu.finish(),
            DeviceExecutor::Cpu(_) | DeviceExecutor::Pipeline(_) => Ok(()),
        }
    }

    pub fn token(&mut self, i: usize) -> Result<u32> {
        self.device.step().token(i)
    }

    pub fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.device.step().read_logits(i, out)
    }

    pub fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        self.device.step().write(tensor, values)
    }

    pub fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        self.device.step().read(tensor, out)
    }

    pub fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        self.device.step().read_rows(tensor, first, out)
    }

    pub fn end(&mut self) -> Result<()> {
        self.device.step().end()
    }

    /// Returns the CPU time of the last step, if the CPU has the first of several parts.
    pub fn first_share(&self) -> Duration {
        match &self.device {
            DeviceExecutor::Pipeline(pipeline) => pipeline.first_share(),
            _ => Duration::ZERO,
        }
    }

    /// Times of the parts of steps since the last call; zeros if not measured.
    pub fn times(&mut self) -> Times {
        match &mut self.device {
            DeviceExecutor::Cpu(_) => Times::default(),
            DeviceExecutor::Gpu(gpu) => gpu.times(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.times(),
        }
    }

    /// Returns the maximum number of steps in flight before the oldest one is collected; 0: no pipelining.
    pub fn ahead(&self) -> usize {
        match &self.device {
            DeviceExecutor::Cpu(_) => 0,
            DeviceExecutor::Gpu(gpu) => gpu.ahead(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.ahead(),
        }
    }

    /// Ends the step without waiting for its work, so that the next step can begin. Only the sampled tokens remain
    /// available: from `collect`, and to the next step (`CHOSEN_BEFORE`).
    pub fn submit(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Gpu(gpu) => gpu.submit(),
            DeviceExecutor::Pipeline(pipeline) => pipeline.submit(),
            DeviceExecutor::Cpu(_) => Err(Error::unsupported("pipelined steps are not supported")),
        }
    }

    /// Waits for the oldest submitted step, and returns the tokens sampled after its first outputs.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Gpu(gpu) => gpu.collect(tokens),
            DeviceExecutor::Pipeline(pipeline) => pipeline.collect(tokens),
            DeviceExecutor::Cpu(_) => Err(Error::invalid("no step was submitted")),
        }
    }
}
