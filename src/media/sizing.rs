//! The rules by which model families resize images and split them into tiles. They reproduce the arithmetic of the
//! reference implementations: double precision, Python's rounding.

use super::grids::{canvas, sliced, split_ratio};
use super::picture::MAX_SIDE;
use super::resample::Filter;
use crate::error::{Error, Result};

/// Maximum number of pixels of all tiles of an image.
const MAX_SEEN: usize = 1 << 26;

/// Maximum number of tiles of an image.
const MAX_TILES: usize = 1024;

/// Maximum number of tiles along an edge, if the longest edge determines the number.
pub const MAX_COLUMNS: usize = 32;

/// Maximum aspect ratio of an image that keeps its area.
const MAX_RATIO: f64 = 200.0;

/// The rule by which a model family splits an image into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// Resized to a square (Gemma 3).
    Square { side: usize, filter: Filter },
    /// The shorter edge becomes `side`, and the middle is cropped (CLIP).
    ShortestEdge { side: usize, filter: Filter },
    /// Padded on both sides to a square of one color, which is resized (LLaVA 1.5).
    Expanded { side: usize, color: [u8; 3], filter: Filter },
    /// Sides are multiples of `grain`, with `least` to `most` pixels (Qwen), in all `frames` of a video together if
    /// there are several.
    Area { grain: usize, least: usize, most: usize, frames: usize, narrow: Narrow, filter: Filter },
    /// As `Area`, for images of up to `large` pixels. Larger images have the grid of tiles with the closest aspect
    /// ratio, and an overview of the size by `Area` (LFM2). `patch`: side of the smallest size.
    SplitLarge {
        grain: usize,
        patch: usize,
        least: usize,
        most: usize,
        large: usize,
        tile: usize,
        min_tiles: usize,
        max_tiles: usize,
        filter: Filter,
    },
    /// Sides are multiples of `grain` with the aspect ratio of the image, for at most `rows` blocks of `grain` by
    /// `grain` pixels; a caller may request up to `most` (Gemma 4).
    Rows { grain: usize, rows: usize, most: usize, filter: Filter },
    /// Sides of at most `longest`, then rounded up to multiples of `grain` (Pixtral, Mistral 3).
    LongestEdge { longest: usize, grain: usize, filter: Filter },
    /// Never enlarged; sides of at most `longest` with about `most` patches of side `patch`, then padded with black on
    /// the right and bottom to multiples of `grain` (Kimi).
    Padded { patch: usize, grain: usize, most: usize, longest: usize, filter: Filter },
    /// Sides rounded up to multiples of `grain`, with `least` to `most` pixels. The image is fitted into them with its
    /// aspect ratio, enlarged only if it has fewer than `least` pixels, and padded with black on the right and bottom
    /// (GLM 5 Next).
    Fitted { grain: usize, least: usize, most: usize, filter: Filter },
    /// Close to, and at most, `most` patches of side `patch`, with about the aspect ratio of the image (SigLIP 2).
    Filled { patch: usize, most: usize, filter: Filter },
    /// The grid that shows the most pixels, the smallest among equals; the image is fitted into it with its aspect
    /// ratio and padded with black, and an overview follows (LLaVA 1.6).
    Pinpoints { tile: usize, grids: Grids, filter: Filter },
    /// The grid that enlarges the image least without shrinking it, or else shrinks it least, the smallest among
    /// equals. The image is fitted into it with its aspect ratio, enlarged at most to a tile, and padded with black on
    /// the right and bottom. An overview follows (Llama 4).
    Canvas { tile: usize, max_tiles: usize, filter: Filter },
    /// Sides are multiples of `patch`, with about the area of a square of `side`. A larger image gives an overview, and
    /// slices of that area in the grid with the closest aspect ratio (MiniCPM-V).
    Slices { side: usize, patch: usize, max_tiles: usize, filter: Filter },
    /// The longer edge becomes `longest`, both are rounded up to multiples of `tile`, and an overview follows
    /// (Idefics3).
    SplitLongest { longest: usize, tile: usize, filter: Filter },
    /// The grid of tiles with the closest aspect ratio, and an overview (InternVL).
    SplitRatio { tile: usize, min_tiles: usize, max_tiles: usize, filter: Filter },
}

