//! Keys of networks with multi-head latent attention (DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash, MiniCPM 3).

use super::translator::{HEADS, Translator, WIDTH};
use crate::error::Result;

/// Sets the widths of heads and of the vectors that queries, and keys and values, are made of.
pub(super) fn attention(t: &mut Translator) -> Result<()> {
    let rank = t.size("kv_lora_rank")?;
    let [still, turning] = [t.size("qk_nope_head_dim")?, t.size("qk_rope_head_dim")?];
    let value_dim = value_dim(t)?;
    // Some configurations repeat widths of heads under other names.
    for (name, width) in [("head_dim", turning), ("qk_head_dim", still + turning)] {
        match t.config.int(&[name])? {
            Some(told) if told != width => {
                return Err(t.config.unsupported(&format!("{name:?} with the value {told}")));
            }
            _ => {}
        }
    }
    t.set("attention.kv_lora_rank", Some(rank));
    t.set("attention.q_lora_rank", t.config.int(&["q_lora_rank"])?);
    t.set("attention.key_length_mla", Some(still + turning));
    t.set("attention.value_length_mla", Some(value_dim));
    // Those of the cache.
    t.replace("attention.key_length", Some(rank + turning));
    t.replace("attention.value_length", Some(rank));
    t.replace("attention.head_count_kv", Some(1u64));
    t.set("rope.dimension_count", Some(turning));
    if t.config.bool(&["rope_interleave"])? == Some(false) {
        t.keys.retain(|(key, _)| key != "realizar.rope_halves");
        t.keys.push(("realizar.rope_halves".into(), true.into()));
    }
    Ok(())
}

/// The width of a value: as given, or that of a head by the number of heads.
pub(super) fn value_dim(t: &Translator) -> Result<u64> {
    let derived = t.int(WIDTH)?.unwrap_or(0).checked_div(t.int(HEADS)?.unwrap_or(0));
    match t.config.int(&["v_head_dim"])?.is_some() || t.family.arch != "minicpm3" {
        true => t.size("v_head_dim"),
        false => Ok(derived.unwrap_or(0)),
    }
}

/// Sets the rules of the router.
pub(super) fn router(t: &mut Translator) -> Result<()> {
    // The second generation has no bias beside the score.
    let is_second = t.config.text(&["model_type"])?.is_some_and(|kind| kind == "deepseek_v2");
    t.expect_text("scoring_func", &[if is_second { "softmax" } else { "sigmoid" }])?;
    t.set("expert_gating_func", Some(if is_second { 1u64 } else { 2 }));
    let groups = [t.int(&["n_group"])?, t.int(&["topk_group"])?];
    if is_second {
        t.expect("norm_topk_prob", false)?;
        let by_group = t.config.text(&["topk_method"])?.is_some_and(|method| method == "group_limited_greedy");
        if !by_group {
            return t.expect_text("topk_method", &["greedy"]);
        }
        // Its groups are as good as their best expert.
        return match groups[0] == groups[1] {
            true => Ok(()),
            false => Err(t.config.unsupported("\"topk_method\" with the value \"group_limited_greedy\"")),
        };
    }
    t.set("expert_weights_norm", t.bool(&["norm_topk_prob"])?);
    t.set("expert_group_count", groups[0]);
    t.set("expert_group_used_count", groups[1]);
    Ok(())
}
