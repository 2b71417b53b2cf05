//! The adapters of the system's drivers: Metal on Apple systems, Vulkan elsewhere, DX12 on Windows without Vulkan.
#![allow(unsafe_code)]

use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::task::{Context as Waiting, Poll, Waker};

use ::wgpu::{Adapter, Backend, Backends, DeviceType, Features, Instance, InstanceDescriptor, InstanceFlags, Limits};

use crate::gpu::verdict::{Verdict, Verdicts, lock};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::{memory, os};

/// Name of this driver, which covers Metal, Vulkan and DX12.
pub const NAME: &str = "wgpu";

/// Size of the immediates of a launch, in bytes.
pub const IMMEDIATES: u32 = 128;

/// Required limits: threads per workgroup, bytes of workgroup memory, and storage buffers per kernel.
const THREADS: u32 = 256;
const SHARED: u32 = 16 << 10;
const BUFFERS: u32 = 5;

/// Minimum size of a binding, in bytes: enough for a layer of a small model.
const LEAST_BINDING: u64 = 16 << 20;

/// Fraction of a device's memory that models may use, because drivers do not report the memory that other processes
/// use.
const USABLE: f64 = 0.8;

/// True if software drivers, which compute on the CPU, may be used.
static ALLOWS_SOFTWARE: AtomicBool = AtomicBool::new(false);

/// Allows software drivers, for tests.
pub fn allow_software() {
    ALLOWS_SOFTWARE.store(true, Ordering::Relaxed);
}

static ADAPTERS: OnceLock<Vec<Found>> = OnceLock::new();

/// Bytes to reserve before finding adapters, opening a device or compiling a kernel, which allocate infallibly.
pub const WORKING: usize = 16 << 20;

static VERDICTS: LazyLock<Verdicts> = LazyLock::new(Verdicts::default);

/// An adapter of a driver. Never closed, because threads of a driver may outlive its devices.
pub struct Found {
    pub adapter: Adapter,
    pub name: String,
    isa: String,
    memory: u64,
    /// The reason why the adapter cannot be used, apart from being a software driver.
    lacks: Option<String>,
    is_software: bool,
    /// Bytes that this process has allocated on the device.
    pub taken: AtomicU64,
}

/// Returns the adapters. They are searched once per process. If memory is insufficient for the search, returns none,
/// and the next call searches again.
pub fn adapters() -> &'static [Found] {
    if let Some(found) = ADAPTERS.get() {
        return found;
    }
    // A driver that panics counts as a driver without devices.
    match memory::secured(WORKING, || catch_unwind(find).unwrap_or_default()) {
        Some(found) => ADAPTERS.get_or_init(|| found),
        None => &[],
    }
}

/// Returns the verdict on the device `ordinal` of this process.
pub fn verdict(ordinal: i32) -> Arc<Mutex<Verdict>> {
    VERDICTS.of(ordinal)
}

/// Lists the devices, or one unavailable entry.
pub fn list() -> Vec<DeviceInfo> {
    if adapters().is_empty() {
        let name = format!("{}:0", api(own_backend()));
        let unavailable = format!("there is no {} driver with a device", api(own_backend()));
        return vec![info(name, String::new(), [0; 2], unavailable)];
    }
    adapters().iter().zip(0..).map(|(found, ordinal)| found.info(ordinal)).collect()
}

/// `memory`: bytes in total, and bytes that this process has allocated.
fn info(name: String, isa: String, [memory, taken]: [u64; 2], unavailable: String) -> DeviceInfo {
    let memory_free = ((memory as f64 * USABLE) as u64).saturating_sub(taken);
    DeviceInfo { name, id: String::new(), kind: DeviceKind::Gpu, isa, memory_total: memory, memory_free, unavailable }
}

impl Found {
    /// Describes the adapter as device `ordinal`.
    pub fn info(&self, ordinal: i32) -> DeviceInfo {
        let failed = || lock(&verdict(ordinal)).failed.clone();
        let software = || {
            let is_refused = self.is_software && !ALLOWS_SOFTWARE.load(Ordering::Relaxed);
            is_refused.then(|| "it is a software driver, slower than device 1".to_owned())
        };
        let unavailable = self.lacks.clone().or_else(software).or_else(failed).unwrap_or_default();
        let memory = [self.memory, self.taken.load(Ordering::Relaxed)];
        info(self.name.clone(), self.isa.clone(), memory, unavailable)
    }
}

/// Returns the result of a future; futures of native drivers are ready at once. `None` if it is not ready.
pub fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Waiting::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn own_backend() -> Backend {
    if cfg!(target_vendor = "apple") { Backend::Metal } else { Backend::Vulkan }
}