/// The candidate grids of `Sizing::Pinpoints`, columns and lines of each, padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grids(pub [[u8; 2]; 16]);

impl Grids {
    fn all(&self) -> impl Iterator<Item = [usize; 2]> + '_ {
        self.0.iter().map(|grid| grid.map(usize::from)).filter(|grid| !grid.contains(&0))
    }
}

/// The size that `Sizing::Area` uses for an image that is narrower than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// Unchanged (Qwen).
    Own,
    /// Enlarged, truncated to whole pixels (GLM).
    Cut,
    /// Enlarged, rounded (PaddleOCR).
    Rounded,
}

/// The tiles of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub tile_width: usize,
    pub tile_height: usize,
    /// Number of columns of tiles; 1 for a single tile.
    pub columns: usize,
    /// Number of lines of tiles; 1 for a single tile.
    pub lines: usize,
    /// True if a tile with the whole image follows.
    pub overview: bool,
    pub overview_width: usize,
    pub overview_height: usize,
    /// Size of the image in pixels.
    pub width: usize,
    pub height: usize,
    /// Size of all tiles together in pixels, without the overview; for a video, of a frame.
    pub seen_width: usize,
    pub seen_height: usize,
    /// Number of frame pairs of a video, each of which is a tile; 0 for an image.
    pub pairs: usize,
}

impl Layout {
    /// Returns the number of tiles, including the overview.
    pub fn n_tiles(&self) -> usize {
        self.columns * self.lines * self.pairs.max(1) + usize::from(self.overview)
    }

    /// Returns the layout of `pairs` frame pairs, given this layout of a frame.
    ///
    /// # Errors
    /// `TooComplex` for pairs with too many pixels.
    pub fn repeated(self, pairs: usize) -> Result<Layout> {
        let seen = self.seen_width.saturating_mul(self.seen_height).saturating_mul(pairs);
        if seen > MAX_SEEN {
            let what = format!("{pairs} pairs of frames become {seen} pixels; they must be at most {MAX_SEEN}");
            return Err(Error::TooComplex(what));
        }
        Ok(Layout { pairs, ..self })
    }

    /// Returns width and height of tile `i`.
    pub fn tile(&self, i: usize) -> [usize; 2] {
        match self.overview && i + 1 == self.n_tiles() {
            true => [self.overview_width, self.overview_height],
            false => [self.tile_width, self.tile_height],
        }
    }
}

