//! Finds the CUDA driver and lists its devices; nothing here can terminate the host process.
//!
//! Owns the table of driver functions: a missing symbol, a file that is not a library and a driver that fails to start
//! are distinguished, and become the reason why a device is listed as unavailable. Relies on `cudarc` for the driver's
//! types and constants.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUfunction, CUfunction_attribute, CUgraph, CUgraphExec,
    CUlaunchConfig, CUmodule, CUstream, CUuuid,
};

use crate::gpu::Address;
use crate::gpu::verdict::{Verdicts, lock};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::os;
use crate::os::library::{Library, LibraryNames};

/// Names of the driver library. Containers and WSL mount it outside of the loader's search path. The last name is a
/// toolkit's stub.
const NAMES: LibraryNames = LibraryNames {
    on_windows: &["nvcuda.dll"],
    elsewhere: &["libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so"],
};

/// Default time limit for waits on the driver.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of listed devices.
const MAX_DEVICES: i32 = 64;

/// Plausible memory sizes of a device in bytes.
pub const MEMORY: RangeInclusive<u64> = 1..=1 << 50;

/// `CUresult` as an integer: a newer driver returns values that the Rust enumeration lacks.
pub type Status = c_int;
/// `CUstreamCaptureMode` as an integer, because the driver writes it.
pub type CaptureMode = c_uint;

/// Declares the table, the function that fills it, and a check of its signatures: a method name, the exported symbol,
/// the parameters.
macro_rules! driver_table {
    ($($name:ident: $symbol:ident ($($parameter:ty),*);)*) => {
        /// Every driver function that the backend calls, looked up once. Does not use the loader of `cudarc`, which
        /// panics if the library or a symbol is missing.
        pub struct Driver {
            $(pub(super) $name: unsafe extern "system" fn($($parameter),*) -> Status,)*
            /// `cuFuncGetParamInfo`, available from CUDA 12.4 on.
            pub(super) parameter_info:
                Option<unsafe extern "system" fn(CUfunction, usize, *mut usize, *mut usize) -> Status>,
            /// `CUDA_VERSION` of the driver, such as 12040.
            pub version: i32,
            pub verdicts: Verdicts,
            /// Time limit of a wait in microseconds.
            time_limit: AtomicU64,
            // Never unloaded: the driver keeps threads and exit handlers in the process.
            _library: std::mem::ManuallyDrop<Library>,
        }

        // Parameters as declared by `cudarc`, with its enumerations for the table's integers.
        const _: () = {
            use cudarc::driver::sys::{CUresult as Status, CUstreamCaptureMode as CaptureMode};
            $(let _: unsafe fn($($parameter),*) -> Status = cudarc::driver::sys::$symbol;)*
            let _: unsafe fn(CUfunction, usize, *mut usize, *mut usize) -> Status =
                cudarc::driver::sys::cuFuncGetParamInfo;
        };

        impl Driver {
            fn look_up(library: Library) -> Result<Driver, String> {
                // SAFETY: the types are from `cuda.h` for these symbols, whose versions (`_v2`) are part of their names
                // and never change meaning. The library outlives the pointers because it is never unloaded.
                unsafe {
                    Ok(Driver {
                        $($name: library
                            .function(concat!(stringify!($symbol), "\0"))
                            .ok_or_else(|| format!("the driver library lacks the function {}", stringify!($symbol)))?,)*
                        parameter_info: library.function("cuFuncGetParamInfo\0"),
                        version: 0,
                        verdicts: Verdicts::default(),
                        time_limit: AtomicU64::new(TIME_LIMIT.as_micros() as u64),
                        _library: std::mem::ManuallyDrop::new(library),
                    })
                }
            }
        }
    };
}

