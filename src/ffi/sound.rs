//! Audio input.

use std::ffi::c_void;

use crate::engine::{MediaLayout, MediaWork, Resampling, Sound, measure_sound, most_samples};
use crate::error::{Error, Result};

use super::arguments::Call;
use super::encoder::{rz_encoder, rz_media_params, stopping};
use super::guard::guarded;
use super::media::rz_media;
use super::status::{RZ_OK, rz_error, rz_status};

impl rz_encoder {
    /// Returns the maximum number of rows of an audio clip.
    fn most_rows(&self, params: &rz_media_params) -> usize {
        if params.max_rows == 0 { self.max_rows } else { params.max_rows as usize }
    }

    /// Returns the maximum number of samples of an audio clip, at the encoder's rate.
    fn most_samples(&self, params: &rz_media_params) -> Result<usize> {
        most_samples(&self.encoder, self.most_rows(params))
    }

    /// Returns the layout of an audio clip with this number of samples, and no height.
    pub(super) fn measured(&self, samples: usize, height: usize, params: &rz_media_params) -> Result<MediaLayout> {
        if height != 0 {
            return Err(Error::invalid(format!("a sound of {samples} samples and a height of {height}, which is 0")));
        }
        measure_sound(&self.encoder, samples, self.most_rows(params))
    }

    fn hear(&self, call: &Call, sound: Resampling, params: &rz_media_params) -> Result<rz_media> {
        self.encode(call, params, || MediaWork::sound(&self.encoder, sound, self.most_rows(params)))
    }
}

/// Encodes audio: `n` interleaved samples of `channels` channels, with a full scale from -1 to 1, at `rate` Hz.
///
/// Several channels are averaged, as in the models' reference implementations when they load files. Audio is resampled
/// to rz_encoder_info.sample_rate. Long audio is encoded in parts, of 30 seconds in most models. Of `params`, which may
/// be NULL, only `max_rows`, `flags`, `progress` (in parts) and `cancel` apply. The result depends neither on threads
/// nor on other calls. The caller frees `*out` with rz_media_free, before or after the encoder. Rows count against
/// rz_runtime_params.memory_limit, and so does scratch memory until the call is done. Any thread, any number at once.
/// Errors: RZ_ERR_INVALID_ARGUMENT (no samples, too few samples for a row, a sample that is not finite or above a
/// million, channels other than 1 to 64 or of unequal length, a rate outside of 4000 to 384000), RZ_ERR_UNSUPPORTED (a
/// vision encoder), RZ_ERR_LIMIT (also too many rows), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE,
/// RZ_ERR_VERSION. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_samples(
    encoder: *const rz_encoder,
    samples: *const f32,
    n: usize,
    channels: u32,
    rate: u32,
    params: *const rz_media_params,
    out: *mut *mut rz_media,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let encoder = call.handle(encoder)?;
        let samples = call.slice(samples, n, "samples")?;
        let params = call.params(params)?;
        let out = call.out(out, "out")?;
        let (channels, most) = (channels as usize, encoder.most_samples(&params)?);
        let begin = |stops: &dyn Fn() -> bool| Sound::begin(samples, channels, rate, most, &mut || stops());
        let sound = stopping(call, &params, begin)?;
        out.set_handle(encoder.hear(call, sound, &params)?);
        Ok(RZ_OK)
    })
}

/// Like rz_media_from_samples, for `size` bytes of a WAV file (integers of up to 32 bits, floats, A-law, mu-law or
/// ADPCM), an MP3, a FLAC or an Ogg file (Vorbis or FLAC). The first bytes of the file identify its format.
///
/// Several channels are averaged. A truncated WAV or FLAC file is rejected, unless its header leaves the length open.
/// Even with RZ_ENCODE_STEPS the file is decoded within this call, because its length determines the rows; a fired
/// rz_cancel or a passed deadline ends the call. The caller frees `*out` with rz_media_free. Any thread. Errors: as for
/// rz_media_from_samples, and RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED (another format, such as MP4, Opus or AIFF,
/// which the message names). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_from_audio(
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
        let params = call.params(params)?;
        let out = call.out(out, "out")?;
        let most = encoder.most_samples(&params)?;
        let sound = stopping(call, &params, |stops| Sound::begin_file(data, most, &mut || stops()))?;
        out.set_handle(encoder.hear(call, sound, &params)?);
        Ok(RZ_OK)
    })
}
