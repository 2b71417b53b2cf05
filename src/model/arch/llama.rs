//! Llama 1 to 3, Mistral, SmolLM2, TinyLlama: RMSNorm, rotary positions, SwiGLU, grouped-query attention.
//! Mixtral is the same with experts.

use super::Keys;
use crate::backend::RopePairs;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    // GGUF files of this architecture keep the rows of q and k in adjacent-pair order; Hugging Face folders do not.
    config.ropes[0].pairs = keys.gguf_pairs(RopePairs::Adjacent)?;
    keys.window_if_told(&mut config)?;
    // Softmax over the chosen experts, which is that over all with the chosen ones made to sum to 1.
    keys.experts(&mut config, false)?;
    Ok(config)
}
