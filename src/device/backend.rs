//! A model on its device or devices: the closed list of backends.

use std::ops::Range;
use std::sync::Arc;

use super::adapter::{Adapter, Factors};
use super::executor::{DeviceExecutor, Executor};
use super::host_experts::HostExperts;
use super::load::Load;
use super::partition;
use super::pipeline::{Pipeline, PipelineExecutor};
use super::placement::{self, Placed};
use super::select;
use super::self_test::{self, Factored};
use super::sequence::Sequence;
use crate::cpu::executor::CpuExecutor;
use crate::cpu::fastest::{fastest, fastest_in_bf16};
use crate::cpu::sequence::CpuSequence;
use crate::cpu::threads::pool::Pool;
use crate::cpu::{self, CpuBackend, CpuLoad};
use crate::drivers;
use crate::error::{Error, Result};
use crate::gpu::pieces;
use crate::gpu::{GpuDevice, GpuModel, Kept};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::graph::load_options::{LoadOptions, Placement};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::weights::{AdapterTarget, Progress, Weights};
use crate::sampling::SamplingRule;

/// Number of the CPU in `devices()`, from 1.
pub const CPU_DEVICE: u32 = 1;

/// Returns all devices, the CPU first.
pub fn devices() -> Vec<DeviceInfo> {
    let mut devices = vec![cpu::device(fastest())];
    devices.extend(drivers::devices());
    devices
}

/// Returns a device by its number in `devices()`, from 1. No driver of a GPU is opened for the CPU.
pub fn device(number: u32) -> Option<DeviceInfo> {
    match number {
        CPU_DEVICE => Some(cpu::device(fastest())),
        _ => devices().into_iter().nth((number as usize).checked_sub(1)?),
    }
}

/// Fails unless the named devices are available GPUs.
pub(super) fn check_gpus(named: &[u32]) -> Result<()> {
    let all = devices();
    let check = |&device: &u32| match (device as usize).checked_sub(1).and_then(|i| all.get(i)) {
        Some(d) if d.kind == DeviceKind::Cpu => {
            Err(Error::invalid("the CPU in a list of GPUs: it takes the layers that they leave"))
        }
        Some(d) if d.unavailable.is_empty() => Ok(()),
        Some(d) => Err(Error::DeviceUnavailable { device: d.name.clone(), why: d.unavailable.clone() }),
        None => Err(Error::invalid(format!("device {device} does not exist"))),
    };
    named.iter().try_for_each(check)
}

/// A model on its device or devices.
#[derive(Clone)]
pub enum Backend {
    Cpu(Arc<CpuBackend>),
    Gpu(Arc<dyn GpuModel>),
    Pipeline(Arc<Pipeline>),
}

