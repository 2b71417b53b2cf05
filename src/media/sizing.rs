//! The rules by which families of models resize pictures and cut them into tiles. They are the makers' in their own
//! arithmetic: double precision, Python's rounding.

use super::picture::{MAX_SIDE, Part, Picture};
use super::resample::Filter;
use crate::error::{Error, Result, try_vec};

/// The most pixels of all tiles of a picture.
const MAX_SEEN: usize = 1 << 26;

/// The most tiles of a picture.
const MAX_TILES: usize = 1024;

/// The most by which the sides of a picture that keeps its area may differ.
const MAX_RATIO: f64 = 200.0;

/// The rule by which a family makes tiles of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// Stretched to a square (Gemma 3).
    Square { side: usize, filter: Filter },
    /// The shorter edge becomes `side`, and the middle is taken (LLaVA 1.5).
    ShortestEdge { side: usize, filter: Filter },
    /// Sides that are multiples of `grain`, with `least` to `most` pixels (Qwen).
    Area { grain: usize, least: usize, most: usize, filter: Filter },
    /// Sides of at most `longest`, then up to multiples of `grain` (Pixtral, Mistral 3).
    LongestEdge { longest: usize, grain: usize, filter: Filter },
    /// The longer edge becomes `longest`, both go up to multiples of `tile`, and an overview follows (Idefics3).
    SplitLongest { longest: usize, tile: usize, filter: Filter },
    /// The grid of tiles whose proportions are closest, and an overview (InternVL).
    SplitRatio { tile: usize, min_tiles: usize, max_tiles: usize, filter: Filter },
}

/// The tiles of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub tile_width: usize,
    pub tile_height: usize,
    /// Tiles beside one another; 1, and one line, where the picture is one tile.
    pub columns: usize,
    /// Lines of tiles.
    pub lines: usize,
    /// A tile with the whole picture follows.
    pub overview: bool,
    /// Pixels of all tiles together, without the overview.
    pub seen_width: usize,
    pub seen_height: usize,
}

impl Layout {
    /// Number of tiles, the overview too.
    pub fn n_tiles(&self) -> usize {
        self.columns * self.lines + usize::from(self.overview)
    }
}

impl Sizing {
    /// The tiles that a picture of this size gives.
    ///
    /// # Errors `InvalidArgument` for sides that differ by more than the rule allows and a rule without sense,
    /// `TooComplex` for tiles with too many pixels.
    pub fn layout(&self, width: usize, height: usize) -> Result<Layout> {
        self.check()?;
        if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
            return Err(Error::invalid(format!("a picture of {width} x {height}: sides are 1 to {MAX_SIDE}")));
        }
        // The tile, and the grid of tiles.
        let ((tile_width, tile_height), (columns, lines)) = match *self {
            Sizing::Square { side, .. } | Sizing::ShortestEdge { side, .. } => ((side, side), (1, 1)),
            Sizing::Area { grain, least, most, .. } => (area(width, height, grain, least, most)?, (1, 1)),
            Sizing::LongestEdge { longest, grain, .. } => (longest_edge(width, height, longest, grain), (1, 1)),
            Sizing::SplitLongest { longest, tile, .. } => {
                let (_, whole) = split_longest(width, height, longest, tile);
                ((tile, tile), (whole.0 / tile, whole.1 / tile))
            }
            Sizing::SplitRatio { tile, min_tiles, max_tiles, .. } => {
                ((tile, tile), split_ratio(width, height, tile, min_tiles, max_tiles))
            }
        };
        if tile_width == 0 || tile_height == 0 {
            return Err(Error::invalid(format!("a picture of {width} x {height}: the sides differ too much")));
        }
        let (seen_width, seen_height) = (columns.saturating_mul(tile_width), lines.saturating_mul(tile_height));
        if seen_width.saturating_mul(seen_height) > MAX_SEEN {
            let what = format!("{seen_width} x {seen_height} pixels, of at most {MAX_SEEN}");
            return Err(Error::TooComplex(format!("a picture of {width} x {height} becomes {what}")));
        }
        let overview = columns * lines > 1;
        Ok(Layout { tile_width, tile_height, columns, lines, overview, seen_width, seen_height })
    }

    /// The tiles of a picture row by row, then the overview. `layout` is that of the picture's size.
    pub fn tiles(&self, picture: &Picture, layout: &Layout) -> Result<Vec<Picture>> {
        let (seen_width, seen_height) = (layout.seen_width, layout.seen_height);
        let (width, height) = (picture.width, picture.height);
        let filter = self.filter();
        let whole = match *self {
            Sizing::ShortestEdge { side, .. } => {
                let (width, height) = shortest_edge(width, height, side);
                let middle = Part { x: (width - side) / 2, y: (height - side) / 2, width: side, height: side };
                picture.resize_part(width, height, middle, filter)?
            }
            Sizing::SplitLongest { longest, tile, .. } => {
                let (first, _) = split_longest(width, height, longest, tile);
                picture.resize(first.0, first.1, filter)?.resize(seen_width, seen_height, filter)?
            }
            _ => picture.resize(seen_width, seen_height, filter)?,
        };
        let mut tiles = try_vec("tiles", layout.n_tiles())?;
        if layout.n_tiles() == 1 {
            tiles.push(whole);
            return Ok(tiles);
        }
        let (tile_width, tile_height) = (layout.tile_width, layout.tile_height);
        for i in 0..layout.columns * layout.lines {
            let (x, y) = (i % layout.columns * tile_width, i / layout.columns * tile_height);
            tiles.push(whole.crop(Part { x, y, width: tile_width, height: tile_height })?);
        }
        if layout.overview {
            // Idefics3 shrinks the enlarged picture, InternVL the picture itself.
            let of = if matches!(self, Sizing::SplitLongest { .. }) { &whole } else { picture };
            tiles.push(of.resize(tile_width, tile_height, filter)?);
        }
        Ok(tiles)
    }

    fn filter(&self) -> Filter {
        match *self {
            Sizing::Square { filter, .. }
            | Sizing::ShortestEdge { filter, .. }
            | Sizing::Area { filter, .. }
            | Sizing::LongestEdge { filter, .. }
            | Sizing::SplitLongest { filter, .. }
            | Sizing::SplitRatio { filter, .. } => filter,
        }
    }

    /// Refuses numbers, which come from files, that no tile can have.
    fn check(&self) -> Result<()> {
        let sides = match *self {
            Sizing::Square { side, .. } | Sizing::ShortestEdge { side, .. } => [side, 1],
            Sizing::Area { grain, .. } => [grain, 1],
            Sizing::LongestEdge { longest, grain, .. } => [longest, grain],
            Sizing::SplitLongest { longest, tile, .. } => [longest, tile],
            Sizing::SplitRatio { tile, .. } => [tile, 1],
        };
        let is_in_order = match *self {
            Sizing::Area { least, most, .. } => 0 < most && least <= most && most <= MAX_SEEN,
            Sizing::SplitRatio { min_tiles, max_tiles, .. } => min_tiles <= max_tiles && max_tiles <= MAX_TILES,
            _ => true,
        };
        if is_in_order && sides.iter().all(|side| (1..=MAX_SIDE).contains(side)) {
            return Ok(());
        }
        Err(Error::invalid(format!("sizes of pictures that make no sense: {self:?}")))
    }
}

