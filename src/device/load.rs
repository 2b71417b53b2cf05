//! What a load of a program on devices is given.

use std::sync::Arc;

use crate::cpu::kernels::Isa;
use crate::graph::load_options::LoadOptions;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;

/// A load of a program: the caller's options, and what the engine adds to them.
#[derive(Clone)]
pub struct Load<'a> {
    pub options: &'a LoadOptions<'a>,
    /// Instruction set of the CPU; `None`: the fastest. It changes no result, unless its products are in BF16.
    pub isa: Option<Isa>,
    /// Ceiling on weights in memory of the host, in bytes.
    pub host_bytes: u64,
    /// Number that identifies the files of the weights, for the file of packed weights.
    pub files: u64,
    /// Other programs of the same weights, which the last device has.
    pub beside: Vec<Arc<Program>>,
    /// Size of a step that must fit on a GPU in addition to the weights.
    pub limits: StepLimits,
    /// The cache that must fit there too.
    pub cache: SequenceSpec,
}

impl<'a> Load<'a> {
    /// A load of one program without a ceiling on memory.
    pub fn new(options: &'a LoadOptions<'a>, limits: StepLimits, cache: SequenceSpec) -> Load<'a> {
        Load { options, isa: None, host_bytes: u64::MAX, files: 0, beside: Vec::new(), limits, cache }
    }
}
