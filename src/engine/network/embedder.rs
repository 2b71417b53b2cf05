//! The parts of a model that make embeddings: its network up to the hidden states, and executors of it.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::error::{Error, Result};
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model::pooling::{EmbeddingHead, Pooling};

/// A network whose results are hidden states, and the executors that compute them.
pub struct Embedder {
    pub program: Arc<Program>,
    /// The hidden states of all tokens.
    pub result: TensorId,
    pub head: EmbeddingHead,
    /// Tokens see later ones too, so that a text has to be in one step.
    whole: bool,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl Embedder {
    /// `pauses`: the CPU executes steps, or a part of them.
    pub fn new(
        program: Program,
        head: EmbeddingHead,
        pool: &Arc<Pool>,
        max_tokens: usize,
        pauses: bool,
    ) -> Result<Embedder> {
        let &[result] = &program.kept[..] else { return Err(Error::invalid("a network without a result")) };
        let limits = StepLimits { max_tokens, max_outputs: 1 };
        let whole = !program.is_causal();
        Ok(Embedder {
            program: Arc::new(program),
            result,
            head,
            whole,
            limits,
            executors: Executors::new(pool, limits, pauses),
        })
    }

    /// Bytes of the layers after the pooling.
    pub fn bytes(&self) -> u64 {
        self.head.bytes()
    }

    /// The pooling of a call, which the model can do.
    pub fn pooling(&self, asked: Option<Pooling>) -> Result<Pooling> {
        let pooling = asked.or(self.head.pooling);
        let pooling = pooling.ok_or_else(|| Error::unsupported("the model names no pooling: choose one"))?;
        match &self.head.ranker {
            None if pooling == Pooling::Rank => Err(Error::unsupported("the model has no classifier that ranks")),
            _ => Ok(pooling),
        }
    }

    /// Values of a vector.
    pub fn width(&self, pooling: Pooling) -> usize {
        let layers = match (pooling, &self.head.ranker) {
            (Pooling::None, _) => &[],
            (Pooling::Rank, Some(ranker)) => &ranker.layers[..],
            _ => &self.head.dense[..],
        };
        layers.last().map_or(self.head.hidden, |layer| layer.rows)
    }

    /// The room of the steps of a call whose longest text is given.
    pub fn limits_for(&self, longest: usize) -> StepLimits {
        match self.whole && longest > self.limits.max_tokens {
            true => StepLimits { max_tokens: longest.next_multiple_of(32), ..self.limits },
            false => self.limits,
        }
    }
}
