//! A store of prefixes: sessions that prompts left behind, for any session that begins with the same tokens.
//!
//! Invariants: an entry is a fork, so that it shares memory with the session it was made of and with those that are
//! taken from it. The store keeps as many bytes as its limit allows; the entry that was not used for longest goes
//! first, into a file where the store has a folder. Files are found by the tokens at their beginning, and a file that
//! is not whole is removed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::Hasher;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash64;

use super::LogLevel;
use super::cache::CacheParams;
use super::model::Model;
use super::saved::{self, RestoreParams};
use super::session::Session;
use crate::error::{Error, Result};
use crate::format::SharedFolder;

const MIN_TOKENS: usize = 64;
const MEMORY_LIMIT: u64 = 1 << 30;
const DISK_LIMIT: u64 = 16 << 30;
const MAX_ENTRIES: usize = 1024;
/// End of the names of files.
const SUFFIX: &str = ".rzprefix";

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
}

/// The state of a store at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreInfo {
    pub entries: usize,
    pub memory_bytes: u64,
    pub files: usize,
    pub disk_bytes: u64,
    /// Times that a prefix was found and was not.
    pub hits: u64,
    pub misses: u64,
    /// Tokens that need not be computed because of it.
    pub reused: u64,
}

pub struct Store {
    model: Arc<Model>,
    /// As in `StoreParams`.
    min_tokens: usize,
    memory_limit: u64,
    max_entries: usize,
    folder: Option<SharedFolder>,
    fingerprint: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// Number of uses.
    clock: u64,
    /// The tokens of the files that were looked into, and the types of their keys and values.
    files: HashMap<OsString, (Vec<u32>, [u64; 2])>,
    info: StoreInfo,
}

struct Entry {
    session: Session,
    /// What it adds to the entry that it was taken from.
    bytes: u64,
    used: u64,
}

impl Store {
    pub fn new(model: &Arc<Model>, params: StoreParams) -> Result<Store> {
        let or = |n: usize, default: usize| if n == 0 { default } else { n };
        let bytes = |n: u64, default: u64| if n == 0 { default } else { n };
        let disk_limit = bytes(params.disk_limit, DISK_LIMIT);
        let folder = params.path.map(|path| SharedFolder::new(path, SUFFIX, disk_limit)).transpose()?;
        let fingerprint = model.fingerprint()?;
        Ok(Store {
            model: model.clone(),
            min_tokens: or(params.min_tokens, MIN_TOKENS),
            memory_limit: bytes(params.memory_limit, MEMORY_LIMIT),
            max_entries: or(params.max_entries, MAX_ENTRIES),
            folder,
            fingerprint,
            state: Mutex::default(),
        })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session for a prompt, and the number of the first of its tokens that the session holds: all but the last at
    /// most. `None` where no prefix is known that is longer than `held` tokens.
    pub fn take(&self, tokens: &[u32], held: usize, params: &CacheParams) -> Result<Option<(Session, usize)>> {
        let wanted = &tokens[..tokens.len().saturating_sub(1)];
        let least = (held + 1).max(self.min_tokens);
        if wanted.len() < least {
            return Ok(None);
        }
        let capacity = self.model.capacity_of(params)?;
        let types = [params.k_type, params.v_type].map(|t| u64::from(t.0));
        self.find_files();
        let mut state = self.state();
        let common = |entry: &Entry| if entry.session.types() == types { entry.session.matching(wanted) } else { 0 };
        let best = state.entries.iter().map(common).enumerate().max_by_key(|(_, n)| *n);
        let (i, in_memory) = best.unwrap_or((0, 0));
        let file = state.best_file(wanted, types, in_memory.max(least - 1));
        if file.is_none() && in_memory < least {
            state.info.misses += 1;
            return Ok(None);
        }
        if let Some(name) = file {
            drop(state);
            if let Some(session) = self.load(&name, capacity) {
                let taken = self.cut(session, wanted, capacity)?;
                return Ok(self.counted(taken, least));
            }
            // It is gone or was damaged.
            return self.take(tokens, held, params);
        }
        state.clock += 1;
        let now = state.clock;
        state.entries[i].used = now;
        let session = state.entries[i].session.fork()?;
        drop(state);
        let taken = self.cut(session, wanted, capacity)?;
        Ok(self.counted(taken, least))
    }

    /// The part of a session that some tokens begin with, in a cache of some capacity.
    fn cut(&self, mut session: Session, wanted: &[u32], capacity: usize) -> Result<(Session, usize)> {
        let common = session.matching(wanted).min(capacity);
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

    fn counted(&self, taken: (Session, usize), least: usize) -> Option<(Session, usize)> {
        let info = &mut self.state().info;
        if taken.1 < least {
            info.misses += 1;
            return None;
        }
        info.hits += 1;
        info.reused += taken.1 as u64;
        Some(taken)
    }

    /// Remembers what a session holds.
    ///
    /// # Errors
    /// `Mismatch` for a session of another model, `Unsupported` for one with adapters, and those of a fork.
    pub fn put(&self, session: &Session) -> Result<()> {
        if !Arc::ptr_eq(session.model(), &self.model) {
            return Err(Error::Mismatch("the cache is one of another model than the store".to_owned()));
        }
        if session.is_adapted() {
            return Err(Error::unsupported("a cache with adapters in a store of prefixes"));
        }
        if session.len() < self.min_tokens {
            return Ok(());
        }
        let covers = |a: &Session, b: &Session| {
            a.types() == b.types() && a.capacity() == b.capacity() && a.matching(b.tokens()) == b.len()
        };
        let bytes = session.token_bytes()? * session.unshared() as u64 + session.memory_bytes();
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        if let Some(known) = state.entries.iter_mut().find(|entry| covers(&entry.session, session)) {
            known.used = now;
            return Ok(());
        }
        let fork = session.fork()?;
        state.entries.retain(|entry| !covers(session, &entry.session));
        state.entries.push(Entry { session: fork, bytes, used: now });
        let mut left_over = Vec::new();
        while state.bytes() > self.memory_limit || state.entries.len() > self.max_entries {
            let oldest = state.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used).map(|(i, _)| i);
            left_over.extend(oldest.map(|i| state.entries.swap_remove(i)));
        }
        drop(state);
        left_over.iter().for_each(|entry| self.write(&entry.session));
        Ok(())
    }

    /// Forgets all entries, in memory and in files of this model.
    pub fn clear(&self) {
        self.find_files();
        let mut state = self.state();
        state.entries.clear();
        for (name, _) in std::mem::take(&mut state.files) {
            self.folder.iter().for_each(|folder| folder.remove(&name));
        }
    }

    pub fn info(&self) -> StoreInfo {
        self.find_files();
        let state = self.state();
        let sizes = self.folder.as_ref().map(SharedFolder::files).unwrap_or_default();
        let own = sizes.iter().filter(|(name, ..)| state.files.contains_key(name));
        StoreInfo {
            entries: state.entries.len(),
            memory_bytes: state.bytes(),
            files: state.files.len(),
            disk_bytes: own.map(|(_, len, _)| len).sum(),
            ..state.info
        }
    }

    /// Looks into files of this model that are new, and forgets those that are gone.
    fn find_files(&self) {
        let Some(folder) = &self.folder else { return };
        let prefix = format!("{:016x}-", self.fingerprint);
        let is_own = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with(&prefix));
        let names: Vec<OsString> = folder.files().into_iter().map(|(name, ..)| name).filter(is_own).collect();
        let mut state = self.state();
        state.files.retain(|name, _| names.contains(name));
        let new: Vec<&OsString> = names.iter().filter(|name| !state.files.contains_key(*name)).collect();
        drop(state);
        for name in new {
            let tokens = self.read(name, |read| saved::peek(&self.model, read));
            match tokens {
                Some(tokens) => _ = self.state().files.insert(name.clone(), tokens),
                None => folder.remove(name),
            }
        }
    }

