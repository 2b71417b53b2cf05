//! Gemma 4's assistants: draft heads in files of their own, a few Gemma 4 layers without KV cache. They read Gemma 4's
//! KV cache, its last hidden state, and the embedding of the next token.

use super::gemma4::Kinds;
use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::KvLayerId;
use crate::model::builder::{Builder, SharedKeys, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { drafts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let (hidden, n_layers) = (b.hyper.hidden, b.hyper.n_layers);
    for (key, value) in [("embedding_length_per_layer_input", 0), ("attention.shared_kv_layers", n_layers)] {
        if b.keys.size(key)?.is_some_and(|declared| declared != value) {
            return Err(b.keys.unsupported(key));
        }
    }
    let kinds = Kinds::read(b)?;
    let mut stored: [Option<KvLayerId>; 2] = [None; 2];
    b.head_with_shared_kv("gemma4", |b, x| {
        b.layers(|b, i| {
            let (kind, attention, rope) = kinds.of(b, i)?;
            let stored = &mut stored[kind];
            let attention = b.attend_after(attention, stored)?;
            let h = b.rms_norm(x, "attn_norm")?;
            let o = b.sharing_attention(h, attention, rope, SharedKeys::OfLast(*stored))?;
            b.rms_norm_groups(o, "post_attention_norm", hidden)?;
            b.add(x, o);
            let h = b.rms_norm(x, "ffn_norm")?;
            let o = b.gated_ffn(h, Gelu)?;
            b.rms_norm_groups(o, "post_ffw_norm", hidden)?;
            b.add(x, o);
            b.scale_if_present(x, "layer_output_scale.weight")
        })?;
        Ok(x)
    })
}
