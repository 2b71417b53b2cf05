//! Gemma 3: Gemma 2 without soft-capping, with QK norm; five of six layers have a sliding window and their own RoPE
//! base. EmbeddingGemma is the same network with bidirectional attention.

use super::gemma2::attention_scale;
use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::Mask;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::hyper::Traits;
use crate::model::rope::{RopeConfig, RopeScaling};

pub const TRAITS: fn(&str) -> Traits = |name| Traits { mutual_media: name == "gemma3", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.base = b.keys.float("rope.freq_base")?.unwrap_or(1e6);
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let local = RopeConfig { base, scaling: RopeScaling::None, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let logit_softcap = b.softcap("final_logit_softcapping", 0.0)?;
    let encoder = b.hyper.architecture == "gemma-embedding";
    let scale = if encoder { Attention::new(heads).scale } else { attention_scale(b, 62)? };
    let windows = b.windows(b.keys.size("attention.sliding_window")?.unwrap_or(1024), 6)?;
    let x = b.embed((b.hyper.hidden as f32).sqrt())?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.rms_norm_groups(q, "attn_q_norm", heads.head_dim)?;
        b.rms_norm_groups(k, "attn_k_norm", heads.head_dim)?;
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let mask = if encoder { Mask::around(windows[i]) } else { Mask::window(windows[i]) };
        let a = b.attend([q, k, v], Attention { scale, mask, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Gelu)?;
        b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    if encoder {
        b.end_with_states(h);
        return Ok(());
    }
    b.head(h, 1.0, logit_softcap)
}
