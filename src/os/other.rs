//! Systems without threads, such as WebAssembly in a browser: one thread, and files through std.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::str::Utf8Error;

pub const IS_FOLDER: i32 = 0;
pub const IS_NO_FILE: i32 = 0;
pub const NOT_FOUND: i32 = 2;

pub fn path(bytes: &[u8]) -> Result<&Path, Utf8Error> {
    std::str::from_utf8(bytes).map(Path::new)
}

pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// True if a file belongs to this user; this system does not report it.
pub fn is_of_this_user(_data: &Metadata) -> bool {
    true
}

/// True if a file belongs to this user; this system has only one user.
pub fn is_own(_data: &Metadata) -> bool {
    true
}

pub fn open_own(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub fn create_own(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

pub fn make_own_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub fn disk_free(_folder: &Path) -> Option<u64> {
    None
}

pub fn is_regular(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_file())
}

pub unsafe fn of_descriptor(_descriptor: i32) -> Option<ManuallyDrop<File>> {
    None
}

pub fn read_exact_at(mut file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

pub const HAS_THREADS: bool = false;

pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// A thread; cannot exist on this system.
pub enum Thread {}

impl Thread {
    pub fn join(self) {}
}

/// Always fails: this system has no threads.
pub fn start_thread(_name: &str, _stack: usize, _work: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs `work` on the calling thread, the only one.
pub fn run_apart<T: Send, F: FnOnce() -> T + Send>(_stack: usize, work: F) -> io::Result<T> {
    Ok(work())
}

pub const HAS_AFFINITY: bool = false;

pub fn unusable_processor(cpus: &[u32]) -> Option<u32> {
    cpus.first().copied()
}

pub fn bind(_cpu: u32) {}

pub fn fast_cores() -> Option<usize> {
    None
}

pub fn memory() -> [u64; 2] {
    [0; 2]
}
