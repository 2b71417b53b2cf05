//! Encodes images, audio and video, in slices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bounds::PictureBounds;
use super::encoder::{Encoder, Encoding};
use super::item::{Media, MediaHash, MediaKind, MediaLayout};
use super::make::{self, MediaRows};
use super::picture::media_layout;
use super::preparing::Preparing;
use super::sound;
use super::video::{self, Cut, Frames};
use crate::device::StepBudget;
use crate::engine::cancel::Cancel;
use crate::engine::metrics::Phase;
use crate::error::{Error, Result};
use crate::media::{Picture, Resampling};

/// Time between two progress reports.
const SLICE: Duration = Duration::from_millis(50);

/// Maximum time of one chunk of preprocessing.
const SHARE: Duration = Duration::from_micros(200);

/// The encoding of a media item, which may be paused.
pub struct MediaWork {
    encoder: Arc<Encoder>,
    stage: Stage,
    kind: MediaKind,
    layout: MediaLayout,
    /// Number of tiles, audio parts or frame pairs.
    total: usize,
    /// Set once preprocessing is done.
    hash: Option<MediaHash>,
    /// Time spent so far.
    busy: Duration,
}

enum Stage {
    Preparing(Box<Preparing>),
    Encoding(Box<Encoding>),
    /// An error has ended the work.
    Failed,
}

impl MediaWork {
    /// Creates the work on an image without running it.
    pub fn picture(encoder: &Arc<Encoder>, picture: Picture, bounds: PictureBounds) -> Result<MediaWork> {
        let size = picture.size();
        let (preparing, layout) = Preparing::picture(encoder, picture, bounds)?;
        Ok(MediaWork {
            encoder: encoder.clone(),
            stage: Stage::Preparing(Box::new(preparing)),
            kind: encoder.kind(),
            layout: media_layout(encoder, size, &layout)?,
            total: layout.n_tiles(),
            hash: None,
            busy: Duration::ZERO,
        })
    }

    /// Resizes the frames of a video; encodes none yet.
    pub fn video(
        encoder: &Arc<Encoder>,
        frames: Frames,
        bounds: PictureBounds,
        cancel: Option<&Cancel>,
    ) -> Result<MediaWork> {
        let started = Instant::now();
        let Cut { tiles, tile_layout, layout, hash } = video::cut(encoder, frames, bounds, cancel)?;
        Ok(MediaWork {
            encoder: encoder.clone(),
            stage: Stage::Encoding(Box::new(Encoding::new(encoder, tiles, &tile_layout)?)),
            kind: MediaKind::Video,
            layout,
            total: tile_layout.n_tiles(),
            hash: Some(hash),
            busy: started.elapsed(),
        })
    }

    /// Creates the work on mono audio without running it.
    pub fn sound(encoder: &Arc<Encoder>, sound: Resampling, max_rows: usize) -> Result<MediaWork> {
        let samples = sound.samples();
        Ok(MediaWork {
            encoder: encoder.clone(),
            layout: sound::layout(encoder, samples, max_rows)?,
            total: sound::n_parts(encoder, samples[1])?,
            stage: Stage::Preparing(Box::new(Preparing::sound(sound))),
            kind: encoder.kind(),
            hash: None,
            busy: Duration::ZERO,
        })
    }

    pub fn kind(&self) -> MediaKind {
        self.kind
    }

    pub fn layout(&self) -> &MediaLayout {
        &self.layout
    }

    pub fn hash(&self) -> Option<&MediaHash> {
        self.hash.as_ref()
    }

    pub fn encoder(&self) -> &Arc<Encoder> {
        &self.encoder
    }

    /// Returns the time spent so far.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Works for about `time` or until the media item is complete, and then returns it. `progress` gets the number of
    /// finished tiles or audio parts and the total; false ends the call. The work can continue after `Cancelled` and
    /// `Deadline`.
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
            let done = self.work(&StepBudget::until(&stop, until));
            let (tiles, total) = match &self.stage {
                Stage::Encoding(encoding) => encoding.progress(),
                Stage::Preparing(_) | Stage::Failed => (0, self.total),
            };
            let done = match done {
                Ok(false) if stop() => Err(Cancel::reason(cancels)),
                Ok(_) if progress.as_mut().is_some_and(|progress| !progress(tiles as u64, total as u64)) => {
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
        let (true, Stage::Encoding(encoding), Some(hash)) = (is_done?, &mut self.stage, self.hash) else {
            return Ok(None);
        };
        let (model, rows) = (self.encoder.model(), std::mem::take(&mut encoding.rows));
        model.metrics().record_phase(Phase::Encode, self.busy);
        let (kind, layout) = (self.kind, self.layout.clone());
        make::make(model, MediaRows { kind, layout, rows, hash, encoding: self.busy }).map(Some)
    }

    /// Works until complete, and returns true, or until `budget` pauses, and returns false.
    fn work(&mut self, budget: &StepBudget) -> Result<bool> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Preparing(preparing) => match preparing.advance(&self.encoder, &mut || budget.pauses(SHARE))? {
                Err(preparing) => {
                    self.stage = Stage::Preparing(Box::new(preparing));
                    return Ok(false);
                }
                Ok((encoding, hash)) => (self.stage, self.hash) = (Stage::Encoding(Box::new(encoding)), Some(hash)),
            },
            stage => self.stage = stage,
        }
        match &mut self.stage {
            Stage::Encoding(encoding) => encoding.advance(&self.encoder, budget),
            Stage::Preparing(_) | Stage::Failed => {
                Err(Error::invalid("the encoding of the media item failed; create it again"))
            }
        }
    }
}
