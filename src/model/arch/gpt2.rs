//! GPT-2: LayerNorm, learned positions, biases everywhere, one tensor for q, k and v, GELU.

use super::Keys;
use crate::backend::{Activation, NormKind};
use crate::error::Result;
use crate::model::config::{Config, Positions};

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.norm = NormKind::Layer;
    config.norm_eps = keys.float("attention.layer_norm_epsilon")?.unwrap_or(1e-5);
    config.positions = Positions::Learned;
    config.fused_qkv = true;
    config.gated = false;
    config.activation = Activation::Gelu;
    config.ropes.clear();
    Ok(config)
}
