//! BERT and relatives: bidirectional attention, post-norm. Positions are learned (BERT, ELECTRA, ALBERT), RoPE (Nomic,
//! Jina v3, GTE), ALiBi (Jina v2), or a bias by distance (MPNet). ELECTRA and ALBERT project a narrower embedding; all
//! layers of ALBERT share weights.

use super::t5;
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf, Silu};
use crate::graph::op::{Mask, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let name = b.hyper.architecture.clone();
    let is = |names: &[&str]| names.contains(&name.as_str());
    let rope = match is(&["nomic-bert", "nomic-bert-moe", "jina-bert-v3", "gte"]) {
        true => Some(b.rope_config(RopePairs::Halves).and_then(|config| b.rope(&config))?),
        false => None,
    };
    let max_alibi = if is(&["jina-bert-v2"]) { b.keys.float("attention.max_alibi_bias")?.unwrap_or(8.0) } else { 0.0 };
    let moe = b.moe(false)?.map(|moe| Moe { activation: GeluErf, ..moe });
    if moe.is_some() {
        // The tensors determine which layers have experts.
        b.keys.get("moe_every_n_layers");
    }
    let (is_plain, activation) = match b.keys.str("hidden_activation")? {
        None => (!is(&["nomic-bert"]), GeluErf),
        Some("gelu") => (true, GeluErf),
        Some("gelu_new") => (true, Gelu),
        Some(_) => return Err(b.keys.unsupported("hidden_activation")),
    };
    let hidden = b.hyper.hidden;
    b.hyper.hidden = b.keys.size("token_embedding_length")?.unwrap_or(hidden);
    let mut x = b.embed(1.0)?;
    b.add_first_type(x, "token_types.weight")?;
    b.add_first_type(x, "task_types.weight")?;
    if is(&["bert", "albert"]) {
        b.add_positions(x)?;
    }
    b.layer_norm_in_place(x, "token_embd_norm")?;
    if b.hyper.hidden != hidden || b.has("token_embd_proj.weight") {
        b.hyper.hidden = hidden;
        x = b.project(x, "token_embd_proj", hidden)?;
    }
    // One table for all layers.
    let mut distances = None;
    b.layers(|b, i| {
        if name == "albert" {
            b.take_block(0);
        }
        if i == 0 && b.has("attn_rel_b.weight") {
            distances = Some(t5::distances(b)?);
        }
        let [q, k, v] = b.qkv(x, heads)?;
        for (x, part) in [(q, "attn_q_norm"), (k, "attn_k_norm")] {
            if b.has(&format!("{part}.weight")) {
                b.layer_norm_in_place(x, part)?;
            }
        }
        if let Some(rope) = rope {
            b.rotate(rope, q, k);
        }
        let a = b.attend([q, k, v], Attention { mask: Mask::All, max_alibi, distances, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(o, x);
        if b.has("attn_norm_2.weight") {
            b.layer_norm_in_place(o, "attn_output_norm")?;
            b.add(o, x);
            b.layer_norm_into(o, "attn_norm_2", x)?;
        } else {
            b.layer_norm_into(o, "attn_output_norm", x)?;
        }
        let o = match (name.as_str(), moe) {
            (_, Some(moe)) if b.has("ffn_gate_inp.weight") => mixture(b, x, moe)?,
            ("nomic-bert", _) if !is_plain => b.gated_ffn(x, Silu)?,
            ("gte", _) => b.gated_ffn(x, GeluErf)?,
            ("jina-bert-v2", _) if !b.has_plain_up()? => b.gated_ffn(x, GeluErf)?,
            _ => b.plain_ffn(x, activation)?,
        };
        b.add(o, x);
        b.layer_norm_into(o, "layer_output_norm", x)
    })?;
    b.end_with_states(x);
    Ok(())
}

/// Experts, with biases added after the sum of experts if a folder has them.
fn mixture(b: &mut Builder, x: TensorId, moe: Moe) -> Result<TensorId> {
    let out = b.experts(x, moe)?;
    if b.has("ffn_exps.bias") {
        let values = b.all_values("ffn_exps.bias", b.hyper.hidden)?;
        let bias = b.copy(out, b.hyper.hidden);
        b.fill(bias, values);
        b.join(out, bias);
    }
    Ok(out)
}
