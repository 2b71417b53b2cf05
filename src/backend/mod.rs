//! The devices that execute programs of ops, in the order of the data: `op` lists what a device can do, `program` is a
//! network of ops, `weights` what a device holds of a model, `state_spec` and `state` what a sequence remembers, `batch` what
//! changes from step to step. `cpu` and `cuda` are the devices, `split` divides a program between the two.
//!
//! This file owns the closed lists of devices: a model, its caches and its executors each are one of three kinds.

pub mod batch;
mod checkpoints;
pub mod choice;
pub mod cpu;
#[cfg_attr(not(cuda), path = "no_cuda.rs")]
pub mod cuda;
mod device;
pub mod op;
mod pace;
pub mod program;
pub mod rule;
pub mod self_test;
pub mod split;
pub mod state;
pub mod state_spec;
pub mod weights;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::batch::{Batch, StepLimits};
use self::cpu::executor::CpuExecutor;
use self::cpu::kernels::Isa;
use self::cpu::pool::Pool;
use self::cpu::{CpuBackend, PackedAt};
use self::cuda::{CudaExecutor, CudaModel, Uses};
pub use self::device::{DeviceInfo, DeviceKind, Part, Times};
use self::op::Act;
pub use self::pace::Pace;
use self::program::Program;
use self::rule::{MAX_ENTRIES, Rule};
use self::split::{Split, SplitExecutor};
use self::state::{State, StateMemory};
use self::state_spec::StateSpec;
use self::weights::{Progress, Weights};
use crate::error::{Error, Result};

/// Number of the processors of the host in `devices()`, from 1.
pub const CPU_DEVICE: u32 = 1;

/// Every device there is, the CPU first.
pub fn devices() -> Vec<DeviceInfo> {
    let mut devices = vec![cpu::device(Isa::detect())];
    devices.extend(cuda::devices());
    devices
}

/// The choices of a load beside the weights.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Position in `devices()` from 1; 0: chosen here.
    pub device: u32,
    /// No result may depend on how a prompt is cut nor on the other sequences of a batch, which the CPU's never do.
    pub deterministic: bool,
    /// Executors on a GPU measure the parts of their steps: `Executor::times`.
    pub profile: bool,
    /// Number of layers on a GPU, the last ones; `None`: as many as fit.
    pub gpu_layers: Option<usize>,
    /// Ceiling on weights in memory of the host, in bytes.
    pub host_bytes: u64,
    /// File of the CPU's packed weights, which is mapped, or made first.
    pub packed_at: Option<PackedAt>,
    /// Weights are not read: the backend tells what it would take, and computes nothing.
    pub plan: bool,
    /// Another program of the same weights, for the CPU.
    pub beside: Option<Arc<Program>>,
    /// Instruction set of the CPU; `None`: the fastest. It changes no result.
    pub isa: Option<Isa>,
    /// Room of a step and the cache that shall fit on a GPU beside the weights.
    pub limits: StepLimits,
    pub cache: StateSpec,
}

/// A model on its device or devices.
#[derive(Clone)]
pub enum Backend {
    Cpu(Arc<CpuBackend>),
    Cuda(Arc<CudaModel>),
    Split(Arc<Split>),
}

