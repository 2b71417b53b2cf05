//! Conversations (chats): messages with a model, and its replies.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{
    Chat, ContentGrammar, Conversation, ConversationParams, ConversationView, Model, Overflow, Reasoning, ReplyParams,
    Runtime, step_conversations,
};
use crate::error::{Error, Result, try_vec};

use super::adapter::{adapters_of, rz_adapter};
use super::arguments::Call;
use super::cache::{cache_params, rz_cache_params};
use super::cancel::{rz_cancel, time_limit};
use super::chat::with_memory;
use super::generate::distinct;
use super::grammar::{
    RZ_GRAMMAR_FLAG_BEST_EFFORT, RZ_GRAMMAR_FLAG_WHITESPACE, RZ_GRAMMAR_TOOLS, grammar_text, rz_grammar,
};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::job::{draft_params, end_code, likeliest, state_code, stop_strings};
use super::lock::SharedLock;
use super::media::rz_media;
use super::model::rz_model;
use super::prompt::media_of;
use super::reply::{PartNumbers, part_status};
use super::sampler::{rz_sampler_params, sampler_params};
use super::status::{RZ_AGAIN, RZ_DONE, RZ_OK, rz_error, rz_status};
use super::store::rz_store;
use super::structs::{count, ns};

/// Chat with a model: messages, their KV cache, and the reply in progress. Mutable: one call at a time; a second call
/// gets RZ_ERR_BUSY. Any number of threads may read its state, messages and media at any time, also while another call
/// works on it (rz_conversation_info_get, _json_into, _media). Different conversations of a model work concurrently.
///
/// The prompt of a reply is the whole conversation rendered by the model's chat template, which decides whether earlier
/// reasoning is kept or removed. Only tokens that the cache does not hold are computed, usually the tokens of the new
/// messages.
pub struct rz_conversation {
    pub(super) model: Arc<Model>,
    conversation: SharedLock<Conversation>,
    view: Arc<ConversationView>,
}

impl Handle for rz_conversation {
    const NAME: &'static str = "conversation";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.model.runtime())
    }
}

impl rz_conversation {
    pub(super) fn new(conversation: Conversation) -> rz_conversation {
        conversation.publish();
        rz_conversation {
            model: conversation.model().clone(),
            view: conversation.view().clone(),
            conversation: SharedLock::new(conversation),
        }
    }

    /// Runs a call on the conversation.
    pub(super) fn change<T>(&self, call: impl FnOnce(&mut Conversation) -> Result<T>) -> Result<T> {
        let conversation = &mut *self.conversation.take(Self::NAME)?;
        let result = call(conversation);
        conversation.publish();
        result
    }

    /// Runs a call that needs the conversation between two changes.
    pub(super) fn read<T>(&self, call: impl FnOnce(&Conversation) -> Result<T>) -> Result<T> {
        call(&*self.conversation.read(Self::NAME)?)
    }

    /// Returns the state that can be read while another call works on the conversation.
    pub(super) fn view(&self) -> Result<&ConversationView> {
        self.conversation.sound(Self::NAME)?;
        Ok(&self.view)
    }
}

/// Context overflow: a prompt that does not fit fails with RZ_ERR_CONTEXT_FULL; a full cache ends the reply
/// (RZ_END_CONTEXT).
pub const RZ_OVERFLOW_FAIL: u32 = 0;
/// Context overflow: if the prompt leaves less than a quarter of the cache to the reply (or less than max_tokens, if
/// that is smaller), rz_conversation_reply leaves out the oldest turns, so that the remaining turns take at most half
/// of the cache. System messages stay. A turn lasts until the next user message and is never cut; if it does not fit,
/// the call fails with RZ_ERR_CONTEXT_FULL. A reply that fills the cache ends with RZ_END_CONTEXT; RZ_REPLY_CONTINUE
/// continues it, and leaves out older turns too. The messages stay in the conversation.
pub const RZ_OVERFLOW_FORGET: u32 = 1;

