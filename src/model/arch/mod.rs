//! The architectures: one file each, one line in `ARCHITECTURES`. A file reads the keys of its network and writes the
//! network down, top to bottom.

mod afmoe;
mod arcee;
mod arctic;
mod baichuan;
mod bert;
mod bloom;
mod cohere2;
mod dbrx;
mod deci;
mod deepseek2;
mod deepseek;
mod dots1;
mod ernie4_5;
mod eurobert;
mod exaone4;
mod exaone_moe;
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
mod grok;
mod hunyuan;
mod jais;
mod jamba;
mod kimi_linear;
mod lfm2;
mod llama4;
mod llama;
mod mamba;
mod mimo2;
mod minicpm3;
mod mistral3;
mod modern_bert;
mod mpt;
mod muse_glimmer;
mod nanbeige;
mod nemotron;
mod nemotron_h;
mod olmo2;
mod olmo;
mod olmoe;
mod openelm;
mod orion;
mod phi2;
mod phi3;
mod phimoe;
mod plamo2;
mod plamo3;
mod plamo;
mod qwen2;
mod qwen35;
mod qwen3;
mod seed_oss;
mod smallthinker;
mod smollm3;
mod spark2_5;
mod stablelm;
mod starcoder2;
mod talkie;

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
    ("minicpm3", minicpm3::build),
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
    ("bert", bert::build),
    ("nomic-bert", bert::build),
    ("nomic-bert-moe", bert::build),
    ("jina-bert-v2", bert::build),
    ("jina-bert-v3", bert::build),
    ("modern-bert", modern_bert::build),
    ("eurobert", eurobert::build),
    ("gemma-embedding", gemma3::build),
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
    ("kimi-linear", kimi_linear::build),
    ("plamo2", plamo2::build),
    ("exaone", qwen2::build),
    ("qwen", qwen2::build),
    ("pangu-embedded", qwen2::build),
    ("paddleocr", qwen2::build),
    ("cogvlm", qwen2::build),
    ("chatglm", llama::build),
    ("nanbeige", nanbeige::build),
    ("codeshell", starcoder2::build),
    ("jais2", nemotron::build),
    ("maincoder", hunyuan::build),
    ("hunyuan_vl", hunyuan::build),
    ("bailingmoe2", dots1::build),
    ("hy_v3", dots1::build),
    ("bailingmoe", deepseek::build),
    ("granite_swa", granite::build),
    ("cohere2moe", cohere2::build),
    ("jais", jais::build),
    ("refact", jais::build),
    ("dbrx", dbrx::build),
    ("grok", grok::build),
    ("arctic", arctic::build),
    ("exaone-moe", exaone_moe::build),
    ("mellum", exaone_moe::build),
    ("afmoe", afmoe::build),
    ("spark2_5", spark2_5::build),
    ("smallthinker", smallthinker::build),
    ("plamo3", plamo3::build),
    ("talkie", talkie::build),
    ("muse-glimmer", muse_glimmer::build),
    ("qwen3tts", qwen3::build),
    ("mimo2", mimo2::build),
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

/// The network of a file. Matrices are only looked up. `quantize`: the type that matrices of floats are converted to
/// while they load. `predicts`: the layer that predicts a further token is wanted as well.
pub fn network(source: &Source, quantize: Option<DType>, predicts: bool) -> Result<Network<'_>> {
    let (keys, build) = find(source)?;
    let mut builder = Builder::new(source, keys, quantize, predicts)?;
    build(&mut builder)?;
    builder.finish()
}
