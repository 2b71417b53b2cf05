//! Parameters and state of a prefix cache.

use std::path::PathBuf;
use std::time::Duration;

/// Parameters of a prefix cache; 0 selects the default.
#[derive(Clone, Debug, Default)]
pub struct StoreParams {
    /// Minimum length of a prefix, for storing and lookup.
    pub min_tokens: usize,
    /// Memory limit in bytes, and maximum number of entries in memory.
    pub memory_limit: u64,
    pub max_entries: usize,
    /// Folder of the entries' files; `None`: evicted entries are dropped.
    pub path: Option<PathBuf>,
    /// Limit of the folder's files in bytes.
    pub disk_limit: u64,
    /// Time from the arrival of an entry to the writing of its file; 0: two seconds.
    pub write_delay: Duration,
}

/// The state of a prefix cache at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreInfo {
    pub entries: usize,
    pub memory_bytes: u64,
    pub files: usize,
    pub disk_bytes: u64,
    /// The limits in effect; the disk limit is 0 without a folder.
    pub memory_limit: u64,
    pub disk_limit: u64,
    /// Number of lookups with and without a match.
    pub hits: u64,
    pub misses: u64,
    /// Number of tokens whose prefill was saved.
    pub reused: u64,
    /// Number of entries dropped because they could not be written.
    pub unwritten: usize,
}
