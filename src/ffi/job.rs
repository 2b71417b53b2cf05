//! Generations that run in slices.

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

/// A generation that runs when the host has time: a prompt and the tokens that follow it, worked on in slices. Mutable,
/// so one call at a time: a second one gets RZ_ERR_BUSY. Its cache belongs to it until the job is freed: other calls on
/// the cache get RZ_ERR_BUSY, but for rz_cache_len, rz_cache_capacity and rz_cache_free.
///
/// The tokens of a job are those that rz_prefill, rz_sample and rz_generate_into make: whatever the budgets and
/// wherever it was paused, and on a CPU, or a GPU with RZ_MODEL_DETERMINISTIC, whichever other jobs it was stepped
/// with.
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
    /// The state of the job, while another call works on it too.
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

/// Parameters of a job. Zero in a field stands for the default; `tokens` and `n_tokens` have none. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_job_params {
    /// sizeof(rz_job_params).
    pub struct_size: u32,
    /// Tokens to make at most; 0: as many as the cache has room for.
    pub max_tokens: u32,
    /// The prompt, appended to what the cache holds. Copied.
    pub tokens: *const u32,
    /// Number of `tokens`, at least one.
    pub n_tokens: usize,
    /// Chooses the tokens; NULL: always the most likely one. Copied as it is now, so that several jobs may be given the
    /// same one, and what they draw does not depend on each other.
    pub sampler: *const rz_sampler,
    /// Lets only tokens be chosen by which the text can go on to match it, from its start; NULL: that of the sampler,
    /// if any.
    pub grammar: *const rz_grammar,
    /// Strings that end the text, UTF-8 and NUL-terminated, none of them empty. Copied. The text ends ahead of the
    /// first that is complete, of two that are complete at once ahead of the longer one, wherever tokens begin and end.
    pub stops: *const *const c_char,
    /// Number of `stops`.
    pub n_stops: usize,
    /// Stops the steps of the job while it is fired, beside that of rz_cache_cancel_set; NULL: none. The job keeps it
    /// alive.
    pub cancel: *const rz_cancel,
    /// 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// The source of drafts, RZ_DRAFT_...
    pub draft: u32,
    /// Tokens of a draft at most, of which more than 32 count as 32; 0: 16.
    pub draft_max: u32,
    /// With RZ_DRAFT_MODEL a model of the same vocabulary or a head of the cache's model, else ignored. The job keeps
    /// it alive.
    pub draft_model: *const rz_model,
    /// Number of the likeliest tokens to keep with each token that is made, for rz_job_logprobs_into, at most 32;
    /// RZ_NONE: only the log-probability of the token itself; 0: nothing is kept.
    pub logprobs: u32,
    /// Among the jobs of rz_jobs_step the higher go first, below 0 too; 0: as most. See there.
    pub priority: i32,
    /// The conversation whose reply the job makes: the JSON of rz_chat_tokenize_into, `chat_len` bytes, whose tokens
    /// end the prompt. The job gives its reply in parts, by rz_job_next_into in place of rz_job_text_into, and `stops`
    /// act on the content of the reply alone, not on reasoning, calls and tags. NULL: the job gives a text.
    pub chat: *const c_char,
    pub chat_len: usize,
    /// The prompt in place of `tokens`, which are NULL then; NULL: `tokens`. The job keeps its media alive.
    pub prompt: *const rz_prompt,
    /// Number of the first of its tokens that is appended, as in rz_prefill_prompt.
    pub prompt_first: usize,
}

