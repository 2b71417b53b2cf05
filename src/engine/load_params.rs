//! The choices of a caller for the load of a model.

use std::path::Path;
use std::sync::Arc;

use super::cancel::Cancel;
use super::runtime::Runtime;
use crate::cpu::kernels::Isa;
use crate::device::{Copied, Placement};
use crate::tensor::DType;

#[derive(Default)]
pub struct LoadParams<'a> {
    /// `None`: a runtime of its own with default parameters.
    pub runtime: Option<Arc<Runtime>>,
    /// 0: chosen here; n: entry n - 1 of `devices()`.
    pub device: u32,
    /// GPUs that share the layers in this order, in place of `device`; empty: there is no such list.
    pub devices: &'a [u32],
    /// Sizes of the parts of these in relation to one another; empty: by their free memory.
    pub shares: &'a [f32],
    pub deterministic: bool,
    pub mmap: bool,
    pub text_only: bool,
    /// Measure the parts of steps on a GPU.
    pub profile: bool,
    /// Load the layer that predicts a further token, for drafts.
    pub mtp: bool,
    /// Keys and tensors that are not known are passed over.
    pub allow_unknown: bool,
    /// Products on the CPU are in BF16 where that is faster for prompts.
    pub bf16_products: bool,
    /// Layers on GPUs, where the device is one, the last ones; 0: as many as fit.
    pub gpu_layers: u32,
    /// The place of the experts of those.
    pub placement: Placement,
    /// The steps that copy experts of the host to a GPU.
    pub copied: Copied,
    /// Instruction set of the CPU; `None`: the fastest.
    pub isa: Option<Isa>,
    /// Type that matrices of floats are converted to; `None`: none is.
    pub quantize: Option<DType>,
    /// Tokens of prompts, at most, that a pass of jobs computes beside single tokens; 0: chosen here.
    pub mixed_prefill_tokens: u32,
    /// File of packed weights, which is mapped, or made first; `None`: they are packed into memory.
    pub packed_path: Option<&'a Path>,
    /// File of the verdicts of self-tests of GPUs; `None`: they last as long as the process.
    pub tested_path: Option<&'a Path>,
    /// Chat template in place of the model's own; `None`: the model's own.
    pub chat_template: Option<&'a str>,
    /// Weights are not read: the model tells what it would take, and computes nothing.
    pub plan: bool,
    /// Called with bytes done and in all; false stops the load.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
    pub cancel: Option<&'a Cancel>,
}
