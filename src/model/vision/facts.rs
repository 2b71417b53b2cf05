//! The host's work for vision encoders: the tiling rule, the inputs of a tile, and the text around rows.

use std::ops::Range;

pub use super::inputs::{Piece, TileInputs, text};
use super::sound::SoundFacts;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::media::{Layout, Picture, Sizing, patches};

/// The parts of a tiled image; each tile has the given columns and lines of rows.
pub(super) type Pieces = fn(&Layout, [usize; 2]) -> Vec<Piece>;

/// Properties of an encoder for the host.
pub struct Facts {
    /// The kind of projector, as named in files.
    pub projector: String,
    pub n_layers: usize,
    pub sizing: Sizing,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Side of the block that becomes a row, in patches.
    pub merge: usize,
    /// Number of frames per kernel: 2 in Qwen, equal frames for an image.
    pub(super) frames: usize,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    /// True if pixels are rounded to BF16 (Llama 4).
    pub(super) is_half: bool,
    /// Row and column of the first patch; a class token has 0.
    pub(super) first_rope_position: u32,
    /// Number of values of a row: the width of the model's embeddings, once more for each DeepStack layer.
    pub row_dim: usize,
    /// Number of DeepStack layers, from the model's first on.
    pub n_deep: usize,
    /// True if rows have M-RoPE positions by line and column.
    pub is_grid: bool,
    /// `None` without video support.
    pub video: Option<Video>,
    pub(super) pieces: Pieces,
    pub(super) places: Option<Places>,
    /// A row after each line of the joined tiles, whose padding is dropped (LLaVA 1.6).
    pub(super) newline: Option<Vec<f32>>,
    pub(super) queries: Option<Queries>,
    /// True if the overview's rows precede those of the tiles.
    pub(super) overview_first: bool,
    /// True if an image becomes a single embedding vector.
    pub is_pooled: bool,
    /// Side of an attention window in blocks; 0: full attention.
    pub(super) window: usize,
    /// Properties of an audio encoder; then the fields about images are unused.
    pub sound: Option<SoundFacts>,
}

/// A family's rules for videos: frame pairs, each encoded by itself.
#[derive(Clone, Copy, Debug)]
pub struct Video {
    /// Minimum and maximum pixels: of a frame, or of all frames if pairs are `Apart`.
    pub pixels: [usize; 2],
    pub pace: Pace,
}

/// How a decoder gets the timestamps of pairs.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// All rows are contiguous, and each pair is one M-RoPE time position (Qwen2-VL).
    Pairs,
    /// All rows are contiguous, with M-RoPE time positions per second (Qwen2.5-VL).
    Seconds(f32),
    /// Each pair is an image that follows its timestamp as text (Qwen3-VL).
    Apart,
}

/// Learned queries, each of which becomes a row by attention to the patches of a tile (MiniCPM-V).
pub(super) struct Queries {
    /// `[n, width]`
    pub table: Vec<f32>,
    pub n: usize,
    pub width: usize,
    /// True if the keys of patches have sinusoidal positions.
    pub has_waves: bool,
}

impl Queries {
    /// Sinusoidal vectors of each patch's column and row, which are added to keys, then the queries.
    fn position_vectors(&self, rope_positions: &[[u32; 3]]) -> Result<Vec<f32>> {
        let mut out = try_vec("places of patches", (rope_positions.len() + self.n).saturating_mul(self.width))?;
        if !self.has_waves {
            out.resize(rope_positions.len() * self.width, 0.0);
            out.extend_from_slice(&self.table);
            return Ok(out);
        }
        let (half, n) = (self.width / 2, self.width / 4);
        let last = rope_positions.iter().flat_map(|position| position[1..].iter().copied()).max().unwrap_or(0) as usize;
        let mut waves = try_vec("places of patches", (last + 1).saturating_mul(half))?;
        let inv_freq: Vec<f64> = (0..n).map(|i| libm::pow(10_000.0, -(i as f64) / n as f64)).collect();
        for place in 0..=last {
            for wave in [libm::sin as fn(f64) -> f64, libm::cos] {
                waves.extend(inv_freq.iter().map(|freq| wave(place as f64 * freq) as f32));
            }
        }
        for [_, row, column] in rope_positions {
            for place in [column, row] {
                out.extend_from_slice(&waves[*place as usize * half..][..half]);
            }
        }
        out.extend_from_slice(&self.table);
        Ok(out)
    }
}

