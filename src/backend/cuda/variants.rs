//! Kernels by the types, rows and widths that they are for.

use super::launch::CudaKernel;
use super::module::{AttendArgs, AttendOneArgs, KernelTable, ProjectArgs};
use crate::quant;
use crate::tensor::DType;

/// Kernels of products with few rows of input.
pub enum Few<'a> {
    /// Those of types without blocks: `gemv.cu`.
    Plain(&'a CudaKernel<ProjectArgs>),
    /// Those of types of blocks, up to each of `BLOCK_ROWS`: `few.cu`.
    Blocks([&'a CudaKernel<ProjectArgs>; 2]),
}

impl KernelTable {
    /// The product of matrices of one type with one row of input.
    pub fn gemv(&self, dtype: DType) -> &CudaKernel<ProjectArgs> {
        match dtype {
            quant::F32 => &self.gemv_f32,
            quant::BF16 => &self.gemv_bf16,
            quant::Q4_0 => &self.gemv_q4_0,
            quant::Q4_1 => &self.gemv_q4_1,
            quant::Q5_0 => &self.gemv_q5_0,
            quant::Q5_1 => &self.gemv_q5_1,
            quant::Q8_0 => &self.gemv_q8_0,
            quant::Q4_K => &self.gemv_q4_k,
            quant::Q5_K => &self.gemv_q5_k,
            quant::Q6_K => &self.gemv_q6_k,
            // What has no kernels was stored as F16.
            _ => &self.gemv_f16,
        }
    }

    /// The products of matrices of one type with few rows of input.
    pub fn few(&self, dtype: DType) -> Few<'_> {
        match dtype {
            quant::F32 => Few::Plain(&self.gemv_f32_rows),
            quant::BF16 => Few::Plain(&self.gemv_bf16_rows),
            quant::Q4_0 => Few::Blocks([&self.few_q4_0_8, &self.few_q4_0_32]),
            quant::Q4_1 => Few::Blocks([&self.few_q4_1_8, &self.few_q4_1_32]),
            quant::Q5_0 => Few::Blocks([&self.few_q5_0_8, &self.few_q5_0_32]),
            quant::Q5_1 => Few::Blocks([&self.few_q5_1_8, &self.few_q5_1_32]),
            quant::Q8_0 => Few::Blocks([&self.few_q8_0_8, &self.few_q8_0_32]),
            quant::Q4_K => Few::Blocks([&self.few_q4_k_8, &self.few_q4_k_32]),
            quant::Q5_K => Few::Blocks([&self.few_q5_k_8, &self.few_q5_k_32]),
            quant::Q6_K => Few::Blocks([&self.few_q6_k_8, &self.few_q6_k_32]),
            _ => Few::Plain(&self.gemv_f16_rows),
        }
    }

    /// Attention: with few tokens of a sequence and with many, whose caches hold F16 and others, by the largest width of heads.
    pub fn attention(&self) -> [(usize, [[&CudaKernel<AttendArgs>; 2]; 2]); 3] {
        let k = self;
        [
            (64, [[&k.attend_64, &k.attend_64_any], [&k.attend_prompt_64, &k.attend_prompt_64_any]]),
            (128, [[&k.attend_128, &k.attend_128_any], [&k.attend_prompt_128, &k.attend_prompt_128_any]]),
            (256, [[&k.attend_256, &k.attend_256_any], [&k.attend_prompt_256, &k.attend_prompt_256_any]]),
        ]
    }

    /// Attention of a step's only token with what is done to its heads before, whose caches hold F16 and others, by the largest
    /// width of heads.
    pub fn attention_of_one(&self) -> [(usize, [&CudaKernel<AttendOneArgs>; 2]); 3] {
        let k = self;
        [
            (64, [&k.attend_64_one, &k.attend_64_one_any]),
            (128, [&k.attend_128_one, &k.attend_128_one_any]),
            (256, [&k.attend_256_one, &k.attend_256_one_any]),
        ]
    }

    /// Kernels whose shared memory grows with the width of a model.
    pub fn products(&self) -> impl Iterator<Item = &CudaKernel<ProjectArgs>> {
        let types = [quant::F32, quant::F16, quant::BF16, quant::Q4_0, quant::Q4_1, quant::Q5_0, quant::Q5_1];
        let types = types.into_iter().chain([quant::Q8_0, quant::Q4_K, quant::Q5_K, quant::Q6_K]);
        let tiles = [&self.gemm_16, &self.gemm_64, &self.gemm_256];
        types.map(|dtype| self.gemv(dtype)).chain([&self.gemv_mixed]).chain(tiles).chain(&self.wgmma_256)
    }
}
