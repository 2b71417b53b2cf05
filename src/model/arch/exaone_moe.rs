//! K-EXAONE and Mellum 2: QK norm, experts, a sliding window in three of four layers. In K-EXAONE only those have RoPE;
//! in Mellum their RoPE is unscaled.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::{RopeConfig, RopeScaling};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { predicts: name == "exaone-moe", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let is_mellum = b.keys.architecture == "mellum";
    let config = b.rope_config(RopePairs::Halves)?;
    let unstretched = RopeConfig { scaling: RopeScaling::None, magnitude: 1.0, ..config.clone() };
    let rope = b.rope(&config)?;
    let local = if is_mellum { b.rope(&unstretched)? } else { rope };
    let windows = b.windows_of_period(4)?;
    let moe = if is_mellum { b.moe(true)? } else { b.declared_moe(RouterScore::Sigmoid)? };
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let is_local = windows[i] > 0;
        let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
            b.head_norms(q, k)?;
            if is_local || is_mellum {
                b.rotate(if is_local { local } else { rope }, q, k);
            }
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
