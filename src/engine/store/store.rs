//! The prefix cache: sessions kept for later prompts that begin with the same tokens.
//!
//! Invariants: an entry is a copy-on-write fork, which shares memory with its source and with sessions taken from it.
//! An entry has no adapters; its `Kind` contains the digest of the adapters. Memory stays within the limit by evicting
//! the least recently used entry. With a folder, each entry is written to a file some seconds after its arrival, and at
//! the latest on eviction. The file makes the entry available to other processes and preserves it in a crash. A thread
//! of the store writes the files, so `put` and steps never wait for writes. A child process after `fork` lacks this
//! thread, so `put` itself writes there. Files are removed after the state is unlocked. A lookup compares the prompt
//! with the first tokens of files. Incomplete files are removed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::Hasher;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use twox_hash::XxHash64;

use crate::cpu::threads::thread::{Background, Process};
use crate::cpu::threads::watch::Role;
use crate::engine::adapter::Adapters;
use crate::engine::cache::CacheParams;
use crate::engine::cancel::Cancel;
use crate::engine::model::Model;
use crate::engine::prompt::Prompt;
use crate::engine::runs::Text;
use crate::engine::runtime::LogLevel;
use crate::engine::saved::cache::{self as saved, RestoreParams};
use crate::engine::session::Session;
use crate::error::{Error, Result};
use crate::format::SharedFolder;

use super::memory::{Memory, bytes_of, default_limit};
use super::params::{StoreInfo, StoreParams};

const MIN_TOKENS: usize = 64;
const MAX_ENTRIES: usize = 1024;
/// Evicted entries that wait for the disk may take 1/`WAITING` of the memory limit in addition.
const WAITING: u64 = 4;
/// Time from the arrival of an entry to the writing of its file, and minimum time between two such files.
const WRITE_DELAY: Duration = Duration::from_secs(2);
/// The pause after writing such a file is this multiple of the writing time, so that the disk gets idle time.
const PAUSES: u32 = 4;
/// Time after which a child process considers the state lock orphaned, held by its parent's thread. No holder needs
/// more than some milliseconds.
const ORPHANED: Duration = Duration::from_millis(100);
/// Suffix of file names.
const SUFFIX: &str = ".rzprefix";

/// Properties that sessions must share to replace each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    /// Types of the KV cache.
    types: [u64; 2],
    /// Digest of the LoRA adapters.
    adapters: u64,
    /// `Session::is_long`.
    is_long: bool,
}

impl Kind {
    fn new(params: &CacheParams, adapters: &Adapters, is_long: bool) -> Kind {
        let types = [params.k_type, params.v_type].map(|t| u64::from(t.0));
        Kind { types, adapters: adapters.set().digest(), is_long }
    }
}

pub struct Store {
    shared: Arc<Shared>,
    /// Writes files; `None` without a folder, or on systems without threads.
    writer: Option<Background>,
}

struct Shared {
    model: Arc<Model>,
    /// As in `StoreParams`.
    min_tokens: usize,
    memory_limit: u64,
    max_entries: usize,
    folder: Option<SharedFolder>,
    write_delay: Duration,
    /// Prefix of the names of the model's files.
    prefix: String,
    state: Mutex<State>,
    /// Replaces `state` in a child process that inherited an orphaned lock.
    state_of_child: Mutex<State>,
    is_orphaned: AtomicBool,
    process: Process,
    /// Notified on evictions and on drop.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    memory: Memory,
    /// Number of uses.
    clock: u64,
    /// `Text::keys` and kind of each known file.
    files: HashMap<OsString, (Vec<u64>, Kind)>,
    info: StoreInfo,
    /// Earliest time to write the next entry that stays in memory.
    pause_until: Option<Instant>,
    has_ended: bool,
}

/// The state of an entry on its way to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Stays,
    /// Evicted and waiting for the disk; usable until written.
    Leaves,
    IsWritten,
}

struct Entry {
    session: Arc<Session>,
    kind: Kind,
    stage: Stage,
    used: u64,
    /// True while a thread writes the entry's file, which protects the entry from removal.
    is_being_written: bool,
    /// Time at which the entry must be written to a file; `None` if it has a file already, or if there is no folder.
    due: Option<Instant>,
    /// Name of the entry's file, then names of the files of entries that it replaces. Those files are removed when the
    /// entry's file is written.
    files: Vec<OsString>,
}

