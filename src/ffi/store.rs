//! Prefix caches (prompt caches), shared by the caches of one model.

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

/// Prefix cache (prompt cache): keeps the KV caches of prompts for any later prompt of the model that begins with the
/// same tokens, so that a shared prefix is computed only once: across conversations, and with a folder also across
/// processes. Any number of threads may use it at once, and empty it with rz_store_clear. A hit does not change results
/// by a single bit.
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
    /// Minimum length in tokens of prefixes to keep and to look up; 0: 64.
    pub min_tokens: u32,
    /// Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
    /// prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
    /// memory: up to a quarter of the limit, or one larger prefix.
    pub memory_limit: u64,
    /// Path of a folder for files, NUL-terminated. A missing folder is created, accessible by this user only. NULL:
    /// prefixes that do not fit in memory are dropped. Each prefix is written about two seconds after it was stored, so
    /// that it survives a crash and other processes see it. The file of a longer prefix replaces the file of a shorter
    /// prefix that it contains; other processes then find the shorter prefix in the longer file. A prefix that cannot
    /// be written stays in memory, with a line in the log. Several stores and processes of one user may share the
    /// folder, also for different models. Files in the folder influence answers: on Unix a folder is rejected if
    /// another user owns it, or if its group or others may write to it. A store with a folder has its own writer
    /// thread, whatever the number of threads of the runtime, so rz_store_put and steps do not wait until a prefix is
    /// written. Lookups (rz_store_take, the start of a reply) read files, and rz_store_free writes the prefixes that
    /// are left. In a child made with fork(), which lacks that thread, rz_store_put and steps of conversations write
    /// the prefixes themselves, unless a prefix was written less than two seconds ago.
    pub path: *const c_char,
    /// Maximum number of prefixes in memory; 0: 1,024.
    pub max_entries: usize,
    /// Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
    /// free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are being
    /// written.
    pub disk_limit: u64,
}

/// State of a store. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_store_info {
    /// sizeof(rz_store_info), set by the caller.
    pub struct_size: u32,
    /// Number of prefixes in memory.
    pub n_entries: u32,
    /// Number of prefixes in files of the model.
    pub n_files: u32,
    /// Number of prefixes dropped because they could not be written (on a full disk, for example), since the store was
    /// created. The log has the reason.
    pub n_unwritten: u32,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Number of lookups that found a prefix, since the store was created.
    pub hits: u64,
    /// Number of lookups that found no prefix.
    pub misses: u64,
    /// Number of tokens that needed no prefill because of hits.
    pub reused_tokens: u64,
    /// Limit of memory_bytes in effect.
    pub memory_limit: u64,
    /// Limit of disk_bytes in effect; 0 without a folder.
    pub disk_limit: u64,
}

/// Creates a store. `params` may be NULL. The caller frees `*out` with rz_store_free, before or after the model and the
/// conversations that use it.
///
/// Files in the folder have the format of rz_cache_save, with checksums, and are found by their first tokens. A file is
/// written under a temporary name and then renamed. A file that is damaged or of another version is removed when it is
/// found, with a line in the log; a file that a process left unfinished is removed by the next store. Links and pipes
/// are ignored, and so are, on Unix, files that another user owns or may write to. Each file has a fingerprint of its
/// model. If the model is loaded with RZ_MODEL_MMAP, the first store or saved cache of the model computes this
/// fingerprint, which reads the whole model once. Any thread. Errors: RZ_ERR_IO (the folder cannot be created, or is
/// rejected), RZ_ERR_RESOURCES (the system cannot create more threads), RZ_ERR_INVALID_ARGUMENT (a model without
/// weights), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// Creates a cache for a prompt of `n` tokens from the longest stored prefix. `*common` receives the length of this
/// prefix: the cache holds the first `*common` tokens, at most `n` - 1, because the logits of the last token must be
/// computed; 0 if no prefix is stored. The caller appends the remaining tokens as to any cache.
///
/// The cache has no adapters, and prefixes computed with adapters are not used. A conversation with adapters needs no
/// such call: it looks up prefixes computed with the same adapters itself. `params` may be NULL; the element types of
/// keys and values must match. If the stored cache has another capacity, the prefix is copied. `cancel` stops reading a
/// file before the next chunk, and may be NULL. The caller frees `*out` with rz_cache_free. Any thread. Errors: as for
/// rz_cache_new, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE. Since 0.1.0.
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

/// Like rz_store_take, for a prompt with media. Media rows are equal if the hashes of their media are equal;
/// rz_prefill_prompt appends the remaining tokens, from token `*common` on. `params` and `cancel` may be NULL. The
/// caller frees `*out` with rz_cache_free. Any thread. Errors: as for rz_store_take, RZ_ERR_MISMATCH (a prompt of
/// another model). Since 0.1.0.
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

/// Stores the tokens of a cache. The cache stays usable; store and cache share memory copy-on-write. The call changes
/// nothing if the cache has fewer tokens than rz_store_params.min_tokens, or if the store already has them.
///
/// A prefix computed with adapters is only used for adapters with the same factors and scales in the same order. The
/// call only reads the cache. A prefix that exceeds the memory limit is written to the folder after the call; if it
/// cannot be written, it is dropped (rz_store_info.n_unwritten). Each prefix counts toward
/// rz_runtime_params.memory_limit with the bytes of all its tokens, even shared ones. Any thread. Errors:
/// RZ_ERR_MISMATCH (a cache of another model), RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_put(store: *const rz_store, cache: *const rz_cache, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let store = call.handle(store)?;
        let cache = call.handle(cache)?;
        cache.read(|session| store.0.put(session))?;
        Ok(RZ_OK)
    })
}

/// Drops all prefixes, and removes the files of the model from the folder. Any thread. Since 0.1.0.
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

/// Frees the handle; NULL is fine. The store stays alive until no conversation uses it. The call that ends the store
/// writes the prefixes in memory to the folder, if there is one; call rz_store_clear first to drop them instead, with
/// the files of the model. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_store_free(store: *mut rz_store) {
    guarded_or!((), |call| call.release(store))
}
