//! Jobs: generation in time slices, and continuous batching.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{
    Chooser, DraftParams, DraftSource, End, Job, JobInfo, JobParams, JobProgress, Request, Runtime, SamplerParams,
    Session, step_jobs,
};
use crate::error::{Error, Result, try_vec};

use super::arguments::Call;
use super::cache::rz_cache;
use super::cancel::{rz_cancel, time_limit};
use super::generate::distinct;
use super::grammar::rz_grammar;
use super::guard::{guarded, guarded_or};
use super::handle::{Handle, Held};
use super::lock::Lock;
use super::model::rz_model;
use super::prompt::rz_prompt;
use super::reply::{PartNumbers, part_status, reply};
use super::sampler::rz_sampler;
use super::status::{RZ_AGAIN, RZ_DONE, RZ_NONE, RZ_OK, rz_error, rz_status};
use super::structs::{count, ns};

/// Generation in time slices: a prompt and the tokens that follow it (a request of a server, for example). Mutable: one
/// call at a time; a second call gets RZ_ERR_BUSY. The job holds its cache until rz_job_free: other calls on the cache
/// get RZ_ERR_BUSY, except rz_cache_len, rz_cache_capacity and rz_cache_free.
///
/// A job generates the same tokens as rz_prefill, rz_sample and rz_generate_into, whatever the budgets and pauses. On a
/// CPU, or on a GPU with RZ_MODEL_DETERMINISTIC, other jobs in the batch do not change these tokens.
pub struct rz_job {
    /// Taken out only when it is dropped.
    job: Lock<Option<Job>>,
    progress: Arc<JobProgress>,
    cache: Held<rz_cache>,
}

impl Handle for rz_job {
    const NAME: &'static str = "job";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.cache.runtime()
    }
}

impl rz_job {
    /// Runs a call on the job.
    fn change<T>(&self, call: impl FnOnce(&mut Job) -> Result<T>) -> Result<T> {
        call(present(&mut *self.job.take(Self::NAME)?)?)
    }
}

impl rz_job {
    /// Returns the state of the job; works while another call works on the job.
    fn info(&self) -> Result<JobInfo> {
        self.job.sound(Self::NAME)?;
        Ok(self.progress.info())
    }
}

impl Drop for rz_job {
    fn drop(&mut self) {
        // A panic has left the job, and with it the session, in an unknown state.
        let (job, is_sound) = self.job.parts(rz_cache::NAME);
        let job = job.take().ok_or(Error::Busy(rz_cache::NAME));
        self.cache.put_back(is_sound.and(job).map(Job::into_session));
    }
}

fn present(job: &mut Option<Job>) -> Result<&mut Job> {
    job.as_mut().ok_or(Error::Busy(rz_job::NAME))
}

/// Parameters of a job. Zero in a field means the default. Either `tokens` and `n_tokens` or `prompt` must be set.
/// Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_job_params {
    /// sizeof(rz_job_params).
    pub struct_size: u32,
    /// Maximum number of tokens to generate; 0: until the cache is full.
    pub max_tokens: u32,
    /// Prompt, appended to the contents of the cache. Copied.
    pub tokens: *const u32,
    /// Number of `tokens`, at least one.
    pub n_tokens: usize,
    /// Sampler; NULL: always the most likely token (greedy decoding). Copied in its current state, so that several jobs
    /// may share one sampler and still draw independently.
    pub sampler: *const rz_sampler,
    /// Grammar that constrains the generated text (constrained decoding); NULL: the sampler's grammar, if any.
    pub grammar: *const rz_grammar,
    /// Stop sequences: strings that end the text, UTF-8 and NUL-terminated, not empty. Copied. The text ends before the
    /// first complete stop sequence, independent of token boundaries. If two stop sequences end at the same character,
    /// the text ends before the longer stop sequence.
    pub stops: *const *const c_char,
    /// Number of `stops`.
    pub n_stops: usize,
    /// Cancels steps of the job while it is fired, in addition to rz_cache_cancel_set; may be NULL. The job keeps it
    /// alive.
    pub cancel: *const rz_cancel,
    /// 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Source of draft tokens for speculative decoding, RZ_DRAFT_...
    pub draft: u32,
    /// Maximum number of draft tokens per step; values above 32 count as 32; 0: 16.
    pub draft_max: u32,
    /// With RZ_DRAFT_MODEL: a draft model of the same vocabulary, or a draft head of the cache's model; otherwise
    /// ignored. The job keeps it alive.
    pub draft_model: *const rz_model,
    /// Number of most likely tokens to keep with each generated token, for rz_job_logprobs_into, at most 32; RZ_NONE:
    /// only the log probability of the token itself; 0: none.
    pub logprobs: u32,
    /// Scheduling priority among the jobs of rz_jobs_step: higher first; may be negative; 0: normal.
    pub priority: i32,
    /// Conversation whose reply the job generates, as the JSON of rz_chat_tokenize_into (`chat_len` bytes). The prompt
    /// must end with the tokens of this conversation. The job returns its reply in parts, with rz_job_next_into instead
    /// of rz_job_text_into, and `stops` apply only to the content of the reply, not to reasoning, tool calls and tags.
    /// NULL: the job returns a text.
    pub chat: *const c_char,
    pub chat_len: usize,
    /// Prompt, instead of `tokens`, which must then be NULL; NULL: the prompt is `tokens`. The job keeps its media
    /// alive.
    pub prompt: *const rz_prompt,
    /// Index of the first token of `prompt` to append, as `first` of rz_prefill_prompt.
    pub prompt_first: usize,
}