impl Store {
    pub fn new(model: &Arc<Model>, params: StoreParams) -> Result<Store> {
        let or = |n: usize, default: usize| if n == 0 { default } else { n };
        let disk_limit = (params.disk_limit != 0).then_some(params.disk_limit);
        let folder = params.path.map(|path| SharedFolder::new(path, SUFFIX, disk_limit)).transpose()?;
        let has_folder = folder.is_some();
        let shared = Arc::new(Shared {
            prefix: format!("{:016x}-", model.fingerprint()?),
            model: model.clone(),
            min_tokens: or(params.min_tokens, MIN_TOKENS),
            memory_limit: if params.memory_limit == 0 { default_limit() } else { params.memory_limit },
            max_entries: or(params.max_entries, MAX_ENTRIES),
            folder,
            write_delay: if params.write_delay.is_zero() { WRITE_DELAY } else { params.write_delay },
            state: Mutex::default(),
            state_of_child: Mutex::default(),
            is_orphaned: AtomicBool::new(false),
            process: Process::this(),
            changed: Condvar::new(),
        });
        // The store has a thread even if the host's threads compute, because a step that writes files would exceed its
        // budget.
        let writer = match has_folder {
            true => {
                let (shared, watch) = (shared.clone(), model.runtime().watch(Role::Store));
                Background::start(watch, move || shared.write_until_the_end())?
            }
            false => None,
        };
        Ok(Store { shared, writer })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.shared.model
    }

    /// Like `take_text`, for tokens without media.
    pub fn take(
        &self,
        tokens: &[u32],
        held: usize,
        params: &CacheParams,
        adapters: &Adapters,
        cancels: &[Option<&Cancel>],
    ) -> Result<Option<(Session, usize)>> {
        self.take_text(Text::plain(tokens), held, params, adapters, cancels)
    }

    /// Like `take_text`, for a prompt.
    pub fn take_prompt(
        &self,
        prompt: &Prompt,
        held: usize,
        params: &CacheParams,
        adapters: &Adapters,
        cancels: &[Option<&Cancel>],
    ) -> Result<Option<(Session, usize)>> {
        self.take_text(prompt.from(0, self.model())?, held, params, adapters, cancels)
    }

    /// Returns a session with `adapters` that holds a prefix of `text`, and the prefix's length, which excludes at
    /// least the last token. `None` if no prefix is longer than `held` tokens. `cancels` stop the reading of files.
    fn take_text(
        &self,
        text: Text,
        held: usize,
        params: &CacheParams,
        adapters: &Adapters,
        cancels: &[Option<&Cancel>],
    ) -> Result<Option<(Session, usize)>> {
        let shared = &self.shared;
        let capacity = shared.model.capacity_of(params)?;
        let wanted = text.first(text.tokens.len().saturating_sub(1).min(capacity));
        let least = (held + 1).max(shared.min_tokens);
        if wanted.tokens.len() < least {
            return Ok(None);
        }
        let kind = Kind::new(params, adapters, shared.model.network()?.program.is_long(capacity));
        shared.find_files(cancels)?;
        let keys = wanted.keys()?;
        let mut tried = Vec::new();
        let (mut session, common) = loop {
            let mut state = shared.state();
            let common = |entry: &Entry| if entry.kind == kind { entry.session.matching_text(wanted) } else { 0 };
            let best = state.entries.iter().map(common).enumerate().max_by_key(|(_, n)| *n);
            let (i, in_memory) = best.unwrap_or((0, 0));
            if let Some((name, len)) = state.best_file(&keys, kind, in_memory.max(least - 1), &tried) {
                drop(state);
                // The session of a file may be longer than `capacity`; `cut` truncates it.
                if let Some(session) = shared.load(&name, kind, capacity.max(len), cancels)? {
                    let taken = shared.cut(session, wanted, capacity)?;
                    // A session with recurrent state may not be able to rewind to the end of the common prefix.
                    if taken.1 >= in_memory.max(least) {
                        break taken;
                    }
                }
                tried.push(name);
                continue;
            }
            if in_memory < least {
                state.info.misses += 1;
                return Ok(None);
            }
            let used = state.tick();
            state.entries[i].used = used;
            let session = state.entries[i].session.clone();
            drop(state);
            break shared.cut(session.fork()?, wanted, capacity)?;
        };
        session.adapt(adapters.clone());
        let info = &mut shared.state().info;
        info.hits += 1;
        info.reused += common as u64;
        Ok(Some((session, common)))
    }