impl Sizing {
    /// Returns the tiles of an image of this size.
    ///
    /// # Errors
    /// `InvalidArgument` for an aspect ratio beyond the limit of the rule or for an invalid rule, `TooComplex` for
    /// tiles with too many pixels.
    pub fn layout(&self, width: usize, height: usize) -> Result<Layout> {
        self.check()?;
        if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
            return Err(Error::invalid(format!(
                "the picture has {width} x {height} pixels; sides must be from 1 to {MAX_SIDE}"
            )));
        }
        let mut overview_size = None;
        // The size of a tile, and of the grid of tiles.
        let ((tile_width, tile_height), (columns, lines)) = match *self {
            Sizing::Square { side, .. } | Sizing::ShortestEdge { side, .. } | Sizing::Expanded { side, .. } => {
                ((side, side), (1, 1))
            }
            Sizing::Area { grain, least, most, frames, narrow, .. } => {
                (area([width, height], grain, [least, most], frames, narrow)?, (1, 1))
            }
            Sizing::SplitLarge { grain, patch, least, most, large, tile, min_tiles, max_tiles, .. } => {
                overview_size = Some(at_least_blocks(width, height, grain, least, most));
                let side = |x: usize| ((x as f64 / grain as f64).round_ties_even() as usize * grain).max(patch);
                let is_large = side(width).saturating_mul(side(height)) > large;
                match overview_size {
                    Some(whole) if !is_large || [min_tiles, max_tiles] == [1, 1] => (whole, (1, 1)),
                    _ => ((tile, tile), split_ratio(width, height, tile, min_tiles, max_tiles)),
                }
            }
            Sizing::Rows { grain, rows, .. } => (within_rows(width, height, grain, rows)?, (1, 1)),
            Sizing::LongestEdge { longest, grain, .. } => (longest_edge(width, height, longest, grain), (1, 1)),
            Sizing::Padded { patch, grain, most, longest, .. } => {
                let (width, height) = shrunk(width, height, patch, most, longest);
                ((width.next_multiple_of(grain), height.next_multiple_of(grain)), (1, 1))
            }
            Sizing::Fitted { grain, least, most, .. } => (rounded_up(width, height, grain, least, most), (1, 1)),
            Sizing::Filled { patch, most, .. } => (filled(width, height, patch, most), (1, 1)),
            Sizing::Pinpoints { tile, grids, .. } => ((tile, tile), pinpoint(width, height, tile, &grids)),
            Sizing::Canvas { tile, max_tiles, .. } => ((tile, tile), canvas(width, height, tile, max_tiles)),
            Sizing::Slices { side, patch, max_tiles, .. } => {
                let whole = [width as f64, height as f64];
                match sliced(width, height, side, max_tiles) {
                    None => (around(whole, side, patch, true), (1, 1)),
                    Some((columns, lines)) => {
                        overview_size = Some(around(whole, side, patch, false));
                        let slice = [(whole[0], columns), (whole[1], lines)]
                            .map(|(side, n)| (side / n as f64).round_ties_even().max(1.0));
                        (around(slice, side, patch, true), (columns, lines))
                    }
                }
            }
            Sizing::SplitLongest { longest, tile, .. } => {
                let (_, whole) = split_longest(width, height, longest, tile);
                ((tile, tile), (whole.0 / tile, whole.1 / tile))
            }
            Sizing::SplitRatio { tile, min_tiles, max_tiles, .. } => {
                ((tile, tile), split_ratio(width, height, tile, min_tiles, max_tiles))
            }
        };
        if tile_width == 0 || tile_height == 0 {
            return Err(Error::invalid(format!(
                "the picture has {width} x {height} pixels; its sides must differ less"
            )));
        }
        let (seen_width, seen_height) = (columns.saturating_mul(tile_width), lines.saturating_mul(tile_height));
        if seen_width.saturating_mul(seen_height) > MAX_SEEN {
            let what = format!("{seen_width} x {seen_height} pixels; they must be at most {MAX_SEEN}");
            return Err(Error::TooComplex(format!("an image of {width} x {height} pixels becomes {what}")));
        }
        let overview = columns * lines > 1 || matches!(self, Sizing::Pinpoints { .. });
        let (overview_width, overview_height) = overview_size.unwrap_or((tile_width, tile_height));
        Ok(Layout {
            tile_width,
            tile_height,
            columns,
            lines,
            overview,
            overview_width,
            overview_height,
            width,
            height,
            seen_width,
            seen_height,
            pairs: 0,
        })
    }

    /// Returns the filter with which images are resized.
    pub fn filter(&self) -> Filter {
        match *self {
            Sizing::Square { filter, .. }
            | Sizing::ShortestEdge { filter, .. }
            | Sizing::Expanded { filter, .. }
            | Sizing::Area { filter, .. }
            | Sizing::SplitLarge { filter, .. }
            | Sizing::Rows { filter, .. }
            | Sizing::LongestEdge { filter, .. }
            | Sizing::Padded { filter, .. }
            | Sizing::Fitted { filter, .. }
            | Sizing::Filled { filter, .. }
            | Sizing::Pinpoints { filter, .. }
            | Sizing::Canvas { filter, .. }
            | Sizing::Slices { filter, .. }
            | Sizing::SplitLongest { filter, .. }
            | Sizing::SplitRatio { filter, .. } => filter,
        }
    }

    /// Rejects numbers from files that no tile can have.
    fn check(&self) -> Result<()> {
        let sides = match *self {
            Sizing::Square { side, .. } | Sizing::ShortestEdge { side, .. } | Sizing::Expanded { side, .. } => {
                [side, 1]
            }
            Sizing::Area { grain, .. } => [grain, 1],
            Sizing::SplitLarge { grain, tile, .. } => [grain, tile],
            Sizing::Rows { grain, rows, .. } => [grain, rows],
            Sizing::LongestEdge { longest, grain, .. } => [longest, grain],
            Sizing::Padded { patch, grain, .. } => [patch, grain],
            Sizing::Fitted { grain, .. } => [grain, 1],
            Sizing::Filled { patch, .. } => [patch, 1],
            Sizing::SplitLongest { longest, tile, .. } => [longest, tile],
            Sizing::SplitRatio { tile, .. } => [tile, 1],
            Sizing::Canvas { tile, max_tiles, .. } => [tile, max_tiles],
            Sizing::Slices { side, patch, .. } => [side, patch],
            Sizing::Pinpoints { tile, grids, .. } => [tile, grids.all().count()],
        };
        let is_in_order = match *self {
            Sizing::Area { least, most, frames, .. } => 0 < most && least <= most && most <= MAX_SEEN && frames > 0,
            Sizing::Padded { most, longest, .. } => most > 0 && (1..=MAX_SEEN).contains(&longest),
            Sizing::Fitted { grain, least, most, .. } => {
                least <= most && most <= MAX_SEEN && grain.saturating_mul(grain) <= most
            }
            Sizing::Filled { most, .. } => (1..=MAX_SEEN).contains(&most),
            Sizing::SplitLongest { longest, tile, .. } => longest <= MAX_COLUMNS.saturating_mul(tile),
            Sizing::SplitRatio { min_tiles, max_tiles, .. } => min_tiles <= max_tiles && max_tiles <= MAX_TILES,
            Sizing::Canvas { max_tiles, .. } | Sizing::Slices { max_tiles, .. } => (1..=MAX_TILES).contains(&max_tiles),
            Sizing::SplitLarge { least, most, min_tiles, max_tiles, .. } => {
                let is_area = 0 < least && least <= most && most <= MAX_SEEN;
                is_area && 0 < min_tiles && min_tiles <= max_tiles && max_tiles <= MAX_TILES
            }
            _ => true,
        };
        if is_in_order && sides.iter().all(|side| (1..=MAX_SIDE).contains(side)) {
            return Ok(());
        }
        Err(Error::invalid(format!("cannot cut pictures by the numbers of the file: {self:?}")))
    }
}

