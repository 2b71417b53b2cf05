//! Qwen 3: queries and keys are normalised head by head, and the heads together may be wider than the model.

use super::Keys;
use crate::error::Result;
use crate::model::config::{Config, QkNorm};

pub fn configure(_: &Keys, mut config: Config) -> Result<Config> {
    config.qk_norm = QkNorm::Head;
    Ok(config)
}
