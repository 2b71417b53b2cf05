//! The splitting of an image into tiles, row by row.

use super::picture::{Part, Picture};
use super::resample::{Filter, Resizing};
use super::sizing::{Layout, Sizing, fitted, shortest_edge, shrunk, split_longest, within_canvas, within_rounded};
use crate::error::{Result, try_vec};

/// The steps from an image to all of its tiles, joined.
struct Plan {
    /// Size after resizing; next, the part that is kept.
    size: [usize; 2],
    part: Part,
    /// Side and color of the square to which the image is padded first.
    within: Option<(usize, [u8; 3])>,
    /// A second size to resize to.
    then: Option<[usize; 2]>,
    /// The image's corner within a black image of the size of all tiles together.
    corner: Option<[usize; 2]>,
}

impl Plan {
    fn new(sizing: &Sizing, [width, height]: [usize; 2], seen: [usize; 2]) -> Plan {
        let whole = |[width, height]: [usize; 2]| Plan {
            size: [width, height],
            part: Part { x: 0, y: 0, width, height },
            within: None,
            then: None,
            corner: None,
        };
        let padded = |(width, height), corner| Plan { corner: Some(corner), ..whole([width, height]) };
        match *sizing {
            Sizing::ShortestEdge { side, .. } => {
                let (width, height) = shortest_edge(width, height, side);
                let part = Part { x: (width - side) / 2, y: (height - side) / 2, width: side, height: side };
                Plan { part, ..whole([width, height]) }
            }
            Sizing::Expanded { color, .. } => Plan { within: Some((width.max(height), color)), ..whole(seen) },
            Sizing::SplitLongest { longest, tile, .. } => {
                let ((width, height), _) = split_longest(width, height, longest, tile);
                Plan { then: Some(seen), ..whole([width, height]) }
            }
            Sizing::Pinpoints { .. } => {
                let (width, height) = fitted(width, height, seen[0], seen[1]);
                padded((width, height), [(seen[0] - width) / 2, (seen[1] - height) / 2])
            }
            Sizing::Padded { patch, most, longest, .. } => padded(shrunk(width, height, patch, most, longest), [0, 0]),
            Sizing::Fitted { least, .. } => padded(within_rounded([width, height], seen, least), [0, 0]),
            Sizing::Canvas { tile, .. } => padded(within_canvas([width, height], seen, tile), [0, 0]),
            Sizing::Square { .. }
            | Sizing::Area { .. }
            | Sizing::SplitLarge { .. }
            | Sizing::Rows { .. }
            | Sizing::LongestEdge { .. }
            | Sizing::Filled { .. }
            | Sizing::Slices { .. }
            | Sizing::SplitRatio { .. } => whole(seen),
        }
    }
}

/// The tiles of an image in row order, then the overview.
pub struct Tiling {
    sizing: Sizing,
    layout: Layout,
    plan: Plan,
    /// The resizing in progress.
    resizing: Option<Resizing>,
    /// All tiles together, after resizing; next, true if the second size has been reached.
    whole: Option<Picture>,
    is_second: bool,
    tiles: Vec<Picture>,
}

impl Tiling {
    /// Begins the work on an image that has this layout.
    pub fn new(sizing: Sizing, layout: Layout) -> Result<Tiling> {
        let plan = Plan::new(&sizing, [layout.width, layout.height], [layout.seen_width, layout.seen_height]);
        let tiles = try_vec("tiles", layout.n_tiles())?;
        Ok(Tiling { sizing, layout, plan, resizing: None, whole: None, is_second: false, tiles })
    }

    /// Continues the work. Returns true when all is done, false when `pauses` returned true before a row.
    pub fn advance(&mut self, picture: &Picture, pauses: &mut dyn FnMut() -> bool) -> Result<bool> {
        let (filter, Layout { tile_width, tile_height, columns, lines, .. }) = (self.sizing.filter(), self.layout);
        let n_tiles = self.layout.n_tiles();
        while self.tiles.len() < n_tiles {
            let is_overview = self.layout.overview && self.tiles.len() + 1 == n_tiles;
            let is_second = self.whole.is_some() && !self.is_second && self.plan.then.is_some();
            // Idefics3 shrinks the enlarged image, other models shrink the original image.
            let of_whole = is_second || is_overview && matches!(self.sizing, Sizing::SplitLongest { .. });
            let from = self.whole.as_ref().filter(|_| of_whole).unwrap_or(picture);
            if self.resizing.is_none() {
                self.resizing = match (&self.whole, self.plan.then.filter(|_| is_second)) {
                    (None, _) => Some(self.plan.first(from, filter)?),
                    (Some(_), Some(size)) => Some(Resizing::whole(from, size, filter)?),
                    (Some(_), None) if is_overview => {
                        Some(Resizing::whole(from, [self.layout.overview_width, self.layout.overview_height], filter)?)
                    }
                    (Some(_), None) => None,
                };
            }
            let made = match &mut self.resizing {
                Some(resizing) => match resizing.advance(from, pauses)? {
                    Some(made) => Some(made),
                    None => return Ok(false),
                },
                None => None,
            };
            self.resizing = None;
            match made {
                Some(made) if self.whole.is_none() || is_second => {
                    self.is_second = is_second;
                    self.whole = Some(match self.plan.corner {
                        Some(corner) => made.padded(self.layout.seen_width, self.layout.seen_height, corner)?,
                        None => made,
                    });
                }
                Some(overview) => self.tiles.push(overview),
                None if n_tiles == 1 => self.tiles.extend(self.whole.take()),
                None => {
                    let Some(whole) = &self.whole else { return Ok(false) };
                    let i = self.tiles.len();
                    let (x, y) = (i % columns.max(1) * tile_width, i / columns.max(1) % lines.max(1) * tile_height);
                    self.tiles.push(whole.crop(Part { x, y, width: tile_width, height: tile_height })?);
                }
            }
        }
        Ok(true)
    }

    /// Returns the tiles, when all are done.
    pub fn finish(self) -> Vec<Picture> {
        self.tiles
    }
}

impl Plan {
    fn first(&self, picture: &Picture, filter: Filter) -> Result<Resizing> {
        match self.within {
            Some((side, color)) => Resizing::within(picture, side, color, self.size[0], filter),
            None => Resizing::part(picture, self.size, self.part, filter),
        }
    }
}

impl Sizing {
    /// Returns the tiles of an image in row order, then the overview. `layout` must be the layout for the size of
    /// `picture`.
    pub fn tiles(&self, picture: &Picture, layout: &Layout) -> Result<Vec<Picture>> {
        let mut tiling = Tiling::new(*self, *layout)?;
        tiling.advance(picture, &mut || false)?;
        Ok(tiling.finish())
    }
}