impl Backend {
    /// Loads the weights of a program to the selected devices.
    pub fn load(
        program: &Arc<Program>,
        weights: &Weights,
        pool: &Arc<Pool>,
        load: &Load,
        progress: &mut Progress,
    ) -> Result<Backend> {
        program.check(weights)?;
        let &Load { options, ref companions, .. } = load;
        companions.iter().try_for_each(|companion| companion.check(weights))?;
        placement::check(options.placement, program)?;
        let in_bf16 = || options.bf16_products.then(fastest_in_bf16).flatten();
        let cpu_load = || CpuLoad {
            pool,
            isa: load.isa.or_else(in_bf16).unwrap_or_else(fastest),
            options,
            files: load.files,
            host_bytes: load.host_bytes,
        };
        let on_cpu = |progress: &mut Progress| {
            let programs: Vec<&Program> = [program].into_iter().chain(companions).map(|p| &**p).collect();
            Ok(Backend::Cpu(Arc::new(CpuBackend::load(cpu_load(), &programs, weights, progress)?)))
        };
        let kept = options.tested_path.map(|path| Kept { path: path.to_owned() });
        let kept = kept.as_ref();
        let on_gpus = |gpus: &[Arc<dyn GpuDevice>], progress: &mut Progress| {
            let (division, placed) = placement::divide(gpus, program, weights, load)?;
            match &division.gpus[..] {
                [] => on_cpu(progress),
                [(gpu, _)] if division.cpu_layers == 0 && placed.is_none() => {
                    for program in [program].into_iter().chain(companions) {
                        gpu.supports(program, weights, 0..program.ops.len())?;
                        self_test::check(gpu, program, weights, kept)?;
                    }
                    Ok(Backend::Gpu(gpu.clone().load(program, weights, progress)?))
                }
                [.., (last, _)] => {
                    for program in companions {
                        last.supports(program, weights, 0..program.ops.len())?;
                        self_test::check(last, program, weights, kept)?;
                    }
                    let on_gpus = placed.as_ref().map_or(&**program, |placed| &placed.program);
                    for (gpu, layers) in &division.gpus {
                        let (part, weights) = partition::part(on_gpus, partition::ops(on_gpus, layers), weights)?;
                        self_test::check(gpu, &part, &weights, kept)?;
                    }
                    if let Some(Placed { experts, program, .. }) = &placed
                        && pieces::piece_of(program).is_some()
                    {
                        let tests = division.gpus.iter().map(|(gpu, _)| self_test::check(gpu, experts, weights, kept));
                        tests.collect::<Result<Vec<f64>>>()?;
                    }
                    let placed = placed.as_ref();
                    let pipeline = Pipeline::load(&division, placed, program, weights, load, cpu_load(), progress)?;
                    Ok(Backend::Pipeline(Arc::new(pipeline)))
                }
            }
        };
        let open =
            |numbers: &[u32]| numbers.iter().map(|&number| drivers::open(number, options)).collect::<Result<Vec<_>>>();
        let named = options.named_devices();
        if let (Placement::Bytes(_), [] | [CPU_DEVICE]) = (options.placement, named) {
            return Err(Error::invalid("cannot place experts on a GPU: no GPU is named"));
        }
        if named.is_empty() {
            // True unless an option needs the CPU or places layers itself.
            let is_free = options.packed_path.is_none() && load.isa.is_none() && options.gpu_layers == 0;
            let is_free = is_free && options.placement == Placement::WithLayers;
            let measured = &LoadOptions { plan: false, ..*options };
            let chosen = match is_free {
                true => select::gpus(program, weights, pool, &Load { options: measured, ..load.clone() }, kept),
                false => Vec::new(),
            };
            let gpus = if options.plan {
                // First drop the drivers' contexts, because they take memory.
                let numbers: Vec<u32> = chosen.into_iter().map(|gpu| drivers::number(&*gpu)).collect();
                open(&numbers).unwrap_or_default()
            } else {
                chosen
            };
            return match on_gpus(&gpus, progress) {
                Err(e) if gpus.is_empty() || matches!(e, Error::Cancelled | Error::Deadline) => Err(e),
                // A GPU that was not requested must not fail the load.
                Err(_) => on_cpu(progress),
                loaded => loaded,
            };
        }
        if named == [CPU_DEVICE] {
            return on_cpu(progress);
        }
        check_gpus(named)?;
        on_gpus(&open(named)?, progress)
    }

    /// Returns the parts on GPUs, in layer order.
    fn on_gpus(&self) -> &[Arc<dyn GpuModel>] {
        match self {
            Backend::Cpu(_) => &[],
            Backend::Gpu(gpu) => std::slice::from_ref(gpu),
            Backend::Pipeline(pipeline) => pipeline.gpus(),
        }
    }

    /// Returns the part on the CPU.
    fn cpu(&self) -> Option<&Arc<CpuBackend>> {
        match self {
            Backend::Cpu(cpu) => Some(cpu),
            Backend::Gpu(_) => None,
            Backend::Pipeline(pipeline) => pipeline.cpu(),
        }
    }

    /// Returns the experts on the host for layers on GPUs, if any.
    fn host_experts(&self) -> Option<&HostExperts> {
        match self {
            Backend::Pipeline(pipeline) => pipeline.host_experts(),
            _ => None,
        }
    }

