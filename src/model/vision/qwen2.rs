//! Qwen2-VL and Qwen2.5-VL: images at their aspect ratio, with 2D RoPE by rows and columns. In 2.5 most layers have
//! window attention, and feed-forward blocks are gated; norms are of the kind that the file has weights for.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Pace, Piece, Video, text};
use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu};
use crate::graph::op::RopeChoice;
use crate::graph::weights::RopePairs;
use crate::media::{Filter, Layout, Narrow, Sizing};

/// The name of both projectors of Qwen2.5-Omni.
pub const OMNI: &str = "qwen2.5o";

/// Default minimum and maximum rows of an image: those of the published folders.
const BOUNDS: [usize; 2] = [4, 16_384];

/// Default minimum and maximum rows of a frame pair: those of the reference implementation.
const VIDEO_BOUNDS: [usize; 2] = [128, 768];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Own)?;
    let activation = e.activation(Silu)?;
    let full = full_layers(&mut e, merge)?;
    let rope = rope(&mut e)?;
    let x = e.embed()?;
    e.layers(x, activation, Some(rope), |i| full.as_ref().is_some_and(|full| !full[i]), |_, _| Ok(()))?;
    let kind = e.norm_kind("v.post_ln");
    let x = e.norm_at(kind, x, "v.post_ln", 1e-6)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let rows = e.mlp(x, "mm.0", "mm.2", GeluErf)?;
    e.is_grid = true;
    let per_second = e.b.keys.float("tokens_per_second")?.unwrap_or(2.0);
    e.video = match e.projector() {
        // Its videos have audio, and other timestamps.
        OMNI => None,
        "qwen2vl_merger" => Some(video(&e, merge, VIDEO_BOUNDS, Pace::Pairs)?),
        _ => Some(video(&e, merge, VIDEO_BOUNDS, Pace::Seconds(per_second))?),
    };
    let pieces = if e.projector() == OMNI { omni_pieces } else { pieces };
    e.finish(rows, sizing, pieces)
}

/// Returns the layers of 2.5 with full attention; the others have window attention.
fn full_layers(e: &mut EncoderBuilder, merge: usize) -> Result<Option<Vec<bool>>> {
    let (n, keys) = (e.b.hyper.n_layers, &e.b.keys);
    let list = "wa_layer_indexes";
    keys.get(list);
    let listed = keys.metadata.u32s(&keys.name(list))?;
    let period = e.declared("n_wa_pattern", n.max(1 << 16))?;
    let full = match (listed, period) {
        (Some(list), _) => {
            let mut full = vec![false; n];
            list.iter().for_each(|i| full.get_mut(*i as usize).into_iter().for_each(|full| *full = true));
            full
        }
        (None, Some(period)) => (0..n).map(|i| (i + 1).is_multiple_of(period)).collect(),
        (None, None) if e.projector() != "qwen2vl_merger" => {
            return Err(keys.metadata.missing(&keys.name("n_wa_pattern")));
        }
        (None, None) => return Ok(None),
    };
    let window = e.declared("window_size", EncoderBuilder::MAX_SIDE)?.unwrap_or(112) / merge / e.patch();
    if window == 0 {
        return Err(e.b.keys.unsupported("window_size"));
    }
    e.window = window;
    Ok(Some(full))
}

/// Bounds on image areas: the file's, or the family's in rows.
pub fn area(e: &EncoderBuilder, merge: usize, bounds: [usize; 2], narrow: Narrow) -> Result<Sizing> {
    let grain = e.patch() * merge;
    let [least, most] = pixels(e, grain, ["image_min_pixels", "image_max_pixels"], bounds)?;
    Ok(Sizing::Area { grain, least, most, frames: 1, narrow, filter: e.filter(Filter::Bicubic)? })
}

/// Bounds on videos: the file's, or the family's.
pub fn video(e: &EncoderBuilder, merge: usize, bounds: [usize; 2], pace: Pace) -> Result<Video> {
    let keys = ["video_min_pixels", "video_max_pixels"];
    Ok(Video { pixels: pixels(e, e.patch() * merge, keys, bounds)?, pace })
}

fn pixels(e: &EncoderBuilder, grain: usize, keys: [&str; 2], bounds: [usize; 2]) -> Result<[usize; 2]> {
    let area = |rows: usize| rows.saturating_mul(grain * grain).min(EncoderBuilder::MAX_PIXELS);
    let [least, most] = keys.map(|key| e.declared(key, EncoderBuilder::MAX_PIXELS));
    match [least?.unwrap_or(area(bounds[0])), most?.unwrap_or(area(bounds[1]))] {
        [least, most] if least > most => Err(e.b.keys.unsupported(keys[0])),
        pixels => Ok(pixels),
    }
}

/// Returns the same frequencies by row and by column, half of a head each.
pub fn rope(e: &mut EncoderBuilder) -> Result<RopeChoice> {
    let dim = e.rotary_dim()?;
    let half: Vec<f64> = (0..dim / 4).map(|i| libm::pow(10_000.0, -((2 * i) as f64) / (dim / 2) as f64)).collect();
    Ok(e.rope(RopePairs::Halves, half.clone(), half))
}

pub fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|vision_start|>"), Piece::Rows(columns * lines), text("<|vision_end|>")]
}

fn omni_pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|vision_bos|>"), Piece::Rows(columns * lines), text("<|vision_eos|>")]
}
