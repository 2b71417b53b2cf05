//! GLM-4.1V, 4.5V and 4.6V: pictures in their own proportions, with a rotation by rows and columns and learned places
//! that are stretched to them; a convolution and a gated block make rows of blocks of patches.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use super::qwen2::{area, rope};
use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu};
use crate::graph::op::NormKind;
use crate::media::{Layout, Narrow};

/// Rows of the smallest and the largest picture where a file tells no bounds. The makers count two frames of a picture.
const BOUNDS: [usize; 2] = [8, 7_500];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Cut)?;
    let activation = e.activation(Silu)?;
    let rope = rope(&mut e)?;
    // The key tells the width of the gated block of the projector.
    e.b.hyper.ffn = e.inner_width("v.blk.0.ffn_up")?;
    let mut x = e.embed()?;
    if e.b.has("v.norm_embd.weight") {
        x = e.b.rms_norm(x, "v.norm_embd")?;
    }
    if e.b.has("v.position_embd.weight") {
        e.add_places(x, Stretch::Cubic)?;
    }
    e.layers(x, activation, Some(rope), |_| false, |_, _| Ok(()))?;
    let x = e.b.rms_norm(x, "v.post_ln")?;
    let x = e.project_blocks(&[x], merge)?[0];
    e.check_width(e.b.rows("mm.down.weight")?)?;
    let x = e.project_channels_first(x, "mm.patch_merger", e.hidden(), merge * merge)?;
    let x = e.project_rows(x, "mm.model.fc")?;
    let x = e.norm_at(NormKind::Layer, x, "mm.post_norm", 1e-5)?;
    e.b.activate(x, GeluErf);
    let rows = e.gated_mlp(x, ["mm.gate", "mm.up", "mm.down"], activation)?;
    e.is_grid = true;
    e.finish(rows, sizing, pieces)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|begin_of_image|>"), Piece::Rows(columns * lines), text("<|end_of_image|>")]
}
