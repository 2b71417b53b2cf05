//! Kimi-VL and Kimi K2.5: images at native resolution up to a bound, with 2D RoPE by columns and rows, and learned
//! position embeddings interpolated to the image's grid.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf};
use crate::graph::op::{NormKind, RopeChoice};
use crate::graph::weights::RopePairs;
use crate::media::{Filter, Layout, Sizing};

/// Default maximum of patches of an image, and of a side.
const MOST: usize = 4096;
const LONGEST: usize = 512;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", Some(2))?;
    let sizing = sizing(&e, merge)?;
    let activation = e.activation(Gelu)?;
    let rope = rope(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Cubic)?;
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let x = e.norm_at(NormKind::Layer, x, "mm.input_norm", 1e-5)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let rows = e.mlp(x, "mm.1", "mm.2", GeluErf)?;
    let pieces = if e.projector() == "kimivl" { pieces } else { pieces_of_2_5 };
    e.finish(rows, sizing, pieces)
}

fn sizing(e: &EncoderBuilder, merge: usize) -> Result<Sizing> {
    let (patch, filter) = (e.patch(), e.filter(Filter::Bicubic)?);
    let metadata = e.b.keys.metadata;
    if metadata.u64("vision.pos_emb_height")? != metadata.u64("vision.pos_emb_width")? {
        return Err(metadata.error("places of a grid that is no square are not supported"));
    }
    // No image is enlarged, whatever converters write.
    e.declared("image_min_pixels", EncoderBuilder::MAX_PIXELS)?;
    let most = e.declared("image_max_pixels", EncoderBuilder::MAX_PIXELS)?;
    let most = most.map_or(MOST, |pixels| (pixels / (patch * patch)).max(1));
    let longest = e.declared("max_side_patches", EncoderBuilder::MAX_SIDE)?.unwrap_or(LONGEST) * patch;
    Ok(Sizing::Padded { patch, grain: patch * merge, most, longest, filter })
}

/// Adjacent pairs, alternating column and row. In GGUF files of Kimi K2.5 all column pairs of a head precede the
/// others.
fn rope(e: &mut EncoderBuilder) -> Result<RopeChoice> {
    let dim = e.rotary_dim()?;
    let of = |i: usize| libm::pow(10_000.0, -((4 * i) as f64) / dim as f64);
    let is_by_axis = e.projector() == "kimik25" && !e.b.is_folder();
    let pair = |i: usize| if is_by_axis { (i / (dim / 4), i % (dim / 4)) } else { (i % 2, i / 2) };
    let (axes, inv_freq) = (0..dim / 2).map(pair).map(|(axis, i)| ([2, 1][axis], of(i))).unzip();
    Ok(e.rope_along(RopePairs::Adjacent, axes, inv_freq))
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|media_start|>image<|media_content|>"), Piece::Rows(columns * lines), text("<|media_end|>")]
}

fn pieces_of_2_5(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|media_begin|>image<|media_content|>"), Piece::Rows(columns * lines), text("<|media_end|>")]
}
