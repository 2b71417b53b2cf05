//! Log probabilities of tokens.

use crate::engine::Session;
use crate::error::{Error, try_filled};

use super::cache::rz_cache;
use super::cancel::{flag, rz_cancel};
use super::guard::guarded;
use super::status::{RZ_OK, rz_error, rz_status};

/// Writes the `k` most likely next tokens, in descending order, to `tokens`, and the natural logarithms of their
/// probabilities (log probabilities) to `logprobs`; both have a capacity of `k`. Of equally likely tokens the lowest id
/// comes first.
///
/// `*n` receives their number: `k`, or the size of the vocabulary if that is smaller. Probabilities are the softmax of
/// the logits of rz_logits_into, summed in double precision; a token that is never chosen has minus infinity. Any
/// thread. Errors: as for rz_logits_into, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// Appends `n` tokens, at least one, like rz_prefill, and writes the log probability of tokens[i] given all tokens
/// before it to logprobs[i]. The first token of an empty cache gets 0.
///
/// Probabilities are as in rz_top_logprobs. The call takes longer than a prefill, because it computes the logits after
/// every token. `cancel` may be NULL. A call that fails leaves the cache unchanged. Any thread. Errors: as for
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
