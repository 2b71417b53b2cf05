//! Conversations: chat templates, rendered as text or straight to tokens.

use std::ffi::c_char;

use crate::engine::Chat;
use crate::engine::metrics::Phase;
use crate::error::{Result, secured, try_vec};

use super::arguments::Plain;
use super::guard::guarded;
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::layout;
use super::text::timed;

/// Flag of rz_chat_render_into, rz_chat_render_json_into and rz_chat_tokenize_into: end with the opening of the
/// assistant's turn.
pub const RZ_CHAT_ADD_GENERATION_PROMPT: u32 = 1;

/// One message of a chat; NUL-terminated UTF-8. The simple form: it never grows. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_chat_message {
    /// Role of the speaker, such as "system", "user" or "assistant".
    pub role: *const c_char,
    /// Text of the message.
    pub content: *const c_char,
}

layout!(rz_chat_message { role, content });
// SAFETY: two raw pointers, which have no invalid bit patterns; reading through them goes through `Call::c_str`.
unsafe impl Plain for rz_chat_message {}

/// Writes `n` messages as the text that the model was trained on, by the chat template in its file.
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` (0 and a NULL `out` to ask for it)
/// the result is RZ_ERR_BUFFER_TOO_SMALL. Tokenize it with RZ_TOKENIZE_PARSE_SPECIAL, and with RZ_TOKENIZE_ADD_SPECIAL
/// too unless rz_model_info.chat_template says RZ_TEMPLATE_WRITES_BOS. Special tokens that somebody spells in a message
/// become real ones then; rz_chat_tokenize_into has no such hole. A template that refuses or loses system messages, or
/// system messages after the first message, gets their text in messages of the user: before the next message, or after
/// the previous one if no message of the user follows. A template that refuses two messages of the user in a row gets
/// one. Messages of a "developer" are system messages to a template that does not know them. The template runs on a
/// thread of the runtime (rz_runtime_params.threads). Any thread. Errors: RZ_ERR_UNSUPPORTED (no template, or one that
/// uses what is not implemented), RZ_ERR_INVALID_ARGUMENT (the template refuses the messages), RZ_ERR_VERSION (unknown
/// flags), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_render_into(
    model: *const rz_model,
    messages: *const rz_chat_message,
    n: usize,
    flags: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let messages = call.slice(messages, n, "messages")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let mut texts = try_vec("chat messages", n)?;
        for (i, message) in messages.iter().enumerate() {
            let role = call.c_str(message.role, &format!("messages[{i}].role"))?;
            texts.push((role, call.c_str(message.content, &format!("messages[{i}].content"))?));
        }
        let said: usize = texts.iter().map(|(role, content)| role.len() + content.len() + MESSAGE).sum();
        let chat = secured("the conversation", said, || Ok(Chat::new(&texts, adds_prompt(flags))))?;
        let text = model.0.runtime().run_deep(|| model.0.render_chat(&chat)?.plain())?;
        out.fill(text.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// rz_chat_render_into for a whole conversation in JSON, `json_len` bytes of UTF-8, as servers take it:
///
/// {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...], "variables": {...},
/// "add_generation_prompt": true, "response_format": {...}}
///
/// All but "messages" may be absent. A message has a "role", "content" (a text or a list of parts of type "text"; null
/// or absent only beside "tool_calls", "reasoning_content" or "refusal") and the other members of OpenAI's messages:
/// "name", "refusal", "annotations", "tool_call_id", "tool_calls", whose "function.arguments" may be an object or its
/// JSON as a text. In addition "reasoning_content" (or "reasoning" or "thinking", which stand for it), "finish_reason"
/// and every name that the template reads; other members are an error unless they are null. Ids of calls may be any
/// text: for a template that requires a form they are replaced, in calls and results alike. Calls are written into the
/// text of their message for a template that leaves them out and whose form of calls is known. "variables"
/// are handed to the template, such as "enable_thinking". Where "add_generation_prompt" is given it counts, not the
/// flag. "tool_choice" ("auto", "none", "required", or {"function": {"name": "..."}}) and "parallel_tool_calls" (true
/// by default) are for rz_chat_parser_new and grammars of the kind RZ_GRAMMAR_TOOLS. Rules, sizes, threads and errors
/// are those of rz_chat_render_into, and RZ_ERR_INVALID_ARGUMENT names what is unknown or of the wrong type,
/// RZ_ERR_UNSUPPORTED a part that is no text, an integer of more than 64 bits, and calls, results of tools, or tools
/// that the template leaves out. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_render_json_into(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    flags: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let chat = parse(json, flags, None)?;
        let text = model.0.runtime().run_deep(|| model.0.render_chat(&chat)?.plain())?;
        out.fill(text.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Writes the tokens of a conversation in JSON, which is that of rz_chat_render_json_into.
///
/// Special tokens come from what the template wrote alone: whatever messages, names, arguments and tools say is plain
/// text, though it spell "<|im_end|>". The tokens that begin a text come once, whether the template writes them or not.
/// `*n` receives the number of tokens. With too small a `capacity` (0 and a NULL `out` to ask for it) the result is
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: those of rz_chat_render_json_into. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_tokenize_into(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    flags: u32,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let chat = parse(json, flags, None)?;
        let text = model.0.runtime().run_deep(|| model.0.render_chat(&chat))?;
        let tokens = timed(&model.0, Phase::Tokenize, || {
            let mut tokens = Vec::new();
            model.0.tokenizer()?.encode_chat(&text, &mut tokens)?;
            Ok(tokens)
        })?;
        out.fill(&tokens)?;
        Ok(RZ_OK)
    })
}

/// Bytes of a message besides its texts, and those of a value that a byte of JSON can stand for, at most.
const MESSAGE: usize = 1024;
pub(super) const VALUE: usize = 128;

fn adds_prompt(flags: u32) -> bool {
    flags & RZ_CHAT_ADD_GENERATION_PROMPT != 0
}

/// Reads a conversation, whose messages may have some of `n_media` media; `None`: texts alone.
pub(super) fn parse(json: &str, flags: u32, n_media: Option<usize>) -> Result<Chat> {
    let read = || Chat::parse_with_media(json, adds_prompt(flags), n_media);
    secured("the conversation", VALUE * json.len().max(MESSAGE), read)
}
