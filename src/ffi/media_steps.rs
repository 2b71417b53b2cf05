//! Media encoded in time slices.

use crate::error::Error;

use super::cancel::time_limit;
use super::guard::guarded;
use super::handle::Handle;
use super::media::rz_media;
use super::status::{RZ_AGAIN, RZ_DONE, rz_error, rz_status};

/// Works for about `budget_us` microseconds on a media item that was created with RZ_ENCODE_STEPS: with 0 for one chunk
/// of work, with RZ_NO_LIMIT until the media item is done. RZ_AGAIN: more work remains; RZ_DONE: the media item is
/// ready, like media created without the flag. Before that, prompts reject the media item.
///
/// A step pauses between two chunks of work; the pauses do not change the rows. A fired rz_cancel, a passed deadline or
/// a non-zero result of `progress` also pauses the step. The next rz_media_step continues the work; after a fired
/// rz_cancel or a passed deadline, only once rz_cancel_reset was called. Any thread, one call at a time. Errors:
/// RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_FORMAT
/// (weights have made a row NaN or infinite), RZ_ERR_INVALID_ARGUMENT. After an error other than the first four the
/// media item is unusable. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_step(media: *mut rz_media, budget_us: u64, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let handle = call.handle(media)?;
        if handle.media.get().is_some() {
            return Ok(RZ_DONE);
        }
        let mut steps = handle.work.take(rz_media::NAME)?;
        let Some(work) = steps.as_mut() else {
            return match handle.media.get() {
                Some(_) => Ok(RZ_DONE),
                None => Err(Error::invalid("the encoding of the media item failed; create it again")),
            };
        };
        match work.advance(time_limit(budget_us)) {
            Ok(None) => {
                handle.publish(Some(&work.work));
                return Ok(RZ_AGAIN);
            }
            Err(e @ (Error::Cancelled | Error::Deadline)) => {
                handle.publish(Some(&work.work));
                return Err(e);
            }
            Ok(Some(made)) => _ = handle.media.set(made),
            Err(e) => {
                handle.publish(None);
                *steps = None;
                return Err(e);
            }
        }
        *steps = None;
        Ok(RZ_DONE)
    })
}
