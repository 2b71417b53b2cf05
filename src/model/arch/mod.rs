//! The architectures: one file each, one line in `ARCHITECTURES`. A file reads the keys of its network and writes the
//! network down, top to bottom.

mod cohere2;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gptneox;
mod granite;
mod hunyuan_dense;
mod llama;
mod olmo2;
mod orion;
mod phi2;
mod phi3;
mod plamo;
mod qwen2;
mod qwen3;
mod seed_oss;
mod smollm3;
mod starcoder2;

use super::builder::{Builder, Network};
use super::hyper::Hyper;
use super::keys::Keys;
use crate::error::{Error, Result};
use crate::format::Source;
use crate::tensor::DType;

type Build = fn(&mut Builder) -> Result<()>;

/// `general.architecture` and the function that writes its network down.
static ARCHITECTURES: &[(&str, Build)] = &[
    ("llama", llama::build),
    ("qwen2", qwen2::build),
    ("qwen3", qwen3::build),
    ("qwen3moe", qwen3::build),
    ("gemma", gemma::build),
    ("gemma2", gemma2::build),
    ("gemma3", gemma3::build),
    ("phi3", phi3::build),
    ("gpt2", gpt2::build),
    ("starcoder2", starcoder2::build),
    ("olmo2", olmo2::build),
    ("granite", granite::build),
    ("smollm3", smollm3::build),
    ("internlm2", llama::build),
    ("xverse", llama::build),
    ("starcoder", gpt2::build),
    ("seed_oss", seed_oss::build),
    ("orion", orion::build),
    ("phi2", phi2::build),
    ("gptneox", gptneox::build),
    ("falcon", falcon::build),
    ("plamo", plamo::build),
    ("command-r", cohere2::build),
    ("cohere2", cohere2::build),
    ("hunyuan-dense", hunyuan_dense::build),
];

/// The keys of a file and the function for its architecture.
fn find(source: &Source) -> Result<(Keys<'_>, Build)> {
    let key = "general.architecture";
    let Some(architecture) = source.metadata.str(key)? else { return Err(source.metadata.missing(key)) };
    match ARCHITECTURES.iter().find(|(name, _)| *name == architecture) {
        Some((_, build)) => Ok((Keys::new(&source.metadata, architecture), *build)),
        None => {
            let known: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            Err(Error::unsupported(format!("the architecture {architecture:?} is not supported; known are {known}")))
        }
    }
}

/// The hyper-parameters of a file, of which nothing else need be there.
pub fn hyper(source: &Source) -> Result<Hyper> {
    let (keys, _) = find(source)?;
    Hyper::read(&keys, source)
}

/// The network of a file. Matrices are only looked up. `quantize`: the type that matrices of floats are converted to while
/// they load.
pub fn network(source: &Source, quantize: Option<DType>) -> Result<Network<'_>> {
    let (keys, build) = find(source)?;
    let mut builder = Builder::new(source, keys, quantize)?;
    build(&mut builder)?;
    builder.finish()
}
