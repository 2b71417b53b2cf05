//! A caller's request to load a model: the options, and the call that they belong to.

use std::sync::Arc;

use super::cancel::Cancel;
use super::runtime::Runtime;
use crate::cpu::kernels::Isa;
use crate::graph::load_options::LoadOptions;

/// A load: its options, and what it reports to.
#[derive(Default)]
pub struct LoadParams<'a> {
    /// `None`: a runtime of its own with default parameters.
    pub runtime: Option<Arc<Runtime>>,
    pub options: LoadOptions<'a>,
    /// Instruction set of the CPU; `None`: the fastest. Callers of the C interface have no choice.
    pub isa: Option<Isa>,
    /// Called with bytes done and in all; false stops the load.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
    pub cancel: Option<&'a Cancel>,
}

impl<'a> From<LoadOptions<'a>> for LoadParams<'a> {
    fn from(options: LoadOptions<'a>) -> LoadParams<'a> {
        LoadParams { options, ..LoadParams::default() }
    }
}
