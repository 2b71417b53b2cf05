//! What the host and the kernels share: the parameter of each kernel, the structs that it points to, and constants.
//!
//! The only definition of both: the build writes `kernels/args.cuh` from this folder. There a constant `BINS` is
//! `kBins`, a variant `Add` is `kAdd`, and these comments stand above what they describe. `[n, width]` is the shape of
//! an array, the last dimension contiguous; sizes and strides count values, not bytes. Public for tests alone.

mod attention;
mod choose;
mod experts;
mod products;
mod recurrent;
mod rows;

pub use attention::*;
pub use choose::*;
pub use experts::*;
pub use products::*;
pub use recurrent::*;
pub use rows::*;

use crate::gpu::Address;
use crate::graph::step;
use crate::quant;
use crate::tensor::DType;

/// What an address in device memory points to. Typed for the kernels; the host only computes with addresses.
pub trait Pointee {
    type Address;
}

impl<T> Pointee for T {
    type Address = Address;
}

/// The address of values that a kernel reads.
pub type ConstPtr<T> = <T as Pointee>::Address;

/// The address of values that a kernel writes.
pub type Ptr<T> = <T as Pointee>::Address;

/// Threads of a warp.
pub const WARP: usize = 32;

/// Types of matrices and caches, by GGML's numbers.
#[expect(non_camel_case_types)]
#[repr(u32)]
pub enum Type {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30,
}

/// A matrix in up to four planes, row after row and block after block; `quant.cuh` reads them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMatrix {
    pub planes: [ConstPtr<u8>; 4],
    /// `Type`.
    pub dtype: u32,
    pub rows: u32,
    /// A multiple of 32; columns after the model's own are zero.
    pub cols: u32,
    /// A power of two that scales of blocks are multiplied by to become normal numbers of binary16.
    pub factor: f32,
}

impl DeviceMatrix {
    pub fn dtype(&self) -> DType {
        DType(self.dtype)
    }
}

#[repr(u32)]
pub enum NormKind {
    NoNorm = 0,
    /// x / sqrt(mean of squares + eps)
    Rms = 1,
    /// (x - mean) / sqrt(variance + eps)
    Layer = 2,
}

/// The normalisation of a vector of `n` values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceNorm {
    /// `[n]`, or null for ones.
    pub weight: ConstPtr<f32>,
    /// `[n]`, or null for zeros.
    pub bias: ConstPtr<f32>,
    pub eps: f32,
    /// `NormKind`.
    pub kind: u32,
}

#[repr(u32)]
pub enum Activation {
    Silu = 0,
    /// By its tanh approximation.
    Gelu = 1,
    GeluErf = 2,
    Relu = 3,
    /// relu(x)^2
    Relu2 = 4,
    /// The activation of gpt-oss.
    ClampedSwiglu = 5,
    Identity = 6,
    Sigmoid = 7,
    Softplus = 8,
    /// silu(min(gate, limit)) * min(max(up, -limit), limit)
    SwigluOfClamped = 9,
    /// min(silu(gate), limit) * min(max(up, -limit), limit)
    SwigluThenClamped = 10,
    Tanh = 11,
    /// x * sigmoid(1.702 x)
    QuickGelu = 12,
    /// sqrt(max(|x|, 1e-6)) with the sign of x
    SignedRoot = 13,
    /// limit * tanh(gate / limit) * sigmoid(gate) * up_limit * tanh(up / up_limit), whose last factor is up for an
    /// up_limit of 0
    TanhSwiglu = 14,
}