    /// Like `put`, for a session that stays in use and copies shared pieces on write. Skips a session with fewer than
    /// `min_tokens` tokens that are new to the entries in memory.
    pub fn put_new(&self, session: &Session) -> Result<()> {
        let shared = &self.shared;
        let kind = Kind::new(&session.params(), session.adapters(), session.is_long());
        let text = session.text();
        let state = shared.state();
        let of_kind = state.entries.iter().filter(|entry| entry.kind == kind);
        let known = of_kind.map(|entry| entry.session.matching_text(text)).max().unwrap_or(0);
        drop(state);
        if session.len().saturating_sub(known) < shared.min_tokens { Ok(()) } else { self.put(session) }
    }

    /// Adds a fork of the session.
    ///
    /// # Errors
    /// `Mismatch` for a session of another model, and the errors of a fork.
    pub fn put(&self, session: &Session) -> Result<()> {
        let shared = &self.shared;
        if !Arc::ptr_eq(session.model(), &shared.model) {
            return Err(Error::Mismatch("the cache is one of another model than the store".to_owned()));
        }
        if session.matching_text(session.text()) < shared.min_tokens {
            return Ok(());
        }
        let kind = Kind::new(&session.params(), session.adapters(), session.is_long());
        let covers = |a: &Session, b: &Session| a.capacity() == b.capacity() && a.matching_text(b.text()) == b.len();
        let mut state = shared.state();
        let now = state.tick();
        let mut of_kind = state.entries.iter_mut().filter(|entry| entry.kind == kind);
        if let Some(known) = of_kind.find(|entry| covers(&entry.session, session)) {
            known.used = now;
            return Ok(());
        }
        let fork = Arc::new(session.preserved(bytes_of(session))?);
        // Without the thread, this call writes the file, unless one was written just before.
        let has_writer = self.writer.as_ref().is_some_and(Background::is_here);
        let write_delay = if has_writer { shared.write_delay } else { shared.write_delay.saturating_sub(WRITE_DELAY) };
        let mut due = shared.folder.as_ref().and_then(|_| Instant::now().checked_add(write_delay));
        let mut files = Vec::new();
        let is_covered = |entry: &Entry| entry.kind == kind && covers(session, &entry.session);
        for covered in state.entries.iter_mut().filter(|entry| is_covered(entry)) {
            // Keep the earliest deadline, so that a growing text is written in time.
            due = due.min(covered.due.or(due));
            files.append(&mut covered.files);
        }
        state.remove(is_covered);
        state.memory.add(&fork);
        state.entries.push(Entry {
            session: fork,
            kind,
            stage: Stage::Stays,
            used: now,
            is_being_written: false,
            due,
            files,
        });
        let forgotten = shared.make_room(&mut state);
        drop(state);
        if forgotten > 0 {
            shared.warn(&format!("cannot keep {forgotten} prefixes: too many others wait for the disk"));
        }
        match has_writer {
            true => shared.changed.notify_one(),
            false => while shared.write_next(shared.state()).is_none() {},
        }
        Ok(())
    }

    /// Removes all entries from memory, and all files of this model.
    pub fn clear(&self) {
        // Without cancels, the call cannot fail.
        let _ = self.shared.find_files(&[]);
        let mut state = self.shared.state();
        state.remove(|_| true);
        let files = std::mem::take(&mut state.files);
        drop(state);
        files.keys().for_each(|name| self.shared.remove_file(name));
    }

    pub fn info(&self) -> StoreInfo {
        let shared = &self.shared;
        // Without cancels, the call cannot fail.
        let sizes = shared.find_files(&[]).unwrap_or_default();
        let state = shared.state();
        StoreInfo {
            entries: state.entries.len(),
            memory_bytes: state.memory.bytes + state.waiting_bytes(),
            files: state.files.len(),
            disk_bytes: state.files.keys().filter_map(|name| sizes.get(name)).sum(),
            memory_limit: shared.memory_limit,
            disk_limit: shared.folder.as_ref().map_or(0, SharedFolder::limit),
            ..state.info
        }
    }
}

