//! Metrics: counters of the work that a model has done.

use crate::engine::metrics::{Phase, Snapshot};
use crate::engine::{DeviceKind, Part};
use crate::error::Error;

use super::device::{RZ_DEVICE_CPU, RZ_DEVICE_GPU};
use super::guard::{guarded, guarded_or};
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};

/// Work of one kind of device since the model was loaded or rz_metrics_reset was called. A dispatch is one pass of one
/// or many tokens through the layers on the device; if layers are split between devices, each device counts its own
/// part. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_backend_metrics {
    /// sizeof(rz_backend_metrics), set by the caller.
    pub struct_size: u32,
    /// RZ_DEVICE_..., as requested.
    pub device_kind: u32,
    /// Number of dispatches; if 0, all values below are 0.
    pub dispatches: u64,
    /// Bytes read and written by dispatches.
    pub bytes: u64,
    /// Total latency in nanoseconds.
    pub latency_sum_ns: u64,
    /// Minimum latency in nanoseconds.
    pub latency_min_ns: u64,
    /// Maximum latency in nanoseconds.
    pub latency_max_ns: u64,
    /// Mean latency in nanoseconds.
    pub latency_mean_ns: f64,
    /// Variance of the latency in square nanoseconds.
    pub latency_variance_ns2: f64,
    /// Entry 0 counts latencies under 1 microsecond, entry i counts latencies from 2^(i-1) to below 2^i microseconds,
    /// and the last entry counts all longer latencies.
    pub latency_histogram: [u64; 32],
}

/// Number and duration of the calls of one kind. The layout of this struct never changes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_phase_metrics {
    /// Number of calls.
    pub count: u64,
    /// Total time in nanoseconds.
    pub sum_ns: u64,
}

/// Phases of a model's work since it was loaded or rz_metrics_reset was called. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_metrics {
    /// sizeof(rz_metrics), set by the caller.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Load.
    pub load: rz_phase_metrics,
    /// Tokenization.
    pub tokenize: rz_phase_metrics,
    /// Prefill.
    pub prefill: rz_phase_metrics,
    /// Decode: one token at a time, including sampling of the next one.
    pub decode: rz_phase_metrics,
    /// Sampling.
    pub sample: rz_phase_metrics,
    /// Detokenization.
    pub detokenize: rz_phase_metrics,
    /// Matrix products of layers on the GPU, with adjacent norms and sums; only counted with RZ_MODEL_PROFILE, like all
    /// fields whose names begin with gpu_.
    pub gpu_products: rz_phase_metrics,
    /// Rotary positions, KV cache and attention.
    pub gpu_attention: rz_phase_metrics,
    /// Routing, and experts.
    pub gpu_experts: rz_phase_metrics,
    /// Logits and the most likely token.
    pub gpu_head: rz_phase_metrics,
    /// Embeddings, and separate norms, sums and gates.
    pub gpu_other: rz_phase_metrics,
    /// Encoding of images, from their pixels to the rows of a media item. A media item created with RZ_ENCODE_STEPS
    /// counts once its encoding is done.
    pub encode: rz_phase_metrics,
}

/// Reads the phase counters of a model. The caller sets `out->struct_size`. Counting continues during the call, so the
/// numbers may or may not include a call in progress. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_metrics_get(model: *const rz_model, out: *mut rz_metrics, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out_struct(out)?;
        let counted = model.0.metrics().snapshot();
        out.set(rz_metrics {
            struct_size: 0,
            reserved: 0,
            load: phase(&counted, Phase::Load),
            tokenize: phase(&counted, Phase::Tokenize),
            prefill: phase(&counted, Phase::Prefill),
            decode: phase(&counted, Phase::Decode),
            sample: phase(&counted, Phase::Sample),
            detokenize: phase(&counted, Phase::Detokenize),
            gpu_products: part(&counted, Part::Products),
            gpu_attention: part(&counted, Part::Attention),
            gpu_experts: part(&counted, Part::Experts),
            gpu_head: part(&counted, Part::Head),
            gpu_other: part(&counted, Part::Other),
            encode: phase(&counted, Phase::Encode),
        });
        Ok(RZ_OK)
    })
}

/// Reads the counters of one kind of device, RZ_DEVICE_CPU or RZ_DEVICE_GPU. The caller sets `out->struct_size`. Any
/// thread. Errors: RZ_ERR_INVALID_ARGUMENT for an unknown kind. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_backend_metrics_get(
    model: *const rz_model,
    device_kind: u32,
    out: *mut rz_backend_metrics,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let kind = match device_kind {
            RZ_DEVICE_CPU => DeviceKind::Cpu,
            RZ_DEVICE_GPU => DeviceKind::Gpu,
            other => {
                return Err(Error::invalid(format!(
                    "device_kind is {other}; it must be RZ_DEVICE_CPU or RZ_DEVICE_GPU"
                )));
            }
        };
        let out = call.out_struct(out)?;
        let snapshot = model.0.metrics().snapshot();
        let counted = snapshot.backend(kind);
        out.set(rz_backend_metrics {
            struct_size: 0,
            device_kind,
            dispatches: counted.count,
            bytes: counted.bytes,
            latency_sum_ns: counted.sum_ns,
            latency_min_ns: counted.min_ns,
            latency_max_ns: counted.max_ns,
            latency_mean_ns: if counted.count == 0 { 0.0 } else { counted.sum_ns as f64 / counted.count as f64 },
            latency_variance_ns2: counted.variance_ns2,
            latency_histogram: counted.histogram,
        });
        Ok(RZ_OK)
    })
}

/// Sets the counters of a model to zero. NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_metrics_reset(model: *const rz_model) {
    guarded_or!((), |call| {
        if let Some(model) = call.optional(model)? {
            model.0.metrics().reset();
        }
        Ok(())
    })
}

fn phase(counted: &Snapshot, phase: Phase) -> rz_phase_metrics {
    let phase = counted.phase(phase);
    rz_phase_metrics { count: phase.count, sum_ns: phase.sum_ns }
}

fn part(counted: &Snapshot, part: Part) -> rz_phase_metrics {
    let part = counted.part(part);
    rz_phase_metrics { count: part.count, sum_ns: part.sum_ns }
}
