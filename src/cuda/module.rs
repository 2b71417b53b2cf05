//! The kernels of `kernels/` by name, and the parameter of each: the mirror of `kernels/args.cuh`.
//!
//! Structs have the names, the order of fields and the sizes of the C++ ones; both sides assert the size.

use super::launch::{CudaKernel, Current, Module};
use super::probe::Address;
use crate::error::Result;
use crate::tensor::DType;

// `IMAGE`, the image that the build script made, or why there is none; and `COMPILER`, the `CUDA_VERSION` that made it.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A matrix in device memory; `weights` lays its planes out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMatrix {
    pub planes: [Address; 4],
    pub dtype: u32,
    pub rows: u32,
    /// A multiple of 32; columns after the model's own are zero.
    pub cols: u32,
    /// A power of two that scales of blocks are multiplied by to become normal numbers of binary16: `planes::factor`.
    pub factor: f32,
}

impl DeviceMatrix {
    pub fn dtype(&self) -> DType {
        DType(self.dtype)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceNorm {
    pub weight: Address,
    pub bias: Address,
    pub eps: f32,
    /// 0: none, 1: root mean square, 2: layer.
    pub kind: u32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceKv {
    pub k: Address,
    pub v: Address,
    pub k_scales: Address,
    pub v_scales: Address,
    /// Recurrent states ahead of the step, 0 where all are zeros, and after it.
    pub from: Address,
    pub to: Address,
    pub capacity: u32,
    /// Positions that a layer with a window keeps.
    pub ring: u32,
    pub k_type: u32,
    pub v_type: u32,
}

/// Values a position of the layers before one.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValuesBefore {
    /// Values of the layers that keep all positions.
    pub whole: u32,
    /// Values of the layers that keep a ring of the newest positions.
    pub rings: u32,
}

/// The place of a layer in a cache, counted in values a position, so that a recorded launch serves caches of every
/// capacity.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvPlace {
    pub k: ValuesBefore,
    pub v: ValuesBefore,
    pub k_stride: u32,
    pub v_stride: u32,
    pub is_ring: u32,
    /// Values are the first numbers of their keys, whose place `v` repeats.
    pub is_latent: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceTile {
    pub first: u32,
    pub count: u32,
    pub slot: u32,
    pub last: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StepArgs {
    pub ids: Address,
    pub positions: Address,
    pub slots: Address,
    pub outputs: Address,
    pub tiles: Address,
    pub kvs: Address,
    pub n: u32,
    pub n_outputs: u32,
    pub n_tiles: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct EmbedArgs {
    pub table: DeviceMatrix,
    pub rows: Address,
    pub following: Address,
    pub x: Address,
    pub width: u32,
    pub accumulate: u32,
    pub scale: f32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeepRowsArgs {
    pub from: [Address; 2],
    pub to: [Address; 2],
    pub rows: Address,
    pub widths: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct NormArgs {
    pub norm: DeviceNorm,
    pub x: Address,
    pub delta: Address,
    pub out: Address,
    pub group: u32,
    pub own: u32,
    pub scale: f32,
    pub of_delta: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub w: DeviceMatrix,
    pub out: Address,
    pub bias: Address,
}

/// Operation on the result of a product: `Epilogue` of `args.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Epilogue {
    Store = 0,
    Add = 1,
    Glu = 2,
    Cap = 3,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectArgs {
    pub segments: [Segment; 4],
    pub n_segments: u32,
    pub cols: u32,
    pub epilogue: u32,
    pub activation: u32,
    pub scale: f32,
    pub softcap: f32,
    pub n: u32,
    pub forms: u32,
    pub x: Address,
    pub x_stride: u32,
    pub x_divisor: u32,
    pub experts: Address,
    pub norm: DeviceNorm,
    pub prepared: Address,
    pub turns: u32,
    pub warps: u32,
    pub halves: Address,
    pub row_scales: Address,
    pub order: Address,
    pub starts: Address,
    pub parts: Address,
    pub counters: Address,
    pub splits: u32,
    pub types: u32,
    pub whole: u32,
    pub tiles: u32,
}

impl ProjectArgs {
    /// Replaces the matrices.
    pub fn take(&mut self, segments: &[Segment]) {
        self.segments[..segments.len()].copy_from_slice(segments);
        self.n_segments = segments.len() as u32;
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PrepareArgs {
    pub x: Address,
    pub rows: Address,
    pub norm: DeviceNorm,
    pub cols: u32,
    pub padded: u32,
    pub simple: u32,
    pub pad: u32,
}

/// Order of the columns of an input in binary16: `Order` of `args.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnOrder {
    AsTheyAre = 0,
    ForFew = 1,
    ForGroups = 2,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HalvesArgs {
    pub x: Address,
    pub halves: Address,
    pub row_scales: Address,
    pub norm: DeviceNorm,
    pub cols: u32,
    pub padded: u32,
    pub x_stride: u32,
    pub order: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeadsArgs {
    pub step: StepArgs,
    pub q: Address,
    pub k: Address,
    pub v: Address,
    pub q_norm: DeviceNorm,
    pub k_norm: DeviceNorm,
    pub inv_freq: Address,
    pub n_pairs: u32,
    pub adjacent: u32,
    pub magnitude: f32,
    pub first: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    pub store: u32,
    pub own_norms: u32,
    pub layer: KvPlace,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendArgs {
    pub step: StepArgs,
    pub q: Address,
    pub out: Address,
    pub partials: Address,
    pub counters: Address,
    pub slopes: Address,
    pub sinks: Address,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    pub mask: u32,
    pub window: u32,
    pub splits: u32,
    pub scale: f32,
    pub softcap: f32,
    pub first_tile: u32,
    pub layer: KvPlace,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendAloneArgs {
    pub attend: AttendArgs,
    pub heads: HeadsArgs,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GluArgs {
    pub gate: Address,
    pub up: Address,
    pub n: u64,
    pub activation: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ModifyArgs {
    pub x: Address,
    pub by: Address,
    pub positions: Address,
    pub width: u32,
    pub kind: u32,
    pub factor: f32,
    pub length: u32,
    pub offset: u32,
    pub pad: u32,
}

/// A change of the values of an activation: `Modification` of `args.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modification {
    Scale = 0,
    Limit = 1,
    ByColumn = 2,
    ByPosition = 3,
    BySigmoid = 4,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JoinArgs {
    pub x: Address,
    pub tail: Address,
    pub out: Address,
    pub heads: u32,
    pub part: u32,
    pub x_stride: u32,
    pub tail_width: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProjectHeadsArgs {
    pub w: DeviceMatrix,
    pub x: Address,
    pub out: Address,
    pub n: u32,
    pub heads: u32,
    pub rows: u32,
    pub cols: u32,
    pub from: u32,
    pub to: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RouteArgs {
    pub scores: Address,
    pub experts: Address,
    pub weights: Address,
    pub bias: Address,
    pub n_experts: u32,
    pub n_used: u32,
    pub score: u32,
    pub renormalise: u32,
    pub groups: u32,
    pub groups_used: u32,
    pub scale: f32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupArgs {
    pub experts: Address,
    pub order: Address,
    pub starts: Address,
    pub picks: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExpertGluArgs {
    pub gate: Address,
    pub up: Address,
    pub experts: Address,
    pub weights: Address,
    pub factors: [Address; 2],
    pub biases: [Address; 2],
    pub n: u64,
    pub ffn: u32,
    pub stride: u32,
    pub activation: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CombineArgs {
    pub parts: Address,
    pub weights: Address,
    pub experts: Address,
    pub factors: Address,
    pub biases: Address,
    pub out: Address,
    pub width: u32,
    pub n_used: u32,
    pub accumulate: u32,
    pub scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConvArgs {
    pub step: StepArgs,
    pub x: Address,
    pub kernel: Address,
    pub bias: Address,
    pub memory: u64,
    pub width: u32,
    pub taps: u32,
    pub silu: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeltaArgs {
    pub step: StepArgs,
    pub q: Address,
    pub k: Address,
    pub v: Address,
    pub dt: Address,
    pub beta: Address,
    pub rate: Address,
    pub out: Address,
    pub memory: u64,
    pub heads: u32,
    pub key_heads: u32,
    pub key_dim: u32,
    pub value_dim: u32,
    pub by_row: u32,
    pub tiled: u32,
    pub stages: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScanArgs {
    pub step: StepArgs,
    pub x: Address,
    pub dt: Address,
    pub b: Address,
    pub c: Address,
    pub rate: Address,
    pub skip: Address,
    pub out: Address,
    pub memory: u64,
    pub heads: u32,
    pub head_dim: u32,
    pub groups: u32,
    pub state: u32,
    pub by_state: u32,
    pub stages: u32,
}

/// A rule by which a token is chosen: `Rule` of `args.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceRule {
    pub inverse: f64,
    pub biases: Address,
    pub recent: Address,
    pub allowed: Address,
    pub kind: u32,
    pub n_biases: u32,
    pub window: u32,
    pub none: u32,
    pub repeat: f32,
    pub presence: f32,
    pub frequency: f32,
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
}

impl DeviceRule {
    pub fn to_bytes(self) -> [u8; size_of::<DeviceRule>()] {
        let longs = [self.inverse.to_bits(), self.biases, self.recent, self.allowed];
        let [repeat, presence, frequency] = [self.repeat, self.presence, self.frequency].map(f32::to_bits);
        let counts = [self.kind, self.n_biases, self.window, self.none, repeat, presence, frequency, self.top_k];
        let words = counts.into_iter().chain([self.top_p.to_bits(), self.min_p.to_bits()]);
        in_bytes(&longs, words)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RuleState {
    pub random: u64,
    pub n_recent: u32,
    pub next: u32,
    pub slot: u32,
    pub pad: u32,
}

impl RuleState {
    pub fn to_bytes(self) -> [u8; size_of::<RuleState>()] {
        in_bytes(&[self.random], [self.n_recent, self.next, self.slot, self.pad])
    }
}

/// Long words, then words, in the order of the device's bytes.
fn in_bytes<const N: usize>(longs: &[u64], words: impl IntoIterator<Item = u32>) -> [u8; N] {
    let mut bytes = [0; N];
    let all = longs.iter().flat_map(|w| w.to_le_bytes()).chain(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    bytes
}

/// Bytes of `Draw` of `args.cuh`.
pub const DRAW_BYTES: usize = 14360;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ChooseArgs {
    pub logits: Address,
    pub rules: Address,
    pub states: Address,
    pub draws: Address,
    pub best: Address,
    pub at: Address,
    pub counters: Address,
    pub answers: Address,
    pub tokens: Address,
    pub ids: Address,
    pub positions: Address,
    pub unit: f64,
    pub width: u32,
    pub slots: u32,
    pub stride: u32,
    pub pad: u32,
}

macro_rules! pinned {
    ($($name:ident $bytes:literal),*) => { $(const _: () = assert!(size_of::<$name>() == $bytes || usize::BITS != 64);)* };
}
pinned!(
    DeviceMatrix 48, DeviceNorm 24, DeviceKv 64, KvPlace 32, DeviceTile 16, StepArgs 64, EmbedArgs 88, KeepRowsArgs 48,
    NormArgs 64, Segment 64, ProjectArgs 416, PrepareArgs 56, HalvesArgs 64, HeadsArgs 216, AttendArgs 184,
    AttendAloneArgs 400,
    GluArgs 32, ModifyArgs 48, JoinArgs 40, ProjectHeadsArgs 88, RouteArgs 64, GroupArgs 32, ExpertGluArgs 88,
    CombineArgs 64, ConvArgs 112, DeltaArgs 160, ScanArgs 152, DeviceRule 72,
    RuleState 24, ChooseArgs 112
);

macro_rules! kernels {
    ($($name:ident: $args:ident),*; $($some:ident: $some_args:ident),* $(,)?) => {
        /// Every kernel by its name in the image; some are in the machine code of some GPUs alone.
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
    to_halves: HalvesArgs,
    to_halves_any: HalvesArgs,
    few_16: ProjectArgs,
    few_32: ProjectArgs,
    few_64: ProjectArgs,
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
    attend_64_alone: AttendAloneArgs,
    attend_64_alone_any: AttendAloneArgs,
    attend_128_alone: AttendAloneArgs,
    attend_128_alone_any: AttendAloneArgs,
    attend_256_alone: AttendAloneArgs,
    attend_256_alone_any: AttendAloneArgs,
    attend_wide: AttendArgs,
    attend_wide_any: AttendArgs,
    glu: GluArgs,
    modify: ModifyArgs,
    join: JoinArgs,
    project_heads: ProjectHeadsArgs,
    route: RouteArgs,
    group: GroupArgs,
    expert_glu: ExpertGluArgs,
    combine: CombineArgs,
    conv_4: ConvArgs,
    conv_16: ConvArgs,
    delta_64: DeltaArgs,
    delta_128: DeltaArgs,
    delta_256: DeltaArgs,
    scan_16: ScanArgs,
    scan_128: ScanArgs,
    scan_256: ScanArgs,
    delta_chunks_128: DeltaArgs,
    delta_chunks_256: DeltaArgs,
    scan_chunks_128: ScanArgs,
    scan_chunks_256: ScanArgs,
    adjust: ChooseArgs,
    argmax: ChooseArgs,
    weigh: ChooseArgs,
    keep: ChooseArgs;
    wgmma_256: ProjectArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_lies_as_compilers_align_it() {
        assert!(IMAGE.is_err() || (IMAGE.unwrap().as_ptr().addr().is_multiple_of(8) && COMPILER >= 12_000));
    }
}
