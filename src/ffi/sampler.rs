//! Sampling: the choice of the next token.

use std::ffi::c_void;

use crate::engine::{Chooser, Filter, LogitsEdit, SamplerParams, sampler_numbers};
use crate::error::{Error, Result, try_vec};

use super::arguments::{Call, Plain, User};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::SharedLock;
use super::status::{RZ_OK, rz_error, rz_status};

/// Samples tokens from logits with its own random number generator. Mutable: one call at a time, except that any number
/// of rz_job_new calls may copy it at once. Works with caches of any model.
pub struct rz_sampler(pub(super) SharedLock<Chooser>);

impl Handle for rz_sampler {
    const NAME: &'static str = "sampler";
}

/// Logit bias, added to one logit after rz_sampler_params.edit_logits and before all filters; -INFINITY forbids the
/// token. The layout of this struct never changes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_logit_bias {
    /// Token id. Calls with a model whose vocabulary is too small for it fail with RZ_ERR_INVALID_ARGUMENT.
    pub token: u32,
    /// Number to add to the logit.
    pub bias: f32,
}

// SAFETY: an integer and a float.
unsafe impl Plain for rz_logit_bias {}

/// Sequence of tokens. The layout of this struct never changes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_token_sequence {
    pub tokens: *const u32,
    /// Number of `tokens`, at least 1.
    pub n_tokens: usize,
}

// SAFETY: a pointer and an integer.
unsafe impl Plain for rz_token_sequence {}

/// RZ_FILTER_... constants: filters of a sampler, and the temperature, for rz_sampler_params.order.
pub const RZ_FILTER_TOP_N_SIGMA: u32 = 1;
pub const RZ_FILTER_TOP_K: u32 = 2;
pub const RZ_FILTER_TYPICAL_P: u32 = 3;
pub const RZ_FILTER_TOP_P: u32 = 4;
pub const RZ_FILTER_MIN_P: u32 = 5;
pub const RZ_FILTER_XTC: u32 = 6;
pub const RZ_FILTER_TEMPERATURE: u32 = 7;

/// Logits callback (a logits processor): edits logits before a token is chosen from them, for example for a custom
/// sampler, a watermark or classifier-free guidance. `logits`: `n_logits` numbers, one per token of the vocabulary,
/// which the callback may change; `tokens`: the `n_tokens` tokens of the text so far, as rz_cache_tokens_into gives
/// them. Both are valid only during the callback.
///
/// Runs before biases, penalties, grammar, filters, temperature and draw, once per sampled token: for each token that a
/// job, a reply or rz_generate_into generates, for each rz_sample and rz_decode_token, and for each cache of
/// rz_decode_batch. -INFINITY or NaN forbids a token; INFINITY at one token forces that token, unless a grammar or a
/// ban forbids it. A logit that was -INFINITY before stays -INFINITY. If all tokens are forbidden, the call fails, as
/// does every call for which no token is possible. rz_logits_into and log-probabilities (rz_job_logprobs_into) use the
/// model's logits, not the edited logits.
///
/// Returns 0. If it returns another number, no token is chosen: rz_sample, rz_decode_token, rz_decode_batch and
/// rz_generate_into fail with RZ_ERR_INVALID_ARGUMENT, and the message contains the returned number. In rz_job_step,
/// rz_jobs_step, rz_conversation_step and rz_conversations_step only the job or the reply with this sampler ends, with
/// RZ_END_FAILED, and rz_job_error or rz_conversation_error returns this status; all other jobs and replies continue.
///
/// Runs on the thread that calls the library, never concurrently within one call. A job or reply has a copy of its
/// sampler with the same `edit_logits_user`, so calls on several threads may run the callback with that pointer at the
/// same time. It may call the library, but calls on the caches, jobs, conversations and samplers of the running call
/// get RZ_ERR_BUSY. It must return normally: no longjmp, no C++ exception.
pub type rz_logits_callback = Option<
    unsafe extern "C" fn(
        logits: *mut f32,
        n_logits: usize,
        tokens: *const u32,
        n_tokens: usize,
        user: *mut c_void,
    ) -> i32,
>;

