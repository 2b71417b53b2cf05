//! Pictures in the messages of conversations.

use std::ffi::c_char;

use crate::error::Error;

use super::conversation::{read_json, rz_conversation};
use super::guard::guarded;
use super::media::rz_media;
use super::prompt::media_of;
use super::status::{RZ_OK, rz_error, rz_status};

/// rz_conversation_add for messages with pictures: parts of their contents are as rz_prompt_from_chat takes them, each
/// with the number of one of the `n_media` media, and each of these is in at least one part.
///
/// The conversation keeps the media alive, each once, told apart by their hashes, and forgets those of messages that
/// rz_conversation_rewind forgets. In its JSON a part has the number of its medium in the conversation
/// (rz_conversation_media_get). Rows that its cache holds are not computed again. Any thread. Errors, which change
/// nothing: those of rz_conversation_add and rz_prompt_from_chat but for the template's, which rz_conversation_reply
/// has: RZ_ERR_UNSUPPORTED for a picture that the template leaves out, as in a role that has none. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_add_media(
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
        conversation.change(|conversation| read_json(json, |json| conversation.add(json, Some(&media))))?;
        Ok(RZ_OK)
    })
}

/// Hands out medium `number` of a conversation, which has rz_conversation_info.n_media, as a handle of its own, which
/// is freed with rz_media_free. Any thread. Errors: RZ_ERR_NOT_FOUND (there is none), RZ_ERR_POISONED.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_media_get(
    conversation: *const rz_conversation,
    number: u32,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let out = call.out(out, "out")?;
        let past = conversation.view()?.past();
        let n = past.media.len();
        let none = || Error::not_found(format!("number is {number}; it must be below the number of media, {n}"));
        let medium = past.media.get(number as usize).cloned().ok_or_else(none)?;
        out.set_handle(rz_media::new(medium, &conversation.model));
        Ok(RZ_OK)
    })
}
