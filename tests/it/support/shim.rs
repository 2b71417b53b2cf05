//! The host shim for CUDA (`tests/cuda_shim`): the real kernels compiled as C++, run thread by thread.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libloading::Library;
use realizar::cuda::Driver;
use realizar::engine::{Chooser, SamplerParams, Session, decode_batch};

/// As `by` of `Shim::spoil`: makes an address null.
pub const NULL: i32 = i32::MIN;

/// An image instead of compiled kernels: the shim has its own.
pub const IMAGE: &[u8] = b"none";

/// A separate driver, with its own memory, thread order and failures.
pub struct Shim {
    pub driver: Arc<Driver>,
    library: Library,
    path: PathBuf,
}

/// A wrong answer of a call that reports success: nothing, zeros, ones, the largest int.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    Nothing,
    Zeros,
    Ones,
    LargestInt,
}

/// Returns the compiled shim, rebuilt if a source is newer.
fn compiled() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        if std::env::var_os("REALIZAR_GPU_ONLY").is_some() {
            eprintln!("skipped: the CUDA shim: REALIZAR_GPU_ONLY is set");
            return None;
        }
        if std::env::var_os("RUNNER").is_some() {
            eprintln!("skipped: the CUDA shim: an emulator cannot load what is compiled for this machine");
            return None;
        }
        // Compiled by tests/ptx from nvcc's output for the kernels.
        if let Some(driver) = std::env::var_os("CUDA_SHIM") {
            return Some(PathBuf::from(driver));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let shim = root.join("tests/cuda_shim");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_shim.so");
        let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
        let sources = [shim.clone(), root.join("kernels")].map(std::fs::read_dir);
        let newest = sources.into_iter().flatten().flatten().map(|file| changed(&file.unwrap().path())).max();
        let Some(newest) = newest else {
            eprintln!("skipped: the CUDA shim needs the sources in {}", root.display());
            return None;
        };
        // Test programs that run at the same time wait for the first to compile it.
        let lock = std::fs::File::create(library.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        if changed(&library) > newest {
            return Some(library);
        }
        let fresh = library.with_extension(std::process::id().to_string());
        let flags = [
            "-std=c++17",
            "-O3",
            "-march=native",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-U_FORTIFY_SOURCE",
            "-o",
        ];
        match Command::new("c++").args(flags).arg(&fresh).arg("-I").arg(&shim).arg(shim.join("driver.cpp")).status() {
            Ok(status) => assert!(status.success(), "the shim does not compile"),
            Err(e) => {
                eprintln!("skipped: the CUDA shim needs a C++ compiler: {e}");
                return None;
            }
        }
        std::fs::rename(fresh, &library).unwrap();
        Some(library)
    };
    COMPILED.get_or_init(compile).as_deref()
}

impl Shim {
    pub fn new() -> Option<Shim> {
        // A copy, because a library is loaded once per path. It stays loaded when the file is removed.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libcuda.so");
        std::fs::copy(compiled()?, &path).unwrap();
        let driver = Driver::open(&[&path]).unwrap();
        // SAFETY: our own library, which is already open.
        let library = unsafe { Library::new(&path) }.unwrap();
        Some(Shim { driver, library, path })
    }

    /// Returns the driver as one without self-test results.
    pub fn open_again(&self) -> Result<Arc<Driver>, String> {
        Driver::open(&[&self.path])
    }

    pub fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers below repeat the signatures of driver.cpp.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    /// Sets the order of threads and blocks: 0 forward, 1 reverse, 2 scrambled, 3 forward with copies that end at once.
    pub fn order(&self, which: i32) {
        self.function::<extern "C" fn(i32)>("shim_order")(which);
    }

    pub fn fail(&self, call: &std::ffi::CStr, after: i32, status: i32) {
        self.function::<extern "C" fn(*const std::ffi::c_char, i32, i32)>("shim_fail")(call.as_ptr(), after, status);
    }

    /// Makes the answer of a call after `after` further ones wrong during `work`; also returns whether it was given.
    pub fn lying<T>(&self, (call, after, lie): (&std::ffi::CStr, i32, Lie), work: impl FnOnce() -> T) -> (T, bool) {
        let tell = self.function::<extern "C" fn(*const std::ffi::c_char, i32, i32)>("shim_lie");
        tell(call.as_ptr(), after, lie as i32);
        let result = work();
        let was_told = self.number("shim_lie_pending") == 0;
        tell(c"".as_ptr(), 0, 0);
        (result, was_told)
    }

    /// Makes faults affect the whole process; setting it again resets the process.
    pub fn poison(&self, on: bool) {
        self.function::<extern "C" fn(bool)>("shim_poison")(on);
    }

    /// Adds `by` to the word at byte `at` of the parameters of a kernel's launches; "" resets it.
    pub fn spoil(&self, kernel: &std::ffi::CStr, at: usize, by: i32) {
        self.function::<extern "C" fn(*const std::ffi::c_char, usize, i32)>("shim_spoil")(kernel.as_ptr(), at, by);
    }

    /// Returns the number of launches of a kernel.
    pub fn launches_of(&self, kernel: &std::ffi::CStr) -> u64 {
        self.function::<extern "C" fn(*const std::ffi::c_char) -> u64>("shim_launches_of")(kernel.as_ptr())
    }

    /// Removes one more kernel from images; "" resets it.
    pub fn leave_out(&self, kernel: &str) {
        let kernel = std::ffi::CString::new(kernel).unwrap();
        self.function::<extern "C" fn(*const std::ffi::c_char)>("shim_absent")(kernel.as_ptr());
    }

    /// Sets the maximum bytes of shared memory per block.
    pub fn shared(&self, bytes: u32) {
        self.function::<extern "C" fn(i32)>("shim_shared")(bytes as i32);
    }

    /// Makes the device hang.
    pub fn hang(&self, on: bool) {
        self.function::<extern "C" fn(bool)>("shim_hang")(on);
    }

    pub fn number(&self, name: &str) -> u64 {
        self.function::<extern "C" fn() -> u64>(name)()
    }
}

/// Decodes one token for each of several sequences in one step, with logits on the host, because devices do not support
/// these samplers.
#[allow(dead_code, reason = "tests of the engine on GPUs are programs of their own")]
pub fn step_together(sessions: &mut [&mut Session], tokens: &[u32]) {
    let params = SamplerParams { presence_penalty: 0.1, penalty_window: 5000, ..Default::default() };
    let mut own: Vec<Chooser> = tokens.iter().map(|_| Chooser::new(params.clone()).unwrap()).collect();
    let mut samplers: Vec<Option<&mut Chooser>> = own.iter_mut().map(Some).collect();
    decode_batch(sessions, tokens, &mut samplers, &mut vec![0; tokens.len()]).unwrap();
}

/// Returns the shim for tests of events that no device can be made to produce.
pub fn shim() -> Option<Shim> {
    skipped_without(Shim::new())
}

/// Reports that a test is skipped if there is no shim.
pub fn skipped_without<T>(shim: Option<T>) -> Option<T> {
    if shim.is_none() {
        eprintln!("skipped: what only the shim can do");
    }
    shim
}
