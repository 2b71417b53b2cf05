//! Prompts of tokens and media.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{Media, Model, Prompt, PromptPart, Runtime};
use crate::error::{Error, Result, try_vec};

use super::arguments::{Call, Plain};
use super::cache::rz_cache;
use super::cancel::{flag, rz_cancel};
use super::chat::{RZ_CHAT_ADD_GENERATION_PROMPT, parse};
use super::guard::{guarded, guarded_or};
use super::handle::{Handle, Held};
use super::media::rz_media;
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Part of a prompt: either tokens or a media item; the other is NULL. The layout of this struct never changes. Since
/// 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_part {
    /// Tokens, which are copied; NULL for a media item.
    pub tokens: *const u32,
    /// Number of `tokens`.
    pub n_tokens: usize,
    /// A media item, which the prompt keeps alive; NULL for tokens. It may occur several times.
    pub media: *const rz_media,
}

// SAFETY: pointers and a number, which have no invalid bit patterns; they are read through `Call`.
unsafe impl Plain for rz_part {}

/// Flag of rz_prompt_new: only the rows of media, without the model's tokens around and between them.
pub const RZ_PROMPT_BARE: u32 = 1;

/// Sequence of tokens and media. Immutable: any number of calls may use it at once.
pub struct rz_prompt(pub(super) Prompt, Arc<Model>);

impl Handle for rz_prompt {
    const NAME: &'static str = "prompt";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.1.runtime())
    }
}

/// Creates a prompt of `n` parts. The caller frees `*out` with rz_prompt_free, before or after the model and its media.
///
/// Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a part with both tokens and a media item, or neither, a token outside
/// the vocabulary; the message has the number of the part), RZ_ERR_NOT_READY (a media item whose rz_media_step is not
/// done), RZ_ERR_MISMATCH (a media item of another model), RZ_ERR_UNSUPPORTED (a media item of the kind
/// RZ_MEDIA_VECTOR), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_VERSION (unknown flags). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prompt_new(
    model: *const rz_model,
    parts: *const rz_part,
    n: usize,
    flags: u32,
    out: *mut *mut rz_prompt,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let parts = call.slice(parts, n, "parts")?;
        call.flags(flags, RZ_PROMPT_BARE, "flags")?;
        let out = call.out(out, "out")?;
        let media = all_media(call, parts.iter().map(|part| part.media))?;
        let mut list = try_vec("a prompt", n)?;
        for (i, (part, media)) in parts.iter().zip(&media).enumerate() {
            list.push(match media {
                Some(_) if !part.tokens.is_null() => {
                    return Err(Error::invalid("tokens and media are both set; set one of them").of_entry(i));
                }
                Some(media) => PromptPart::Media(media.done().map_err(|e| e.of_entry(i))?),
                None => PromptPart::Tokens({
                    call.checked(part.tokens, "tokens").map_err(|e| e.of_entry(i))?;
                    call.slice(part.tokens, part.n_tokens, "tokens").map_err(|e| e.of_entry(i))?
                }),
            });
        }
        let prompt = Prompt::new(&model.0, &list, flags & RZ_PROMPT_BARE != 0)?;
        out.set_handle(rz_prompt(prompt, model.0.clone()));
        Ok(RZ_OK)
    })
}

/// Creates a prompt from a conversation in the JSON of rz_chat_render_into. The content of a message may also have
/// parts of the types "image", "audio" and "video" with a member "media", the number of one of the `n_media` media:
///
/// {"role": "user", "content": [{"type": "image", "media": 0}, {"type": "text", "text": "What is this?"}]}
///
/// "image_url" is read as "image", "input_audio" as "audio" and "video_url" as "video"; other members of such a part
/// are ignored. Each media item must occur in at least one part. The media item replaces the placeholder that the
/// template writes. The call adds the model's tokens around media unless the template writes them itself. For a
/// template without support for parts the content is a text, and the media item takes the place of its part.
/// Placeholders that messages spell are plain text, like all special tokens (rz_chat_tokenize_into). `flags` are the
/// flags of rz_chat_tokenize_into, and the prompt begins with the same tokens. `cancel` stops the call and may be NULL.
/// The caller frees `*out` with rz_prompt_free. Any thread. Errors: as for rz_chat_render_into and rz_prompt_new;
/// RZ_ERR_INVALID_ARGUMENT (a part without a media item or with a media item of another kind, a media item without a
/// part), RZ_ERR_NOT_READY (a media item whose rz_media_step is not done), RZ_ERR_UNSUPPORTED (the template leaves a
/// media item out). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prompt_from_chat(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    flags: u32,
    media: *const *mut rz_media,
    n_media: usize,
    cancel: *const rz_cancel,
    out: *mut *mut rz_prompt,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        call.flags(flags, RZ_CHAT_ADD_GENERATION_PROMPT, "flags")?;
        let handles = call.slice(media, n_media, "media")?;
        let out = call.out(out, "out")?;
        let media = media_of(call, handles)?;
        let cancel = call.optional(cancel)?;
        let chat = parse(json, flags, Some(n_media))?;
        let prompt = Prompt::of_chat(&model.0, &chat, &media, &[flag(&cancel)])?;
        out.set_handle(rz_prompt(prompt, model.0.clone()));
        Ok(RZ_OK)
    })
}

