//! EAGLE-3 (arXiv 2503.01840): a draft head for another network, a Llama layer whose attention reads the concatenated
//! embedding of a token and hidden state of the previous one. More layers may follow.

use crate::error::Result;
use crate::graph::op::Activation;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { drafts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let windows = b.declared_windows()?;
    let adds_norm = b.keys.flag("norm_before_residual")? == Some(true);
    b.head_of_another(|b, [state, token]| {
        let mut x = state;
        b.layers(|b, i| {
            let h = if i == 0 {
                let (token, state) = (b.rms_norm(token, "attn_norm")?, b.rms_norm(state, "attn_norm_2")?);
                x = if adds_norm { state } else { x };
                b.joined(token, state)
            } else {
                b.rms_norm(x, "attn_norm")?
            };
            let o = b.attention(h, Attention::windowed(heads, windows[i]), |b, q, k| {
                if b.has("attn_q_norm.weight") {
                    b.head_norms(q, k)?;
                }
                b.rotate(rope, q, k);
                Ok(())
            })?;
            b.add(x, o);
            let h = b.rms_norm(x, "ffn_norm")?;
            let o = b.gated_ffn(h, Activation::Silu)?;
            b.add(x, o);
            Ok(())
        })?;
        Ok(x)
    })
}
