//! The work of the host beside the programs of an encoder: the rule by which tiles are made, the inputs of a tile, and
//! the texts around rows.

pub use super::inputs::{Piece, TileInputs, text};
use super::sound::SoundFacts;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::media::{Layout, Picture, Sizing, patches};

/// The pieces of a picture that is cut into tiles, each of which has so many columns and lines of rows.
pub(super) type Pieces = fn(&Layout, [usize; 2]) -> Vec<Piece>;

/// The facts of an encoder that its host has to know.
pub struct Facts {
    /// The kind of the projector, as files name it.
    pub projector: String,
    pub n_layers: usize,
    pub sizing: Sizing,
    /// Pixels of the side of a patch.
    pub patch: usize,
    /// Patches of the side of the block that becomes a row.
    pub merge: usize,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    /// Numbers of a row: the width of the model's embeddings, and again for each deeper layer that rows enter.
    pub row_dim: usize,
    /// Number of those layers, from the model's first on (DeepStack).
    pub n_deep: usize,
    /// The rows of a picture see one another in the model.
    pub is_mutual: bool,
    /// Rows turn by their line and column in the model (M-RoPE).
    pub is_grid: bool,
    pub(super) pieces: Pieces,
    pub(super) places: Option<Places>,
    /// Blocks of the side of a window; 0: all patches see one another.
    pub(super) window: usize,
    /// Those of an encoder of sound, for which what is said of pictures has no meaning.
    pub sound: Option<SoundFacts>,
}

/// Learned vectors of places, which are added to patches.
pub(super) struct Places {
    /// Learned places of a square grid, row by row.
    pub table: Vec<f32>,
    /// Vectors of a side of it.
    pub side: usize,
    pub width: usize,
    /// The vector of the class token, which stands first and has no patch.
    pub class: Option<Vec<f32>>,
    /// Grids of other sizes are interpolated, corner on corner; else there are none.
    pub stretches: bool,
}

impl Facts {
    /// Columns and lines of the rows of a tile.
    pub fn tile_grid(&self, layout: &Layout) -> [usize; 2] {
        let side = (self.patch * self.merge).max(1);
        [layout.tile_width / side, layout.tile_height / side]
    }

    /// Number of rows of a picture.
    pub fn n_rows(&self, layout: &Layout) -> usize {
        self.tile_grid(layout).iter().product::<usize>() * layout.n_tiles()
    }

    /// The texts around and between the rows of a picture.
    pub fn pieces(&self, layout: &Layout) -> Vec<Piece> {
        (self.pieces)(layout, self.tile_grid(layout))
    }