/// Parameters of a conversation. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_conversation_params {
    /// sizeof(rz_conversation_params).
    pub struct_size: u32,
    /// RZ_OVERFLOW_...
    pub overflow: u32,
    /// Initial state: the JSON of rz_chat_tokenize_into, `json_len` bytes; "messages" may be absent. NULL: empty.
    pub json: *const c_char,
    pub json_len: usize,
    /// Parameters of the cache; NULL: the defaults.
    pub cache: *const rz_cache_params,
    /// LoRA adapters of every reply, which the conversation keeps alive, and their scales; `scales` NULL: 1 each.
    pub adapters: *const *mut rz_adapter,
    pub scales: *const f32,
    /// Number of `adapters`.
    pub n_adapters: usize,
    /// Cancels every call that computes, also on forks; may be NULL. The conversation keeps it alive.
    pub cancel: *const rz_cancel,
    /// Prefix cache; may be NULL. The conversation and its forks look up prompts in it, and store all replies and every
    /// prompt with at least rz_store_params.min_tokens new tokens. The conversation keeps it alive. Prefixes are shared
    /// only between conversations with equal adapters and scales.
    pub store: *const rz_store,
}

/// Reasoning of a reply: the chat template's default.
pub const RZ_REASONING_MODEL: u32 = 0;
/// Reasoning of a reply: none. RZ_ERR_UNSUPPORTED if the template has no switch for it ("enable_thinking" or
/// "thinking").
pub const RZ_REASONING_OFF: u32 = 1;
/// Reasoning of a reply: the model may reason before its answer. RZ_ERR_UNSUPPORTED if the template has no reasoning.
pub const RZ_REASONING_ON: u32 = 2;

/// Flag of a reply: if the reply is abandoned, its tokens so far become a message with "finish_reason": "cancelled"; a
/// reply without tokens leaves no message. Without the flag, an abandoned reply leaves no message. rz_conversation_stop
/// does not need the flag.
pub const RZ_REPLY_KEEP: u32 = 1;
/// Flag of a reply: continues the last message, which must be a reply with the "finish_reason" "length", "context" or
/// "cancelled". rz_conversation_next_into returns only the new parts. If that reply broke off within a tool call, the
/// call is completed.
pub const RZ_REPLY_CONTINUE: u32 = 2;