impl Backend {
    /// Brings the weights of a program to a device.
    pub fn load(
        program: &Arc<Program>,
        weights: &Weights,
        pool: &Arc<Pool>,
        options: &LoadOptions,
        progress: &mut Progress,
    ) -> Result<Backend> {
        program.check(weights)?;
        options.beside.iter().try_for_each(|beside| beside.check(weights))?;
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let on_cpu = |progress: &mut Progress| {
            let (packed_at, follow) = (options.packed_at.as_ref(), !options.plan);
            let programs: Vec<&Program> = [program].into_iter().chain(&options.beside).map(|p| &**p).collect();
            let cpu = CpuBackend::load(pool, isa, &programs, weights, packed_at, options.host_bytes, follow, progress)?;
            Ok(Backend::Cpu(Arc::new(cpu)))
        };
        let uses = Uses { deterministic: options.deterministic, profile: options.profile, plan: options.plan };
        if options.device == 0 {
            let LoadOptions { packed_at, beside, isa, gpu_layers, cache, limits, .. } = options;
            // Choices that only a CPU has, or that say where layers are.
            let is_free = packed_at.is_none() && beside.is_none() && isa.is_none() && gpu_layers.is_none();
            let measured = Uses { plan: false, ..uses };
            let gpu = || choice::gpu(program, weights, pool, measured, cache, *limits);
            let chosen = if is_free { gpu() } else { None };
            let load = || {
                let Some((ordinal, cuda)) = chosen else { return Ok(None) };
                let cuda = if options.plan { cuda::open(ordinal, uses)? } else { cuda };
                Ok(Some(Backend::Cuda(Arc::new(cuda.load(program, weights, progress)?))))
            };
            return match load() {
                Ok(Some(backend)) => Ok(backend),
                Err(e @ (Error::Cancelled | Error::Deadline)) => Err(e),
                // A GPU that nobody asked for fails nobody.
                _ => on_cpu(progress),
            };
        }
        if options.device == CPU_DEVICE {
            return on_cpu(progress);
        }
        let device = options.device;
        match devices().into_iter().nth(device as usize - 1) {
            Some(d) if options.packed_at.is_some() => {
                Err(Error::unsupported(format!("packed weights in a file for {}", d.name)))
            }
            Some(d) if options.beside.is_some() => {
                Err(Error::unsupported(format!("layers that predict further tokens on {}", d.name)))
            }
            Some(d) if d.unavailable.is_empty() => {
                let cuda = cuda::open(device as i32 - 2, uses)?;
                let n = program.layers.len();
                let LoadOptions { gpu_layers, cache, limits, .. } = options;
                match split::cpu_layers(&cuda, program, weights, *gpu_layers, cache, *limits)? {
                    0 => {
                        self_test::check(&cuda, program, weights)?;
                        Ok(Backend::Cuda(Arc::new(cuda.load(program, weights, progress)?)))
                    }
                    all if all == n => on_cpu(progress),
                    some => {
                        let split = Split::load(cuda, isa, some, program, weights, pool, options.host_bytes, progress)?;
                        Ok(Backend::Split(Arc::new(split)))
                    }
                }
            }
            Some(d) => Err(Error::DeviceUnavailable { device: d.name, why: d.unavailable }),
            None => Err(Error::invalid(format!("device {device} does not exist"))),
        }
    }

    /// The part of the model that is on a GPU.
    fn cuda(&self) -> Option<&CudaModel> {
        match self {
            Backend::Cpu(_) => None,
            Backend::Cuda(cuda) => Some(cuda),
            Backend::Split(split) => Some(split.cuda()),
        }
    }

    /// Position in `devices()` from 1 of the device whose kind the model counts as.
    pub fn device_number(&self) -> u32 {
        self.cuda().map_or(CPU_DEVICE, |cuda| cuda.ordinal() as u32 + 2)
    }

    /// Bytes of a GPU that the model, its caches and executors take or would take now, and page-locked ones of the host.
    pub fn taken(&self) -> [u64; 2] {
        self.cuda().map_or([0; 2], CudaModel::taken)
    }

