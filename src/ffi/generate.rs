//! Prefill, decode, generation, sampling.

use std::sync::RwLockWriteGuard;

use crate::engine::{self, Chooser, Outcome, Session};
use crate::error::{Error, Result, try_filled, try_vec};

use super::cache::rz_cache;
use super::cancel::{flag, rz_cancel};
use super::guard::guarded;
use super::handle::{Handle, Held};
use super::lock::Taken;
use super::sampler::rz_sampler;
use super::status::{RZ_DONE, RZ_OK, rz_error, rz_status};

/// Prefill: appends `n` prompt tokens, at least one, and computes the logits after the last one.
///
/// `cancel` may be NULL; it applies in addition to rz_cache_cancel_set. A call that fails leaves the cache unchanged.
/// Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (no token, or one outside the vocabulary), RZ_ERR_CONTEXT_FULL,
/// RZ_ERR_CANCELLED, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prefill(
    cache: *mut rz_cache,
    tokens: *const u32,
    n: usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let cancel = call.optional(cancel)?;
        if tokens.is_empty() {
            return Err(Error::invalid("there are no tokens to append"));
        }
        cache.change(|session| session.prefill(tokens, flag(&cancel)))?;
        Ok(RZ_OK)
    })
}

/// Decode: appends `token` and writes the next token to `*next`. `sampler` may be NULL, for the most likely token
/// (greedy decoding). A GPU samples the token, with the same result as the host, and transfers only the token id, under
/// the conditions in rz_sampler_params; otherwise the host samples. If the program asks for logits after a GPU has
/// sampled, the last token is computed again.
///
/// A call that fails leaves the cache unchanged. Any thread. Errors: as for rz_prefill. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_decode_token(
    cache: *mut rz_cache,
    token: u32,
    sampler: *mut rz_sampler,
    next: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let sampler = call.optional(sampler)?;
        let next = call.out(next, "next")?;
        let mut sampler = locked(sampler.as_ref())?;
        next.set(cache.change(|session| session.decode(token, sampler.as_deref_mut()))?);
        Ok(RZ_OK)
    })
}

/// Generates tokens: appends `token`, then each token that it writes to `out` except the last, until `capacity` tokens
/// are written (RZ_OK) or a token ends a turn or the text (RZ_DONE; that token is in `out`). With one call for many
/// tokens, a GPU can begin a step before the host has received the previous token.
///
/// `*n` receives the number of tokens written. To continue, call again with the last token. A call that fails midway,
/// or is cancelled, keeps the tokens it generated: they are in `out`, counted in `*n`, and all but the last are in the
/// cache. `sampler` and `cancel` may be NULL. Any thread. Errors: as for rz_prefill. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_generate_into(
    cache: *mut rz_cache,
    token: u32,
    sampler: *mut rz_sampler,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let sampler = call.optional(sampler)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let cancel = call.optional(cancel)?;
        let mut sampler = locked(sampler.as_ref())?;
        let outcome = cache.change(|session| {
            // One place more than the cache has room for, so that the engine sees that it is full.
            let most = session.capacity().saturating_sub(session.len()).saturating_add(1);
            out.fill_with(most, |out, n| session.generate(token, sampler.as_deref_mut(), out, n, flag(&cancel)))
        })?;
        Ok(match outcome {
            Outcome::More => RZ_OK,
            Outcome::Done => RZ_DONE,
        })
    })
}

