//! Calls into the driver that act on a device: contexts, memory, streams, launches, graphs.
//!
//! Owns the raw handles and frees each exactly once. Relies on `probe` for functions that exist. A call that needs a
//! current context is a method of `Current`, which only `Context::enter` creates and whose drop restores the host's own
//! context. Device addresses are plain numbers: a wrong one is a device fault, which the driver reports and which costs
//! the model its context; it never affects host memory.
#![allow(unsafe_code)]

mod handles;
mod pace;
mod peer;

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUcontext, CUevent_flags, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchConfig, CUresult, CUstream_flags, CUstreamCaptureMode,
};

pub use handles::{CudaKernel, DeviceBuffer, Event, Graph, Grid, Module, PinnedBuffer, Place, Stream};
use pace::Pace;

use super::probe::{CaptureMode, Driver, MEMORY, Properties, Status};
use crate::error::{Error, Result};
use crate::gpu::Address;
use crate::gpu::arena::ALIGN;
use crate::gpu::verdict::{Verdict, lock};
use crate::graph::step_budget::StepBudget;
use crate::os::without_signals;

const OUT_OF_MEMORY: Status = CUresult::CUDA_ERROR_OUT_OF_MEMORY as Status;
const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned memory for the devices of all contexts.
const PORTABLE: c_uint = 1;

/// Percentage of an SM's on-chip memory that kernels request as shared memory.
const CARVEOUT: c_int = 100;

/// Error text for a call that succeeded without a result.
const NOTHING: &str = "succeeded and gave nothing";

/// Required alignment of pinned memory.
const HOST_ALIGN: Address = 16;

/// Fake base address of allocations in a plan.
const PLANNED: Address = 1 << 40;

/// Capture mode that does not restrict other calls.
const RELAXED: CaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as CaptureMode;

/// A context of one device. Each model has its own context on each of its devices, so that a fault affects no other
/// model.
pub struct Context {
    driver: Arc<Driver>,
    raw: CUcontext,
    pub properties: Properties,
    pub ordinal: i32,
    verdict: Arc<Mutex<Verdict>>,
    /// Device name for messages, such as `cuda:0`.
    pub device: String,
    /// The failure after which no call can succeed.
    lost: OnceLock<String>,
    /// True if a wait has timed out: a call that frees memory might never return, and the device may still write to the
    /// memory, so nothing is freed.
    has_timed_out: AtomicBool,
    /// True for a plan: device memory is counted and not allocated, and nothing runs.
    plans: bool,
    /// Bytes of device memory, and of pinned memory.
    taken: [AtomicU64; 2],
    pace: Pace,
}

// SAFETY: the driver's functions may be called from any thread, and a context may be current to several threads at
// once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Proof that a context is current to this thread.
pub struct Current<'a> {
    context: &'a Arc<Context>,
    _relaxed: Relaxed<'a>,
}

/// Sets the thread's capture mode to relaxed until dropped: the host may be capturing its own streams, and calls here
/// must neither fail because of that nor invalidate the capture.
struct Relaxed<'a> {
    driver: &'a Driver,
    own: CaptureMode,
    // The mode is a property of the thread, like the current context.
    _thread: PhantomData<*const ()>,
}