driver_table! {
    init: cuInit(c_uint);
    driver_get_version: cuDriverGetVersion(*mut c_int);
    error_name: cuGetErrorName(Status, *mut *const c_char);
    device_count: cuDeviceGetCount(*mut c_int);
    device_get: cuDeviceGet(*mut CUdevice, c_int);
    device_name: cuDeviceGetName(*mut c_char, c_int, CUdevice);
    device_attribute: cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    device_memory: cuDeviceTotalMem_v2(*mut usize, CUdevice);
    device_uuid: cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    context_create: cuCtxCreate_v2(*mut CUcontext, c_uint, CUdevice);
    context_destroy: cuCtxDestroy_v2(CUcontext);
    context_push: cuCtxPushCurrent_v2(CUcontext);
    context_pop: cuCtxPopCurrent_v2(*mut CUcontext);
    peer_query: cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    peer_enable: cuCtxEnablePeerAccess(CUcontext, c_uint);
    memory_info: cuMemGetInfo_v2(*mut usize, *mut usize);
    memory_alloc: cuMemAlloc_v2(*mut Address, usize);
    memory_free: cuMemFree_v2(Address);
    host_alloc: cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    host_free: cuMemFreeHost(*mut c_void);
    copy_to_device: cuMemcpyHtoDAsync_v2(Address, *const c_void, usize, CUstream);
    copy_to_host: cuMemcpyDtoHAsync_v2(*mut c_void, Address, usize, CUstream);
    copy_on_device: cuMemcpyDtoDAsync_v2(Address, Address, usize, CUstream);
    copy_from_peer: cuMemcpyPeerAsync(Address, CUcontext, Address, CUcontext, usize, CUstream);
    fill: cuMemsetD8Async(Address, u8, usize, CUstream);
    stream_create: cuStreamCreate(*mut CUstream, c_uint);
    stream_destroy: cuStreamDestroy_v2(CUstream);
    stream_query: cuStreamQuery(CUstream);
    stream_wait: cuStreamWaitEvent(CUstream, CUevent, c_uint);
    event_create: cuEventCreate(*mut CUevent, c_uint);
    event_destroy: cuEventDestroy_v2(CUevent);
    event_record: cuEventRecord(CUevent, CUstream);
    event_query: cuEventQuery(CUevent);
    event_elapsed: cuEventElapsedTime(*mut f32, CUevent, CUevent);
    exchange_capture_mode: cuThreadExchangeStreamCaptureMode(*mut CaptureMode);
    stream_begin_capture: cuStreamBeginCapture_v2(CUstream, CaptureMode);
    stream_end_capture: cuStreamEndCapture(CUstream, *mut CUgraph);
    graph_instantiate: cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    graph_launch: cuGraphLaunch(CUgraphExec, CUstream);
    graph_exec_destroy: cuGraphExecDestroy(CUgraphExec);
    graph_destroy: cuGraphDestroy(CUgraph);
    module_load: cuModuleLoadData(*mut CUmodule, *const c_void);
    module_unload: cuModuleUnload(CUmodule);
    module_function: cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    function_attribute: cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    function_set_attribute: cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    launch: cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
}

/// Properties of a device that the driver reports before anything is created on it.
#[derive(Clone, Debug)]
pub struct Properties {
    pub name: String,
    /// Compute capability: major, minor.
    pub capability: (i32, i32),
    pub multiprocessors: u32,
    /// Maximum dynamic shared memory per block in bytes.
    pub shared_per_block: u32,
    pub memory: u64,
}

impl Driver {
    /// Returns the system's driver, opened by the first call.
    pub fn system() -> Result<Arc<Driver>, String> {
        static SYSTEM: OnceLock<Result<Arc<Driver>, String>> = OnceLock::new();
        SYSTEM.get_or_init(|| Driver::open(NAMES.here())).clone()
    }

    /// Opens the first of `candidates` that is a library, looks up every function and starts the driver; the error
    /// names the step that failed.
    pub fn open(candidates: &[impl AsRef<OsStr>]) -> Result<Arc<Driver>, String> {
        let mut reason = String::from("no CUDA driver was found");
        for candidate in candidates {
            let path = candidate.as_ref();
            // SAFETY: opening a library runs its initializers. The names are those under which the CUDA driver is
            // installed, or a path that a test wrote.
            let library = match unsafe { Library::open(path) } {
                Ok(library) => library,
                Err(e) => {
                    // Reported only if the file exists but cannot be opened.
                    if std::path::Path::new(path).exists() {
                        reason = format!("the CUDA driver cannot be opened: {e}");
                    }
                    continue;
                }
            };
            let mut driver = Driver::look_up(library)?;
            // SAFETY: `cuInit` takes flags, of which there are none.
            let status = os::without_signals(|| unsafe { (driver.init)(0) });
            driver.check(status, "cuInit")?;
            // SAFETY: writes one integer.
            let status = unsafe { (driver.driver_get_version)(&mut driver.version) };
            driver.check(status, "cuDriverGetVersion")?;
            return Ok(Arc::new(driver));
        }
        Err(reason)
    }