/// Parameters of a reply. Zero in a field, or NULL instead of the struct, means the default. All parameters are copied.
/// Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_reply_params {
    /// sizeof(rz_reply_params).
    pub struct_size: u32,
    /// Maximum number of tokens to generate, including reasoning; 0: until the cache is full.
    pub max_tokens: u32,
    /// Sampler. NULL: the recommendation of the model's authors (rz_model_sampling_get), with the temperature before
    /// the filters and the number of the reply as seed; greedy if the authors recommend nothing.
    pub sampler: *const rz_sampler_params,
    /// Kind of the grammar for the content, which comes after the reasoning: RZ_GRAMMAR_..., except RZ_GRAMMAR_TOOLS;
    /// 0: any text. The first grammar of a model takes tens of milliseconds more than later grammars (rz_grammar_new).
    /// If the conversation has tools and its "tool_choice" is not "none", tool calls follow the grammar of
    /// RZ_GRAMMAR_TOOLS. With a grammar for the content too, the reply is either tool calls or that content; "required"
    /// and a named tool allow only tool calls.
    pub grammar_kind: u32,
    /// Flags of the grammar: RZ_GRAMMAR_FLAG_... bits, combined with |.
    pub grammar_flags: u32,
    /// RZ_REPLY_... bits, combined with |.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Text of the grammar, `grammar_len` bytes.
    pub grammar: *const c_char,
    pub grammar_len: usize,
    /// Grammar from rz_grammar_new, instead of `grammar`; NULL: none. It is either a grammar for the content, or a
    /// grammar of RZ_GRAMMAR_TOOLS for the whole reply, compiled for the same tools, "tool_choice" and
    /// "parallel_tool_calls" as the reply has. rz_conversation_reply then compiles nothing, with two exceptions: tools
    /// in addition to a content grammar, and a `reasoning` that is not the default. Each of these is compiled once; the
    /// grammar keeps the last four results. Any number of conversations may use it at once. It may be freed when
    /// rz_conversation_reply has returned.
    pub compiled_grammar: *const rz_grammar,
    /// Stop sequences that end the content, UTF-8 and NUL-terminated, as in rz_job_params.
    pub stops: *const *const c_char,
    /// Number of `stops`.
    pub n_stops: usize,
    /// RZ_REASONING_...
    pub reasoning: u32,
    /// Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
    /// tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
    /// answer. Ignored for a model that does not reason, and if `max_tokens` leaves no tokens for an answer.
    pub reasoning_tokens: u32,
    /// Speculative decoding, as in rz_job_params.
    pub draft: u32,
    pub draft_max: u32,
    pub draft_model: *const rz_model,
    /// Number of most likely tokens to keep with each token of content, for rz_conversation_logprobs_into, at most 32;
    /// RZ_NONE: only the log probability of the token itself; 0: none.
    pub logprobs: u32,
    /// Scheduling priority among the replies of rz_conversations_step, as in rz_job_params.
    pub priority: i32,
    /// Cancels steps of the reply while it is fired, in addition to the conversation's; may be NULL.
    pub cancel: *const rz_cancel,
    /// Tools and template variables for this reply only: a JSON object of `json_len` bytes with the members that
    /// rz_chat_tokenize_into takes, except "messages". "tools" replaces the tools of the conversation; [] means no
    /// tools, and then "tool_choice" must be set too if the conversation's is "required" or names a tool. "tool_choice"
    /// and "parallel_tool_calls" replace the conversation's. "variables" are set in addition to the conversation's.
    /// NULL: as in the conversation.
    pub json: *const c_char,
    pub json_len: usize,
}

/// State of a conversation and of its last reply. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_conversation_info {
    /// sizeof(rz_conversation_info), set by the caller.
    pub struct_size: u32,
    /// Number of messages.
    pub n_messages: u32,
    /// Index of the first message of the oldest turn in prompts; 0 unless turns were left out (RZ_OVERFLOW_FORGET).
    pub first_in_prompt: u32,
    /// State of the reply: RZ_STATE_...; 0 before the first reply, and after a reply was abandoned without a message.
    pub state: u32,
    /// Why the reply has ended: RZ_END_TOKEN, _LENGTH, _STOP, _CONTEXT, _GRAMMAR, _FAILED, _CANCELLED; 0: not ended.
    pub end_reason: u32,
    /// RZ_ERR_CANCELLED or RZ_ERR_DEADLINE while steps fail with this status; else 0.
    pub stopped: i32,
    /// Number of tokens of the reply's prompt.
    pub prompt_tokens: u32,
    /// Number of prompt tokens that the cache already held (cached tokens).
    pub reused_tokens: u32,
    /// Number of prompt tokens that had to be computed and are in the cache by now.
    pub prompt_done: u32,
    /// Number of generated tokens, including a token that ends the reply.
    pub n_tokens: u32,
    /// Number of reasoning tokens among the generated tokens.
    pub reasoning_tokens: u32,
    /// Number of draft tokens verified.
    pub drafted: u32,
    /// Number of draft tokens accepted.
    pub accepted: u32,
    /// Number of tokens in the cache.
    pub cache_len: u32,
    /// Capacity of the cache in tokens.
    pub cache_capacity: u32,
    /// Number of media in the messages.
    pub n_media: u32,
    /// Total time in nanoseconds of the reply's prefill steps.
    pub prompt_ns: u64,
    /// Total time in nanoseconds of the reply's decode steps.
    pub tokens_ns: u64,
    /// Time to first token: nanoseconds from rz_conversation_reply to the first token; 0 before that.
    pub first_token_ns: u64,
}

