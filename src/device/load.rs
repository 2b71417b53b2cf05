//! Parameters of loading a program on devices.

use std::sync::Arc;

use crate::cpu::kernels::Isa;
use crate::graph::load_options::LoadOptions;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;

/// The caller's load options, and the engine's additions.
#[derive(Clone)]
pub struct Load<'a> {
    pub options: &'a LoadOptions<'a>,
    /// Instruction set of the CPU; `None`: the fastest. Changes no result, unless products are in BF16.
    pub isa: Option<Isa>,
    /// Limit of host memory for weights, in bytes.
    pub host_bytes: u64,
    /// Identifies the weight files, for the file of packed weights.
    pub files: u64,
    /// Other programs of the same weights, for the last device.
    pub companions: Vec<Arc<Program>>,
    /// Size of a step that must fit on a GPU next to the weights.
    pub limits: StepLimits,
    /// The KV cache that must fit there too.
    pub cache: SequenceSpec,
}

impl<'a> Load<'a> {
    /// Returns a load of one program without a memory limit.
    pub fn new(options: &'a LoadOptions<'a>, limits: StepLimits, cache: SequenceSpec) -> Load<'a> {
        Load { options, isa: None, host_bytes: u64::MAX, files: 0, companions: Vec::new(), limits, cache }
    }
}
