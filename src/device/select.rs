//! Device selection for a load without a named device.
//!
//! Small models stay on the CPU. Otherwise the time of a token is estimated from measured memory bandwidth, once per
//! process and in milliseconds; the GPU's is halved to be safe. Loading the model on both would take seconds and twice
//! the memory.

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

/// Minimum bytes of weights that justify a driver context, which takes a fraction of a second and hundreds of
/// megabytes.
const LEAST_BYTES: u64 = 256 << 20;

/// Overrides, in tests, the minimum and the measured CPU bandwidth in bytes per second.
static ASSUMED: Mutex<Option<(u64, f64)>> = Mutex::new(None);

/// Sets `ASSUMED`; public only for tests with simulated devices.
#[doc(hidden)]
pub fn assume(assumed: Option<(u64, f64)>) {
    *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) = assumed;
}

/// Selects the GPUs on which a token takes less time than on the CPU: one that holds the whole program, otherwise
/// several together; empty: the CPU. Skips a GPU that fails its self-test or any call.
pub fn gpus(
    program: &Program,
    weights: &Weights,
    pool: &Arc<Pool>,
    load: &Load,
    kept: Option<&Kept>,
) -> Vec<Arc<dyn GpuDevice>> {
    let assumed = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner);
    let least = assumed.map_or(LEAST_BYTES, |(least, _)| least);
    // If the host maps the weights, a second copy is not wanted.
    let is_mapped = weights.matrices.iter().any(|matrix| matrix.mapped().is_some());
    if is_mapped || program.vocab == 0 || !weights.bytes().is_ok_and(|bytes| bytes >= least) {
        return Vec::new();
    }
    // Seconds per token on GPUs that hold the whole program and are faster than the CPU.
    let seconds = |devices: &[Arc<dyn GpuDevice>]| -> Result<Option<f64>> {
        let division = partition::divide(devices, program, weights, load, load.options.n_gpu_layers())?;
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
    for number in drivers::automatic() {
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