impl Drop for Store {
    /// Writes the entries in memory, if there is a folder.
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.state().has_ended = true;
        shared.changed.notify_one();
        self.writer = None;
        let mut state = shared.state();
        state.entries.iter_mut().for_each(|entry| entry.stage = Stage::Leaves);
        drop(state);
        while shared.write_next(shared.state()).is_none() {}
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        if self.process.is_here() {
            return self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let started = Instant::now();
        while !self.is_orphaned.load(Ordering::Relaxed) {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(e)) => return e.into_inner(),
                Err(TryLockError::WouldBlock) if started.elapsed() < ORPHANED => std::thread::yield_now(),
                Err(TryLockError::WouldBlock) => self.is_orphaned.store(true, Ordering::Relaxed),
            }
        }
        self.state_of_child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, what: &str) {
        self.model.runtime().log(LogLevel::Warning, what);
    }

    /// Truncates a session to its common prefix with a text, and changes its capacity.
    fn cut(&self, mut session: Session, wanted: Text, capacity: usize) -> Result<(Session, usize)> {
        let common = session.matching_text(wanted);
        if common < session.len() {
            session.truncate(common as u32)?;
        }
        if session.capacity() != capacity {
            let mut bytes = Vec::new();
            saved::save(&session, &mut |piece| {
                bytes.try_reserve(piece.len()).map_err(|_| out_of_memory(piece.len()))?;
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            let mut rest = &bytes[..];
            let params = RestoreParams { capacity: Some(capacity as u32), ..RestoreParams::default() };
            session = saved::load(&self.model, &params, &mut |out| {
                rest.read_exact(out).map_err(|e| Error::io(Path::new("a prefix"), "cannot read", &e))
            })?;
        }
        Ok((session, common))
    }

    /// Evicts entries until the limits hold, and drops evicted ones if too many wait for the disk. Returns the number
    /// of dropped entries.
    fn make_room(&self, state: &mut State) -> usize {
        while state.memory.bytes > self.memory_limit || state.staying().count() > self.max_entries {
            let Some(oldest) = state.staying().min_by_key(|entry| entry.used).map(|entry| entry.session.clone()) else {
                break;
            };
            state.memory.remove(&oldest);
            let of = |entry: &&mut Entry| Arc::ptr_eq(&entry.session, &oldest);
            state.entries.iter_mut().find(of).into_iter().for_each(|entry| entry.stage = Stage::Leaves);
        }
        if self.folder.is_none() {
            state.remove(|entry| entry.stage != Stage::Stays);
        }
        let before = state.entries.len();
        while state.waiting_bytes() > self.memory_limit / WAITING {
            let waiting = |entry: &&Entry| entry.stage == Stage::Leaves && !entry.is_being_written;
            let n = state.entries.iter().filter(waiting).count();
            let oldest = state.entries.iter().filter(waiting).min_by_key(|entry| entry.used);
            let Some(oldest) = oldest.filter(|_| n > 1).map(|entry| entry.session.clone()) else { break };
            state.remove(|entry| Arc::ptr_eq(&entry.session, &oldest));
        }
        let forgotten = before - state.entries.len();
        state.info.unwritten += forgotten;
        forgotten
    }

    /// Lists the files of this model with their sizes, reads the headers of new files, and forgets missing files.
    ///
    /// # Errors
    /// Only `Cancelled` and `Deadline`, from `cancels`.
    fn find_files(&self, cancels: &[Option<&Cancel>]) -> Result<HashMap<OsString, u64>> {
        let Some(folder) = &self.folder else { return Ok(HashMap::new()) };
        let is_own = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with(&self.prefix));
        let files = folder.files().into_iter().map(|(name, len, _)| (name, len));
        let sizes: HashMap<OsString, u64> = files.filter(|(name, _)| is_own(name)).collect();
        let mut state = self.state();
        state.files.retain(|name, _| sizes.contains_key(name));
        let new: Vec<&OsString> = sizes.keys().filter(|name| !state.files.contains_key(*name)).collect();
        drop(state);
        for name in new {
            let rest = name.to_str().and_then(|name| name.strip_prefix(&self.prefix)).unwrap_or_default();
            let adapters = rest.split('-').next().and_then(|digest| u64::from_str_radix(digest, 16).ok());
            // A file name from elsewhere means no adapters.
            let adapters = adapters.unwrap_or(0);
            let known = self.read(name, cancels, |read| saved::peek(&self.model, adapters, read))?;
            if let Some((keys, types, capacity)) = known
                && let Ok(network) = self.model.network()
            {
                let kind = Kind { types, adapters, is_long: network.program.is_long(capacity) };
                self.state().files.insert(name.clone(), (keys, kind));
            }
        }
        Ok(sizes)
    }

    /// Opens a file and returns the result of `read`; `None` if either fails. Removes a damaged file and logs the
    /// reason.
    ///
    /// # Errors
    /// Only `Cancelled` and `Deadline`, from `cancels`.
    fn read<T>(
        &self,
        name: &OsString,
        cancels: &[Option<&Cancel>],
        read: impl FnOnce(saved::Read) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(folder) = self.folder.as_ref() else { return Ok(None) };
        let path = folder.path_of(name);
        let mut file = match folder.open(name) {
            Ok(file) => file,
            // Another process may have removed the file.
            Err(Error::Io { .. }) => return Ok(None),
            Err(e) => {
                self.warn(&format!("cannot use a stored prefix: {e}: {}", path.display()));
                return Ok(None);
            }
        };
        let mut piece = |out: &mut [u8]| {
            Cancel::check(cancels)?;
            file.read_exact(out).map_err(|e| Error::io(&path, "cannot read", &e))
        };
        match read(&mut piece) {
            Ok(result) => Ok(Some(result)),
            Err(e @ (Error::Cancelled | Error::Deadline)) => Err(e),
            Err(e) => {
                // An unexpected end of file is an I/O error without a system code.
                let is_damaged = matches!(
                    e,
                    Error::Format { .. } | Error::Version(_) | Error::Mismatch(_) | Error::Io { system_code: 0, .. }
                );
                if is_damaged {
                    self.remove_file(name);
                    self.state().files.remove(name);
                }
                self.warn(&format!("cannot use a stored prefix: {e}: {}", path.display()));
                Ok(None)
            }
        }
    }

    /// Loads the session of a file; `None` if the file is unusable.
    fn load(
        &self,
        name: &OsString,
        kind: Kind,
        capacity: usize,
        cancels: &[Option<&Cancel>],
    ) -> Result<Option<Session>> {
        let params =
            RestoreParams { adapters: kind.adapters, capacity: Some(capacity as u32), ..RestoreParams::default() };
        let session = self.read(name, cancels, |read| saved::load(&self.model, &params, read))?;
        if session.is_some() {
            self.folder.iter().for_each(|folder| _ = folder.mark_used(name));
        }
        Ok(session)
    }

    /// Writes evicted entries and due entries until the store ends.
    fn write_until_the_end(&self) {
        let mut state = self.state();
        while !state.has_ended {
            let Some(idle) = self.write_next(state) else {
                state = self.state();
                continue;
            };
            let time = idle.next_due().map(|due| due.saturating_duration_since(Instant::now()));
            state = match time {
                Some(time) => self.changed.wait_timeout(idle, time).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(idle).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Writes one entry: the least recently used evicted entry, which is then dropped, otherwise a due entry. Returns
    /// the state if there is nothing to write.
    fn write_next<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        let started = Instant::now();
        let is_due = state.next_due().is_some_and(|due| due <= started);
        let waits = |entry: &&Entry| entry.stage == Stage::Leaves && !entry.is_being_written;
        let due = |entry: &&Entry| is_due && entry.stage == Stage::Stays && entry.due.is_some();
        let leaving = state.entries.iter().filter(waits).min_by_key(|entry| entry.used);
        let leaves = leaving.is_some();
        let Some(entry) = leaving.or_else(|| state.entries.iter().filter(due).min_by_key(|entry| entry.due)) else {
            return Some(state);
        };
        let (session, kind) = (entry.session.clone(), entry.kind);
        let (name, replaced) = self.begin_file(&mut state, &session);
        drop(state);
        let written = self.write(&name, &replaced, &session, kind);
        let took = started.elapsed();
        let mut state = self.state();
        let is_unwanted = state.end_file(&session, &name, written.is_ok());
        if leaves {
            state.remove(|entry| Arc::ptr_eq(&entry.session, &session));
            state.info.unwritten += usize::from(written.is_err());
        } else {
            state.pause_until = Instant::now().checked_add(self.write_delay.min(WRITE_DELAY).max(took * PAUSES));
        }
        drop(state);
        if is_unwanted {
            self.remove_file(&name);
        }
        if let Err(e) = written {
            let what = if leaves { "which is forgotten" } else { "which stays in memory" };
            self.warn(&format!("cannot write a prefix, {what}: {e}"));
        }
        None
    }

    /// Marks an entry as being written. Returns its file name, and the names of the files that it replaces.
    fn begin_file(&self, state: &mut State, session: &Arc<Session>) -> (OsString, Vec<OsString>) {
        let mut name = OsString::new();
        let mut replaced = Vec::new();
        if let Some(entry) = state.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.session, session)) {
            name = self.name_of(session, entry.kind);
            entry.due = None;
            entry.is_being_written = true;
            if entry.stage == Stage::Leaves {
                entry.stage = Stage::IsWritten;
            }
            if !entry.files.contains(&name) {
                entry.files.push(name.clone());
            }
            replaced = entry.files.iter().filter(|file| **file != name).cloned().collect();
        }
        // Entries of different capacities may share a file.
        replaced.retain(|file| state.entries.iter().filter(|entry| entry.files.contains(file)).count() == 1);
        (name, replaced)
    }

    fn remove_file(&self, name: &OsString) {
        self.folder.iter().for_each(|folder| folder.remove(name));
    }

    fn name_of(&self, session: &Session, kind: Kind) -> OsString {
        let mut hash = XxHash64::with_seed(kind.types[0] << 32 | kind.types[1] << 1 | u64::from(kind.is_long));
        session.tokens().iter().for_each(|token| hash.write_u32(*token));
        session.runs().iter().for_each(|run| hash.write(run.media.hash()));
        format!("{}{:016x}-{:016x}{SUFFIX}", self.prefix, kind.adapters, hash.finish()).into()
    }

    /// Writes a session to a file, which replaces others, if the store has a folder.
    fn write(&self, name: &OsString, replaced: &[OsString], session: &Session, kind: Kind) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.write(name, replaced, |file, path| {
            let mut write = |piece: &[u8]| file.write_all(piece).map_err(|e| Error::io(path, "cannot write", &e));
            saved::save_adapted(session, kind.adapters, &mut write)
        })
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Records that a file was written or failed. Returns true if no entry owns the file any more, because of `clear`.
    fn end_file(&mut self, session: &Arc<Session>, name: &OsString, is_written: bool) -> bool {
        if let Some(entry) = self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.session, session)) {
            entry.is_being_written = false;
            if is_written {
                entry.files.retain(|file| file == name);
            }
        }
        !self.entries.iter().any(|entry| entry.files.contains(name))
    }

    /// Returns the earliest time to write an entry that stays in memory.
    fn next_due(&self) -> Option<Instant> {
        let due = self.staying().filter_map(|entry| entry.due).min()?;
        Some(self.pause_until.map_or(due, |pause| pause.max(due)))
    }

    fn staying(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.stage == Stage::Stays)
    }

    /// Returns the number of bytes of the entries that wait for the disk.
    fn waiting_bytes(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.stage != Stage::Stays).map(|entry| bytes_of(&entry.session)).sum()
    }

    fn remove(&mut self, is_wanted: impl Fn(&Entry) -> bool) {
        let State { entries, memory, .. } = self;
        entries.retain(|entry| {
            let goes = is_wanted(entry);
            if goes && entry.stage == Stage::Stays {
                memory.remove(&entry.session);
            }
            !goes
        });
    }

    /// Returns the file with the longest common prefix with a text, longer than `least` tokens, and the file's number
    /// of tokens.
    fn best_file(&self, wanted: &[u64], kind: Kind, least: usize, tried: &[OsString]) -> Option<(OsString, usize)> {
        let common = |keys: &[u64]| keys.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        let of_kind = self.files.iter().filter(|(name, (_, of))| *of == kind && !tried.contains(name));
        let best = of_kind.map(|(name, (keys, _))| (common(keys), name, keys.len())).max_by_key(|(n, ..)| *n);
        best.filter(|(n, ..)| *n > least).map(|(_, name, len)| (name.clone(), len))
    }
}

fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { what: "a prefix", bytes: bytes as u64 }
}
