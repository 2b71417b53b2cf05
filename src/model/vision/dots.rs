//! dots.ocr: images at their aspect ratio, with 2D RoPE by rows and columns, and a norm of patches before the layers.
//! Feed-forward blocks are gated; rows have no M-RoPE positions in the decoder.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, text};
use super::qwen2::{area, rope};
use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu};
use crate::graph::op::NormKind;
use crate::media::{Layout, Narrow};

/// Default minimum and maximum rows of an image: 3,136 and 11,289,600 pixels.
const BOUNDS: [usize; 2] = [4, 14_400];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Own)?;
    let activation = e.activation(Silu)?;
    let rope = rope(&mut e)?;
    let x = e.embed()?;
    let x = e.b.rms_norm(x, "v.pre_ln")?;
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = e.b.rms_norm(x, "mm.post_norm")?;
    let x = e.norm_at(NormKind::Layer, x, "mm.input_norm", 1e-6)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let rows = e.mlp(x, "mm.0", "mm.2", GeluErf)?;
    e.finish(rows, sizing, pieces)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|img|>"), Piece::Rows(columns * lines), text("<|endofimg|>")]
}
