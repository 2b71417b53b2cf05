//! The options of loading a model. Every layer below the C interface gets the same struct by reference, so a new option
//! needs a field here, a field of `rz_model_params`, and its reader.

use std::path::Path;

use crate::tensor::DType;

/// Options of loading a model. Zero, false, `None` and an empty list are the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// Number of a device in `devices()`, from 1; 0: selected by the load.
    pub device: u32,
    /// GPUs to divide the layers among, in this order, instead of `device`; empty: use `device`.
    pub devices: &'a [u32],
    /// Relative sizes of the parts of `devices`; empty: proportional to their free memory.
    pub shares: &'a [f32],
    /// True for batch-invariant results on GPUs, also independent of prompt chunking. The CPU always is.
    pub deterministic: bool,
    /// True to map weights and use them in place.
    pub mmap: bool,
    /// True to load only metadata, tokenizer and chat template.
    pub text_only: bool,
    /// True if executors on a GPU measure the parts of their steps.
    pub profile: bool,
    /// True to load the MTP layer too.
    pub mtp: bool,
    /// True to ignore unknown keys and tensors with a warning.
    pub allow_unknown: bool,
    /// True for BF16 matrix products on the CPU if prefill is faster with them.
    pub bf16_products: bool,
    /// Number of layers to offload to GPUs, the last ones; 0: as many as fit.
    pub gpu_layers: u32,
    /// Expert offload of layers on GPUs.
    pub placement: Placement,
    /// The steps that copy experts on the host to a GPU.
    pub copied: Copied,
    /// Type to quantize float matrices to; `None`: keep the file's types.
    pub quantize: Option<DType>,
    /// Maximum number of prompt tokens in a batch step that also decodes; 0: selected by the load.
    pub mixed_prefill_tokens: u32,
    /// File of the CPU's packed weights, which is mapped, or written first; `None`: packed into memory.
    pub packed_path: Option<&'a Path>,
    /// File of passed GPU self-tests; `None`: kept for the process only.
    pub tested_path: Option<&'a Path>,
    /// Chat template that replaces the model's own; `None`: the model's own.
    pub chat_template: Option<&'a str>,
    /// True to read no weights: the load only predicts memory and computes nothing.
    pub plan: bool,
}

impl LoadOptions<'_> {
    /// Returns the devices that the caller named; empty: selected by the load.
    pub fn named_devices(&self) -> &[u32] {
        match self.devices {
            [] if self.device == 0 => &[],
            [] => std::slice::from_ref(&self.device),
            devices => devices,
        }
    }

    /// Returns the number of layers to offload to GPUs; `None`: as many as fit.
    pub fn n_gpu_layers(&self) -> Option<usize> {
        (self.gpu_layers != 0).then_some(self.gpu_layers as usize)
    }
}

/// Where the experts of layers on GPUs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// With their layers.
    #[default]
    WithLayers,
    /// Experts of the last layers on GPUs, as many as fit next to everything else.
    Auto,
    /// On the CPU: the experts of `n` MoE layers (`None`: all) from layer `first` on.
    Host { first: usize, n: Option<usize> },
    /// Experts of the last layers on GPUs, up to this many bytes in total.
    Bytes(u64),
}

/// The steps that copy the experts on the host to a GPU, which then multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copied {
    /// Steps with enough rows to be faster that way, as measured during the load.
    #[default]
    Measured,
    /// Steps of at least this many rows.
    From(usize),
    Never,
}
