//! The error type of the library. Each variant is one status of the C interface and carries the details: the file, the
//! tensor, what was expected and what was found.

use std::path::Path;

use crate::memory;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An argument that can never work.
    #[error("{0}")]
    InvalidArgument(String),
    /// No item with this name or index.
    #[error("{0}")]
    NotFound(String),
    /// The call must follow another one.
    #[error("{0}")]
    NotReady(String),
    /// The handle is in use by another call.
    #[error("{0} is in use by another call")]
    Busy(&'static str),
    /// Has no `String`, because allocation has just failed.
    #[error("out of memory: {bytes} bytes for {what}")]
    OutOfMemory { what: &'static str, bytes: u64 },
    /// What was asked for takes more memory than the caller says is free.
    #[error("{0}")]
    TooLarge(String),
    #[error("{device} is out of memory: {bytes} bytes for {what}")]
    DeviceOutOfMemory { device: String, what: String, bytes: u64 },
    /// The call would exceed a limit set by the caller, of which `left` bytes are left.
    #[error("cannot reserve memory for {what}: {needed} bytes are needed, {left} of the limit of {limit} are left")]
    Limit { what: &'static str, needed: u64, left: u64, limit: u64 },
    /// The call would exceed a limit of this library.
    #[error("{0}")]
    TooComplex(String),
    #[error("{what}: {path}")]
    Io { path: String, what: String, system_code: i32 },
    /// The system denied a thread or another resource.
    #[error("{what}")]
    Resources { what: String, system_code: i32 },
    /// The file is damaged or hostile.
    #[error("{what}: {path}")]
    Format { path: String, what: String },
    /// The request is valid, but not implemented.
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Version(String),
    #[error("cancelled")]
    Cancelled,
    #[error("the time allowed has passed")]
    Deadline,
    /// `what` is the text that does not fit, `held` the number of its tokens already in the KV cache.
    #[error("{}", context_full(what, *held, *more, *capacity))]
    ContextFull { what: &'static str, held: usize, more: usize, capacity: usize },
    #[error("the buffer holds {capacity}, {needed} are needed")]
    BufferTooSmall { needed: usize, capacity: usize },
    #[error("{device}: {why}")]
    DeviceUnavailable { device: String, why: String },
    #[error("{device} was lost: {why}")]
    DeviceLost { device: String, why: String },
    /// Two objects that do not belong together, such as caches of different models in one batch.
    #[error("{0}")]
    Mismatch(String),
    /// `fault`: number of the panic, for finding its message; 0: unknown.
    #[error("{what} was left unusable by an internal error in an earlier call")]
    Poisoned { what: &'static str, fault: u32 },
}

fn context_full(what: &str, held: usize, more: usize, capacity: usize) -> String {
    let sum = held.saturating_add(more);
    match held {
        0 => format!("{what} is {more} tokens; it must be at most {capacity}, the capacity of the cache"),
        _ => format!("the cache holds {held} of {capacity} tokens, and {more} more need a capacity of {sum}"),
    }
}

impl Error {
    pub fn invalid(what: impl Into<String>) -> Self {
        Error::InvalidArgument(what.into())
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Error::NotFound(what.into())
    }

    pub fn not_ready(what: impl Into<String>) -> Self {
        Error::NotReady(what.into())
    }

    pub fn unsupported(what: impl Into<String>) -> Self {
        Error::Unsupported(what.into())
    }

    /// Adds the index of the list entry that the error is about.
    pub fn of_entry(self, i: usize) -> Self {
        self.of(&format!("entry {i}"))
    }

    /// Adds the subject of the error.
    pub fn of(self, whose: &str) -> Self {
        let at = |what: String| format!("{whose}: {what}");
        match self {
            Error::InvalidArgument(what) => Error::InvalidArgument(at(what)),
            Error::NotFound(what) => Error::NotFound(at(what)),
            Error::NotReady(what) => Error::NotReady(at(what)),
            Error::TooComplex(what) => Error::TooComplex(at(what)),
            Error::Unsupported(what) => Error::Unsupported(at(what)),
            Error::Mismatch(what) => Error::Mismatch(at(what)),
            Error::Format { path, what } => Error::Format { path, what: at(what) },
            other => other,
        }
    }

    pub fn io(path: &Path, doing: &str, source: &std::io::Error) -> Self {
        Error::Io {
            path: path.display().to_string(),
            what: format!("{doing}: {source}"),
            system_code: source.raw_os_error().unwrap_or(0),
        }
    }

    pub fn format(path: &Path, what: impl Into<String>) -> Self {
        Error::Format { path: path.display().to_string(), what: what.into() }
    }
}

/// Fails with `OutOfMemory` if a small allocation of the call was served from the reserve.
pub fn check_memory(what: &'static str) -> Result<()> {
    if memory::is_short() { Err(Error::OutOfMemory { what, bytes: 0 }) } else { Ok(()) }
}

/// Runs work that allocates up to `bytes` bytes infallibly, after reserving them.
pub fn secured<T>(what: &'static str, bytes: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    memory::secured(bytes, work).unwrap_or(Err(Error::OutOfMemory { what, bytes: bytes as u64 }))
}

/// Returns a vector with capacity for exactly `capacity` elements, or `OutOfMemory` naming `what`.
pub fn try_vec<T>(what: &'static str, capacity: usize) -> Result<Vec<T>> {
    check_memory(what)?;
    let mut v = Vec::new();
    v.try_reserve_exact(capacity)
        .map_err(|_| Error::OutOfMemory { what, bytes: (capacity as u64).saturating_mul(size_of::<T>() as u64) })?;
    Ok(v)
}

/// Like `try_vec`, filled with `len` copies of `value`.
pub fn try_filled<T: Clone>(what: &'static str, len: usize, value: T) -> Result<Vec<T>> {
    let mut v = try_vec(what, len)?;
    v.resize(len, value);
    Ok(v)
}
