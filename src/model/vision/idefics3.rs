//! SmolVLM, SmolVLM2, Idefics3: SigLIP over tiles of one size; a block of patches becomes a row by one projection.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::TensorId;
use crate::media::{Filter, Layout, MAX_COLUMNS, Sizing};

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", None)?;
    let tile = e.square(merge)?;
    // Older files do not declare this size; in all published folders it is four times the tile.
    let longest = e.declared("preproc_image_size", EncoderBuilder::MAX_SIDE)?.unwrap_or(4 * tile);
    if longest > MAX_COLUMNS * tile {
        return Err(e.b.keys.unsupported("preproc_image_size"));
    }
    let filter = e.filter(Filter::Lanczos)?;
    let x = siglip(&mut e, Stretch::Never)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let rows = e.project_rows(x, "mm.model.fc")?;
    e.finish(rows, Sizing::SplitLongest { longest, tile, filter }, pieces)
}

/// SigLIP: patches with learned position embeddings, and a norm after the last layer.
pub fn siglip(e: &mut EncoderBuilder, stretch: Stretch) -> Result<TensorId> {
    let activation = e.activation(Gelu)?;
    let x = e.embed()?;
    e.add_places(x, stretch)?;
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    e.b.layer_norm(x, "v.post_ln")
}

/// Tiles with their positions, a line break after each line of tiles, and the whole image. Two line breaks are one
/// token if the vocabulary has it.
fn pieces(layout: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    let rows = Piece::Rows(columns * lines);
    let mut pieces = Vec::new();
    for line in 1..=layout.lines {
        for column in (1..=layout.columns).filter(|_| layout.overview) {
            let name = format!("<fake_token_around_image><row_{line}_col_{column}>");
            pieces.extend([Piece::Text(name.into()), rows.clone()]);
        }
        if layout.overview {
            pieces.push(text(if line == layout.lines { "\n\n" } else { "\n" }));
        }
    }
    pieces.extend([text("<fake_token_around_image><global-img>"), rows, text("<fake_token_around_image>")]);
    pieces
}
