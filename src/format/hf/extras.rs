//! Keys of single families that are no plain translation: values that follow from several keys, lists of one value a
//! layer, sets of their own. Refuses the values that the networks of GGUF files do not have.

use super::members::Members;
use super::translator::{HEADS, LAYERS, MAX_LAYERS, MAX_WIDTH, Translator, WIDTH};
use super::{gemma4, hybrid, known, latent, rope};
use crate::error::{Result, try_vec};
use crate::format::json::Json;
use crate::format::value::whole;

/// Sets the keys of the family; returns the number of key-value heads.
pub(super) fn translate(t: &mut Translator) -> Result<Option<u64>> {
    let mut kv_heads = t.int(&["num_key_value_heads"])?;
    match t.family.arch {
        "smollm3" | "llama4" => rotating_layers(t)?,
        "minicpm" => minicpm(t)?,
        "minicpm3" => {
            minicpm(t)?;
            latent::attention(t)?;
        }
        "hunyuan-dense" | "hunyuan-moe" => hunyuan(t)?,
        "dots1" | "minimax-m2" | "glm4moe" | "deepseek" => routed(t)?,
        "exaone4" => exaone4(t)?,
        "falcon" | "starcoder" => kv_heads = multi_query(t)?,
        "mpt" => kv_heads = mpt(t)?,
        "lfm2" | "lfm2moe" => lfm2(t, kv_heads)?,
        "baichuan" => baichuan(t)?,
        "qwen3next" | "qwen35" | "qwen35moe" => hybrid::delta_nets(t)?,
        "gemma4" => gemma4::translate(t)?,
        "deepseek2" => {
            latent::attention(t)?;
            latent::router(t)?;
        }
        "mamba" => hybrid::mamba(t)?,
        "mamba2" => hybrid::mamba2(t)?,
        "falcon-h1" => hybrid::falcon_h1(t)?,
        "granitehybrid" => hybrid::granite(t)?,
        "nemotron_h" => hybrid::nemotron(t)?,
        "jamba" => hybrid::jamba(t)?,
        "cohere2" => {
            t.expect_text("position_embedding_type", &["rope_gptj"])?;
            if t.number(&["rotary_pct"])?.is_some_and(|part| part != 1.0) {
                return Err(t.config.unsupported("a \"rotary_pct\" other than 1"));
            }
        }
        _ => {}
    }
    if t.family.arch == "llama4" {
        llama4(t)?;
    }
    if let Some(n) = kv_heads.filter(|n| !(1..=MAX_WIDTH).contains(n)) {
        return Err(t.config.unsupported(&format!("{n} key-value heads")));
    }
    Ok(kv_heads)
}

/// Refuses other layers without rotation than each fourth.
fn rotating_layers(t: &Translator) -> Result<()> {
    let interval = t.int(&["no_rope_layer_interval"])?;
    if let Some(list) = t.config.list(&["no_rope_layers"])?.filter(|list| !list.is_empty()) {
        let fourth = |(i, turns): (usize, &Json)| turns.as_u64() == Some(u64::from(!(i + 1).is_multiple_of(4)));
        if !list.iter().enumerate().all(fourth) {
            return Err(t.config.unsupported("\"no_rope_layers\" other than each fourth"));
        }
    } else if interval.is_some_and(|n| n != 4) {
        return Err(t.config.unsupported("a \"no_rope_layer_interval\" other than 4"));
    }
    Ok(())
}

fn minicpm(t: &mut Translator) -> Result<()> {
    if t.config.says_null(&["scale_emb", "scale_depth", "dim_model_base"]) {
        return Err(t.config.unsupported("\"scale_emb\", \"scale_depth\" or \"dim_model_base\" with the value null"));
    }
    let layers = t.int(LAYERS)?.unwrap_or(0);
    let depth = t.number(&["scale_depth"])?;
    // Numbers of layers and widths are exact as floats.
    t.set("residual_scale", depth.map(|depth| depth / (layers as f64).sqrt()));
    let base = t.number(&["dim_model_base"])?;
    let width = t.int(WIDTH)?.unwrap_or(0) as f64;
    t.set("logit_scale", base.map(|base| width / base));
    Ok(())
}