    /// What `read` makes of a file; `None` where there is an error.
    fn read<T>(&self, name: &OsString, read: impl FnOnce(saved::Read) -> Result<T>) -> Option<T> {
        let folder = self.folder.as_ref()?;
        let mut file = BufReader::with_capacity(1 << 18, folder.open(name)?);
        read(&mut |out| file.read_exact(out).map_err(|e| Error::io(&folder.path_of(name), "cannot read", &e))).ok()
    }

    /// The session of a file, which is removed where it is damaged.
    fn load(&self, name: &OsString, capacity: usize) -> Option<Session> {
        let len = self.state().files.get(name).map_or(0, |(tokens, _)| tokens.len());
        // One that does not fit is cut later.
        let params = RestoreParams { capacity: Some(capacity.max(len) as u32), ..RestoreParams::default() };
        let session = self.read(name, |read| saved::load(&self.model, &params, read));
        if session.is_none() {
            self.folder.iter().for_each(|folder| folder.remove(name));
            self.state().files.remove(name);
        }
        session
    }

    /// Writes a session to a file, where there is a folder. What cannot be written is forgotten, and the log has a line
    /// for it.
    fn write(&self, session: &Session) {
        let Some(folder) = &self.folder else { return };
        let mut hash = XxHash64::with_seed(session.types()[0] << 32 | session.types()[1]);
        session.tokens().iter().for_each(|token| hash.write_u32(*token));
        let name = format!("{:016x}-{:016x}{SUFFIX}", self.fingerprint, hash.finish());
        let written = folder.write(&name, |file, path| {
            saved::save(session, &mut |piece| file.write_all(piece).map_err(|e| Error::io(path, "cannot write", &e)))
        });
        if let Err(e) = written {
            self.model.runtime().log(LogLevel::Warning, &format!("a prefix is forgotten: {e}"));
        }
    }
}

impl State {
    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// The file that has the most of some tokens at its beginning, more than `least`.
    fn best_file(&self, wanted: &[u32], types: [u64; 2], least: usize) -> Option<OsString> {
        let common = |tokens: &[u32]| tokens.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        let of_types = self.files.iter().filter(|(_, (_, of))| *of == types);
        let (n, name) = of_types.map(|(name, (tokens, _))| (common(tokens), name)).max_by_key(|(n, _)| *n)?;
        (n > least).then(|| name.clone())
    }
}

impl Drop for Store {
    /// Writes what is in memory, where there is a folder.
    fn drop(&mut self) {
        let entries = std::mem::take(&mut self.state().entries);
        entries.iter().for_each(|entry| self.write(&entry.session));
    }
}

fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { what: "a prefix", bytes: bytes as u64 }
}
