//! Vision and audio encoders, and images.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::engine::{
    Cancel, Encoder, EncoderChoice, EncoderParams, MediaWork, Picture, PictureBounds, PixelFormat, Pixels, Runtime,
    SAMPLE_RATE, Sizing, WHITE, encoder_extent, measure_picture,
};
use crate::error::{Error, Result};

use super::arguments::{Call, User};
use super::cancel::{flag, rz_cancel};
use super::element::target_type;
use super::field::write_text;
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::media::{RZ_MEDIA_VIDEO, kind_of, rz_media, rz_media_info};
use super::media_work::{MediaSteps, progress_function};
use super::model::{rz_model, rz_progress_callback};
use super::source::{Files, byte_sources, files, rz_source};
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Vision or audio encoder of a multimodal model, with the projector (mmproj) that maps its output to the width of the
/// model's embeddings. Immutable: any number of calls may use it at once.
pub struct rz_encoder {
    pub(super) encoder: Arc<Encoder>,
    /// Maximum number of rows of an image or an audio clip.
    pub(super) max_rows: usize,
}

impl Handle for rz_encoder {
    const NAME: &'static str = "encoder";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.encoder.model().runtime())
    }
}

/// Encoder flag: the vision encoder of a file that has an audio encoder too.
pub const RZ_ENCODER_IMAGE: u32 = 1;
/// Encoder flag: the audio encoder of a file that has a vision encoder too.
pub const RZ_ENCODER_AUDIO: u32 = 2;

/// Returns the encoder that the flags select.
fn encoder_choice(flags: u32) -> EncoderChoice {
    match flags & (RZ_ENCODER_IMAGE | RZ_ENCODER_AUDIO) {
        RZ_ENCODER_IMAGE => EncoderChoice::Pictures,
        RZ_ENCODER_AUDIO => EncoderChoice::Sound,
        _ => EncoderChoice::Any,
    }
}

/// Parameters of an encoder. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_encoder_params {
    /// sizeof(rz_encoder_params).
    pub struct_size: u32,
    /// RZ_ENCODER_... and RZ_MODEL_ALLOW_UNKNOWN, combined with |. Without RZ_ENCODER_... the vision encoder is loaded,
    /// or the audio encoder if there is no vision encoder.
    pub flags: u32,
    /// Index of a device: the CPU or a GPU, which need not be a device of the model; 0: automatic choice, which
    /// rz_encoder_info.device reports. The automatic choice is the model's first GPU if the encoder, an image or audio
    /// clip of `max_rows` rows, and a cache of default capacity and a step of the model fit into its free memory;
    /// otherwise, and if the GPU fails in any way, the CPU. On a GPU that is named here, a lack of memory fails the
    /// load, or later the call that encodes, with RZ_ERR_DEVICE_OUT_OF_MEMORY. An encoder without GPU kernels stays on
    /// the CPU in either case, and the log has the reason.
    pub device: u32,
    /// Element type to which float matrices are quantized, as rz_model_params.quantize; RZ_TYPE_DEFAULT: the matrices
    /// keep the types of the file.
    pub quantize: u32,
    /// Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096.
    pub max_rows: u32,
    /// 0.
    pub reserved: u32,
    /// Load progress callback, in bytes; may be NULL.
    pub progress: rz_progress_callback,
    /// Passed to `progress`.
    pub progress_user: *mut c_void,
    /// Cancels the load when fired; may be NULL.
    pub cancel: *const rz_cancel,
}

/// Description of an encoder. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_encoder_info {
    /// sizeof(rz_encoder_info), set by the caller.
    pub struct_size: u32,
    /// 1: the rows of an image attend to each other (bidirectional attention), so one step of the model must compute
    /// all of them.
    pub is_mutual: u32,
    /// Kind of the projector, such as "qwen3vl_merger" or "voxtral".
    pub projector: [c_char; 32],
    /// Number of floats per row: the model's hidden_dim, plus hidden_dim for each deeper layer to which rows are added
    /// (DeepStack); for RZ_MEDIA_VECTOR the dimension of an embedding from rz_embed_into.
    pub row_dim: u32,
    /// Layers of the encoder.
    pub n_layers: u32,
    /// Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder.
    pub tile_side: u32,
    /// The sides of tiles are multiples of this number of pixels; 0 for audio.
    pub grain: u32,
    /// Minimum number of rows of an image or an audio clip.
    pub min_rows: u32,
    /// Maximum number of rows of an image or an audio clip.
    pub max_rows: u32,
    /// Bytes of weights in memory, on the CPU or the GPU.
    pub weight_bytes: u64,
    /// Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip.
    pub scratch_bytes: u64,
    /// Kinds of media that the encoder encodes: RZ_MEDIA_... bits, combined with |.
    pub kinds: u32,
    /// Sample rate in Hz to which audio is resampled; 0 for images.
    pub sample_rate: u32,
    /// Index of the device that the encoder was loaded to.
    pub device: u32,
    /// 0.
    pub reserved: u32,
}

