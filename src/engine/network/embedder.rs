//! The embedding part of a model: the network up to the hidden states, and its executors.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::error::{Error, Result};
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model::pooling::{EmbeddingHead, Pooling};

/// A program that returns hidden states, and its executors.
pub struct Embedder {
    pub program: Arc<Program>,
    /// The hidden states of all tokens.
    pub result: TensorId,
    pub head: EmbeddingHead,
    /// True for bidirectional attention, which needs a whole text in one step.
    whole: bool,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl Embedder {
    /// `pauses`: true if the CPU executes steps, at least in part.
    pub fn new(
        program: Program,
        head: EmbeddingHead,
        pool: &Arc<Pool>,
        max_tokens: usize,
        pauses: bool,
    ) -> Result<Embedder> {
        let &[result] = &program.kept[..] else { return Err(Error::invalid("the network has no result")) };
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

    /// Returns the number of bytes of the layers after pooling.
    pub fn bytes(&self) -> u64 {
        self.head.bytes()
    }

    /// Returns the requested pooling, or the model's. Fails if the model has none or cannot rank.
    pub fn pooling(&self, asked: Option<Pooling>) -> Result<Pooling> {
        let pooling = asked.or(self.head.pooling);
        let pooling = pooling.ok_or_else(|| Error::unsupported("the model names no pooling: choose one"))?;
        match &self.head.ranker {
            None if pooling == Pooling::Rank => Err(Error::unsupported("the model has no classifier that ranks")),
            _ => Ok(pooling),
        }
    }

    /// Returns the number of values of a vector.
    pub fn width(&self, pooling: Pooling) -> usize {
        let layers = match (pooling, &self.head.ranker) {
            (Pooling::None, _) => &[],
            (Pooling::Rank, Some(ranker)) => &ranker.layers[..],
            _ => &self.head.dense[..],
        };
        layers.last().map_or(self.head.hidden, |layer| layer.rows)
    }

    /// Step limits for a call whose longest text has `longest` tokens.
    pub fn limits_for(&self, longest: usize) -> StepLimits {
        match self.whole && longest > self.limits.max_tokens {
            true => StepLimits { max_tokens: longest.next_multiple_of(32), ..self.limits },
            false => self.limits,
        }
    }
}