impl<'a> Relaxed<'a> {
    fn new(driver: &'a Driver) -> Relaxed<'a> {
        let mut own = RELAXED;
        // SAFETY: exchanges one integer with the thread's own; if it fails, `drop` restores ours.
        unsafe { (driver.exchange_capture_mode)(&mut own) };
        Relaxed { driver, own, _thread: PhantomData }
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        // SAFETY: undoes `new` on this thread; the type cannot change threads.
        unsafe { (self.driver.exchange_capture_mode)(&mut self.own) };
    }
}

impl Context {
    /// Creates a context. `plans`: only reports the memory that would be allocated.
    pub fn new(driver: &Arc<Driver>, ordinal: i32, plans: bool) -> Result<Arc<Context>> {
        let device = format!("cuda:{ordinal}");
        let unavailable = |why| Error::DeviceUnavailable { device: device.clone(), why };
        let verdict = driver.verdicts.of(ordinal);
        if let Some(why) = lock(&verdict).failed.clone() {
            return Err(unavailable(why));
        }
        let properties = driver.properties(ordinal).map_err(unavailable)?;
        let id = driver.device(ordinal).map_err(unavailable)?;
        let mut raw = ptr::null_mut();
        let relaxed = Relaxed::new(driver);
        // SAFETY: writes one handle and makes the new context current, which the pop below undoes.
        let status = without_signals(|| unsafe { (driver.context_create)(&mut raw, 0, id) });
        driver.check(status, "cuCtxCreate").map_err(unavailable)?;
        // SAFETY: writes one handle.
        unsafe { (driver.context_pop)(&mut ptr::null_mut()) };
        drop(relaxed);
        if raw.is_null() {
            return Err(unavailable(format!("cuCtxCreate {NOTHING}")));
        }
        Ok(Arc::new(Context {
            driver: driver.clone(),
            raw,
            properties,
            ordinal,
            verdict,
            device,
            lost: OnceLock::new(),
            has_timed_out: AtomicBool::new(false),
            plans,
            taken: [const { AtomicU64::new(0) }; 2],
            pace: Pace::default(),
        }))
    }

    /// Makes the context current until the result is dropped; fails after a fault.
    pub fn enter(self: &Arc<Self>) -> Result<Current<'_>> {
        match self.lost.get() {
            Some(why) => Err(Error::DeviceLost { device: self.device.clone(), why: why.clone() }),
            None => self.enter_anyway(),
        }
    }

    fn enter_anyway(self: &Arc<Self>) -> Result<Current<'_>> {
        // SAFETY: `raw` is a live context.
        self.check(unsafe { (self.driver.context_push)(self.raw) }, "cuCtxPushCurrent")?;
        Ok(Current { context: self, _relaxed: Relaxed::new(&self.driver) })
    }

    /// Returns this process's self-test results and measurements of the device.
    pub fn verdict(&self) -> MutexGuard<'_, Verdict> {
        lock(&self.verdict)
    }

    pub fn driver_version(&self) -> i32 {
        self.driver.version
    }

    pub fn plans(&self) -> bool {
        self.plans
    }

    /// True if a wait has timed out.
    pub fn has_timed_out(&self) -> bool {
        self.has_timed_out.load(Ordering::Relaxed)
    }

    /// Returns the driver version and the device's UUID.
    pub fn identity(&self) -> Option<(i32, [u8; 16])> {
        Some((self.driver.version, self.driver.uuid(self.ordinal)?))
    }

    /// Returns the number of bytes that are allocated or planned: device memory, and pinned memory.
    pub fn taken(&self) -> [u64; 2] {
        self.taken.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Polls `query` until the work has ended; returns false if `gives_up` returns true first. After the driver's time
    /// limit the context is lost.
    fn wait(
        &self,
        call: &str,
        started: Instant,
        gives_up: &dyn Fn() -> bool,
        query: impl Fn(&Driver) -> Status,
    ) -> Result<bool> {
        let (limit, predicted) = (self.driver.time_limit(), self.pace.predicted());
        loop {
            let status = query(&self.driver);
            if status != NOT_READY {
                self.pace.record(started.elapsed());
                return self.check(status, call).map(|()| true);
            }
            match started.elapsed() {
                waited if waited > limit => {
                    self.has_timed_out.store(true, Ordering::Relaxed);
                    return Err(self.lose(format!("no answer to {call} within {limit:?}")));
                }
                _ if gives_up() => return Ok(false),
                waited => match pace::sleep(waited, predicted) {
                    Some(time) => std::thread::sleep(time),
                    None => std::thread::yield_now(),
                },
            }
        }
    }

    /// Turns a failure into the loss of the context: after a fault every later call fails as well, and previously
    /// queued work may or may not have been executed.
    fn check(&self, status: Status, call: &str) -> Result<()> {
        self.driver.check(status, call).map_err(|why| self.lose(why))
    }

    /// Marks the context as lost and returns the error; the first reason is kept.
    pub(super) fn lose(&self, why: String) -> Error {
        let why = self.lost.get_or_init(|| why).clone();
        Error::DeviceLost { device: self.device.clone(), why }
    }

    fn unavailable(&self, why: String) -> Error {
        Error::DeviceUnavailable { device: self.device.clone(), why }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !*self.has_timed_out.get_mut() {
            let _relaxed = Relaxed::new(&self.driver);
            // SAFETY: every object in the context holds an `Arc` of it, so this is the last use.
            unsafe { (self.driver.context_destroy)(self.raw) };
        }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        // SAFETY: undoes `enter` on this thread; the type cannot change threads.
        unsafe { (self.context.driver.context_pop)(&mut ptr::null_mut()) };
    }
}

