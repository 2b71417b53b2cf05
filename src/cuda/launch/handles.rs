//! Objects of a context: memory, streams, events, modules and their kernels, CUDA graphs. Each frees its handle once.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{CUevent, CUfunction, CUgraphExec, CUmodule, CUstream};

use super::Context;
use crate::cuda::probe::{Driver, Status};
use crate::gpu::Address;

/// Frees a handle in its context; ignores failures, which no caller could handle.
fn release(context: &Arc<Context>, free: impl FnOnce(&Driver) -> Status) {
    if context.has_timed_out.load(Ordering::Relaxed) {
        return;
    }
    if let Ok(_current) = context.enter_anyway() {
        free(&context.driver);
    }
}

/// A location in device memory, `DeviceBuffer`, or in pinned host memory, `PinnedBuffer`.
pub struct Place<'a, Memory> {
    pub(super) memory: &'a Memory,
    pub(super) offset: usize,
}

/// Device memory.
pub struct DeviceBuffer {
    pub(super) context: Arc<Context>,
    pub(super) address: Address,
    pub(super) bytes: usize,
}

impl DeviceBuffer {
    pub fn address(&self) -> Address {
        self.address
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the location `offset` bytes from the start.
    pub fn at(&self, offset: usize) -> Place<'_, DeviceBuffer> {
        Place { memory: self, offset }
    }

    /// Returns the address of `bytes` bytes at `offset`; panics if they are out of bounds.
    pub(super) fn part(&self, offset: usize, bytes: usize) -> Address {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside a device buffer");
        self.address + offset as Address
    }
}

impl<'a, Memory> Place<'a, Memory> {
    /// Returns the location some bytes after this one.
    pub fn after(&self, bytes: usize) -> Place<'a, Memory> {
        Place { memory: self.memory, offset: self.offset + bytes }
    }
}

impl Place<'_, DeviceBuffer> {
    /// Returns the address of `bytes` bytes from here on; panics if they are out of bounds.
    pub(super) fn part(&self, bytes: usize) -> Address {
        self.memory.part(self.offset, bytes)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        self.context.taken[0].fetch_sub(self.bytes.max(1) as u64, Ordering::Relaxed);
        if !self.context.plans {
            // SAFETY: `address` came from `cuMemAlloc`; streams that use it are dropped first, and their drop waits.
            release(&self.context, |d| unsafe { (d.memory_free)(self.address) });
        }
    }
}

/// Pinned host memory, which the device accesses at the same address: the driver maps its allocations wherever devices
/// and host share an address space, as in 64-bit processes.
pub struct PinnedBuffer {
    pub(super) context: Arc<Context>,
    pub(super) data: *mut u8,
    pub(super) bytes: usize,
}

// SAFETY: plain memory without thread affinity.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Returns the memory; no copy or kernel may be using it, which `Current::synchronize` ensures.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `data` has `bytes` bytes and was initialized at creation.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the address for kernels.
    pub fn address(&self) -> Address {
        self.data as Address
    }

    /// Returns the location `offset` bytes from the start.
    pub fn at(&self, offset: usize) -> Place<'_, PinnedBuffer> {
        Place { memory: self, offset }
    }

    /// Returns the address of `bytes` bytes at `offset`; panics if they are out of bounds.
    pub(super) fn part(&self, offset: usize, bytes: usize) -> *mut c_void {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside of page-locked memory");
        self.data.wrapping_add(offset).cast()
    }
}

impl Place<'_, PinnedBuffer> {
    /// Returns the address of `bytes` bytes from here on; panics if they are out of bounds.
    pub(super) fn part(&self, bytes: usize) -> *mut c_void {
        self.memory.part(self.offset, bytes)
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        self.context.taken[1].fetch_sub(self.bytes.max(1) as u64, Ordering::Relaxed);
        // SAFETY: `data` came from `cuMemHostAlloc`; streams that use it are dropped first, and their drop waits.
        release(&self.context, |d| unsafe { (d.host_free)(self.data.cast()) });
    }
}

/// A queue of work that the device runs in order.
pub struct Stream {
    pub(super) context: Arc<Context>,
    pub(super) raw: CUstream,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        // Destroying the stream would not wait for its work, whose memory may be freed next.
        if let Ok(current) = self.context.enter_anyway() {
            let _ = current.synchronize(self);
        }
        // SAFETY: `raw` is a live stream, dropped once.
        release(&self.context, |d| unsafe { (d.stream_destroy)(self.raw) });
    }
}

/// A point in a stream that can be waited for.
pub struct Event {
    pub(super) context: Arc<Context>,
    pub(super) raw: CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live event, dropped once.
        release(&self.context, |d| unsafe { (d.event_destroy)(self.raw) });
    }
}

/// An image of compiled kernels, loaded into a context.
pub struct Module {
    pub(super) context: Arc<Context>,
    pub(super) raw: CUmodule,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live module; its kernels are dropped with the backend that owns both.
        release(&self.context, |d| unsafe { (d.module_unload)(self.raw) });
    }
}

/// A kernel with a single parameter of type `A`, by value.
pub struct CudaKernel<A> {
    pub(super) raw: CUfunction,
    pub(super) name: &'static CStr,
    pub(super) _args: PhantomData<fn(A)>,
}

// SAFETY: functions may be used from any thread.
unsafe impl<A> Send for CudaKernel<A> {}
// SAFETY: as above.
unsafe impl<A> Sync for CudaKernel<A> {}

impl<A> CudaKernel<A> {
    pub fn name(&self) -> &'static CStr {
        self.name
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub blocks: [u32; 3],
    pub threads: u32,
    /// Dynamic shared memory per block in bytes.
    pub shared: u32,
    /// True if the kernel may start before the previous one has ended (programmatic dependent launch); the kernel
    /// itself waits before it reads results.
    pub early: bool,
}

/// An executable CUDA graph.
pub struct Graph {
    pub(super) context: Arc<Context>,
    pub(super) raw: CUgraphExec,
}

// SAFETY: graphs may be used from any thread, one at a time, which `&mut` in `Current::replay` ensures.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live executable graph, dropped once.
        release(&self.context, |d| unsafe { (d.graph_exec_destroy)(self.raw) });
    }
}
