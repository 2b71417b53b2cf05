//! Arguments of MoE routers and experts.

use super::{ConstPtr, DeviceKv, DeviceMatrix, Ptr};

/// Conversion of router scores to weights.
#[repr(u32)]
pub enum RouterScore {
    Softmax = 0,
    SoftmaxOfChosen = 1,
    SigmoidOfScore = 2,
    /// sqrt(ln(1 + e^x))
    RootOfSoftplus = 3,
    /// Softmax over an expert's own score and the smaller ones within 2 % of it.
    SparseMixer = 4,
}

/// Sums of parts of rows that a block of `gemv_picks.cu` holds at once.
pub const PICK_PARTS: usize = 1024;

/// Expert number of padding rows, larger than any expert's.
pub const NO_EXPERT: u32 = 0xffffffff;

/// Selects experts by scores.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteArgs {
    /// `[n, n_experts]`
    pub scores: ConstPtr<f32>,
    /// `[n, n_used]`
    pub experts: Ptr<u32>,
    /// `[n, n_used]`
    pub weights: Ptr<f32>,
    /// `[n_experts]`, or null: bias for the selection only, not for the weights.
    pub bias: ConstPtr<f32>,
    /// `[n]`, `StepArgs::slots`.
    pub slots: ConstPtr<u32>,
    /// `StepArgs::kvs`, or null if no row is padding.
    pub kvs: ConstPtr<DeviceKv>,
    /// `[ids, n_used]`, or null: the experts by token id.
    pub by_id: ConstPtr<f32>,
    /// `[n]`, `StepArgs::ids`.
    pub ids: ConstPtr<u32>,
    /// `[n]`, the ids that replace `CHOSEN_BEFORE`.
    pub following: ConstPtr<u32>,
    pub n_experts: u32,
    pub n_used: u32,
    /// `RouterScore`.
    pub score: u32,
    /// Boolean: weights are divided by their sum.
    pub renormalize: u32,
    /// Number of equally large groups of experts.
    pub groups: u32,
    /// Number of selected groups: those with the largest sums of their two best scores.
    pub groups_used: u32,
    /// Factor on the weights.
    pub scale: f32,
    /// Number of experts that share matrices; `experts` gets the index of the matrices.
    pub sharing: u32,
}

/// Sorts picks by expert, in stable order. A pick is one selected expert of a token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupArgs {
    /// `[picks]`
    pub experts: ConstPtr<u32>,
    /// `[picks]`, indices of picks.
    pub order: Ptr<u32>,
    /// `[n_experts + 1]`, the start of each expert's picks in `order`.
    pub starts: Ptr<u32>,
    pub picks: u32,
    pub pad: u32,
}

/// out = the input of each selected expert, permuted to the column order of the expert's matrix.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OrderArgs {
    /// `[picks / divisor, x_stride]`
    pub x: ConstPtr<f32>,
    /// `[n_experts, width]`, the index in a row of `x` of each input, or null: unchanged order.
    pub order: ConstPtr<f32>,
    /// `[picks]`
    pub experts: ConstPtr<u32>,
    /// `[picks, width]`
    pub out: Ptr<f32>,
    /// picks * width
    pub n: u64,
    pub width: u32,
    pub x_stride: u32,
    /// Picks per row of `x`.
    pub divisor: u32,
    pub pad: u32,
}

/// gate = activation(gate) * up for selected experts, after factors and biases on both products.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExpertGluArgs {
    /// `[picks, stride]`
    pub gate: Ptr<f32>,
    /// `[picks, stride]`, or null: gate = activation(gate).
    pub up: ConstPtr<f32>,
    /// `[picks]`
    pub experts: ConstPtr<u32>,
    /// `[picks]`, or null: factors on the input of the products.
    pub weights: ConstPtr<f32>,
    /// `[n_experts]` each, or null: factors on gate and up.
    pub factors: [ConstPtr<f32>; 2],
    /// `[n_experts, ffn]` each, or null.
    pub biases: [ConstPtr<f32>; 2],
    /// picks * ffn
    pub n: u64,
    pub ffn: u32,
    pub stride: u32,
    /// `Activation`.
    pub activation: u32,
    /// `GluArgs::limit`.
    pub limit: f32,
    /// `GluArgs::up_limit`.
    pub up_limit: f32,
    pub pad: u32,
}

/// out = the weighted sum of the results of a token's experts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CombineArgs {
    /// `[n, n_used, width]`
    pub parts: ConstPtr<f32>,
    /// `[n, n_used]`, or null for ones.
    pub weights: ConstPtr<f32>,
    /// `[n, n_used]`
    pub experts: ConstPtr<u32>,
    /// `[n_experts]`, or null: factors on the parts.
    pub factors: ConstPtr<f32>,
    /// `[n_experts, width]`, or null.
    pub biases: ConstPtr<f32>,
    /// `[n, width]`
    pub out: Ptr<f32>,
    pub width: u32,
    pub n_used: u32,
    /// Boolean: adds `scale` times the sum to out instead of replacing it.
    pub accumulate: u32,
    pub scale: f32,
}

/// out = the weighted sum of the products of a token's experts with their inputs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SumPicksArgs {
    /// `[n_experts * w.rows, w.cols]`, the stack of all experts; `rows` counts those of one.
    pub w: DeviceMatrix,
    /// `[n, n_used, x_stride]`
    pub x: ConstPtr<f32>,
    /// `[n, n_used]`, or null for ones.
    pub weights: ConstPtr<f32>,
    /// `[n, n_used]`
    pub experts: ConstPtr<u32>,
    /// `[n_experts]`, or null: factors on the products.
    pub factors: ConstPtr<f32>,
    /// `[n_experts, w.rows]`, or null.
    pub biases: ConstPtr<f32>,
    /// `[n, w.rows]`
    pub out: Ptr<f32>,
    /// Number of input columns, without padding; a multiple of four.
    pub cols: u32,
    pub x_stride: u32,
    pub n_used: u32,
    /// Boolean: adds `scale` times the sum to out instead of replacing it.
    pub accumulate: u32,
    pub scale: f32,
    pub pad: u32,
}