fn api(backend: Backend) -> &'static str {
    match backend {
        Backend::Metal => "metal",
        Backend::Dx12 => "dx12",
        _ => "vulkan",
    }
}

fn find() -> Vec<Found> {
    let instance = instance();
    let adapters = |backends| now(instance.enumerate_adapters(backends)).unwrap_or_default();
    let mut all = adapters(Backends::VULKAN | Backends::METAL);
    if all.is_empty() {
        all = adapters(Backends::DX12);
    }
    all.into_iter().zip(0..).map(|(adapter, ordinal)| found(adapter, ordinal)).collect()
}

fn found(adapter: Adapter, ordinal: i32) -> Found {
    let (about, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let api = api(about.backend);
    let is_software = about.device_type == DeviceType::Cpu;
    Found {
        name: format!("{api}:{ordinal} {}", about.name).chars().take(63).collect(),
        isa: format!("{api} w{}", about.subgroup_min_size.max(1)),
        memory: own_memory(&adapter).unwrap_or_else(|| os::memory()[0]),
        lacks: lacks(&limits, features),
        is_software,
        taken: AtomicU64::new(0),
        adapter,
    }
}

/// Returns the first requirement that an adapter does not meet, with the adapter's value.
fn lacks(limits: &Limits, features: Features) -> Option<String> {
    let at_least = |what: &str, has: u64, needed: u64| {
        (has < needed).then(|| format!("{what} is {has}; it must be at least {needed}"))
    };
    if !features.contains(Features::IMMEDIATES) {
        return Some("its driver has no immediates (push constants)".to_owned());
    }
    at_least("the size of immediates", limits.max_immediate_size.into(), IMMEDIATES.into())
        .or_else(|| {
            at_least("the number of threads", limits.max_compute_invocations_per_workgroup.into(), THREADS.into())
        })
        .or_else(|| at_least("workgroup memory", limits.max_compute_workgroup_storage_size.into(), SHARED.into()))
        .or_else(|| at_least("buffers of a kernel", limits.max_storage_buffers_per_shader_stage.into(), BUFFERS.into()))
        .or_else(|| at_least("the size of a binding", limits.max_storage_buffer_binding_size, LEAST_BINDING))
}

/// Creates the instance without window-system extensions, which load layers that print.
fn instance() -> Instance {
    #[cfg(not(any(target_vendor = "apple", windows)))]
    {
        use ::wgpu::hal;
        let descriptor = hal::InstanceDescriptor {
            name: "realizar",
            flags: InstanceFlags::empty(),
            memory_budget_thresholds: Default::default(),
            backend_options: Default::default(),
            telemetry: None,
            display: None,
        };
        let without_windows = |args: hal::vulkan::CreateInstanceCallbackArgs<'_, '_, '_>| {
            args.extensions.retain(|extension| !extension.to_bytes().ends_with(b"_surface"));
        };
        // SAFETY: the callback only removes extensions whose functions are not called without a surface.
        let instance =
            unsafe { hal::vulkan::Instance::init_with_callback(&descriptor, Some(Box::new(without_windows))) };
        match instance {
            // SAFETY: the instance was just created, with no other owner.
            Ok(instance) => unsafe { Instance::from_hal::<hal::api::Vulkan>(instance) },
            Err(_) => Instance::new(of_backends(Backends::empty())),
        }
    }
    #[cfg(any(target_vendor = "apple", windows))]
    Instance::new(of_backends(Backends::VULKAN | Backends::METAL | Backends::DX12))
}

fn of_backends(backends: Backends) -> InstanceDescriptor {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = InstanceFlags::empty();
    descriptor
}

/// Returns the bytes of the largest heap of a Vulkan device's own memory; `None` for other drivers, whose devices share
/// the host's memory.
fn own_memory(adapter: &Adapter) -> Option<u64> {
    #[cfg(not(target_vendor = "apple"))]
    {
        const DEVICE_LOCAL: u32 = 1;
        // SAFETY: the raw adapter is only read, and is not destroyed.
        let vulkan = unsafe { adapter.as_hal::<::wgpu::hal::api::Vulkan>() }?;
        let work = std::panic::AssertUnwindSafe(|| {
            // SAFETY: the physical device belongs to the instance, and both are alive.
            let memory = unsafe {
                vulkan
                    .shared_instance()
                    .raw_instance()
                    .get_physical_device_memory_properties(vulkan.raw_physical_device())
            };
            let heaps = &memory.memory_heaps[..(memory.memory_heap_count as usize).min(memory.memory_heaps.len())];
            heaps.iter().filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
        });
        catch_unwind(work).ok()?
    }
    #[cfg(target_vendor = "apple")]
    {
        _ = adapter;
        None
    }
}
