//! Qwen 3 with experts in every layer.

use super::Keys;
use crate::error::Result;
use crate::model::config::{Config, QkNorm};

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.qk_norm = QkNorm::Head;
    keys.experts(&mut config, true)?;
    Ok(config)
}
