//! The caller's bounds for media, and the largest tile or audio part within them.

use crate::error::{Error, Result};
use crate::media::{Layout, MAX_SIDE, Sizing};
use crate::model::vision::{Facts, SoundFacts, SoundPart};

/// Default maximum number of rows of an image or audio.
pub const MOST_ROWS: usize = 4096;

/// The caller's bounds for an image; 0: the encoder's.
#[derive(Clone, Copy, Default)]
pub struct PictureBounds {
    pub min_rows: usize,
    pub max_rows: usize,
    /// Maximum number of tiles, without the overview.
    pub max_tiles: usize,
}

/// The extent of media within a bound of rows.
pub struct Extent {
    /// Minimum and maximum number of rows.
    pub rows: [usize; 2],
    /// Patches and rows of the largest tile, or hidden states and rows of the largest audio part.
    pub tile: [usize; 2],
}

/// Returns the tiling rule within bounds, and the tiles of an image of this size.
pub(super) fn fitted(facts: &Facts, [width, height]: [usize; 2], bounds: PictureBounds) -> Result<(Sizing, Layout)> {
    if facts.sound.is_some() {
        return Err(Error::unsupported("cannot encode a picture: the encoder is one of sound"));
    }
    let or = |n: usize, default: usize| if n == 0 { default } else { n };
    let (most, max_tiles) = (or(bounds.max_rows, MOST_ROWS), or(bounds.max_tiles, usize::MAX));
    let (mut sizing, of_row) = (facts.sizing, (facts.patch * facts.merge).pow(2));
    if let Sizing::Area { least, most: most_pixels, .. } | Sizing::Fitted { least, most: most_pixels, .. } = &mut sizing
    {
        *most_pixels = (*most_pixels).min(most.saturating_mul(of_row));
        *least = (*least).max(bounds.min_rows.saturating_mul(of_row)).min(*most_pixels);
    }
    if let Sizing::Rows { rows, most: highest, .. } = &mut sizing {
        let asked = or(bounds.max_rows, (*rows).max(bounds.min_rows));
        *rows = asked.min(*highest);
    }
    if let Sizing::Padded { most: patches, .. } = &mut sizing {
        *patches = (*patches).min(most.saturating_mul(facts.merge * facts.merge));
    }
    sizing.within([width, height], [most, max_tiles], |layout| facts.n_rows(layout))
}

pub(super) fn most_rows(max_rows: usize) -> usize {
    if max_rows == 0 { MOST_ROWS } else { max_rows }
}

/// Returns the extent of images or audio of at most `max_rows` rows; 0: the default bound.
pub fn extent(facts: &Facts, max_rows: usize) -> Result<Extent> {
    if let Some(sound) = &facts.sound {
        return sound_extent(sound, max_rows);
    }
    let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
    let (_, least) = fitted(facts, [1, 1], bounds)?;
    let (mut rows, mut largest) = ([facts.n_rows(&least); 2], least);
    // Some aspect ratios have more tiles than others.
    let sides = (1..=12).flat_map(|width| (1..=12).map(move |height| [width, height].map(|x| MAX_SIDE / 12 * x)));
    for size in sides {
        let (_, layout) = fitted(facts, size, bounds)?;
        let n_rows = facts.n_rows(&layout);
        rows = [rows[0].min(n_rows), rows[1].max(n_rows)];
        if facts.n_patches(&layout) > facts.n_patches(&largest) {
            largest = layout;
        }
    }
    Ok(Extent { rows, tile: [facts.n_patches(&largest), facts.most_rows(&largest)] })
}

fn sound_extent(facts: &SoundFacts, max_rows: usize) -> Result<Extent> {
    let samples = facts.most_samples(most_rows(max_rows));
    // Two parts cover all cases: a complete one and its continuation.
    let parts = facts.parts(samples.min(2 * facts.part_samples()))?;
    let most = |of: fn(&SoundPart) -> usize| parts.iter().map(of).max().unwrap_or(0);
    let tile = [most(|part| part.n), most(|part| part.rows)];
    Ok(Extent { rows: [facts.fewest_rows(), most_rows(max_rows)], tile })
}
