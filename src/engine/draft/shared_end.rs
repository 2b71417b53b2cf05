//! The target's embedding table or output matrix, for a draft head that has none of its own.

use std::time::Duration;

use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::engine::cache::{CacheParams, state_spec};
use crate::engine::network::Network;
use crate::engine::network::observed::End;
use crate::error::{Error, Result, try_filled};

pub struct SharedEnd {
    /// The sequence of its steps, without a KV cache.
    sequence: Sequence,
    /// The rows that its steps return (embeddings) or read (hidden states).
    pub values: Vec<f32>,
    width: usize,
}

impl SharedEnd {
    pub fn new(end: &End, rows: usize) -> Result<SharedEnd> {
        let params = CacheParams { capacity: rows as u32, ..Default::default() };
        let sequence = end.backend.new_sequence(&state_spec(&end.program, 0, &params, end.limits))?;
        let width = end.program.width(end.tensor);
        Ok(SharedEnd { sequence, values: try_filled("hidden states", rows.saturating_mul(width), 0f32)?, width })
    }

    pub fn bytes(&self) -> u64 {
        self.sequence.host_bytes().saturating_add(4 * self.values.len() as u64)
    }

    /// Looks up the embeddings of tokens into `values`.
    pub fn embed(&mut self, network: &Network, tokens: &[u32]) -> Result<Duration> {
        let n = tokens.len() * self.width;
        let read = |end: &End, values: &mut [f32], executor: &mut Executor| executor.read(end.tensor, &mut values[..n]);
        self.run(network, &network.ends()[0], tokens, |_, _, _| Ok(()), read)
    }

    /// Computes the logits of the row in `values`.
    pub fn logits(&mut self, network: &Network, logits: &mut [f32]) -> Result<Duration> {
        let write = |end: &End, values: &[f32], executor: &mut Executor| executor.write(end.tensor, values);
        self.run(network, &network.ends()[1], &[0], write, |_, _, executor| executor.read_logits(0, logits))
    }

    /// Runs a step, too short to be paused, and returns its time. `write` and `read` get `values`.
    fn run(
        &mut self,
        network: &Network,
        end: &Option<End>,
        tokens: &[u32],
        write: impl FnOnce(&End, &[f32], &mut Executor) -> Result<()>,
        read: impl FnOnce(&End, &mut [f32], &mut Executor) -> Result<()>,
    ) -> Result<Duration> {
        let SharedEnd { sequence, values, .. } = self;
        let end = end.as_ref().ok_or_else(|| Error::invalid("the network has no such end"))?;
        let mut acquired =
            end.executors.acquire_unqueued(|limits| network.executor_on(&end.backend, &end.program, limits))?;
        let step = acquired.step();
        step.add(tokens, 1);
        if !step.run(&mut [sequence], &[], |executor| write(end, values, executor), &StepBudget::unlimited())? {
            return Err(Error::invalid("a step that was paused"));
        }
        read(end, values, &mut step.executor)?;
        Ok(step.time())
    }
}