fn hunyuan(t: &mut Translator) -> Result<()> {
    t.expect("use_qk_norm", true)?;
    t.expect_text("norm_type", &["rms"])?;
    t.config.int(&["attention_head_dim"])?.map_or(Ok(()), |width| match rope::head_dim(t)? == width {
        true => Ok(()),
        false => Err(t.config.unsupported(&format!("\"attention_head_dim\" with the value {width}"))),
    })?;
    let experts = t.int(&["num_experts", "num_local_experts"])?;
    if t.family.arch == "hunyuan-dense" {
        return match experts {
            None | Some(0 | 1) => Ok(()),
            Some(n) => Err(t.config.unsupported(&format!("\"num_experts\" with the value {n}"))),
        };
    }
    t.set("expert_count", experts);
    for (key, name) in [("expert_used_count", "moe_topk"), ("expert_feed_forward_length", "moe_intermediate_size")] {
        let n = same_in_all(t, name)?;
        t.set(key, n);
    }
    Ok(())
}

/// A number, or a list of one a layer in which all are equal.
fn same_in_all(t: &Translator, name: &str) -> Result<Option<u64>> {
    let Some((_, value)) = t.config.find(&[name]) else { return Ok(None) };
    let list = value.as_array().unwrap_or(std::slice::from_ref(value));
    match list.first().map(Json::as_u64) {
        Some(Some(n)) if list.iter().all(|other| other.as_u64() == Some(n)) => Ok(Some(n)),
        _ => Err(t.config.unsupported(&format!("{name:?} with the value {value}"))),
    }
}

/// The rules of routers that choose by a bias beside the score, and the one that does not.
fn routed(t: &mut Translator) -> Result<()> {
    let softmax = t.family.arch == "deepseek";
    match t.family.arch {
        // The owner's code computes sigmoids, whatever the published configurations call them.
        "dots1" => t.expect_text("scoring_func", &["sigmoid", "noaux_tc"])?,
        _ => t.expect_text("scoring_func", &[if softmax { "softmax" } else { "sigmoid" }])?,
    }
    if softmax {
        t.expect_text("topk_method", &["greedy"])?;
    } else {
        t.set("expert_gating_func", Some(2));
    }
    if t.family.arch == "minimax-m2" {
        t.expect("use_routing_bias", true)?;
        t.expect_text("qk_norm_type", &["per_layer"])?;
        t.expect("use_qk_norm", true)?;
        for name in ["shared_intermediate_size", "shared_moe_mode"] {
            if let Some((_, value)) = t.config.find(&[name])
                && value.as_u64() != Some(0)
                && value.as_str() != Some("sigmoid")
            {
                return Err(t.config.unsupported(&format!("{name:?} with the value {value}")));
            }
        }
        let kinds = t.config.list(&["attn_type_list"])?.unwrap_or_default();
        if kinds.iter().any(|kind| kind.as_u64() != Some(1)) {
            return Err(t.config.unsupported("\"attn_type_list\" with other values than 1"));
        }
    } else {
        t.config.skip(&["use_qk_norm"]);
    }
    Ok(())
}

/// The network of GGUF files has windows where it has 64 layers, and in three of four.
fn exaone4(t: &mut Translator) -> Result<()> {
    let window = t.int(&["sliding_window"])?;
    let is_largest = t.int(LAYERS)? == Some(64);
    if window.is_some() != is_largest {
        return Err(t.config.unsupported(&format!("\"sliding_window\" with the value {window:?} in this size")));
    }
    t.set("attention.sliding_window", window);
    if let Some((name, pattern)) = t.config.find(&["sliding_window_pattern"])
        && is_largest
        && pattern.as_str() != Some("LLLG")
        && pattern.as_u64() != Some(4)
    {
        return Err(t.config.unsupported(&format!("{name:?} with the value {pattern}")));
    }
    let kinds = t.config.list(&["layer_types"])?.unwrap_or_default();
    let windowed = |i: usize| is_largest && !(i + 1).is_multiple_of(4);
    let is_expected = |(i, kind): (usize, &Json)| {
        kind.as_str() == Some(if windowed(i) { "sliding_attention" } else { "full_attention" })
    };
    match kinds.iter().enumerate().all(is_expected) {
        true => Ok(()),
        false => Err(t.config.unsupported("\"layer_types\" other than a window in three layers of four")),
    }
}