/// No speculative decoding, except for tokens that a grammar forces.
pub const RZ_DRAFT_NONE: u32 = 0;
/// Prompt lookup decoding (n-gram speculation): drafts the tokens that followed an earlier occurrence of the last
/// tokens. For answers that repeat the prompt, such as edited text, code and summaries.
pub const RZ_DRAFT_LOOKUP: u32 = 1;
/// Speculative decoding with `draft_model`: a small model, or a draft head from a file of its own. The job creates a
/// cache of at most 1,024 tokens for a small model; if the text is longer, the draft model first processes only the
/// last 256 tokens. A draft head must have been trained for the model of the job's cache. Two kinds are supported:
/// EAGLE-3 (arXiv 2503.01840), as a GGUF file ("eagle3") or as a folder of EAGLE, SpecForge or speculators; and the
/// assistant of a Gemma 4, as a GGUF file ("gemma4-assistant") or as its folder. rz_model_load loads a draft head like
/// a model; only jobs accept it, and all other calls reject it with RZ_ERR_UNSUPPORTED. Steps of jobs with a draft head
/// take additional scratch memory. EAGLE-3 processes the hidden states of the tokens that the job itself appends, and
/// has a cache as with RZ_DRAFT_MTP. An assistant attends to the job's cache and has no cache of its own. The assistant
/// is loaded on the CPU (device 0 or 1). If the job's model is on a GPU, a copy of the assistant drafts on that GPU; if
/// the model is on several GPUs, the copy is on the last of them. The first job that needs the copy creates it. The
/// copy is freed when the assistant or the model is freed and no job uses the copy.
pub const RZ_DRAFT_MODEL: u32 = 2;
/// Speculative decoding with the model's multi-token prediction (MTP) head, loaded by RZ_MODEL_MTP. The head has its
/// own cache, with one layer and the capacity of the job's cache. This cache belongs to the job, and covers only the
/// tokens that the job itself appends.
pub const RZ_DRAFT_MTP: u32 = 3;

/// State of a job: prefill of the prompt.
pub const RZ_STATE_PROMPT: u32 = 1;
/// State of a job: token generation.
pub const RZ_STATE_TOKENS: u32 = 2;
/// State of a job: ended.
pub const RZ_STATE_ENDED: u32 = 3;

/// End reason: a token that ends a turn or the text.
pub const RZ_END_TOKEN: u32 = 1;
/// End reason: `max_tokens` tokens.
pub const RZ_END_LENGTH: u32 = 2;
/// End reason: a stop sequence.
pub const RZ_END_STOP: u32 = 3;
/// End reason: the cache is full.
pub const RZ_END_CONTEXT: u32 = 4;
/// End reason: the grammar is complete.
pub const RZ_END_GRAMMAR: u32 = 5;
/// End reason: an error of the job itself: no token could be sampled, or the work of the grammar exceeded a bound.
/// rz_job_error returns the error.
pub const RZ_END_FAILED: u32 = 6;
/// End reason of a reply in a conversation: it was stopped by rz_conversation_stop, by the callback or an rz_cancel of
/// rz_conversation_say, or abandoned with RZ_REPLY_KEEP.
pub const RZ_END_CANCELLED: u32 = 7;

