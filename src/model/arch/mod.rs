//! The architectures: one file each, one line in `ARCHITECTURES`. A file reads the keys of its network and writes the
//! network down, top to bottom.

mod arcee;
mod baichuan;
mod bloom;
mod cohere2;
mod deci;
mod deepseek;
mod deepseek2;
mod dots1;
mod ernie4_5;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gemma2;
mod gemma3;
mod gemma4;
mod gemma;
mod glm4;
mod glm4moe;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod granitehybrid;
mod hunyuan;
mod jamba;
mod lfm2;
mod llama4;
mod llama;
mod mamba;
mod mistral3;
mod mpt;
mod nemotron;
mod nemotron_h;
mod olmo2;
mod openelm;
mod olmo;
mod olmoe;
mod orion;
mod phi2;
mod phi3;
mod phimoe;
mod plamo;
mod plamo2;
mod qwen2;
mod qwen3;
mod qwen35;
mod seed_oss;
mod smollm3;
mod stablelm;
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
    ("hunyuan-dense", hunyuan::build),
    ("arcee", arcee::build),
    ("nemotron", nemotron::build),
    ("bloom", bloom::build),
    ("mpt", mpt::build),
    ("olmo", olmo::build),
    ("baichuan", baichuan::build),
    ("exaone4", exaone4::build),
    ("glm4", glm4::build),
    ("glm4moe", glm4moe::build),
    ("stablelm", stablelm::build),
    ("mistral3", mistral3::build),
    ("ernie4_5", ernie4_5::build),
    ("ernie4_5-moe", ernie4_5::build),
    ("minicpm", granite::build),
    ("granitemoe", granite::build),
    ("qwen2moe", deepseek::build),
    ("deepseek", deepseek::build),
    ("dots1", dots1::build),
    ("olmoe", olmoe::build),
    ("minimax-m2", olmoe::build),
    ("gpt-oss", gpt_oss::build),
    ("llama4", llama4::build),
    ("phimoe", phimoe::build),
    ("hunyuan-moe", hunyuan::build),
    ("qwen2vl", qwen2::build),
    ("qwen3vl", qwen3::build),
    ("qwen3vlmoe", qwen3::build),
    ("qwen35", qwen35::build),
    ("qwen35moe", qwen35::build),
    ("qwen3next", qwen35::build),
    ("lfm2", lfm2::build),
    ("lfm2moe", lfm2::build),
    ("mamba", mamba::build),
    ("mamba2", mamba::build),
    ("granitehybrid", granitehybrid::build),
    ("falcon-h1", falcon_h1::build),
    ("nemotron_h", nemotron_h::build),
    ("nemotron_h_moe", nemotron_h::build),
    ("jamba", jamba::build),
    ("plamo2", plamo2::build),
    ("openelm", openelm::build),
    ("deci", deci::build),
    ("gemma4", gemma4::build),
    ("deepseek2", deepseek2::build),
    ("mistral4", deepseek2::build),
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