/// Loads the vision or audio encoder of `model`.
///
/// `path`, NUL-terminated, names the .gguf file with the projector ("mmproj-..."), or a folder with a config.json: the
/// model's own folder if it contains both. Weights in host memory count against rz_runtime_params.memory_limit; the
/// encoder uses the model's thread pool, and a GPU context of its own. `params` may be NULL. The caller frees `*out`
/// with rz_encoder_free, before or after the model. Any thread; blocks while the files are read. Errors: RZ_ERR_IO,
/// RZ_ERR_FORMAT (damaged, or inconsistent sizes), RZ_ERR_UNSUPPORTED (no encoder, a projector that is not implemented,
/// which the message names), RZ_ERR_MISMATCH (the encoder's row width does not fit the model, or the model's vocabulary
/// lacks the tokens around images or audio), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_UNAVAILABLE,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_INVALID_ARGUMENT (a model without weights, a device that does
/// not exist), RZ_ERR_VERSION. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_encoder_load(
    model: *const rz_model,
    path: *const c_char,
    params: *const rz_encoder_params,
    out: *mut *mut rz_encoder,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let path = call.path(path, "path")?;
        let out = call.out(out, "out")?;
        let (encoder, max_rows) = with_params(call, params, |params| Encoder::load(&model.0, path, params))?;
        out.set_handle(rz_encoder { encoder, max_rows });
        Ok(RZ_OK)
    })
}

/// Like rz_encoder_load, but reads `n` sources, as rz_model_load_from does. The caller frees `*out` with
/// rz_encoder_free. Any thread. Errors: as for rz_encoder_load and rz_model_load_from. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_encoder_load_from(
    model: *const rz_model,
    sources: *const rz_source,
    n: usize,
    params: *const rz_encoder_params,
    out: *mut *mut rz_encoder,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        let sources = byte_sources(call, sources, n)?;
        let (encoder, max_rows) = with_params(call, params, |params| Encoder::load_from(&model.0, &sources, params))?;
        out.set_handle(rz_encoder { encoder, max_rows });
        Ok(RZ_OK)
    })
}

/// Reads the parameters of a load and passes them to a function. Returns the function's result, and the maximum number
/// of rows of an image.
fn with_params<T>(
    call: &Call,
    params: *const rz_encoder_params,
    load: impl FnOnce(EncoderParams) -> Result<T>,
) -> Result<(T, usize)> {
    let params: rz_encoder_params = call.params(params)?;
    let known = super::model::RZ_MODEL_ALLOW_UNKNOWN | RZ_ENCODER_IMAGE | RZ_ENCODER_AUDIO;
    call.flags(params.flags, known, "rz_encoder_params.flags")?;
    let cancel = call.optional(params.cancel)?;
    let mut progress = progress_function(params.progress, params.progress_user);
    let loaded = load(EncoderParams {
        quantize: target_type(params.quantize, "rz_encoder_params.quantize")?,
        choice: encoder_choice(params.flags),
        device: params.device,
        max_rows: params.max_rows as usize,
        allow_unknown: params.flags & super::model::RZ_MODEL_ALLOW_UNKNOWN != 0,
        cancel: flag(&cancel),
        progress: progress.as_mut().map(|progress| progress as &mut dyn FnMut(u64, u64) -> bool),
        ..EncoderParams::default()
    })?;
    Ok((loaded, params.max_rows as usize))
}

/// Frees the handle; NULL is fine. Media that it encoded stay usable. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_encoder_free(encoder: *mut rz_encoder) {
    guarded_or!((), |call| call.release(encoder))
}