    /// Returns the time limit for a wait on a device, after which the device is lost. A step of the largest models
    /// takes a few seconds.
    pub fn time_limit(&self) -> Duration {
        Duration::from_micros(self.time_limit.load(Ordering::Relaxed))
    }

    /// Public only for tests, which use shorter limits.
    #[doc(hidden)]
    pub fn set_time_limit(&self, time_limit: Duration) {
        self.time_limit.store(time_limit.as_micros() as u64, Ordering::Relaxed);
    }

    pub fn devices(&self) -> Result<i32, String> {
        let mut n = 0;
        // SAFETY: writes one integer.
        self.check(unsafe { (self.device_count)(&mut n) }, "cuDeviceGetCount")?;
        Ok(n.max(0))
    }

    pub(super) fn device(&self, ordinal: i32) -> Result<CUdevice, String> {
        let mut device = 0;
        // SAFETY: writes one integer; a bad ordinal is a status.
        self.check(unsafe { (self.device_get)(&mut device, ordinal) }, "cuDeviceGet")?;
        Ok(device)
    }

    /// Returns the UUID of a device as NVIDIA's tools show it, without their prefix; empty if there is none.
    pub(super) fn id(&self, ordinal: i32) -> String {
        let Some(bytes) = self.uuid(ordinal) else { return String::new() };
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]).join("-")
    }

    /// Returns the UUID of device `ordinal`; `None` if the driver has none.
    pub(super) fn uuid(&self, ordinal: i32) -> Option<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        let device = self.device(ordinal).ok()?;
        // SAFETY: writes sixteen bytes.
        let status = unsafe { (self.device_uuid)(&mut uuid, device) };
        let bytes = uuid.bytes.map(|byte| byte as u8);
        (status == 0 && bytes != [0; 16]).then_some(bytes)
    }

    /// Properties of device `ordinal`.
    pub fn properties(&self, ordinal: i32) -> Result<Properties, String> {
        let device = self.device(ordinal)?;
        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most the given length, including the terminator.
        let status = unsafe { (self.device_name)(name.as_mut_ptr().cast(), name.len() as c_int, device) };
        self.check(status, "cuDeviceGetName")?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
        let mut memory = 0;
        // SAFETY: writes one size.
        self.check(unsafe { (self.device_memory)(&mut memory, device) }, "cuDeviceTotalMem")?;
        let memory = memory as u64;
        if !MEMORY.contains(&memory) {
            return Err(format!("cuDeviceTotalMem told {memory} bytes"));
        }
        let attribute = |which, allowed: RangeInclusive<c_int>| {
            let mut value = 0;
            // SAFETY: writes one integer.
            let status = unsafe { (self.device_attribute)(&mut value, which, device) };
            self.check(status, "cuDeviceGetAttribute")?;
            let nonsense = || format!("cuDeviceGetAttribute told {value} for {which:?}");
            allowed.contains(&value).then_some(value).ok_or_else(nonsense)
        };
        use CUdevice_attribute::*;
        let [major, minor] =
            [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
        let shared = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(Properties {
            name,
            capability: (attribute(major, 0..=99)?, attribute(minor, 0..=99)?),
            multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1..=4096)? as u32,
            // Every block has 48 KiB without a request for more.
            shared_per_block: attribute(shared, 48 << 10..=1 << 20)? as u32,
            memory,
        })
    }

    pub(super) fn check(&self, status: Status, call: &str) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the driver stores the address of a constant string, or NULL for an unknown status.
        let known = unsafe { (self.error_name)(status, &mut name) } == 0 && !name.is_null();
        // SAFETY: as above, the address is a constant string's.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "unknown".into() };
        Err(format!("{call} failed with {name} ({status})"))
    }
}

impl Properties {
    /// True if two blocks with `bytes` bytes of shared memory each fit on a multiprocessor.
    pub fn fits_twice(&self, bytes: usize) -> bool {
        // A multiprocessor has 1 KiB more than a block can request, and each block takes 1 KiB more than it requests.
        const RESERVED: usize = 1 << 10;
        2 * (bytes + RESERVED) <= self.shared_per_block as usize + RESERVED
    }

