//! Qwen3-VL: images at their aspect ratio, with 2D RoPE by rows and columns and interpolated position embeddings.
//! Hidden states of some layers are also added after the decoder's first layers (DeepStack).

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Pace, Stretch};
use super::qwen2::{area, pieces, rope, video};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf};
use crate::graph::op::{NormKind, Op};
use crate::media::Narrow;

/// Default minimum and maximum rows of an image: those of the published folders.
const BOUNDS: [usize; 2] = [64, 16_384];

/// Default minimum and maximum rows of all frame pairs of a video.
const VIDEO_BOUNDS: [usize; 2] = [4, 24_576];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Own)?;
    let activation = e.activation(Gelu)?;
    let (deep, has_audio) = (deep_layers(&e)?, e.has_audio()?);
    let rope = rope(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Corners)?;
    let mut states = Vec::new();
    e.layers(
        x,
        activation,
        Some(rope),
        |_| false,
        |b, i| {
            if deep.contains(&i) {
                let out = b.program.tensor(b.hyper.hidden);
                b.program.push(Op::Slice { x, first: 0, out });
                states.push(out);
            }
            Ok(())
        },
    )?;
    let last = e.norm_at(NormKind::Layer, x, "v.post_ln", 1e-6)?;
    states.insert(0, last);
    let states = e.project_blocks(&states, merge)?;
    let mut rows = e.mlp(states[0], "mm.0", "mm.2", GeluErf)?;
    for (layer, x) in deep.iter().zip(&states[1..]) {
        let part = |part: &str| format!("v.deepstack.{layer}.{part}");
        let x = e.norm_at(NormKind::Layer, *x, &part("norm"), 1e-6)?;
        let tail = e.mlp(x, &part("fc1"), &part("fc2"), GeluErf)?;
        rows = e.join(rows, tail);
    }
    e.is_grid = true;
    // A file with audio too is Qwen3-Omni, whose videos have other timestamps.
    e.video = Some(video(&e, merge, VIDEO_BOUNDS, Pace::Apart)?).filter(|_| !has_audio);
    e.finish(rows, sizing, pieces)
}

/// Returns the layers whose hidden states the decoder uses; the file has one flag per layer.
fn deep_layers(e: &EncoderBuilder) -> Result<Vec<usize>> {
    let (key, keys) = ("is_deepstack_layers", &e.b.keys);
    let Some(_) = keys.get(key) else { return Ok(Vec::new()) };
    let flags = keys.metadata.u32s(&keys.name(key))?.unwrap_or_default();
    if flags.len() != e.b.hyper.n_layers {
        return Err(keys.unsupported(key));
    }
    Ok(flags.iter().enumerate().filter(|(_, flag)| **flag != 0).map(|(i, _)| i).collect())
}