/// Returns the media of several handles, none of which may be NULL.
pub(super) fn media_of(call: &Call, handles: &[*mut rz_media]) -> Result<Vec<Arc<Media>>> {
    let mut media = try_vec("media", handles.len())?;
    for (i, handle) in handles.iter().enumerate() {
        media.push(call.handle(*handle).and_then(|handle| handle.done().cloned()).map_err(|e| e.of_entry(i))?);
    }
    Ok(media)
}

/// Returns the media of several handles; `None` for NULL.
fn all_media(
    call: &Call,
    handles: impl ExactSizeIterator<Item = *const rz_media>,
) -> Result<Vec<Option<Held<rz_media>>>> {
    let mut media = try_vec("media", handles.len())?;
    for (i, handle) in handles.enumerate() {
        media.push(call.optional(handle).map_err(|e| e.of_entry(i))?);
    }
    Ok(media)
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prompt_free(prompt: *mut rz_prompt) {
    guarded_or!((), |call| call.release(prompt))
}

/// Returns the number of tokens of the prompt, where each row of a media item counts as one. 0 for NULL. Any thread.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prompt_len(prompt: *const rz_prompt) -> usize {
    guarded_or!(0, |call| Ok(call.handle(prompt)?.0.tokens().len()))
}

/// Copies the tokens of the prompt, with RZ_TOKEN_MEDIA for each row of a media item.
///
/// `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
/// Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prompt_tokens_into(
    prompt: *const rz_prompt,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let prompt = call.handle(prompt)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        out.fill(prompt.0.tokens())?;
        Ok(RZ_OK)
    })
}

/// Like rz_cache_match, for a prompt. Rows are equal if their media have the same hash. If the rows of an image attend
/// to each other, the result is never between two rows of that image. Any thread. Errors: as for rz_cache_match,
/// RZ_ERR_MISMATCH (a prompt of another model). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_cache_match_prompt(
    cache: *const rz_cache,
    prompt: *const rz_prompt,
    common: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let prompt = call.handle(prompt)?;
        let common = call.out(common, "common")?;
        common.set(count(cache.read(|session| session.matching_prompt(&prompt.0))?));
        Ok(RZ_OK)
    })
}

/// Prefill of a prompt: appends its tokens from number `first` on, at least one. `first` is 0, or the result of
/// rz_cache_match_prompt after the cache was rewound to it.
///
/// The cache keeps media alive as long as it has rows of them. It can be rewound, shifted, released, forked and saved
/// like any other cache; a saved cache includes its media. If the rows of an image attend to each other, they are
/// computed in one step. Therefore rz_cache_truncate to a position between these rows fails with
/// RZ_ERR_INVALID_ARGUMENT, and rz_cache_shift removes such images as a whole or not at all. `cancel` may be NULL. Any
/// thread. Errors: as for rz_prefill, RZ_ERR_MISMATCH (a prompt of another model), RZ_ERR_INVALID_ARGUMENT (`first` is
/// beyond the last token, or between rows that attend to each other). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_prefill_prompt(
    cache: *mut rz_cache,
    prompt: *const rz_prompt,
    first: usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let cache = call.handle(cache)?;
        let prompt = call.handle(prompt)?;
        let cancel = call.optional(cancel)?;
        let cancel = flag(&cancel);
        cache.change(|session| session.prefill_prompt(&prompt.0, first, cancel))?;
        Ok(RZ_OK)
    })
}