/// Describes an encoder. The caller sets `out->struct_size`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_encoder_info_get(
    encoder: *const rz_encoder,
    out: *mut rz_encoder_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let handle = call.handle(encoder)?;
        let out = call.out_struct(out)?;
        let (encoder, facts) = (&handle.encoder, handle.encoder.facts());
        let extent = encoder_extent(facts, handle.max_rows)?;
        let [min_rows, max_rows] = extent.rows;
        let is_audio = facts.sound.is_some();
        let tile_side = match facts.sizing {
            _ if is_audio => 0,
            Sizing::Square { side, .. } | Sizing::ShortestEdge { side, .. } => side,
            Sizing::SplitLongest { tile, .. }
            | Sizing::SplitRatio { tile, .. }
            | Sizing::Pinpoints { tile, .. }
            | Sizing::Canvas { tile, .. } => tile,
            _ => 0,
        };
        let mut projector = [0; 32];
        write_text(&mut projector, format_args!("{}", facts.projector));
        out.set(rz_encoder_info {
            struct_size: 0,
            is_mutual: u32::from(encoder.model().is_mutual()),
            projector,
            row_dim: count(facts.row_dim),
            n_layers: count(facts.n_layers),
            tile_side: count(tile_side),
            grain: if is_audio { 0 } else { count(facts.patch * facts.merge) },
            min_rows: count(min_rows),
            max_rows: count(max_rows),
            weight_bytes: encoder.weight_bytes(),
            scratch_bytes: encoder.scratch_bytes(extent.tile)?,
            kinds: kind_of(encoder.kind()) | if facts.video.is_some() { RZ_MEDIA_VIDEO } else { 0 },
            sample_rate: if is_audio { count(SAMPLE_RATE) } else { 0 },
            device: encoder.device(),
            reserved: 0,
        });
        Ok(RZ_OK)
    })
}

/// Memory that an encoder takes in addition to its model, in bytes. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_encoder_plan {
    /// sizeof(rz_encoder_plan), set by the caller.
    pub struct_size: u32,
    /// Number of rows of the largest image, or of the longest audio clip.
    pub max_rows: u32,
    /// Weights in host memory, as they are packed.
    pub weights_host: u64,
    /// Maximum scratch memory of a call that encodes an image or an audio clip.
    pub scratch_host: u64,
    /// One row of a media item.
    pub row: u64,
    /// Weights on a GPU.
    pub weights_device: u64,
    /// Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the scratch
    /// memory of one call for the next one; calls at the same time take this much each.
    pub scratch_device: u64,
    /// Index of the device that the load would choose.
    pub device: u32,
    /// 0.
    pub reserved: u32,
}

/// Computes the memory that rz_encoder_load of the NUL-terminated `path`, or rz_encoder_load_from of `n` sources (with
/// `path` NULL), would take, without reading weights. `path` and `params` may be NULL. The caller sets
/// `out->struct_size`. The call succeeds even if the plan exceeds rz_runtime_params.memory_limit. Any thread. Errors:
/// as for rz_encoder_load except RZ_ERR_LIMIT, and RZ_ERR_INVALID_ARGUMENT for both a path and sources. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_encoder_plan_get(
    model: *const rz_model,
    path: *const c_char,
    sources: *const rz_source,
    n: usize,
    params: *const rz_encoder_params,
    out: *mut rz_encoder_plan,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out_struct(out)?;
        let files = files(call, path, sources, n)?;
        let (encoder, max_rows) = with_params(call, params, |params| {
            let params = EncoderParams { plan: true, ..params };
            match &files {
                Files::Path(path) => Encoder::load(&model.0, path, params),
                Files::Sources(sources) => Encoder::load_from(&model.0, sources, params),
            }
        })?;
        let extent = encoder_extent(encoder.facts(), max_rows)?;
        let [weights, scratch] = encoder.planned(extent.tile)?;
        out.set(rz_encoder_plan {
            struct_size: 0,
            max_rows: count(extent.rows[1]),
            weights_host: weights.host,
            scratch_host: scratch.host,
            row: 4 * encoder.facts().row_dim as u64,
            weights_device: weights.device,
            scratch_device: scratch.device,
            device: encoder.device(),
            reserved: 0,
        });
        Ok(RZ_OK)
    })
}

/// Format of pixels: three bytes, red first.
pub const RZ_PIXELS_RGB8: u32 = 1;
/// Format of pixels: four bytes, red first, then alpha: transparent pixels show rz_media_params.background.
pub const RZ_PIXELS_RGBA8: u32 = 2;
/// Format of pixels: four bytes, blue first, then alpha.
pub const RZ_PIXELS_BGRA8: u32 = 3;
/// Format of pixels: one byte.
pub const RZ_PIXELS_GRAY8: u32 = 4;