/// Learned position embeddings, added to patches.
pub(super) struct Places {
    /// Position embeddings of a square grid, row by row; with `Stretch::Axes` those of columns, then those of rows.
    pub table: Vec<f32>,
    /// Vectors per side.
    pub side: usize,
    pub width: usize,
    /// The vector of the class token, which is first and has no patch.
    pub class: Option<Vec<f32>>,
    pub stretch: Stretch,
}

/// How position embeddings adapt to grids of other sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// Not at all.
    Never,
    /// Sums of a column vector and a row vector.
    Axes,
    /// The vector at the patch's relative start.
    Buckets,
    /// Bilinear between the nearest vectors, corners aligned.
    Corners,
    /// Bilinear, corners not aligned.
    Linear,
    /// Bilinear, antialiased when downscaling.
    Antialiased,
    /// Bicubic, corners not aligned.
    Cubic,
}

impl Stretch {
    /// Returns the vectors out of `side` that contribute to index `i` of `n`, with their weights.
    fn shares(self, side: usize, i: usize, n: usize) -> Vec<(usize, f64)> {
        let (last, scale) = (side - 1, side as f64 / n.max(1) as f64);
        let of = |at: i64| at.clamp(0, last as i64) as usize;
        let linear = |at: f64| {
            let first = at.floor();
            vec![(of(first as i64), 1.0 - (at - first)), (of(first as i64 + 1), at - first)]
        };
        let at = (i as f64 + 0.5) * scale - 0.5;
        match self {
            Stretch::Never | Stretch::Axes => vec![(i.min(last), 1.0)],
            Stretch::Buckets => vec![(bucket(side, i, n), 1.0)],
            Stretch::Corners => linear((i * last) as f64 / (n - 1).max(1) as f64),
            Stretch::Antialiased if scale > 1.0 => {
                let [from, to] = [at + 1.0 - scale, at + 1.0 + scale].map(|x| x.clamp(0.0, side as f64) as usize);
                let shares = (from..to).map(|j| (j, (1.0 - (j as f64 - at).abs() / scale).max(0.0)));
                let sum: f64 = shares.clone().map(|(_, share)| share).sum();
                shares.map(|(j, share)| (j, share / sum)).collect()
            }
            Stretch::Linear | Stretch::Antialiased => linear(at.max(0.0)),
            Stretch::Cubic => {
                const A: f64 = -0.75;
                let first = at.floor();
                let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((x - 5.0) * x + 8.0) * x * A - 4.0 * A;
                let t = at - first;
                let shares = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                (-1..3).zip(shares).map(|(step, share)| (of(first as i64 + step), share)).collect()
            }
        }
    }
}

impl Facts {
    /// Returns the columns and lines of the rows of a tile.
    pub fn tile_grid(&self, layout: &Layout) -> [usize; 2] {
        let side = (self.patch * self.merge).max(1);
        match &self.queries {
            Some(queries) => [queries.n, 1],
            None if self.is_pooled => [1, 1],
            None => [layout.tile_width / side, layout.tile_height / side],
        }
    }

    /// Returns the number of rows of a tile of this size.
    fn rows_of(&self, tile: [usize; 2]) -> usize {
        let n_queries = self.queries.as_ref().map(|queries| queries.n).or(self.is_pooled.then_some(1));
        n_queries.unwrap_or_else(|| squares(tile, self.patch * self.merge))
    }

