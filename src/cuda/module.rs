//! The kernels of `kernels/` by name, and the parameter of each, a struct of `args`.

use super::args::*;
use super::launch::{CudaKernel, Current, Module};
use crate::error::Result;

// `IMAGE`, the kernel image from the build script, or the reason why there is none; and `COMPILER`, its `CUDA_VERSION`.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

macro_rules! kernels {
    ($($name:ident: $args:ident),*; $($some:ident: $some_args:ident),* $(,)?) => {
        /// Every kernel by its name in the image; some kernels exist only for some architectures.
        pub struct KernelTable {
            $(pub $name: CudaKernel<$args>,)*
            $(pub $some: Option<CudaKernel<$some_args>>,)*
            _module: Module,
        }

        impl KernelTable {
            pub fn load(current: &Current, image: &'static [u8]) -> Result<KernelTable> {
                let module = current.module(image)?;
                let named = |name: &'static str| {
                    std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
                };
                Ok(KernelTable {
                    $($name: current.kernel(&module, named(concat!(stringify!($name), "\0")))?,)*
                    $($some: current.kernel_if_any(&module, named(concat!(stringify!($some), "\0")))?,)*
                    _module: module,
                })
            }

            /// Name and parameter size of each kernel.
            pub const PARAMETERS: &[(&str, usize)] =
                &[$((stringify!($name), size_of::<$args>()),)* $((stringify!($some), size_of::<$some_args>())),*];
        }
    };
}

kernels! {
    embed: EmbedArgs,
    ngrams: NgramArgs,
    keep_rows: KeepRowsArgs,
    add_norm: NormArgs,
    prepare: PrepareArgs,
    gemv_f32: ProjectArgs,
    gemv_f32_2: ProjectArgs,
    gemv_f32_rows: ProjectArgs,
    gemv_f16: ProjectArgs,
    gemv_f16_2: ProjectArgs,
    gemv_f16_rows: ProjectArgs,
    gemv_bf16: ProjectArgs,
    gemv_bf16_2: ProjectArgs,
    gemv_bf16_rows: ProjectArgs,
    gemv_q4_0: ProjectArgs,
    gemv_q4_0_2: ProjectArgs,
    gemv_q4_1: ProjectArgs,
    gemv_q4_1_2: ProjectArgs,
    gemv_q5_0: ProjectArgs,
    gemv_q5_0_2: ProjectArgs,
    gemv_q5_1: ProjectArgs,
    gemv_q5_1_2: ProjectArgs,
    gemv_q8_0: ProjectArgs,
    gemv_q8_0_2: ProjectArgs,
    gemv_q4_k: ProjectArgs,
    gemv_q4_k_2: ProjectArgs,
    gemv_q5_k: ProjectArgs,
    gemv_q5_k_2: ProjectArgs,
    gemv_q6_k: ProjectArgs,
    gemv_q6_k_2: ProjectArgs,
    gemv_mixed: ProjectArgs,
    gemv_mixed_2: ProjectArgs,
    ring_q4_0: ProjectArgs,
    ring_q4_1: ProjectArgs,
    ring_q5_0: ProjectArgs,
    ring_q5_1: ProjectArgs,
    ring_q8_0: ProjectArgs,
    ring_q4_k: ProjectArgs,
    ring_q5_k: ProjectArgs,
    ring_q6_k: ProjectArgs,
    ring_mixed: ProjectArgs,
    sum_picks_f32: SumPicksArgs,
    sum_picks_f16: SumPicksArgs,
    sum_picks_bf16: SumPicksArgs,
    sum_picks_q4_0: SumPicksArgs,
    sum_picks_q4_1: SumPicksArgs,
    sum_picks_q5_0: SumPicksArgs,
    sum_picks_q5_1: SumPicksArgs,
    sum_picks_q8_0: SumPicksArgs,
    sum_picks_q4_k: SumPicksArgs,
    sum_picks_q5_k: SumPicksArgs,
    sum_picks_q6_k: SumPicksArgs,
    to_halves: HalvesArgs,
    to_halves_any: HalvesArgs,
    to_halves_wide: HalvesArgs,
    small_batch_16: ProjectArgs,
    small_batch_32: ProjectArgs,
    small_batch_64: ProjectArgs,
    gemm_256: ProjectArgs,
    heads: HeadsArgs,
    attend_64: AttendArgs,
    attend_64_any: AttendArgs,
    attend_128: AttendArgs,
    attend_128_any: AttendArgs,
    attend_256: AttendArgs,
    attend_256_any: AttendArgs,
    attend_prompt_64: AttendArgs,
    attend_prompt_64_any: AttendArgs,
    attend_prompt_128: AttendArgs,
    attend_prompt_128_any: AttendArgs,
    attend_prompt_256: AttendArgs,
    attend_prompt_256_any: AttendArgs,
    attend_64_single: AttendSingleArgs,
    attend_64_single_any: AttendSingleArgs,
    attend_128_single: AttendSingleArgs,
    attend_128_single_any: AttendSingleArgs,
    attend_256_single: AttendSingleArgs,
    attend_256_single_any: AttendSingleArgs,
    attend_wide: AttendArgs,
    attend_wide_any: AttendArgs,
    attend_among: AttendArgs,
    choose_keys: SelectArgs,
    glu: GluArgs,
    modify: ModifyArgs,
    join: JoinArgs,
    project_heads: ProjectHeadsArgs,
    adapt: AdaptArgs,
    hadamard_heads: HadamardArgs,
    mix: MixArgs,
    rescale: RescaleArgs,
    mix_by_score: MixByScoreArgs,
    sinkhorn: SinkhornArgs,
    dot: DotArgs,
    route: RouteArgs,
    group: GroupArgs,
    expert_glu: ExpertGluArgs,
    order_inputs: OrderArgs,
    combine: CombineArgs,
    pool: PoolArgs,
    conv_4: ConvArgs,
    conv_16: ConvArgs,
    delta_64: DeltaArgs,
    delta_128: DeltaArgs,
    delta_256: DeltaArgs,
    scan_16: ScanArgs,
    scan_128: ScanArgs,
    scan_256: ScanArgs,
    wkv_64: WkvArgs,
    wkv_128: WkvArgs,
    wkv_256: WkvArgs,
    delta_chunks_128: DeltaArgs,
    delta_chunks_256: DeltaArgs,
    scan_chunks_128: ScanArgs,
    scan_chunks_256: ScanArgs,
    adjust: ChooseArgs,
    argmax: ChooseArgs,
    weigh: ChooseArgs,
    keep: ChooseArgs;
    wgmma_32: ProjectArgs,
    wgmma_64: ProjectArgs,
    wgmma_256: ProjectArgs,
    gemm_int8: ProjectArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_lies_as_compilers_align_it() {
        assert!(IMAGE.is_err() || (IMAGE.unwrap().as_ptr().addr().is_multiple_of(8) && COMPILER >= 12_000));
    }
}