/// No drafts of a job's next tokens, but for those that a grammar forces.
pub const RZ_DRAFT_NONE: u32 = 0;
/// Drafts out of the text: what followed the last tokens where they stood before. For answers that repeat the prompt,
/// such as edited text, code and summaries.
pub const RZ_DRAFT_LOOKUP: u32 = 1;
/// Drafts by a small model, `draft_model`, with a cache of at most 1,024 tokens, which belongs to the job. It first
/// reads the last 256 tokens of a longer text. Or by a head that was trained for the model of the job's cache, in a
/// file of its own: EAGLE-3 (arXiv 2503.01840), as a GGUF file ("eagle3") or a folder of EAGLE, SpecForge or
/// speculators, or the assistant of a Gemma 4, as a GGUF file ("gemma4-assistant") or its folder. rz_model_load loads
/// such a file like a model, which is of use here alone; other functions refuse it with RZ_ERR_UNSUPPORTED. Passes of
/// such jobs take scratch memory of their own. EAGLE-3 reads the hidden states of what the job itself appends, with a
/// cache as RZ_DRAFT_MTP has it. An assistant reads the job's cache and has none. It is loaded on the CPU (device 0 or
/// 1), and a copy of it drafts on the GPU of a model that is on one, of several the last: it is made with the first
/// such job, and freed with the assistant or the model, whichever is freed first, once no job has it.
pub const RZ_DRAFT_MODEL: u32 = 2;
/// Drafts by the layer of the model that predicts a further token, which RZ_MODEL_MTP has loaded, with a cache of its
/// own for one layer and as many tokens as that of the job, which belongs to the job. It reads what the job itself
/// appends.
pub const RZ_DRAFT_MTP: u32 = 3;

/// State of a job: its prompt is being read.
pub const RZ_STATE_PROMPT: u32 = 1;
/// State of a job: it makes tokens.
pub const RZ_STATE_TOKENS: u32 = 2;
/// State of a job: it has ended.
pub const RZ_STATE_ENDED: u32 = 3;

/// A job ended with a token that ends a turn or the text.
pub const RZ_END_TOKEN: u32 = 1;
/// A job ended with `max_tokens` tokens.
pub const RZ_END_LENGTH: u32 = 2;
/// A job ended with a stop string.
pub const RZ_END_STOP: u32 = 3;
/// A job ended because its cache is full.
pub const RZ_END_CONTEXT: u32 = 4;
/// A job ended because its grammar was complete.
pub const RZ_END_GRAMMAR: u32 = 5;
/// A job ended with an error of its own, of which rz_job_error tells: no token could be chosen, or its grammar passed a
/// bound.
pub const RZ_END_FAILED: u32 = 6;
/// A reply of a conversation was stopped: by rz_conversation_stop, by the callback or a cancel of rz_conversation_say,
/// or because it was given up with RZ_REPLY_KEEP.
pub const RZ_END_CANCELLED: u32 = 7;

/// The state of a job. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_job_info {
    /// sizeof(rz_job_info), set by the caller.
    pub struct_size: u32,
    /// RZ_STATE_...
    pub state: u32,
    /// The reason why it has ended, RZ_END_TOKEN, _LENGTH, _STOP, _CONTEXT, _GRAMMAR or _FAILED; 0 where it has not.
    pub end_reason: u32,
    /// The status with which its steps end now because it is asked to stop, RZ_ERR_CANCELLED or RZ_ERR_DEADLINE; else
    /// 0.
    pub stopped: i32,
    /// Tokens of the prompt, and those of them that are in the cache.
    pub prompt_total: u32,
    pub prompt_done: u32,
    /// Tokens made, one that ends the text included.
    pub n_tokens: u32,
    /// Tokens in the cache.
    pub cache_len: u32,
    /// Nanoseconds that the passes took in which its prompt took part, and those in which its single tokens did, with
    /// the making of drafts.
    pub prompt_ns: u64,
    pub tokens_ns: u64,
    /// Nanoseconds from rz_job_new to the first token; 0 before that.
    pub first_token_ns: u64,
    /// Tokens of drafts that passes computed, those that a grammar forced included, and those of them that were chosen.
    pub drafted: u32,
    pub accepted: u32,
}