/// The size whose middle is taken.
fn shortest_edge(width: usize, height: usize, side: usize) -> (usize, usize) {
    if height <= width { (side * width / height, side) } else { (side, side * height / width) }
}

/// `smart_resize`.
fn area(width: usize, height: usize, grain: usize, least: usize, most: usize) -> Result<(usize, usize)> {
    let (w, h, f) = (width as f64, height as f64, grain as f64);
    if w.max(h) / w.min(h) > MAX_RATIO {
        let what = format!("a picture of {width} x {height}: one side may be {MAX_RATIO} times the other at most");
        return Err(Error::invalid(what));
    }
    let sides = |side: fn(f64, f64, f64) -> f64, beta: f64| (side(w, beta, f) * f, side(h, beta, f) * f);
    let (mut new_w, mut new_h) = sides(|x, _, f| (x / f).round_ties_even(), 1.0);
    if new_w * new_h > most as f64 {
        (new_w, new_h) = sides(|x, beta, f| (x / beta / f).floor().max(1.0), (h * w / most as f64).sqrt());
    } else if new_w * new_h < least as f64 {
        (new_w, new_h) = sides(|x, beta, f| (x * beta / f).ceil(), (least as f64 / (h * w)).sqrt());
    }
    Ok((new_w as usize, new_h as usize))
}

fn longest_edge(width: usize, height: usize, longest: usize, grain: usize) -> (usize, usize) {
    let ratio = (height as f64 / longest as f64).max(width as f64 / longest as f64);
    let side = |x: usize| if ratio > 1.0 { (x as f64 / ratio).floor() as usize } else { x };
    (side(width).next_multiple_of(grain), side(height).next_multiple_of(grain))
}

/// The size after the first resize, and that after the second, whole tiles.
fn split_longest(width: usize, height: usize, longest: usize, tile: usize) -> ((usize, usize), (usize, usize)) {
    /// Beyond it the makers shrink the first size; published models stay below.
    const MOST: f64 = 4096.0;
    let (edge, ratio) = (longest as f64, width as f64 / height as f64);
    let even = |x: f64| (x as usize).next_multiple_of(2).max(1);
    let (mut w, mut h) = if width >= height { (longest, even(edge / ratio)) } else { (even(edge * ratio), longest) };
    // The proportions of the new sides from here on: the added pixel may have exchanged the longer one.
    if w.max(h) as f64 > MOST {
        let ratio = w as f64 / h as f64;
        let sides = if w >= h { (MOST, MOST / ratio) } else { (MOST * ratio, MOST) };
        (w, h) = ((sides.0 as usize).max(1), (sides.1 as usize).max(1));
    }
    let ratio = w as f64 / h as f64;
    let up = |x: usize| x.div_ceil(tile) * tile;
    let whole = if w >= h {
        (up(w), up((up(w) as f64 / ratio) as usize))
    } else {
        (up((up(h) as f64 * ratio) as usize), up(h))
    };
    ((w, h), whole)
}

/// Columns and lines of the grid whose proportions are closest.
fn split_ratio(width: usize, height: usize, tile: usize, min_tiles: usize, max_tiles: usize) -> (usize, usize) {
    let ratio = width as f64 / height as f64;
    let (mut best, mut closest) = ((1, 1), f64::INFINITY);
    for tiles in min_tiles.max(1)..=max_tiles {
        for columns in (1..=tiles).filter(|&columns| tiles.is_multiple_of(columns)) {
            let lines = tiles / columns;
            let off = (ratio - columns as f64 / lines as f64).abs();
            let is_large = width as f64 * height as f64 > 0.5 * tile as f64 * tile as f64 * tiles as f64;
            if off < closest || off == closest && is_large {
                (best, closest) = ((columns, lines), off);
            }
        }
    }
    best
}
