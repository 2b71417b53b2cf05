//! Media in the messages of conversations.

use crate::error::Error;

use super::conversation::rz_conversation;
use super::guard::guarded;
use super::media::rz_media;
use super::status::{RZ_OK, rz_error, rz_status};

/// Returns a new handle of media item `number` (0 to rz_conversation_info.n_media - 1) of a conversation; the caller
/// frees it with rz_media_free. Any thread. Errors: RZ_ERR_NOT_FOUND (no such media item), RZ_ERR_POISONED. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_media(
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
        let item = past.media.get(number as usize).cloned().ok_or_else(none)?;
        out.set_handle(rz_media::new(item, &conversation.model));
        Ok(RZ_OK)
    })
}
