//! Chat templates: messages rendered as text or directly to tokens.

use std::ffi::c_char;

use crate::engine::metrics::Phase;
use crate::engine::{Cancel, Chat};
use crate::error::{Result, secured};

use super::cancel::{flag, rz_cancel};
use super::guard::guarded;
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};
use super::text::timed;

/// Flag of rz_chat_render_into and rz_chat_tokenize_into: append the generation prompt, which opens the assistant's
/// turn.
pub const RZ_CHAT_ADD_GENERATION_PROMPT: u32 = 1;

/// Renders a conversation with the model's chat template, as the text that the model was trained on. The conversation
/// is JSON, `json_len` bytes of UTF-8, in the form that servers take:
///
/// {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...], "variables": {...},
/// "add_generation_prompt": true, "response_format": {...}}
///
/// All but "messages" may be absent. A message has a "role", a "content" (a text or a list of parts of type "text";
/// null or absent only next to "tool_calls", "reasoning_content" or "refusal") and the other members of OpenAI's
/// messages: "name", "refusal", "annotations", "tool_call_id" and "tool_calls". "function.arguments" of a tool call may
/// be an object or its JSON as a text. A message may also have "reasoning_content" (or its synonyms "reasoning" and
/// "thinking"), "finish_reason" and every name that the template reads; other members are an error unless they are
/// null. Ids of tool calls may be any text: if a template requires a form, they are replaced in calls and results
/// alike. If a template leaves tool calls out and the form of the model's calls is known, the calls are written into
/// the text of their message. "variables" are handed to the template, such as "enable_thinking".
/// "add_generation_prompt" overrides the flag. "tool_choice" ("auto", "none", "required", or {"function": {"name":
/// "..."}}) and "parallel_tool_calls" (true by default) have an effect in rz_chat_parser_new and in grammars of the
/// kind RZ_GRAMMAR_TOOLS.
///
/// If a template rejects or loses system messages (all of them, or all after the first message), their text moves into
/// a user message: the next message if its role is user, otherwise the previous user message. If the assistant has
/// already answered that user message, the text becomes a new user message. If a template rejects two user messages in
/// a row, they are joined. "developer" messages become system messages for a template that does not know that role. The
/// template runs on a thread of the runtime (rz_runtime_params.threads); `cancel` ends the wait for that thread, and
/// may be NULL.
///
/// `*len` receives the bytes of the text; it is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. The text is for display and logs: in this text, a special token that a message spells out
/// looks the same as a special token of the template. For a prompt, use rz_chat_tokenize_into. Any thread. Errors:
/// RZ_ERR_UNSUPPORTED (no template, a template with a feature that is not implemented, a part that is not text, an
/// integer of more than 64 bits, or tool calls, tool results or tools that the template leaves out),
/// RZ_ERR_INVALID_ARGUMENT (the template rejects the messages, or a member is unknown or of the wrong type; the message
/// names it), RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (rz_runtime_params.threads), RZ_ERR_CANCELLED,
/// RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_render_into(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    flags: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let chat = parse(json, flags, None)?;
        let cancel = call.optional(cancel)?;
        let text = model.0.run_deep(&[flag(&cancel)], || model.0.render_chat(&chat)?.plain())?;
        out.fill(text.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Renders and tokenizes a conversation in the JSON of rz_chat_render_into.
///
/// Only the template can produce special tokens: messages, names, arguments and tools are plain text, even if they
/// spell "<|im_end|>". The tokens that begin a text (BOS) occur once, whether or not the template writes these tokens.
/// `*n` receives the number of tokens. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. `cancel`
/// stops the call and may be NULL. Any thread. Errors: as for rz_chat_render_into. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_tokenize_into(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    flags: u32,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let chat = parse(json, flags, None)?;
        let cancel = call.optional(cancel)?;
        let text = model.0.run_deep(&[flag(&cancel)], || model.0.render_chat(&chat))?;
        let check = || Cancel::check(&[flag(&cancel)]);
        let tokens = timed(&model.0, Phase::Tokenize, || {
            let mut tokens = Vec::new();
            model.0.tokenizer()?.encode_chat(&check, &text, &mut tokens)?;
            Ok(tokens)
        })?;
        out.fill(&tokens)?;
        Ok(RZ_OK)
    })
}

/// Maximum bytes of a message without its texts, and of a value that one byte of JSON can produce.
const MESSAGE: usize = 1024;
const VALUE: usize = 128;

/// Runs `work` on a conversation of so many bytes after reserving memory for its messages and values.
pub(super) fn with_memory<T>(bytes: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    secured("the conversation", VALUE * bytes.max(MESSAGE), work)
}

fn adds_prompt(flags: u32) -> bool {
    flags & RZ_CHAT_ADD_GENERATION_PROMPT != 0
}

/// Parses a conversation, whose messages may refer to `n_media` media; `None`: text only.
pub(super) fn parse(json: &str, flags: u32, n_media: Option<usize>) -> Result<Chat> {
    with_memory(json.len(), || Chat::parse_with_media(json, adds_prompt(flags), n_media))
}