/// Creates a job that appends a prompt to `cache` and generates. Nothing is computed yet.
///
/// `params` is required. The caller frees `*out` with rz_job_free, before or after the cache. Any thread. Errors:
/// RZ_ERR_INVALID_ARGUMENT (no prompt, or two, a token outside the vocabulary, an empty stop string),
/// RZ_ERR_CONTEXT_FULL (the prompt does not fit: rz_error.needed is the capacity that it needs), RZ_ERR_UNSUPPORTED
/// (stop strings with a model that has no tokenizer), RZ_ERR_MISMATCH (a grammar of another vocabulary, a prompt of
/// another model), RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY, and with `chat` those of rz_chat_parser_new,
/// RZ_ERR_CANCELLED and RZ_ERR_DEADLINE (while it waits for a thread that runs the template). Since 0.1.0.
///
/// Drafts: where a job's next tokens can be guessed, one pass over the weights computes several of them, which on a CPU
/// takes little longer than one. The job chooses each token as it would without, with the same random numbers, and what
/// was guessed wrong is forgotten: tokens, text and the cache are the same, bit by bit; with layers on a GPU and
/// without RZ_MODEL_DETERMINISTIC, of a job that is stepped by itself. A job drafts what its grammar leaves no choice
/// in, and what `draft` asks for; it measures what that gains, and stops where it would lose. A recurrent network
/// computes what was right of a draft again where not all was. Errors: RZ_ERR_MISMATCH (a draft model of another
/// vocabulary, or a head of another model; the message says what differs), RZ_ERR_UNSUPPORTED (RZ_DRAFT_MTP with a
/// model loaded without RZ_MODEL_MTP; a head, and a model whose layers hand on more than one hidden state, or that has
/// the keys and values which the head reads on several devices), RZ_ERR_LIMIT (the cache of a draft model or of
/// RZ_DRAFT_MTP). In slices of time no more is drafted than is chosen in a tenth of one.
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

/// The drafts that the fields of a struct with these three ask for.
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

/// Works on a job for about `budget_us` microseconds, with 0 for one share of its work; with RZ_NO_LIMIT, until it has
/// made a token or ended. RZ_AGAIN: there is more to do; RZ_DONE: it has ended.
///
/// A step is paused between two shares of its work, on a CPU within a layer, a large product or a mixture of experts,
/// before one that would take longer than is left. Where the call has its turn in time (see "What waits for what"
/// above), one share is done in any case; where other calls have the workers for the whole of its budget, nothing is.
/// Work on a GPU is paused between kernels of prompts, and one token is one piece there. A recurrent layer is one
/// share, whatever the length of the piece.
///
/// While a step is paused the job holds scratch memory of its own, which counts against the runtime's ceiling; other
/// calls on the model go on beside it. A fired cancel and a deadline pause a step as well: the call ends with
/// RZ_ERR_CANCELLED or RZ_ERR_DEADLINE, nothing is lost, and the job goes on when it is stepped after rz_cancel_reset.
/// Any thread. Errors: these two, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST,
/// and for a job that has failed (RZ_END_FAILED) its error, each time. Since 0.1.0.
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

/// `rz_job_step` for `n` jobs of one model at once: each pass over the weights computes single tokens of those that
/// make tokens, up to 64, and pieces of the prompts of others. With RZ_NO_LIMIT, until one of them has made a token.
/// RZ_DONE: all have ended, or `n` is 0, for which `jobs` may be NULL; those that have before are passed over.
///
/// Jobs may join and leave between any two calls. A pass that was paused goes on when all that take part in it are
/// given again; where one of them is missing or was freed, it is begun anew without it. No job may occur twice.
///
/// Places in a pass go to jobs of the highest rz_job_params.priority first, of one priority to those that have waited
/// longest. So does what a pass computes of prompts (rz_model_params.mixed_prefill_tokens), of one priority to the
/// prompt of which the least is left. Nobody waits for ever: a job without a part in 16 passes goes ahead of every
/// priority, those first that have waited longest, and such jobs have up to a quarter of the places and, one a pass, of
/// what is computed of prompts. So a job waits for at most 16 passes, and one more for each other job that waits as
/// long.
///
/// No job stops the others. One that cannot go on ends alone: its state is RZ_STATE_ENDED by RZ_END_FAILED, and
/// rz_job_error tells why. One whose cancel is fired or whose deadline has passed is left out from the next pass on
/// (rz_job_info.stopped tells so); only where all jobs that have not ended are asked to stop, the call ends with the
/// RZ_ERR_CANCELLED or RZ_ERR_DEADLINE of the first. Any thread. Errors: as for rz_job_step but for failed jobs,
/// RZ_ERR_INVALID_ARGUMENT, and RZ_ERR_MISMATCH for jobs of different models. Since 0.1.0.
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

