//! Qwen 2 and 2.5: Llama with biases on q, k and v, in half-split rotary order.

use super::Keys;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    keys.window_if_told(&mut config)?;
    Ok(config)
}
