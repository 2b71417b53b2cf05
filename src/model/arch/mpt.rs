//! MPT: LayerNorm, ALiBi or learned positions instead of RoPE, clamped q, k and v, GELU.

use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::model::builder::{Attention, Builder};

pub fn build(b: &mut Builder) -> Result<()> {
    b.keys.ignore("rope.");
    let heads = b.hyper.heads;
    let max_alibi = b.keys.float("attention.max_alibi_bias")?.unwrap_or(0.0);
    let limit = b.keys.float("attention.clamp_kqv")?;
    let attention = Attention { max_alibi, ..Attention::new(heads) };
    let x = b.embed(1.0)?;
    if b.has("position_embd.weight") {
        b.add_positions(x)?;
    }
    b.layers(|b, _| {
        let h = b.layer_norm(x, "attn_norm")?;
        let qkv = b.qkv(h, heads)?;
        if let Some(limit) = limit {
            qkv.into_iter().for_each(|x| b.clamp(x, limit));
        }
        if b.has("attn_q_norm.weight") {
            b.layer_norm_groups(qkv[0], "attn_q_norm", heads.n_heads * heads.head_dim)?;
            b.layer_norm_groups(qkv[1], "attn_k_norm", heads.n_kv_heads * heads.head_dim)?;
        } else {
            // Networks without a query norm do not use the key norm.
            ["weight", "bias"].into_iter().for_each(|ending| b.ignore(&format!("attn_k_norm.{ending}")));
        }
        let a = b.attend(qkv, attention)?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.layer_norm(x, "ffn_norm")?;
        let o = b.plain_ffn(h, Gelu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.layer_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