/// Image in memory, top row first. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_pixels {
    /// sizeof(rz_pixels).
    pub struct_size: u32,
    /// RZ_PIXELS_...
    pub format: u32,
    /// Width in pixels, 1 to 65535.
    pub width: u32,
    /// Height in pixels, 1 to 65535.
    pub height: u32,
    /// Bytes from one row to the next; 0: rows are contiguous.
    pub stride: usize,
    /// First byte. Read during the call only.
    pub data: *const c_void,
}

/// Flag of a media item: only prepare it; rz_media_step encodes it in time slices.
pub const RZ_ENCODE_STEPS: u32 = 1;

/// Parameters for encoding media. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_media_params {
    /// sizeof(rz_media_params).
    pub struct_size: u32,
    /// Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the model's.
    pub min_rows: u32,
    /// Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's.
    pub max_rows: u32,
    /// Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image.
    pub max_tiles: u32,
    /// Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million.
    pub max_pixels: u32,
    /// RZ_ENCODE_STEPS, or 0.
    pub flags: u32,
    /// Progress callback: finished tiles and their total, several times per second; may be NULL. With RZ_ENCODE_STEPS
    /// rz_media_step calls it.
    pub progress: rz_progress_callback,
    /// Passed to `progress`.
    pub progress_user: *mut c_void,
    /// Cancels the call when fired; may be NULL. With RZ_ENCODE_STEPS it cancels the steps of the media item, which
    /// keeps it alive.
    pub cancel: *const rz_cancel,
    /// Background color of transparent pixels, 0xffRRGGBB; 0: white.
    pub background: u32,
    /// 0.
    pub reserved: u32,
}

impl rz_media_params {
    /// Returns the background color of transparent pixels.
    pub(super) fn background(&self) -> Result<[u8; 3]> {
        let [alpha, color @ ..] = self.background.to_be_bytes();
        match alpha {
            255 => Ok(color),
            _ if self.background == 0 => Ok(WHITE),
            _ => {
                let what = format!("rz_media_params.background is {:#x}; it must be 0 or 0xffRRGGBB", self.background);
                Err(Error::invalid(what))
            }
        }
    }
}

/// Default maximum number of pixels of an image file.
const MAX_PIXELS: u64 = 64 << 20;

/// Runs work that fails with `Cancelled` once the call's `rz_cancel` has fired.
pub(super) fn stopping<T>(
    call: &Call,
    params: &rz_media_params,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T>,
) -> Result<T> {
    let cancel = call.optional(params.cancel)?;
    let cancels = &[flag(&cancel)];
    match work(&|| Cancel::check(cancels).is_err()) {
        Err(Error::Cancelled) => Err(Cancel::reason(cancels)),
        done => done,
    }
}

impl rz_encoder {
    pub(super) fn bounds(&self, params: &rz_media_params) -> PictureBounds {
        let [min_rows, max_rows, max_tiles] = [params.min_rows, params.max_rows, params.max_tiles].map(|n| n as usize);
        PictureBounds { min_rows, max_rows: if max_rows == 0 { self.max_rows } else { max_rows }, max_tiles }
    }

    fn see(&self, call: &Call, picture: Picture, params: &rz_media_params) -> Result<rz_media> {
        self.encode(call, params, || MediaWork::picture(&self.encoder, picture, self.bounds(params)))
    }

    pub(super) fn encode(
        &self,
        call: &Call,
        params: &rz_media_params,
        work: impl FnOnce() -> Result<MediaWork>,
    ) -> Result<rz_media> {
        call.flags(params.flags, RZ_ENCODE_STEPS, "rz_media_params.flags")?;
        let work = work()?;
        let mut steps = MediaSteps {
            work,
            cancel: call.optional(params.cancel)?.map(|cancel| cancel.0.clone()),
            progress: params.progress,
            user: User::new(params.progress_user),
        };
        if params.flags & RZ_ENCODE_STEPS != 0 {
            return Ok(rz_media::unfinished(steps));
        }
        let media = steps.advance(None)?.ok_or(Error::Cancelled)?;
        Ok(rz_media::new(media, self.encoder.model()))
    }
}

/// Encodes an image in memory.
///
/// The image is resized, tiled and normalized as in the model's reference implementation. The result depends neither on
/// threads nor on other calls; on a GPU it differs by rounding from the CPU's. `params` may be NULL. The caller frees
/// `*out` with rz_media_free, before or after the encoder. Rows count against rz_runtime_params.memory_limit, and so
/// does scratch memory until the call is done. Any thread, any number at once. Errors: RZ_ERR_INVALID_ARGUMENT (no
/// pixels, a stride that is too small, an aspect ratio that the model does not accept), RZ_ERR_UNSUPPORTED (an audio
/// encoder), RZ_ERR_LIMIT (also too many rows), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST,
/// RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_VERSION. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_pixels(
    encoder: *const rz_encoder,
    pixels: *const rz_pixels,
    params: *const rz_media_params,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let encoder = call.handle(encoder)?;
        call.checked(pixels, "pixels")?;
        let pixels: rz_pixels = call.params(pixels)?;
        let params: rz_media_params = call.params(params)?;
        let out = call.out(out, "out")?;
        out.set_handle(encoder.see(call, picture(call, &pixels, &params)?, &params)?);
        Ok(RZ_OK)
    })
}

