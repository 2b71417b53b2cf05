//! What a head in a file of its own takes of the network that it drafts for: the inputs of some layers, which passes
//! keep for it, and the ends of the network that the head may lack, its table of embeddings and its own head.

use std::sync::Arc;

use super::executors::Executors;
use crate::cpu::threads::pool::Pool;
use crate::device::Backend;
use crate::error::Result;
use crate::graph::op::{Index, Op, TensorId};
use crate::graph::program::{Program, ProgramBuilder};
use crate::graph::step::StepLimits;

/// The program of a network that keeps the inputs of some layers, of all rows, and computes the same.
pub struct Observed {
    pub program: Arc<Program>,
    layers: Vec<usize>,
    states: Vec<TensorId>,
    pub executors: Executors,
}

impl Observed {
    /// Keeps the inputs of `layers`, `width` wide, beside those that are kept already, which stay the activations that
    /// they are. `None` where all of them are.
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

    /// The activation that is the input of a layer.
    pub fn states(&self, layer: usize) -> Option<TensorId> {
        self.layers.iter().position(|known| *known == layer).map(|i| self.states[i])
    }
}

/// A part of a network that remembers nothing, with executors of its own.
pub struct End {
    /// The program, and the device that has its weights, which may be one of several that have the network.
    pub program: Arc<Program>,
    pub backend: Backend,
    /// What it makes of tokens, or reads in their place.
    pub tensor: TensorId,
    pub limits: StepLimits,
    pub executors: Executors,
}

impl End {
    fn new(program: Program, tensor: TensorId, backend: &Backend, pool: &Arc<Pool>, limits: StepLimits) -> Option<End> {
        let (backend, program) = backend.of_program(&Arc::new(program)).ok()?;
        Some(End { program, backend, tensor, limits, executors: Executors::new(pool, limits, false) })
    }

    /// The rows of the table that a network begins with, as they are; `None` where it begins otherwise.
    pub fn embeddings(program: &Program, backend: &Backend, pool: &Arc<Pool>, max_tokens: usize) -> Option<End> {
        let Some(&Op::Embed { table, rows, index: index @ Index::Id, out, .. }) = program.ops.first() else {
            return None;
        };
        let mut b = ProgramBuilder::default();
        let out = b.tensor(program.width(out));
        b.push(Op::Embed { table, rows, index, scale: 1.0, out });
        End::new(b.finish(0, &[out]), out, backend, pool, StepLimits { max_tokens, max_outputs: 1 })
    }

    /// The head that a network ends with, for one row.
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
