//! Linux, Android, macOS and iOS. Only Linux and Android support processor affinity.

use std::ffi::{CString, OsStr, c_void};
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::ptr::null_mut;
use std::str::Utf8Error;
use std::thread;

/// Error code for a path that leads to a folder; next, to something else that is not a regular file.
pub const IS_FOLDER: i32 = libc::EISDIR;
pub const IS_NO_FILE: i32 = libc::EINVAL;
/// Error code for a path that does not exist.
pub const NOT_FOUND: i32 = libc::ENOENT;

/// Returns bytes as a path; any bytes are valid.
pub fn path(bytes: &[u8]) -> Result<&Path, Utf8Error> {
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Opens a path for reading without blocking: a pipe without a writer would block forever.
pub fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// True if a file belongs to this user.
pub fn is_of_this_user(data: &Metadata) -> bool {
    // SAFETY: the call only returns a number.
    data.uid() == unsafe { libc::geteuid() }
}

/// True if a file belongs to this user and no other user may write to it.
pub fn is_own(data: &Metadata) -> bool {
    is_of_this_user(data) && data.mode() & 0o022 == 0
}

/// Opens a regular file of this user for reading and for changing its times; never follows a link or blocks.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    if data.is_file() && is_own(&data) { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Creates a file that only this user may read and write.
pub fn create_own(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a folder that only this user may access, and missing parent folders.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the number of bytes that this user may still write to a folder's file system; `None` if unknown.
pub fn disk_free(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: a NUL-terminated path, and a struct that the call fills in.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then_some(stat)?
    };
    // The types of both fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    (stat.f_bavail as u64).checked_mul(stat.f_frsize as u64)
}

pub fn is_regular(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_file())
}

/// Returns the file of a descriptor, without ever closing it; `None` if the system has no descriptors.
///
/// # Safety
/// The descriptor must not be closed while the file is in use; calls fail if it is not open.
pub unsafe fn of_descriptor(descriptor: i32) -> Option<ManuallyDrop<File>> {
    // SAFETY: by this function's contract.
    Some(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Fills `out` from `offset`; any number of threads may call this at once.
pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(out, offset)
}

/// True if the system has threads.
pub const HAS_THREADS: bool = true;

/// Runs `work` with all signals blocked on this thread. Threads that `work` starts inherit the mask, so they never run
/// a handler of the host.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let mut own = block_signals();
    let result = work();
    // SAFETY: the set is this thread's previous mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw mut own, null_mut()) };
    result
}

/// True if the calling thread blocks signals.
#[cfg(test)]
pub fn refuses_signals() -> bool {
    // SAFETY: the call only writes to the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
        [libc::SIGINT, libc::SIGCHLD, libc::SIGPROF].iter().all(|signal| libc::sigismember(&set, *signal) == 1)
    }
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: signal sets are plain memory; the calls only write to them, and a thread may always change its own mask.
    unsafe {
        let (mut all, mut own) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut own);
        own
    }
}

/// Starts a thread with this stack size that runs `start` with all signals blocked.
///
/// # Safety
/// `start` must be callable with `argument` on another thread.
unsafe fn create_thread(
    stack: usize,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> io::Result<libc::pthread_t> {
    // SAFETY: attributes are plain memory, initialized before use; the rest is this function's contract.
    without_signals(|| unsafe {
        let (mut thread, mut attributes) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, stack);
        let refusal = libc::pthread_create(&mut thread, &attributes, start, argument);
        libc::pthread_attr_destroy(&mut attributes);
        if refusal == 0 { Ok(thread) } else { Err(io::Error::from_raw_os_error(refusal)) }
    })
}

/// A thread started by `start_thread`.
pub struct Thread(libc::pthread_t);

// SAFETY: any thread may join another one.
unsafe impl Send for Thread {}
// SAFETY: no operation takes the thread by reference.
unsafe impl Sync for Thread {}

impl Thread {
    /// Waits for the end of the thread, including by a panic.
    pub fn join(self) {
        // SAFETY: the thread was created joinable, and is joined once, because `self` is taken.
        unsafe { libc::pthread_join(self.0, null_mut()) };
    }
}

/// The work of a thread that is not started yet.
type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread with all signals blocked. Does not use std, which registers destructors of thread-locals on each
/// thread that starts others and on each thread that it starts. These destructors keep the library mapped after
/// `dlclose`, and glibc terminates the process if it has no memory for them.
pub fn start_thread(name: &str, stack: usize, work: Work) -> io::Result<Thread> {
    struct Start {
        name: [u8; 16],
        work: Work,
    }

    extern "C" fn start(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the box that was passed to `pthread_create`; this thread owns it.
        let Start { name, work } = *unsafe { Box::from_raw(argument.cast::<Start>()) };
        name_thread(&name);
        // The thread ends here either way; a panic must not unwind into C.
        let _ = catch_unwind(AssertUnwindSafe(work));
        null_mut()
    }

    let mut start_name = [0; 16];
    start_name.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    let argument = Box::into_raw(Box::new(Start { name: start_name, work }));
    // SAFETY: the work is `Send`.
    unsafe { create_thread(stack, start, argument.cast()) }.map(Thread).inspect_err(|_| {
        // SAFETY: no thread was started that owns the box.
        drop(unsafe { Box::from_raw(argument) });
    })
}