/// State of a job. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_job_info {
    /// sizeof(rz_job_info), set by the caller.
    pub struct_size: u32,
    /// RZ_STATE_...
    pub state: u32,
    /// Reason of the end: RZ_END_TOKEN, _LENGTH, _STOP, _CONTEXT, _GRAMMAR or _FAILED; 0 if the job has not ended.
    pub end_reason: u32,
    /// RZ_ERR_CANCELLED or RZ_ERR_DEADLINE while steps fail with this status; else 0.
    pub stopped: i32,
    /// Number of tokens of the prompt.
    pub prompt_total: u32,
    /// Number of prompt tokens that are in the cache.
    pub prompt_done: u32,
    /// Number of generated tokens, including a token that ends the text.
    pub n_tokens: u32,
    /// Tokens in the cache.
    pub cache_len: u32,
    /// Total time in nanoseconds of the job's prefill steps, and of its decode steps (including drafting).
    pub prompt_ns: u64,
    pub tokens_ns: u64,
    /// Time to first token: nanoseconds from rz_job_new to the first token; 0 before that.
    pub first_token_ns: u64,
    /// Number of draft tokens verified, including tokens forced by a grammar, and number of draft tokens accepted.
    pub drafted: u32,
    pub accepted: u32,
}

/// Creates a job that appends a prompt to `cache` and generates. It computes nothing yet.
///
/// `params` is required. The caller frees `*out` with rz_job_free, before or after the cache. Any thread. Errors:
/// RZ_ERR_INVALID_ARGUMENT (no prompt, two prompts, a token outside the vocabulary, an empty stop sequence),
/// RZ_ERR_CONTEXT_FULL (the prompt does not fit: rz_error.needed is the capacity that it needs), RZ_ERR_UNSUPPORTED
/// (stop sequences with a model that has no tokenizer), RZ_ERR_MISMATCH (a grammar of another vocabulary, a prompt of
/// another model), RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY, and with `chat` the errors of
/// rz_chat_parser_new, RZ_ERR_CANCELLED and RZ_ERR_DEADLINE (while it waits for a thread that runs the template). Since
/// 0.1.0.
///
/// Speculative decoding: one step verifies several draft tokens, which on a CPU takes little more time than a step of
/// one token. The job samples each token as it would without drafts, with the same random numbers, and discards
/// rejected draft tokens. Tokens, text and cache are bit-identical to a job without drafts. With layers on a GPU and
/// without RZ_MODEL_DETERMINISTIC, this holds only if the job is stepped alone. A job drafts the tokens that its
/// grammar forces, and tokens from the source `draft`. It measures the speedup, and stops drafting when there is none.
/// A recurrent network recomputes the accepted tokens of a partially accepted draft. Errors: RZ_ERR_MISMATCH (a draft
/// model of another vocabulary, or a head of another model; the message names the difference), RZ_ERR_UNSUPPORTED
/// (RZ_DRAFT_MTP with a model loaded without RZ_MODEL_MTP; a head for a model whose layers pass on more than one hidden
/// state, or a head that reads KV caches on several devices), RZ_ERR_LIMIT (the cache of a draft model or of
/// RZ_DRAFT_MTP). With time slices, a step drafts at most as many tokens as it can process in a tenth of a slice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_new(
    cache: *mut rz_cache,
    params: *const rz_job_params,
    out: *mut *mut rz_job,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        call.checked(params, "params")?;
        let params: rz_job_params = call.params(params)?;
        let out = call.out(out, "out")?;
        call.flags(params.flags, 0, "rz_job_params.flags")?;
        let grammar = call.optional(params.grammar)?;
        let tokens = call.slice(params.tokens, params.n_tokens, "rz_job_params.tokens")?;
        let prompt = call.optional(params.prompt)?;
        if prompt.is_some() && !tokens.is_empty() {
            return Err(Error::invalid("rz_job_params has both tokens and a prompt"));
        }
        let first = params.prompt_first;
        let stops = stop_strings(call, params.stops, params.n_stops)?;
        let sampler = call.optional(params.sampler)?;
        let mut sampler = sampler.map(|s| s.0.read(rz_sampler::NAME)?.copy()).transpose()?;
        if let Some(grammar) = grammar {
            let greedy = || Chooser::new(SamplerParams::default());
            sampler.get_or_insert(greedy()?).set_grammar(Some(grammar.0.matcher()?));
        }
        let cancel = call.optional(params.cancel)?.map(|cancel| cancel.0.clone());
        let max_tokens = params.max_tokens as usize;
        let draft = draft_params(call, params.draft, params.draft_max, params.draft_model)?;
        let logprobs = likeliest(params.logprobs);
        let (model, own) = cache.read(|session| Ok((Arc::clone(session.model()), session.cancel().cloned())))?;
        let chat = call.text(params.chat, params.chat_len, "rz_job_params.chat")?;
        let reply = if params.chat.is_null() {
            None
        } else {
            let cancels = [cancel.as_deref(), own.as_deref()];
            Some(reply(&model, chat, prompt.is_some().then_some(usize::MAX), &cancels)?)
        };
        let (chooser, priority, stops) = (sampler, params.priority, &stops[..]);
        let params =
            JobParams { max_tokens, chooser, stops, reply, logprobs, draft, priority, cancel, ..JobParams::default() };
        let request = |session: &Session| match &prompt {
            Some(prompt) => Request::of_prompt(session, &prompt.0, first, params),
            None => Request::new(session, tokens, params),
        };
        let job = cache.lend(request, Job::new)?;
        let progress = job.progress().clone();
        out.set_handle(rz_job { job: Lock::new(Some(job)), progress, cache });
        Ok(RZ_OK)
    })
}

