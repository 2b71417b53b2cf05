//! GPT-1 and 2, the first StarCoder, and relatives: LayerNorm, learned positions, GELU. OPT has ReLU, XGLM and BioGPT
//! scale embeddings, GPT-Neo has unscaled scores and sliding-window layers. Some are post-norm, or have embeddings
//! narrower than the layers.

use crate::error::Result;
use crate::graph::op::Activation::{Gelu, Relu};
use crate::graph::op::Mask;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    b.keys.ignore("rope.");
    let activation = if b.keys.architecture == "opt" { Relu } else { Gelu };
    let mut attention = Attention::new(heads);
    attention.scale = b.keys.float("attention.scale")?.unwrap_or(attention.scale);
    let windows = b.declared_windows()?;
    let post_norms = b.keys.flag("post_norms")?.unwrap_or(false);
    let hidden = b.hyper.hidden;
    let narrow = b.keys.size("token_embedding_length")?.unwrap_or(hidden);
    b.hyper.hidden = narrow;
    let mut x = b.embed(b.keys.float("embedding_scale")?.unwrap_or(1.0))?;
    b.hyper.hidden = hidden;
    if narrow != hidden {
        x = b.project(x, "token_embd_proj", hidden)?;
    }
    b.add_positions(x)?;
    b.layers(|b, i| {
        let h = if post_norms { x } else { b.layer_norm(x, "attn_norm")? };
        let qkv = b.qkv(h, heads)?;
        let a = b.attend(qkv, Attention { mask: Mask::window(windows[i]), ..attention })?;
        let o = b.project(a, "attn_output", hidden)?;
        b.add(x, o);
        if post_norms {
            b.layer_norm_in_place(x, "attn_norm")?;
        }
        let h = if post_norms { x } else { b.layer_norm(x, "ffn_norm")? };
        let o = b.plain_ffn(h, activation)?;
        b.add(x, o);
        if post_norms {
            b.layer_norm_in_place(x, "ffn_norm")?;
        }
        Ok(())
    })?;
    let mut h = if post_norms { x } else { b.layer_norm(x, "output_norm")? };
    if narrow != hidden {
        h = b.project(h, "output_proj", narrow)?;
        b.hyper.hidden = narrow;
    }
    b.head(h, 1.0, 0.0)
}
