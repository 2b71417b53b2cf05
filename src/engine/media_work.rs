//! Makes media of pictures, sounds and videos, by work that may be paused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Cancel;
use super::encoder::{Encoder, Encoding};
use super::make_media;
use super::media::{Media, MediaHash, MediaKind, MediaLayout};
use super::metrics::Phase;
use super::picture::{PictureBounds, cut, media_layout};
use super::sound;
use super::video::{self, Cut, Frames};
use crate::device::StepBudget;
use crate::error::{Error, Result};
use crate::media::{Picture, Sound};

/// Time between two reports of progress.
const SLICE: Duration = Duration::from_millis(50);

/// The work on a medium, which may be paused.
pub struct MediaWork {
    encoder: Arc<Encoder>,
    encoding: Encoding,
    kind: MediaKind,
    layout: MediaLayout,
    hash: MediaHash,
    /// Time that was worked.
    busy: Duration,
}

impl MediaWork {
    /// Cuts a picture into tiles; none is encoded yet.
    pub fn picture(encoder: &Arc<Encoder>, picture: &Picture, bounds: PictureBounds) -> Result<MediaWork> {
        let started = Instant::now();
        let (layout, tiles, hash) = cut(encoder, picture, bounds)?;
        Ok(MediaWork {
            encoder: encoder.clone(),
            encoding: Encoding::new(encoder, tiles, &layout)?,
            kind: encoder.kind(),
            layout: media_layout(encoder, [picture.width, picture.height], &layout)?,
            hash,
            busy: started.elapsed(),
        })
    }

    /// Brings the frames of a video to their size; none is encoded yet.
    pub fn video(encoder: &Arc<Encoder>, frames: Frames, bounds: PictureBounds) -> Result<MediaWork> {
        let started = Instant::now();
        let Cut { tiles, tile_layout, layout, hash } = video::cut(encoder, frames, bounds)?;
        Ok(MediaWork {
            encoder: encoder.clone(),
            encoding: Encoding::new(encoder, tiles, &tile_layout)?,
            kind: MediaKind::Video,
            layout,
            hash,
            busy: started.elapsed(),
        })
    }

    /// Cuts a sound into parts; none is encoded yet.
    pub fn sound(encoder: &Arc<Encoder>, sound: &Sound, max_rows: usize) -> Result<MediaWork> {
        let started = Instant::now();
        let layout = sound::layout(encoder, sound, max_rows)?;
        Ok(MediaWork {
            encoder: encoder.clone(),
            encoding: Encoding::of_sound(encoder, sound::heard(encoder, sound)?)?,
            kind: encoder.kind(),
            layout,
            hash: sound::hash(encoder, sound)?,
            busy: started.elapsed(),
        })
    }

    pub fn kind(&self) -> MediaKind {
        self.kind
    }

    pub fn layout(&self) -> &MediaLayout {
        &self.layout
    }

    pub fn hash(&self) -> &MediaHash {
        &self.hash
    }

    pub fn encoder(&self) -> &Arc<Encoder> {
        &self.encoder
    }

    /// Time that was worked so far.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Works until the medium is done, which is returned, or for about `time`. `progress` gets the tiles, or parts of a
    /// sound, that are done, and their number; where it says false the call ends. After `Cancelled` and `Deadline` it
    /// may go on.
    pub fn advance(
        &mut self,
        time: Option<Duration>,
        cancel: Option<&Cancel>,
        mut progress: Option<&mut dyn FnMut(u64, u64) -> bool>,
    ) -> Result<Option<Arc<Media>>> {
        let (started, cancels) = (Instant::now(), &[cancel]);
        let stop = || Cancel::check(cancels).is_err();
        let end = time.and_then(|time| started.checked_add(time));
        let is_done = loop {
            let report = progress.is_some().then(|| Instant::now() + SLICE);
            let until = report.into_iter().chain(end).min();
            let done = self.encoding.advance(&self.encoder, &StepBudget::until(&stop, until));
            let (tiles, total) = self.encoding.progress();
            let done = match done {
                Ok(false) if stop() => Err(Cancel::reason(cancels)),
                Ok(_) if progress.as_mut().is_some_and(|told| !told(tiles as u64, total as u64)) => {
                    Err(Error::Cancelled)
                }
                done => done,
            };
            match done {
                Ok(false) if end.is_none_or(|end| Instant::now() < end) => {}
                done => break done,
            }
        };
        self.busy += started.elapsed();
        if !is_done? {
            return Ok(None);
        }
        let (model, rows) = (self.encoder.model(), std::mem::take(&mut self.encoding.rows));
        model.metrics().record_phase(Phase::Encode, self.busy);
        let layout = self.layout.clone();
        make_media::make(model, self.kind, layout, rows, self.hash, self.busy).map(Some)
    }
}
