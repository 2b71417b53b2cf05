//! Sums of residual streams with factors per token, and the computation of such factors.

use crate::cpu::kernels::{Isa, elementwise};
use crate::cpu::tensors::{StepTensors, each};
use crate::cpu::threads::pool::Team;
use crate::graph::op::Mix;
use crate::graph::program::MAX_STREAMS;

/// Computes a `Mix`. There are so few streams that scalar code reads their factors.
pub fn mix(team: &Team, isa: Isa, op: &Mix, tensors: &mut StepTensors) {
    let Mix { x, out, width, first, adds, .. } = *op;
    let ([(x, x_width), out], (by, by_width)) = match op.by {
        Some(by) => {
            let [x, out, by] = tensors.disjoint([x, out, by]);
            ([x, out], by)
        }
        None => (tensors.disjoint([x, out]), (&mut [][..], 0)),
    };
    let streams = x_width / width;
    each(team, out, |t, out| {
        let (x, by) = (&x[t * x_width..][..x_width], &by[t * by_width..][..by_width]);
        for (j, out) in out[first..].chunks_exact_mut(width).enumerate() {
            for (k, x) in x.chunks_exact(width).enumerate() {
                let factor = by.get(j * streams + k).copied().unwrap_or(1.0);
                if k == 0 && !adds {
                    out.copy_from_slice(x);
                    elementwise::scale(isa, out, factor);
                } else {
                    elementwise::add_scaled(isa, out, x, factor);
                }
            }
        }
    });
}

/// Computes a row of an `Op::MixByScore`.
pub fn mix_by_score(isa: Isa, x: &[f32], by: &[f32], eps: f32, out: &mut [f32]) {
    // One-pass softmax over the streams: the sum so far is relative to the greatest score so far.
    let (mut peak, mut sum) = (f32::NEG_INFINITY, 0.0);
    for stream in x.chunks_exact(out.len()) {
        let size = elementwise::dot(isa, stream, stream) / out.len() as f32;
        let score = elementwise::dot(isa, stream, by) / (size + eps).sqrt();
        let (before, weight) = match score > peak {
            true => (libm::expf(peak - score), 1.0),
            false => (1.0, libm::expf(score - peak)),
        };
        if sum == 0.0 {
            out.copy_from_slice(stream);
        } else {
            elementwise::scale(isa, out, before);
            elementwise::add_scaled(isa, out, stream, weight);
        }
        (peak, sum) = (peak.max(score), sum * before + weight);
    }
    elementwise::scale(isa, out, 1.0 / sum);
}

/// Computes a row of an `Op::Sinkhorn`.
pub fn sinkhorn(x: &mut [f32], eps: f32, rounds: u32) {
    let n = x.len().isqrt();
    for row in x.chunks_exact_mut(n) {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|x| *x = libm::expf(*x - peak));
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x = *x / sum + eps);
    }
    for round in 0..rounds {
        if round > 0 {
            for row in x.chunks_exact_mut(n) {
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|x| *x /= sum + eps);
            }
        }
        for i in 0..n {
            let sum: f32 = x[i..].iter().step_by(n).sum();
            x[i..].iter_mut().step_by(n).for_each(|x| *x /= sum + eps);
        }
    }
    let mut transposed = [0.0; MAX_STREAMS * MAX_STREAMS];
    for (i, x) in x.iter().enumerate() {
        transposed[i % n * n + i / n] = *x;
    }
    x.copy_from_slice(&transposed[..n * n]);
}
