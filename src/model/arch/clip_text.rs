//! The text encoders of CLIP and SigLIP: pre-norm with LayerNorm, learned positions. CLIP is causal and pools the last
//! token; SigLIP is bidirectional and pads texts to the context length.

use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf, QuickGelu};
use crate::graph::op::Mask;
use crate::model::builder::{Attention, Builder};
use crate::model::hyper::Traits;

pub const TRAITS: fn(&str) -> Traits =
    |architecture| Traits { fills_texts: architecture == "siglip-text", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mask = if b.hyper.traits.fills_texts { Mask::All } else { Mask::Causal };
    let activation = match b.keys.str("hidden_act")? {
        Some("gelu_pytorch_tanh") => Gelu,
        Some("gelu") => GeluErf,
        Some("quick_gelu") => QuickGelu,
        _ => return Err(b.keys.unsupported("hidden_act")),
    };
    let x = b.embed(1.0)?;
    b.add_positions(x)?;
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let qkv = b.qkv(h, heads)?;
        let a = b.attend(qkv, Attention { mask, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, activation)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.end_with_states(h);
    Ok(())
}
