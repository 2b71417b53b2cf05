//! Windows. Paths are UTF-8; std opens paths longer than 260 characters in their long form. Files are opened in shared
//! mode, so that other processes may read, write, rename and delete them meanwhile. A thread can be bound to the
//! processors of its group.

use std::ffi::c_void;
use std::fs::{self, File, Metadata};
use std::io;
use std::mem::ManuallyDrop;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::panic::resume_unwind;
use std::path::Path;
use std::ptr::null_mut;
use std::str::Utf8Error;
use std::thread;

// Declarations as in `windows.h`, all in kernel32.
#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetFileType(file: *mut c_void) -> u32;
    fn GetCurrentProcess() -> *mut c_void;
    fn GetCurrentThread() -> *mut c_void;
    fn GetProcessAffinityMask(process: *mut c_void, of_process: *mut usize, of_system: *mut usize) -> i32;
    fn SetThreadAffinityMask(thread: *mut c_void, mask: usize) -> usize;
    fn GetDiskFreeSpaceExW(folder: *const u16, free: *mut u64, total: *mut u64, free_of_all: *mut u64) -> i32;
    fn GlobalMemoryStatusEx(status: *mut MemoryStatus) -> i32;
    fn GetLogicalProcessorInformationEx(relation: u32, buffer: *mut u8, bytes: *mut u32) -> i32;
}

/// `MEMORYSTATUSEX`
#[repr(C)]
struct MemoryStatus {
    length: u32,
    load: u32,
    physical: [u64; 2],
    others: [u64; 5],
}

/// ERROR_DIRECTORY_NOT_SUPPORTED, ERROR_NOT_SUPPORTED, ERROR_FILE_NOT_FOUND
pub const IS_FOLDER: i32 = 336;
pub const IS_NO_FILE: i32 = 50;
pub const NOT_FOUND: i32 = 2;

/// Returns bytes as a path; they must be UTF-8.
pub fn path(bytes: &[u8]) -> Result<&Path, Utf8Error> {
    std::str::from_utf8(bytes).map(Path::new)
}