    /// Returns the number of rows of an image.
    pub fn n_rows(&self, layout: &Layout) -> usize {
        let [tile, overview] = sizes(layout);
        let of_overview = overview.map_or(0, |size| self.rows_of(size));
        match self.newline {
            Some(_) => {
                let [columns, lines] = self.unpadded(layout);
                of_overview + lines.len() * (columns.len() + 1)
            }
            None => {
                let n_tiles = layout.n_tiles() - usize::from(layout.overview);
                tile.map_or(0, |size| self.rows_of(size)).saturating_mul(n_tiles).saturating_add(of_overview)
            }
        }
    }

    /// Returns the columns and lines of rows of the joined tiles that show the image (`unpad_image`).
    fn unpadded(&self, layout: &Layout) -> [Range<usize>; 2] {
        let [columns, lines] = self.tile_grid(layout);
        let [columns, lines] = [columns * layout.columns, lines * layout.lines];
        let [width, height] = [layout.width.max(1) as f64, layout.height.max(1) as f64];
        let padding = |side: f64, scale: f64, all: usize| {
            let used = ((side * scale * 1e7).round_ties_even() / 1e7) as usize;
            let padding = all.saturating_sub(used) / 2;
            padding..all - padding
        };
        match width / height > columns as f64 / lines.max(1) as f64 {
            true => [0..columns, padding(height, columns as f64 / width, lines)],
            false => [padding(width, lines as f64 / height, columns), 0..lines],
        }
    }

    /// Returns the rows of all tiles in the model's order.
    pub fn arranged(&self, layout: &Layout, mut rows: Vec<f32>) -> Result<Vec<f32>> {
        let width = self.row_dim;
        let Some(newline) = &self.newline else {
            if self.overview_first && layout.overview {
                rows.rotate_right(self.rows_of([layout.overview_width, layout.overview_height]) * width);
            }
            return Ok(rows);
        };
        let mut out = try_vec("the rows of a picture", self.n_rows(layout).saturating_mul(width))?;
        let [tile_columns, tile_lines] = self.tile_grid(layout);
        let per_tile = tile_columns * tile_lines;
        out.extend_from_slice(&rows[layout.columns * layout.lines * per_tile * width..]);
        let [columns, lines] = self.unpadded(layout);
        for line in lines {
            for column in columns.clone() {
                let tile = line / tile_lines * layout.columns + column / tile_columns;
                let row = tile * per_tile + line % tile_lines * tile_columns + column % tile_columns;
                out.extend_from_slice(&rows[row * width..][..width]);
            }
            out.extend_from_slice(newline);
        }
        Ok(out)
    }

    /// Returns the maximum number of rows of a tile.
    pub fn most_rows(&self, layout: &Layout) -> usize {
        sizes(layout).into_iter().flatten().map(|size| self.rows_of(size)).max().unwrap_or(0)
    }

    /// Returns the text around and between the rows of an image.
    pub fn pieces(&self, layout: &Layout) -> Vec<Piece> {
        match self.newline {
            Some(_) => vec![Piece::Rows(self.n_rows(layout))],
            None => (self.pieces)(layout, self.tile_grid(layout)),
        }
    }

    /// Returns the text around and between the rows of a video. `times`: of frame pairs, in seconds.
    pub fn video_pieces(&self, layout: &Layout, times: &[f64], pace: Pace) -> Vec<Piece> {
        let [columns, lines] = self.tile_grid(layout);
        match pace {
            Pace::Pairs | Pace::Seconds(_) => (self.pieces)(layout, [columns, lines * layout.pairs]),
            Pace::Apart => {
                let of = |time: &f64| {
                    let mut pieces = vec![Piece::Text(format!("<{time:.1} seconds>").into())];
                    pieces.extend((self.pieces)(layout, [columns, lines]));
                    pieces
                };
                times.iter().flat_map(of).collect()
            }
        }
    }