/// Sets the name of the calling thread; `name` must be NUL-terminated.
fn name_thread(name: &[u8; 16]) {
    // SAFETY: the name is NUL-terminated and copied.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        #[cfg(target_vendor = "apple")]
        libc::pthread_setname_np(name.as_ptr().cast());
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        let _ = name;
    }
}

/// Runs `work` with all signals blocked on a new thread with this stack size and waits for its end; a panic continues
/// on the caller's thread.
pub fn run_apart<T: Send, F: FnOnce() -> T + Send>(stack: usize, work: F) -> io::Result<T> {
    struct Task<F, T> {
        work: Option<F>,
        result: Option<thread::Result<T>>,
    }

    extern "C" fn start<F: FnOnce() -> T, T>(task: *mut c_void) -> *mut c_void {
        // SAFETY: the task that was passed to `pthread_create`, whose caller does not use it until this thread has
        // ended.
        let task = unsafe { &mut *task.cast::<Task<F, T>>() };
        // No broken state is observable after a panic, because the panic continues when the result is taken.
        task.result = task.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
        null_mut()
    }

    let mut task = Task { work: Some(work), result: None };
    // SAFETY: only the new thread uses `task`, which lives until the thread is joined.
    Thread(unsafe { create_thread(stack, start::<F, T>, (&raw mut task).cast()) }?).join();
    match task.result {
        Some(result) => Ok(result.unwrap_or_else(|panic| resume_unwind(panic))),
        None => Err(io::ErrorKind::Other.into()),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    /// True if threads can be bound to processors.
    pub const HAS_AFFINITY: bool = true;

    /// Returns a predicate for the processors that the calling thread may use.
    fn usable() -> impl Fn(u32) -> bool {
        // SAFETY: a zeroed `cpu_set_t` is the empty set, and the call writes no more than its size.
        let allowed = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set);
            set
        };
        // SAFETY: the bit is within the set.
        move |cpu| cpu < libc::CPU_SETSIZE as u32 && unsafe { libc::CPU_ISSET(cpu as usize, &allowed) }
    }

    /// Returns the first of `cpus` that the calling thread may not use.
    pub fn unusable_processor(cpus: &[u32]) -> Option<u32> {
        let usable = usable();
        cpus.iter().copied().find(|cpu| !usable(*cpu))
    }

    /// Returns the number of fast cores that the calling thread may use; `None` if all are alike or it is unknown.
    pub fn fast_cores() -> Option<usize> {
        crate::os::cores::fast_cores(std::path::Path::new("/sys"), usable())
    }

    /// Binds the calling thread to a processor that it may use.
    pub fn bind(cpu: u32) {
        // SAFETY: the bit is within the set, and a thread may always restrict its own affinity.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
    }

    /// Returns the number of bytes of memory: total and free; 0 if unknown.
    pub fn memory() -> [u64; 2] {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |key: &str| -> Option<u64> {
            let (_, value) = text.lines().find(|line| line.starts_with(key))?.split_once(':')?;
            value.trim().strip_suffix(" kB")?.trim().parse().ok()
        };
        ["MemTotal", "MemAvailable"].map(|key| kib(key).unwrap_or(0) * 1024)
    }
}
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::*;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere {
    pub const HAS_AFFINITY: bool = false;

    pub fn unusable_processor(cpus: &[u32]) -> Option<u32> {
        cpus.first().copied()
    }

    pub fn bind(_cpu: u32) {}

    /// Returns the number of fast cores of Apple processors with cores of two kinds.
    pub fn fast_cores() -> Option<usize> {
        #[cfg(target_vendor = "apple")]
        {
            let number = |name: &std::ffi::CStr| {
                let (mut n, mut bytes) = (0u32, size_of::<u32>());
                // SAFETY: the name is NUL-terminated; at most the bytes of `n` are written, and nothing is set.
                let result = unsafe {
                    libc::sysctlbyname(name.as_ptr(), (&raw mut n).cast(), &mut bytes, std::ptr::null_mut(), 0)
                };
                (result == 0 && bytes == size_of::<u32>()).then_some(n as usize)
            };
            let kinds = number(c"hw.nperflevels")?;
            number(c"hw.perflevel0.physicalcpu").filter(|n| kinds > 1 && *n > 0)
        }
        #[cfg(not(target_vendor = "apple"))]
        None
    }

    pub fn memory() -> [u64; 2] {
        // SAFETY: the calls only return numbers; unknown ones are negative.
        let [pages, size] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
        [u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0)), 0]
    }
}
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub use elsewhere::*;
