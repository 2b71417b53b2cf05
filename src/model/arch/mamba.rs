//! Mamba 1 and 2: only selective scan layers. Falcon Mamba normalizes the scan's inputs.

use crate::error::Result;
use crate::model::builder::{Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { attentionless: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let shape = b.mamba_shape()?;
    let eps = b.keys.float("ssm.norm_epsilon")?.unwrap_or(b.rms_eps);
    let plain_norms = b.keys.flag("ssm.dt_b_c_rms")?.unwrap_or(false).then_some(eps);
    let is_second = b.hyper.architecture == "mamba2";
    ["attention.", "rope."].into_iter().for_each(|prefix| b.keys.ignore(prefix));
    let x = b.embed(1.0)?;
    b.layers(|b, _| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = if is_second { b.mamba2(h, shape, true)? } else { b.mamba1(h, shape, plain_norms)? };
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
