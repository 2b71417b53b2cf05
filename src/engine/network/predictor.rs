//! The MTP layer of a model, or a draft head for another model: its program, its device and its executors.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::device::Backend;
use crate::error::Result;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model::{self, PredictorOf};

pub struct Predictor {
    /// The program, and the device that has its weights, possibly one of several of the model.
    pub program: Arc<Program>,
    pub backend: Backend,
    pub of: PredictorOf,
    /// Hidden states that the program reads, hidden states that it returns, and their width.
    pub input: TensorId,
    pub result: TensorId,
    pub width: usize,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl Predictor {
    /// `backend`: the devices of the model.
    pub fn new(network: model::Predictor, backend: &Backend, pool: &Arc<Pool>, max_tokens: usize) -> Result<Predictor> {
        let model::Predictor { program, of, input, result } = network;
        let limits = StepLimits { max_tokens, max_outputs: 1 };
        let (backend, program) = backend.of_program(&Arc::new(program))?;
        let (width, executors) = (program.width(input), Executors::new(pool, limits, false));
        Ok(Predictor { program, backend, of, input, result, width, limits, executors })
    }

    /// True for a draft head in a file of its own.
    pub fn is_of_other(&self) -> bool {
        !matches!(self.of, PredictorOf::Same(_))
    }
}