/// The cache of one sequence. Keys and values are `[layer, kv head, position, stride]`, the stride being the width of a
/// head rounded up to 32. A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p %
/// ring.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceKv {
    pub k: Ptr<u8>,
    pub v: Ptr<u8>,
    /// Scales of Q8_0 and Q4_0: one binary16 for each 32 keys, in their order.
    pub k_scales: Ptr<u16>,
    pub v_scales: Ptr<u16>,
    /// Recurrent memories before the step; null: all are zero.
    pub from: ConstPtr<f32>,
    /// Recurrent memories after the step.
    pub to: Ptr<f32>,
    /// Positions; 0 for rows of padding, which write neither keys and values nor states.
    pub capacity: u32,
    /// Positions that a layer with a window keeps.
    pub ring: u32,
    /// `Type`: F32, F16, Q8_0 or Q4_0. Rows of the last are turned, `turn.cu`.
    pub k_type: u32,
    pub v_type: u32,
}

/// Values a position of all layers before one.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValuesBefore {
    /// Those of layers that keep all positions.
    pub whole: u32,
    /// Those of layers that keep a ring of the newest positions.
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
    /// Boolean.
    pub is_ring: u32,
    /// Boolean: values are the first numbers of their keys, whose place `v` repeats.
    pub is_latent: u32,
    /// Positions that share a key, which their last one stores.
    pub pool: u32,
    pub pad: u32,
}

/// Consecutive tokens of one sequence: those of a tile of attention, or all of the step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceTile {
    /// Index of the first token in the step.
    pub first: u32,
    /// Number of tokens.
    pub count: u32,
    /// Index of the sequence in `StepArgs::kvs`.
    pub slot: u32,
    /// Index of the sequence's last token in the step.
    pub last: u32,
}

/// Inputs of a step, arrays that are replaced before each step.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StepArgs {
    /// `[n]`, tokens.
    pub ids: ConstPtr<u32>,
    /// `[n]`
    pub positions: ConstPtr<u32>,
    /// `[n]`, indices into `kvs`.
    pub slots: ConstPtr<u32>,
    /// `[n_outputs]`, indices of the tokens that need logits.
    pub outputs: ConstPtr<u32>,
    /// `[n_tiles]`
    pub tiles: ConstPtr<DeviceTile>,
    /// One for each sequence of the step.
    pub kvs: ConstPtr<DeviceKv>,
    /// `[n, media_width]`, the numbers of tokens that are rows of media, or null: none is.
    pub media: ConstPtr<f32>,
    /// `[n, 3]`, what time, row and column of each token are ahead of its position, or null: nothing.
    pub turns: ConstPtr<u32>,
    /// `[n, 2]`, the first position of each token's span and the one behind its last, or null: no token has one.
    pub spans: ConstPtr<u32>,
    /// Tokens.
    pub n: u32,
    pub n_outputs: u32,
    pub n_tiles: u32,
    pub media_width: u32,
}

/// In place of a token: the one that the step before has chosen.
pub const CHOSEN_BEFORE: u32 = 0xffffffff;

/// The id that stands for a row of media instead of a token.
pub const MEDIA_ROW: u32 = 0xfffffffe;

/// The answer instead of a token if a logit is NaN or infinite.
pub const NOT_A_NUMBER: u32 = 0xfffffffd;

// What kernels know as constants and other parts of the library define.
const _: () = {
    assert!(NOT_A_NUMBER == crate::sampling::NOT_A_NUMBER);
    assert!(CHOSEN_BEFORE == step::CHOSEN_BEFORE && MEDIA_ROW == step::MEDIA_ROW);
    assert!(NormKind::NoNorm as u32 == 0, "the kind of a default norm");
    assert!(Type::F32 as u32 == quant::F32.0 && Type::F16 as u32 == quant::F16.0 && Type::BF16 as u32 == quant::BF16.0);
    assert!(Type::Q4_0 as u32 == quant::Q4_0.0 && Type::Q4_1 as u32 == quant::Q4_1.0);
    assert!(Type::Q5_0 as u32 == quant::Q5_0.0 && Type::Q5_1 as u32 == quant::Q5_1.0);
    assert!(Type::Q8_0 as u32 == quant::Q8_0.0 && Type::Q4_K as u32 == quant::Q4_K.0);
    assert!(Type::Q5_K as u32 == quant::Q5_K.0 && Type::Q6_K as u32 == quant::Q6_K.0);
};
