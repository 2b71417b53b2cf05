//! A device that was opened for one model, and the guard around every call into wgpu.
//!
//! wgpu reports failures in four ways: error scopes, a callback for errors outside of scopes, a callback for a lost
//! device, and panics (also in drops). `Context::within` turns all of them into an `Error`. After the device is lost,
//! wgpu's calls seem to succeed; therefore every call checks whether the device-lost callback has run.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::wgpu::{
    AdapterInfo, Device, DeviceDescriptor, ErrorFilter, ExperimentalFeatures, Features, Limits, MemoryHints, PollError,
    PollType, Queue, SubmissionIndex, Trace,
};

use super::probe::{self, IMMEDIATES, WORKING, now};
use crate::error::{Error, Result, secured};
use crate::gpu::verdict::{Verdict, lock};
use crate::graph::device_info::DeviceInfo;
use crate::os;

/// Longest wait for submitted work. Submissions are short, so a device that takes longer is hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Length of one wait; cancellation is checked between waits.
const SLICE: Duration = Duration::from_millis(10);

/// An open device and its queue.
pub struct Gpu {
    pub device: Device,
    pub queue: Queue,
}

/// Errors that wgpu's callbacks have reported.
#[derive(Default)]
struct Faults {
    error: Mutex<Option<String>>,
    lost: Mutex<Option<String>>,
}

pub struct Context {
    pub ordinal: i32,
    pub info: DeviceInfo,
    pub about: AdapterInfo,
    pub limits: Limits,
    /// `None` in a plan, which only computes memory sizes.
    gpu: Option<ManuallyDrop<Gpu>>,
    faults: Arc<Faults>,
    /// Id of the process that opened the device; a child of `fork` must not use it.
    process: u32,
    /// True if submitted work hangs; wgpu objects are then leaked, because drops would wait for the work.
    hangs: AtomicBool,
    taken: AtomicU64,
    /// Bytes that this process has allocated on the device; `None` in a plan.
    taken_by_all: Option<&'static AtomicU64>,
    verdict: Arc<Mutex<Verdict>>,
    /// Two locks for waits and submissions: see `in_turn`.
    turns: [Mutex<()>; 2],
}

impl Context {
    /// Opens device `ordinal` of the list. `plans`: opens no device and only computes memory sizes.
    pub fn open(ordinal: i32, plans: bool) -> Result<Arc<Context>> {
        let unavailable = |why: String| Error::DeviceUnavailable { device: format!("{}:{ordinal}", probe::NAME), why };
        let found = usize::try_from(ordinal).ok().and_then(|i| probe::adapters().get(i));
        let Some(found) = found else {
            return Err(match probe::list().into_iter().find(|info| !info.unavailable.is_empty()) {
                Some(info) if probe::adapters().is_empty() && ordinal == 0 => unavailable(info.unavailable),
                _ => Error::invalid(format!("{}:{ordinal} does not exist", probe::NAME)),
            });
        };
        let info = found.info(ordinal);
        if !info.unavailable.is_empty() {
            return Err(unavailable(info.unavailable));
        }
        let limits = limits(&found.adapter.limits());
        let faults = Arc::new(Faults::default());
        let open = || {
            let work = || catch_unwind(AssertUnwindSafe(|| open_device(found, &limits, &faults)));
            let opened = secured("a device", WORKING, || Ok(work()))?;
            let opened = opened.unwrap_or_else(|_| Err("its driver failed while it was opened".to_owned()));
            opened.map_err(unavailable).map(ManuallyDrop::new)
        };
        let gpu = if plans { None } else { Some(open()?) };
        Ok(Arc::new(Context {
            ordinal,
            info,
            about: found.adapter.get_info(),
            limits,
            gpu,
            faults,
            process: os::process_id(),
            hangs: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            taken_by_all: (!plans).then_some(&found.taken),
            verdict: probe::verdict(ordinal),
            turns: Default::default(),
        }))
    }

    pub fn plans(&self) -> bool {
        self.gpu.is_none()
    }

