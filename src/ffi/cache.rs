//! KV caches: the tokens of one text, their keys and values, and the logits after the last token.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLockWriteGuard};

use crate::engine::{self, CacheParams, Runtime, Session};
use crate::error::{Error, Result};

use super::arguments::Call;
use super::cancel::rz_cancel;
use super::element::cache_type;
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::{SharedLock, Taken};
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};

/// KV cache of one text (its context): the tokens, their keys and values, recurrent state, and the logits after the
/// last token. Mutable: one call at a time; a second call gets RZ_ERR_BUSY. Different caches of a model work
/// concurrently.
pub struct rz_cache {
    held: SharedLock<Held>,
    /// Length of the session after its last call, readable without waiting.
    len: AtomicU32,
    capacity: u32,
    runtime: Arc<Runtime>,
}

impl Handle for rz_cache {
    const NAME: &'static str = "cache";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(&self.runtime)
    }
}

/// Session of a cache, unless a job has it.
pub(super) struct Held {
    session: Option<Session>,
    /// Error of a panic in a job, which left the session in an unknown state.
    lost: Option<Error>,
}

impl Held {
    fn away(&self) -> Error {
        self.lost.clone().unwrap_or(Error::Busy(rz_cache::NAME))
    }

    pub(super) fn session(&self) -> Result<&Session> {
        self.session.as_ref().ok_or_else(|| self.away())
    }

    pub(super) fn session_mut(&mut self) -> Result<&mut Session> {
        match &mut self.session {
            Some(session) => Ok(session),
            None => Err(self.lost.clone().unwrap_or(Error::Busy(rz_cache::NAME))),
        }
    }
}

impl rz_cache {
    pub(super) fn new(session: Session) -> rz_cache {
        let (len, capacity) = (count(session.len()), count(session.capacity()));
        let runtime = session.model().runtime().clone();
        let held = SharedLock::new(Held { session: Some(session), lost: None });
        rz_cache { held, len: AtomicU32::new(len), capacity, runtime }
    }

    /// Runs a call that changes the session.
    pub(super) fn change<T>(&self, call: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let mut held = self.lock()?;
        let session = held.session_mut()?;
        let result = call(session);
        self.publish(session);
        result
    }

    /// Runs a call that only reads; several may do so at once.
    pub(super) fn read<T>(&self, call: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        call(self.held.read(Self::NAME)?.session()?)
    }

    pub(super) fn lock(&self) -> Result<Taken<'_, RwLockWriteGuard<'_, Held>>> {
        self.held.take(Self::NAME)
    }

    /// Hands the session over, if `check` agrees.
    pub(super) fn lend<C, T>(
        &self,
        check: impl FnOnce(&Session) -> Result<C>,
        lend: impl FnOnce(Session, C) -> T,
    ) -> Result<T> {
        let mut held = self.lock()?;
        let checked = check(held.session()?)?;
        let session = held.session.take().ok_or(Error::Busy(Self::NAME))?;
        Ok(lend(session, checked))
    }

    /// Takes the session back, or returns the error of the panic that spoiled it.
    pub(super) fn put_back(&self, session: Result<Session>) {
        let (session, lost) = match session {
            Ok(session) => (Some(session), None),
            Err(lost) => (None, Some(lost)),
        };
        if let Some(session) = &session {
            self.publish(session);
        }
        // Nobody else holds the lock, except readers, which find that the session is lent and return.
        self.held.set(Held { session, lost });
    }

    /// Publishes the length of the session after a change.
    pub(super) fn publish(&self, session: &Session) {
        self.len.store(count(session.len()), Ordering::Release);
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Parameters of a cache. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_cache_params {
    /// sizeof(rz_cache_params).
    pub struct_size: u32,
    /// Capacity (context window) in tokens; 0: the model's context_length, but at most 8192. A capacity above the
    /// model's context_length is logged as a warning.
    pub capacity: u32,
    /// Element type of the keys (KV cache quantization): RZ_TYPE_F16, RZ_TYPE_Q8_0, RZ_TYPE_Q4_0 or RZ_TYPE_F32;
    /// RZ_TYPE_DEFAULT: RZ_TYPE_F16.
    ///
    /// RZ_TYPE_F16 takes 16 bits per number: half precision on a GPU; on the CPU 14-bit integers with scales, because
    /// the CPU multiplies integers faster. RZ_TYPE_Q8_0 takes 8.5 bits per number; on the CPU a Hadamard transform
    /// rotates each head first, and the queries and the attention weights are rounded to 8 bits too. RZ_TYPE_Q4_0 takes
    /// 4.5 bits per number; the CPU rotates and rounds as for RZ_TYPE_Q8_0, and a GPU rotates each block of 32 numbers
    /// separately. Use RZ_TYPE_Q4_0 for `v_type` rather than for `k_type`: with 4-bit keys, small models choose other
    /// tokens.
    pub k_type: u32,
    /// Element type of the values; the same types as for `k_type`.
    pub v_type: u32,
}

/// Creates an empty cache. `params` may be NULL. The caller frees `*out` with rz_cache_free, before or after the model.
/// Any thread. Errors: RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT, and RZ_ERR_INVALID_ARGUMENT for
/// an unknown type or a model without weights. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_new(
    model: *const rz_model,
    params: *const rz_cache_params,
    out: *mut *mut rz_cache,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let params = cache_params(call, params)?;
        out.set_handle(rz_cache::new(Session::new(&model.0, &params)?));
        Ok(RZ_OK)
    })
}

