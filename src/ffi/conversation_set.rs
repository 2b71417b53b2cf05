//! Changes to a conversation between replies: prefill in advance, parameters, memory.

use crate::engine::ReplyParams;

use super::adapter::{adapters_of, rz_adapter};
use super::cancel::rz_cancel;
use super::conversation::{overflow, reply_params, rz_conversation, rz_reply_params};
use super::guard::guarded;
use super::status::{RZ_OK, rz_error, rz_status};
use super::store::rz_store;

/// Begins a prefill of the messages without generating a reply, which shortens the time to first token (TTFT) of the
/// next reply, for example after a long document or the description of a game world was added. rz_conversation_step and
/// rz_conversations_step do the work; rz_conversation_info.state has the same values as during a reply. RZ_DONE: all
/// messages are in the cache, and rz_conversation_info.end_reason is RZ_END_LENGTH. No message is added.
///
/// `params` are the parameters of the reply that will follow; NULL: the defaults. Only `json`, `reasoning`, `priority`
/// and `cancel` have an effect. An unfinished reply is abandoned, as by rz_conversation_reply. Any thread. Errors: as
/// for rz_conversation_reply. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_read(
    conversation: *mut rz_conversation,
    params: *const rz_reply_params,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let params: rz_reply_params = call.params(params)?;
        let ReplyParams { members, reasoning, priority, cancel, .. } = reply_params(call, &params, &[])?;
        let reading = ReplyParams { members, reasoning, priority, cancel, only_reads: true, ..ReplyParams::default() };
        conversation.change(|conversation| conversation.reply(reading))?;
        Ok(RZ_OK)
    })
}

/// Frees the memory of the cache, which then does not count against rz_runtime_params.memory_limit, for example when an
/// app goes to the background. The messages stay; the next reply computes the tokens of the messages again, or finds
/// them in the store. Any thread. Errors: RZ_ERR_BUSY (also while a reply is unfinished), RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_release(conversation: *mut rz_conversation, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(conversation)?.change(|conversation| conversation.release())?;
        Ok(RZ_OK)
    })
}

/// Sets the capacity of the cache to `capacity` tokens; 0: the default of rz_cache_params. Clears the cache; the next
/// reply computes the messages again, including turns that RZ_OVERFLOW_FORGET has left out, as far as they fit. Any
/// thread. Errors, which change nothing: RZ_ERR_BUSY (also while a reply is unfinished), RZ_ERR_POISONED, RZ_ERR_LIMIT,
/// RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_capacity_set(
    conversation: *mut rz_conversation,
    capacity: u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        call.handle(conversation)?.change(|conversation| conversation.set_capacity(capacity))?;
        Ok(RZ_OK)
    })
}

/// Sets what later replies do if the messages do not fit in the cache; `mode`: RZ_OVERFLOW_... With RZ_OVERFLOW_FAIL,
/// messages that were left out are in prompts again. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_BUSY,
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_overflow_set(
    conversation: *mut rz_conversation,
    mode: u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let mode = overflow(mode)?;
        conversation.change(|conversation| {
            conversation.set_overflow(mode);
            Ok(())
        })?;
        Ok(RZ_OK)
    })
}

/// Replaces the cancellation flag of the conversation, which all calls that compute check. The conversation keeps the
/// flag alive; `cancel` may be NULL, for none. Earlier forks keep their own flag. Any thread. Errors: RZ_ERR_BUSY (also
/// while a reply is unfinished), RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_cancel_set(
    conversation: *mut rz_conversation,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let cancel = call.optional(cancel)?.map(|cancel| cancel.0.clone());
        conversation.change(|conversation| conversation.set_cancel(cancel))?;
        Ok(RZ_OK)
    })
}

/// Sets the LoRA adapters of later replies, as rz_cache_adapters_set does, and clears the cache. `adapters` may be
/// NULL, for none; `scales` may be NULL, for scales of 1. The conversation keeps the adapters alive. Any thread.
/// Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_MISMATCH (adapters of another model), RZ_ERR_BUSY
/// (also while a reply is unfinished), RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_adapters_set(
    conversation: *mut rz_conversation,
    adapters: *const *mut rz_adapter,
    scales: *const f32,
    n_adapters: usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let (adapters, scales) = adapters_of(call, adapters, scales, n_adapters)?;
        conversation.change(|conversation| conversation.set_adapters(&adapters, &scales))?;
        Ok(RZ_OK)
    })
}

/// Replaces the store (prefix cache) that later replies read and write. The conversation keeps the store alive; `store`
/// may be NULL, for none. Any thread. Errors: RZ_ERR_MISMATCH (a store of another model), RZ_ERR_BUSY, RZ_ERR_POISONED.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_conversation_store_set(
    conversation: *mut rz_conversation,
    store: *const rz_store,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let conversation = call.handle(conversation)?;
        let store = call.optional(store)?.map(|store| store.0.clone());
        conversation.change(|conversation| conversation.set_store(store))?;
        Ok(RZ_OK)
    })
}
