//! Multimodal input: images, audio, video and source texts as rows of embeddings.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::engine::{
    MEDIA_ROW, Media, MediaKind, MediaLayout, MediaWork, Model, Runtime, media_from_rows, media_from_tokens,
    saved::media as saved_media,
};
use crate::error::{Error, Result};

use super::cancel::{flag, rz_cancel};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::Lock;
use super::media_work::MediaSteps;
use super::model::rz_model;
use super::saved::{reader, rz_read_callback, rz_write_callback, writer};
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::{count, ns};

/// Kind of media: an image.
pub const RZ_MEDIA_IMAGE: u32 = 1;
/// Kind of media: audio.
pub const RZ_MEDIA_AUDIO: u32 = 2;
/// Kind of media: the source text of an encoder-decoder model.
pub const RZ_MEDIA_TEXT: u32 = 4;
/// Kind of media: an image embedding from a CLIP or SigLIP encoder. It has one row of length 1, with as many floats as
/// an embedding of rz_embed_into by the same model; the dot product of the two embeddings is the similarity of image
/// and text. Prompts reject it (RZ_ERR_UNSUPPORTED), and rz_media_from_rows does not create it. Since 0.1.0.
pub const RZ_MEDIA_VECTOR: u32 = 8;

/// Kind of media: frames of a video (rz_media_from_frames). rz_media_from_rows does not create it. Since 0.1.0.
pub const RZ_MEDIA_VIDEO: u32 = 16;

/// Stands for a row of an image, audio, video or source text in lists of token ids that the library returns; no call
/// accepts it as a token.
pub const RZ_TOKEN_MEDIA: u32 = u32::MAX - 1;
const _: () = assert!(RZ_TOKEN_MEDIA == MEDIA_ROW);

/// Encoded image, audio, video or source text: rows of embeddings that take the place of tokens. Created once, used in
/// any number of prompts, caches and jobs. Immutable once rz_media_step is done: any number of calls may use it at
/// once.
pub struct rz_media {
    /// Empty until the work is done.
    pub(super) media: OnceLock<Arc<Media>>,
    pub(super) work: Lock<Option<MediaSteps>>,
    /// Description known before the rows; `None` once the work has failed.
    so_far: Mutex<Option<rz_media_info>>,
    model: Arc<Model>,
}

impl Handle for rz_media {
    const NAME: &'static str = "media";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.model.runtime())
    }
}

impl rz_media {
    pub(super) fn new(media: Arc<Media>, model: &Arc<Model>) -> rz_media {
        let so_far = Mutex::new(None);
        rz_media { media: OnceLock::from(media), work: Lock::new(None), so_far, model: model.clone() }
    }

    /// Returns a media item whose encoding rz_media_step continues.
    pub(super) fn unfinished(steps: MediaSteps) -> rz_media {
        let model = steps.work.encoder().model().clone();
        let so_far = Mutex::new(Some(so_far(&steps.work)));
        rz_media { media: OnceLock::new(), work: Lock::new(Some(steps)), so_far, model }
    }

    /// Returns the description known before the rows, as of the last step.
    pub(super) fn info_so_far(&self) -> Result<rz_media_info> {
        self.work.sound(Self::NAME)?;
        let so_far = *self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.ok_or_else(|| Error::invalid("the encoding of the media item failed; create it again"))
    }

    /// Publishes the description after a step; `None` after a failed step.
    pub(super) fn publish(&self, work: Option<&MediaWork>) {
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = work.map(so_far);
    }

    pub(super) fn done(&self) -> Result<&Arc<Media>> {
        self.media.get().ok_or_else(|| {
            Error::not_ready("the media item is not done; it must be stepped to its end by rz_media_step")
        })
    }
}

/// Returns the description of a media item known before its rows.
fn so_far(work: &MediaWork) -> rz_media_info {
    rz_media_info {
        encode_ns: ns(work.busy()),
        hash: work.hash().copied().unwrap_or_default(),
        ..rz_media_info::of(work.kind(), work.layout(), work.encoder().facts().row_dim)
    }
}