/// Returns the draft parameters from the three fields of a parameter struct.
pub(super) fn draft_params(call: &Call, draft: u32, most: u32, model: *const rz_model) -> Result<DraftParams> {
    let source = match draft {
        RZ_DRAFT_NONE => None,
        RZ_DRAFT_LOOKUP => Some(DraftSource::Lookup),
        RZ_DRAFT_MODEL => {
            call.checked(model, "draft_model")?;
            Some(DraftSource::Model(call.handle(model)?.0.clone()))
        }
        RZ_DRAFT_MTP => Some(DraftSource::Mtp),
        other => return Err(Error::invalid(format!("draft is {other}, which is no source of drafts"))),
    };
    Ok(DraftParams { source, most: most as usize, always: false })
}

pub(super) fn stop_strings(call: &Call, stops: *const *const c_char, n: usize) -> Result<Vec<&str>> {
    let pointers = call.slice(stops, n, "stops")?;
    let mut stops = try_vec("stop strings", pointers.len())?;
    for (i, &pointer) in pointers.iter().enumerate() {
        stops.push(call.c_str(pointer, "stops").map_err(|e| e.of_entry(i))?);
    }
    Ok(stops)
}

/// Works on a job for about `budget_us` microseconds; with 0 for one chunk of work; with RZ_NO_LIMIT until it has
/// generated a token or ended. RZ_AGAIN: more work remains; RZ_DONE: the job has ended.
///
/// A step pauses between two chunks of work if the next chunk would take longer than the remaining time. On a CPU it
/// can pause within a layer, a large matrix product or a mixture of experts. If the workers become free in time (see
/// "Scheduling" above), the step computes at least one chunk; if other calls use the workers for the whole budget, it
/// computes none. On a GPU a prefill step can pause between two kernels; the decode of one token is one chunk. A
/// recurrent layer is one chunk, whatever the number of tokens.
///
/// A paused job keeps its scratch memory, which counts against rz_runtime_params.memory_limit. Other calls on the model
/// continue. A fired rz_cancel or a passed deadline also pauses a step: the call fails with RZ_ERR_CANCELLED or
/// RZ_ERR_DEADLINE, no work is lost, and the next step after rz_cancel_reset continues the job. Any thread. Errors:
/// RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_DEVICE_LOST, and for a failed job (RZ_END_FAILED) the error of the job, each time. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_step(job: *mut rz_job, budget_us: u64, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        job.change(|job| {
            let all_ended = step_jobs(&mut [job], time_limit(budget_us))?;
            failure(job)?;
            Ok(progress(all_ended))
        })
    })
}

