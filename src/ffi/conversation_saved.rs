//! Saving and loading conversations.

use std::ffi::c_void;

use crate::engine::saved::conversation as saved;
use crate::error::Error;

use super::cancel::{flag, rz_cancel};
use super::conversation::{RZ_OVERFLOW_FAIL, overflow, rz_conversation, rz_conversation_params};
use super::guard::guarded;
use super::model::rz_model;
use super::saved::{reader, restore_params, rz_read_callback, rz_write_callback, writer};
use super::status::{RZ_OK, rz_error, rz_status};

/// Saves the conversation through `write`: its messages and its cache, as rz_cache_save does; `cancel` may be NULL. Any
/// thread. Errors: as for rz_cache_save, and RZ_ERR_BUSY while a reply is unfinished. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_save(
    conversation: *const rz_conversation,
    write: rz_write_callback,
    user: *mut c_void,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let cancel = call.optional(cancel)?;
        let mut write = writer(write, user, flag(&cancel))?;
        conversation.read(|conversation| saved::save(conversation, &mut write))?;
        Ok(RZ_OK)
    })
}

/// Creates a conversation from the state that rz_conversation_save has written, as rz_cache_load does; the new
/// conversation continues bit-identically to the saved conversation. `params` may be NULL. Of its fields, `cache`,
/// `cancel` (which also cancels this call), `store` and `overflow` have an effect; 0 in `overflow` or in a field of
/// `cache` means the saved value. `json` and `adapters` must be absent.
///
/// The caller frees `*out` with rz_conversation_free. Any thread. Errors: as for rz_cache_load, RZ_ERR_INVALID_ARGUMENT
/// for other parameters. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_load(
    model: *const rz_model,
    params: *const rz_conversation_params,
    read: rz_read_callback,
    user: *mut c_void,
    out: *mut *mut rz_conversation,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let params: rz_conversation_params = call.params(params)?;
        if !params.json.is_null() || params.n_adapters > 0 {
            let what = "rz_conversation_params of a saved conversation has json or adapters; they must be absent";
            return Err(Error::invalid(what));
        }
        let overflow = overflow(params.overflow)?;
        let cancel = call.optional(params.cancel)?;
        let cache = restore_params(&call.params(params.cache)?)?;
        let mut read = reader(read, user, flag(&cancel))?;
        let mut conversation = saved::load(&model.0, &cache, &mut read)?;
        if params.overflow != RZ_OVERFLOW_FAIL {
            conversation.set_overflow(overflow);
        }
        conversation.set_cancel(cancel.as_deref().map(|cancel| cancel.0.clone()))?;
        conversation.set_store(call.optional(params.store)?.map(|store| store.0.clone()))?;
        out.set_handle(rz_conversation::new(conversation));
        Ok(RZ_OK)
    })
}