    /// Whether the first row of an encoder's inputs is its class token.
    pub fn has_class(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.class.is_some())
    }

    /// Largest number of patches of a tile of pictures with this layout.
    pub fn n_patches(&self, layout: &Layout) -> usize {
        let rows: usize = self.tile_grid(layout).iter().product();
        rows * self.merge * self.merge + usize::from(self.has_class())
    }

    /// The inputs of the encoder for a tile.
    pub fn inputs(&self, tile: &Picture) -> Result<TileInputs> {
        let (merge, class) = (self.merge, usize::from(self.has_class()));
        let numbers = 3 * self.patch * self.patch;
        let in_order = patches(tile, self.patch, merge, self.mean, self.std)?;
        let [columns, lines] = [tile.width, tile.height].map(|side| side / self.patch / merge);
        let (n, per_block) = (columns * lines * merge * merge + class, merge * merge);
        let mut inputs = TileInputs {
            n,
            patches: try_filled("patches", class * numbers, 0f32)?,
            places: Vec::new(),
            turns: try_vec("the places of patches", n)?,
            spans: try_vec("the places of patches", if self.window > 0 { n } else { 0 })?,
            rows: try_vec("the places of patches", columns * lines)?,
        };
        inputs.turns.extend(std::iter::repeat_n([0; 3], class));
        // Without windows all is one of them.
        let window = if self.window > 0 { self.window } else { columns.max(lines).max(1) };
        for (top, left) in grid(lines.div_ceil(window), columns.div_ceil(window)) {
            let (top, left) = (top * window, left * window);
            let (height, width) = (window.min(lines - top), window.min(columns - left));
            let from = (inputs.rows.len() * per_block) as u32;
            for (y, x) in grid(height, width) {
                let (line, column) = (top + y, left + x);
                inputs.rows.push(line * columns + column);
                inputs.turns.extend(grid(merge, merge).map(|(y, x)| {
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
            inputs.places = places.of(&inputs.turns, [columns * merge, lines * merge])?;
        }
        Ok(inputs)
    }
}

fn out_of_memory(values: usize) -> Error {
    Error::OutOfMemory { what: "patches", bytes: 4 * values as u64 }
}

fn grid(lines: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..lines).flat_map(move |line| (0..columns).map(move |column| (line, column)))
}

impl Places {
    /// The vectors of patches whose places in a grid are given, `[n, width]`.
    fn of(&self, turns: &[[u32; 3]], [columns, lines]: [usize; 2]) -> Result<Vec<f32>> {
        let mut out = try_vec("places of patches", turns.len().saturating_mul(self.width))?;
        let fits = [columns, lines] == [self.side; 2];
        if !fits && !self.stretches {
            let side = self.side;
            return Err(Error::invalid(format!("{columns} x {lines} patches of an encoder with {side} x {side}")));
        }
        let turns = match &self.class {
            Some(class) => {
                out.extend_from_slice(class);
                turns.get(1..).unwrap_or_default()
            }
            None => turns,
        };
        let row = |line: usize, column: usize| &self.table[(line * self.side + column) * self.width..][..self.width];
        for [_, line, column] in turns {
            let [line, column] = [*line, *column].map(|place| place as usize);
            if fits {
                out.extend_from_slice(row(line, column));
                continue;
            }
            let ((top, below, down), (left, right, across)) =
                (self.between(line, lines), self.between(column, columns));
            let corners = [row(top, left), row(top, right), row(below, left), row(below, right)];
            out.extend((0..self.width).map(|i| {
                let [a, b, c, d] = corners.map(|corner| f64::from(corner[i]));
                let above = a * (1.0 - across) + b * across;
                let under = c * (1.0 - across) + d * across;
                (above * (1.0 - down) + under * down) as f32
            }));
        }
        Ok(out)
    }

    /// The two rows of the grid that row `i` of `n` lies between where corners lie on corners, and its distance from
    /// the first.
    fn between(&self, i: usize, n: usize) -> (usize, usize, f64) {
        let last = self.side - 1;
        let at = (i * last) as f64 / (n - 1).max(1) as f64;
        let first = (at as usize).min(last);
        (first, (first + 1).min(last), at - first as f64)
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
            mean: [0.0; 3],
            std: [1.0 / 255.0; 3],
            row_dim: 1,
            n_deep: 0,
            is_mutual: false,
            is_grid: false,
            pieces: |_, _| Vec::new(),
            places,
            window,
            sound: None,
        }
    }

    /// A picture whose pixels have the numbers from 0 on.
    fn numbered(width: usize, height: usize) -> Picture {
        Picture { width, height, rgb: (0..width * height).flat_map(|i| [i as u8; 3]).collect() }
    }

    #[test]
    fn windows_hold_whole_blocks_and_are_cut_at_the_edges() {
        // Three by two blocks, windows of two by two: the second window has the last column alone.
        let inputs = facts(2, None).inputs(&numbered(6, 4)).unwrap();
        assert_eq!(inputs.rows, [0, 1, 3, 4, 2, 5]);
        assert_eq!((inputs.spans[0], inputs.spans[15], inputs.spans[16]), ([0, 16], [0, 16], [16, 24]));
        assert_eq!(inputs.turns[..5], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 2]]);
        let pixels: Vec<f32> = inputs.turns.iter().map(|[_, row, column]| (row * 6 + column) as f32).collect();
        let firsts: Vec<f32> = inputs.patches.chunks(3).map(|patch| patch[0].round()).collect();
        assert_eq!(firsts, pixels);
    }

    #[test]
    fn places_are_those_of_the_table_or_lie_between_its_corners() {
        let table = |class: Option<Vec<f32>>, stretches| Places {
            table: (0..16).map(|i| i as f32).collect(),
            side: 4,
            width: 1,
            class,
            stretches,
        };
        let places = |places, width, height| facts(0, Some(places)).inputs(&numbered(width, height)).map(|i| i.places);
        let blocks = [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0, 12.0, 13.0, 10.0, 11.0, 14.0, 15.0];
        assert_eq!(places(table(None, false), 4, 4).unwrap(), blocks);
        assert_eq!(places(table(Some(vec![-1.0]), false), 4, 4).unwrap(), [&[-1.0][..], &blocks].concat());
        assert!(places(table(None, false), 6, 4).is_err());
        // Two by two: the corners.
        assert_eq!(places(table(None, true), 2, 2).unwrap(), [0.0, 3.0, 12.0, 15.0]);
        let wide = places(table(None, true), 6, 2).unwrap();
        let expected = [0.0, 0.6, 12.0, 12.6, 1.2, 1.8, 13.2, 13.8, 2.4, 3.0, 14.4, 15.0];
        assert!(wide.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{wide:?}");
    }
}