    /// The device whose kind the model counts as: the GPU of a split.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Backend::Cpu(cpu) => cpu.device(),
            Backend::Cuda(cuda) => cuda.device(),
            Backend::Split(split) => split.cuda().device(),
        }
    }

    /// Kind of each device and the bytes of weights it holds, the device of the last layers first.
    pub fn weight_bytes(&self) -> impl Iterator<Item = (DeviceKind, u64)> {
        let (cpu, cuda) = match self {
            Backend::Cpu(cpu) => (Some(cpu), None),
            Backend::Cuda(cuda) => (None, Some(cuda)),
            Backend::Split(split) => (Some(split.cpu()), Some(split.cuda())),
        };
        let cuda = cuda.map(|cuda| (DeviceKind::Cuda, cuda.weight_bytes()));
        cuda.into_iter().chain(cpu.map(|cpu| (DeviceKind::Cpu, cpu.weight_bytes())))
    }

    /// A number that tells the weights from others, for caches that are saved.
    pub fn digest(&self) -> u64 {
        match self {
            Backend::Cpu(cpu) => cpu.digest(),
            Backend::Cuda(cuda) => cuda.digest(),
            Backend::Split(split) => split.cpu().digest().rotate_left(1) ^ split.cuda().digest(),
        }
    }

    /// The CPU of a model to whose products adapters can be added.
    pub fn adaptable(&self) -> Result<&CpuBackend> {
        match self {
            Backend::Cpu(cpu) => Ok(cpu),
            Backend::Cuda(_) | Backend::Split(_) => {
                Err(Error::unsupported("adapters for a model that has layers on a GPU; device 1 is the CPU"))
            }
        }
    }

    /// The part of the weights of the host that is vectors.
    pub fn vector_bytes(&self) -> u64 {
        match self {
            Backend::Cpu(cpu) => cpu.vector_bytes(),
            Backend::Split(split) => split.cpu().vector_bytes(),
            Backend::Cuda(_) => 0,
        }
    }

    /// Bytes of the host that are held beside weights while they are loaded.
    pub fn staging_bytes(&self) -> u64 {
        match self {
            Backend::Cpu(cpu) => cpu.staging_bytes(),
            Backend::Split(split) => split.cpu().staging_bytes().max(split.cuda().staging_bytes()),
            Backend::Cuda(cuda) => cuda.staging_bytes(),
        }
    }

    /// Number of layers on a GPU, of `n`.
    pub fn gpu_layers(&self, n: usize) -> usize {
        match self {
            Backend::Cpu(_) => 0,
            Backend::Cuda(_) => n,
            Backend::Split(split) => n - split.cpu_layers(),
        }
    }

    /// An empty sequence.
    pub fn new_state(&self, spec: &StateSpec) -> Result<State> {
        spec.check()?;
        let memory = match self {
            Backend::Cpu(_) => StateMemory::Cpu(cpu::kv::CpuKv::new(spec)?),
            Backend::Cuda(cuda) => StateMemory::Cuda(cuda.new_kv(spec)?),
            Backend::Split(split) => split.new_memory(spec)?,
        };
        State::new(spec.clone(), memory)
    }

    /// True where steps choose tokens by a rule.
    pub fn chooses(&self, rule: &Rule) -> bool {
        !matches!(self, Backend::Cpu(_)) && rule.entries() <= MAX_ENTRIES
    }

    /// Memory of the host that an executor takes, in bytes.
    pub fn executor_bytes(&self, program: &Program, limits: StepLimits) -> u64 {
        match self {
            Backend::Cuda(_) => 0,
            _ => 4 * (limits.max_tokens * program.scratch_width() + limits.max_outputs * program.vocab) as u64,
        }
    }

    /// An executor with scratch for `limits`. `program` is the one that was loaded.
    pub fn new_executor(&self, program: &Arc<Program>, limits: StepLimits) -> Result<Executor> {
        let device = match self {
            Backend::Cpu(cpu) => DeviceExecutor::Cpu(Box::new(CpuExecutor::new(cpu.clone(), program, limits)?)),
            Backend::Cuda(cuda) => DeviceExecutor::Cuda(Box::new(CudaExecutor::new(cuda.clone(), program, limits)?)),
            Backend::Split(split) => DeviceExecutor::Split(Box::new(SplitExecutor::new(split, limits)?)),
        };
        Ok(Executor { program: program.clone(), limits, device })
    }
}

/// Executes the ops of one step at a time, between `begin` and `end` those of one batch. After an error the step is
/// abandoned with `end`; the next `begin` starts clean.
pub struct Executor {
    program: Arc<Program>,
    limits: StepLimits,
    device: DeviceExecutor,
}

enum DeviceExecutor {
    Cpu(Box<CpuExecutor>),
    Cuda(Box<CudaExecutor>),
    Split(Box<SplitExecutor>),
}