/// Creates a conversation. `params` may be NULL. The caller frees `*out` with rz_conversation_free, before or after the
/// model.
///
/// Any thread. Errors: RZ_ERR_UNSUPPORTED (a model without a tokenizer or a chat template), RZ_ERR_INVALID_ARGUMENT
/// (JSON of another form, a model without weights), RZ_ERR_MISMATCH (an adapter or a store of another model),
/// RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_new(
    model: *const rz_model,
    params: *const rz_conversation_params,
    out: *mut *mut rz_conversation,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let params: rz_conversation_params = call.params(params)?;
        let json = call.text(params.json, params.json_len, "rz_conversation_params.json")?;
        let chat = match params.json.is_null() {
            true => Chat::new(&[], true),
            false => with_memory(json.len(), || Chat::begun(json, None))?,
        };
        let (adapters, scales) = adapters_of(call, params.adapters, params.scales, params.n_adapters)?;
        let params = ConversationParams {
            overflow: overflow(params.overflow)?,
            cache: cache_params(call, params.cache)?,
            adapters: &adapters,
            scales: &scales,
            cancel: call.optional(params.cancel)?.map(|cancel| cancel.0.clone()),
            store: call.optional(params.store)?.map(|store| store.0.clone()),
        };
        out.set_handle(rz_conversation::new(Conversation::new(&model.0, chat, params)?));
        Ok(RZ_OK)
    })
}

/// Appends messages in JSON: one entry of "messages" as in rz_chat_render_into, or a list of entries: user and system
/// messages, tool results, or replies from elsewhere. The "tool_call_id" of a tool result must be the id of a call in
/// an earlier message. An unfinished reply is abandoned first (rz_conversation_reply).
///
/// A content may have media parts, as in rz_prompt_from_chat: each part has the number of one of the `n_media` media,
/// and each media item must be in at least one part. Without media, `media` may be NULL and `n_media` is 0. The
/// conversation keeps the media alive until rz_conversation_rewind removes their messages; it keeps only one copy of
/// media with equal hashes. In rz_conversation_json_into a part has the number of its media item in the conversation
/// (rz_conversation_media). Media rows that are in the cache already are not computed again.
///
/// The call computes nothing. Any thread. Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT (JSON of another form,
/// an unknown "tool_call_id", a part without a media item or with a media item of another kind, a media item without a
/// part), RZ_ERR_MISMATCH (a media item of another model), RZ_ERR_NOT_READY (a media item whose rz_media_step is not
/// done), RZ_ERR_UNSUPPORTED, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. The template runs later, in
/// rz_conversation_reply, which fails with RZ_ERR_UNSUPPORTED if the template leaves an image out, for instance. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_add(
    conversation: *mut rz_conversation,
    json: *const c_char,
    len: usize,
    media: *const *mut rz_media,
    n_media: usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let json = call.text(json, len, "json")?;
        let media = media_of(call, call.slice(media, n_media, "media")?)?;
        conversation.change(|conversation| with_memory(json.len(), || conversation.add(json, &media)))?;
        Ok(RZ_OK)
    })
}

/// Like rz_conversation_add, for one message with the NUL-terminated `role`, such as "user" or "system", and `len`
/// bytes of text. A message of the role "tool" is the result of the only tool call that has no result yet. If several
/// tool calls have no result, the function fails: add their results with rz_conversation_add, each with its
/// "tool_call_id".
///
/// Any thread. Errors: as for rz_conversation_add. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_add_text(
    conversation: *mut rz_conversation,
    role: *const c_char,
    text: *const c_char,
    len: usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let role = call.c_str(role, "role")?;
        let text = call.text(text, len, "text")?;
        conversation.change(|conversation| with_memory(text.len(), || conversation.add_text(role, text)))?;
        Ok(RZ_OK)
    })
}

