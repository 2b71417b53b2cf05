//! Qwen3-VL: pictures in their own proportions, with a rotation by rows and columns and learned places that are
//! stretched to them. Hidden states of some layers go into the decoder as well, behind its first layers (DeepStack).

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Pace, Stretch};
use super::qwen2::{area, pieces, rope, video};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf};
use crate::graph::op::{NormKind, Op};
use crate::media::Narrow;

/// Rows of the smallest and the largest picture where a file tells no bounds: those of the published folders.
const BOUNDS: [usize; 2] = [64, 16_384];

/// Rows of all pairs of frames of a video, the fewest and the most, where a file tells no bounds.
const VIDEO_BOUNDS: [usize; 2] = [4, 24_576];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("spatial_merge_size", Some(2))?;
    let sizing = area(&e, merge, BOUNDS, Narrow::Own)?;
    let activation = e.activation(Gelu)?;
    let (deep, hears) = (deep_layers(&e)?, e.hears()?);
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
    // A file that hears too is one of Qwen3-Omni, whose videos have other times.
    e.video = Some(video(&e, merge, VIDEO_BOUNDS, Pace::Apart)?).filter(|_| !hears);
    e.finish(rows, sizing, pieces)
}

/// The layers whose hidden states the decoder takes; one flag a layer.
fn deep_layers(e: &EncoderBuilder) -> Result<Vec<usize>> {
    let (key, keys) = ("is_deepstack_layers", &e.b.keys);
    let Some(_) = keys.get(key) else { return Ok(Vec::new()) };
    let flags = keys.metadata.u32s(&keys.name(key))?.unwrap_or_default();
    if flags.len() != e.b.hyper.n_layers {
        return Err(keys.unsupported(key));
    }
    Ok(flags.iter().enumerate().filter(|(_, flag)| **flag != 0).map(|(i, _)| i).collect())
}
