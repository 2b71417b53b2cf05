//! A user message and the whole reply in one call.

use std::ffi::{c_char, c_void};

use crate::error::Error;

use super::conversation::{reply_params, rz_conversation, rz_reply_params};
use super::guard::guarded;
use super::job::stop_strings;
use super::status::{RZ_OK, rz_error, rz_status};

/// Receives a piece of the content of a reply: whole characters, `len` bytes, valid during the call, not
/// NUL-terminated. A non-zero result ends the reply, which keeps its text so far. Runs on the calling thread, during
/// the call. It may call the library; a call with the conversation gets RZ_ERR_BUSY. It must return normally: no
/// longjmp, no C++ exception.
pub type rz_text_callback = Option<unsafe extern "C" fn(text: *const c_char, len: usize, user: *mut c_void) -> i32>;

/// Adds the NUL-terminated `text` as a user message, and generates the whole reply. `params`, which may be NULL, has
/// the parameters of the reply, as for rz_conversation_reply, without RZ_REPLY_CONTINUE. `on_text`, which may be NULL,
/// receives the reply's content in pieces as it is generated (streaming), on this thread; reasoning and tool calls are
/// only in the message (rz_conversation_json_into).
///
/// If `on_text` returns non-zero, the reply ends and keeps its text so far, with "finish_reason": "cancelled", and the
/// call returns RZ_OK. If the reply fills the cache, the call also returns RZ_OK: rz_conversation_info.end_reason is
/// RZ_END_CONTEXT, and the message has "finish_reason": "context". If an rz_cancel is fired or a deadline passes after
/// the first piece, the reply keeps its text so far, and the call returns RZ_ERR_CANCELLED or RZ_ERR_DEADLINE.
/// RZ_REPLY_KEEP changes nothing.
///
/// Any thread. Errors: the errors of rz_conversation_add_text, _reply and _step. Except in the case above, a failed
/// call leaves the messages and an unfinished reply unchanged. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_say(
    conversation: *mut rz_conversation,
    text: *const c_char,
    params: *const rz_reply_params,
    on_text: rz_text_callback,
    user: *mut c_void,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let text = call.c_str(text, "text")?;
        let params: rz_reply_params = call.params(params)?;
        let stops = stop_strings(call, params.stops, params.n_stops)?;
        let params = reply_params(call, &params, &stops)?;
        if params.continues {
            let what = "rz_reply_params.flags has RZ_REPLY_CONTINUE; it must not be set in rz_conversation_say, which \
                        adds a message";
            return Err(Error::invalid(what));
        }
        let mut on_text = |piece: &str| match on_text {
            // SAFETY: the header asks for a function that may be called so during the call.
            Some(on_text) => unsafe { on_text(piece.as_ptr().cast(), piece.len(), user) == 0 },
            None => true,
        };
        conversation.change(|conversation| conversation.say(text, params, &mut on_text))?;
        Ok(RZ_OK)
    })
}
