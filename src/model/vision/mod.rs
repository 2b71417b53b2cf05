//! Encoders of pictures and of sound: from a file to two programs, one for the patches of a tile or the frames of a
//! sound, one for the rows that a decoder takes in the place of embeddings. `facts` and `sound` are what the host does
//! beside them, `encoder` has the helpers in which networks are written, and each other file is a family that reads
//! from top to bottom as its network.

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
pub use sound::{Cutting, Grid, HeardPart, Hearing, SoundFacts, SoundPart};

use crate::error::{Error, Result};
use crate::format::Source;
use crate::tensor::DType;
use encoder::EncoderBuilder;
use qwen2::OMNI;

type Build = fn(EncoderBuilder) -> Result<EncoderNetwork>;

/// Kinds of projectors, as files name them, and the network that each stands behind.
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

/// The same of encoders of sound.
const SOUND_PROJECTORS: &[(&[&str], Build)] = &[
    (&["qwen2a"], whisper::qwen2_audio),
    (&[OMNI], whisper::qwen2_omni),
    (&["qwen3a"], qwen3a::build),
    (&["voxtral"], whisper::voxtral),
    (&["ultravox"], whisper::ultravox),
];

/// The kinds of encoders that a file may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Senses {
    /// The encoder of pictures, or that of sound if there is none of pictures.
    #[default]
    Any,
    Pictures,
    Sound,
}

/// The encoder of a file and its projector. Matrices are only looked up. `hidden`: width of the model's embeddings.
/// `quantize`: the type that matrices of floats are converted to while they load.
///
/// # Errors
/// `Mismatch` where rows are not as wide as the model's embeddings.
pub fn network(source: &Source, senses: Senses, hidden: usize, quantize: Option<DType>) -> Result<EncoderNetwork<'_>> {
    let metadata = &source.metadata;
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let text = |key: &str| Ok::<_, Error>(metadata.str(key)?.filter(|name| !name.is_empty()));
    let hears = metadata.bool("clip.has_audio_encoder")? == Some(true);
    let sees = match metadata.bool("clip.has_vision_encoder")? {
        Some(sees) => sees,
        // Files of pictures may leave it out.
        None => !hears || text("clip.vision.projector_type")?.is_some(),
    };
    let of_sound = match senses {
        Senses::Any => !sees && hears,
        Senses::Pictures => false,
        Senses::Sound => true,
    };
    let (kind, has_one) = if of_sound { ("sound", hears) } else { ("pictures", sees) };
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
    // A file with both may be one of Qwen2.5-Omni, which hears windows of two seconds.
    if of_sound && sees && projector == "qwen2a" {
        return Err(Error::unsupported("cannot load the encoder of sound \"qwen2a\" next to one of pictures"));
    }
    match of_sound {
        true => build(EncoderBuilder::of_sound(source, projector, hidden, quantize)?),
        false => build(EncoderBuilder::new(source, projector, hidden, quantize)?),
    }
}