/// Begins a reply to the messages: renders and tokenizes the prompt, which takes longer for longer conversations.
/// Computes nothing yet. `params` may be NULL.
///
/// The template runs on a thread of the runtime (rz_runtime_params.threads). The same thread compiles the grammar of
/// tools or of the content (rz_grammar_new), unless it is rz_reply_params.compiled_grammar or one of the last four
/// grammars of the conversation and its forks. rz_conversation_step generates the reply, and rz_conversation_next_into
/// returns its parts. When the reply has ended, it is a message of the conversation. Before that, rz_conversation_add,
/// _reply, _read, _rewind and _say abandon the reply (RZ_REPLY_KEEP), and rz_conversation_stop ends it and keeps the
/// tokens generated so far. If a reply cannot be begun or fails, the added messages stay: begin another reply, or
/// remove them with rz_conversation_rewind. While the call waits for the thread, it checks the rz_cancel flags of the
/// conversation and of `params`.
///
/// Any thread. Errors, which change nothing, so an unfinished reply continues: RZ_ERR_INVALID_ARGUMENT (the template
/// rejects the messages, a wrong parameter, RZ_REPLY_CONTINUE after a reply that was complete), RZ_ERR_CONTEXT_FULL
/// (rz_error.needed is the number of tokens of the prompt, without the turns that RZ_OVERFLOW_FORGET leaves out: the
/// minimum capacity for this prompt), RZ_ERR_UNSUPPORTED (messages that the template leaves out, RZ_REASONING_... that
/// it does not support, a grammar, speculative decoding), RZ_ERR_MISMATCH (a draft model of another vocabulary),
/// RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (the system cannot create a thread), RZ_ERR_CANCELLED,
/// RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_reply(
    conversation: *mut rz_conversation,
    params: *const rz_reply_params,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let params: rz_reply_params = call.params(params)?;
        let stops = stop_strings(call, params.stops, params.n_stops)?;
        let params = reply_params(call, &params, &stops)?;
        conversation.change(|conversation| conversation.reply(params))?;
        Ok(RZ_OK)
    })
}

pub(super) fn reply_params<'a>(
    call: &'a Call,
    params: &rz_reply_params,
    stops: &'a [&'a str],
) -> Result<ReplyParams<'a>> {
    call.flags(params.flags, RZ_REPLY_KEEP | RZ_REPLY_CONTINUE, "rz_reply_params.flags")?;
    let known = RZ_GRAMMAR_FLAG_WHITESPACE | RZ_GRAMMAR_FLAG_BEST_EFFORT;
    call.flags(params.grammar_flags, known, "rz_reply_params.grammar_flags")?;
    let grammar = call.text(params.grammar, params.grammar_len, "rz_reply_params.grammar")?;
    let compiled = call.optional(params.compiled_grammar)?;
    let sampler = (!params.sampler.is_null()).then(|| sampler_params(call, params.sampler)).transpose()?;
    Ok(ReplyParams {
        max_tokens: params.max_tokens as usize,
        sampler,
        grammar: match params.grammar_kind {
            kind if compiled.is_some() && (kind != 0 || !grammar.is_empty() || params.grammar_flags != 0) => {
                let what = "rz_reply_params.compiled_grammar and the text of a grammar are both set; set one";
                return Err(Error::invalid(what));
            }
            0 if !grammar.is_empty() || params.grammar_flags != 0 => {
                return Err(Error::invalid(
                    "rz_reply_params.grammar_kind is 0; it must be set for a grammar or its flags",
                ));
            }
            0 => compiled.map(|grammar| ContentGrammar::Compiled(grammar.0.clone())),
            RZ_GRAMMAR_TOOLS => {
                let what = "rz_reply_params.grammar_kind is RZ_GRAMMAR_TOOLS; it must be a kind for the content: \
                            calls follow the tools of the conversation";
                return Err(Error::invalid(what));
            }
            kind => Some(ContentGrammar::Text(grammar_text(kind, params.grammar_flags, grammar)?)),
        },
        stops,
        reasoning: match params.reasoning {
            RZ_REASONING_MODEL => Reasoning::Model,
            RZ_REASONING_OFF => Reasoning::Off,
            RZ_REASONING_ON => Reasoning::On,
            other => return Err(Error::invalid(format!("reasoning is {other}, not one of RZ_REASONING_..."))),
        },
        reasoning_tokens: params.reasoning_tokens as usize,
        draft: draft_params(call, params.draft, params.draft_max, params.draft_model)?,
        logprobs: likeliest(params.logprobs),
        priority: params.priority,
        cancel: call.optional(params.cancel)?.map(|cancel| cancel.0.clone()),
        members: (!params.json.is_null())
            .then(|| call.text(params.json, params.json_len, "rz_reply_params.json"))
            .transpose()?,
        only_reads: false,
        keeps_cut: params.flags & RZ_REPLY_KEEP != 0,
        continues: params.flags & RZ_REPLY_CONTINUE != 0,
    })
}

