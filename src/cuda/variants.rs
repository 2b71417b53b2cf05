//! Kernels by type, number of rows and width.

use super::args::{AttendArgs, AttendSingleArgs, ProjectArgs, SumPicksArgs};
use super::launch::CudaKernel;
use super::module::KernelTable;
use crate::quant;
use crate::tensor::DType;

/// A kernel that reads KV caches.
pub struct ByCache<'a, Args> {
    /// For caches that hold only F16; with few tokens, also only for attention without a softcap and without biases.
    plain: &'a CudaKernel<Args>,
    any: &'a CudaKernel<Args>,
}

impl<'a, Args> ByCache<'a, Args> {
    /// Returns the kernel for the plain case, or the general one.
    pub fn of(&self, is_plain: bool) -> &'a CudaKernel<Args> {
        if is_plain { self.plain } else { self.any }
    }

    pub fn all(&self) -> [&'a CudaKernel<Args>; 2] {
        [self.plain, self.any]
    }
}

/// The attention kernels for heads of one width.
pub struct AttentionKernels<'a> {
    /// Maximum number of dimensions of a key or value.
    pub dim: usize,
    /// For few tokens of a sequence.
    pub few_tokens: ByCache<'a, AttendArgs>,
    /// For many tokens, as in prompts.
    pub many_tokens: ByCache<'a, AttendArgs>,
}

impl KernelTable {
    /// Returns the GEMV kernels of one matrix type, for one and for two input rows, which each block prepares itself.
    pub fn gemv(&self, dtype: DType) -> [&CudaKernel<ProjectArgs>; 2] {
        match dtype {
            quant::F32 => [&self.gemv_f32, &self.gemv_f32_2],
            quant::BF16 => [&self.gemv_bf16, &self.gemv_bf16_2],
            quant::Q4_0 => [&self.gemv_q4_0, &self.gemv_q4_0_2],
            quant::Q4_1 => [&self.gemv_q4_1, &self.gemv_q4_1_2],
            quant::Q5_0 => [&self.gemv_q5_0, &self.gemv_q5_0_2],
            quant::Q5_1 => [&self.gemv_q5_1, &self.gemv_q5_1_2],
            quant::Q8_0 => [&self.gemv_q8_0, &self.gemv_q8_0_2],
            quant::Q4_K => [&self.gemv_q4_k, &self.gemv_q4_k_2],
            quant::Q5_K => [&self.gemv_q5_k, &self.gemv_q5_k_2],
            quant::Q6_K => [&self.gemv_q6_k, &self.gemv_q6_k_2],
            // Types without kernels were stored as F16.
            _ => [&self.gemv_f16, &self.gemv_f16_2],
        }
    }

    /// Returns the kernel that multiplies the last matrices of a token's experts, of one type, and adds the results.
    pub fn sum_picks(&self, dtype: DType) -> &CudaKernel<SumPicksArgs> {
        match dtype {
            quant::F32 => &self.sum_picks_f32,
            quant::BF16 => &self.sum_picks_bf16,
            quant::Q4_0 => &self.sum_picks_q4_0,
            quant::Q4_1 => &self.sum_picks_q4_1,
            quant::Q5_0 => &self.sum_picks_q5_0,
            quant::Q5_1 => &self.sum_picks_q5_1,
            quant::Q8_0 => &self.sum_picks_q8_0,
            quant::Q4_K => &self.sum_picks_q4_k,
            quant::Q5_K => &self.sum_picks_q5_k,
            quant::Q6_K => &self.sum_picks_q6_k,
            _ => &self.sum_picks_f16,
        }
    }

