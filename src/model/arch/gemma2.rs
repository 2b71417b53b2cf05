//! Gemma 2: norms on both sides of each block, soft-capped scores and logits, every other layer sees a window.

use super::Keys;
use crate::error::Result;
use crate::model::config::Config;

pub fn configure(keys: &Keys, config: Config) -> Result<Config> {
    let mut config = super::gemma::configure(keys, config)?;
    config.post_norm = true;
    config.attention_softcap = keys.float("attn_logit_softcapping")?.unwrap_or(50.0);
    config.logit_softcap = keys.float("final_logit_softcapping")?.unwrap_or(30.0);
    config.attention_scale = keys.gemma_attention_scale(&config, 46)?;
    let window = keys.size("attention.sliding_window")?.unwrap_or(4096) as u32;
    keys.window(&mut config, window, 2)?;
    Ok(config)
}