/// The error of a job that has failed.
fn failure(job: &Job) -> Result<()> {
    job.failure().map_or(Ok(()), |error| Err(error.clone()))
}

/// Returns the status of the error with which a job has ended (RZ_END_FAILED), and its message in `err`; RZ_OK for any
/// other job. Any thread, while another call works on the job too. Errors besides the error of the job:
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_error(job: *const rz_job, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| { call.handle(job)?.info()?.failure.map_or(Ok(RZ_OK), Err) })
}

/// Copies the text made since the last call that succeeded: whole characters, without a NUL, stop strings cut out. It
/// goes on with the text of the cache and the prompt, so that a space at the start of a word stays where these have
/// text. What may yet become a stop string is held back until that is decided, or the job has ended. The text of a
/// token that ends it is left out, and so are control tokens and such that the tokenizer does not know.
///
/// `*len` receives the bytes, 0 where nothing is new. If `capacity` is too small, the call returns
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

/// Takes the next part of the reply of a job with rz_job_params.chat, as rz_chat_parser_next_into does. What may yet
/// become a stop string is held back until that is decided; a reply that a stop string ends has all before it, and its
/// end. `out` NULL with a `capacity` of 0 queries the size and takes nothing.
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

/// Copies the tokens made since the last call that succeeded, one that ends the text and those of a stop string
/// included.
///
/// `*n` receives their number, 0 where nothing is new. If `capacity` is too small, the call returns
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

/// Number of top log-probabilities to keep with each token; `None`: nothing is kept.
pub(super) fn likeliest(logprobs: u32) -> Option<usize> {
    match logprobs {
        0 => None,
        RZ_NONE => Some(0),
        n => Some(n as usize),
    }
}

/// Copies the log-probabilities of the tokens generated since the last call that succeeded, for a job with
/// rz_job_params.logprobs. Each token has a row of rz_job_params.logprobs + 1 entries, or of one entry with RZ_NONE: in
/// `tokens` the token itself, then the likeliest tokens at its position in descending order; in `logprobs` the natural
/// logarithms of their probabilities. The probabilities are the softmax of the model's logits, before any sampler, as
/// in rz_top_logprobs. Rows are shorter if the vocabulary has fewer tokens.
///
/// `*n` receives the number of entries in each array, 0 where nothing is new. If `capacity` is too small, the call
/// returns RZ_ERR_BUFFER_TOO_SMALL and they stay. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for a job that keeps
/// none, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
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
/// are as of the last pass over the weights. Errors: RZ_ERR_POISONED. Since 0.1.0.
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

/// The RZ_STATE_... of a job.
pub(super) fn state_code(info: &JobInfo) -> u32 {
    match info.end {
        Some(_) => RZ_STATE_ENDED,
        None if info.prompt_done < info.prompt_total => RZ_STATE_PROMPT,
        None => RZ_STATE_TOKENS,
    }
}

/// The reason of an end as RZ_END_...; 0 for none.
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

/// Frees the job, at any moment; NULL is fine. Its cache is free again and keeps the tokens that are complete: of the
/// prompt whole pieces, and of the tokens made all but the last. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_job_free(job: *mut rz_job) {
    guarded_or!((), |call| call.release(job))
}
