//! The device of a model whose caller has named none.
//!
//! Owns the bound below which a GPU is not even asked, and the estimate of a token's time on both sides. A trial of the model
//! on both would take its weights twice and seconds; instead the rates at which both read memory are measured, once a process
//! and in milliseconds, and the GPU's is counted at half. Refuses to know how a model is loaded.

use std::sync::{Arc, Mutex, PoisonError};

use super::batch::StepLimits;
use super::cpu;
use super::cpu::pool::Pool;
use super::cuda::{self, CudaDevice, Uses};
use super::program::Program;
use super::self_test;
use super::split;
use super::state_spec::StateSpec;
use super::weights::Weights;
use crate::error::Result;

/// Bytes of weights that are worth the fraction of a second and the hundreds of megabytes that a driver takes for a context.
const LEAST_BYTES: u64 = 256 << 20;

/// Replaces, in tests, the bound and the measured rate of the CPU, in bytes a second.
static ASSUMED: Mutex<Option<(u64, f64)>> = Mutex::new(None);

/// Has choices assume a bound and a rate of the CPU.
pub fn assume(assumed: Option<(u64, f64)>) {
    *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) = assumed;
}

/// The GPU, and its number among those of the driver, on which a token takes less time than on the CPU; `None`: the CPU. A GPU
/// that cannot take the whole program, lacks the room, fails its self-test or any call is passed over.
pub fn gpu(
    program: &Program,
    weights: &Weights,
    pool: &Arc<Pool>,
    uses: Uses,
    cache: &StateSpec,
    limits: StepLimits,
) -> Option<(i32, Arc<CudaDevice>)> {
    let assumed = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner);
    let least = assumed.map_or(LEAST_BYTES, |(least, _)| least);
    // A host that has the weights mapped wants no second copy of them.
    let is_mapped = weights.matrices.iter().any(|matrix| matrix.mapped().is_some());
    if is_mapped || program.vocab == 0 || weights.bytes().ok()? < least {
        return None;
    }
    let mut best: Option<(f64, i32, Arc<CudaDevice>)> = None;
    for (ordinal, _) in (0..).zip(cuda::devices()).filter(|(_, info)| info.unavailable.is_empty()) {
        let estimate = || -> Result<Option<_>> {
            let device = cuda::open(ordinal, uses)?;
            if split::cpu_layers(&device, program, weights, None, cache, limits)? > 0 {
                return Ok(None);
            }
            self_test::check(&device, program, weights)?;
            let bytes = device.weight_bytes(weights)? as f64;
            let (rate, launch) = device.rates()?;
            let launches = device.groups(program, weights)?.len() as f64;
            Ok(Some((2.0 * bytes / rate + launches * launch, bytes, device)))
        };
        let Ok(Some((seconds, bytes, device))) = estimate() else { continue };
        let rate = match assumed {
            Some((_, rate)) => rate,
            None => cpu::read_rate(pool).ok()?,
        };
        if best.as_ref().is_none_or(|(least, ..)| seconds < *least) && seconds < bytes / rate {
            best = Some((seconds, ordinal, device));
        }
    }
    best.map(|(_, ordinal, device)| (ordinal, device))
}