/// Works on the reply for about `budget_us` microseconds, like rz_job_step; with RZ_NO_LIMIT until it has generated a
/// token or ended. RZ_AGAIN: more work remains; RZ_DONE: the reply has ended, or there is no reply.
///
/// A fired rz_cancel or a passed deadline pauses the reply; the next step after rz_cancel_reset continues it. Any
/// thread. Errors: as for rz_job_step; the error of a failed reply, until the next reply begins. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_step(
    conversation: *mut rz_conversation,
    budget_us: u64,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        Ok(progress(conversation.change(|conversation| conversation.step(time_limit(budget_us)))?))
    })
}

/// Continuous batching: rz_conversation_step for `n` conversations of one model, like rz_jobs_step: each batch step
/// reads the weights once and computes tokens of many replies. RZ_DONE: all replies have ended, or there are no
/// replies. If a reply fails, only that reply ends: its state is RZ_STATE_ENDED, its end_reason RZ_END_FAILED, and
/// rz_conversation_error returns its error. Any thread. Errors: as for rz_jobs_step. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversations_step(
    conversations: *const *mut rz_conversation,
    n: usize,
    budget_us: u64,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let handles = call.slice(conversations, n, "conversations")?;
        distinct(handles, rz_conversation::NAME)?;
        let mut owners = try_vec("conversations", n)?;
        for (i, &handle) in handles.iter().enumerate() {
            owners.push(call.handle(handle).map_err(|e| e.of_entry(i))?);
        }
        let mut locks = try_vec("conversations", n)?;
        for (i, owner) in owners.iter().enumerate() {
            locks.push(owner.conversation.take(rz_conversation::NAME).map_err(|e| e.of_entry(i))?);
        }
        let mut all = try_vec("conversations", n)?;
        all.extend(locks.iter_mut().map(|lock| &mut **lock));
        Ok(progress(step_conversations(&mut all, time_limit(budget_us))?))
    })
}

fn progress(has_ended: bool) -> rz_status {
    if has_ended { RZ_DONE } else { RZ_AGAIN }
}

