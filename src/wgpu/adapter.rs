//! LoRA adapters on a GPU: matrices A and B, laid out like weights.

use std::any::Any;
use std::hash::Hasher;
use std::sync::Arc;

use ::wgpu::BindGroup;
use twox_hash::XxHash64;

use super::context::{Context, Held};
use super::weights::DeviceWeights;
use crate::error::{Result, try_vec};
use crate::gpu::{GpuAdapter, wrong_backend};
use crate::graph::weights::{AdapterTarget, LowRank, MatrixSource, Weights};

/// Matrices A and B of an adapter.
pub struct WgpuAdapter {
    pub factors: DeviceWeights,
    /// Sorted by the number of the model's matrix product that an entry changes; at most one entry per product.
    products: Vec<LowRank>,
    digest: u64,
}

/// An adapter in a step.
pub struct StepAdapter {
    pub adapter: Arc<WgpuAdapter>,
    /// Bind group of each buffer of the adapter's matrices.
    pub groups: Vec<Held<BindGroup>>,
    /// Index of the first bind group in the list of the step.
    pub first: usize,
}

impl WgpuAdapter {
    /// Uploads matrices A and B of an adapter.
    pub fn new(context: &Arc<Context>, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<WgpuAdapter> {
        let matrices = Weights { matrices: sources.to_vec(), ..Weights::default() };
        let factors = DeviceWeights::upload(context, &matrices, &mut |_, _| Ok(()))?;
        let mut sorted = try_vec("the list of factors", products.len())?;
        sorted.extend_from_slice(products);
        sorted.sort_by_key(|product: &LowRank| product.target);
        let mut hash = XxHash64::with_seed(factors.digest());
        for LowRank { a, b, factor, .. } in &sorted {
            [*a as u64, *b as u64, factor.to_bits()].iter().for_each(|n| hash.write_u64(*n));
        }
        Ok(WgpuAdapter { factors, products: sorted, digest: hash.finish() })
    }

    /// Downcasts an adapter to the type of this backend.
    pub fn own(adapter: &Arc<dyn GpuAdapter>) -> Result<Arc<WgpuAdapter>> {
        let adapter: Arc<dyn Any + Send + Sync> = adapter.clone();
        adapter.downcast().map_err(|_| wrong_backend("an adapter"))
    }

    /// Returns the adapter's addition to base product `target`.
    pub fn for_target(&self, target: AdapterTarget) -> Option<&LowRank> {
        let found = self.products.binary_search_by_key(&target, |product| product.target);
        found.ok().map(|i| &self.products[i])
    }
}

impl GpuAdapter for WgpuAdapter {
    fn digest(&self) -> u64 {
        self.digest
    }
}
