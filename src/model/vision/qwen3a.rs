//! The audio encoder of Qwen3-Omni and Qwen3-ASR: three 2D convolutions with stride 2 over chunks of a spectrogram,
//! then layers with full attention over eight chunks.

use super::encoder::{Convolution, EncoderBuilder, EncoderNetwork, Kernel};
use super::sound::{Cutting, SoundFacts, halved};
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::graph::op::{Op, Projection};
use crate::graph::program::ProgramBuilder;

/// Maximum number of bins, and of channels.
const MAX_BINS: usize = 1024;
const MAX_CHANNELS: usize = 1 << 14;

/// Number of frames per chunk, and of chunks that attend to each other.
const FRAMES: usize = 100;
const CHUNKS: usize = 8;

/// Number of spots of a kernel.
const SPOTS: usize = 9;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let bins = e.require("num_mel_bins", MAX_BINS)?;
    let channels = e.b.rows("a.conv2d.1.weight")? / 3;
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(e
            .b
            .keys
            .metadata
            .error(format!("convolutions have {channels} channels; they must have 1 to {MAX_CHANNELS}")));
    }
    for (i, inputs) in [1, channels, channels].into_iter().enumerate() {
        let convolution = convolution(&mut e, &format!("a.conv2d.{}", i + 1), [channels, inputs])?;
        e.convolutions.push(convolution);
    }
    let (table, width) = (e.sound_places(Some(halved(FRAMES)))?, e.width());
    let cutting = Cutting::Chunks { frames: FRAMES, per_part: CHUNKS };
    let around = ["<|audio_start|>", "<|audio_end|>"];
    let x = e.audio_input(halved(bins) * channels, SoundFacts { bins, stack: 1, cutting, around, table, width });
    let x = e.project_channels_first(x, "a.conv_out", width, halved(bins))?;
    e.add_input(x);
    e.layers(x, GeluErf, None, |_| false, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "a.post_ln")?;
    let x = e.project_stacks(&[x], 1)?[0];
    let rows = e.mlp(x, "mm.a.mlp.1", "mm.a.mlp.2", GeluErf)?;
    e.finish_sound(rows)
}

/// Returns a convolution with its activation function, as a program.
fn convolution(e: &mut EncoderBuilder, part: &str, [outputs, inputs]: [usize; 2]) -> Result<Convolution> {
    let Kernel { weight, bias } = e.kernel(part, [outputs, inputs], SPOTS)?;
    let mut program = ProgramBuilder::default();
    let (columns, out) = (program.tensor(SPOTS * inputs), program.tensor(outputs));
    program.input(columns);
    program.push(Op::Project { x: columns, projections: [Projection { weight, bias, out }].into() });
    program.push(Op::Glu { gate: out, up: None, activation: GeluErf });
    program.result(out);
    Ok(Convolution { program: program.finish(0, &[]), columns, out })
}
