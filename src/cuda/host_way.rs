//! The way of activations from a GPU to the host and back, within a step.
//!
//! Copies are queued in the executor's stream, by way of page-locked memory. The host waits for those of the inputs
//! alone, so that the device goes on with what was queued behind them. A way carries one set of values at a time: what
//! comes back is read by the device before it sends the next.

use super::executor::CudaExecutor;
use super::launch::{Event, PinnedBuffer};
use crate::error::{Error, Result};
use crate::graph::op::TensorId;

pub struct HostWay {
    /// Stands behind the copies to the host.
    ready: Event,
    down: PinnedBuffer,
    up: PinnedBuffer,
    /// Number of values that were sent to the host.
    sent: usize,
}

impl HostWay {
    /// A way for at most so many values to the host, and back.
    pub fn new(executor: &CudaExecutor, [down, up]: [usize; 2]) -> Result<HostWay> {
        let current = executor.context().enter()?;
        let bytes = |values: usize| values.saturating_mul(4);
        let (down, up) = (current.alloc_pinned(bytes(down))?, current.alloc_pinned(bytes(up))?);
        Ok(HostWay { ready: current.event(false)?, down, up, sent: 0 })
    }

    /// Queues copies of activations of the open step, one behind the other, and returns the number of their values.
    pub fn send(&mut self, executor: &CudaExecutor, tensors: &[TensorId]) -> Result<usize> {
        let current = executor.context().enter()?;
        self.sent = 0;
        for &tensor in tensors {
            let (len, offset) = executor.place(tensor);
            let to = (&self.down, 4 * self.sent);
            current.fetch(executor.stream(), to, (executor.buffer(), offset), 4 * len)?;
            self.sent += len;
        }
        current.record(executor.stream(), &self.ready)?;
        Ok(self.sent)
    }

    /// Waits for the values that were sent.
    pub fn receive(&self, executor: &CudaExecutor, out: &mut [f32]) -> Result<()> {
        if out.len() != self.sent {
            return Err(Error::BufferTooSmall { needed: self.sent, capacity: out.len() });
        }
        executor.context().enter()?.wait(&self.ready)?;
        let values = self.down.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
        Ok(())
    }

    /// Queues a copy of values to an activation.
    pub fn answer(&mut self, executor: &CudaExecutor, tensor: TensorId, values: &[f32]) -> Result<()> {
        let (len, offset) = executor.place(tensor);
        if values.len() != len {
            return Err(Error::invalid(format!("{} values for the {len} of {tensor:?}", values.len())));
        }
        self.up.bytes_mut().as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, v)| *to = v.to_le_bytes());
        let current = executor.context().enter()?;
        current.upload(executor.stream(), executor.buffer(), offset, &self.up, 0, 4 * len)
    }
}