/// Copies an image of the caller.
pub(super) fn picture(call: &Call, pixels: &rz_pixels, params: &rz_media_params) -> Result<Picture> {
    let (format, width) = match pixels.format {
        RZ_PIXELS_RGB8 => (PixelFormat::Rgb8, 3),
        RZ_PIXELS_RGBA8 => (PixelFormat::Rgba8, 4),
        RZ_PIXELS_BGRA8 => (PixelFormat::Bgra8, 4),
        RZ_PIXELS_GRAY8 => (PixelFormat::Gray8, 1),
        other => return Err(Error::invalid(format!("rz_pixels.format is {other}, not one of RZ_PIXELS_..."))),
    };
    let [columns, lines] = [pixels.width, pixels.height].map(|n| n as usize);
    let of_row = columns.saturating_mul(width);
    let stride = if pixels.stride == 0 { of_row } else { pixels.stride };
    // The last row may end with its last pixel.
    let bytes = lines.saturating_sub(1).saturating_mul(stride).saturating_add(of_row);
    let data = call.slice(pixels.data.cast::<u8>(), bytes, "rz_pixels.data")?;
    let pixels = Pixels { format, width: columns, height: lines, stride: pixels.stride, data };
    Picture::from_pixels(pixels, params.background()?)
}

/// Like rz_media_from_pixels, for `size` bytes of a PNG, JPEG, WebP, GIF or BMP file. The first bytes of the file
/// identify its format. Only the first frame of an animation is encoded.
///
/// The image is turned upright by the orientation in the file (EXIF or XMP). Transparent pixels show `background`,
/// 16-bit samples become 8-bit, and colors are not converted. A fired rz_cancel or a passed deadline ends the call, but
/// only before or after the decoding of a WebP or progressive JPEG file, which takes up to 1.7 s for 64 million pixels.
/// A truncated file is rejected; changed bits within its data can go unnoticed. The caller frees `*out` with
/// rz_media_free. Any thread. Errors: as for rz_media_from_pixels, and RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED
/// (another format, such as HEIC, AVIF, TIFF or SVG, which the message names), RZ_ERR_LIMIT (more than `max_pixels`).
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_image(
    encoder: *const rz_encoder,
    data: *const c_void,
    size: usize,
    params: *const rz_media_params,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let encoder = call.handle(encoder)?;
        let data = call.slice(data.cast::<u8>(), size, "data")?;
        let params: rz_media_params = call.params(params)?;
        let out = call.out(out, "out")?;
        let max_pixels = if params.max_pixels == 0 { MAX_PIXELS } else { params.max_pixels.into() };
        let picture =
            stopping(call, &params, |stops| Picture::decode_unless(data, max_pixels, params.background()?, stops))?;
        out.set_handle(encoder.see(call, picture, &params)?);
        Ok(RZ_OK)
    })
}

/// Computes the rz_media_info of an image of `width` by `height` pixels without encoding it: rows, tokens, tiles and
/// sizes; time and hash are 0. With an audio encoder `width` is the number of samples per channel at the rate of the
/// encoder, and `height` 0. `params` may be NULL. The caller sets `out->struct_size`. Any thread. Errors: as for
/// rz_media_from_pixels, or rz_media_from_samples. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_measure(
    encoder: *const rz_encoder,
    width: u32,
    height: u32,
    params: *const rz_media_params,
    out: *mut rz_media_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let encoder = call.handle(encoder)?;
        let params = call.params(params)?;
        let out = call.out_struct(out)?;
        let (size, facts) = ([width, height].map(|n| n as usize), encoder.encoder.facts());
        let layout = match &facts.sound {
            Some(_) => encoder.measured(size[0], size[1], &params)?,
            None => measure_picture(&encoder.encoder, size, encoder.bounds(&params))?,
        };
        out.set(rz_media_info::of(encoder.encoder.kind(), &layout, facts.row_dim));
        Ok(RZ_OK)
    })
}