/// The results of a step, from the device that has the head.
macro_rules! of_head {
    ($executor:expr, $e:ident => $call:expr) => {
        match &mut $executor.device {
            DeviceExecutor::Cpu($e) => $call,
            DeviceExecutor::Cuda($e) => $call,
            DeviceExecutor::Split(split) => {
                let $e = split.back();
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
            DeviceExecutor::Split($e) => $call,
        }
    };
}

impl Executor {
    /// False where more threads have come than there is scratch for; the executor works on with those it knows.
    pub fn fits_threads(&self) -> bool {
        match &self.device {
            DeviceExecutor::Cpu(cpu) => cpu.fits_threads(),
            DeviceExecutor::Cuda(_) => true,
            DeviceExecutor::Split(split) => split.fits_threads(),
        }
    }

    /// Opens a step of a range of the program's ops.
    pub fn begin(&mut self, batch: &Batch, ops: Range<usize>) -> Result<()> {
        let follows = matches!(&self.device, DeviceExecutor::Cuda(cuda) if cuda.follows());
        batch.check(&self.program, self.limits, follows)?;
        if ops.start > ops.end || ops.end > self.program.ops.len() {
            return Err(Error::invalid(format!("ops {ops:?} of {}", self.program.ops.len())));
        }
        of_device!(self, e => e.begin(batch, ops))
    }

    /// Executes ops in order until none is left or `stop`, asked between shares of them, says so; true when all are done.
    pub fn advance(&mut self, batch: &mut Batch, stop: &dyn Fn() -> bool) -> Result<bool> {
        self.advance_at(batch, &Pace::new(stop))
    }

    /// `advance` at a pace. After a pause the step goes on with the same batch; others may have the threads meanwhile.
    pub fn advance_at(&mut self, batch: &mut Batch, pace: &Pace) -> Result<bool> {
        of_device!(self, e => e.advance(batch, pace))
    }

    /// The token behind output `i` of the step: the most likely one, of which the lowest wins a tie, or on a GPU the one that
    /// its rule chooses.
    pub fn token(&mut self, i: usize) -> Result<u32> {
        of_head!(self, e => e.token(i))
    }

    /// Copies the logits of output `i` of the step.
    pub fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        of_head!(self, e => e.read_logits(i, out))
    }

    /// Sets an activation of the open step, `[n, width]`, from memory of the host.
    pub fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        of_device!(self, e => e.write(act, values))
    }

    /// Copies an activation of the step, `[n, width]`, to memory of the host.
    pub fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        of_device!(self, e => e.read(act, out))
    }

    /// Copies rows of the step from number `first` on of an activation that the program keeps, those too that are no outputs.
    pub fn read_rows(&mut self, act: Act, first: usize, out: &mut [f32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cpu(cpu) => cpu.read_rows(act, first, out),
            _ => Err(Error::unsupported("rows of activations on a GPU")),
        }
    }

    /// Ends the step; device work has finished and its errors are reported, that of submitted steps too.
    pub fn end(&mut self) -> Result<()> {
        of_device!(self, e => e.end())
    }

    /// Time that the first of two devices worked on the step that was begun last.
    pub fn first_share(&self) -> Duration {
        match &self.device {
            DeviceExecutor::Split(split) => split.first_share(),
            _ => Duration::ZERO,
        }
    }

    /// Times of the parts of steps since this was asked last; zeros where nothing is measured.
    pub fn times(&mut self) -> Times {
        match &mut self.device {
            DeviceExecutor::Cpu(_) => Times::default(),
            DeviceExecutor::Cuda(cuda) => cuda.times(),
            DeviceExecutor::Split(split) => split.back().times(),
        }
    }

    /// Number of steps that may be submitted before the oldest is collected; 0 where none can be.
    pub fn ahead(&self) -> usize {
        match &self.device {
            DeviceExecutor::Cuda(cuda) => cuda.ahead(),
            _ => 0,
        }
    }

    /// Ends the step without waiting for its work, so that the next one can begin. Its results are gone but for the
    /// tokens behind its outputs, which `collect` returns and the next step can have for its own (`FOLLOWING`).
    pub fn submit(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.submit(),
            _ => Err(Error::unsupported("steps ahead")),
        }
    }

    /// Waits for the oldest step that was submitted: the tokens behind its first outputs.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.collect(tokens),
            _ => Err(Error::invalid("no step was submitted")),
        }
    }
}
