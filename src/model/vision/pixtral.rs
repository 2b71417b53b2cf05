//! Pixtral, and with merged patches Mistral Small 3.1 and later and LightOnOCR: images of any size, with 2D RoPE by
//! rows and columns, without learned positions.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, text};
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::graph::weights::RopePairs;
use crate::media::{Filter, Layout, Sizing};

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merges = e.b.has("mm.patch_merger.weight");
    let merge = e.merge("spatial_merge_size", Some(if merges { 2 } else { 1 }))?;
    if !merges && merge != 1 {
        return Err(e.b.keys.unsupported("spatial_merge_size"));
    }
    let side = e.require("image_size", EncoderBuilder::MAX_SIDE)?;
    let longest = e.declared("preproc_image_size", EncoderBuilder::MAX_SIDE)?.unwrap_or(side);
    let is_plain = e.projector() == "lightonocr";
    let filter = e.filter(Filter::Bicubic)?;
    let activation = e.activation(GeluErf)?;
    // Frequencies of a head alternate between row and column.
    let base = e.b.keys.float("rope.freq_base")?.unwrap_or(10_000.0);
    let frequencies = |first: usize, dim: usize| {
        (first..dim / 2).step_by(2).map(move |i| libm::pow(base.into(), -((2 * i) as f64) / dim as f64))
    };
    let pairs = if e.b.is_folder() { RopePairs::Halves } else { RopePairs::Adjacent };
    let dim = e.rotary_dim()?;
    let rope = e.rope(pairs, frequencies(0, dim).collect(), frequencies(1, dim).collect());
    let x = e.embed()?;
    let x = e.b.rms_norm(x, "v.pre_ln")?;
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = if merges { e.b.rms_norm(x, "mm.input_norm")? } else { x };
    let mut x = e.project_blocks(&[x], merge)?[0];
    if merges {
        x = e.project_channels_first(x, "mm.patch_merger", e.width(), merge * merge)?;
    }
    // A copy of a row of the decoder's embedding.
    e.b.tensors.ignore("v.token_embd.img_break");
    let rows = e.mlp(x, "mm.1", "mm.2", GeluErf)?;
    let grain = e.patch() * merge;
    let pieces = if is_plain { only_rows } else { pieces };
    e.finish(rows, Sizing::LongestEdge { longest, grain, filter }, pieces)
}

fn only_rows(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![Piece::Rows(columns * lines)]
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in 0..lines {
        pieces.extend((line > 0).then(|| text("[IMG_BREAK]")));
        pieces.push(Piece::Rows(columns));
    }
    pieces.push(text("[IMG_END]"));
    pieces
}
