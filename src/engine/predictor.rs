//! The part of a model that predicts a further token (multi-token prediction): its program, and executors of it.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model;

pub struct Predictor {
    pub program: Arc<Program>,
    /// Width of a hidden state.
    pub width: usize,
    /// The hidden states that the model's own program keeps of all tokens, and those that this one reads and makes.
    pub states: TensorId,
    pub input: TensorId,
    pub result: TensorId,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl Predictor {
    pub fn new(network: model::Predictor, pool: &Arc<Pool>, max_tokens: usize) -> Predictor {
        let model::Predictor { program, states, input, result } = network;
        let limits = StepLimits { max_tokens, max_outputs: 1 };
        Predictor {
            width: program.width(input),
            program: Arc::new(program),
            states,
            input,
            result,
            limits,
            executors: Executors::new(pool, limits, false),
        }
    }
}
