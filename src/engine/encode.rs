//! Makes media. Of a picture: the bounds of a caller, the tiles, their rows, and the tokens around and between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::Cancel;
use super::encoder::{Encoder, Encoding, Run};
use super::make_media;
use super::media::{Media, MediaHash, MediaKind, MediaLayout, MediaPart};
use super::metrics::Phase;
use super::sound;
use crate::device::StepBudget;
use crate::error::{Error, Result};
use crate::media::{Layout, MAX_SIDE, Picture, Sizing, Sound};

/// The most rows of a picture where the caller leaves it open.
pub const MOST_ROWS: usize = 4096;
/// Time between two reports of progress.
const SLICE: Duration = Duration::from_millis(50);

/// The bounds of a caller on what becomes of a picture; 0: those of the encoder.
#[derive(Clone, Copy, Default)]
pub struct PictureBounds {
    pub min_rows: usize,
    pub max_rows: usize,
    /// Tiles, an overview not counted.
    pub max_tiles: usize,
}

/// The rule for tiles within some bounds, and the tiles of a picture of this size.
fn fitted(encoder: &Encoder, [width, height]: [usize; 2], bounds: PictureBounds) -> Result<(Sizing, Layout)> {
    let facts = encoder.facts();
    if facts.sound.is_some() {
        return Err(Error::unsupported("a picture with an encoder of sound"));
    }
    let or = |n: usize, default: usize| if n == 0 { default } else { n };
    let (most, max_tiles) = (or(bounds.max_rows, MOST_ROWS), or(bounds.max_tiles, usize::MAX));
    let (mut sizing, of_row) = (facts.sizing, (facts.patch * facts.merge).pow(2));
    if let Sizing::Area { least, most: most_pixels, .. } = &mut sizing {
        *most_pixels = (*most_pixels).min(most.saturating_mul(of_row));
        *least = (*least).max(bounds.min_rows.saturating_mul(of_row)).min(*most_pixels);
    }
    if let Sizing::Rows { rows, most: highest, .. } = &mut sizing {
        let asked = or(bounds.max_rows, (*rows).max(bounds.min_rows));
        *rows = asked.min(*highest);
    }
    loop {
        let layout = sizing.layout(width, height)?;
        let n_rows = facts.n_rows(&layout);
        if n_rows <= most && layout.columns * layout.lines <= max_tiles {
            return Ok((sizing, layout));
        }
        let is_smaller = match &mut sizing {
            Sizing::LongestEdge { longest, grain: step, .. } | Sizing::SplitLongest { longest, tile: step, .. } => {
                let (is_smaller, next) = (*longest > *step, (*longest - 1) / *step * *step);
                *longest = next.max(1);
                is_smaller
            }
            Sizing::SplitRatio { min_tiles, max_tiles, .. } | Sizing::SplitLarge { min_tiles, max_tiles, .. } => {
                let is_smaller = *max_tiles > 1;
                *max_tiles -= usize::from(is_smaller);
                *min_tiles = (*min_tiles).min(*max_tiles);
                is_smaller
            }
            _ => false,
        };
        if !is_smaller {
            return Err(Error::TooComplex(format!(
                "a picture of {width} x {height} has {n_rows} rows, {most} are allowed"
            )));
        }
    }
}

/// Returns the layout of a picture of some size, without one.
pub fn measure(encoder: &Encoder, size: [usize; 2], bounds: PictureBounds) -> Result<MediaLayout> {
    media_layout(encoder, size, &fitted(encoder, size, bounds)?.1)
}

fn media_layout(encoder: &Encoder, size: [usize; 2], layout: &Layout) -> Result<MediaLayout> {
    let [columns, lines] = encoder.facts().tile_grid(layout);
    let is_one = layout.n_tiles() == 1;
    let parts = media_parts(encoder.runs(layout)?);
    Ok(MediaLayout {
        columns,
        lines,
        tile_columns: if is_one { 0 } else { layout.columns },
        tile_lines: if is_one { 0 } else { layout.lines },
        has_overview: layout.overview,
        size,
        seen: [layout.seen_width, layout.seen_height],
        parts,
    })
}

pub(super) fn media_parts(runs: Vec<Run>) -> Vec<MediaPart> {
    let parts = |run| match run {
        Run::Rows(n) => vec![MediaPart::Rows(n)],
        Run::Tokens(tokens) => tokens.into_iter().map(MediaPart::Token).collect(),
    };
    runs.into_iter().flat_map(parts).collect()
}

/// The fewest and the most rows of a picture, and the layout of the largest tile.
pub fn extent(encoder: &Encoder, max_rows: usize) -> Result<([usize; 2], Layout)> {
    let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
    let (_, least) = fitted(encoder, [1, 1], bounds)?;
    let (mut rows, mut largest) = ([encoder.facts().n_rows(&least); 2], least);
    // Grids of some proportions have more tiles than others.
    let sides = (1..=12).flat_map(|width| (1..=12).map(move |height| [width, height].map(|x| MAX_SIDE / 12 * x)));
    for size in sides {
        let (_, layout) = fitted(encoder, size, bounds)?;
        let n_rows = encoder.facts().n_rows(&layout);
        rows = [rows[0].min(n_rows), rows[1].max(n_rows)];
        if encoder.facts().most_rows(&layout) > encoder.facts().most_rows(&largest) {
            largest = layout;
        }
    }
    Ok((rows, largest))
}

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
        let size = [picture.width, picture.height];
        let (sizing, layout) = fitted(encoder, size, bounds)?;
        let tiles = sizing.tiles(picture, &layout)?;
        let facts = encoder.facts();
        let mut hash = Sha256::new();
        let made_by = (&facts.projector, facts.patch, facts.merge, facts.mean, facts.std, facts.row_dim);
        hash.update(format!("picture {:016x} {made_by:?} {layout:?}", encoder.digest()));
        tiles.iter().for_each(|tile| hash.update(&tile.rgb));
        Ok(MediaWork {
            encoder: encoder.clone(),
            encoding: Encoding::new(encoder, tiles, &layout)?,
            kind: MediaKind::Image,
            layout: media_layout(encoder, size, &layout)?,
            hash: hash.finalize().into(),
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
            kind: MediaKind::Audio,
            layout,
            hash: sound::hash(encoder, sound)?,
            busy: started.elapsed(),
        })
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

    /// Works until the medium is done, which is returned, or for about `time`. `progress` gets the tiles or parts of a
    /// sound that are done, and their number; where it says false the call ends. After `Cancelled` and `Deadline` it may go on.
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
