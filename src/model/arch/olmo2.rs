//! OLMo 2: norms on the output of each block instead of its input, and on the whole of q and k.

use super::Keys;
use crate::error::Result;
use crate::model::config::{Config, QkNorm};

pub fn configure(_: &Keys, mut config: Config) -> Result<Config> {
    config.pre_norm = false;
    config.post_norm = true;
    config.qk_norm = QkNorm::Full;
    Ok(config)
}
