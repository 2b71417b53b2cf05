//! The architectures: one file each, and one line in `ARCHITECTURES`. A file reads the keys of its network and defines
//! the network from top to bottom; `TRAITS` parameterize shared code.

mod afmoe;
mod apertus;
mod arcee;
mod arctic;
mod baichuan;
mod bailingmoe3;
mod bert;
mod bitnet;
mod bloom;
mod clip_text;
mod cohere2;
mod dbrx;
mod deci;
mod deepseek;
mod deepseek2;
mod deepseek32;
mod deepseek4;
mod dots1;
mod dots3note;
mod eagle3;
mod ernie4_5;
mod eurobert;
mod exaone4;
mod exaone_moe;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod gemma4_assistant;
mod glm4;
mod glm4moe;
mod glm5_next;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod granitehybrid;
mod grok;
mod grovemoe;
mod hrm_text;
mod hunyuan;
mod hy_v4;
mod jais;
mod jamba;
mod kimi_k3;
mod kimi_linear;
mod laguna;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod maple;
mod mimo2;
mod minicpm3;
mod minimax_01;
mod minimax_m3;
mod mistral3;
mod modern_bert;
mod mpt;
mod muse_glimmer;
mod nanbeige;
mod nanochat;
mod nemotron;
mod nemotron_h;
mod olmo;
mod olmo2;
mod olmo_hybrid;
mod olmoe;
mod openelm;
mod orion;
mod phi2;
mod phi3;
mod phimoe;
mod plamo;
mod plamo2;
mod plamo3;
mod plm;
mod qwen2;
mod qwen3;
mod qwen35;
mod qwen4exp;
mod rwkv6;
mod rwkv7;
mod seed_oss;
mod smallthinker;
mod smollm3;
mod spark2_5;
mod stablelm;
mod starcoder2;
mod step35;
mod t5;
mod talkie;

use super::builder::{Builder, Network};
use super::hyper::{Hyper, Traits};
use super::keys::Keys;
use crate::error::{Error, Result};
use crate::format::Source;
use crate::tensor::DType;

type Build = fn(&mut Builder) -> Result<()>;

/// Names of architectures (`general.architecture`), their build function, and their traits.
type Row = (&'static [&'static str], Build, fn(&str) -> Traits);

