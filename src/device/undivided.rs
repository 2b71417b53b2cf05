//! Loads programs that share their weights and are never divided: all of them are on one GPU, or all on the CPU.

use std::sync::Arc;

use super::backend::{Backend, CPU_DEVICE, check_gpus};
use super::partition::RESERVE;
use super::self_test;
use crate::cpu::fastest::fastest;
use crate::cpu::threads::pool::Pool;
use crate::cpu::{CpuBackend, CpuLoad};
use crate::drivers;
use crate::error::{Error, Result};
use crate::gpu::{GpuModel, Kept};
use crate::graph::load_options::LoadOptions;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::weights::{Progress, Weights};

/// A program, its largest step and the KV cache of that step.
pub struct Workload {
    pub program: Arc<Program>,
    pub limits: StepLimits,
    pub cache: SequenceSpec,
}

/// A load of undivided programs.
pub struct Undivided<'a> {
    /// Programs, at least one.
    pub work: &'a [Workload],
    /// `LoadOptions::device` names the device.
    pub options: &'a LoadOptions<'a>,
    /// Limit of host memory for weights, in bytes.
    pub host_bytes: u64,
    /// Bytes that must stay free on the GPU next to the work; `None`: the caller named the GPU, and memory is not
    /// checked in advance.
    pub leave: Option<u64>,
}

impl Undivided<'_> {
    /// Loads the programs to the GPU, and fails if it has no kernels or no memory for them.
    fn on_gpu(&self, weights: &Weights, progress: &mut Progress) -> Result<Arc<dyn GpuModel>> {
        let gpu = drivers::open(self.options.device, self.options)?;
        for Workload { program, .. } in self.work {
            gpu.supports(program, weights, 0..program.ops.len())?;
        }
        if let Some(leave) = self.leave {
            let mut bytes = gpu.weight_bytes(weights)?.saturating_add(leave);
            for Workload { program, limits, cache } in self.work {
                bytes = bytes.saturating_add(gpu.working_bytes(program, cache, *limits)?);
            }
            if bytes > gpu.info().memory_free.saturating_sub(RESERVE) {
                let (device, what) = (gpu.info().name.clone(), "an encoder next to its model".to_owned());
                return Err(Error::DeviceOutOfMemory { device, what, bytes });
            }
        }
        let kept = self.options.tested_path.map(|path| Kept { path: path.to_owned() });
        for Workload { program, .. } in self.work {
            self_test::check(&gpu, program, weights, kept.as_ref())?;
        }
        gpu.load(&self.work[0].program, weights, progress)
    }
}

impl Backend {
    /// Loads undivided programs. Also returns why they are on the CPU instead of the GPU of `load`: a named GPU lacks
    /// kernels, or a GPU that nobody named failed in any way.
    pub fn load_undivided(
        load: &Undivided,
        weights: &Weights,
        pool: &Arc<Pool>,
        progress: &mut Progress,
    ) -> Result<(Backend, Option<Error>)> {
        load.work.iter().try_for_each(|work| work.program.check(weights))?;
        let on_cpu = |progress: &mut Progress| {
            let programs: Vec<&Program> = load.work.iter().map(|work| &*work.program).collect();
            let options = &LoadOptions { device: CPU_DEVICE, ..*load.options };
            let cpu = CpuLoad { pool, isa: fastest(), options, files: 0, host_bytes: load.host_bytes };
            Ok(Backend::Cpu(Arc::new(CpuBackend::load(cpu, &programs, weights, progress)?)))
        };
        if load.options.device == CPU_DEVICE {
            return Ok((on_cpu(progress)?, None));
        }
        check_gpus(&[load.options.device])?;
        match load.on_gpu(weights, progress) {
            Ok(gpu) => Ok((Backend::Gpu(gpu), None)),
            Err(e @ (Error::Cancelled | Error::Deadline)) => Err(e),
            Err(e) if load.leave.is_some() || matches!(e, Error::Unsupported(_)) => Ok((on_cpu(progress)?, Some(e))),
            Err(e) => Err(e),
        }
    }
}
