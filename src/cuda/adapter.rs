//! LoRA adapters on a GPU: matrices A and B, laid out like weights.

use std::any::Any;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash64;

use super::launch::Context;
use super::weights::{self, DeviceWeights};
use crate::error::{Result, try_vec};
use crate::gpu::{GpuAdapter, wrong_backend};
use crate::graph::weights::{AdapterTarget, LowRank, MatrixSource, Weights};

/// Matrices A and B of an adapter.
pub struct CudaAdapter {
    factors: DeviceWeights,
    /// Sorted by base product, with at most one entry per base product.
    products: Vec<LowRank>,
    number: u64,
    digest: u64,
    rank: usize,
}

impl CudaAdapter {
    /// Uploads matrices A and B of an adapter to a device.
    pub fn new(context: &Arc<Context>, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<CudaAdapter> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let matrices = Weights { matrices: sources.to_vec(), ..Weights::default() };
        let factors = weights::upload(context, &matrices, &mut |_, _| Ok(()))?;
        let mut sorted = try_vec("the list of factors", products.len())?;
        sorted.extend_from_slice(products);
        sorted.sort_by_key(|product: &LowRank| product.target);
        let mut hash = XxHash64::with_seed(factors.digest());
        for LowRank { a, b, factor, .. } in &sorted {
            [*a as u64, *b as u64, factor.to_bits()].iter().for_each(|n| hash.write_u64(*n));
        }
        let rank = products.iter().map(|product| sources[product.a].rows()).max().unwrap_or(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(CudaAdapter { factors, products: sorted, number, digest: hash.finish(), rank })
    }

    /// Downcasts an adapter to the type of this backend.
    pub fn own(adapter: &Arc<dyn GpuAdapter>) -> Result<Arc<CudaAdapter>> {
        let adapter: Arc<dyn Any + Send + Sync> = adapter.clone();
        adapter.downcast().map_err(|_| wrong_backend("an adapter"))
    }

    /// Returns a number that is unique among the adapters of the process.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of rows of the largest A.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn factors(&self) -> &DeviceWeights {
        &self.factors
    }

    /// Returns the adapter's addition to base product `target`.
    pub(super) fn for_target(&self, target: AdapterTarget) -> Option<&LowRank> {
        let found = self.products.binary_search_by_key(&target, |product| product.target);
        found.ok().map(|i| &self.products[i])
    }
}

impl GpuAdapter for CudaAdapter {
    fn digest(&self) -> u64 {
        self.digest
    }
}