/// Falcon and the first StarCoder: one key-value head for all, for groups, or one each.
fn multi_query(t: &mut Translator) -> Result<Option<u64>> {
    let heads = t.int(HEADS)?;
    let given = t.int(&["num_kv_heads", "n_head_kv", "num_key_value_heads"])?;
    let shared = t.config.bool(&["multi_query"])?.unwrap_or(true);
    let by_group = t.config.bool(&["new_decoder_architecture"])?.unwrap_or(false);
    t.config.skip(&["num_ln_in_parallel_attn"]);
    let n = match (by_group, shared) {
        (true, _) => given.or(heads),
        (false, true) => Some(1),
        (false, false) => heads,
    };
    t.keys.retain(|(key, _)| !key.ends_with(".head_count_kv"));
    t.set("attention.head_count_kv", n);
    Ok(n)
}

fn mpt(t: &mut Translator) -> Result<Option<u64>> {
    let nothing = Json::Null;
    let set = t.config.find(&["attn_config"]).map_or(&nothing, |(_, set)| set);
    let attention = Members::new(t.path, set, &nothing);
    let kv_heads = attention.int(&["kv_n_heads"])?;
    if attention.bool(&["alibi"])? == Some(false) {
        return Err(t.config.unsupported("\"alibi\" with the value false"));
    }
    let bias = attention.number(&["alibi_bias_max"])?.unwrap_or(8.0);
    t.set("attention.max_alibi_bias", Some(bias));
    t.set("attention.clamp_kqv", attention.number(&["clip_qkv"])?);
    t.set("attention.head_count_kv", kv_heads);
    t.expect_text("norm_type", &["low_precision_layernorm", "layernorm"])?;
    t.config.skip(&["learned_pos_emb"]);
    known::check(&attention, ATTENTION_OF_MPT, &t.passed)?;
    let heads = t.int(HEADS)?;
    Ok(kv_heads.or(heads))
}

/// Members of MPT's set that change no result: how the numbers are computed, and what transformers puts in every set.
const ATTENTION_OF_MPT: &str = " attn_impl attn_pdrop model_type bos_token_id eos_token_id pad_token_id bad_words_ids forced_bos_token_id \
     forced_eos_token_id exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix tf_legacy_loss \
     decoder_start_token_id cross_attention_hidden_size tie_word_embeddings ";

/// The first generation alone: the second has output rows of length 1, which its files do not.
fn baichuan(t: &Translator) -> Result<()> {
    let layers = t.int(LAYERS)?;
    if !matches!(layers, Some(32 | 40)) || t.int(&["vocab_size"])? == Some(125_696) {
        return Err(t.config.unsupported("another Baichuan than the 7B and the 13B of the first generation"));
    }
    Ok(())
}