    /// Returns the weights of the host, if any.
    fn on_host(&self) -> Option<&Arc<CpuBackend>> {
        match self {
            Backend::Pipeline(pipeline) => pipeline.on_host(),
            _ => self.cpu(),
        }
    }

    /// Returns the first to last GPU layer with experts on the host, and bytes of the experts of GPU layers: on the
    /// host, on the devices.
    pub fn experts(&self, program: &Program, weights: &Weights) -> Result<(Range<usize>, [u64; 2])> {
        let layers = self.host_experts().map_or(0..0, |host| host.layers.clone());
        let on_host = self.host_experts().map_or(Ok(0), HostExperts::bytes)?;
        let n = program.layers.len();
        let on_gpus: usize = self.gpus(n).iter().map(|(_, layers)| layers).sum();
        let (mut on_devices, device) = (0, self.on_gpus().first());
        for layer in (n - on_gpus..n).filter(|layer| !layers.contains(layer)) {
            let experts = placement::expert_weights(program, layer, weights);
            on_devices += device.map_or(Ok(0), |device| device.device().weight_bytes(&experts))?;
        }
        Ok((layers, [on_host, on_devices]))
    }

    /// Returns the minimum rows of a step that copies experts of the host to a device; `None`: never.
    pub fn copied_from(&self) -> Option<usize> {
        self.host_experts().and_then(|host| host.copied_from)
    }

    /// True if the CPU has layers.
    pub fn is_on_cpu(&self) -> bool {
        self.cpu().is_some()
    }

    /// If one device holds every weight of `program`, returns that device and the program renumbered for it; otherwise
    /// `self`.
    pub fn of_program(&self, program: &Arc<Program>) -> Result<(Backend, Arc<Program>)> {
        let Backend::Pipeline(pipeline) = self else { return Ok((self.clone(), program.clone())) };
        let Some((part, own)) = pipeline.on_one(program)? else { return Ok((self.clone(), program.clone())) };
        Ok(match (pipeline.gpu_of(part), pipeline.cpu()) {
            (Some(gpu), _) => (Backend::Gpu(gpu.clone()), own),
            (None, Some(cpu)) => (Backend::Cpu(cpu.clone()), own),
            _ => (self.clone(), program.clone()),
        })
    }

    /// Prepares this model, which is on the CPU, to run `program`, which reads the KV cache of `other`. Returns a copy
    /// on the last device of `other` if this device is a GPU, otherwise this model.
    pub fn copy_for(&self, other: &Backend, program: &Program) -> Result<Backend> {
        match (self, other) {
            (Backend::Cpu(_), Backend::Cpu(_)) => Ok(self.clone()),
            (Backend::Cpu(cpu), other) => {
                let Some(device) = other.on_gpus().last() else {
                    return Err(Error::invalid("the list of devices is empty; it must name a GPU"));
                };
                let (device, program) = (device.device(), other.for_last(program)?);
                let matrices = cpu.sources();
                let weights = cpu.weights(&matrices);
                self_test::check(&device, &program, &weights, None)?;
                Ok(Backend::Gpu(device.load(&program, &weights, &mut |_, _| Ok(()))?))
            }
            _ => Err(Error::unsupported("a model that looks at another one's keys and values, and is not on the CPU")),
        }
    }

    /// Renumbers a program for the part of this model's sequences on the last device.
    fn for_last(&self, program: &Program) -> Result<Arc<Program>> {
        match self {
            Backend::Pipeline(pipeline) => pipeline.for_last(program),
            _ => Ok(Arc::new(program.clone())),
        }
    }

    /// Returns the number in `devices()`, from 1, of the first GPU, otherwise of the CPU.
    pub fn device_number(&self) -> u32 {
        self.on_gpus().first().map_or(CPU_DEVICE, |gpu| number(&**gpu))
    }

