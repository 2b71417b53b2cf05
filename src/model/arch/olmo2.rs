//! OLMo 2 and 3: norms on the output of each block instead of its input, and on the whole of q and k. OLMo 3 has layers
//! with a window, whose rotation is not scaled.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::{RopeConfig, RopeScaling};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let local = RopeConfig { scaling: RopeScaling::None, magnitude: 1.0, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) => b.windows(window, 4)?,
        None => b.windows_if_told()?,
    };
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let [q, k, v] = b.qkv(x, heads)?;
        b.rms_norm_groups(q, "attn_q_norm", heads.n_heads * heads.head_dim)?;
        b.rms_norm_groups(k, "attn_k_norm", heads.n_kv_heads * heads.head_dim)?;
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let o = b.gated_ffn(x, Silu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
