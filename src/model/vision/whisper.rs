//! Whisper's encoder with the projectors of Qwen2-Audio, Qwen2.5-Omni, Voxtral and Ultravox: two convolutions over a
//! spectrogram, the second one with stride 2, then layers with full attention within a part.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::sound::{Cutting, SoundFacts};
use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu};
use crate::graph::op::{NormKind, Op, TensorId};

/// Maximum number of bins, and of hidden states per row.
const MAX_BINS: usize = 1024;
const MAX_STACK: usize = 1 << 16;

/// Taps of the convolutions.
const TAPS: usize = 3;

/// Hidden states of a window of Qwen2.5-Omni.
const WINDOW: usize = 100;

pub fn qwen2_audio(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let table = e.sound_places(None)?;
    means_of_pairs(e, table, Cutting::Each)
}

/// Qwen2-Audio's network over windows of two seconds.
pub fn qwen2_omni(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let table = e.sound_places(Some(WINDOW))?;
    means_of_pairs(e, table, Cutting::Windows)
}

fn means_of_pairs(e: EncoderBuilder, table: Vec<f32>, cutting: Cutting) -> Result<EncoderNetwork> {
    let (mut e, x) = encoder(e, table, cutting, 2, ["<|audio_bos|>", "<|audio_eos|>"])?;
    let pair = e.project_stacks(&[x], 2)?[0];
    let mean = e.b.program.tensor(e.width());
    e.b.program.push(Op::Mean { x: pair, groups: 2, out: mean });
    let x = e.b.layer_norm(mean, "a.post_ln")?;
    let rows = e.project_rows(x, "mm.a.fc")?;
    e.finish_sound(rows)
}

pub fn voxtral(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let stack = e.require("projector.stack_factor", MAX_STACK)?;
    let table = e.sound_places(None)?;
    let (mut e, x) = encoder(e, table, Cutting::Filled, stack, ["[BEGIN_AUDIO]", ""])?;
    let x = e.b.layer_norm(x, "a.post_ln")?;
    let x = e.project_stacks(&[x], stack)?[0];
    let rows = e.mlp(x, "mm.a.mlp.1", "mm.a.mlp.2", GeluErf)?;
    e.finish_sound(rows)
}

pub fn ultravox(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let stack = e.require("projector.stack_factor", MAX_STACK)?;
    let table = e.sound_places(None)?;
    let (mut e, x) = encoder(e, table, Cutting::Cut, stack, ["", ""])?;
    let x = e.b.layer_norm(x, "a.post_ln")?;
    let x = e.project_stacks(&[x], stack)?[0];
    let x = e.norm_at(NormKind::Rms, x, "mm.a.norm_pre", 1e-6)?;
    let [up, gate] = e.halves(x, "mm.a.mlp.1")?;
    let x = e.b.gate(gate, up, Silu);
    let x = e.norm_at(NormKind::Rms, x, "mm.a.norm_mid", 1e-6)?;
    let rows = e.project_rows(x, "mm.a.mlp.2")?;
    e.finish_sound(rows)
}

/// The network up to the last layer. The first convolution is computed for the three frames of each hidden state, one
/// of which a neighbor computes too: 1.5 times the work, but no op that reads neighboring rows.
fn encoder<'a>(
    mut e: EncoderBuilder<'a>,
    table: Vec<f32>,
    cutting: Cutting,
    stack: usize,
    around: [&'static str; 2],
) -> Result<(EncoderBuilder<'a>, TensorId)> {
    let (bins, width) = (e.require("num_mel_bins", MAX_BINS)?, e.width());
    let places = table.len() / width;
    // A padded part must have whole rows.
    if cutting == Cutting::Filled && !places.is_multiple_of(stack) {
        return Err(e
            .b
            .keys
            .metadata
            .error(format!("it has {places} vectors of places; they must fill rows of {stack}")));
    }
    let facts = SoundFacts { bins, stack, cutting, around, table, width };
    let x = e.audio_input(SoundFacts::input_width(bins), facts);
    let kernel = e.kernel("a.conv1d.1", [width, bins], TAPS)?;
    let mut near = Vec::with_capacity(TAPS);
    for tap in 0..TAPS {
        let frames = e.slice(x, tap * bins, TAPS * bins);
        let out = e.convolve(frames, kernel);
        e.b.program.push(Op::Glu { gate: out, up: None, activation: GeluErf });
        // Outside the audio the second convolution's input is zero, not the first one's result for silence.
        if tap != 1 {
            let gate = e.slice(x, 5 * bins + tap / 2, 1);
            e.b.program.push(Op::Gate { x: out, gate, sigmoid: false });
        }
        near.push(out);
    }
    let first = e.join(near[0], near[1]);
    let all = e.join(first, near[2]);
    let kernel = e.kernel("a.conv1d.2", [width; 2], TAPS)?;
    let x = e.convolve(all, kernel);
    e.b.program.push(Op::Glu { gate: x, up: None, activation: GeluErf });
    e.add_input(x);
    e.layers(x, GeluErf, None, |_| true, |_, _| Ok(()))?;
    Ok((e, x))
}