/// Takes the next part of the reply (streaming), like rz_chat_parser_next_into. RZ_AGAIN: no part is available yet.
/// RZ_DONE: the reply has ended, possibly with an error, and all its parts were taken, or there is no reply. Text that
/// may become a stop sequence is held back until that is decided. Consecutive text of one kind that was generated since
/// the last call is one part, of any length. `out` NULL with a `capacity` of 0 queries the size and takes nothing. A
/// whole reply, in C:
///
///     rz_status speak(rz_conversation *chat, rz_error *err) {
///       size_t room = 4096, len;
///       char *text = malloc(room), *more;
///       uint32_t kind, flags, index;
///       rz_status next, status = text ? rz_conversation_reply(chat, NULL, err) : RZ_ERR_OUT_OF_MEMORY;
///       while (status == RZ_OK || status == RZ_AGAIN) {
///         status = rz_conversation_step(chat, RZ_NO_LIMIT, err);
///         while ((next = rz_conversation_next_into(chat, &kind, &flags, &index, text, room, &len, NULL)) <= RZ_OK) {
///           if (next == RZ_OK) {
///             if (kind == RZ_CHAT_EVENT_CONTENT) fwrite(text, 1, len, stdout);
///           } else if (next == RZ_ERR_BUFFER_TOO_SMALL && (more = realloc(text, len)) != NULL) {
///             text = more, room = len;
///           } else {
///             status = next;
///             break;
///           }
///         }
///       }
///       if (status < 0) rz_conversation_stop(chat, NULL); // Keeps the text of a cancelled reply.
///       free(text);
///       return status; // RZ_DONE; rz_conversation_info.end_reason says why the reply has ended.
///     }
///
/// Any thread. Errors: RZ_ERR_BUFFER_TOO_SMALL (`*len` is the needed size, the part stays), RZ_ERR_BUSY,
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_next_into(
    conversation: *mut rz_conversation,
    kind: *mut u32,
    flags: *mut u32,
    index: *mut u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let part = PartNumbers::new(call, kind, flags, index)?.with_text(call, out, capacity, len)?;
        conversation.change(|conversation| {
            let next = conversation.next_part(|event| part.fill(event))?;
            Ok(part_status(next, !conversation.is_replying()))
        })
    })
}

/// Stops generation: ends an unfinished reply at once. Its tokens so far become a message with "finish_reason":
/// "cancelled", also without RZ_REPLY_KEEP; a reply without tokens leaves no message. The state of the reply is then
/// RZ_STATE_ENDED, its end_reason RZ_END_CANCELLED. rz_conversation_next_into still returns the parts that were not
/// taken, RZ_CHAT_EVENT_END last. RZ_REPLY_CONTINUE continues the message. Without a reply, nothing changes.
///
/// While another thread steps the reply, the call returns RZ_ERR_BUSY: fire the reply's rz_cancel, wait for the step to
/// return, then stop the reply. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_stop(conversation: *mut rz_conversation, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(conversation)?.change(Conversation::stop)?;
        Ok(RZ_OK)
    })
}

/// Returns the error with which the last reply has failed (RZ_END_FAILED), with its message in `err`; RZ_OK if the last
/// reply has not failed, or if there is no reply. Any thread, also while another call works on the conversation. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_error(conversation: *const rz_conversation, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let info = call.handle(conversation)?.view()?.info();
        info.and_then(|info| info.job?.failure).map_or(Ok(RZ_OK), Err)
    })
}

/// Copies the log probabilities of the content tokens generated since the last successful call, for a reply with
/// rz_reply_params.logprobs: rows, sizes and errors as for rz_job_logprobs_into; `*n` is 0 for a reply without
/// logprobs. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_logprobs_into(
    conversation: *mut rz_conversation,
    tokens: *mut u32,
    logprobs: *mut f32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let tokens = call.buffer(tokens, capacity, n, ["tokens", "n"])?;
        let logprobs = call.outs(logprobs, capacity, "logprobs")?;
        conversation.change(|conversation| {
            conversation.read_logprobs(|made, theirs| {
                tokens.fill(made)?;
                logprobs.set(theirs)
            })
        })?;
        Ok(RZ_OK)
    })
}