pub(super) fn cache_params(call: &Call, params: *const rz_cache_params) -> Result<CacheParams> {
    let params: rz_cache_params = call.params(params)?;
    Ok(CacheParams {
        capacity: params.capacity,
        k_type: cache_type(params.k_type, "rz_cache_params.k_type")?.unwrap_or(engine::F16),
        v_type: cache_type(params.v_type, "rz_cache_params.v_type")?.unwrap_or(engine::F16),
    })
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_free(cache: *mut rz_cache) {
    guarded_or!((), |call| call.release(cache))
}

/// Returns the number of tokens in the cache; while a call changes it, the number before that call. 0 for NULL. Any
/// thread, at any time. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_len(cache: *const rz_cache) -> u32 {
    guarded_or!(0, |call| Ok(call.handle(cache)?.len.load(Ordering::Acquire)))
}

/// Returns the capacity of the cache in tokens. 0 for NULL. Any thread, at any time. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_capacity(cache: *const rz_cache) -> u32 {
    guarded_or!(0, |call| Ok(call.handle(cache)?.capacity))
}

/// Rewinds to the first `len` tokens; 0 clears the cache. There are no logits until the next token is appended. Any
/// thread. Errors: RZ_ERR_INVALID_ARGUMENT if `len` is greater than the number of tokens, RZ_ERR_BUSY, RZ_ERR_POISONED.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_truncate(cache: *mut rz_cache, len: u32, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(cache)?.change(|session| session.truncate(len))?;
        Ok(RZ_OK)
    })
}

/// Sets a cancellation flag that every call on the cache (prefill, decode, batches, calls that ask for logits) checks
/// in addition to the flag that is passed to the call. `cancel` may be NULL, which removes the flag. The cache keeps
/// the flag alive; later forks use it too. A batch stops if the flag of any of its caches is fired. Any thread. Errors:
/// RZ_ERR_BUSY while a call changes `cache`, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_cancel_set(
    cache: *mut rz_cache,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let cancel = call.optional(cancel)?.map(|cancel| cancel.0.clone());
        cache.change(|session| {
            session.set_cancel(cancel);
            Ok(())
        })?;
        Ok(RZ_OK)
    })
}

/// Creates a copy with the same tokens, capacity, logits, cancellation flag and adapters, independent from then on. On
/// the CPU the two caches share the memory of keys and values copy-on-write, in blocks of 256 tokens; each cache counts
/// with its whole capacity against rz_runtime_params.memory_limit. The caller frees `*out` with rz_cache_free. Any
/// thread. Errors: RZ_ERR_BUSY while a call changes `cache`, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_fork(
    cache: *const rz_cache,
    out: *mut *mut rz_cache,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let out = call.out(out, "out")?;
        out.set_handle(rz_cache::new(cache.read(Session::fork)?));
        Ok(RZ_OK)
    })
}

/// Compares the cache with `n` tokens. `*common` receives the length of the longest common prefix to which the cache
/// can be rewound without recomputation. Recurrent layers, and sliding-window layers after a long text, can only be
/// rewound to some positions; a released cache has no such prefix.
///
/// To continue with these tokens, call rz_cache_truncate with `*common`, then rz_prefill with the remaining tokens; if
/// no tokens remain, rewind by one more token, because the logits after the last token must be computed. Any thread.
/// Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_match(
    cache: *const rz_cache,
    tokens: *const u32,
    n: usize,
    common: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let common = call.out(common, "common")?;
        common.set(cache.read(|session| Ok(count(session.matching(tokens))))?);
        Ok(RZ_OK)
    })
}

/// Copies the tokens of the cache.
///
/// `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
/// Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_tokens_into(
    cache: *const rz_cache,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        cache.read(|session| out.fill(session.tokens()))?;
        Ok(RZ_OK)
    })
}

/// Context shift: removes `drop` tokens after the first `keep`, to free capacity in a long conversation; later tokens
/// move `drop` positions toward the beginning.
///
/// The cache is then bit-identical to one that never contained the removed tokens. The keys and values of a token
/// depend on all tokens before it, so the next call that needs the keys and values of the moved tokens recomputes them,
/// which takes as long as a prefill. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT if there are fewer tokens,
/// RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_shift(cache: *mut rz_cache, keep: u32, drop: u32, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(cache)?.change(|session| session.shift(keep, drop))?;
        Ok(RZ_OK)
    })
}

/// Frees the memory of keys and values, which then no longer counts against rz_runtime_params.memory_limit. Keeps the
/// tokens and the logits. The next call that needs keys and values allocates memory again and recomputes them, which
/// takes as long as a prefill; on the CPU they are bit-identical. Because it allocates memory, that call can also fail
/// with RZ_ERR_OUT_OF_MEMORY or RZ_ERR_LIMIT. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_release(cache: *mut rz_cache, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(cache)?.change(Session::release)?;
        Ok(RZ_OK)
    })
}
