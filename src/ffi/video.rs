//! Media of videos.

use crate::engine::{Frames, MediaWork};

use super::cancel::flag;
use super::encoder::{picture, rz_encoder, rz_media_params, rz_pixels};
use super::guard::guarded;
use super::media::rz_media;
use super::status::{RZ_OK, rz_error, rz_status};

/// Encodes a video: `n` frames of one size, at least two, and the time of each in seconds from its beginning, which do
/// not fall.
///
/// The host decodes the video and chooses frames; the makers of most models take two a second. Frames are taken in
/// pairs; where one is left it stands twice. Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen 3.5 read a video; to other models
/// frames are given as pictures. rz_encoder_info.kinds tells which. `frames` is an array of structs whose `struct_size`
/// are equal. Of `params`, which may be NULL, `max_tiles` and `max_pixels` do not count, and the other bounds are on
/// all frames together; `progress` is told of pairs. With RZ_ENCODE_STEPS the medium tells its rows ahead of the work
/// (rz_media_info_get). The result depends neither on threads nor on other calls. The caller frees `*out` with
/// rz_media_free, before or after the encoder. Frames are read during the call only. Any thread, any number at once.
/// Errors: as for rz_media_from_pixels, RZ_ERR_INVALID_ARGUMENT (also fewer than two frames, frames of several sizes,
/// times that fall, are negative or above a million; the message has the number of the frame), RZ_ERR_UNSUPPORTED (an
/// encoder that takes no video). Since 0.1.0.
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