impl Current<'_> {
    fn driver(&self) -> &Driver {
        &self.context.driver
    }

    fn check(&self, status: Status, call: &str) -> Result<()> {
        self.context.check(status, call)
    }

    /// Checks a handle that a call returned.
    fn handle<T>(&self, status: Status, call: &str, handle: *mut T) -> Result<*mut T> {
        self.check(status, call)?;
        if handle.is_null() { Err(self.context.lose(format!("{call} {NOTHING}"))) } else { Ok(handle) }
    }

    /// Fails if an address that a call returned is impossible.
    fn check_address(&self, call: &str, address: Address, align: Address) -> Result<()> {
        match address {
            0 => Err(self.context.lose(format!("{call} {NOTHING}"))),
            _ if address.is_multiple_of(align) => Ok(()),
            _ => Err(self.context.lose(format!("{call} gave {address:#x}, which is not aligned to {align}"))),
        }
    }

    /// Returns the number of free bytes of the device.
    pub fn memory_free(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        self.check(unsafe { (self.driver().memory_info)(&mut free, &mut total) }, "cuMemGetInfo")?;
        if free > total || !MEMORY.contains(&(total as u64)) {
            return Err(self.context.lose(format!("cuMemGetInfo told {free} free bytes of {total}")));
        }
        Ok(free as u64)
    }

    /// Allocates uninitialized device memory.
    pub fn alloc(&self, what: &str, bytes: usize) -> Result<DeviceBuffer> {
        let mut address = PLANNED;
        if !self.context.plans {
            address = 0;
            // SAFETY: writes one address.
            let status = unsafe { (self.driver().memory_alloc)(&mut address, bytes.max(1)) };
            if status == OUT_OF_MEMORY {
                let device = self.context.device.clone();
                return Err(Error::DeviceOutOfMemory { device, what: what.to_owned(), bytes: bytes as u64 });
            }
            self.check(status, "cuMemAlloc")?;
            self.check_address("cuMemAlloc", address, ALIGN as Address)?;
        }
        self.context.taken[0].fetch_add(bytes.max(1) as u64, Ordering::Relaxed);
        Ok(DeviceBuffer { context: self.context.clone(), address, bytes })
    }

    /// Allocates zeroed pinned memory.
    pub fn alloc_pinned(&self, bytes: usize) -> Result<PinnedBuffer> {
        let mut data = ptr::null_mut();
        // SAFETY: writes one address.
        let status = unsafe { (self.driver().host_alloc)(&mut data, bytes.max(1), PORTABLE) };
        if status == OUT_OF_MEMORY {
            return Err(Error::OutOfMemory { what: "page-locked memory", bytes: bytes as u64 });
        }
        self.check(status, "cuMemHostAlloc")?;
        self.check_address("cuMemHostAlloc", data as Address, HOST_ALIGN)?;
        self.context.taken[1].fetch_add(bytes.max(1) as u64, Ordering::Relaxed);
        // SAFETY: the driver allocated `bytes` bytes.
        unsafe { ptr::write_bytes(data.cast::<u8>(), 0, bytes.max(1)) };
        Ok(PinnedBuffer { context: self.context.clone(), data: data.cast(), bytes })
    }

    pub fn stream(&self) -> Result<Stream> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle.
        let status = unsafe { (self.driver().stream_create)(&mut raw, flags) };
        Ok(Stream { context: self.context.clone(), raw: self.handle(status, "cuStreamCreate", raw)? })
    }

    /// Waits for the end of all work in `stream` and reports its errors.
    pub fn synchronize(&self, stream: &Stream) -> Result<()> {
        // SAFETY: a live stream.
        let query = |driver: &Driver| unsafe { (driver.stream_query)(stream.raw) };
        self.context.wait("cuStreamQuery", Instant::now(), &|| false, query).map(|_| ())
    }

    /// Creates an event; `timed` events cost more.
    pub fn event(&self, timed: bool) -> Result<Event> {
        let flags = if timed { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle.
        let status = unsafe { (self.driver().event_create)(&mut raw, flags as c_uint) };
        Ok(Event { context: self.context.clone(), raw: self.handle(status, "cuEventCreate", raw)? })
    }

    /// Records `event` after all work that is in `stream` now.
    pub fn record(&self, stream: &Stream, event: &Event) -> Result<()> {
        // SAFETY: a live event and stream.
        self.check(unsafe { (self.driver().event_record)(event.raw, stream.raw) }, "cuEventRecord")
    }

    /// Returns the time between two completed timed events.
    pub fn elapsed(&self, from: &Event, to: &Event) -> Result<Duration> {
        let mut milliseconds = 0.0;
        // SAFETY: writes one number; two live events.
        let status = unsafe { (self.driver().event_elapsed)(&mut milliseconds, from.raw, to.raw) };
        self.check(status, "cuEventElapsedTime")?;
        Ok(Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default())
    }

    /// Waits for the work before `event`, and reports its errors.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.wait_until(event, Instant::now(), &|| false).map(|_| ())
    }

    /// Like `wait`, but within `budget`; returns false if the work is still running. `since` is the time at which the
    /// wait began, possibly in an earlier call.
    pub fn wait_within(&self, event: &Event, since: &mut Option<Instant>, budget: &StepBudget) -> Result<bool> {
        let started = *since.get_or_insert_with(Instant::now);
        let has_ended = self.wait_until(event, started, &|| budget.patience().is_none())?;
        *since = since.filter(|_| !has_ended);
        Ok(has_ended)
    }

    fn wait_until(&self, event: &Event, started: Instant, gives_up: &dyn Fn() -> bool) -> Result<bool> {
        // SAFETY: a live event.
        let query = |driver: &Driver| unsafe { (driver.event_query)(event.raw) };
        self.context.wait("cuEventQuery", started, gives_up, query)
    }

    /// Queues a copy of `bytes` bytes of `from`, which must not change until the stream is synchronized.
    pub fn upload(
        &self,
        stream: &Stream,
        to: Place<DeviceBuffer>,
        from: Place<PinnedBuffer>,
        bytes: usize,
    ) -> Result<()> {
        let (to, from) = (to.part(bytes), from.part(bytes));
        // SAFETY: both ends have that length, and live at least until the stream is dropped.
        let status = unsafe { (self.driver().copy_to_device)(to, from.cast_const(), bytes, stream.raw) };
        self.check(status, "cuMemcpyHtoD")
    }

    /// Copies bytes that `fill` writes to the device, piece by piece, and waits. The bytes go through `via`, which no
    /// copy may be using: a copy from other host memory could not be abandoned.
    pub fn upload_now(
        &self,
        stream: &Stream,
        to: Place<DeviceBuffer>,
        bytes: usize,
        via: &mut PinnedBuffer,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        for first in (0..bytes).step_by(via.bytes.max(1)) {
            let n = via.bytes.min(bytes - first);
            fill(&mut via.bytes_mut()[..n])?;
            self.upload(stream, to.after(first), via.at(0), n)?;
            self.synchronize(stream)?;
        }
        Ok(())
    }

    /// Copies bytes of the device through `via`, which no copy may be using, and passes them to `take`, piece by piece.
    pub fn download(
        &self,
        stream: &Stream,
        from: Place<DeviceBuffer>,
        bytes: usize,
        via: &mut PinnedBuffer,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        for first in (0..bytes).step_by(via.bytes.max(1)) {
            let n = via.bytes.min(bytes - first);
            self.fetch(stream, via.at(0), from.after(first), n)?;
            self.synchronize(stream)?;
            take(&via.bytes()[..n])?;
        }
        Ok(())
    }

    /// Queues a copy to pinned memory, which must not be read before the copy has ended.
    pub fn fetch(
        &self,
        stream: &Stream,
        to: Place<PinnedBuffer>,
        from: Place<DeviceBuffer>,
        bytes: usize,
    ) -> Result<()> {
        let (to, from) = (to.part(bytes), from.part(bytes));
        // SAFETY: both ends have that length, and live at least until the stream is dropped.
        let status = unsafe { (self.driver().copy_to_host)(to, from, bytes, stream.raw) };
        self.check(status, "cuMemcpyDtoH")
    }

    /// Queues a copy between buffers.
    pub fn copy(
        &self,
        stream: &Stream,
        to: Place<DeviceBuffer>,
        from: Place<DeviceBuffer>,
        bytes: usize,
    ) -> Result<()> {
        let (to, from) = (to.part(bytes), from.part(bytes));
        // SAFETY: both ends have that length.
        self.check(unsafe { (self.driver().copy_on_device)(to, from, bytes, stream.raw) }, "cuMemcpyDtoD")
    }

    /// Queues zeroing a part of `buffer`.
    pub fn clear(&self, stream: &Stream, buffer: &DeviceBuffer, offset: usize, bytes: usize) -> Result<()> {
        let part = buffer.part(offset, bytes);
        if self.context.plans {
            return Ok(());
        }
        // SAFETY: the buffer has that length.
        self.check(unsafe { (self.driver().fill)(part, 0, bytes, stream.raw) }, "cuMemsetD8")
    }

    /// Loads compiled kernels from an image.
    pub fn module(&self, image: &'static [u8]) -> Result<Module> {
        let mut raw = ptr::null_mut();
        // SAFETY: `image` was written by the build script and contains its own length; the driver copies it.
        let status = unsafe { (self.driver().module_load)(&mut raw, image.as_ptr().cast()) };
        self.driver().check(status, "cuModuleLoadData").map_err(|why| self.context.unavailable(why))?;
        Ok(Module { context: self.context.clone(), raw: self.handle(status, "cuModuleLoadData", raw)? })
    }

    /// Looks up a kernel, whose parameter must have the size of `A`.
    pub fn kernel<A: Copy>(&self, module: &Module, name: &'static CStr) -> Result<CudaKernel<A>> {
        let mut raw = ptr::null_mut();
        let call = format!("looking up the kernel {}", name.to_string_lossy());
        // SAFETY: a live module and a terminated name.
        let status = unsafe { (self.driver().module_function)(&mut raw, module.raw, name.as_ptr()) };
        self.driver().check(status, &call).map_err(|why| self.context.unavailable(why))?;
        let raw = self.handle(status, &call, raw)?;
        if let Some(parameter_info) = self.driver().parameter_info {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: writes two sizes; a live function.
            let status = unsafe { parameter_info(raw, 0, &mut offset, &mut bytes) };
            if status == 0 && bytes != size_of::<A>() {
                let why = format!("{call}: its parameter has {bytes} bytes, not {}", size_of::<A>());
                return Err(self.context.unavailable(why));
            }
        }
        // A multiprocessor changes its shared-memory carveout only after all its work has ended, so all kernels request
        // the same one: as much as possible, for rings and tiles. Few loads depend on the L1 cache.
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: a live function.
        let status = unsafe { (self.driver().function_set_attribute)(raw, which, CARVEOUT) };
        self.check(status, "cuFuncSetAttribute")?;
        Ok(CudaKernel { raw, name, _args: PhantomData })
    }

    /// Looks up a kernel by name; `None` if the image does not have it.
    pub fn kernel_if_any<A: Copy>(&self, module: &Module, name: &'static CStr) -> Result<Option<CudaKernel<A>>> {
        let mut raw = ptr::null_mut();
        // SAFETY: a live module and a terminated name.
        let status = unsafe { (self.driver().module_function)(&mut raw, module.raw, name.as_ptr()) };
        if status == CUresult::CUDA_ERROR_NOT_FOUND as Status { Ok(None) } else { self.kernel(module, name).map(Some) }
    }

    /// Returns the architecture for which `kernel` was compiled, such as 90; older than the device if the driver
    /// translated PTX.
    pub fn compiled_for<A>(&self, kernel: &CudaKernel<A>) -> Result<i32> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
        let mut version = 0;
        // SAFETY: writes one integer; a live function.
        let status = unsafe { (self.driver().function_attribute)(&mut version, which, kernel.raw) };
        self.check(status, "cuFuncGetAttribute")?;
        if !(10..1000).contains(&version) {
            let why = format!("cuFuncGetAttribute told {version} as the architecture of {:?}", kernel.name);
            return Err(self.context.unavailable(why));
        }
        Ok(version)
    }

    /// Allows launches of `kernel` with up to `bytes` bytes of dynamic shared memory.
    pub fn allow_shared<A>(&self, kernel: &CudaKernel<A>, bytes: u32) -> Result<()> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a live function.
        let status = unsafe { (self.driver().function_set_attribute)(kernel.raw, which, bytes as i32) };
        self.check(status, "cuFuncSetAttribute")
    }

    /// Queues a kernel.
    pub fn launch<A: Copy>(&self, stream: &Stream, kernel: &CudaKernel<A>, grid: Grid, args: &A) -> Result<()> {
        let mut attribute = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue { pad: [0; 64] },
        };
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let [x, y, z] = grid.blocks;
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: stream.raw,
            attrs: &mut attribute,
            numAttrs: u32::from(grid.early),
        };
        let mut parameters = [ptr::from_ref(args).cast_mut().cast::<c_void>()];
        // SAFETY: the kernel takes one `A`; the driver copies it and the configuration before it returns.
        let status = unsafe { (self.driver().launch)(&config, kernel.raw, parameters.as_mut_ptr(), ptr::null_mut()) };
        if status != 0 {
            return self.check(status, &format!("launching {}", kernel.name.to_string_lossy()));
        }
        Ok(())
    }

    /// Captures the work that `work` queues in `stream` instead of running it; returns `None` if the driver cannot.
    pub fn capture(&self, stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Option<Graph>> {
        // SAFETY: a live stream.
        if unsafe { (self.driver().stream_begin_capture)(stream.raw, RELAXED) } != 0 {
            return Ok(None);
        }
        let done = work();
        let (mut graph, mut raw) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: ends the capture that was begun above, whatever `work` returned; writes one handle.
        let ended = unsafe { (self.driver().stream_end_capture)(stream.raw, &mut graph) };
        let mut status = ended;
        if ended == 0 && !graph.is_null() {
            // SAFETY: the graph is live until it is destroyed here; the executable copy does not depend on it.
            unsafe {
                status = (self.driver().graph_instantiate)(&mut raw, graph, 0);
                (self.driver().graph_destroy)(graph);
            }
        }
        let graph = (status == 0 && !raw.is_null()).then(|| Graph { context: self.context.clone(), raw });
        done.map(|()| graph)
    }

    /// Queues a captured graph.
    pub fn replay(&self, stream: &Stream, graph: &mut Graph) -> Result<()> {
        // SAFETY: a live graph and stream.
        self.check(unsafe { (self.driver().graph_launch)(graph.raw, stream.raw) }, "cuGraphLaunch")
    }
}