    /// Returns the name of the driver of its GPUs; `None` on the CPU.
    pub fn driver(&self) -> Option<&'static str> {
        self.on_gpus().first().map(|gpu| gpu.device().driver())
    }

    /// Returns the bytes on the first GPU of a KV cache and an executor of the model, at most; 0 on the CPU.
    pub fn working_bytes(&self, program: &Program, cache: &SequenceSpec, limits: StepLimits) -> Result<u64> {
        self.on_gpus().first().map_or(Ok(0), |gpu| gpu.device().working_bytes(program, cache, limits))
    }

    /// Returns, per GPU, the device and pinned bytes of the model, caches and executors; in a plan, predicted.
    pub fn taken(&self) -> Vec<[u64; 2]> {
        self.on_gpus().iter().map(|gpu| gpu.taken()).collect()
    }

    /// Returns the name of the instruction set of matrix products on the CPU, if any.
    pub fn isa(&self) -> &'static str {
        self.on_host().map_or("", |cpu| cpu.isa())
    }

    /// Returns the names of the GPUs, otherwise of the CPU.
    pub fn device_names(&self) -> String {
        let names: Vec<String> = match self {
            Backend::Cpu(cpu) => vec![cpu.device().name.clone()],
            _ => self.on_gpus().iter().map(|gpu| gpu.device().info().name.clone()).collect(),
        };
        names.join(" and ")
    }

    /// Returns why the host's packed weights are not in a file although one was requested.
    pub fn unwritten(&self) -> Option<&Error> {
        self.on_host().and_then(|cpu| cpu.packed_file_error())
    }

    /// Returns the weight bytes of GPUs and of the CPU, first the kind of the last layers.
    pub fn weight_bytes(&self) -> impl Iterator<Item = (DeviceKind, u64)> {
        let on_gpus = self.on_gpus().iter().map(|gpu| gpu.weight_bytes()).reduce(|a, b| a + b);
        let on_gpus = on_gpus.map(|bytes| (DeviceKind::Gpu, bytes));
        let on_host = self.on_host().map(|cpu| (DeviceKind::Cpu, cpu.weight_bytes()));
        on_gpus.into_iter().chain(on_host)
    }

    /// Identifies the weights, for saved caches.
    pub fn digest(&self) -> u64 {
        match self {
            Backend::Cpu(cpu) => cpu.digest(),
            Backend::Gpu(gpu) => gpu.digest(),
            Backend::Pipeline(pipeline) => {
                let on_host = pipeline.on_host().map_or(0, |cpu| cpu.digest());
                pipeline.gpus().iter().fold(on_host, |all, part| all.rotate_left(1) ^ part.digest())
            }
        }
    }

    /// Loads the factors of a LoRA adapter to the devices of this model. `host_bytes`: limit of host memory.
    pub fn load_adapter(&self, factors: &Factors, host_bytes: u64) -> Result<Adapter> {
        let on_cpu = |cpu: &CpuBackend, factors: &Factors| {
            cpu.load_adapter(factors.sources, factors.products, host_bytes).map(Arc::new)
        };
        let on_gpu = |gpu: &dyn GpuModel, factors: &Factors| {
            self_test::check_adapter(
                &gpu.device(),
                factors.products.iter().map(|product| {
                    let [a, b] = [product.a, product.b].map(|factor| factors.sources[factor]);
                    let (types, is_head) = ([a.dtype(), b.dtype()], product.target == AdapterTarget::Logits);
                    Factored { types, cols: a.cols(), rank: a.rows(), is_head }
                }),
            )?;
            gpu.load_adapter(factors.sources, factors.products)
        };
        let (mut cpu, mut gpus) = (None, Vec::new());
        match self {
            Backend::Cpu(backend) => cpu = Some(on_cpu(backend, factors)?),
            Backend::Gpu(model) => gpus.push(on_gpu(&**model, factors)?),
            Backend::Pipeline(pipeline) => {
                let parts = usize::from(pipeline.cpu().is_some());
                if let Some(backend) = pipeline.cpu() {
                    cpu = Some(factors.of_part(|target| pipeline.adapter_target(0, target), |f| on_cpu(backend, f))?);
                }
                for (i, model) in pipeline.gpus().iter().enumerate() {
                    let target = |target| pipeline.adapter_target(parts + i, target);
                    gpus.push(factors.of_part(target, |factors| on_gpu(&**model, factors))?);
                }
            }
        }
        Ok(Adapter::new(cpu, gpus, factors.products))
    }

    /// Returns the number of bytes of the host's weights that are vectors.
    pub fn vector_bytes(&self) -> u64 {
        self.on_host().map_or(0, |cpu| cpu.vector_bytes())
    }

    /// Returns the number of bytes of host staging memory during a load.
    pub fn staging_bytes(&self) -> u64 {
        let on_gpus = self.on_gpus().iter().map(|gpu| gpu.staging_bytes());
        on_gpus.chain(self.on_host().map(|cpu| cpu.staging_bytes())).max().unwrap_or(0)
    }

    /// Returns the device number and number of layers of each GPU; `n`: number of all layers.
    pub fn gpus(&self, n: usize) -> Vec<(u32, usize)> {
        let layers = match self {
            Backend::Pipeline(pipeline) => pipeline.gpu_layers().collect(),
            _ => vec![n],
        };
        self.on_gpus().iter().map(|gpu| number(&**gpu)).zip(layers).collect()
    }

    /// Creates an empty sequence.
    pub fn new_sequence(&self, spec: &SequenceSpec) -> Result<Sequence> {
        spec.check()?;
        match self {
            Backend::Cpu(_) => Ok(Sequence::new(spec.clone(), Some(CpuSequence::new(spec)?), Vec::new())),
            Backend::Gpu(gpu) => Ok(Sequence::new(spec.clone(), None, vec![gpu.new_sequence(spec)?])),
            Backend::Pipeline(pipeline) => pipeline.new_sequence(spec),
        }
    }

    /// True if steps can sample by this rule on the device.
    pub fn chooses(&self, rule: &SamplingRule) -> bool {
        self.on_gpus().last().is_some_and(|gpu| gpu.device().chooses(rule))
    }

    /// Returns the number of bytes of host memory of an executor.
    pub fn executor_bytes(&self, program: &Program, limits: StepLimits) -> u64 {
        let of_layers = match self.is_on_cpu() {
            true => limits.max_tokens * program.scratch_width() + limits.max_outputs * program.vocab,
            false => 0,
        };
        let of_experts = self.host_experts().map_or(0, |host| limits.max_tokens * host.program.scratch_width());
        4 * (of_layers + of_experts) as u64
    }

    /// Creates an executor with scratch for `limits`. `program`: the loaded one, or one with the same layers.
    pub fn new_executor(&self, program: &Arc<Program>, limits: StepLimits) -> Result<Executor> {
        let device = match self {
            Backend::Cpu(cpu) => DeviceExecutor::Cpu(Box::new(CpuExecutor::new(cpu.clone(), program, limits)?)),
            Backend::Gpu(gpu) => DeviceExecutor::Gpu(gpu.clone().new_executor(program, limits)?),
            Backend::Pipeline(pipeline) => {
                DeviceExecutor::Pipeline(Box::new(PipelineExecutor::new(pipeline, program, limits)?))
            }
        };
        Ok(Executor::new(program, limits, device))
    }

    /// Creates an executor of a program on the last device of `other`, whose KV cache the program reads. `self` is from
    /// `copy_for`.
    pub fn new_executor_reading(
        &self,
        other: &Backend,
        program: &Arc<Program>,
        limits: StepLimits,
    ) -> Result<Executor> {
        let Backend::Gpu(gpu) = self else { return self.new_executor(program, limits) };
        let own = other.for_last(program)?;
        let device = DeviceExecutor::Gpu(gpu.clone().new_executor(&own, limits)?);
        let mut executor = Executor::new(program, limits, device);
        executor.gpu = other.on_gpus().len().saturating_sub(1);
        Ok(executor)
    }
}

/// Returns the number in `devices()`, from 1.
fn number(gpu: &dyn GpuModel) -> u32 {
    drivers::number(&*gpu.device())
}