    /// Returns the compute capability as a compiler target, such as `sm_90`.
    pub fn isa(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}

/// Lists every device of `driver`, or one unavailable entry with the reason why there is none; `built` is the
/// `CUDA_VERSION` that compiled the kernels, or the reason why the library contains none.
pub fn list(driver: &Result<Arc<Driver>, String>, built: Result<i32, &str>) -> Vec<DeviceInfo> {
    let unavailable = |ordinal: i32, reason: String| DeviceInfo {
        name: format!("cuda:{ordinal}"),
        id: String::new(),
        kind: DeviceKind::Gpu,
        isa: String::new(),
        memory_total: 0,
        memory_free: 0,
        unavailable: reason,
    };
    let counted = driver.as_ref().map_err(String::clone).and_then(|d| Ok((d, d.devices()?)));
    let (driver, n) = match counted {
        Ok((_, 0)) => return vec![unavailable(0, "the CUDA driver lists no device".into())],
        Ok(counted) => counted,
        Err(reason) => return vec![unavailable(0, reason)],
    };
    let why = |ordinal, properties: &Properties| {
        why_unusable(driver, properties, built).or_else(|| lock(&driver.verdicts.of(ordinal)).failed.clone())
    };
    let describe = |ordinal| match driver.properties(ordinal) {
        Ok(properties) => DeviceInfo {
            name: format!("cuda:{ordinal} {}", properties.name),
            id: driver.id(ordinal),
            isa: properties.isa(),
            memory_total: properties.memory,
            ..unavailable(ordinal, why(ordinal, &properties).unwrap_or_default())
        },
        Err(reason) => unavailable(ordinal, reason),
    };
    let rest = (n > MAX_DEVICES).then(|| {
        unavailable(MAX_DEVICES, format!("the CUDA driver lists {n} devices, of which {MAX_DEVICES} can be used"))
    });
    (0..n.min(MAX_DEVICES)).map(describe).chain(rest).collect()
}

/// Returns the reason why a device that the driver lists is unusable, if any.
pub(super) fn why_unusable(driver: &Driver, properties: &Properties, built: Result<i32, &str>) -> Option<String> {
    // A driver loads images of compilers of its own major version and older ones. Compilers from 12.4 on compress the
    // image (`generators/cuda.rs`), which older drivers cannot read.
    let needed = match built {
        Ok(12_040..13_000) => 12_040,
        Ok(version) => (version / 1000).max(12) * 1000,
        Err(reason) => return Some(reason.to_owned()),
    };
    if properties.capability.0 < 8 {
        return Some(format!("{} is older than sm_80", properties.isa()));
    }
    let number = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    let (has, needs) = (number(driver.version), number(needed));
    (driver.version < needed).then(|| format!("the driver implements CUDA {has}, {needs} is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const SYMBOLS: &str = include_str!("probe.rs");

    /// Returns every symbol of the table, from its text.
    fn symbols() -> Vec<&'static str> {
        let table = SYMBOLS.split("\ndriver_table! {").nth(1).unwrap().split("\n}").next().unwrap();
        table.lines().filter_map(|l| l.split_once(": ")?.1.split('(').next()).collect()
    }

    /// Builds a fake driver with the functions `bodies`; every other function does nothing and returns 0.
    fn made_up(dir: &Path, name: &str, without: &[&str], bodies: &[(&str, &str)]) -> Option<PathBuf> {
        if std::env::var_os("RUNNER").is_some() {
            eprintln!("skipped: an emulator cannot load made-up drivers");
            return None;
        }
        let mut source = String::from("#include <string.h>\n");
        for symbol in symbols().iter().filter(|s| !without.contains(s)) {
            let body = bodies.iter().find(|(name, _)| name == symbol);
            source.push_str(&body.map_or(format!("int {symbol}(void) {{ return 0; }}\n"), |(_, b)| b.to_string()));
            source.push('\n');
        }
        let (c, so) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
        std::fs::write(&c, source).unwrap();
        match Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).args([&so, &c]).status() {
            Ok(status) => assert!(status.success(), "cc rejects the made-up driver {name}"),
            Err(_) => {
                eprintln!("skipped: made-up drivers need a C compiler");
                return None;
            }
        }
        Some(so)
    }

    fn reason(candidates: &[&Path]) -> String {
        let devices = list(&Driver::open(candidates), Ok(0));
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, "cuda:0");
        devices[0].unavailable.clone()
    }

