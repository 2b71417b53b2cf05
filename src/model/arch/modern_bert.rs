//! ModernBERT: pre-norm without biases, gated feed-forward blocks, and symmetric sliding windows with their own RoPE in
//! all layers but the first of each period. Decoders use the past half of the window.

use crate::error::Result;
use crate::graph::op::Activation::{GeluErf, Silu};
use crate::graph::op::Mask;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::RopeConfig;

pub const TRAITS: fn(&str) -> Traits = |_| Traits { modern_classifier: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let config = b.rope_config(RopePairs::Halves)?;
    let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let local = RopeConfig { base, ..config.clone() };
    let (rope, local) = (b.rope(&config)?, b.rope(&local)?);
    let windows = match b.keys.size("attention.sliding_window")? {
        Some(window) => b.windows_after_full(window, 3)?,
        None => b.declared_windows()?,
    };
    let activation = match b.keys.str("hidden_activation")? {
        None | Some("gelu") => GeluErf,
        Some("silu") => Silu,
        Some(_) => return Err(b.keys.unsupported("hidden_activation")),
    };
    let is_decoder = b.keys.architecture == "modern-bert-decoder";
    let x = b.embed(1.0)?;
    b.layer_norm_in_place(x, "token_embd_norm")?;
    b.layers(|b, i| {
        let h = if i > 0 || b.has("attn_norm.weight") { b.layer_norm(x, "attn_norm")? } else { x };
        let [q, k, v] = b.qkv(h, heads)?;
        b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
        let mask = if is_decoder { Mask::window(windows[i] / 2) } else { Mask::around(windows[i]) };
        let a = b.attend([q, k, v], Attention { mask, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, activation)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    if is_decoder {
        let h = b.project(h, "output_dense", b.hyper.hidden)?;
        b.activate(h, GeluErf);
        let h = b.layer_norm(h, "output_dense_norm")?;
        return b.head(h, 1.0, 0.0);
    }
    b.end_with_states(h);
    Ok(())
}