/// Description of a media item. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_media_info {
    /// sizeof(rz_media_info), set by the caller.
    pub struct_size: u32,
    /// RZ_MEDIA_...
    pub kind: u32,
    /// Number of rows, each of which takes the place of a token in a cache.
    pub n_rows: u32,
    /// Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the rows.
    pub n_tokens: u32,
    /// Number of floats per row.
    pub row_dim: u32,
    /// Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames.
    pub columns: u32,
    /// Number of lines of a tile.
    pub lines: u32,
    /// Number of tiles horizontally; 0 if the image is one tile.
    pub tile_columns: u32,
    /// Number of tiles vertically; 0 if the image is one tile.
    pub tile_lines: u32,
    /// 1 if an additional tile shows the whole image.
    pub has_overview: u32,
    /// Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item that
    /// was created from rows.
    pub width: u32,
    /// Height in pixels; 0 for audio and for a media item that was created from rows.
    pub height: u32,
    /// Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in the
    /// model's output to pixels of the image. For audio the number of samples at the rate of the encoder.
    pub seen_width: u32,
    /// Height in pixels of all tiles together; 0 for audio.
    pub seen_height: u32,
    /// Bytes of memory.
    pub bytes: u64,
    /// Time of the encoding in nanoseconds.
    pub encode_ns: u64,
    /// Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a cache
    /// key.
    pub hash: [u8; 32],
    /// Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media.
    pub pairs: u32,
    /// 0.
    pub reserved: u32,
}

pub(super) fn kind_of(kind: MediaKind) -> u32 {
    match kind {
        MediaKind::Image => RZ_MEDIA_IMAGE,
        MediaKind::Audio => RZ_MEDIA_AUDIO,
        MediaKind::Text => RZ_MEDIA_TEXT,
        MediaKind::Vector => RZ_MEDIA_VECTOR,
        MediaKind::Video => RZ_MEDIA_VIDEO,
    }
}

impl rz_media_info {
    /// Returns the description of a media item with a layout.
    pub(super) fn of(kind: MediaKind, layout: &MediaLayout, row_dim: usize) -> rz_media_info {
        let ([width, height], [seen_width, seen_height]) = (layout.size.map(count), layout.seen.map(count));
        rz_media_info {
            struct_size: 0,
            kind: kind_of(kind),
            n_rows: count(layout.n_rows()),
            n_tokens: count(layout.n_tokens()),
            row_dim: count(row_dim),
            columns: count(layout.columns),
            lines: count(layout.lines),
            tile_columns: count(layout.tile_columns),
            tile_lines: count(layout.tile_lines),
            has_overview: u32::from(layout.has_overview),
            width,
            height,
            seen_width,
            seen_height,
            bytes: 4 * layout.n_rows().saturating_mul(row_dim) as u64,
            encode_ns: 0,
            hash: [0; 32],
            pairs: count(layout.pairs),
            reserved: 0,
        }
    }
}

/// Creates a media item from the output of the caller's own encoder: `n_rows` rows of `row_dim` floats, which are
/// copied. The rows are one image or one audio clip, according to `kind` (RZ_MEDIA_...).
///
/// `columns` times `lines` is `n_rows`, for models with two-dimensional positions; 0 for both: one line. `row_dim` is
/// rz_model_info.hidden_dim, or a multiple of it for a model that also adds rows to deeper layers (DeepStack): one more
/// hidden_dim for each of these layers. The caller frees `*out` with rz_media_free, before or after the model. Any
/// thread. Errors: RZ_ERR_INVALID_ARGUMENT (no rows, rows of another width, a value that is not finite, an unknown
/// kind), RZ_ERR_UNSUPPORTED (a model without media input), RZ_ERR_LIMIT (also if the rows attend to each other
/// (bidirectional attention) and one step cannot take all of them), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_rows(
    model: *const rz_model,
    kind: u32,
    rows: *const f32,
    n_rows: usize,
    row_dim: u32,
    columns: u32,
    lines: u32,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let kind = match kind {
            RZ_MEDIA_IMAGE => MediaKind::Image,
            RZ_MEDIA_AUDIO => MediaKind::Audio,
            other => return Err(Error::invalid(format!("kind is {other}, not one of RZ_MEDIA_IMAGE, _AUDIO"))),
        };
        let numbers =
            n_rows.checked_mul(row_dim as usize).ok_or_else(|| Error::invalid("rows are larger than memory"))?;
        let rows = call.slice(rows, numbers, "rows")?;
        let out = call.out(out, "out")?;
        let media = media_from_rows(&model.0, kind, rows, row_dim as usize, [columns, lines].map(|n| n as usize))?;
        out.set_handle(rz_media::new(media, &model.0));
        Ok(RZ_OK)
    })
}

