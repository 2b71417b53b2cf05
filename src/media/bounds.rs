//! The largest image tiles within a caller's limits.

use super::sizing::{Layout, Sizing};
use crate::error::{Error, Result};

impl Sizing {
    /// Returns the layout of an image by this rule, or by the largest smaller rule with which the image has at most
    /// `most_rows` rows and `most_tiles` tiles (without the overview); also returns that rule. `rows` counts the rows
    /// of a layout; all tiles must have equally many.
    ///
    /// # Errors
    /// As `layout`; `TooComplex` if even the smallest rule exceeds the limits.
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
            // The number of rows never decreases as the edge grows; below some edge a side of the image has no pixels.
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

    /// Skips rules whose limit on tiles allows a best grid with too many tiles. `layout` must be such a grid.
    fn skip(&mut self, layout: &Layout, [most_rows, most_tiles]: [usize; 2], rows: &impl Fn(&Layout) -> usize) {
        let n_tiles = layout.columns * layout.lines;
        let of_tile = rows(&Layout { columns: 1, lines: 1, overview: false, ..*layout }).max(1);
        let of_overview = rows(layout).saturating_sub(n_tiles.saturating_mul(of_tile));
        let fitting = (most_rows.saturating_sub(of_overview) / of_tile).min(most_tiles);
        match self {
            // With a higher limit, the best grid is either the same one or has the maximum number of tiles. A single
            // tile has no overview and needs fewer rows, so the rule of two tiles stays.
            Sizing::SplitRatio { min_tiles, max_tiles, .. } | Sizing::SplitLarge { min_tiles, max_tiles, .. } => {
                *max_tiles = (*max_tiles).min(fitting.max(2) + 1);
                *min_tiles = (*min_tiles).min(*max_tiles);
            }
            Sizing::Canvas { max_tiles, .. } => *max_tiles = (*max_tiles).min(fitting.max(2) + 1),
            // The best grid has the maximum number of tiles, or one less.
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

    /// Changes this rule to the next smaller one; returns false if there is none.
    fn shrink(&mut self) -> bool {
        match self {
            Sizing::SplitLongest { longest, tile, .. } => {
                let is_smaller = *longest > *tile;
                *longest = ((*longest - 1) / *tile * *tile).max(1);
                is_smaller
            }
            // Padding may have added more than the limit allows.
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
