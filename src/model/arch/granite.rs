//! Granite: Llama with factors on embedding, residual stream, attention and logits.

use super::Keys;
use crate::backend::RopePairs;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.ropes[0].pairs = keys.gguf_pairs(RopePairs::Adjacent)?;
    config.embedding_scale = keys.float("embedding_scale")?.unwrap_or(1.0);
    config.residual_scale = keys.float("residual_scale")?.unwrap_or(1.0);
    config.attention_scale = keys.float("attention.scale")?.unwrap_or(config.attention_scale);
    // The file's number divides.
    config.logit_scale = 1.0 / keys.float("logit_scale")?.unwrap_or(1.0);
    Ok(config)
}