    /// Returns the GEMV kernel for one input row whose weights, of some block types, go through rings in shared memory.
    pub fn ring(&self, mut dtypes: impl Iterator<Item = DType>) -> Option<&CudaKernel<ProjectArgs>> {
        let first = dtypes.next()?;
        if let Some(other) = dtypes.find(|dtype| *dtype != first) {
            let is_read = |dtype| [quant::Q8_0, quant::Q4_K, quant::Q5_K, quant::Q6_K].contains(&dtype);
            return [first, other].into_iter().chain(dtypes).all(is_read).then_some(&self.ring_mixed);
        }
        Some(match first {
            quant::Q4_0 => &self.ring_q4_0,
            quant::Q4_1 => &self.ring_q4_1,
            quant::Q5_0 => &self.ring_q5_0,
            quant::Q5_1 => &self.ring_q5_1,
            quant::Q8_0 => &self.ring_q8_0,
            quant::Q4_K => &self.ring_q4_k,
            quant::Q5_K => &self.ring_q5_k,
            quant::Q6_K => &self.ring_q6_k,
            _ => return None,
        })
    }

    /// Returns the GEMV kernel of one non-block matrix type for few input rows; `None` for block types.
    pub fn gemv_rows(&self, dtype: DType) -> Option<&CudaKernel<ProjectArgs>> {
        match dtype {
            quant::F32 => Some(&self.gemv_f32_rows),
            quant::F16 => Some(&self.gemv_f16_rows),
            quant::BF16 => Some(&self.gemv_bf16_rows),
            _ => None,
        }
    }

    /// Returns the attention kernels, those for narrow heads first.
    pub fn attention(&self) -> [AttentionKernels<'_>; 3] {
        let k = self;
        let kernels = |dim, few, few_any, many, many_any| AttentionKernels {
            dim,
            few_tokens: ByCache { plain: few, any: few_any },
            many_tokens: ByCache { plain: many, any: many_any },
        };
        [
            kernels(64, &k.attend_64, &k.attend_64_any, &k.attend_prompt_64, &k.attend_prompt_64_any),
            kernels(128, &k.attend_128, &k.attend_128_any, &k.attend_prompt_128, &k.attend_prompt_128_any),
            kernels(256, &k.attend_256, &k.attend_256_any, &k.attend_prompt_256, &k.attend_prompt_256_any),
        ]
    }

    /// Returns the fused kernels of head ops and attention for steps with one token per sequence, by maximum head
    /// width.
    pub fn attention_single(&self) -> [(usize, ByCache<'_, AttendSingleArgs>); 3] {
        let k = self;
        [
            (64, ByCache { plain: &k.attend_64_single, any: &k.attend_64_single_any }),
            (128, ByCache { plain: &k.attend_128_single, any: &k.attend_128_single_any }),
            (256, ByCache { plain: &k.attend_256_single, any: &k.attend_256_single_any }),
        ]
    }

    /// Returns the kernels whose shared memory grows with the width of a model's experts.
    pub fn sums_of_picks(&self) -> impl Iterator<Item = &CudaKernel<SumPicksArgs>> {
        types().map(|dtype| self.sum_picks(dtype))
    }

    /// Returns the kernels whose shared memory grows with the width of a model.
    pub fn products(&self) -> impl Iterator<Item = &CudaKernel<ProjectArgs>> {
        let types = types();
        let tiles = [&self.small_batch_16, &self.small_batch_32, &self.small_batch_64, &self.gemm_256];
        let optional = [&self.wgmma_32, &self.wgmma_64, &self.wgmma_256, &self.gemm_int8].into_iter().flatten();
        let mixed = [&self.gemv_mixed, &self.gemv_mixed_2, &self.ring_mixed];
        let one_row = types.clone().filter_map(|dtype| self.ring([dtype].into_iter()));
        types.flat_map(|dtype| self.gemv(dtype)).chain(one_row).chain(mixed).chain(tiles).chain(optional)
    }
}

/// The types of matrices that have kernels.
fn types() -> impl Iterator<Item = DType> + Clone {
    let types = [quant::F32, quant::F16, quant::BF16, quant::Q4_0, quant::Q4_1, quant::Q5_0, quant::Q5_1];
    types.into_iter().chain([quant::Q8_0, quant::Q4_K, quant::Q5_K, quant::Q6_K])
}