/// Sampling parameters. Zero in a field turns the feature off, or has the meaning that the comment of the field gives.
/// All zeros, or NULL, choose the most likely token (greedy decoding).
///
/// `edit_logits` comes first, then biases, penalties (repeat, presence, frequency, DRY), no_repeat_ngram_size and
/// banned_sequences. The filters and the temperature come next, in the order of `order`, each on the distribution that
/// the previous ones left. The default order is llama.cpp's: top_n_sigma, top_k, typical_p, top_p, min_p, XTC, the
/// temperature. So a higher temperature flattens the distribution of the tokens that the filters keep, and adds no
/// tokens. With RZ_SAMPLER_TEMPERATURE_FIRST the temperature comes before all filters, as in transformers and vLLM. The
/// draw comes last. With a temperature of 0 there are no filters and no draw: the most likely of the remaining tokens
/// is chosen.
///
/// A GPU samples if only biases, penalties other than DRY, top_k, top_p, min_p and the temperature are on, in the
/// default order, and if `n_biases` plus `penalty_window` is at most 512. A `penalty_window` of 0 exceeds this limit if
/// penalties are on. Otherwise the host samples with the same arithmetic, from logits that are copied for each token.
/// Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_sampler_params {
    /// sizeof(rz_sampler_params).
    pub struct_size: u32,
    /// Divides the logits; 0: always the most likely token.
    pub temperature: f32,
    /// Keeps the k most likely tokens.
    pub top_k: u32,
    /// Keeps the most likely tokens that together reach this probability.
    pub top_p: f32,
    /// Drops tokens whose probability is below this fraction of the most likely token's.
    pub min_p: f32,
    /// Divides positive logits of recent tokens, multiplies negative ones.
    pub repeat_penalty: f32,
    /// Subtracted from the logit of every recent token.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a recent token once per occurrence.
    pub frequency_penalty: f32,
    /// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
    pub penalty_window: u32,
    /// RZ_SAMPLER_... bits, combined with |.
    pub flags: u32,
    /// Seed of the random number generator; 0 is a seed like any other.
    pub seed: u64,
    /// Logit biases, which are copied; NULL: none.
    pub biases: *const rz_logit_bias,
    /// Number of `biases`.
    pub n_biases: usize,
    /// Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
    /// reach this probability; 1: off.
    pub typical_p: f32,
    /// Drops logits more than this number of standard deviations (of the remaining logits) below the largest.
    pub top_n_sigma: f32,
    /// XTC: probability of a cut. A cut drops all tokens whose probability is at least xtc_threshold, except the least
    /// likely one of them.
    pub xtc_probability: f32,
    /// XTC: probability from which a cut drops tokens; 0 means the default, 0.1. At most one token reaches a threshold
    /// above 0.5, so XTC then drops none.
    pub xtc_threshold: f32,
    /// Dynamic temperature: the temperature rises from `temperature` - `temperature_range` (at least 0) to
    /// `temperature` + `temperature_range` with the entropy of the distribution, relative to the entropy of the uniform
    /// distribution.
    pub temperature_range: f32,
    /// Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1.
    pub temperature_exponent: f32,
    /// Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a bound,
    /// which begins at twice this value and is corrected after each draw. Filters that are on apply before Mirostat;
    /// llama.cpp applies no filters with Mirostat.
    pub mirostat_tau: f32,
    /// Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1.
    pub mirostat_eta: f32,
    /// DRY: if the last n tokens occurred before (with the largest such n, at least dry_allowed_length), the logit of
    /// the token that followed the earlier occurrence is reduced by dry_multiplier * dry_base ^ (n -
    /// dry_allowed_length). n above 4096 counts as 4096.
    pub dry_multiplier: f32,
    /// At least 1; 0 means the default, 1.75.
    pub dry_base: f32,
    /// Minimum number of repeated tokens that DRY penalizes; 0 means the default, 2.
    pub dry_allowed_length: u32,
    /// Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all.
    pub dry_window: u32,
    /// No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token that
    /// would complete such a repetition is not chosen. At most 4096.
    pub no_repeat_ngram_size: u32,
    /// 0.
    pub reserved: u32,
    /// DRY breakers, which are copied; NULL: none. DRY considers only repetitions after the last breaker, and never
    /// penalizes repetitions of a single token. llama.cpp's defaults are the tokens whose text contains a line feed, a
    /// colon, a quotation mark or an asterisk.
    pub dry_breakers: *const rz_token_sequence,
    /// Number of `dry_breakers`.
    pub n_dry_breakers: usize,
    /// Banned sequences, which are copied; NULL: none. If the tokens of a cache, including the prompt, end with the
    /// first n - 1 tokens of a banned sequence of n tokens, the sequence's last token is not sampled. A sequence of one
    /// token therefore bans this token. The same text may still occur as other tokens.
    pub banned_sequences: *const rz_token_sequence,
    /// Number of `banned_sequences`.
    pub n_banned_sequences: usize,
    /// Order of filters and temperature: RZ_FILTER_..., each at most once. The order must contain all filters that are
    /// on. NULL: the default order.
    pub order: *const u32,
    /// Number of `order`.
    pub n_order: usize,
    /// Edits the logits before each token is sampled; NULL: none. With a callback the CPU samples, even if the model is
    /// on a GPU. The callback works with speculative decoding: its `tokens` never include rejected draft tokens.
    pub edit_logits: rz_logits_callback,
    /// Passed to `edit_logits` unchanged. It must stay valid until the sampler and the jobs that copied it have
    /// been freed. Replies that copied it must also have ended, or their conversations must have been freed.
    pub edit_logits_user: *mut c_void,
}