/// Continuous batching: `rz_job_step` for `n` jobs of one model. Each batch step reads the weights once and computes
/// one token for each of up to 64 jobs in generation, and prompt chunks of other jobs. With RZ_NO_LIMIT the call
/// returns when one job has generated a token. RZ_DONE: all jobs have ended, or `n` is 0 (`jobs` may be NULL then).
/// Jobs that had ended before are skipped.
///
/// Jobs may join and leave between any two calls. A paused batch step continues when all its jobs are passed again; if
/// one of them is missing or was freed, the step restarts without it. No job may occur twice.
///
/// Places in a batch step go to jobs by rz_job_params.priority, then by waiting time. Prompt tokens
/// (rz_model_params.mixed_prefill_tokens) go by priority, then to the prompt with the fewest remaining tokens. No job
/// starves: a job that had no place in 16 steps goes before jobs of every priority; of several such jobs, the job that
/// has waited longest goes first. Such jobs get up to a quarter of the places; one such job per step gets up to a
/// quarter of the prompt tokens. A job thus waits for at most 16 steps, plus one for each other job that waits as long.
///
/// A failing job does not stop other jobs. Only the failing job ends: its state is RZ_STATE_ENDED with RZ_END_FAILED,
/// and rz_job_error returns the reason. A job whose rz_cancel is fired or whose deadline has passed is left out from
/// the next step on (see rz_job_info.stopped). If all jobs that have not ended are cancelled or past their deadlines,
/// the call fails with the status of the first one, RZ_ERR_CANCELLED or RZ_ERR_DEADLINE. Any thread. Errors: as for
/// rz_job_step except the errors of failed jobs, RZ_ERR_INVALID_ARGUMENT, and RZ_ERR_MISMATCH for jobs of different
/// models. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_jobs_step(
    jobs: *const *mut rz_job,
    n: usize,
    budget_us: u64,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let jobs = call.slice(jobs, n, "jobs")?;
        distinct(jobs, rz_job::NAME)?;
        let mut owners = try_vec("jobs", n)?;
        for (i, &job) in jobs.iter().enumerate() {
            owners.push(call.handle(job).map_err(|e| e.of_entry(i))?);
        }
        let mut locks = try_vec("jobs", n)?;
        for (i, owner) in owners.iter().enumerate() {
            locks.push(owner.job.take(rz_job::NAME).map_err(|e| e.of_entry(i))?);
        }
        let mut all = try_vec("jobs", n)?;
        for lock in &mut locks {
            all.push(present(lock)?);
        }
        Ok(progress(step_jobs(&mut all, time_limit(budget_us))?))
    })
}

fn progress(all_ended: bool) -> rz_status {
    if all_ended { RZ_DONE } else { RZ_AGAIN }
}

/// Fails with the error of a failed job.
fn failure(job: &Job) -> Result<()> {
    job.failure().map_or(Ok(()), |error| Err(error.clone()))
}

/// Returns the status of the error with which a job ended (RZ_END_FAILED), and its message in `err`; RZ_OK for any
/// other job. Any thread, also while another call works on the job. Errors in addition to the error of the job:
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_error(job: *const rz_job, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| { call.handle(job)?.info()?.failure.map_or(Ok(RZ_OK), Err) })
}

/// Copies the text generated since the last successful call: whole characters, without a NUL, without stop sequences.
/// The text continues the text of the cache and the prompt, so a space before its first word is kept. Text that may
/// become a stop sequence is held back until that is decided, or the job has ended. End tokens, control tokens and
/// tokens that the tokenizer does not know add no text.
///
/// `*len` receives the number of bytes, 0 if there is nothing new. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL and the text stays. Any thread. Errors: RZ_ERR_UNSUPPORTED for a model without a tokenizer,
/// RZ_ERR_INVALID_ARGUMENT for a job with rz_job_params.chat, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_text_into(
    job: *mut rz_job,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        job.change(|job| job.read_text(|text| out.fill(text.as_bytes())))?;
        Ok(RZ_OK)
    })
}

/// Takes the next part of the reply of a job with rz_job_params.chat, like rz_chat_parser_next_into. Text that may
/// become a stop sequence is held back until that is decided; if a stop sequence ends the reply, all text before it and
/// RZ_CHAT_EVENT_END are still returned. `out` NULL with a `capacity` of 0 queries the size and takes nothing.
///
/// Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for a job without rz_job_params.chat, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_BUSY,
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_next_into(
    job: *mut rz_job,
    kind: *mut u32,
    flags: *mut u32,
    index: *mut u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        let part = PartNumbers::new(call, kind, flags, index)?.with_text(call, out, capacity, len)?;
        let next = job.change(|job| {
            let next = job.next_part(|event| part.fill(event))?;
            Ok(part_status(next, job.info().end.is_some()))
        })?;
        Ok(next)
    })
}

