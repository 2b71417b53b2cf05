//! Video input.

use crate::engine::{Frames, MediaWork};

use super::cancel::flag;
use super::encoder::{picture, rz_encoder, rz_media_params, rz_pixels};
use super::guard::guarded;
use super::media::rz_media;
use super::status::{RZ_OK, rz_error, rz_status};

/// Encodes a video: `n` frames (at least two) of the same size, and for each frame its time in seconds from the
/// beginning of the video, in ascending order.
///
/// The host decodes the video and selects frames; most models were trained with two frames per second. Frames are
/// encoded in pairs; an odd last frame is repeated. Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen 3.5 accept videos (see
/// rz_encoder_info.kinds); for other models, pass frames as images. `frames` is an array of structs with equal
/// `struct_size`. Of `params`, which may be NULL, `max_tiles` and `max_pixels` do not apply, and the other limits are
/// for all frames together; `progress` counts pairs. With RZ_ENCODE_STEPS the number of rows is known before the work
/// is done (rz_media_info_get). The result depends neither on threads nor on other calls. The caller frees `*out` with
/// rz_media_free, before or after the encoder. Frames are read during the call only. Any thread, any number at once.
/// Errors: as for rz_media_from_pixels, RZ_ERR_INVALID_ARGUMENT (also fewer than two frames, frames of different sizes,
/// times that decrease, are negative or above a million; the message has the number of the frame), RZ_ERR_UNSUPPORTED
/// (an encoder without video input). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_frames(
    encoder: *const rz_encoder,
    frames: *const rz_pixels,
    times: *const f64,
    n: usize,
    params: *const rz_media_params,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let encoder = call.handle(encoder)?;
        let times = call.slice(times, n, "times")?;
        let params: rz_media_params = call.params(params)?;
        let out = call.out(out, "out")?;
        let of = |i| picture(call, &call.element(frames, i)?, &params);
        let frame = &mut |i| of(i).map_err(|e| e.of_entry(i));
        let frames = Frames { times, frame };
        let cancel = call.optional(params.cancel)?;
        let cancel = flag(&cancel);
        let work = || MediaWork::video(&encoder.encoder, frames, encoder.bounds(&params), cancel);
        out.set_handle(encoder.encode(call, &params, work)?);
        Ok(RZ_OK)
    })
}
