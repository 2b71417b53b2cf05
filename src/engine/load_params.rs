//! Parameters of a model load.

use std::sync::Arc;

use super::cancel::Cancel;
use super::runtime::Runtime;
use crate::cpu::kernels::Isa;
use crate::graph::load_options::LoadOptions;

/// Options of a load, and its callbacks.
#[derive(Default)]
pub struct LoadParams<'a> {
    /// `None`: a new runtime with default parameters.
    pub runtime: Option<Arc<Runtime>>,
    pub options: LoadOptions<'a>,
    /// Instruction set of the CPU; `None`: the fastest. Not available in the C interface.
    pub isa: Option<Isa>,
    /// Progress callback with bytes done and total; false stops the load.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
    pub cancel: Option<&'a Cancel>,
}

impl<'a> From<LoadOptions<'a>> for LoadParams<'a> {
    fn from(options: LoadOptions<'a>) -> LoadParams<'a> {
        LoadParams { options, ..LoadParams::default() }
    }
}
