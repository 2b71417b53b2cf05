//! Phi 3 and 4: one tensor for q, k and v, one for gate and up; longer contexts by LongRoPE.

use super::Keys;
use crate::error::Result;
use crate::model::config::{Config, RopeConfig, RopeScaling};

pub fn configure(keys: &Keys, mut config: Config) -> Result<Config> {
    config.fused_qkv = true;
    config.fused_gate_up = true;
    keys.window_if_told(&mut config)?;
    let trained = keys.size("rope.scaling.original_context_length")?.unwrap_or(0);
    if trained > 0 && config.context_length as usize > trained {
        let stretch = f64::from(config.context_length) / trained as f64;
        let magnitude = (1.0 + stretch.ln() / (trained as f64).ln()).sqrt() as f32;
        let magnitude = keys.float("rope.scaling.attn_factor")?.unwrap_or(magnitude);
        let rope = |long| RopeConfig { scaling: RopeScaling::LongRope { long, magnitude }, ..config.ropes[0].clone() };
        config.ropes = vec![rope(false), rope(true)];
        config.long_rope_above = Some(trained as u32);
    }
    Ok(config)
}