/// Opens a path for reading; also folders, so that they can be distinguished from missing files.
pub fn open(path: &Path) -> io::Result<File> {
    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    File::options().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// True if a file belongs to this user; this system does not report it.
pub fn is_of_this_user(_data: &Metadata) -> bool {
    true
}

/// True if a file belongs to this user; the access rights of its folder decide.
pub fn is_own(_data: &Metadata) -> bool {
    true
}

/// Opens a regular file for reading and for changing its times; never follows a link.
pub fn open_own(path: &Path) -> io::Result<File> {
    const GENERIC_READ: u32 = 0x8000_0000;
    const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    let file = File::options()
        .access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)?;
    if is_regular(&file)? { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

pub fn create_own(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

pub fn make_own_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Returns the number of bytes that this user may still write to a folder's volume; `None` if unknown.
pub fn disk_free(folder: &Path) -> Option<u64> {
    let path: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: a NUL-terminated path, and a number that the call writes; the other pointers may be NULL.
    let found = unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &mut free, null_mut(), null_mut()) };
    (found != 0).then_some(free)
}

/// True if `file` is on a disk, unlike pipes and devices such as NUL.
pub fn is_regular(file: &File) -> io::Result<bool> {
    const FILE_TYPE_DISK: u32 = 1;
    // SAFETY: the handle is open.
    let is_disk = unsafe { GetFileType(file.as_raw_handle()) } == FILE_TYPE_DISK;
    Ok(is_disk && file.metadata()?.is_file())
}

/// Always `None`: descriptors belong to a C runtime, of which a process may have several.
pub unsafe fn of_descriptor(_descriptor: i32) -> Option<ManuallyDrop<File>> {
    None
}

/// Fills `out` from `offset`; any number of threads may call this at once.
pub fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match file.seek_read(out, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => (out, offset) = (&mut out[n..], offset + n as u64),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// True if the system has threads.
pub const HAS_THREADS: bool = true;

/// Runs `work`; there are no signals to block.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(test)]
pub fn refuses_signals() -> bool {
    true
}

/// A thread started by `start_thread`.
pub struct Thread(thread::JoinHandle<()>);

impl Thread {
    /// Waits for the end of the thread, including by a panic.
    pub fn join(self) {
        let _ = self.0.join();
    }
}

/// Starts a thread.
pub fn start_thread(name: &str, stack: usize, work: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(work).map(Thread)
}

/// Runs `work` on a new thread with this stack size and waits for its end; a panic continues on the caller's thread.
pub fn run_apart<T: Send, F: FnOnce() -> T + Send>(stack: usize, work: F) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(stack).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// True if threads can be bound to processors.
pub const HAS_AFFINITY: bool = true;

/// Returns the first of `cpus` that this process may not use.
pub fn unusable_processor(cpus: &[u32]) -> Option<u32> {
    let [mut process, mut system] = [0; 2];
    // SAFETY: the call writes two numbers; on failure they stay 0.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &mut process, &mut system) };
    cpus.iter().copied().find(|cpu| *cpu >= usize::BITS || process >> cpu & 1 == 0)
}

/// Binds the calling thread to a processor that it may use.
pub fn bind(cpu: u32) {
    // SAFETY: a thread may always restrict its own affinity.
    unsafe { SetThreadAffinityMask(GetCurrentThread(), 1 << cpu) };
}

/// Returns the number of cores of the highest (fastest) class; `None` if there is only one class.
pub fn fast_cores() -> Option<usize> {
    const RELATION_PROCESSOR_CORE: u32 = 0;
    let mut bytes = 0;
    // SAFETY: the call only writes the required size, because the buffer size is 0.
    unsafe { GetLogicalProcessorInformationEx(RELATION_PROCESSOR_CORE, std::ptr::null_mut(), &mut bytes) };
    let mut records = vec![0u64; (bytes as usize).div_ceil(8)];
    // SAFETY: the call writes at most `bytes` bytes, and their number.
    let result =
        unsafe { GetLogicalProcessorInformationEx(RELATION_PROCESSOR_CORE, records.as_mut_ptr().cast(), &mut bytes) };
    let records: Vec<u8> = records.into_iter().flat_map(u64::to_le_bytes).take(bytes as usize).collect();
    if result == 0 { None } else { of_highest_class(&records) }
}

/// Counts the records of `SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX` whose cores have the highest class.
fn of_highest_class(mut records: &[u8]) -> Option<usize> {
    let mut classes = Vec::new();
    // Relation, size of the record, flags and class of a core.
    while let [_, _, _, _, a, b, c, d, _, class, ..] = *records {
        classes.push(class);
        records = records.get((u32::from_le_bytes([a, b, c, d]) as usize).max(1)..)?;
    }
    let highest = *classes.iter().max()?;
    let n = classes.iter().filter(|class| **class == highest).count();
    (n < classes.len()).then_some(n)
}

/// Returns the number of bytes of memory: total and free; 0 if unknown.
pub fn memory() -> [u64; 2] {
    let length = size_of::<MemoryStatus>() as u32;
    let mut status = MemoryStatus { length, load: 0, physical: [0; 2], others: [0; 5] };
    // SAFETY: the call writes the struct, whose length is given; on failure the zeros remain.
    unsafe { GlobalMemoryStatusEx(&mut status) };
    status.physical
}

#[cfg(test)]
mod tests {
    #[test]
    fn cores_of_the_highest_class_are_counted() {
        let record = |class| [&[0, 0, 0, 0, 48, 0, 0, 0, 1, class][..], &[0; 38]].concat();
        let records = |classes: &[u8]| classes.iter().flat_map(|class| record(*class)).collect::<Vec<u8>>();
        assert_eq!(super::of_highest_class(&records(&[1, 1, 0, 0, 0])), Some(2));
        assert_eq!(super::of_highest_class(&records(&[0, 0, 0])), None);
        assert_eq!(super::of_highest_class(&[]), None);
        assert_eq!(super::of_highest_class(&records(&[1, 0])[..70]), None);
    }
}
