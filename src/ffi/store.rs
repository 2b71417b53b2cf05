//! Stores of prefixes, which caches of one model share.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{Adapters, CacheParams, Runtime, Session, Store, StoreParams};
use crate::error::Result;

use super::cache::{cache_params, rz_cache, rz_cache_params};
use super::cancel::{flag, rz_cancel};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::model::rz_model;
use super::prompt::rz_prompt;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Remembers what prompts left behind, for any cache of one model that begins with the same tokens: a prompt that was
/// computed once is not computed again, by other conversations, and with a folder by other processes. Usable by any
/// number of threads at once. A hit changes no bit of what follows.
pub struct rz_store(pub(super) Arc<Store>);

impl Handle for rz_store {
    const NAME: &'static str = "store";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.model().runtime())
    }
}

/// Parameters of a store. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_store_params {
    /// sizeof(rz_store_params).
    pub struct_size: u32,
    /// Prefixes of fewer tokens are neither kept nor looked for; 0: 64.
    pub min_tokens: u32,
    /// Bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. What one has in common
    /// with another that it goes on from counts once. A store with a folder takes as much as one prefix, or a quarter
    /// of the limit, beyond that: it waits for the disk.
    pub memory_limit: u64,
    /// Folder of files, NUL-terminated; created for this user alone if it is missing. NULL: prefixes that do not fit in
    /// memory are forgotten. Each prefix is written about two seconds after it was stored, so that it survives however
    /// the process ends and other processes see it. The file of a longer prefix replaces the file of the prefix that it
    /// extends, which other processes then find in the longer file. A prefix that cannot be written stays in memory,
    /// with a line in the log. Several stores and processes of one user may share the folder, also for different
    /// models. Its files decide answers: on Unix a folder that another user owns, or that others may write to (also by
    /// its group), is rejected. A store with a folder has a thread that writes, whatever the threads of the runtime, so
    /// that no call waits for the disk. In a child made with fork(), which lacks that thread, rz_store_put and steps of
    /// conversations write, unless a prefix was written less than two seconds ago.
    pub path: *const c_char,
    /// Prefixes in memory; 0: 1,024.
    pub max_entries: usize,
    /// Bytes of files in the folder, beyond which those that were not used for longest are removed; 0: a tenth of what
    /// is free on its disk now, the folder's own files counted as free, at most 16 GiB. A file that is being written
    /// comes on top.
    pub disk_limit: u64,
}

/// The state of a store. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_store_info {
    /// sizeof(rz_store_info), set by the caller.
    pub struct_size: u32,
    /// Prefixes in memory, and in files of the model.
    pub n_entries: u32,
    pub n_files: u32,
    /// Prefixes that were forgotten because they could not be written, as on a full disk, since the store was made. The
    /// log says why.
    pub n_unwritten: u32,
    /// Bytes of both.
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// Times that a prefix was found, and was not, since the store was made.
    pub hits: u64,
    pub misses: u64,
    /// Tokens that were not computed because of it.
    pub reused_tokens: u64,
    /// The limits in effect (rz_store_params); disk_limit is 0 without a folder.
    pub memory_limit: u64,
    pub disk_limit: u64,
}

/// Creates a store. `params` may be NULL. The caller frees `*out` with rz_store_free, before or after the model and the
/// conversations that use it.
///
/// Files of the folder are those of rz_cache_save, found by the tokens at their beginning, written under another name
/// and then renamed, and checksummed: one that is damaged or of another version is removed when it is met, with a line
/// in the log, and one that a process left unfinished is removed by the next store. Links, pipes, and on Unix files
/// that another user owns or may write to are passed over. A model loaded with RZ_MODEL_MMAP is read as a whole for its
/// fingerprint. Any thread. Errors: RZ_ERR_IO (the folder cannot be made, or is refused), RZ_ERR_RESOURCES (the system
/// cannot create more threads), RZ_ERR_INVALID_ARGUMENT (a model without weights), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_new(
    model: *const rz_model,
    params: *const rz_store_params,
    out: *mut *mut rz_store,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let params: rz_store_params = call.params(params)?;
        let path = match params.path.is_null() {
            true => None,
            false => Some(call.path(params.path, "rz_store_params.path")?.to_owned()),
        };
        let params = StoreParams {
            min_tokens: params.min_tokens as usize,
            memory_limit: params.memory_limit,
            path,
            max_entries: params.max_entries,
            disk_limit: params.disk_limit,
            ..StoreParams::default()
        };
        out.set_handle(rz_store(Arc::new(Store::new(&model.0, params)?)));
        Ok(RZ_OK)
    })
}

