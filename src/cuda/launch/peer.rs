//! Calls that involve two contexts: one device accesses memory or waits for work of another.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use super::{Context, Current, DeviceBuffer, Event, Place, Status, Stream};
use crate::error::{Error, Result};

const ALREADY_ENABLED: Status = CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as Status;

impl Context {
    /// Enables direct copies from the memory of context `from` in streams of context `to`; returns false if the devices
    /// do not support them.
    pub fn reach(to: &Arc<Context>, from: &Context) -> Result<bool> {
        let id = |context: &Context| {
            let unavailable = |why| Error::DeviceUnavailable { device: context.device.clone(), why };
            context.driver.device(context.ordinal).map_err(unavailable)
        };
        let (here, there, current) = (id(to)?, id(from)?, to.enter()?);
        let mut can = 0;
        // SAFETY: the call writes one integer; both are devices of the driver.
        let status = unsafe { (to.driver.peer_query)(&mut can, here, there) };
        if status != 0 || can == 0 {
            return Ok(false);
        }
        // SAFETY: `from` is a live context; there are no flags.
        let status = unsafe { (current.driver().peer_enable)(from.raw, 0) };
        Ok([0, ALREADY_ENABLED].contains(&status))
    }
}

impl Current<'_> {
    /// Makes work that is queued in `stream` from now on wait for an event, possibly of another context.
    pub fn follow(&self, stream: &Stream, event: &Event) -> Result<()> {
        // SAFETY: a live stream and event; there are no flags.
        self.check(unsafe { (self.driver().stream_wait)(stream.raw, event.raw, 0) }, "cuStreamWaitEvent")
    }

    /// Queues a copy from a buffer of another context, which `Context::reach` must have enabled.
    pub fn copy_from(
        &self,
        stream: &Stream,
        to: Place<DeviceBuffer>,
        from: Place<DeviceBuffer>,
        bytes: usize,
    ) -> Result<()> {
        let contexts = [to.memory, from.memory].map(|memory| memory.context.raw);
        let ends = [to, from].map(|end| end.part(bytes));
        // SAFETY: both ends have that length and belong to these contexts.
        let status =
            unsafe { (self.driver().copy_from_peer)(ends[0], contexts[0], ends[1], contexts[1], bytes, stream.raw) };
        self.check(status, "cuMemcpyPeer")
    }
}
