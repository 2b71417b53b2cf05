//! Encoders of pictures: from a file to two programs, one for the patches of a tile, one for the rows that a decoder
//! takes in the place of embeddings. `facts` is what the host does beside them, `encoder` has the helpers in which
//! networks are written, and each other file is a family that reads from top to bottom as its network.

mod encoder;
mod facts;
mod gemma3;
mod idefics3;
mod internvl;
mod llava;
mod pixtral;
mod qwen2;
mod qwen3;

pub use encoder::EncoderNetwork;
pub use facts::{Facts, Piece, TileInputs};

use crate::error::{Error, Result};
use crate::format::Source;
use crate::tensor::DType;
use encoder::EncoderBuilder;

type Build = fn(EncoderBuilder) -> Result<EncoderNetwork>;

/// Kinds of projectors, as files name them, and the network that each stands behind.
const PROJECTORS: &[(&[&str], Build)] = &[
    (&["idefics3"], idefics3::build),
    (&["gemma3"], gemma3::build),
    (&["mlp"], llava::build),
    (&["internvl"], internvl::build),
    (&["qwen2vl_merger", "qwen2.5vl_merger"], qwen2::build),
    (&["qwen3vl_merger"], qwen3::build),
    (&["pixtral"], pixtral::build),
];

/// The encoder of a file and its projector. Matrices are only looked up. `hidden`: width of the model's embeddings.
/// `quantize`: the type that matrices of floats are converted to while they load.
///
/// # Errors
/// `Mismatch` where rows are not as wide as the model's embeddings.
pub fn network(source: &Source, hidden: usize, quantize: Option<DType>) -> Result<EncoderNetwork<'_>> {
    let metadata = &source.metadata;
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let has_none = metadata.bool("clip.has_vision_encoder")? == Some(false);
    if architecture != "clip" || has_none {
        let what = format!("{}: no encoder of pictures", source.path().display());
        return Err(Error::unsupported(format!("{what}: the architecture is {architecture:?}")));
    }
    let keys = ["clip.projector_type", "clip.vision.projector_type"];
    let [both, own] = [metadata.str(keys[0])?, metadata.str(keys[1])?];
    let Some(projector) = own.or(both).filter(|name| !name.is_empty()) else {
        return Err(metadata.missing(keys[0]));
    };
    let Some((_, build)) = PROJECTORS.iter().find(|(names, _)| names.contains(&projector)) else {
        let known: Vec<&str> = PROJECTORS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let what = format!("the projector {projector:?} is not supported; known are {}", known.join(", "));
        return Err(Error::unsupported(what));
    };
    build(EncoderBuilder::new(source, projector, hidden, quantize)?)
}