/// Creates a cache for a prompt of `n` tokens, which holds the first `*common` of them: as many as the store knows, but
/// never the last, whose logits are to be computed; 0 where it knows none. The rest is appended as to any cache.
///
/// The cache has no adapters, and what caches with adapters left is not looked at: it is for conversations with equal
/// ones, which take it by themselves. `params` may be NULL; types of keys and values count, and what was left with
/// another capacity is copied. `cancel` ends the reading of a file before the next piece, and may be NULL. The caller
/// frees `*out` with rz_cache_free. Any thread. Errors: as for rz_cache_new, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_take(
    store: *const rz_store,
    tokens: *const u32,
    n: usize,
    params: *const rz_cache_params,
    cancel: *const rz_cancel,
    out: *mut *mut rz_cache,
    common: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let store = call.handle(store)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let params = cache_params(call, params)?;
        let cancel = call.optional(cancel)?;
        let (out, common) = (call.out(out, "out")?, call.out(common, "common")?);
        let taken = store.0.take(tokens, 0, &params, &Adapters::default(), &[flag(&cancel)])?;
        let (session, held) = or_empty(&store.0, &params, taken)?;
        out.set_handle(rz_cache::new(session));
        common.set(count(held));
        Ok(RZ_OK)
    })
}

/// Returns the session that was taken, or an empty one.
fn or_empty(store: &Store, params: &CacheParams, taken: Option<(Session, usize)>) -> Result<(Session, usize)> {
    taken.map_or_else(|| Ok((Session::new(store.model(), params)?, 0)), Ok)
}

/// rz_store_take for a prompt, of which rows are known by the hashes of their media; rz_prefill_prompt appends the rest
/// from token `*common` on. `params` and `cancel` may be NULL. The caller frees `*out` with rz_cache_free. Any thread.
/// Errors: as for rz_store_take, RZ_ERR_MISMATCH (a prompt of another model). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_take_prompt(
    store: *const rz_store,
    prompt: *const rz_prompt,
    params: *const rz_cache_params,
    cancel: *const rz_cancel,
    out: *mut *mut rz_cache,
    common: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let store = call.handle(store)?;
        let prompt = call.handle(prompt)?;
        let params = cache_params(call, params)?;
        let cancel = call.optional(cancel)?;
        let (out, common) = (call.out(out, "out")?, call.out(common, "common")?);
        let taken = store.0.take_prompt(&prompt.0, 0, &params, &Adapters::default(), &[flag(&cancel)])?;
        let (session, held) = or_empty(&store.0, &params, taken)?;
        out.set_handle(rz_cache::new(session));
        common.set(count(held));
        Ok(RZ_OK)
    })
}

/// Remembers the tokens that a cache holds, which goes on by itself: the memory is shared until one of both changes it.
/// Fewer tokens than rz_store_params.min_tokens, and those that the store knows already, change nothing.
///
/// A prefix that was computed with adapters is remembered for those with the same factors and scales in the same order.
/// Only reads the cache. A prefix that has no room any more goes to the folder after the call; where it cannot be
/// written it is forgotten (rz_store_info.n_unwritten). Against rz_runtime_params.memory_limit each counts with all
/// that it holds. Any thread. Errors: RZ_ERR_MISMATCH (a cache of another model), RZ_ERR_BUSY, RZ_ERR_POISONED,
/// RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_put(store: *const rz_store, cache: *const rz_cache, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let store = call.handle(store)?;
        let cache = call.handle(cache)?;
        cache.read(|session| store.0.put(session))?;
        Ok(RZ_OK)
    })
}

/// Forgets all prefixes, and removes the files of the model from the folder. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_clear(store: *mut rz_store, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(store)?.0.clear();
        Ok(RZ_OK)
    })
}

/// Fills in `*out`, whose `struct_size` the caller has set. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_info_get(
    store: *const rz_store,
    out: *mut rz_store_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let store = call.handle(store)?;
        let out = call.out_struct(out)?;
        let info = store.0.info();
        out.set(rz_store_info {
            struct_size: 0,
            n_entries: count(info.entries),
            n_files: count(info.files),
            n_unwritten: count(info.unwritten),
            memory_bytes: info.memory_bytes,
            disk_bytes: info.disk_bytes,
            hits: info.hits,
            misses: info.misses,
            reused_tokens: info.reused,
            memory_limit: info.memory_limit,
            disk_limit: info.disk_limit,
        });
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. With the last conversation that uses it the store ends, and what it has in memory
/// goes to the folder within the call, where there is one: rz_store_clear ahead of it saves the time. Any thread. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_free(store: *mut rz_store) {
    guarded_or!((), |call| call.release(store))
}