    #[test]
    fn every_way_to_have_no_device_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(reason(&[&at("absent.so")]), "no CUDA driver was found");
        std::fs::write(at("junk.so"), [7; 5000]).unwrap();
        assert!(reason(&[&at("junk.so")]).starts_with("the CUDA driver cannot be opened"));

        assert!(symbols().len() > 30);
        for symbol in ["cuInit", "cuGraphLaunch", "cuLaunchKernelEx"] {
            let Some(so) = made_up(dir.path(), &format!("without_{symbol}"), &[symbol], &[]) else { return };
            assert_eq!(reason(&[&so]), format!("the driver library lacks the function {symbol}"));
        }
        let names = "int cuGetErrorName(int e, const char **s) { *s = \"CUDA_ERROR_NO_DEVICE\"; return e != 100; }";
        let refuses = ("cuInit", "int cuInit(unsigned f) { return 100; }");
        let so = made_up(dir.path(), "no_device", &[], &[("cuGetErrorName", names), refuses]).unwrap();
        assert_eq!(reason(&[&so]), "cuInit failed with CUDA_ERROR_NO_DEVICE (100)");
        let so = made_up(dir.path(), "broken", &[], &[("cuInit", "int cuInit(unsigned f) { return 999; }")]).unwrap();
        assert_eq!(reason(&[&so]), "cuInit failed with unknown (999)");
        let so = made_up(dir.path(), "empty", &[], &[]).unwrap();
        assert_eq!(reason(&[&so]), "the CUDA driver lists no device");
        let so = made_up(
            dir.path(),
            "uncounted",
            &[],
            &[("cuDeviceGetCount", "int cuDeviceGetCount(int *n) { return 3; }")],
        );
        assert_eq!(reason(&[&so.unwrap()]), "cuDeviceGetCount failed with unknown (3)");
    }

    #[test]
    fn devices_are_listed_with_what_keeps_them_from_use() {
        let dir = tempfile::tempdir().unwrap();
        let mut bodies = [
            ("cuDriverGetVersion", "int cuDriverGetVersion(int *v) { *v = 12040; return 0; }"),
            ("cuDeviceGetCount", "int cuDeviceGetCount(int *n) { *n = 3; return 0; }"),
            ("cuDeviceGet", "int cuDeviceGet(int *d, int i) { *d = i; return i == 2 ? 101 : 0; }"),
            (
                "cuDeviceGetName",
                "int cuDeviceGetName(char *s, int n, int d) { memset(s, 'G', n); s[n - 1] = 0; return 0; }",
            ),
            (
                "cuDeviceGetAttribute",
                "int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 - 2 * d : a == 76 ? 0 : a == 97 ? 101376 : 64; return 0; }",
            ),
            ("cuDeviceTotalMem_v2", "int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1000; return 0; }"),
        ];
        let Some(so) = made_up(dir.path(), "three", &[], &bodies) else { return };
        let driver = Driver::open(&[&dir.path().join("absent.so"), &so]);
        let devices = list(&driver, Ok(12_080));
        assert_eq!(devices.len(), 3);
        assert!(devices[0].name.starts_with("cuda:0 GGG"));
        assert_eq!((devices[0].isa.as_str(), devices[0].memory_total), ("sm_90", 1000));
        assert_eq!(devices[0].unavailable, "");
        assert_eq!(devices[1].unavailable, "sm_70 is older than sm_80");
        assert_eq!(devices[2].unavailable, "cuDeviceGet failed with unknown (101)");
        assert_eq!(list(&driver, Err("built without kernels"))[0].unavailable, "built without kernels");
        let reason = "the driver implements CUDA 12.4, 13.0 is needed";
        assert_eq!(list(&driver, Ok(13_020))[0].unavailable, reason);

        bodies[0].1 = "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }";
        let old = Driver::open(&[&made_up(dir.path(), "old", &[], &bodies).unwrap()]);
        assert_eq!(list(&old, Ok(12_030))[0].unavailable, "");
        assert_eq!(list(&old, Ok(12_080))[0].unavailable, "the driver implements CUDA 12.2, 12.4 is needed");
    }
}