    /// True if the first row of the inputs is a class token.
    fn has_class(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.class.is_some())
    }

    /// Returns the maximum number of patches of a tile with this layout.
    pub fn n_patches(&self, layout: &Layout) -> usize {
        let extra = usize::from(self.has_class()) + self.queries.as_ref().map_or(0, |queries| queries.n);
        let of_tiles = sizes(layout).into_iter().flatten().map(|size| squares(size, self.patch));
        of_tiles.max().unwrap_or(0) + extra
    }

    /// Returns the encoder's inputs for a tile; an image is given twice as `frames`.
    pub fn inputs(&self, frames: [&Picture; 2]) -> Result<TileInputs> {
        let (merge, class) = (self.merge, usize::from(self.has_class()));
        let (tile, numbers) = (frames[0], self.frames * 3 * self.patch * self.patch);
        let of_kernel = &frames[..self.frames.min(2)];
        let in_order = patches(of_kernel, self.patch, merge, [self.mean, self.std], self.is_half)?;
        let [columns, lines] = [tile.width, tile.height].map(|side| side / self.patch / merge);
        let (n, per_block) = (columns * lines * merge * merge + class, merge * merge);
        let mut inputs = TileInputs {
            n,
            patches: try_filled("patches", class * numbers, 0f32)?,
            frames: Vec::new(),
            places: Vec::new(),
            queries: Vec::new(),
            first: class,
            rope_positions: try_vec("the places of patches", n)?,
            spans: try_vec("the places of patches", if self.window > 0 { n } else { 0 })?,
            rows: try_vec("the places of patches", columns * lines)?,
        };
        inputs.rope_positions.extend(std::iter::repeat_n([0; 3], class));
        // Without windows, one window covers everything.
        let window = if self.window > 0 { self.window } else { columns.max(lines).max(1) };
        for (top, left) in grid(lines.div_ceil(window), columns.div_ceil(window)) {
            let (top, left) = (top * window, left * window);
            let (height, width) = (window.min(lines - top), window.min(columns - left));
            let from = (inputs.rows.len() * per_block) as u32;
            for (y, x) in grid(height, width) {
                let (line, column) = (top + y, left + x);
                inputs.rows.push(line * columns + column);
                inputs.rope_positions.extend(grid(merge, merge).map(|(y, x)| {
                    let [row, column] = [line * merge + y, column * merge + x].map(|place| place as u32);
                    [0, row, column]
                }));
            }
            if self.window > 0 {
                let span = [from, from + (height * width * per_block) as u32];
                inputs.spans.extend(std::iter::repeat_n(span, height * width * per_block));
            }
        }
        if self.window > 0 {
            inputs.patches = try_vec("patches", in_order.len())?;
            for row in &inputs.rows {
                inputs.patches.extend_from_slice(&in_order[row * per_block * numbers..][..per_block * numbers]);
            }
        } else if class > 0 {
            inputs.patches.try_reserve_exact(in_order.len()).map_err(|_| out_of_memory(in_order.len()))?;
            inputs.patches.extend_from_slice(&in_order);
        } else {
            inputs.patches = in_order;
        }
        if let Some(places) = &self.places {
            inputs.places = places.of(&inputs.rope_positions, [columns * merge, lines * merge])?;
        }
        inputs
            .rope_positions
            .iter_mut()
            .skip(class)
            .flat_map(|position| &mut position[1..])
            .for_each(|position| *position += self.first_rope_position);
        match &self.queries {
            Some(queries) => inputs.with_queries(queries),
            None if self.is_pooled => Ok(TileInputs { first: 0, rows: vec![0], ..inputs }),
            None => Ok(inputs),
        }
    }
}

/// Returns the number of squares of `side` pixels within a size.
fn squares([width, height]: [usize; 2], side: usize) -> usize {
    let side = side.max(1);
    (width / side) * (height / side)
}

/// Returns the size of all tiles, if any, and of the overview, if any.
fn sizes(layout: &Layout) -> [Option<[usize; 2]>; 2] {
    let has_tiles = layout.columns * layout.lines > 0;
    [
        has_tiles.then_some([layout.tile_width, layout.tile_height]),
        layout.overview.then_some([layout.overview_width, layout.overview_height]),
    ]
}