    pub fn verdict(&self) -> MutexGuard<'_, Verdict> {
        lock(&self.verdict)
    }

    fn name(&self) -> String {
        format!("{}:{}", probe::NAME, self.ordinal)
    }

    /// Marks the device as lost, and returns the error.
    pub fn lose(&self, why: String) -> Error {
        let why = lock(&self.faults.lost).get_or_insert(why).clone();
        Error::DeviceLost { device: self.name(), why }
    }

    fn check(&self) -> Result<()> {
        if os::process_id() != self.process {
            let why = "it was opened by another process, of which this one is a copy".to_owned();
            return Err(Error::DeviceUnavailable { device: self.name(), why });
        }
        match &*lock(&self.faults.lost) {
            None => Ok(()),
            Some(why) => Err(Error::DeviceLost { device: self.name(), why: why.clone() }),
        }
    }

    /// Runs `work`, which calls wgpu; `what` names the work in error messages.
    pub fn within<T>(&self, what: &str, work: impl FnOnce(&Gpu) -> T) -> Result<T> {
        self.check()?;
        let Some(gpu) = &self.gpu else { return Err(Error::invalid("a plan computes nothing")) };
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let filters = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation];
            let scopes = filters.map(|filter| gpu.device.push_error_scope(filter));
            let made = work(gpu);
            let errors = scopes.into_iter().rev().filter_map(|scope| now(scope.pop()).flatten());
            (made, errors.last())
        }));
        let Ok((made, error)) = attempt else { return Err(self.lose(format!("its driver failed in {what}"))) };
        self.check()?;
        match error {
            None => Ok(made),
            Some(::wgpu::Error::OutOfMemory { .. }) => {
                Err(Error::DeviceOutOfMemory { device: self.name(), what: what.to_owned(), bytes: 0 })
            }
            Some(error) => {
                let why = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                Err(self.lose(format!("{what}: {why}")))
            }
        }
    }

    /// Like `within`, for waits and submissions, one at a time and first come, first served: wgpu 30 panics if a wait
    /// times out while another thread finds that the last submission has ended. A thread that waits for the second lock
    /// holds the first one, so that a thread that has just released the second one comes after it.
    pub fn in_turn<T>(&self, what: &str, work: impl FnOnce(&Gpu) -> T) -> Result<T> {
        let next = lock(&self.turns[0]);
        let _turn = lock(&self.turns[1]);
        drop(next);
        self.within(what, work)
    }

    /// Waits for a submission in slices; returns false if `stop` returned true before the submission ended.
    pub fn wait(&self, index: &SubmissionIndex, stop: &dyn Fn() -> bool) -> Result<bool> {
        let started = Instant::now();
        loop {
            let wait = PollType::Wait { submission_index: Some(index.clone()), timeout: Some(SLICE) };
            match self.in_turn("a wait", |gpu| gpu.device.poll(wait))? {
                Ok(_) => break,
                Err(PollError::Timeout) if started.elapsed() > PATIENCE => {
                    self.hangs.store(true, Ordering::Relaxed);
                    return Err(self.lose(format!("its work did not end within {} seconds", PATIENCE.as_secs())));
                }
                Err(PollError::Timeout) if stop() => return Ok(false),
                Err(PollError::Timeout) => {}
                Err(error) => return Err(self.lose(format!("a wait failed: {error}"))),
            }
        }
        match lock(&self.faults.error).take() {
            Some(why) => Err(self.lose(why)),
            None => Ok(true),
        }
    }

    fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        [&self.taken].into_iter().chain(self.taken_by_all)
    }

    /// Adds to the number of allocated bytes.
    pub fn take(&self, bytes: u64) {
        self.counters().for_each(|taken| _ = taken.fetch_add(bytes, Ordering::Relaxed));
    }

    fn give_back(&self, bytes: u64) {
        self.counters().for_each(|taken| _ = taken.fetch_sub(bytes, Ordering::Relaxed));
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// True if wgpu objects must be leaked instead of dropped.
    fn is_untouchable(&self) -> bool {
        self.hangs.load(Ordering::Relaxed) || os::process_id() != self.process
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let leaks = self.is_untouchable();
        if let Some(gpu) = self.gpu.take().filter(|_| !leaks) {
            _ = catch_unwind(AssertUnwindSafe(|| drop(ManuallyDrop::into_inner(gpu))));
        }
    }
}

/// A wgpu object and its size in bytes; its drop catches panics.
pub struct Held<T> {
    object: Option<ManuallyDrop<T>>,
    bytes: u64,
    pub context: Arc<Context>,
}

impl<T> Held<T> {
    /// Creates an object, except in a plan; `bytes` is its size.
    pub fn new(context: &Arc<Context>, what: &str, bytes: u64, create: impl FnOnce(&Gpu) -> T) -> Result<Held<T>> {
        let object = if context.plans() { None } else { Some(context.within(what, create)?) };
        context.take(bytes);
        Ok(Held { object: object.map(ManuallyDrop::new), bytes, context: context.clone() })
    }

    /// Returns the object; fails in a plan.
    pub fn get(&self) -> Result<&T> {
        self.object.as_deref().ok_or_else(|| Error::invalid("a plan computes nothing"))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.context.give_back(self.bytes);
        let leaks = self.context.is_untouchable();
        if let Some(object) = self.object.take().filter(|_| !leaks) {
            _ = catch_unwind(AssertUnwindSafe(|| drop(ManuallyDrop::into_inner(object))));
        }
    }
}

/// Returns the limits to request from an adapter that has the limits `has`.
fn limits(has: &Limits) -> Limits {
    // WebGPU limits bindings to less than 2 GiB; larger bindings do not work with all drivers.
    const LARGEST: u64 = (2 << 30) - 256;
    Limits {
        max_immediate_size: IMMEDIATES,
        max_buffer_size: has.max_buffer_size.min(LARGEST),
        max_storage_buffer_binding_size: has.max_storage_buffer_binding_size.min(LARGEST),
        min_storage_buffer_offset_alignment: has.min_storage_buffer_offset_alignment,
        max_storage_buffers_per_shader_stage: has.max_storage_buffers_per_shader_stage.min(8),
        max_compute_workgroup_storage_size: has.max_compute_workgroup_storage_size.min(16 << 10),
        max_compute_invocations_per_workgroup: 256,
        ..Limits::downlevel_defaults()
    }
}

fn open_device(found: &probe::Found, limits: &Limits, faults: &Arc<Faults>) -> Result<Gpu, String> {
    let request = found.adapter.request_device(&DeviceDescriptor {
        label: None,
        required_features: Features::IMMEDIATES,
        required_limits: limits.clone(),
        experimental_features: ExperimentalFeatures::disabled(),
        memory_hints: MemoryHints::MemoryUsage,
        trace: Trace::Off,
    });
    let opened = now(request).ok_or_else(|| "its driver did not answer".to_owned())?;
    let (device, queue) = opened.map_err(|error| error.to_string())?;
    let to = faults.clone();
    device.on_uncaptured_error(Arc::new(move |error: ::wgpu::Error| {
        lock(&to.error).get_or_insert_with(|| error.to_string());
    }));
    let to = faults.clone();
    device.set_device_lost_callback(move |why, text| {
        lock(&to.lost).get_or_insert_with(|| format!("{why:?}: {text}"));
    });
    Ok(Gpu { device, queue })
}
