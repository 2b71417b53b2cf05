//! GLM-4.1V, 4.5V and 4.6V: images at their aspect ratio, with 2D RoPE by rows and columns and interpolated position
//! embeddings; a convolution and a gated block turn blocks of patches into rows. GLM 5 Next: without learned positions,
//! with QK norm and clamped gated blocks.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use super::qwen2::{area, rope};
use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu, SwigluOfClamped};
use crate::graph::op::NormKind;
use crate::media::{Layout, Narrow, Sizing};

/// The name of the projector of GLM 5 Next.
pub const NEXT: &str = "glm5v";

/// Default minimum and maximum rows of an image. The authors count an image as two frames.
const BOUNDS: [usize; 2] = [8, 7_500];

/// Default minimum and maximum rows of an image in GLM 5 Next.
const NEXT_BOUNDS: [usize; 2] = [16, 8_000];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let is_next = e.projector() == NEXT;
    let sizing = match area(&e, merge, if is_next { NEXT_BOUNDS } else { BOUNDS }, Narrow::Cut)? {
        Sizing::Area { grain, least, most, filter, .. } if is_next => Sizing::Fitted { grain, least, most, filter },
        sizing => sizing,
    };
    let activation = match (e.activation(Silu)?, is_next) {
        (Silu, true) => SwigluOfClamped(e.b.keys.require_float("swiglu_clamp")?),
        (_, true) => return Err(e.b.keys.unsupported("hidden_act")),
        (activation, false) => activation,
    };
    let rope = rope(&mut e)?;
    // The key declares the width of the projector's gated block.
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
    // The text model of GLM 5 Next has no RoPE.
    e.is_grid = !is_next;
    e.finish(rows, sizing, pieces)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|begin_of_image|>"), Piece::Rows(columns * lines), text("<|end_of_image|>")]
}
