//! LFM2-VL: SigLIP 2 over images at their aspect ratio, with interpolated position embeddings; large images are tiled,
//! followed by an overview.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use super::idefics3::siglip;
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::graph::op::NormKind;
use crate::media::{Filter, Layout, Sizing};

/// Default minimum and maximum rows of an image in one tile.
const BOUNDS: [usize; 2] = [64, 256];
/// Default minimum and maximum number of tiles, and side of a tile.
const TILES: [usize; 2] = [2, 10];
const TILE: usize = 512;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", Some(2))?;
    let sizing = sizing(&e, merge)?;
    e.colors_last = e.b.is_folder();
    let x = siglip(&mut e, Stretch::Antialiased)?;
    let mut x = e.project_blocks(&[x], merge)?[0];
    if e.b.has("mm.input_norm.weight") {
        x = e.norm_at(NormKind::Layer, x, "mm.input_norm", 1e-5)?;
    }
    let rows = e.mlp(x, "mm.1", "mm.2", GeluErf)?;
    e.finish(rows, sizing, pieces)
}

fn sizing(e: &EncoderBuilder, merge: usize) -> Result<Sizing> {
    let (patch, grain) = (e.patch(), e.patch() * merge);
    let pixels = |key: &str| e.declared(key, EncoderBuilder::MAX_PIXELS);
    let [least, most] = BOUNDS.map(|rows| rows.saturating_mul(grain * grain).min(EncoderBuilder::MAX_PIXELS));
    let least = pixels("image_min_pixels")?.unwrap_or(least);
    let most = pixels("image_max_pixels")?.unwrap_or(most);
    let large = pixels("split_pixels")?.unwrap_or(2 * most);
    let tile = e.declared("preproc_image_size", EncoderBuilder::MAX_SIDE)?.unwrap_or(TILE);
    let min_tiles = e.declared("preproc_min_tiles", 1024)?.unwrap_or(TILES[0]);
    let max_tiles = e.declared("preproc_max_tiles", 1024)?.unwrap_or(TILES[1]);
    for (key, fits) in [
        ("image_min_pixels", least <= most),
        ("preproc_min_tiles", min_tiles <= max_tiles),
        ("preproc_image_size", tile.is_multiple_of(grain)),
    ] {
        if !fits {
            return Err(e.b.keys.unsupported(key));
        }
    }
    let filter = e.filter(Filter::Bilinear)?;
    Ok(Sizing::SplitLarge { grain, patch, least, most, large, tile, min_tiles, max_tiles, filter })
}

fn pieces(layout: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    let rows = Piece::Rows(columns * lines);
    let mut pieces = vec![text("<|image_start|>")];
    for line in 1..=layout.lines {
        for column in 1..=layout.columns {
            let name = format!("<|img_row_{line}_col_{column}|>");
            pieces.extend(layout.overview.then(|| Piece::Text(name.into())));
            pieces.push(rows.clone());
        }
    }
    if layout.overview {
        let side = layout.tile_width / columns.max(1);
        let [columns, lines] = [layout.overview_width, layout.overview_height].map(|pixels| pixels / side.max(1));
        pieces.extend([text("<|img_thumbnail|>"), Piece::Rows(columns * lines)]);
    }
    pieces.push(text("<|image_end|>"));
    pieces
}