/// Batched decode: `rz_decode_token` for `n` caches of one model in one pass over the weights. Appends token i to cache
/// i, and writes its next token to next[i].
///
/// `samplers` may be NULL, and so may each of its `n` entries; `next` may be `tokens`. With `n` 0 the call does
/// nothing, and all pointers may be NULL. Each cache and each sampler may occur only once. A call that fails leaves all
/// caches unchanged. Any thread. Errors: as for rz_prefill, and RZ_ERR_MISMATCH for caches of different models. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_decode_batch(
    caches: *const *mut rz_cache,
    tokens: *const u32,
    n: usize,
    samplers: *const *mut rz_sampler,
    next: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        if n == 0 {
            return Ok(RZ_OK);
        }
        let caches = call.slice(caches, n, "caches")?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let samplers = if samplers.is_null() { &[] } else { call.slice(samplers, n, "samplers")? };
        let next = call.outs(next, n, "next")?;
        distinct(caches, rz_cache::NAME)?;
        distinct(samplers, rz_sampler::NAME)?;

        let mut owners = try_vec("caches", n)?;
        for (i, &cache) in caches.iter().enumerate() {
            owners.push(call.handle(cache).map_err(|e| e.of_entry(i))?);
        }
        let mut locks = try_vec("caches", n)?;
        for (i, owner) in owners.iter().enumerate() {
            locks.push(owner.lock().map_err(|e| e.of_entry(i))?);
        }
        let mut sampler_owners: Vec<Option<Held<rz_sampler>>> = try_vec("samplers", n)?;
        for &sampler in samplers {
            sampler_owners.push(call.optional(sampler)?);
        }
        sampler_owners.resize_with(n, || None);
        let mut sampler_locks = try_vec("samplers", n)?;
        for (i, owner) in sampler_owners.iter().enumerate() {
            sampler_locks.push(locked(owner.as_ref()).map_err(|e| e.of_entry(i))?);
        }

        let mut sessions: Vec<&mut Session> = try_vec("caches", n)?;
        for (i, lock) in locks.iter_mut().enumerate() {
            sessions.push(lock.session_mut().map_err(|e| e.of_entry(i))?);
        }
        let mut choosers: Vec<Option<&mut Chooser>> = try_vec("samplers", n)?;
        choosers.extend(sampler_locks.iter_mut().map(|lock| lock.as_deref_mut()));
        let mut chosen = try_filled("tokens", n, 0)?;
        engine::decode_batch(&mut sessions, tokens, &mut choosers, &mut chosen)?;
        for (owner, lock) in owners.iter().zip(&locks) {
            owner.publish(lock.session()?);
        }
        next.set(&chosen)?;
        Ok(RZ_OK)
    })
}

/// Copies the logits after the last token, one float for each token of the vocabulary. Logits on a GPU are fetched
/// first, so the cache is not const.
///
/// `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
/// Errors: RZ_ERR_NOT_READY if there are no logits: before the first token and after a rewind; RZ_ERR_CANCELLED,
/// RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_logits_into(
    cache: *mut rz_cache,
    out: *mut f32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        if cache.read(|session| Ok(session.has_logits_on_device()))? {
            cache.change(Session::fetch_logits)?;
        }
        cache.read(|session| {
            let none = || Error::not_ready("the cache has no logits; append a token first");
            out.fill(session.logits().ok_or_else(none)?)
        })?;
        Ok(RZ_OK)
    })
}

/// Samples a token from the current logits of `cache` without appending it. `sampler` may be NULL, for the most likely
/// token.
///
/// Any thread. Errors: as for rz_logits_into, RZ_ERR_CANCELLED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sample(
    cache: *mut rz_cache,
    sampler: *mut rz_sampler,
    token: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let sampler = call.optional(sampler)?;
        let token = call.out(token, "token")?;
        let mut sampler = locked(sampler.as_ref())?;
        token.set(cache.change(|session| session.sample(sampler.as_deref_mut()))?);
        Ok(RZ_OK)
    })
}

/// Locks the sampler of a call; `None` if the call has none.
fn locked(sampler: Option<&Held<rz_sampler>>) -> Result<Option<Taken<'_, RwLockWriteGuard<'_, Chooser>>>> {
    sampler.map(|sampler| sampler.0.take_after_readers(rz_sampler::NAME)).transpose()
}

/// Rejects a handle that occurs twice, which would otherwise look like a handle in use by another call.
pub(super) fn distinct<H>(handles: &[*mut H], name: &str) -> Result<()> {
    let mut sorted = try_vec("handles", handles.len())?;
    sorted.extend(handles.iter().copied().filter(|handle| !handle.is_null()));
    sorted.sort_unstable();
    match sorted.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        true => Err(Error::invalid(format!("a {name} occurs twice"))),
        false => Ok(()),
    }
}
