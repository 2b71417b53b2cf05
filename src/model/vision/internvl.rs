//! InternVL 2.5 to 3.5: InternViT over tiles at the image's aspect ratio, and a thumbnail. The class token is dropped;
//! layers may have scales.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::graph::op::NormKind;
use crate::media::{Filter, Layout, Sizing};

/// Maximum number of tiles in a file, far above any real model.
const MAX_TILES: usize = 1024;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", None)?;
    let tile = e.square(merge)?;
    let min_tiles = e.declared("preproc_min_tiles", MAX_TILES)?.unwrap_or(1);
    let max_tiles = e.declared("preproc_max_tiles", MAX_TILES)?.unwrap_or(12);
    if min_tiles > max_tiles {
        return Err(e.b.keys.unsupported("preproc_min_tiles"));
    }
    let filter = e.filter(Filter::Bicubic)?;
    let activation = e.activation(GeluErf)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Never)?;
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    let x = e.project_blocks(&[x], merge)?[0];
    let x = e.norm_at(NormKind::Layer, x, "mm.model.mlp.0", 1e-5)?;
    let rows = e.mlp(x, "mm.model.mlp.1", "mm.model.mlp.3", GeluErf)?;
    e.finish(rows, Sizing::SplitRatio { tile, min_tiles, max_tiles, filter }, pieces)
}

fn pieces(layout: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<img>"), Piece::Rows(columns * lines * layout.n_tiles()), text("</img>")]
}
