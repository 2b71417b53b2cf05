//! Image input: rows of tiles, and the tokens around and between them.

use super::bounds::{PictureBounds, fitted};
use super::encoder::{Encoder, Run};
use super::item::{MediaLayout, MediaPart};
use crate::error::Result;
use crate::media::Layout;

/// Returns the layout of an image of this size.
pub fn measure(encoder: &Encoder, size: [usize; 2], bounds: PictureBounds) -> Result<MediaLayout> {
    media_layout(encoder, size, &fitted(encoder.facts(), size, bounds)?.1)
}

/// Returns text that differs between encoders with different rows for the same image.
pub(super) fn made_by(encoder: &Encoder) -> String {
    let facts = encoder.facts();
    let of = (&facts.projector, facts.patch, facts.merge, facts.mean, facts.std, facts.row_dim);
    format!("{} {of:?}", encoder.identity())
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
