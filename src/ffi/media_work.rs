//! Work on a media item, with the caller's cancel and progress callback.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cancel, Media, MediaWork};
use crate::error::Result;

use super::arguments::User;
use super::model::rz_progress_callback;

pub(super) struct MediaSteps {
    pub(super) work: MediaWork,
    pub(super) cancel: Option<Arc<Cancel>>,
    pub(super) progress: rz_progress_callback,
    pub(super) user: User,
}

impl MediaSteps {
    /// Works for about `time`; returns the media item when it is done.
    pub(super) fn advance(&mut self, time: Option<Duration>) -> Result<Option<Arc<Media>>> {
        let mut progress = progress_function(self.progress, self.user.get());
        let progress = progress.as_mut().map(|progress| progress as &mut dyn FnMut(u64, u64) -> bool);
        self.work.advance(time, self.cancel.as_deref(), progress)
    }
}

/// Progress callback of the caller.
pub(super) fn progress_function(
    progress: rz_progress_callback,
    user: *mut c_void,
) -> Option<impl FnMut(u64, u64) -> bool> {
    // SAFETY: the header asks for a function that may be called so during the call.
    progress.map(|progress| move |done: u64, total: u64| unsafe { progress(done, total, user) == 0 })
}