/// Creates a media item from a source text: `n` tokens for an encoder-decoder model (T5, Flan-T5, mT5;
/// rz_model_info.reads_source), which generates another text from it, such as a translation.
///
/// The encoder processes all tokens in one step, unchanged: let rz_tokenize_into add the end token
/// (RZ_TOKENIZE_ADD_SPECIAL). The media item consists of the encoder's output rows and the start token of the decoder,
/// so a job or rz_prefill_prompt needs only a prompt with this one part (rz_prompt_new). A cache of such a model begins
/// with one source text, whose rows count as tokens of the cache's capacity. The cache keeps this source until it is
/// rewound to 0; prompts of another form fail with RZ_ERR_INVALID_ARGUMENT. The caller frees `*out` with rz_media_free,
/// before or after the model. `cancel` may be NULL. Any thread. Errors: RZ_ERR_UNSUPPORTED (not an encoder-decoder
/// model), RZ_ERR_INVALID_ARGUMENT (no tokens, more than the model's context_length, a token outside the vocabulary),
/// RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_tokens(
    model: *const rz_model,
    tokens: *const u32,
    n: usize,
    cancel: *const rz_cancel,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let cancel = call.optional(cancel)?;
        let out = call.out(out, "out")?;
        let media = media_from_tokens(&model.0, tokens, flag(&cancel))?;
        out.set_handle(rz_media::new(media, &model.0));
        Ok(RZ_OK)
    })
}

/// Describes a media item. The caller sets `out->struct_size`. Before rz_media_step is done, encode_ns covers the steps
/// so far, and the hash is zero until pixels or samples are prepared for the encoder. Any thread, also during a step.
/// Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_info_get(
    media: *const rz_media,
    out: *mut rz_media_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let handle = call.handle(media)?;
        let out = call.out_struct(out)?;
        let Some(media) = handle.media.get() else {
            out.set(handle.info_so_far()?);
            return Ok(RZ_OK);
        };
        out.set(rz_media_info {
            encode_ns: ns(media.encoding()),
            hash: *media.hash(),
            ..rz_media_info::of(media.kind(), media.layout(), media.row_dim())
        });
        Ok(RZ_OK)
    })
}

/// Copies the rows of a media item, `[n_rows][row_dim]`.
///
/// `*n` receives the number of floats. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any
/// thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_NOT_READY (before rz_media_step is done). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_rows_into(
    media: *const rz_media,
    out: *mut f32,
    capacity: usize,
    n: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let media = call.handle(media)?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        out.fill(media.done()?.rows())?;
        Ok(RZ_OK)
    })
}

/// Saves a media item through `write`, like rz_cache_save; `cancel` may be NULL. Any thread. Errors: RZ_ERR_IO (`write`
/// returned an errno), RZ_ERR_INVALID_ARGUMENT, RZ_ERR_NOT_READY (before rz_media_step is done), RZ_ERR_CANCELLED,
/// RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_save(
    media: *const rz_media,
    write: rz_write_callback,
    user: *mut c_void,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let media = call.handle(media)?;
        let cancel = call.optional(cancel)?;
        let mut write = writer(write, user, flag(&cancel))?;
        saved_media::save(&media.model, media.done()?, &mut write)?;
        Ok(RZ_OK)
    })
}

/// Creates a media item from the state that rz_media_save has written, like rz_cache_load; no encoder is needed.
/// `cancel` may be NULL. The caller frees `*out` with rz_media_free. Any thread. Errors: RZ_ERR_IO (`read` returned an
/// errno), RZ_ERR_FORMAT (not a saved media item, or a damaged one), RZ_ERR_VERSION, RZ_ERR_MISMATCH (saved for another
/// model), RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_load(
    model: *const rz_model,
    read: rz_read_callback,
    user: *mut c_void,
    cancel: *const rz_cancel,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let cancel = call.optional(cancel)?;
        let mut read = reader(read, user, flag(&cancel))?;
        out.set_handle(rz_media::new(saved_media::load(&model.0, &mut read)?, &model.0));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Prompts and caches that use the media item keep it. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_free(media: *mut rz_media) {
    guarded_or!((), |call| call.release(media))
}
