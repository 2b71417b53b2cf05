//! The largest tiles of an image that stay within the bounds of a caller.

use super::sizing::{Layout, Sizing};
use crate::error::{Error, Result};

impl Sizing {
    /// Returns this rule, or the next smaller one, by which an image of this size has at most `most_rows` rows and
    /// `most_tiles` tiles, not counting an overview, and the layout by it. `rows` counts the rows of a layout; all
    /// tiles must have equally many.
    ///
    /// # Errors
    /// As `layout`; `TooComplex` if the smallest rule has more.
    pub fn within(
        mut self,
        [width, height]: [usize; 2],
        [most_rows, most_tiles]: [usize; 2],
        rows: impl Fn(&Layout) -> usize,
    ) -> Result<(Sizing, Layout)> {
        let fits = |layout: &Layout| rows(layout) <= most_rows && layout.columns * layout.lines <= most_tiles;
        let mut layout = self.layout(width, height)?;
        if fits(&layout) {
            return Ok((self, layout));
        }
        if let Sizing::LongestEdge { longest, grain, .. } = self {
            // The rows never become fewer as the edge grows; below some edge a side of the image has no pixel.
            let edge = |blocks: usize| self.with_longest(blocks * grain);
            let may_fit = |blocks| edge(blocks).layout(width, height).map_or(true, |layout| fits(&layout));
            let (mut low, mut high) = (0, longest.saturating_sub(1) / grain);
            while low < high {
                let middle = (low + high).div_ceil(2);
                if may_fit(middle) { low = middle } else { high = middle - 1 }
            }
            if low > 0 {
                return Ok((edge(low), edge(low).layout(width, height)?));
            }
        }
        self.skip(&layout, [most_rows, most_tiles], &rows);
        while self.shrink() {
            layout = self.layout(width, height)?;
            if fits(&layout) {
                return Ok((self, layout));
            }
        }
        let n = rows(&layout);
        Err(Error::TooComplex(format!(
            "a picture of {width} x {height} has {n} rows; it must have at most {most_rows}"
        )))
    }

    fn with_longest(mut self, edge: usize) -> Sizing {
        if let Sizing::LongestEdge { longest, .. } = &mut self {
            *longest = edge;
        }
        self
    }

    /// Skips the rules that allow so many tiles that the best grid of each has too many. `layout`: one that has.
    fn skip(&mut self, layout: &Layout, [most_rows, most_tiles]: [usize; 2], rows: &impl Fn(&Layout) -> usize) {
        let n_tiles = layout.columns * layout.lines;
        let of_tile = rows(&Layout { columns: 1, lines: 1, overview: false, ..*layout }).max(1);
        let of_overview = rows(layout).saturating_sub(n_tiles.saturating_mul(of_tile));
        let fitting = (most_rows.saturating_sub(of_overview) / of_tile).min(most_tiles);
        match self {
            // With more tiles allowed, the best grid is either the same one or has all of them. A single tile has no
            // overview and needs fewer rows, so the rule of two tiles stays.
            Sizing::SplitRatio { min_tiles, max_tiles, .. } | Sizing::SplitLarge { min_tiles, max_tiles, .. } => {
                *max_tiles = (*max_tiles).min(fitting.max(2) + 1);
                *min_tiles = (*min_tiles).min(*max_tiles);
            }
            Sizing::Canvas { max_tiles, .. } => *max_tiles = (*max_tiles).min(fitting.max(2) + 1),
            // The best grid has all tiles, or all but one.
            Sizing::Slices { max_tiles, .. } => *max_tiles = (*max_tiles).min(fitting.max(2) + 2),
            Sizing::Square { .. }
            | Sizing::ShortestEdge { .. }
            | Sizing::Expanded { .. }
            | Sizing::Area { .. }
            | Sizing::Rows { .. }
            | Sizing::LongestEdge { .. }
            | Sizing::Padded { .. }
            | Sizing::Fitted { .. }
            | Sizing::Filled { .. }
            | Sizing::Pinpoints { .. }
            | Sizing::SplitLongest { .. } => {}
        }
    }

    /// Makes this the next smaller rule; false if there is none.
    fn shrink(&mut self) -> bool {
        match self {
            Sizing::SplitLongest { longest, tile, .. } => {
                let is_smaller = *longest > *tile;
                *longest = ((*longest - 1) / *tile * *tile).max(1);
                is_smaller
            }
            // Padding may have added more than the bound leaves room for.
            Sizing::Padded { most, .. } => {
                let is_smaller = *most > 1;
                *most = (*most * 15 / 16).max(1);
                is_smaller
            }
            Sizing::SplitRatio { min_tiles, max_tiles, .. } | Sizing::SplitLarge { min_tiles, max_tiles, .. } => {
                let is_smaller = *max_tiles > 1;
                *max_tiles -= usize::from(is_smaller);
                *min_tiles = (*min_tiles).min(*max_tiles);
                is_smaller
            }
            Sizing::Canvas { max_tiles, .. } | Sizing::Slices { max_tiles, .. } => {
                let is_smaller = *max_tiles > 1;
                *max_tiles -= usize::from(is_smaller);
                is_smaller
            }
            Sizing::Square { .. }
            | Sizing::ShortestEdge { .. }
            | Sizing::Expanded { .. }
            | Sizing::Area { .. }
            | Sizing::Rows { .. }
            | Sizing::LongestEdge { .. }
            | Sizing::Fitted { .. }
            | Sizing::Filled { .. }
            | Sizing::Pinpoints { .. } => false,
        }
    }
}
