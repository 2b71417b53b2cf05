//! Probabilities of tokens.

use crate::engine::Session;
use crate::error::{Error, try_filled};

use super::cache::rz_cache;
use super::cancel::{flag, rz_cancel};
use super::guard::guarded;
use super::status::{RZ_OK, rz_error, rz_status};

/// Writes the `k` likeliest tokens after the last one, the likeliest first, to `tokens`, and the natural logarithms of
/// their probabilities to `logprobs`, both with room for `k`. Of equally likely ones the lowest comes first.
///
/// `*n` receives their number: `k`, or that of the whole vocabulary. They are the softmax of what rz_logits_into gives,
/// summed in double precision; a token that is never chosen has minus infinity. Any thread. Errors: as for
/// rz_logits_into, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_top_logprobs(
    cache: *mut rz_cache,
    k: u32,
    tokens: *mut u32,
    logprobs: *mut f32,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let tokens = call.outs(tokens, k as usize, "tokens")?;
        let logprobs = call.outs(logprobs, k as usize, "logprobs")?;
        let n = call.out(n, "n")?;
        if cache.read(|session| Ok(session.has_logits_on_device()))? {
            cache.change(Session::fetch_logits)?;
        }
        let (likeliest, their_logprobs) = cache.read(|session| session.logprobs(k as usize))?;
        tokens.set(&likeliest)?;
        logprobs.set(&their_logprobs)?;
        n.set(likeliest.len());
        Ok(RZ_OK)
    })
}

/// Appends `n` tokens, at least one, as rz_prefill does, and writes the natural logarithm of the probability of
/// tokens[i] after all tokens before it to logprobs[i]. The first of an empty cache has none before it: 0.
///
/// Probabilities are as in rz_top_logprobs. The call takes longer than a prefill, because it needs the logits after
/// every token. `cancel` may be NULL. A call that fails leaves the cache as it was. Any thread. Errors: as for
/// rz_prefill. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_score(
    cache: *mut rz_cache,
    tokens: *const u32,
    n: usize,
    logprobs: *mut f32,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let logprobs = call.outs(logprobs, n, "logprobs")?;
        let cancel = call.optional(cancel)?;
        if tokens.is_empty() {
            return Err(Error::invalid("there are no tokens to append"));
        }
        let cancel = flag(&cancel);
        let scores = cache.change(|session| {
            let mut scores = try_filled("probabilities", n, 0f32)?;
            session.score(tokens, &mut scores, cancel)?;
            Ok(scores)
        })?;
        logprobs.set(&scores)?;
        Ok(RZ_OK)
    })
}
