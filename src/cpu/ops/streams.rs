//! Sums of residual streams, each times a factor of the token's.

use crate::cpu::kernels::{Isa, elementwise};
use crate::cpu::tensors::{StepTensors, each};
use crate::cpu::threads::pool::Team;
use crate::graph::op::Mix;

/// Computes a `Mix`. Streams are few enough that their factors are read one by one.
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