impl TileInputs {
    /// Appends the queries after the patches; attention sees only the patches.
    fn with_queries(mut self, queries: &Queries) -> Result<TileInputs> {
        let (n, all) = (self.n, self.n + queries.n);
        self.queries = queries.position_vectors(&self.rope_positions)?;
        for values in [&mut self.patches, &mut self.places] {
            let len = values.len() / n.max(1) * all;
            values.try_reserve_exact(len - values.len()).map_err(|_| out_of_memory(len))?;
            values.resize(len, 0.0);
        }
        self.rope_positions.resize(all, [0; 3]);
        self.spans = try_filled("the places of patches", all, [0, n as u32])?;
        self.rows = (0..queries.n).collect();
        (self.n, self.first) = (all, n);
        Ok(self)
    }
}

/// `floor(i / n * side)` like `torch.arange` and `torch.bucketize` on all processors, in f32: of eight values the first
/// one is rounded before the others are computed from it, except in the remainder after multiples of sixteen.
fn bucket(side: usize, i: usize, n: usize) -> usize {
    let at = |from: f64, step: f64, i: usize, n: usize| {
        let first = if i < n - n % 16 { i - i % 8 } else { i };
        (f64::from((from + step * first as f64) as f32) + step * (i - first) as f64) as f32
    };
    let (each, share) = (f64::from(1.0 / n.max(1) as f32), 1.0 / side.max(1) as f64);
    let place = at(0.0, each, i, n);
    // Rounding may move the neighbors of the exact bucket's bounds to the other side.
    let exact = i * side / n.max(1);
    let is_within = |bound: usize| bound == 0 || bound < side && at(share, share, bound - 1, side - 1) <= place;
    [exact + 1, exact].into_iter().find(|bound| is_within(*bound)).unwrap_or(exact.saturating_sub(1)).min(side - 1)
}

fn out_of_memory(values: usize) -> Error {
    Error::OutOfMemory { what: "patches", bytes: 4 * values as u64 }
}

fn grid(lines: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..lines).flat_map(move |line| (0..columns).map(move |column| (line, column)))
}

