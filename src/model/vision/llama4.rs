//! Llama 4: tiles of one size in a grid at the image's aspect ratio, and an overview. Patches have learned position
//! embeddings, and 2D RoPE by columns and rows, counted from 1; the class token, without RoPE, is dropped.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::graph::op::RopeChoice;
use crate::graph::weights::RopePairs;
use crate::media::{Filter, Layout, Sizing};

/// Default number of tiles of the largest grid, and the maximum in a file.
const TILES: usize = 16;
const MAX_TILES: usize = 1024;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", None)?;
    let tile = e.square(merge)?;
    let max_tiles = e.declared("preproc_max_tiles", MAX_TILES)?.unwrap_or(TILES);
    let filter = e.filter(Filter::Bilinear)?;
    let activation = e.activation(GeluErf)?;
    let rope = rope(&mut e)?;
    (e.is_half, e.first_rope_position, e.class_is_last) = (true, 1, true);
    let x = e.embed()?;
    e.add_places(x, Stretch::Never)?;
    let x = e.b.layer_norm(x, "v.pre_ln")?;
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let mut x = e.project_blocks(&[x], merge)?[0];
    for part in ["mm.model.mlp.1", "mm.model.mlp.2"] {
        let width = e.inner_width(part)?;
        x = e.b.project(x, part, width)?;
        e.b.activate(x, GeluErf);
    }
    let rows = e.project_rows(x, "mm.model.fc")?;
    e.finish(rows, Sizing::Canvas { tile, max_tiles, filter }, pieces)
}

/// Returns the same frequencies by column and by row, half of a head each.
fn rope(e: &mut EncoderBuilder) -> Result<RopeChoice> {
    let base = f64::from(e.b.keys.float("rope.freq_base")?.unwrap_or(10_000.0));
    let dim = e.rotary_dim()?;
    let half: Vec<f64> = (0..dim / 4).map(|i| libm::pow(base, -((2 * i) as f64) / (dim / 2) as f64)).collect();
    let axes = [vec![2; half.len()], vec![1; half.len()]].concat();
    Ok(e.rope_along(RopePairs::Adjacent, axes, [&half[..], &half].concat()))
}

/// Tiles with separators between them and after each line, and the whole image.
fn pieces(layout: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    let rows = Piece::Rows(columns * lines);
    let mut pieces = vec![text("<|image_start|>")];
    for _ in (0..layout.lines).filter(|_| layout.overview) {
        for column in 0..layout.columns {
            pieces.extend((column > 0).then(|| text("<|tile_x_separator|>")));
            pieces.push(rows.clone());
        }
        pieces.push(text("<|tile_y_separator|>"));
    }
    pieces.extend([text("<|image|>"), rows, text("<|image_end|>")]);
    pieces
}
