//! The options of loading a model. Every layer below the C interface gets the same struct by reference and reads the
//! fields that concern it, so that a new option is a field here, a field of `rz_model_params`, and its reader.

use std::path::Path;

use crate::tensor::DType;

/// Options of loading a model. Zero, false, `None` and an empty list are the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// Index of a device in `devices()` from 1; 0: the device is chosen by the load.
    pub device: u32,
    /// GPUs over which the layers are divided in this order, instead of `device`; empty: `device` counts.
    pub devices: &'a [u32],
    /// Relative sizes of the parts of `devices`; empty: in proportion to their free memory.
    pub shares: &'a [f32],
    /// True if no result may depend on how a prompt is cut, nor on the other sequences of a batch. On the CPU results
    /// never do.
    pub deterministic: bool,
    /// True if weights are mapped and used in place.
    pub mmap: bool,
    /// True if only metadata, tokenizer and chat template are loaded.
    pub text_only: bool,
    /// True if executors on a GPU measure the parts of their steps.
    pub profile: bool,
    /// True if the layer for multi-token prediction is loaded too.
    pub mtp: bool,
    /// True if unknown keys and tensors are left out with a warning.
    pub allow_unknown: bool,
    /// True if products on the CPU are in BF16 where that is faster for prompts.
    pub bf16_products: bool,
    /// Number of layers on GPUs, the last ones; 0: as many as fit.
    pub gpu_layers: u32,
    /// Place of the experts of layers on GPUs.
    pub placement: Placement,
    /// The steps that copy experts on the host to a GPU.
    pub copied: Copied,
    /// Type to which float matrices are quantized; `None`: they keep the types of the file.
    pub quantize: Option<DType>,
    /// Maximum number of prompt tokens in a pass of jobs that has single tokens too; 0: chosen by the load.
    pub mixed_prefill_tokens: u32,
    /// File of the CPU's packed weights, which is mapped, or written first; `None`: weights are packed into memory.
    pub packed_path: Option<&'a Path>,
    /// File of the verdicts of self-tests of GPUs; `None`: verdicts last as long as the process.
    pub tested_path: Option<&'a Path>,
    /// Chat template that replaces the model's own; `None`: the model's own.
    pub chat_template: Option<&'a str>,
    /// True if weights are not read: the load tells what it would take, and computes nothing.
    pub plan: bool,
}

impl LoadOptions<'_> {
    /// The devices that the caller names; empty: the load chooses.
    pub fn named_devices(&self) -> &[u32] {
        match self.devices {
            [] if self.device == 0 => &[],
            [] => std::slice::from_ref(&self.device),
            devices => devices,
        }
    }

    /// Number of layers on GPUs; `None`: as many as fit.
    pub fn wanted_gpu_layers(&self) -> Option<usize> {
        (self.gpu_layers != 0).then_some(self.gpu_layers as usize)
    }
}

/// The place of the experts of layers that are on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Experts are where their layers are.
    #[default]
    WithLayers,
    /// Experts of the last layers are on GPUs, as many as fit in addition to everything else.
    Auto,
    /// On the CPU are the experts of `n` layers with experts (`None`: all of them), from layer `first` on.
    Host { first: usize, n: Option<usize> },
    /// Experts of the last layers are on GPUs, at most so many bytes together.
    Bytes(u64),
}

/// The steps that copy the experts on the host to a GPU, which then multiplies by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copied {
    /// Steps with so many rows that this takes less time, by what is measured while the model is loaded.
    #[default]
    Measured,
    /// Steps of so many rows or more.
    From(usize),
    Never,
}
