//! The norms of rows, group by group.

use crate::cpu::CpuBackend;
use crate::cpu::kernels::{Isa, elementwise};
use crate::graph::op::{Norm, NormKind};

/// A norm with its vectors.
pub struct WeightedNorm<'a> {
    isa: Isa,
    norm: Norm,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
}

impl<'a> WeightedNorm<'a> {
    pub fn new(backend: &'a CpuBackend, norm: &Norm) -> Self {
        let [weight, bias] = [norm.weight, norm.bias].map(|v| v.map(|v| backend.vector(v)));
        WeightedNorm { isa: backend.isa, norm: *norm, weight, bias }
    }

    /// Normalizes each group of a row.
    pub fn apply(&self, row: &mut [f32]) {
        let group = self.norm.group;
        for (i, x) in row.chunks_exact_mut(group).enumerate() {
            // The same vector for all groups, or each group's part.
            let of_group = |v: &'a [f32]| if v.len() == group { v } else { &v[i * group..][..group] };
            let (weight, bias) = (self.weight.map(of_group), self.bias.map(of_group));
            match self.norm.kind {
                NormKind::Rms => elementwise::rms_norm(self.isa, x, weight, self.norm.eps),
                NormKind::Layer => elementwise::layer_norm(self.isa, x, weight, self.norm.eps),
            }
            if let Some(bias) = bias {
                elementwise::add_scaled(self.isa, x, bias, 1.0);
            }
        }
    }
}