static ARCHITECTURES: &[Row] = &[
    (&["llama", "internlm2", "xverse", "chatglm", "llama-embed"], llama::build, PLAIN),
    (&["qwen2", "qwen2vl", "exaone", "qwen", "pangu-embedded", "paddleocr", "cogvlm"], qwen2::build, qwen2::TRAITS),
    (&["qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "qwen3tts"], qwen3::build, qwen3::TRAITS),
    (&["gemma"], gemma::build, PLAIN),
    (&["gemma2"], gemma2::build, PLAIN),
    (&["gemma3", "gemma-embedding"], gemma3::build, gemma3::TRAITS),
    (&["phi3"], phi3::build, PLAIN),
    (&["gpt2", "openai-gpt", "starcoder", "gpt-neo", "opt", "xglm", "biogpt"], gpt2::build, PLAIN),
    (&["starcoder2", "codeshell"], starcoder2::build, starcoder2::TRAITS),
    (&["olmo2"], olmo2::build, PLAIN),
    (&["granite", "minicpm", "granitemoe", "granite_swa", "hyperclovax"], granite::build, PLAIN),
    (&["smollm3"], smollm3::build, PLAIN),
    (&["seed_oss"], seed_oss::build, PLAIN),
    (&["orion"], orion::build, PLAIN),
    (&["phi2", "gptj"], phi2::build, PLAIN),
    (&["gptneox"], gptneox::build, PLAIN),
    (&["falcon"], falcon::build, PLAIN),
    (&["plamo"], plamo::build, PLAIN),
    (&["command-r", "cohere2", "cohere2moe"], cohere2::build, cohere2::TRAITS),
    (&["hunyuan-dense", "hunyuan-moe", "maincoder", "hunyuan_vl"], hunyuan::build, PLAIN),
    (&["arcee"], arcee::build, PLAIN),
    (&["nemotron", "jais2", "persimmon"], nemotron::build, PLAIN),
    (&["bloom"], bloom::build, PLAIN),
    (&["mpt"], mpt::build, PLAIN),
    (&["olmo"], olmo::build, PLAIN),
    (&["baichuan"], baichuan::build, PLAIN),
    (&["exaone4"], exaone4::build, PLAIN),
    (&["glm4"], glm4::build, PLAIN),
    (&["glm4moe"], glm4moe::build, glm4moe::TRAITS),
    (&["stablelm"], stablelm::build, PLAIN),
    (&["mistral3"], mistral3::build, PLAIN),
    (&["ernie4_5", "ernie4_5-moe"], ernie4_5::build, PLAIN),
    (&["minicpm3"], minicpm3::build, PLAIN),
    (&["qwen2moe", "deepseek", "bailingmoe", "deepseek2-ocr"], deepseek::build, PLAIN),
    (&["dots1", "bailingmoe2", "hy_v3"], dots1::build, dots1::TRAITS),
    (&["olmoe", "minimax-m2"], olmoe::build, PLAIN),
    (&["gpt-oss"], gpt_oss::build, PLAIN),
    (&["llama4"], llama4::build, PLAIN),
    (&["phimoe"], phimoe::build, PLAIN),
    (&["bert", "albert", "gte", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3"], bert::build, PLAIN),
    (&["modern-bert", "modern-bert-decoder"], modern_bert::build, modern_bert::TRAITS),
    (&["eurobert", "neo-bert"], eurobert::build, PLAIN),
    (&["clip-text", "siglip-text"], clip_text::build, clip_text::TRAITS),
    (&["qwen35", "qwen35moe", "qwen3next"], qwen35::build, qwen35::TRAITS),
    (&["qwen4exp"], qwen4exp::build, qwen4exp::TRAITS),
    (&["lfm2", "lfm2moe", "lfm3"], lfm2::build, PLAIN),
    (&["mamba", "mamba2"], mamba::build, mamba::TRAITS),
    (&["granitehybrid"], granitehybrid::build, PLAIN),
    (&["falcon-h1"], falcon_h1::build, PLAIN),
    (&["nemotron_h", "nemotron_h_moe"], nemotron_h::build, nemotron_h::TRAITS),
    (&["jamba"], jamba::build, PLAIN),
    (&["kimi-linear"], kimi_linear::build, PLAIN),
    (&["plamo2"], plamo2::build, PLAIN),
    (&["nanochat"], nanochat::build, PLAIN),
    (&["olmo-hybrid"], olmo_hybrid::build, PLAIN),
    (&["nanbeige"], nanbeige::build, PLAIN),
    (&["jais", "refact"], jais::build, PLAIN),
    (&["dbrx"], dbrx::build, PLAIN),
    (&["grok"], grok::build, PLAIN),
    (&["arctic"], arctic::build, PLAIN),
    (&["exaone-moe", "mellum"], exaone_moe::build, exaone_moe::TRAITS),
    (&["afmoe"], afmoe::build, PLAIN),
    (&["spark2_5"], spark2_5::build, PLAIN),
    (&["smallthinker"], smallthinker::build, PLAIN),
    (&["plamo3"], plamo3::build, PLAIN),
    (&["talkie"], talkie::build, PLAIN),
    (&["muse-glimmer"], muse_glimmer::build, PLAIN),
    (&["mimo2"], mimo2::build, mimo2::TRAITS),
    (&["openelm"], openelm::build, PLAIN),
    (&["deci"], deci::build, PLAIN),
    (&["gemma3n"], gemma3n::build, PLAIN),
    (&["t5", "t5encoder"], t5::build, PLAIN),
    (&["gemma4"], gemma4::build, PLAIN),
    (&["deepseek2", "mistral4"], deepseek2::build, deepseek2::TRAITS),
    (&["bitnet"], bitnet::build, PLAIN),
    (&["plm"], plm::build, PLAIN),
    (&["laguna"], laguna::build, PLAIN),
    (&["apertus"], apertus::build, PLAIN),
    (&["deepseek32", "glm-dsa"], deepseek32::build, deepseek32::TRAITS),
    (&["deepseek4"], deepseek4::build, deepseek4::TRAITS),
    (&["dots3note"], dots3note::build, dots3note::TRAITS),
    (&["bailingmoe3"], bailingmoe3::build, bailingmoe3::TRAITS),
    (&["hrm_text"], hrm_text::build, PLAIN),
    (&["minimax-01"], minimax_01::build, PLAIN),
    (&["minimax-m3"], minimax_m3::build, minimax_m3::TRAITS),
    (&["kimi-k3"], kimi_k3::build, PLAIN),
    (&["hy_v4"], hy_v4::build, hy_v4::TRAITS),
    (&["glm5-next"], glm5_next::build, glm5_next::TRAITS),
    (&["maple"], maple::build, PLAIN),
    (&["step35"], step35::build, step35::TRAITS),
    (&["grovemoe"], grovemoe::build, PLAIN),
    (&["rwkv6", "rwkv6qwen2"], rwkv6::build, rwkv6::TRAITS),
    (&["rwkv7", "arwkv7"], rwkv7::build, rwkv7::TRAITS),
    (&["eagle3"], eagle3::build, eagle3::TRAITS),
    (&["gemma4-assistant"], gemma4_assistant::build, gemma4_assistant::TRAITS),
];

/// Diffusion language models, for which there is no sampler.
const DIFFUSION: [&str; 4] = ["dream", "llada", "llada-moe", "rnd1"];

/// The default traits.
const PLAIN: fn(&str) -> Traits = |_| Traits::default();

/// Returns the keys and hyperparameters of a file, and the build function of its architecture.
fn find(source: &Source) -> Result<(Keys<'_>, Hyper, Build)> {
    let key = "general.architecture";
    let Some(architecture) = source.metadata.str(key)? else { return Err(source.metadata.missing(key)) };
    if DIFFUSION.contains(&architecture) {
        let what = format!("the architecture {architecture:?}: it makes a text by diffusion, not token after token");
        return Err(Error::unsupported(what));
    }
    let Some((_, build, traits)) = ARCHITECTURES.iter().find(|(names, ..)| names.contains(&architecture)) else {
        let known: Vec<String> = ARCHITECTURES.iter().map(|(names, ..)| names.join(", ")).collect();
        let what = format!("the architecture {architecture:?} is not supported; known are {}", known.join(", "));
        return Err(Error::unsupported(what));
    };
    let keys = Keys::new(&source.metadata, architecture);
    let hyper = Hyper::read(&keys, traits(architecture), source)?;
    Ok((keys, hyper, *build))
}

/// Reads only the hyperparameters of a file.
pub fn hyper(source: &Source) -> Result<Hyper> {
    find(source).map(|(_, hyper, _)| hyper)
}

/// Builds the network of a file, without reading matrices. `quantize`: the type to convert float matrices to during the
/// load. `predicts`: true to include the MTP layer.
pub fn network(source: &Source, quantize: Option<DType>, predicts: bool) -> Result<Network<'_>> {
    let (keys, hyper, build) = find(source)?;
    let mut builder = Builder::new(source, keys, hyper, quantize, predicts)?;
    build(&mut builder)?;
    builder.finish()
}
