//! LoRA adapters on the CPU: their factors, packed like weights.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use twox_hash::XxHash64;

use super::CpuBackend;
use super::load::{self, PackPlan, PlannedMatrix};
use super::memory;
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::error::{Error, Result, try_vec};
use crate::graph::weights::{AdapterTarget, LowRank, MatrixSource};
use crate::os::Pages;

/// The factors of an adapter.
pub struct CpuAdapter {
    packed: Pages,
    bytes: usize,
    matrices: Vec<(WeightMatrix, Range<usize>)>,
    /// Sorted by the product that each is added to.
    products: Vec<LowRank>,
    /// Number that distinguishes adapters of this model with different factors.
    digest: u64,
}

impl CpuBackend {
    /// Packs the factors of an adapter of this model; `host_bytes` limits their size.
    pub fn load_adapter(
        &self,
        sources: &[&dyn MatrixSource],
        products: &[LowRank],
        host_bytes: u64,
    ) -> Result<CpuAdapter> {
        let (planned, bytes) = load::plan_each(sources, |_| false)?;
        if bytes as u64 > host_bytes {
            let (what, needed) = ("the adapter", bytes as u64);
            return Err(Error::Limit { what, needed, left: host_bytes, limit: host_bytes });
        }
        let mut packed = memory::map_huge("the adapter", bytes)?;
        let plan = PackPlan { isa: self.isa, sources, planned: &planned };
        let values = load::pack(&self.pool, plan, &mut packed, &mut |_, _| Ok(()))?;
        let mut hash = XxHash64::with_seed(values);
        let mut matrices = try_vec("the list of factors", planned.len())?;
        for PlannedMatrix { matrix, range } in planned {
            [matrix.dtype().0 as usize, matrix.rows, matrix.cols()].iter().for_each(|n| hash.write_u64(*n as u64));
            matrices.push((matrix, range));
        }
        let mut sorted = try_vec("the list of factors", products.len())?;
        sorted.extend_from_slice(products);
        sorted.sort_by_key(|product| product.target);
        for LowRank { target, a, b, factor } in &sorted {
            target.hash(&mut hash);
            (a, b, factor.to_bits()).hash(&mut hash);
        }
        Ok(CpuAdapter { packed, bytes, matrices, products: sorted, digest: hash.finish() })
    }
}

impl CpuAdapter {
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the low-rank products that are added to a product.
    pub fn for_target(&self, target: AdapterTarget) -> &[LowRank] {
        let start = self.products.partition_point(|product| product.target < target);
        let n = self.products[start..].partition_point(|product| product.target == target);
        &self.products[start..start + n]
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn matrix(&self, i: usize) -> (WeightMatrix, &[u8]) {
        let (matrix, range) = &self.matrices[i];
        (*matrix, &self.packed[range.clone()])
    }
}
