//! A GPU before weights are loaded: supported ops, and the memory that weights, caches and steps need.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use twox_hash::XxHash64;

use super::context::Context;
use super::draws;
use super::inputs::{self, Masks};
use super::kernels::{self, Kernels};
use super::lower::lacking;
use super::memory::{DeviceBuffer, checked_bytes, encoder};
use super::probe::NAME;
use super::scratch::Scratch;
use super::sequence;
use super::weights::{self, DeviceWeights};
use crate::error::{Error, Result};
use crate::gpu::fuse::Fusions;
use crate::gpu::verdict::Verdict;
use crate::gpu::{GpuDevice, GpuModel, weight_layout};
use crate::graph::device_info::DeviceInfo;
use crate::graph::load_options::LoadOptions;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::weights::{Progress, Weights};
use crate::sampling::SamplingRule;
use crate::tensor::DType;

pub struct WgpuDevice {
    pub context: Arc<Context>,
    pub kernels: Arc<Kernels>,
    /// True if results must not depend on the batch.
    pub is_batch_invariant: bool,
}

impl WgpuDevice {
    pub fn open(ordinal: i32, options: &LoadOptions) -> Result<Arc<WgpuDevice>> {
        let context = Context::open(ordinal, options.plan)?;
        let kernels = Arc::new(Kernels::new(&context)?);
        Ok(Arc::new(WgpuDevice { context, kernels, is_batch_invariant: options.deterministic }))
    }

    /// Measures the bandwidth of copies, and the time of an empty submission.
    fn measure_rates(&self) -> Result<(f64, f64)> {
        const WORDS: usize = 4 << 20;
        const COPIES: usize = 4;
        const SUBMISSIONS: u32 = 16;
        let new = || DeviceBuffer::new(&self.context, "a measurement", WORDS);
        let (from, to) = (new()?, new()?);
        let copy = |n: usize| {
            let (from, to) = (from.get()?, to.get()?);
            let index = self.context.in_turn("a measurement", |gpu| {
                let mut encoder = encoder(gpu);
                (0..n).for_each(|_| encoder.copy_buffer_to_buffer(from, 0, to, 0, 4 * WORDS as u64));
                gpu.queue.submit([encoder.finish()])
            })?;
            self.context.wait(&index, &|| false)
        };
        copy(1)?;
        let started = Instant::now();
        copy(COPIES)?;
        let rate = (2 * COPIES * 4 * WORDS) as f64 / started.elapsed().as_secs_f64();
        let started = Instant::now();
        (0..SUBMISSIONS).try_for_each(|_| copy(0).map(|_| ()))?;
        Ok((rate, started.elapsed().as_secs_f64() / f64::from(SUBMISSIONS)))
    }
}

impl GpuDevice for WgpuDevice {
    fn driver(&self) -> &'static str {
        NAME
    }

    fn ordinal(&self) -> i32 {
        self.context.ordinal
    }

    fn info(&self) -> &DeviceInfo {
        &self.context.info
    }

    fn supports(&self, program: &Program, _weights: &Weights, ops: Range<usize>) -> Result<()> {
        match program.ops[ops].iter().find_map(|op| lacking::lacking(program, op)) {
            Some(what) => Err(Error::unsupported(format!("{what} are not supported on this GPU"))),
            None => Ok(()),
        }
    }

    fn weight_bytes(&self, weights: &Weights) -> Result<u64> {
        Ok(weights::Layout::new(weights, self.context.limits.max_storage_buffer_binding_size)?.bytes())
    }

    fn cache_bytes(&self, cache: &SequenceSpec) -> Result<u64> {
        Ok(sequence::Layout::new(cache, self.context.limits.max_storage_buffer_binding_size)?.bytes())
    }

    fn working_bytes(&self, program: &Program, cache: &SequenceSpec, limits: StepLimits) -> Result<u64> {
        let scratch = Scratch::new(program, limits, self.is_batch_invariant)?;
        let buffers =
            [("activations", scratch.words), ("a step's inputs", inputs::words(program, &Masks::new(program), limits))];
        let sizes = buffers.map(|(what, words)| checked_bytes(&self.context, what, words));
        sizes.into_iter().try_fold(self.cache_bytes(cache)?, |sum, bytes| Ok(sum + bytes?))
    }

    fn load(
        self: Arc<Self>,
        program: &Program,
        weights: &Weights,
        progress: &mut Progress,
    ) -> Result<Arc<dyn GpuModel>> {
        self.supports(program, weights, 0..program.ops.len())?;
        let weights = DeviceWeights::upload(&self.context, weights, progress)?;
        Ok(Arc::new(WgpuModel { weights, device: self }))
    }

    fn groups(&self, program: &Program, _weights: &Weights) -> Result<Vec<Vec<usize>>> {
        Ok(Fusions::none(program).groups(program))
    }

    fn stored_type(&self, dtype: DType) -> Result<DType> {
        Ok(weight_layout::stored_format(dtype)?.dtype)
    }

    fn is_deterministic(&self) -> bool {
        self.is_batch_invariant
    }

    fn plans(&self) -> bool {
        self.context.plans()
    }

    fn chooses(&self, rule: &SamplingRule) -> bool {
        draws::supports(rule)
    }

    fn rates(&self) -> Result<(f64, f64)> {
        let known = self.verdict().rates;
        if let Some(known) = known {
            return Ok(known);
        }
        let rates = self.measure_rates().map_err(|error| match error {
            Error::DeviceLost { why, .. } => self.fail(format!("measuring its rates failed: {why}")),
            error => error,
        })?;
        self.verdict().rates = Some(rates);
        Ok(rates)
    }

    fn identity(&self) -> Option<u64> {
        let about = &self.context.about;
        let mut hash = XxHash64::with_seed(u64::from(about.vendor));
        hash.write(&about.device.to_le_bytes());
        for text in [&about.name, &about.driver, &about.driver_info, env!("CARGO_PKG_VERSION")] {
            hash.write(text.as_bytes());
        }
        kernels::hash_sources(&mut hash);
        Some(hash.finish())
    }

    fn verdict(&self) -> MutexGuard<'_, Verdict> {
        self.context.verdict()
    }

    fn optional_kernels(&self) -> Option<&'static str> {
        None
    }
}

/// A GPU with the weights of one model.
pub struct WgpuModel {
    pub weights: DeviceWeights,
    pub device: Arc<WgpuDevice>,
}
