//! The host shim for CUDA (`tests/cuda_shim`): the real kernels as C++, thread by thread.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libloading::Library;
use realizar::cuda::Driver;
use realizar::engine::{Chooser, SamplerParams, Session, decode_batch};

/// In `Shim::spoil` what makes an address null.
pub const NULL: i32 = i32::MIN;

/// An image in place of compiled kernels: the shim has its own.
pub const IMAGE: &[u8] = b"none";

/// A driver of its own: each has its own memory, thread order and failures.
pub struct Shim {
    pub driver: Arc<Driver>,
    library: Library,
    path: PathBuf,
}

/// The answer that a call writes though it succeeds: nothing, zeros, ones, the largest int.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    Nothing,
    Zeros,
    Ones,
    LargestInt,
}

/// The compiled shim, made anew when a source is newer.
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
        // Made by tests/ptx from what nvcc makes of the kernels.
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
        // A copy, because a library is loaded once a path. It stays loaded when the file goes.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libcuda.so");
        std::fs::copy(compiled()?, &path).unwrap();
        let driver = Driver::open(&[&path]).unwrap();
        // SAFETY: our own library, which is already open.
        let library = unsafe { Library::new(&path) }.unwrap();
        Some(Shim { driver, library, path })
    }

    /// The driver as one that nobody has a verdict on.
    pub fn open_again(&self) -> Result<Arc<Driver>, String> {
        Driver::open(&[&self.path])
    }

    pub fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers below repeat the signatures of driver.cpp.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    /// Order of threads and blocks: 0 forward, 1 reverse, 2 scrambled.
    pub fn order(&self, which: i32) {
        self.function::<extern "C" fn(i32)>("shim_order")(which);
    }

    pub fn fail(&self, call: &std::ffi::CStr, after: i32, status: i32) {
        self.function::<extern "C" fn(*const std::ffi::c_char, i32, i32)>("shim_fail")(call.as_ptr(), after, status);
    }

    /// Has the answer `after` answers to a call from now be a lie, while `work` runs; tells whether it was told, too.
    pub fn lying<T>(&self, (call, after, lie): (&std::ffi::CStr, i32, Lie), work: impl FnOnce() -> T) -> (T, bool) {
        let tell = self.function::<extern "C" fn(*const std::ffi::c_char, i32, i32)>("shim_lie");
        tell(call.as_ptr(), after, lie as i32);
        let result = work();
        let was_told = self.number("shim_lie_pending") == 0;
        tell(c"".as_ptr(), 0, 0);
        (result, was_told)
    }

    /// Has a fault be one of the whole process; set anew, the process is well.
    pub fn poison(&self, on: bool) {
        self.function::<extern "C" fn(bool)>("shim_poison")(on);
    }

    /// Has launches of a kernel find `by` added to the word at byte `at` of their parameter; "" stands for none.
    pub fn spoil(&self, kernel: &std::ffi::CStr, at: usize, by: i32) {
        self.function::<extern "C" fn(*const std::ffi::c_char, usize, i32)>("shim_spoil")(kernel.as_ptr(), at, by);
    }

    /// Launches of a kernel.
    pub fn launches_of(&self, kernel: &std::ffi::CStr) -> u64 {
        self.function::<extern "C" fn(*const std::ffi::c_char) -> u64>("shim_launches_of")(kernel.as_ptr())
    }

    /// Has images lack a kernel.
    pub fn leave_out(&self, kernel: &str) {
        let kernel = std::ffi::CString::new(kernel).unwrap();
        self.function::<extern "C" fn(*const std::ffi::c_char)>("shim_absent")(kernel.as_ptr());
    }

    /// Sets the bytes of shared memory that a block may have.
    pub fn shared(&self, bytes: u32) {
        self.function::<extern "C" fn(i32)>("shim_shared")(bytes as i32);
    }

    /// Has the device work on for ever.
    pub fn hang(&self, on: bool) {
        self.function::<extern "C" fn(bool)>("shim_hang")(on);
    }

    pub fn number(&self, name: &str) -> u64 {
        self.function::<extern "C" fn() -> u64>(name)()
    }
}

/// A token for each of some sequences in one step, whose logits come to the host, because a device takes no such
/// samplers.
#[allow(dead_code, reason = "tests of the engine on GPUs are programs of their own")]
pub fn step_together(sessions: &mut [&mut Session], tokens: &[u32]) {
    let params = SamplerParams { presence_penalty: 0.1, penalty_window: 5000, ..Default::default() };
    let mut own: Vec<Chooser> = tokens.iter().map(|_| Chooser::new(params.clone()).unwrap()).collect();
    let mut samplers: Vec<Option<&mut Chooser>> = own.iter_mut().map(Some).collect();
    decode_batch(sessions, tokens, &mut samplers, &mut vec![0; tokens.len()]).unwrap();
}

/// Gives the shim to tests of what no device can be made to do.
pub fn shim() -> Option<Shim> {
    skipped_without(Shim::new())
}

/// Says that a test is skipped where there is no shim.
pub fn skipped_without<T>(shim: Option<T>) -> Option<T> {
    if shim.is_none() {
        eprintln!("skipped: what only the shim can do");
    }
    shim
}
