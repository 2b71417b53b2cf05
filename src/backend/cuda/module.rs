//! The kernels of `kernels/` by name, and what each is passed: the mirror of `kernels/args.cuh`.
//!
//! Fields stand in the order and with the sizes of the C++ structs; both sides pin the size. Refuses to know when a kernel
//! is launched.

use super::launch::{Current, Kernel, Module};
use super::probe::Address;
use crate::error::Result;
use crate::tensor::DType;

// `IMAGE`, the image that the build script made, or why there is none; and `COMPILER`, the `CUDA_VERSION` that made it.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A matrix in device memory. What lies in the planes, `memory` says.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Matrix {
    pub planes: [Address; 4],
    pub dtype: u32,
    pub rows: u32,
    /// A multiple of 32, zeros behind the model's own.
    pub cols: u32,
    pub pad: u32,
}

impl Matrix {
    pub fn dtype(&self) -> DType {
        DType(self.dtype)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm {
    pub weight: Address,
    pub bias: Address,
    pub eps: f32,
    /// 0: none, 1: root mean square, 2: layer.
    pub kind: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KvView {
    pub k: Address,
    pub v: Address,
    pub k_scales: Address,
    pub v_scales: Address,
    pub capacity: u32,
    /// Positions that layers with a window keep.
    pub ring: u32,
    pub stride: u32,
    pub k_type: u32,
    pub v_type: u32,
    pub pad: u32,
}

/// Where a layer lies in a cache: layers that keep all positions before it, layers that keep the newest ones, and whether
/// it is one of those. The same for every capacity, so that it can be part of a recorded launch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub whole: u32,
    pub rings: u32,
    pub is_ring: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    pub first: u32,
    pub count: u32,
    pub slot: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
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
    pub table: Matrix,
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
    pub norm: Norm,
    pub x: Address,
    pub delta: Address,
    pub out: Address,
    pub group: u32,
    pub scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub w: Matrix,
    pub out: Address,
    pub bias: Address,
}

/// What follows a product: `Epilogue` of `args.cuh`.
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
    pub x_rows: Address,
    pub experts: Address,
    pub norm: Norm,
    pub halves: Address,
    pub row_scales: Address,
    pub order: Address,
    pub starts: Address,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HalvesArgs {
    pub x: Address,
    pub x_rows: Address,
    pub halves: Address,
    pub row_scales: Address,
    pub norm: Norm,
    pub cols: u32,
    pub padded: u32,
    pub x_stride: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeadsArgs {
    pub step: Step,
    pub q: Address,
    pub k: Address,
    pub v: Address,
    pub q_norm: Norm,
    pub k_norm: Norm,
    pub inv_freq: Address,
    pub n_pairs: u32,
    pub adjacent: u32,
    pub magnitude: f32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub store: u32,
    pub layer: Place,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttendArgs {
    pub step: Step,
    pub q: Address,
    pub out: Address,
    pub partials: Address,
    pub counters: Address,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub window: u32,
    pub splits: u32,
    pub scale: f32,
    pub softcap: f32,
    pub first_tile: u32,
    pub layer: Place,
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
pub struct RouteArgs {
    pub scores: Address,
    pub experts: Address,
    pub weights: Address,
    pub n_experts: u32,
    pub n_used: u32,
    pub softmax_first: u32,
    pub renormalise: u32,
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
pub struct CombineArgs {
    pub parts: Address,
    pub weights: Address,
    pub out: Address,
    pub width: u32,
    pub n_used: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ArgmaxArgs {
    pub values: Address,
    pub best: Address,
    pub at: Address,
    pub counters: Address,
    pub answers: Address,
    pub tokens: Address,
    pub width: u32,
    pub pad: u32,
}

macro_rules! pinned {
    ($($name:ident $bytes:literal),*) => { $(const _: () = assert!(size_of::<$name>() == $bytes);)* };
}
pinned!(
    Matrix 48, Norm 24, KvView 56, Place 16, Tile 16, Step 64, EmbedArgs 88, KeepRowsArgs 48, NormArgs 56, Segment 64, ProjectArgs 376,
    HalvesArgs 72, HeadsArgs 192, AttendArgs 144, GluArgs 32, RouteArgs 40, GroupArgs 32, CombineArgs 32, ArgmaxArgs 56
);

macro_rules! kernels {
    ($($name:ident: $args:ident),* $(,)?) => {
        /// Every kernel, by its name in the image.
        pub struct Kernels {
            $(pub $name: Kernel<$args>,)*
            _module: Module,
        }

        impl Kernels {
            pub fn load(current: &Current, image: &'static [u8]) -> Result<Kernels> {
                let module = current.module(image)?;
                let named = |name: &'static str| {
                    std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
                };
                Ok(Kernels {
                    $($name: current.kernel(&module, named(concat!(stringify!($name), "\0")))?,)*
                    _module: module,
                })
            }

            /// Name and parameter size of each kernel.
            pub const PARAMETERS: &[(&str, usize)] = &[$((stringify!($name), size_of::<$args>())),*];
        }
    };
}

kernels! {
    embed: EmbedArgs,
    keep_rows: KeepRowsArgs,
    add_norm: NormArgs,
    gemv: ProjectArgs,
    to_halves: HalvesArgs,
    gemm_16: ProjectArgs,
    gemm_64: ProjectArgs,
    gemm_128: ProjectArgs,
    heads: HeadsArgs,
    attend_64: AttendArgs,
    attend_64_any: AttendArgs,
    attend_128: AttendArgs,
    attend_128_any: AttendArgs,
    attend_256: AttendArgs,
    attend_256_any: AttendArgs,
    glu: GluArgs,
    route: RouteArgs,
    group: GroupArgs,
    combine: CombineArgs,
    argmax: ArgmaxArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_lies_as_compilers_align_it() {
        assert!(IMAGE.is_err() || (IMAGE.unwrap().as_ptr().addr().is_multiple_of(8) && COMPILER >= 12_000));
    }
}
