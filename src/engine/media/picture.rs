//! Image input: tiles within the caller's bounds, their rows, and the tokens around and between them.

use super::encoder::{Encoder, Run};
use super::item::{MediaLayout, MediaPart};
use crate::error::{Error, Result};
use crate::media::{Layout, MAX_SIDE, Sizing};

/// Default maximum number of rows of an image.
pub const MOST_ROWS: usize = 4096;

/// The caller's bounds for an image; 0: the encoder's.
#[derive(Clone, Copy, Default)]
pub struct PictureBounds {
    pub min_rows: usize,
    pub max_rows: usize,
    /// Maximum number of tiles, without the overview.
    pub max_tiles: usize,
}

/// Returns the tiling rule within bounds, and the tiles of an image of this size.
pub(super) fn fitted(
    encoder: &Encoder,
    [width, height]: [usize; 2],
    bounds: PictureBounds,
) -> Result<(Sizing, Layout)> {
    let facts = encoder.facts();
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

/// Returns the layout of an image of this size.
pub fn measure(encoder: &Encoder, size: [usize; 2], bounds: PictureBounds) -> Result<MediaLayout> {
    media_layout(encoder, size, &fitted(encoder, size, bounds)?.1)
}

/// Returns text that differs between encoders with different rows for the same image.
pub(super) fn made_by(encoder: &Encoder) -> String {
    let facts = encoder.facts();
    let of = (&facts.projector, facts.patch, facts.merge, facts.mean, facts.std, facts.row_dim);
    format!("{:016x} {of:?}", encoder.digest())
}

pub(super) fn media_layout(encoder: &Encoder, size: [usize; 2], layout: &Layout) -> Result<MediaLayout> {
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
        ..MediaLayout::default()
    })
}

pub(super) fn media_parts(runs: Vec<Run>) -> Vec<MediaPart> {
    let parts = |run| match run {
        Run::Rows(n) => vec![MediaPart::Rows(n)],
        Run::Tokens(tokens) => tokens.into_iter().map(MediaPart::Token).collect(),
    };
    runs.into_iter().flat_map(parts).collect()
}

/// Returns the minimum and maximum rows of an image, and the layout of the largest tile.
pub fn extent(encoder: &Encoder, max_rows: usize) -> Result<([usize; 2], Layout)> {
    let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
    let (_, least) = fitted(encoder, [1, 1], bounds)?;
    let (mut rows, mut largest) = ([encoder.facts().n_rows(&least); 2], least);
    // Some aspect ratios have more tiles than others.
    let sides = (1..=12).flat_map(|width| (1..=12).map(move |height| [width, height].map(|x| MAX_SIDE / 12 * x)));
    for size in sides {
        let (_, layout) = fitted(encoder, size, bounds)?;
        let n_rows = encoder.facts().n_rows(&layout);
        rows = [rows[0].min(n_rows), rows[1].max(n_rows)];
        if encoder.facts().n_patches(&layout) > encoder.facts().n_patches(&largest) {
            largest = layout;
        }
    }
    Ok((rows, largest))
}
