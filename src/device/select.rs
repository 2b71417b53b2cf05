//! The devices of a model whose caller has named none.
//!
//! Owns the bound below which a GPU is not even asked, and the estimate of a token's time on both sides. A trial of the
//! model on both would take its weights twice and seconds; instead the rates at which both read memory are measured,
//! once a process and in milliseconds, and the GPU's is counted at half.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cpu;
use crate::cpu::threads::pool::Pool;
use crate::device::load::Load;
use crate::device::partition;
use crate::device::self_test;
use crate::drivers;
use crate::error::Result;
use crate::gpu::{GpuDevice, Kept};
use crate::graph::program::Program;
use crate::graph::weights::Weights;

/// Bytes of weights that are worth the fraction of a second and the hundreds of megabytes that a driver takes for a
/// context.
const LEAST_BYTES: u64 = 256 << 20;

/// Replaces, in tests, the bound and the measured rate of the CPU, in bytes a second.
static ASSUMED: Mutex<Option<(u64, f64)>> = Mutex::new(None);

/// Has choices assume a bound and a rate of the CPU; public for tests alone, whose devices are made up.
#[doc(hidden)]
pub fn assume(assumed: Option<(u64, f64)>) {
    *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) = assumed;
}

/// The GPUs on which a token takes less time than on the CPU: one where the whole program fits one, else several that
/// take it together; none: the CPU. A GPU that fails its self-test or any call is passed over.
pub fn gpus(
    program: &Program,
    weights: &Weights,
    pool: &Arc<Pool>,
    load: &Load,
    kept: Option<&Kept>,
) -> Vec<Arc<dyn GpuDevice>> {
    let assumed = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner);
    let least = assumed.map_or(LEAST_BYTES, |(least, _)| least);
    // A host that has the weights mapped wants no second copy of them.
    let is_mapped = weights.matrices.iter().any(|matrix| matrix.mapped().is_some());
    if is_mapped || program.vocab == 0 || !weights.bytes().is_ok_and(|bytes| bytes >= least) {
        return Vec::new();
    }
    // The time of a token on GPUs that take the whole program and are faster than the CPU.
    let seconds = |devices: &[Arc<dyn GpuDevice>]| -> Result<Option<f64>> {
        let division = partition::divide(devices, program, weights, load, load.options.wanted_gpu_layers())?;
        if division.cpu_layers > 0 {
            return Ok(None);
        }
        let (mut seconds, mut bytes) = (0.0, 0.0);
        for (device, layers) in &division.gpus {
            let (part, weights) = partition::part(program, partition::ops(program, layers), weights)?;
            let (own, (rate, launch)) = (device.weight_bytes(&weights)? as f64, device.rates()?);
            (seconds, bytes) = (seconds + 2.0 * own / rate, bytes + own);
            seconds += device.groups(&part, &weights)?.len() as f64 * launch;
        }
        let rate = assumed.map_or_else(|| cpu::read_rate(pool), |(_, rate)| Ok(rate))?;
        Ok((seconds < bytes / rate).then_some(seconds))
    };
    let (mut best, mut all) = (None, Vec::new());
    for (number, _) in (drivers::FIRST_GPU..).zip(drivers::devices()).filter(|(_, info)| info.unavailable.is_empty()) {
        let Ok(device) = drivers::open(number, load.options) else { continue };
        let one = vec![device];
        if let Ok(Some(seconds)) = seconds(&one)
            && best.as_ref().is_none_or(|(least, _)| seconds < *least)
            && self_test::check(&one[0], program, weights, kept).is_ok()
        {
            best = Some((seconds, one.clone()));
        }
        all.extend(one);
        all.truncate(partition::MAX_GPUS);
    }
    match best {
        Some((_, one)) => one,
        None if all.len() > 1 && matches!(seconds(&all), Ok(Some(_))) => all,
        None => Vec::new(),
    }
}
