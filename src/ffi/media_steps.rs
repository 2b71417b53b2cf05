//! Media that are made in slices of time.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cancel, Media, MediaWork};
use crate::error::{Error, Result};

use super::arguments::User;
use super::cancel::time_limit;
use super::encoder::told;
use super::guard::guarded;
use super::handle::{Handle, taken};
use super::media::{rz_media, rz_media_info};
use super::model::rz_progress_callback;
use super::status::{RZ_AGAIN, RZ_DONE, rz_error, rz_status};
use super::structs::ns;

/// The work on a medium, and whom it asks and tells.
pub(super) struct MediaSteps {
    pub(super) work: MediaWork,
    pub(super) cancel: Option<Arc<Cancel>>,
    pub(super) progress: rz_progress_callback,
    pub(super) user: User,
}

impl MediaSteps {
    pub(super) fn advance(&mut self, time: Option<Duration>) -> Result<Option<Arc<Media>>> {
        let mut progress = told(self.progress, self.user.get());
        let progress = progress.as_mut().map(|progress| progress as &mut dyn FnMut(u64, u64) -> bool);
        self.work.advance(time, self.cancel.as_deref(), progress)
    }
}

impl rz_media {
    /// What is known ahead of the rows.
    pub(super) fn info_so_far(&self) -> Result<rz_media_info> {
        let steps = taken(self.work.try_lock(), Self::NAME)?;
        let none = || Error::invalid("the medium is none: its work has failed");
        let work = &steps.as_ref().ok_or_else(none)?.work;
        Ok(rz_media_info {
            encode_ns: ns(work.busy()),
            hash: *work.hash(),
            ..rz_media_info::of(work.layout(), work.encoder().facts().row_dim)
        })
    }
}

/// Works for about `budget_us` microseconds on a medium that was made with RZ_MEDIA_STEPS, with 0 or RZ_NO_LIMIT to its
/// end. RZ_AGAIN: there is more to do; RZ_DONE: it can be used, as media that were made otherwise can at once. Until
/// then prompts refuse it.
///
/// A step is paused between two shares of its work; the rows are the same however it is cut. A fired cancel, a deadline
/// and `progress` pause it too: it goes on when it is stepped after rz_cancel_reset. Any thread, one call at a time.
/// Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_INVALID_ARGUMENT (numbers that are not finite came of it; after an error other than the first four it is no
/// medium any more). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_media_step(media: *mut rz_media, budget_us: u64, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let handle = call.handle(media)?;
        if handle.media.get().is_some() {
            return Ok(RZ_DONE);
        }
        let mut steps = taken(handle.work.try_lock(), rz_media::NAME)?;
        let Some(work) = steps.as_mut() else {
            return match handle.media.get() {
                Some(_) => Ok(RZ_DONE),
                None => Err(Error::invalid("the medium is none: its work has failed")),
            };
        };
        let time = if budget_us == 0 { None } else { time_limit(budget_us) };
        match work.advance(time) {
            Ok(None) => return Ok(RZ_AGAIN),
            Err(e @ (Error::Cancelled | Error::Deadline)) => return Err(e),
            Ok(Some(made)) => _ = handle.media.set(made),
            Err(e) => {
                *steps = None;
                return Err(e);
            }
        }
        *steps = None;
        Ok(RZ_DONE)
    })
}