/// Returns the size whose middle is cropped.
pub(super) fn shortest_edge(width: usize, height: usize, side: usize) -> (usize, usize) {
    if height <= width { (side * width / height, side) } else { (side, side * height / width) }
}

/// `smart_resize`.
fn area(
    [width, height]: [usize; 2],
    grain: usize,
    bounds: [usize; 2],
    frames: usize,
    narrow: Narrow,
) -> Result<(usize, usize)> {
    let (mut w, mut h, f) = (width as f64, height as f64, grain as f64);
    match narrow {
        Narrow::Own => {}
        Narrow::Cut => {
            if w.min(h) < f {
                let scale = (f / h).max(f / w);
                (w, h) = ((w * scale).trunc(), (h * scale).trunc());
            }
        }
        Narrow::Rounded => {
            if h < f {
                (w, h) = ((w * f / h).round_ties_even(), f);
            }
            if w < f {
                (w, h) = (f, (h * f / w).round_ties_even());
            }
        }
    }
    if w.max(h) / w.min(h) > MAX_RATIO {
        let what =
            format!("the picture has {width} x {height} pixels; a side must be at most {MAX_RATIO} times the other");
        return Err(Error::invalid(what));
    }
    Ok(bounded([w, h], grain, bounds, 0.0, frames))
}

/// The rule for images whose sides are at least one block each.
fn at_least_blocks(width: usize, height: usize, grain: usize, least: usize, most: usize) -> (usize, usize) {
    bounded([width as f64, height as f64], grain, [least, most], 1.0, 1)
}