impl Places {
    /// Returns the vectors of patches at the given grid positions, `[n, width]`.
    fn of(&self, rope_positions: &[[u32; 3]], [columns, lines]: [usize; 2]) -> Result<Vec<f32>> {
        let mut out = try_vec("places of patches", rope_positions.len().saturating_mul(self.width))?;
        let (fits, side) = ([columns, lines] == [self.side; 2], self.side);
        let is_too_large = self.stretch == Stretch::Axes && columns.max(lines) > side;
        if !fits && self.stretch == Stretch::Never || is_too_large {
            let what = format!("a tile has {columns} x {lines} patches; the encoder has places for {side} x {side}");
            return Err(Error::invalid(what));
        }
        let rope_positions = match &self.class {
            Some(class) => {
                out.extend_from_slice(class);
                rope_positions.get(1..).unwrap_or_default()
            }
            None => rope_positions,
        };
        let vector = |i: usize| &self.table[i * self.width..][..self.width];
        let shares = |n: usize| (0..n).map(|i| self.stretch.shares(side, i, n)).collect::<Vec<_>>();
        let (across, down) = (shares(columns), shares(lines));
        for [_, line, column] in rope_positions {
            let [line, column] = [*line, *column].map(|place| place as usize);
            if self.stretch == Stretch::Axes {
                out.extend(vector(column).iter().zip(vector(side + line)).map(|(x, y)| x + y));
            } else if fits && self.stretch != Stretch::Buckets {
                out.extend_from_slice(vector(line * side + column));
            } else {
                let mut sums = try_filled("a place", self.width, 0f64)?;
                for (y, down) in &down[line] {
                    for (x, across) in &across[column] {
                        let vector = vector(y * side + x).iter();
                        sums.iter_mut().zip(vector).for_each(|(sum, v)| *sum += down * across * f64::from(*v));
                    }
                }
                out.extend(sums.into_iter().map(|sum| sum as f32));
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Filter;

    fn facts(window: usize, places: Option<Places>) -> Facts {
        Facts {
            projector: String::new(),
            n_layers: 1,
            sizing: Sizing::Square { side: 4, filter: Filter::Bicubic },
            patch: 1,
            merge: 2,
            frames: 1,
            mean: [0.0; 3],
            std: [1.0 / 255.0; 3],
            is_half: false,
            first_rope_position: 0,
            row_dim: 1,
            n_deep: 0,
            is_grid: false,
            video: None,
            pieces: |_, _| Vec::new(),
            places,
            newline: None,
            queries: None,
            overview_first: false,
            is_pooled: false,
            window,
            sound: None,
        }
    }

    /// Returns an image with pixel values counting from 0.
    fn numbered(width: usize, height: usize) -> Picture {
        Picture { width, height, rgb: (0..width * height).flat_map(|i| [i as u8; 3]).collect() }
    }

    #[test]
    fn windows_hold_whole_blocks_and_are_cut_at_the_edges() {
        // Three by two blocks, windows of two by two: the second window has only the last column.
        let inputs = facts(2, None).inputs([&numbered(6, 4); 2]).unwrap();
        assert_eq!(inputs.rows, [0, 1, 3, 4, 2, 5]);
        assert_eq!((inputs.spans[0], inputs.spans[15], inputs.spans[16]), ([0, 16], [0, 16], [16, 24]));
        assert_eq!(inputs.rope_positions[..5], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 2]]);
        let pixels: Vec<f32> = inputs.rope_positions.iter().map(|[_, row, column]| (row * 6 + column) as f32).collect();
        let firsts: Vec<f32> = inputs.patches.chunks(3).map(|patch| patch[0].round()).collect();
        assert_eq!(firsts, pixels);
    }

    /// The patches whose bucket is one below the exact one, as in torch 2.15.
    #[test]
    fn buckets_are_those_of_floats_of_32_bits() {
        let below = |n: usize| (0..n).filter(|&i| bucket(70, i, n) + 1 == 70 * i / n).collect::<Vec<_>>();
        assert_eq!(below(25), [5, 10, 15, 20]);
        assert_eq!(below(49), [7, 14, 35, 42]);
        assert_eq!(below(55), [11, 22, 33, 44]);
        assert_eq!(below(77), [55]);
        assert!((0..32).all(|i| bucket(70, i, 32) == 70 * i / 32) && (0..70).all(|i| bucket(70, i, 70) == i));
    }

    #[test]
    fn places_are_those_of_the_table_or_lie_between_its_corners() {
        let table = |class: Option<Vec<f32>>, stretch| Places {
            table: (0..16).map(|i| i as f32).collect(),
            side: 4,
            width: 1,
            class,
            stretch,
        };
        let places =
            |places, width, height| facts(0, Some(places)).inputs([&numbered(width, height); 2]).map(|i| i.places);
        let blocks = [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0, 12.0, 13.0, 10.0, 11.0, 14.0, 15.0];
        assert_eq!(places(table(None, Stretch::Never), 4, 4).unwrap(), blocks);
        assert_eq!(places(table(Some(vec![-1.0]), Stretch::Never), 4, 4).unwrap(), [&[-1.0][..], &blocks].concat());
        assert!(places(table(None, Stretch::Never), 6, 4).is_err());
        // Two by two: the corners.
        assert_eq!(places(table(None, Stretch::Corners), 2, 2).unwrap(), [0.0, 3.0, 12.0, 15.0]);
        let wide = places(table(None, Stretch::Corners), 6, 2).unwrap();
        let expected = [0.0, 0.6, 12.0, 12.6, 1.2, 1.8, 13.2, 13.8, 2.4, 3.0, 14.4, 15.0];
        assert!(wide.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{wide:?}");
    }
}