/// Flag of a sampler: the temperature comes before the filters, which keep their default order. Recommendations of
/// models' authors, and sampling in transformers, use this order. Not together with `order`.
pub const RZ_SAMPLER_TEMPERATURE_FIRST: u32 = 1;

/// Creates a sampler. `params` may be NULL. The caller frees `*out` with rz_sampler_free. Any thread. Errors:
/// RZ_ERR_INVALID_ARGUMENT for a value that is NaN or out of range, and for an `order` that has an unknown filter, has
/// one twice, or lacks one that is on. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sampler_new(
    params: *const rz_sampler_params,
    out: *mut *mut rz_sampler,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let params = sampler_params(call, params)?;
        out.set_handle(rz_sampler(SharedLock::new(Chooser::new(params)?)));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sampler_free(sampler: *mut rz_sampler) {
    guarded_or!((), |call| call.release(sampler))
}

pub(super) fn sampler_params(call: &Call, params: *const rz_sampler_params) -> Result<SamplerParams> {
    let params: rz_sampler_params = call.params(params)?;
    call.flags(params.flags, RZ_SAMPLER_TEMPERATURE_FIRST, "rz_sampler_params.flags")?;
    let biases = call.slice(params.biases, params.n_biases, "rz_sampler_params.biases")?;
    let biases = biases.iter().map(|b| Ok((b.token, b.bias)));
    let dry_breakers = call.slice(params.dry_breakers, params.n_dry_breakers, "rz_sampler_params.dry_breakers")?;
    let banned =
        call.slice(params.banned_sequences, params.n_banned_sequences, "rz_sampler_params.banned_sequences")?;
    let sequence = |name| {
        move |sequence: &rz_token_sequence| {
            collected(call.slice(sequence.tokens, sequence.n_tokens, name)?.iter().map(|token| Ok(*token)))
        }
    };
    macro_rules! converted {
        ($($(#[$doc:meta])* $name:ident: $type:ty, $default:expr, $range:expr;)+) => {
            SamplerParams {
                seed: params.seed,
                logit_biases: collected(biases)?,
                dry_breakers: collected(dry_breakers.iter().map(sequence("rz_sampler_params.dry_breakers.tokens")))?,
                banned_sequences: collected(banned.iter().map(sequence("rz_sampler_params.banned_sequences.tokens")))?,
                order: order(call, &params)?,
                edit: edit(&params),
                $($name: params.$name,)+
            }
        };
    }
    Ok(sampler_numbers!(converted))
}

fn edit(params: &rz_sampler_params) -> Option<LogitsEdit> {
    let (edit, user) = (params.edit_logits?, User::new(params.edit_logits_user));
    Some(LogitsEdit::new(move |logits, tokens| {
        // SAFETY: the header asks for a function that may be called so.
        unsafe { edit(logits.as_mut_ptr(), logits.len(), tokens.as_ptr(), tokens.len(), user.get()) }
    }))
}

fn order(call: &Call, params: &rz_sampler_params) -> Result<Vec<Filter>> {
    let order = call.slice(params.order, params.n_order, "rz_sampler_params.order")?;
    match (params.flags & RZ_SAMPLER_TEMPERATURE_FIRST != 0, order) {
        (true, []) => collected(Filter::TEMPERATURE_FIRST.iter().map(|filter| Ok(*filter))),
        (true, _) => Err(Error::invalid("rz_sampler_params has both RZ_SAMPLER_TEMPERATURE_FIRST and an order")),
        (false, order) => collected(order.iter().map(|number| Filter::of(*number))),
    }
}

fn collected<T>(values: impl ExactSizeIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut collected = try_vec("sampler", values.len())?;
    for value in values {
        collected.push(value?);
    }
    Ok(collected)
}
