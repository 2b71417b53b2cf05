//! Gemma 3: SigLIP over the image stretched to a square. The mean of a block of patches is normalized and multiplied by
//! a matrix that files store transposed. Image rows attend to each other in both directions.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use super::idefics3::siglip;
use crate::error::Result;
use crate::graph::op::NormKind;
use crate::media::{Filter, Layout, Sizing};

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", Some(4))?;
    let side = e.square(merge)?;
    let filter = e.filter(Filter::Bilinear)?;
    let x = siglip(&mut e, Stretch::Never)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let x = e.mean(x, merge * merge);
    let x = e.norm_at(NormKind::Rms, x, "mm.soft_emb_norm", 1e-6)?;
    let rows = e.project_transposed(x, "mm.input_projection.weight")?;
    e.finish(rows, Sizing::Square { side, filter }, pieces)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("\n\n<start_of_image>"), Piece::Rows(columns * lines), text("<end_of_image>\n\n")]
}
