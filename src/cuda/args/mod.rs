//! Definitions shared by the host and the kernels: the parameter of each kernel, the structs that it points to, and
//! constants.
//!
//! The only definition of both: the build writes `kernels/args.cuh` from this folder. There a constant `BINS` is
//! `kBins`, a variant `Add` is `kAdd`, and these comments are copied. `[n, width]` is the shape of an array, the last
//! dimension contiguous; sizes and strides count values, not bytes. Public only for tests.

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

/// The type that a device address points to. Typed for the kernels; the host only computes with addresses.
pub trait Pointee {
    type Address;
}

impl<T> Pointee for T {
    type Address = Address;
}

/// Address of values that a kernel reads.
pub type ConstPtr<T> = <T as Pointee>::Address;

/// Address of values that a kernel writes.
pub type Ptr<T> = <T as Pointee>::Address;

/// Threads per warp.
pub const WARP: usize = 32;

/// Element types of matrices and caches, by GGML's numbers.
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

/// A matrix in up to four planes, row by row and block by block; read by `quant.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMatrix {
    pub planes: [ConstPtr<u8>; 4],
    /// `Type`.
    pub dtype: u32,
    pub rows: u32,
    /// A multiple of 32; padding columns are zero.
    pub cols: u32,
    /// The power of two that brings block scales into the normal range of binary16.
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

/// The normalization of a vector of `n` values.
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
    /// The tanh approximation.
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
    /// limit * tanh(gate / limit) * sigmoid(gate) * up_limit * tanh(up / up_limit); if up_limit is 0, the last factor
    /// is up
    TanhSwiglu = 14,
}

/// The KV cache of one sequence. Keys and values are `[layer, kv head, position, stride]`, the stride being the width
/// of a head rounded up to 32. A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p %
/// ring.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceKv {
    pub k: Ptr<u8>,
    pub v: Ptr<u8>,
    /// Scales of Q8_0 and Q4_0: one binary16 per 32 keys, in their order.
    pub k_scales: Ptr<u16>,
    pub v_scales: Ptr<u16>,
    /// Recurrent states before the step; null: all are zero.
    pub from: ConstPtr<f32>,
    /// Recurrent states after the step.
    pub to: Ptr<f32>,
    /// Number of positions; 0 for padding rows, which write neither keys, values nor states.
    pub capacity: u32,
    /// Number of positions that a layer with a window keeps.
    pub ring: u32,
    /// `Type`: F32, F16, Q8_0 or Q4_0. Q4_0 rows are rotated, see `hadamard.cu`.
    pub k_type: u32,
    pub v_type: u32,
}

/// Values per position in all preceding layers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValuesBefore {
    /// Values of layers that keep all positions.
    pub whole: u32,
    /// Values of layers that keep a ring buffer of the newest positions.
    pub rings: u32,
}

/// The location of a layer in a KV cache, counted in values per position, so that a captured launch serves caches of
/// every capacity.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvPlace {
    pub k: ValuesBefore,
    pub v: ValuesBefore,
    pub k_stride: u32,
    pub v_stride: u32,
    /// Boolean.
    pub is_ring: u32,
    /// Boolean (MLA): each value is the start of its key; `v` repeats the location of the keys.
    pub is_latent: u32,
    /// Number of positions per shared key; the last of them stores the key.
    pub pool: u32,
    pub pad: u32,
}

/// Consecutive tokens of one sequence: of an attention tile, or all tokens of the sequence in the step.
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

/// Inputs of a step, in arrays that are replaced before each step.
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
    /// One per sequence of the step.
    pub kvs: ConstPtr<DeviceKv>,
    /// `[n, media_width]`, media rows, or null: no token is a media row.
    pub media: ConstPtr<f32>,
    /// `[n, 3]`, M-RoPE positions (time, row, column) of each token minus its position, or null: zeros.
    pub rope_offsets: ConstPtr<u32>,
    /// `[n, 2]`, the first position of each token's span and the position after its last, or null: no spans.
    pub spans: ConstPtr<u32>,
    /// Number of tokens.
    pub n: u32,
    pub n_outputs: u32,
    pub n_tiles: u32,
    pub media_width: u32,
}

/// Token id that stands for the token that the previous step sampled.
pub const CHOSEN_BEFORE: u32 = 0xffffffff;

/// The id of a media row.
pub const MEDIA_ROW: u32 = 0xfffffffe;

/// The result if a logit is NaN or infinite.
pub const NOT_A_NUMBER: u32 = 0xfffffffd;

// Constants of kernels that other modules define.
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
