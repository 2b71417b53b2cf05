//! Vision and audio encoders: from a file to two programs: the encoder, over the patches of a tile or the frames of
//! audio, and the projector (mmproj), whose rows replace token embeddings in a decoder. `facts` and `sound` are the
//! host's work, `encoder` has the helpers for defining networks, and each other file is a family, top to bottom.

mod clip;
mod dots;
mod encoder;
mod facts;
mod gemma3;
mod gemma4;
mod glm4v;
mod idefics3;
mod inputs;
mod internvl;
mod kimi;
mod lfm2;
mod llama4;
mod llava;
mod minicpm;
mod paddleocr;
mod pixtral;
mod qwen2;
mod qwen3;
mod qwen3a;
mod sound;
mod whisper;

pub use encoder::{Convolution, EncoderNetwork};
pub use facts::{Facts, Pace, Piece, TileInputs, Video};
pub use sound::{AudioPart, AudioParts, Cutting, Grid, SoundFacts, SoundPart};

use crate::error::{Error, Result};
use crate::format::Source;
use crate::tensor::DType;
use encoder::EncoderBuilder;
use qwen2::OMNI;

type Build = fn(EncoderBuilder) -> Result<EncoderNetwork>;

/// Kinds of vision projectors, as named in files, and their build function.
const PROJECTORS: &[(&[&str], Build)] = &[
    (&["idefics3"], idefics3::build),
    (&["gemma3"], gemma3::build),
    (&["gemma4v"], gemma4::build),
    (&["glm4v", glm4v::NEXT], glm4v::build),
    (&["lfm2"], lfm2::build),
    (&["paddleocr"], paddleocr::build),
    (&["gemma4uv"], gemma4::build_unified),
    (&["mlp"], llava::build),
    (&["clip"], clip::clip),
    (&["siglip"], clip::siglip),
    (&["llama4"], llama4::build),
    (&["kimivl", "kimik25"], kimi::build),
    (&["dots_ocr"], dots::build),
    (&["resampler"], minicpm::build),
    (&["internvl"], internvl::build),
    (&["qwen2vl_merger", "qwen2.5vl_merger", OMNI], qwen2::build),
    (&["qwen3vl_merger"], qwen3::build),
    (&["pixtral", "lightonocr"], pixtral::build),
];

/// Kinds of audio projectors, likewise.
const SOUND_PROJECTORS: &[(&[&str], Build)] = &[
    (&["qwen2a"], whisper::qwen2_audio),
    (&[OMNI], whisper::qwen2_omni),
    (&["qwen3a"], qwen3a::build),
    (&["voxtral"], whisper::voxtral),
    (&["ultravox"], whisper::ultravox),
];

/// Which encoder of a file to load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EncoderChoice {
    /// The vision encoder, or the audio encoder if there is no vision encoder.
    #[default]
    Any,
    Pictures,
    Sound,
}

/// Builds the encoder and projector of a file, without reading matrices. `hidden`: width of the model's embeddings.
/// `quantize`: type to convert float matrices to during the load.
///
/// # Errors
/// `Mismatch` if rows are not as wide as the model's embeddings.
pub fn network(
    source: &Source,
    choice: EncoderChoice,
    hidden: usize,
    quantize: Option<DType>,
) -> Result<EncoderNetwork<'_>> {
    let metadata = &source.metadata;
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let text = |key: &str| Ok::<_, Error>(metadata.str(key)?.filter(|name| !name.is_empty()));
    let has_audio = metadata.bool("clip.has_audio_encoder")? == Some(true);
    let has_vision = match metadata.bool("clip.has_vision_encoder")? {
        Some(has_vision) => has_vision,
        // Vision files may omit the flag.
        None => !has_audio || text("clip.vision.projector_type")?.is_some(),
    };
    let of_sound = match choice {
        EncoderChoice::Any => !has_vision && has_audio,
        EncoderChoice::Pictures => false,
        EncoderChoice::Sound => true,
    };
    let (kind, has_one) = if of_sound { ("sound", has_audio) } else { ("pictures", has_vision) };
    if architecture != "clip" || !has_one {
        let what = format!("{} has no encoder of {kind}", source.path().display());
        return Err(Error::unsupported(format!("{what}: the architecture is {architecture:?}")));
    }
    let own = if of_sound { "clip.audio.projector_type" } else { "clip.vision.projector_type" };
    let Some(projector) = text(own)?.or(text("clip.projector_type")?) else {
        return Err(metadata.missing("clip.projector_type"));
    };
    let table = if of_sound { SOUND_PROJECTORS } else { PROJECTORS };
    let Some((_, build)) = table.iter().find(|(names, _)| names.contains(&projector)) else {
        let known: Vec<&str> = table.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let what = format!("the projector {projector:?} of {kind} is not supported; known are {}", known.join(", "));
        return Err(Error::unsupported(what));
    };
    // A file with both may be Qwen2.5-Omni, which has audio windows of two seconds.
    if of_sound && has_vision && projector == "qwen2a" {
        return Err(Error::unsupported("cannot load the encoder of sound \"qwen2a\" next to one of pictures"));
    }
    match of_sound {
        true => build(EncoderBuilder::of_sound(source, projector, hidden, quantize)?),
        false => build(EncoderBuilder::new(source, projector, hidden, quantize)?),
    }
}
