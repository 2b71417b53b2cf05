//! Gemma 3: Gemma 2 without soft-caps, with normalised queries and keys; five layers of six see a window and turn by a
//! base of their own.

use super::Keys;
use crate::error::Result;
use crate::model::config::{Config, QkNorm, RopeConfig, RopeScaling};

pub fn configure(keys: &Keys, config: Config) -> Result<Config> {
    let mut config = super::gemma::configure(keys, config)?;
    config.post_norm = true;
    config.qk_norm = QkNorm::Head;
    config.logit_softcap = keys.float("final_logit_softcapping")?.unwrap_or(0.0);
    config.attention_scale = keys.gemma_attention_scale(&config, 62)?;
    let window = keys.size("attention.sliding_window")?.unwrap_or(1024) as u32;
    keys.window(&mut config, window, 6)?;
    if keys.metadata.f32(&keys.name("rope.freq_base"))?.is_none() {
        config.ropes[0].base = 1e6;
    }
    let base = keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    config.ropes.push(RopeConfig { base, scaling: RopeScaling::None, ..config.ropes[0].clone() });
    config.layers.iter_mut().filter(|l| l.window > 0).for_each(|l| l.rope = 1);
    Ok(config)
}