/// Writes the messages from number `first` on as a JSON array: messages as they were added, and replies with "content",
/// "reasoning_content", "tool_calls" with unique ids, and "finish_reason": "stop", "tool_calls", "length" (max_tokens),
/// "context" (full cache) or "cancelled". An unfinished reply is not included. If a reply broke off within a tool call,
/// that call is not in its message, because no template can write an incomplete call: rz_conversation_next_into returns
/// its parts, and a reply with RZ_REPLY_CONTINUE completes it.
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread, also while another call works on the conversation. Errors: RZ_ERR_POISONED,
/// RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_json_into(
    conversation: *const rz_conversation,
    first: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let past = conversation.view()?.past();
        let json = || Ok(past.chat.messages_json(first as usize));
        let json = with_memory(past.chat.text_bytes(), json)?;
        drop(past);
        out.fill(json.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Removes the messages after the first `n_messages`, to edit a message or to answer again. The cache keeps the tokens
/// of the remaining messages. An unfinished reply is abandoned first and leaves no message, even with RZ_REPLY_KEEP,
/// because that message would come after the first `n_messages`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (there are
/// fewer messages), RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_rewind(
    conversation: *mut rz_conversation,
    n_messages: u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        conversation.change(|conversation| conversation.rewind(n_messages as usize))?;
        Ok(RZ_OK)
    })
}

/// Creates a copy of the conversation with the same messages, which shares the cache copy-on-write (rz_cache_fork).
/// Each of the two counts with its whole capacity against rz_runtime_params.memory_limit. A reply in progress is not
/// copied. The caller frees `*out` with rz_conversation_free.
///
/// Any thread. Errors: RZ_ERR_BUSY (while a call changes the conversation), RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_fork(
    conversation: *const rz_conversation,
    out: *mut *mut rz_conversation,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let out = call.out(out, "out")?;
        out.set_handle(rz_conversation::new(conversation.read(Conversation::fork)?));
        Ok(RZ_OK)
    })
}

pub(super) fn overflow(id: u32) -> Result<Overflow> {
    match id {
        RZ_OVERFLOW_FAIL => Ok(Overflow::Fail),
        RZ_OVERFLOW_FORGET => Ok(Overflow::Forget),
        other => Err(Error::invalid(format!("overflow is {other}; it must be one of RZ_OVERFLOW_..."))),
    }
}

/// Fills in `*out`, whose `struct_size` the caller has set. Any thread. During another call, the counts are those after
/// the last step, and `state` is RZ_STATE_ENDED only once the reply is a message. Errors: RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_info_get(
    conversation: *const rz_conversation,
    out: *mut rz_conversation_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let out = call.out_struct(out)?;
        let info = conversation.view()?.info().ok_or(Error::Busy(rz_conversation::NAME))?;
        let job = info.job.as_ref();
        out.set(rz_conversation_info {
            struct_size: 0,
            n_messages: count(info.messages),
            first_in_prompt: count(info.first_in_prompt),
            state: if info.is_given_up { 0 } else { job.map_or(0, state_code) },
            end_reason: end_code(job.and_then(|job| job.end)),
            stopped: match job.map(|job| &job.stopped) {
                Some(Err(e)) => rz_error::failure(e).code,
                _ => RZ_OK,
            },
            prompt_tokens: count(info.prompt),
            reused_tokens: count(info.reused),
            prompt_done: count(job.map_or(0, |job| job.prompt_done)),
            n_tokens: count(job.map_or(0, |job| job.tokens)),
            reasoning_tokens: count(job.map_or(0, |job| job.reasoning)),
            drafted: count(job.map_or(0, |job| job.drafted)),
            accepted: count(job.map_or(0, |job| job.accepted)),
            cache_len: count(info.held),
            cache_capacity: count(info.capacity),
            n_media: count(info.media),
            prompt_ns: job.map_or(0, |job| ns(job.prompt_time)),
            tokens_ns: job.map_or(0, |job| ns(job.token_time)),
            first_token_ns: job.map_or(0, |job| ns(job.first_token)),
        });
        Ok(RZ_OK)
    })
}

/// Frees the conversation, at any time; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_free(conversation: *mut rz_conversation) {
    guarded_or!((), |call| call.release(conversation))
}
