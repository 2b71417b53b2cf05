//! Transfer of activations from a GPU to the host and back, within a step.
//!
//! A kernel writes the host's inputs to pinned memory, so that no copy waits for the computation; results are copied
//! back in the executor's stream. The host waits only for its inputs, so that the device continues with work queued
//! after them. A transfer carries one set of values at a time: the device reads the results before it sends the next
//! inputs.

use std::sync::Arc;
use std::time::Instant;

use super::args::JoinArgs;
use super::executor::CudaExecutor;
use super::launch::{Context, Event, Grid, PinnedBuffer};
use crate::error::{Error, Result};
use crate::gpu::{Address, GpuExecutor, HostTransfer};
use crate::graph::op::TensorId;
use crate::graph::step_budget::StepBudget;

pub struct CudaHostTransfer {
    /// Recorded after the writes for the host.
    ready: Event,
    /// Joined rows of two activations.
    down: PinnedBuffer,
    up: PinnedBuffer,
    /// Number of rows that were sent to the host.
    rows: usize,
    /// The time at which the wait for the rows began; `None` while nothing waits.
    since: Option<Instant>,
}

impl CudaHostTransfer {
    /// Returns a transfer for at most `down` values to the host and `up` values back.
    pub fn new(context: &Arc<Context>, [down, up]: [usize; 2]) -> Result<CudaHostTransfer> {
        let current = context.enter()?;
        let bytes = |values: usize| values.saturating_mul(4);
        let (down, up) = (current.alloc_pinned(bytes(down))?, current.alloc_pinned(bytes(up))?);
        Ok(CudaHostTransfer { ready: current.event(false)?, down, up, rows: 0, since: None })
    }
}

impl HostTransfer for CudaHostTransfer {
    fn send(&mut self, executor: &dyn GpuExecutor, tensors: [TensorId; 2]) -> Result<usize> {
        let executor = CudaExecutor::of(executor)?;
        let current = executor.context().enter()?;
        let [(width, x), (tail_width, tail)] = tensors.map(|tensor| {
            let (_, offset) = executor.place(tensor);
            (executor.width(tensor), executor.buffer().address() + offset as Address)
        });
        let rows = executor.place(tensors[0]).0 / width.max(1);
        if rows * (width + tail_width) * 4 > self.down.len() {
            return Err(Error::invalid(format!("{rows} rows of {width} and {tail_width} values do not fit the host")));
        }
        let args = JoinArgs {
            x,
            tail,
            out: self.down.address(),
            heads: 1,
            part: width as u32,
            x_stride: width as u32,
            tail_width: tail_width as u32,
            by: 0,
        };
        let blocks = [rows as u32, (width + tail_width).div_ceil(1024) as u32, 1];
        current.launch(
            executor.stream(),
            executor.join(),
            Grid { blocks, threads: 256, shared: 0, early: false },
            &args,
        )?;
        current.record(executor.stream(), &self.ready)?;
        (self.rows, self.since) = (rows, None);
        Ok(rows)
    }

    fn receive(&mut self, executor: &dyn GpuExecutor, out: [&mut [f32]; 2], budget: &StepBudget) -> Result<bool> {
        let executor = CudaExecutor::of(executor)?;
        let [width, tail_width] = [&*out[0], &*out[1]].map(|out| out.len() / self.rows.max(1));
        if !executor.context().enter()?.wait_within(&self.ready, &mut self.since, budget)? {
            return Ok(false);
        }
        let values = self.down.bytes().as_chunks().0;
        let [x, tail] = out;
        let rows = x.chunks_exact_mut(width.max(1)).zip(tail.chunks_exact_mut(tail_width.max(1)));
        for ((x, tail), values) in rows.zip(values.chunks_exact((width + tail_width).max(1))) {
            x.iter_mut().chain(tail).zip(values).for_each(|(out, bytes)| *out = f32::from_le_bytes(*bytes));
        }
        Ok(true)
    }

    fn send_back(&mut self, executor: &dyn GpuExecutor, tensor: TensorId, values: &[f32]) -> Result<()> {
        let executor = CudaExecutor::of(executor)?;
        let (len, offset) = executor.place(tensor);
        if values.len() != len {
            return Err(Error::invalid(format!("{tensor:?} needs {len} values, {} are given", values.len())));
        }
        self.up.bytes_mut().as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, v)| *to = v.to_le_bytes());
        let current = executor.context().enter()?;
        current.upload(executor.stream(), executor.buffer().at(offset), self.up.at(0), 4 * len)
    }
}
