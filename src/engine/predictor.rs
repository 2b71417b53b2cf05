//! The part of a model that predicts a further token, or a model that is such a part of another one: its program, and
//! executors of it.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model::{self, PredictorOf};

pub struct Predictor {
    pub program: Arc<Program>,
    pub of: PredictorOf,
    /// The hidden states that the program reads and makes, and their width.
    pub input: TensorId,
    pub result: TensorId,
    pub width: usize,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl Predictor {
    pub fn new(network: model::Predictor, pool: &Arc<Pool>, max_tokens: usize) -> Predictor {
        let model::Predictor { program, of, input, result } = network;
        let limits = StepLimits { max_tokens, max_outputs: 1 };
        Predictor {
            width: program.width(input),
            program: Arc::new(program),
            of,
            input,
            result,
            limits,
            executors: Executors::new(pool, limits, false),
        }
    }

    /// True for a head in a file of its own.
    pub fn is_of_other(&self) -> bool {
        !matches!(self.of, PredictorOf::Same(_))
    }
}