/// Copies the tokens generated since the last successful call, including a token that ends the text and the tokens of a
/// stop sequence.
///
/// `*n` receives their number, 0 if there is nothing new. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL and the tokens stay. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_tokens_into(
    job: *mut rz_job,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        job.change(|job| job.read_tokens(|tokens| out.fill(tokens)))?;
        Ok(RZ_OK)
    })
}

/// Returns the number of most likely tokens to keep with each token; `None`: no log probabilities.
pub(super) fn likeliest(logprobs: u32) -> Option<usize> {
    match logprobs {
        0 => None,
        RZ_NONE => Some(0),
        n => Some(n as usize),
    }
}

/// Copies the log probabilities (logprobs) of the tokens generated since the last successful call, for a job with
/// rz_job_params.logprobs. Each token has a row of rz_job_params.logprobs + 1 entries, or of one entry with RZ_NONE: in
/// `tokens` the token itself, then the most likely tokens at its position in descending order; in `logprobs` the
/// natural logarithms of their probabilities. The probabilities are the softmax of the model's logits, before any
/// sampler, as in rz_top_logprobs. Rows are shorter if the vocabulary has fewer tokens.
///
/// `*n` receives the number of entries in each array, 0 if there is nothing new. If `capacity` is too small, the call
/// returns RZ_ERR_BUFFER_TOO_SMALL and the entries stay. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for a job without
/// logprobs, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_logprobs_into(
    job: *mut rz_job,
    tokens: *mut u32,
    logprobs: *mut f32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        let tokens = call.buffer(tokens, capacity, n, ["tokens", "n"])?;
        let logprobs = call.outs(logprobs, capacity, "logprobs")?;
        job.change(|job| {
            job.read_logprobs(|made, theirs| {
                tokens.fill(made)?;
                logprobs.set(theirs)
            })
        })?;
        Ok(RZ_OK)
    })
}

/// Fills in `*out`, whose `struct_size` the caller has set. Any thread. While another call works on the job, the counts
/// are those after the last step. Errors: RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_info_get(job: *const rz_job, out: *mut rz_job_info, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let job = call.handle(job)?;
        let out = call.out_struct(out)?;
        let info = job.info()?;
        out.set(rz_job_info {
            struct_size: 0,
            state: state_code(&info),
            end_reason: end_code(info.end),
            stopped: info.stopped.map_or_else(|e| rz_error::failure(&e).code, |()| RZ_OK),
            prompt_total: count(info.prompt_total),
            prompt_done: count(info.prompt_done),
            n_tokens: count(info.tokens),
            cache_len: count(info.cache_len),
            prompt_ns: ns(info.prompt_time),
            tokens_ns: ns(info.token_time),
            first_token_ns: ns(info.first_token),
            drafted: count(info.drafted),
            accepted: count(info.accepted),
        });
        Ok(RZ_OK)
    })
}

/// Returns RZ_STATE_... of a job.
pub(super) fn state_code(info: &JobInfo) -> u32 {
    match info.end {
        Some(_) => RZ_STATE_ENDED,
        None if info.prompt_done < info.prompt_total => RZ_STATE_PROMPT,
        None => RZ_STATE_TOKENS,
    }
}

/// Returns the end reason as RZ_END_...; 0 for none.
pub(super) fn end_code(end: Option<End>) -> u32 {
    match end {
        None => 0,
        Some(End::Token) => RZ_END_TOKEN,
        Some(End::Length) => RZ_END_LENGTH,
        Some(End::Stop) => RZ_END_STOP,
        Some(End::Context) => RZ_END_CONTEXT,
        Some(End::Grammar) => RZ_END_GRAMMAR,
        Some(End::Failed) => RZ_END_FAILED,
        Some(End::Cancelled) => RZ_END_CANCELLED,
    }
}

/// Frees the job, at any time; NULL is fine. Its cache is usable again and keeps the complete tokens: prompt chunks
/// that were computed, and all generated tokens but the last. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_free(job: *mut rz_job) {
    guarded_or!((), |call| call.release(job))
}
