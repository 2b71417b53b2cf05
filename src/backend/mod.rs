//! The devices that execute programs of ops, in the order of the data: `op` lists what a device can do, `program` is a
//! network of ops, `weights` what a device holds of a model, `state_spec` and `state` what a sequence remembers, `batch` what
//! changes from step to step. `cpu` and `cuda` are the devices, `place` divides a program among several, `split` runs it there.
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
pub mod place;
pub mod program;
mod rule_test;
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
use self::cuda::{CudaDevice, CudaExecutor, CudaModel, Uses};
pub use self::device::{DeviceInfo, DeviceKind, Part, Times};
use self::op::Act;
pub use self::pace::Pace;
pub use self::place::MAX_GPUS;
use self::place::Wishes;
use self::program::Program;
use self::split::{Split, SplitExecutor};
use self::state::State;
use self::state_spec::StateSpec;
use self::weights::{Progress, Weights};
use crate::error::{Error, Result};
use crate::sampling::{MAX_ENTRIES, SamplingRule};

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
    /// Positions in `devices()` from 1: one device, or GPUs over which layers are divided in this order. Empty: chosen here.
    pub devices: Vec<u32>,
    /// Sizes of the parts of several GPUs in relation to one another; empty: by their free memory.
    pub shares: Vec<f32>,
    /// No result may depend on how a prompt is cut nor on the other sequences of a batch, which the CPU's never do.
    pub deterministic: bool,
    /// Executors on a GPU measure the parts of their steps: `Executor::times`.
    pub profile: bool,
    /// Number of layers on GPUs, the last ones; `None`: as many as fit.
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
        let LoadOptions { packed_at, beside, gpu_layers, cache, limits, host_bytes, .. } = options;
        let wishes = Wishes { shares: &options.shares, gpu_layers: *gpu_layers, cache, limits: *limits };
        let on_gpus = |gpus: &[Arc<CudaDevice>], progress: &mut Progress| {
            let division = place::divide(gpus, program, weights, &wishes)?;
            match &division.gpus[..] {
                [] => on_cpu(progress),
                [(gpu, _)] if division.cpu_layers == 0 => {
                    self_test::check(gpu, program, weights)?;
                    Ok(Backend::Cuda(Arc::new(gpu.load(program, weights, progress)?)))
                }
                _ => {
                    for (gpu, layers) in &division.gpus {
                        let (part, weights) = place::part(program, place::ops(program, layers), weights)?;
                        self_test::check(gpu, &part, &weights)?;
                    }
                    let split = Split::load(&division, isa, program, weights, pool, *host_bytes, progress)?;
                    Ok(Backend::Split(Arc::new(split)))
                }
            }
        };
        let open =
            |ordinals: &[i32]| ordinals.iter().map(|&ordinal| cuda::open(ordinal, uses)).collect::<Result<Vec<_>>>();
        if options.devices.is_empty() {
            // Choices that only a CPU has, or that say where layers are.
            let is_free = packed_at.is_none() && beside.is_none() && options.isa.is_none() && gpu_layers.is_none();
            let measured = Uses { plan: false, ..uses };
            let chosen = match is_free {
                true => choice::gpus(program, weights, pool, measured, &wishes),
                false => Vec::new(),
            };
            let gpus = if options.plan {
                // Their contexts end first, which take memory.
                let ordinals: Vec<i32> = chosen.into_iter().map(|gpu| gpu.ordinal()).collect();
                open(&ordinals).unwrap_or_default()
            } else {
                chosen
            };
            return match on_gpus(&gpus, progress) {
                Err(e) if gpus.is_empty() || matches!(e, Error::Cancelled | Error::Deadline) => Err(e),
                // A GPU that nobody asked for fails nobody.
                Err(_) => on_cpu(progress),
                loaded => loaded,
            };
        }
        if options.devices == [CPU_DEVICE] {
            return on_cpu(progress);
        }
        let all = devices();
        let mut ordinals = Vec::new();
        for &device in &options.devices {
            match (device as usize).checked_sub(1).and_then(|i| all.get(i)) {
                Some(d) if d.kind == DeviceKind::Cpu => {
                    let what = "the CPU in a list of GPUs: it takes the layers that they leave";
                    return Err(Error::invalid(what));
                }
                Some(d) if packed_at.is_some() => {
                    return Err(Error::unsupported(format!("packed weights in a file for {}", d.name)));
                }
                Some(d) if beside.is_some() => {
                    return Err(Error::unsupported(format!("layers that predict further tokens on {}", d.name)));
                }
                Some(d) if d.unavailable.is_empty() => ordinals.push(device as i32 - 2),
                Some(d) => {
                    return Err(Error::DeviceUnavailable { device: d.name.clone(), why: d.unavailable.clone() });
                }
                None => return Err(Error::invalid(format!("device {device} does not exist"))),
            }
        }
        on_gpus(&open(&ordinals)?, progress)
    }

    /// The parts that are on GPUs, in the order of the layers.
    fn cuda(&self) -> &[Arc<CudaModel>] {
        match self {
            Backend::Cpu(_) => &[],
            Backend::Cuda(cuda) => std::slice::from_ref(cuda),
            Backend::Split(split) => split.cuda(),
        }
    }

    /// The part that is on the CPU.
    fn cpu(&self) -> Option<&Arc<CpuBackend>> {
        match self {
            Backend::Cpu(cpu) => Some(cpu),
            Backend::Cuda(_) => None,
            Backend::Split(split) => split.cpu(),
        }
    }

    /// Tells whether the CPU has a part.
    pub fn is_on_cpu(&self) -> bool {
        self.cpu().is_some()
    }

    /// Position in `devices()` from 1 of the device whose kind the model counts as: of a division the first GPU.
    pub fn device_number(&self) -> u32 {
        self.cuda().first().map_or(CPU_DEVICE, |cuda| number(cuda))
    }

    /// Bytes of each GPU that the model, its caches and executors take or would take now, and page-locked ones of the host.
    pub fn taken(&self) -> Vec<[u64; 2]> {
        self.cuda().iter().map(|cuda| cuda.taken()).collect()
    }

    /// Names of the devices whose kind the model counts as: of a division the GPUs.
    pub fn device_names(&self) -> String {
        let names: Vec<&str> = match self {
            Backend::Cpu(cpu) => vec![&cpu.device().name],
            _ => self.cuda().iter().map(|cuda| cuda.device().name.as_str()).collect(),
        };
        names.join(" and ")
    }

    /// Kind of each device and the bytes of weights it holds, the kind of the last layers first.
    pub fn weight_bytes(&self) -> impl Iterator<Item = (DeviceKind, u64)> {
        let on_gpus = self.cuda().iter().map(|cuda| cuda.weight_bytes()).reduce(|a, b| a + b);
        let on_gpus = on_gpus.map(|bytes| (DeviceKind::Cuda, bytes));
        on_gpus.into_iter().chain(self.cpu().map(|cpu| (DeviceKind::Cpu, cpu.weight_bytes())))
    }

    /// A number that tells the weights from others, for caches that are saved.
    pub fn digest(&self) -> u64 {
        match self {
            Backend::Cpu(cpu) => cpu.digest(),
            Backend::Cuda(cuda) => cuda.digest(),
            Backend::Split(split) => {
                let on_cpu = split.cpu().map_or(0, |cpu| cpu.digest());
                split.cuda().iter().fold(on_cpu, |all, part| all.rotate_left(1) ^ part.digest())
            }
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
        self.cpu().map_or(0, |cpu| cpu.vector_bytes())
    }

    /// Bytes of the host that are held beside weights while they are loaded.
    pub fn staging_bytes(&self) -> u64 {
        let on_gpus = self.cuda().iter().map(|cuda| cuda.staging_bytes());
        on_gpus.chain(self.cpu().map(|cpu| cpu.staging_bytes())).max().unwrap_or(0)
    }

    /// Number of layers on each GPU, of `n`, and the number of the device.
    pub fn gpus(&self, n: usize) -> Vec<(u32, usize)> {
        let layers = match self {
            Backend::Split(split) => split.gpu_layers().collect(),
            _ => vec![n],
        };
        self.cuda().iter().map(|cuda| number(cuda)).zip(layers).collect()
    }

    /// Number of layers on GPUs, of `n`.
    pub fn gpu_layers(&self, n: usize) -> usize {
        self.gpus(n).into_iter().map(|(_, layers)| layers).sum()
    }

    /// An empty sequence.
    pub fn new_state(&self, spec: &StateSpec) -> Result<State> {
        spec.check()?;
        let memory = match self {
            Backend::Cpu(_) => cpu::kv::CpuKv::new(spec)?.into(),
            Backend::Cuda(cuda) => cuda.new_kv(spec)?.into(),
            Backend::Split(split) => split.new_memory(spec)?,
        };
        State::new(spec.clone(), memory)
    }

    /// True where steps choose tokens by a rule.
    pub fn chooses(&self, rule: &SamplingRule) -> bool {
        !matches!(self, Backend::Cpu(_)) && rule.entries() <= MAX_ENTRIES && !rule.params.filters_tempered()
    }

    /// Memory of the host that an executor takes, in bytes.
    pub fn executor_bytes(&self, program: &Program, limits: StepLimits) -> u64 {
        match self.is_on_cpu() {
            true => 4 * (limits.max_tokens * program.scratch_width() + limits.max_outputs * program.vocab) as u64,
            false => 0,
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

/// Position in `devices()` from 1.
fn number(cuda: &CudaModel) -> u32 {
    cuda.ordinal() as u32 + 2
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
                let $e = split.head()?;
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
        let follows = match &self.device {
            DeviceExecutor::Cpu(_) => false,
            DeviceExecutor::Cuda(cuda) => cuda.follows(),
            DeviceExecutor::Split(split) => split.follows(),
        };
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

    /// Time that the CPU worked on the step that was begun last, where it has the first of several parts.
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
            DeviceExecutor::Split(split) => split.times(),
        }
    }

    /// Number of steps that may be submitted before the oldest is collected; 0 where none can be.
    pub fn ahead(&self) -> usize {
        match &self.device {
            DeviceExecutor::Cpu(_) => 0,
            DeviceExecutor::Cuda(cuda) => cuda.ahead(),
            DeviceExecutor::Split(split) => split.ahead(),
        }
    }

    /// Ends the step without waiting for its work, so that the next one can begin. Its results are gone but for the
    /// tokens behind its outputs, which `collect` returns and the next step can have for its own (`FOLLOWING`).
    pub fn submit(&mut self) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.submit(),
            DeviceExecutor::Split(split) => split.submit(),
            DeviceExecutor::Cpu(_) => Err(Error::unsupported("steps ahead")),
        }
    }

    /// Waits for the oldest step that was submitted: the tokens behind its first outputs.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        match &mut self.device {
            DeviceExecutor::Cuda(cuda) => cuda.collect(tokens),
            DeviceExecutor::Split(split) => split.collect(tokens),
            DeviceExecutor::Cpu(_) => Err(Error::invalid("no step was submitted")),
        }
    }
}
