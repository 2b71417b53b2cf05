//! Makes a medium of a picture: the bounds of a caller, the tiles, their rows, and the tokens around and between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::Cancel;
use super::encoder::{Encoder, Encoding, Run};
use super::make_media;
use super::media::{Media, MediaKind, MediaLayout, MediaPart};
use crate::device::StepBudget;
use crate::error::{Error, Result};
use crate::media::{Layout, MAX_SIDE, Picture, Sizing};

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
    let or = |n: usize, default: usize| if n == 0 { default } else { n };
    let (most, max_tiles) = (or(bounds.max_rows, MOST_ROWS), or(bounds.max_tiles, usize::MAX));
    let (mut sizing, of_row) = (facts.sizing, (facts.patch * facts.merge).pow(2));
    if let Sizing::Area { least, most: most_pixels, .. } = &mut sizing {
        *most_pixels = (*most_pixels).min(most.saturating_mul(of_row));
        *least = (*least).max(bounds.min_rows.saturating_mul(of_row)).min(*most_pixels);
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
            Sizing::SplitRatio { min_tiles, max_tiles, .. } => {
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
    let mut parts = Vec::new();
    for run in encoder.runs(layout)? {
        match run {
            Run::Rows(n) => parts.push(MediaPart::Rows(n)),
            Run::Tokens(tokens) => parts.extend(tokens.into_iter().map(MediaPart::Token)),
        }
    }
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
        if layout.tile_width * layout.tile_height > largest.tile_width * largest.tile_height {
            largest = layout;
        }
    }
    Ok((rows, largest))
}

/// Encodes a picture. `progress` gets the tiles that are done, and their number; where it says false the call ends.
pub fn media_from_picture(
    encoder: &Encoder,
    picture: &Picture,
    bounds: PictureBounds,
    cancel: Option<&Cancel>,
    progress: Option<&mut dyn FnMut(u64, u64) -> bool>,
) -> Result<Arc<Media>> {
    let started = Instant::now();
    let size = [picture.width, picture.height];
    let (sizing, layout) = fitted(encoder, size, bounds)?;
    let tiles = sizing.tiles(picture, &layout)?;
    let facts = encoder.facts();
    let mut hash = Sha256::new();
    let made_by = (&facts.projector, facts.patch, facts.merge, facts.mean, facts.std, facts.row_dim);
    hash.update(format!("picture {:016x} {made_by:?} {layout:?}", encoder.digest()));
    tiles.iter().for_each(|tile| hash.update(&tile.rgb));
    let encoding = Encoding::new(encoder, tiles, &layout)?;
    let rows = run(encoder, encoding, cancel, progress)?;
    let layout = media_layout(encoder, size, &layout)?;
    make_media::make(encoder.model(), MediaKind::Image, layout, rows, hash.finalize().into(), started.elapsed())
}

fn run(
    encoder: &Encoder,
    mut encoding: Encoding,
    cancel: Option<&Cancel>,
    mut progress: Option<&mut dyn FnMut(u64, u64) -> bool>,
) -> Result<Vec<f32>> {
    let cancels = &[cancel];
    let stop = || Cancel::check(cancels).is_err();
    loop {
        let until = progress.is_some().then(|| Instant::now() + SLICE);
        let is_done = encoding.advance(encoder, &StepBudget::until(&stop, until))?;
        if !is_done && stop() {
            return Err(Cancel::reason(cancels));
        }
        let (done, total) = encoding.progress();
        if progress.as_mut().is_some_and(|progress| !progress(done as u64, total as u64)) {
            return Err(Error::Cancelled);
        }
        if is_done {
            return Ok(encoding.rows);
        }
    }
}