/// Returns sides in whole blocks, at least `fewest`, within the bounds. The bounds apply to all `frames` together,
/// counted in pairs rounded to even.
fn bounded([w, h]: [f64; 2], grain: usize, bounds: [usize; 2], fewest: f64, frames: usize) -> (usize, usize) {
    let (f, [least, most], n) = (grain as f64, bounds.map(|pixels| pixels as f64), frames as f64);
    let counted = if frames > 1 { (n / 2.0).round_ties_even() * 2.0 } else { 1.0 };
    let sides = |side: fn(f64, f64, f64) -> f64, beta: f64| (side(w, beta, f) * f, side(h, beta, f) * f);
    let (new_w, new_h) = sides(|x, _, f| (x / f).round_ties_even(), 1.0);
    let (mut new_w, mut new_h) = (new_w.max(fewest * f), new_h.max(fewest * f));
    if counted * new_w * new_h > most {
        (new_w, new_h) = sides(|x, beta, f| (x / beta / f).floor().max(1.0), (n * h * w / most).sqrt());
    } else if counted * new_w * new_h < least {
        (new_w, new_h) = sides(|x, beta, f| (x * beta / f).ceil(), (least / (n * h * w)).sqrt());
    }
    (new_w as usize, new_h as usize)
}

/// `get_aspect_ratio_preserving_size`
fn within_rows(width: usize, height: usize, grain: usize, rows: usize) -> Result<(usize, usize)> {
    let (w, h, f) = (width as f64, height as f64, grain as f64);
    let factor = (rows as f64 * f * f / (h * w)).sqrt();
    let blocks = |x: f64| (factor * x / f).floor() as usize;
    let (columns, lines) = match (blocks(w), blocks(h)) {
        (0, 0) => {
            return Err(Error::invalid(format!(
                "cannot fit a picture of {width} x {height} into {rows} blocks of {grain}"
            )));
        }
        (_, 0) => ((width / height).min(rows), 1),
        (0, _) => (1, (height / width).min(rows)),
        sides => sides,
    };
    if columns * lines > rows {
        return Err(Error::invalid(format!(
            "a picture of {width} x {height} needs more than {rows} blocks of {grain}"
        )));
    }
    Ok((columns * grain, lines * grain))
}

fn longest_edge(width: usize, height: usize, longest: usize, grain: usize) -> (usize, usize) {
    let ratio = (height as f64 / longest as f64).max(width as f64 / longest as f64);
    let side = |x: usize| if ratio > 1.0 { (x as f64 / ratio).floor() as usize } else { x };
    (side(width).next_multiple_of(grain), side(height).next_multiple_of(grain))
}

/// `smart_resize` of GLM 5 Next.
fn rounded_up(width: usize, height: usize, grain: usize, least: usize, most: usize) -> (usize, usize) {
    let up = |side: usize| side.max(1).next_multiple_of(grain);
    let (mut w, mut h) = (up(width), up(height));
    if w * h < least {
        let scale = (least as f64 / (width * height) as f64).sqrt();
        (w, h) = (up((width as f64 * scale).ceil() as usize), up((height as f64 * scale).ceil() as usize));
    }
    if w * h > most {
        (w, h) = (grain, grain);
        let (mut low, mut high) = (1, height);
        while low <= high {
            let middle = low.midpoint(high);
            let fits = (up(width * middle / height), up(middle));
            if fits.0 * fits.1 <= most {
                ((w, h), low) = (fits, middle + 1);
            } else {
                high = middle - 1;
            }
        }
    }
    (w, h)
}

/// Returns the size of the image within its rounded size.
pub(super) fn within_rounded(
    [width, height]: [usize; 2],
    [most_width, most_height]: [usize; 2],
    least: usize,
) -> (usize, usize) {
    let scale = (most_height as f64 / height as f64).min(most_width as f64 / width as f64);
    let scale = if width * height >= least { scale.min(1.0) } else { scale };
    let side = |side: usize, most: usize| ((side as f64 * scale) as usize).clamp(1, most);
    (side(width, most_width), side(height, most_height))
}

/// `navit_resize`
pub(super) fn shrunk(width: usize, height: usize, patch: usize, most: usize, longest: usize) -> (usize, usize) {
    let patches = (width / patch).max(1) as f64 * (height / patch).max(1) as f64;
    let [across, down] = [width, height].map(|side| longest as f64 / side as f64);
    let scale = (most as f64 / patches).sqrt().min(1.0).min(across).min(down);
    let side = |side: usize| ((side as f64 * scale) as usize).max(1).min(longest);
    (side(width), side(height))
}

