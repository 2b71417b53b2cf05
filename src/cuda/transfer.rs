//! Transfer of values between the GPUs that execute consecutive parts of a program.
//!
//! Copies are queued: an event follows the source's work, and the destination's stream waits for it. Copies go directly
//! from device to device, or through pinned memory if the devices have no peer access. A transfer carries one set of
//! values at a time: the source may send again only after the host, or a transfer back, has waited for the destination.

use std::sync::Arc;

use super::executor::CudaExecutor;
use super::launch::{Context, Event, PinnedBuffer};
use crate::error::{Error, Result, try_vec};
use crate::gpu::{GpuExecutor, Transfer};
use crate::graph::op::TensorId;

pub struct CudaTransfer {
    /// Recorded after the work of the source.
    ready: Event,
    /// Intermediate pinned memory; `None` for direct copies.
    via: Option<PinnedBuffer>,
}

/// Offset in the source's buffer, offset in the destination's buffer, and bytes.
type Piece = (usize, usize, usize);

impl Transfer for CudaTransfer {
    fn hand_on(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor, tensors: &[TensorId]) -> Result<()> {
        let (from, to) = (CudaExecutor::of(from)?, CudaExecutor::of(to)?);
        let mut pieces = try_vec("activations", tensors.len())?;
        for &tensor in tensors {
            let ((len, source), (room, target)) = (from.place(tensor), to.place(tensor));
            if len != room {
                return Err(Error::Mismatch(format!("{len} values of {tensor:?} exceed {room}")));
            }
            pieces.push((source, target, 4 * len));
        }
        self.queue(from, to, &pieces)
    }

    fn hand_tokens(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor) -> Result<()> {
        let (from, to) = (CudaExecutor::of(from)?, CudaExecutor::of(to)?);
        self.queue(from, to, &[(from.tokens(), to.tokens(), 4 * from.results())])
    }
}

impl CudaTransfer {
    /// Returns a transfer from one context to another for at most `bytes` bytes at a time.
    pub fn new(from: &Arc<Context>, to: &Arc<Context>, bytes: usize) -> Result<CudaTransfer> {
        let is_direct = Context::reach(to, from)?;
        let ready = from.enter()?.event(false)?;
        let via = if is_direct { None } else { Some(to.enter()?.alloc_pinned(bytes)?) };
        Ok(CudaTransfer { ready, via })
    }

    fn queue(&mut self, from: &CudaExecutor, to: &CudaExecutor, pieces: &[Piece]) -> Result<()> {
        let places = pieces.iter().scan(0, |end, (_, _, bytes)| Some(std::mem::replace(end, *end + bytes)));
        let current = from.context().enter()?;
        if let Some(via) = &self.via {
            for (&(source, _, bytes), at) in pieces.iter().zip(places.clone()) {
                current.fetch(from.stream(), via.at(at), from.buffer().at(source), bytes)?;
            }
        }
        current.record(from.stream(), &self.ready)?;
        drop(current);
        let current = to.context().enter()?;
        current.follow(to.stream(), &self.ready)?;
        for (&(source, target, bytes), at) in pieces.iter().zip(places) {
            match &self.via {
                Some(via) => current.upload(to.stream(), to.buffer().at(target), via.at(at), bytes)?,
                None => current.copy_from(to.stream(), to.buffer().at(target), from.buffer().at(source), bytes)?,
            }
        }
        Ok(())
    }
}
