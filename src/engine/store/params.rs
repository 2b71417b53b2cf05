//! What a store is given, and what it tells of itself.

use std::path::PathBuf;
use std::time::Duration;

/// Zero stands for the default.
#[derive(Clone, Debug, Default)]
pub struct StoreParams {
    /// Shorter prefixes are neither kept nor looked for.
    pub min_tokens: usize,
    /// Bytes of entries in memory, and their number.
    pub memory_limit: u64,
    pub max_entries: usize,
    /// Folder of the entries for which there is no room in memory; `None`: they are forgotten.
    pub path: Option<PathBuf>,
    /// Bytes of files in the folder.
    pub disk_limit: u64,
    /// Time between the arrival of an entry and the writing of its file; 0: two seconds.
    pub behind: Duration,
}

/// The state of a store at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreInfo {
    pub entries: usize,
    pub memory_bytes: u64,
    pub files: usize,
    pub disk_bytes: u64,
    /// The limits in effect; 0: there is no folder.
    pub memory_limit: u64,
    pub disk_limit: u64,
    /// Times that a prefix was found and was not.
    pub hits: u64,
    pub misses: u64,
    /// Tokens that need not be computed because of it.
    pub reused: u64,
    /// Entries that were forgotten because they could not be written.
    pub unwritten: usize,
}
