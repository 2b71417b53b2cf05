//! The parts of a target network that a draft head from a separate file reads: the inputs of some layers, which passes
//! keep, and the embedding table and the output matrix if the head's file has none.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::device::Backend;
use crate::error::Result;
use crate::graph::op::{Index, Op, TensorId};
use crate::graph::program::{Program, ProgramBuilder};
use crate::graph::step::StepLimits;

/// The program of a network that also keeps the inputs of some layers, for all rows; its results are the same.
pub struct Observed {
    pub program: Arc<Program>,
    layers: Vec<usize>,
    states: Vec<TensorId>,
    pub executors: Executors,
}

impl Observed {
    /// Returns the program that also keeps the inputs of `layers`, `width` values of each. Activations that `before`
    /// keeps have the same ids. Returns `None` if `before` already keeps all these inputs.
    pub fn new(
        program: &Program,
        before: Option<&Observed>,
        layers: &[usize],
        width: usize,
        executors: impl FnOnce() -> Executors,
    ) -> Result<Option<Observed>> {
        let mut all = before.map_or(Vec::new(), |before| before.layers.clone());
        let known = all.len();
        for layer in layers {
            if !all.contains(layer) {
                all.push(*layer);
            }
        }
        if all.len() == known {
            return Ok(None);
        }
        let (program, states) = program.observing(&all, width)?;
        Ok(Some(Observed { program: Arc::new(program), layers: all, states, executors: executors() }))
    }

    /// The activation that is the input of `layer`.
    pub fn states(&self, layer: usize) -> Option<TensorId> {
        self.layers.iter().position(|known| *known == layer).map(|i| self.states[i])
    }
}

/// A stateless part of a network (embedding table or output matrix), with executors of its own.
pub struct End {
    /// The program, and the device that has its weights, possibly one of several of the network.
    pub program: Arc<Program>,
    pub backend: Backend,
    /// The embeddings that the program returns, or the hidden states that it reads.
    pub tensor: TensorId,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl End {
    fn new(program: Program, tensor: TensorId, backend: &Backend, pool: &Arc<Pool>, limits: StepLimits) -> Option<End> {
        let (backend, program) = backend.of_program(&Arc::new(program)).ok()?;
        Some(End { program, backend, tensor, limits, executors: Executors::new(pool, limits, false) })
    }

    /// Returns the embedding table, unscaled; `None` if the network does not begin with one.
    pub fn embeddings(program: &Program, backend: &Backend, pool: &Arc<Pool>, max_tokens: usize) -> Option<End> {
        let Some(&Op::Embed { table, rows, index: index @ Index::Id, out, .. }) = program.ops.first() else {
            return None;
        };
        let mut b = ProgramBuilder::default();
        let out = b.tensor(program.width(out));
        b.push(Op::Embed { table, rows, index, scale: 1.0, out });
        End::new(b.finish(0, &[out]), out, backend, pool, StepLimits { max_tokens, max_outputs: 1 })
    }

    /// Returns the output matrix, for one row.
    pub fn head(program: &Program, backend: &Backend, pool: &Arc<Pool>) -> Option<End> {
        let mut head = program.ops.last().filter(|op| matches!(op, Op::Logits { .. }))?.clone();
        let mut b = ProgramBuilder::default();
        let mut input = None;
        head.map_tensors(|x| *input.get_or_insert_with(|| b.tensor(program.width(x))));
        let input = input?;
        b.input(input);
        b.push(head);
        End::new(b.finish(program.vocab, &[]), input, backend, pool, StepLimits { max_tokens: 1, max_outputs: 1 })
    }
}
