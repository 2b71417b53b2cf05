//! StarCoder 2: LayerNorm and biases as in GPT-2, rotary positions, grouped-query attention.

use super::Keys;
use crate::backend::{Activation, NormKind};
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.norm = NormKind::Layer;
    config.norm_eps = keys.float("attention.layer_norm_epsilon")?.unwrap_or(1e-5);
    config.gated = false;
    config.activation = Activation::Gelu;
    keys.window_if_told(&mut config)?;
    Ok(config)
}
