//! Gemma: embeddings scaled by the root of the width, GeGLU.

use super::Keys;
use crate::backend::Activation;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.embedding_scale = (config.hidden as f32).sqrt();
    config.activation = Activation::Gelu;
    config.norm_offset = keys.norm_offset()?;
    Ok(config)
}