fn llama4(t: &mut Translator) -> Result<()> {
    let experts = t.int(&["num_local_experts"])?;
    let width = t.config.int(&["intermediate_size"])?;
    t.set("expert_feed_forward_length", width);
    if t.config.bool(&["use_qk_norm"])?.unwrap_or(true) == (experts == Some(128)) {
        return Err(t.config.unsupported("\"use_qk_norm\" other than false for 128 experts and true for fewer"));
    }
    t.expect("attn_temperature_tuning", true).or_else(|error| {
        // Older configurations write the number of a length.
        if t.config.int(&["attn_temperature_tuning"]).is_ok_and(|n| n != Some(0)) { Ok(()) } else { Err(error) }
    })?;
    for name in ["attention_chunk_size", "floor_scale"] {
        if let Some(n) = t.number(&[name])?.filter(|&n| n != 8192.0) {
            return Err(t.config.unsupported(&format!("{name:?} with the value {n}")));
        }
    }
    t.set("attention.temperature_scale", t.number(&["attn_scale"])?);
    let kinds = t.config.list(&["layer_types"])?.unwrap_or_default();
    let chunked = |i: usize| !(i + 1).is_multiple_of(4);
    let is_expected = |(i, kind): (usize, &Json)| {
        kind.as_str() == Some(if chunked(i) { "chunked_attention" } else { "full_attention" })
    };
    if kinds.len() as u64 > MAX_LAYERS || !kinds.iter().enumerate().all(is_expected) {
        return Err(t.config.unsupported("\"layer_types\" other than chunks in three layers of four"));
    }
    Ok(())
}

/// Layers of convolutions have no key-value heads.
fn lfm2(t: &mut Translator, kv_heads: Option<u64>) -> Result<()> {
    let kinds = t.config.list(&["layer_types"])?;
    let attending = t.config.list(&["full_attn_idxs"])?;
    let n = t.int(LAYERS)?.unwrap_or(0);
    if n > MAX_LAYERS || kinds.is_some_and(|kinds| kinds.len() as u64 != n) {
        return Err(t.config.wrong("layer_types", "one for each of at most 1024 layers"));
    }
    let kv_heads = kv_heads.unwrap_or(8);
    let mut heads = try_vec("layers", usize::try_from(n).unwrap_or(0))?;
    for i in 0..n {
        let kind = kinds.and_then(|kinds| kinds.get(usize::try_from(i).ok()?));
        let attends = match (kind, attending) {
            (Some(kind), _) => match kind.as_str() {
                Some("conv") => false,
                Some("full_attention") => true,
                _ => return Err(t.config.unsupported(&format!("\"layer_types\" with the value {kind}"))),
            },
            (None, Some(list)) => list.iter().any(|at| at.as_u64() == Some(i)),
            (None, None) => true,
        };
        heads.push(if attends { i64::try_from(kv_heads).unwrap_or(i64::MAX) } else { 0 });
    }
    t.keys.retain(|(key, _)| !key.ends_with(".head_count_kv"));
    t.set("attention.head_count_kv", Some(heads));
    if t.family.arch == "lfm2moe" {
        t.set("expert_gating_func", Some(2u64));
        t.expect("use_expert_bias", true)?;
        t.expect("norm_topk_prob", true)?;
        return match t.number(&["routed_scaling_factor"])? {
            Some(scale) if scale != 1.0 => {
                Err(t.config.unsupported(&format!("\"routed_scaling_factor\" with the value {scale}")))
            }
            _ => Ok(()),
        };
    }
    let written = t.config.int(&["block_ff_dim"])?.or(t.int(&["intermediate_size"])?).filter(|&n| n <= MAX_WIDTH);
    t.config.skip(&["intermediate_size"]);
    let step = t.int(&["block_multiple_of"])?.filter(|n| (1..=MAX_WIDTH).contains(n));
    let (Some(mut width), Some(step)) = (written, step) else {
        return Err(t.config.unsupported("a \"block_ff_dim\" or \"block_multiple_of\" of such a size"));
    };
    let factor = t.number(&["block_ffn_dim_multiplier"])?.unwrap_or(1.0);
    if t.bool(&["block_auto_adjust_ff_dim"])? != Some(false) {
        let part = (factor * (2 * width / 3) as f64).trunc();
        let part = whole(part).filter(|&n| n <= MAX_WIDTH);
        width = part.ok_or_else(|| t.config.wrong("block_ffn_dim_multiplier", "smaller"))?.next_multiple_of(step);
    }
    t.keys.retain(|(key, _)| !key.ends_with(".feed_forward_length"));
    t.set("feed_forward_length", Some(width));
    Ok(())
}