/// `get_image_size_for_max_num_patches`
fn filled(width: usize, height: usize, patch: usize, most: usize) -> (usize, usize) {
    const PRECISION: f64 = 1e-5;
    let patches = |scale: f64| [width, height].map(|side| (side as f64 * scale / patch as f64).ceil().max(1.0));
    let (mut low, mut high) = (PRECISION / 10.0, 100.0);
    while high - low >= PRECISION {
        let scale = (low + high) / 2.0;
        let [columns, lines] = patches(scale);
        if columns * lines <= most as f64 {
            low = scale;
        } else {
            high = scale;
        }
    }
    let [width, height] = patches(low).map(|n| (n as usize).saturating_mul(patch));
    (width, height)
}

/// Returns the size after the first resize, and the size in whole tiles after the second.
pub(super) fn split_longest(
    width: usize,
    height: usize,
    longest: usize,
    tile: usize,
) -> ((usize, usize), (usize, usize)) {
    /// Above this size the reference shrinks the first size; published models stay below.
    const MOST: f64 = 4096.0;
    let (edge, ratio) = (longest as f64, width as f64 / height as f64);
    let even = |x: f64| (x as usize).next_multiple_of(2).max(1);
    let (mut w, mut h) = if width >= height { (longest, even(edge / ratio)) } else { (even(edge * ratio), longest) };
    // From here on the aspect ratio of the new sides applies: the added pixel may change which side is longer.
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

/// `select_best_resolution`
fn pinpoint(width: usize, height: usize, tile: usize, grids: &Grids) -> (usize, usize) {
    let (mut best, mut most, mut least_wasted) = ((1, 1), 0, f64::INFINITY);
    for [columns, lines] in grids.all() {
        let [w, h] = [columns * tile, lines * tile];
        let scale = (w as f64 / width as f64).min(h as f64 / height as f64);
        let shown = (width as f64 * scale) as u64 * (height as f64 * scale) as u64;
        let shown = shown.min(width as u64 * height as u64);
        let wasted = w as f64 * h as f64 - shown as f64;
        if shown > most || shown == most && wasted < least_wasted {
            (best, most, least_wasted) = ((columns, lines), shown, wasted);
        }
    }
    best
}

/// `get_patch_output_size`
pub(super) fn fitted(width: usize, height: usize, most_width: usize, most_height: usize) -> (usize, usize) {
    let [across, down] = [most_width as f64 / width as f64, most_height as f64 / height as f64];
    match across < down {
        true => (most_width, ((height as f64 * across).ceil() as usize).clamp(1, most_height)),
        false => (((width as f64 * down).ceil() as usize).clamp(1, most_width), most_height),
    }
}

/// `get_max_res_without_distortion` of a canvas with the sides of the image, limited to a tile. Sides that the canvas
/// limits are tensors in the reference and use 32-bit arithmetic.
pub(super) fn within_canvas(size: [usize; 2], canvas: [usize; 2], tile: usize) -> (usize, usize) {
    let is_bounded: [bool; 2] = std::array::from_fn(|i| canvas[i] < size[i].max(tile));
    let most: [usize; 2] = std::array::from_fn(|i| size[i].max(tile).min(canvas[i]));
    let scale: [f64; 2] = std::array::from_fn(|i| match is_bounded[i] {
        true => f64::from(most[i] as f32 / size[i] as f32),
        false => most[i] as f64 / size[i] as f64,
    });
    let fits_width = match is_bounded {
        [false, false] => scale[0] < scale[1],
        _ => (scale[0] as f32) < scale[1] as f32,
    };
    let scaled = |i: usize, by: usize| {
        let scaled = match is_bounded[by] {
            true => f64::from(size[i] as f32 * scale[by] as f32),
            false => size[i] as f64 * scale[by],
        };
        (scaled as usize).clamp(1, most[i])
    };
    if fits_width { (most[0], scaled(1, 0)) } else { (scaled(0, 1), most[1]) }
}

/// `find_best_resize`
fn around([mut w, mut h]: [f64; 2], side: usize, patch: usize, enlarges: bool) -> (usize, usize) {
    if enlarges || w * h > (side * side) as f64 {
        let ratio = w / h;
        h = (side as f64 / ratio.sqrt()).trunc();
        w = (h * ratio).trunc();
    }
    let whole = |x: f64| ((x / patch as f64).round_ties_even() as usize).max(1).saturating_mul(patch);
    (whole(w), whole(h))
}
