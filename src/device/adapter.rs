//! LoRA adapters on the devices of a model: each part of the layers has the factors of its own matrices.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use crate::cpu::adapter::CpuAdapter;
use crate::error::{Result, try_filled, try_vec};
use crate::gpu::GpuAdapter;
use crate::graph::adapter_set::AdapterSet;
use crate::graph::weights::{AdapterTarget, LowRank, MatrixSource};

pub struct Adapter {
    pub(super) cpu: Option<Arc<CpuAdapter>>,
    /// The parts on GPUs, in layer order.
    pub(super) gpus: Vec<Arc<dyn GpuAdapter>>,
    digest: u64,
    largest_factor: f64,
}

/// The factors of an adapter, and the matrices they apply to.
pub struct Factors<'a> {
    pub sources: &'a [&'a dyn MatrixSource],
    pub products: &'a [LowRank],
}

impl Factors<'_> {
    /// Passes the A and B matrices of one part to `load`; `target` converts a base product's location to the part.
    pub(super) fn of_part<T>(
        &self,
        target: impl Fn(AdapterTarget) -> Option<AdapterTarget>,
        load: impl FnOnce(&Factors) -> Result<T>,
    ) -> Result<T> {
        let mut sources: Vec<&dyn MatrixSource> = try_vec("factors", 2 * self.products.len())?;
        let mut products: Vec<LowRank> = try_vec("factors", self.products.len())?;
        let mut places = try_filled("factors", self.sources.len(), None)?;
        for product in self.products {
            let Some(target) = target(product.target) else { continue };
            let [a, b] = [product.a, product.b].map(|factor| {
                *places[factor].get_or_insert_with(|| {
                    sources.push(self.sources[factor]);
                    sources.len() - 1
                })
            });
            products.push(LowRank { target, a, b, ..*product });
        }
        load(&Factors { sources: &sources, products: &products })
    }
}

impl Adapter {
    /// Combines the parts of an adapter.
    pub(super) fn new(cpu: Option<Arc<CpuAdapter>>, gpus: Vec<Arc<dyn GpuAdapter>>, products: &[LowRank]) -> Adapter {
        let mut hash = XxHash64::with_seed(0);
        cpu.iter().for_each(|cpu| hash.write_u64(cpu.digest()));
        gpus.iter().for_each(|gpu| hash.write_u64(gpu.digest()));
        let largest_factor = products.iter().fold(0.0, |most, product| product.factor.abs().max(most));
        Adapter { cpu, gpus, digest: hash.finish(), largest_factor }
    }

    /// Returns the number of bytes on the host.
    pub fn host_bytes(&self) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.bytes())
    }

    /// Returns the largest absolute scale of a product.
    pub fn largest_factor(&self) -> f64 {
        self.largest_factor
    }
}

impl AdapterSet<Adapter> {
    /// Identifies the set, including its scales and order; 0 if empty.
    pub fn digest(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut hash = XxHash64::with_seed(0);
        for (adapter, factor) in self.iter() {
            hash.write_u64(adapter.digest);
            hash.write_u32(factor.to_bits());
        }
        hash.finish().max(1)
    }

    /// Returns the set for one device; `of` returns that device's part of an adapter.
    pub(super) fn on<A: ?Sized>(&self, of: impl Fn(&Adapter) -> Option<&Arc<A>>) -> AdapterSet<A> {
        let scaled = self.iter().filter_map(|(adapter, factor)| Some((of(adapter)?.clone(), *factor)));
        AdapterSet::new(scaled.collect())
    }
}
