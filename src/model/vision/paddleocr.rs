//! PaddleOCR-VL: SigLIP over images at their aspect ratio, with 2D RoPE by rows and columns, and learned position
//! embeddings interpolated to the image's grid.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use super::qwen2::{area, rope};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf};
use crate::graph::op::NormKind;
use crate::media::{Layout, Narrow};

/// Default minimum and maximum rows of an image: 147,384 and 2,822,400 pixels.
const BOUNDS: [usize; 2] = [188, 3600];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Rounded)?;
    let activation = e.activation(Gelu)?;
    let rope = rope(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Linear)?;
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let x = e.norm_at(NormKind::Layer, x, "mm.input_norm", 1e-5)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let rows = e.mlp(x, "mm.1", "mm.2", GeluErf)?;
    e.is_grid = true;
    e.finish(rows, sizing, pieces)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|IMAGE_START|>"), Piece::Rows(columns * lines), text("<|IMAGE_END|>")]
}
