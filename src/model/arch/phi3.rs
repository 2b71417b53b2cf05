//! Phi 3 and 4: one tensor for q, k and v, one for gate and up; longer contexts by LongRoPE.

use super::Keys;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.fused_qkv = true;
    config.fused_gate_up = true;
    keys.window_everywhere(&mut config)?;
    Ok(config)
}
