//! Gemma. In the fourth generation full-attention layers have heads and RoPE of their own.

use std::f64::consts::FRAC_1_SQRT_2;

use super::common::PLAIN;
use crate::error::{Result, try_vec};
use crate::format::hf::members::Members;
use crate::format::hf::translator::KeyType::{Bool, Cap, Int, InverseRoot};
use crate::format::hf::translator::{Family, Key, MAX_WIDTH, Translator, signed};
use crate::format::hf::{known, rope};
use crate::format::json::Json;
use crate::format::value::narrow;

const GEMMA: Family = Family { activations: &["gelu_pytorch_tanh"], epsilon: 1e-6, norms_less_one: true, ..PLAIN };

const LOGIT_CAP: &[Key] = &[("final_logit_softcapping", Cap, &["final_logit_softcapping"])];
const STREAMS: &[Key] = &[
    ("embedding_length_per_layer_input", Int, &["hidden_size_per_layer_input"]),
    ("attention.shared_kv_layers", Int, &["num_kv_shared_layers"]),
    ("altup.num_inputs", Int, &["altup_num_inputs"]),
    ("altup.active_idx", Int, &["altup_active_idx"]),
];
const SCALE: &[Key] = &[("attention.scale", InverseRoot, &["query_pre_attn_scalar"])];

pub const ALL: &[Family] = &[
    // The first configurations say "gelu" and mean its approximation.
    Family { model_types: &["gemma"], arch: "gemma", activations: &["gelu", "gelu_pytorch_tanh"], ..GEMMA },
    Family { model_types: &["gemma2"], post_norms: true, ..SECOND },
    Family {
        model_types: &["vaultgemma"],
        extras: |t| {
            t.set("post_norms", Some(false));
            Ok(())
        },
        ..SECOND
    },
    Family {
        model_types: &["gemma3_text", "gemma3"],
        arch: "gemma3",
        keys: &[LOGIT_CAP, SCALE],
        defaults: "max_position_embeddings=131072 num_attention_heads=8 num_key_value_heads=4 head_dim=256 \
                   vocab_size=262208 query_pre_attn_scalar=256 sliding_window=4096 sliding_window_pattern=6 \
                   rope_theta=1e6 rope_local_base_freq=1e4",
        windowed_base: true,
        post_norms: true,
        ..GEMMA
    },
    Family {
        model_types: &["gemma_embedding"],
        arch: "gemma-embedding",
        defaults: "max_position_embeddings=131072 num_attention_heads=8 num_key_value_heads=4 head_dim=256 \
                   vocab_size=262208 query_pre_attn_scalar=256 sliding_window=4096 sliding_window_pattern=6 \
                   rope_theta=1e6 rope_local_base_freq=1e4",
        extras: |t| match t.size("query_pre_attn_scalar")? == t.size("head_dim")? {
            true => Ok(()),
            false => Err(t.config.unsupported("\"query_pre_attn_scalar\" with another value than \"head_dim\"")),
        },
        windowed_base: true,
        post_norms: true,
        ..GEMMA
    },
    Family {
        model_types: &["gemma3n_text", "gemma3n"],
        arch: "gemma3n",
        activations: &["gelu_pytorch_tanh"],
        epsilon: 1e-6,
        keys: &[LOGIT_CAP, STREAMS],
        defaults: "max_position_embeddings=32768 num_attention_heads=8 num_key_value_heads=2 head_dim=256 \
                   sliding_window=512 rope_theta=1e6 rope_local_base_freq=1e4 \
                   hidden_size_per_layer_input=256 altup_num_inputs=4 num_kv_shared_layers=15",
        // Scores are unscaled, whatever the configuration says.
        effectless: "query_pre_attn_scalar vocab_size_per_layer_input altup_coef_clip altup_lr_multiplier laurel_rank \
                     audio_config audio_token_id boa_token_id eoa_token_id audio_soft_tokens_per_image \
                     vision_soft_tokens_per_image",
        extras: sparse_gates,
        windowed_base: true,
        post_norms: true,
        ..PLAIN
    },
    FOURTH,
    // The 12B, without per-layer inputs.
    Family {
        model_types: &["gemma4_unified_text", "gemma4_unified"],
        defaults: "head_dim=256 global_head_dim=512 num_attention_heads=8 num_key_value_heads=4 sliding_window=1024",
        ..FOURTH
    },
    // The draft heads for both.
    Family {
        model_types: &["gemma4_assistant", "gemma4_unified_assistant"],
        arch: "gemma4-assistant",
        keys: &[ASSISTANT],
        effectless: "vocab_size_per_layer_input num_centroids audio_config audio_token_id boa_token_id boa_token_index \
                     eoa_token_id eoa_token_index vision_soft_tokens_per_image",
        extras: assistant,
        names: &[ASSISTANT_NAMES],
        ..FOURTH
    },
];

const ASSISTANT: &[Key] = &[
    ("embedding_length_out", Int, &["backbone_hidden_size"]),
    ("masked_embd", Bool, &["use_ordered_embeddings"]),
    ("masked_embd_top_k", Int, &["centroid_intermediate_top_k"]),
];
const ASSISTANT_NAMES: &[(&str, &str)] = &[
    ("pre_projection", "nextn.pre_projection"),
    ("post_projection", "nextn.post_projection"),
    ("masked_embedding.centroids", "masked_embd_centroids"),
    ("masked_embedding.token_ordering", "masked_embd_ordering"),
];

const SECOND: Family = Family {
    arch: "gemma2",
    keys: &[&[("attn_logit_softcapping", Cap, &["attn_logit_softcapping"])], LOGIT_CAP, SCALE],
    ..GEMMA
};

const FOURTH: Family = Family {
    model_types: &["gemma4_text", "gemma4"],
    arch: "gemma4",
    activations: &["gelu_pytorch_tanh"],
    epsilon: 1e-6,
    keys: &[LOGIT_CAP],
    defaults: "head_dim=256 global_head_dim=512 num_attention_heads=8 num_key_value_heads=4 sliding_window=512 \
               hidden_size_per_layer_input=256",
    effectless: "vocab_size_per_layer_input audio_config audio_token_id boa_token_id boa_token_index eoa_token_id \
                 eoa_token_index vision_soft_tokens_per_image",
    extras: fourth,
    windows: |_| Ok(()),
    rope: rotations,
    post_norms: true,
    ..PLAIN
};

/// Sets the bound of each layer's gates in standard deviations: a configuration has the fraction below it.
fn sparse_gates(t: &mut Translator) -> Result<()> {
    t.expect("altup_correct_scale", true)?;
    let (key, n) = ("activation_sparsity_pattern", usize::try_from(t.n_layers()?).unwrap_or(0));
    let mut deviations = try_vec("layers", n)?;
    match t.config.list(&[key])? {
        Some(list) => {
            let shares = list.iter().filter_map(|share| share.as_f64().filter(|share| (0.0..1.0).contains(share)));
            deviations.extend(shares.map(deviations_above));
        }
        None => deviations.extend((0..n).map(|i| deviations_above(if n > 10 && i < 10 { 0.95 } else { 0.0 }))),
    }
    if deviations.len() != n {
        return Err(t.config.wrong(key, "a number from 0 to 1 for each layer"));
    }
    t.set("activation_sparsity_scale", Some(deviations));
    Ok(())
}

/// Returns the quantile of a normal distribution at `share`, in standard deviations.
fn deviations_above(share: f64) -> f32 {
    if share == 0.0 {
        return f32::NEG_INFINITY;
    }
    // The reference implementation has rounded the fraction to this precision.
    let share = f64::from(narrow(share));
    let (mut below, mut above) = (-10.0, 10.0);
    for _ in 0..64 {
        let middle: f64 = 0.5 * (below + above);
        match 0.5 * libm::erfc(-middle * FRAC_1_SQRT_2) < share {
            true => below = middle,
            false => above = middle,
        }
    }
    narrow(below)
}

/// The kinds of layers of the fourth generation.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

fn fourth(t: &mut Translator) -> Result<()> {
    let windowed = windowed_layers(t)?;
    let n = windowed.len();
    let width = t.size("head_dim")?;
    let [full_width, full_kv_heads] = full_heads(t, &windowed)?;
    let kv_heads = t.size("num_key_value_heads")?;
    let mut list = try_vec("layers", n)?;
    list.extend(windowed.iter().map(|windowed| signed(if *windowed { kv_heads } else { full_kv_heads })));
    t.replace("attention.head_count_kv", Some(list));
    t.replace("attention.key_length", Some(full_width));
    t.replace("attention.value_length", Some(full_width));
    t.set("attention.key_length_swa", Some(width));
    t.set("attention.value_length_swa", Some(width));
    t.set("attention.sliding_window", t.int(&["sliding_window"])?);
    t.set("attention.sliding_window_pattern", Some(windowed));
    let shared = t.int(&["num_kv_shared_layers"])?.unwrap_or(0);
    t.set("attention.shared_kv_layers", Some(shared));
    // Without values of their own, full layers use their keys.
    let values_are_keys = t.config.bool(&["attention_k_eq_v"])? == Some(true);
    t.keys.push(("realizar.values_are_keys".into(), values_are_keys.into()));
    t.set("embedding_length_per_layer_input", t.int(&["hidden_size_per_layer_input"])?);
    if t.config.bool(&["use_double_wide_mlp"])? == Some(true) {
        let ffn = t.size("intermediate_size")?;
        let mut widths = try_vec("layers", n)?;
        widths
            .extend((0..n).map(|i| signed(if (i as u64) < (n as u64).saturating_sub(shared) { ffn } else { 2 * ffn })));
        t.replace("feed_forward_length", Some(widths));
    }
    if t.number(&["final_logit_softcapping"])?.is_none() {
        // In GGUF files an absent key means another value.
        t.replace("final_logit_softcapping", Some(0.0));
    }
    if t.config.bool(&["enable_moe_block"])? == Some(true) {
        t.set("expert_count", Some(t.size("num_experts")?));
        t.set("expert_used_count", Some(t.size("top_k_experts")?));
        t.set("expert_feed_forward_length", Some(t.size("moe_intermediate_size")?));
    } else {
        t.config.skip(&["num_experts", "top_k_experts", "moe_intermediate_size"]);
    }
    let is_mutual = t.config.text(&["use_bidirectional_attention"])? == Some("vision");
    t.keys.push(("realizar.mutual_media".into(), is_mutual.into()));
    t.expect_text("use_bidirectional_attention", &["vision"])
}

/// All layers read another model's KV cache, however many the configuration declares as shared.
fn assistant(t: &mut Translator) -> Result<()> {
    fourth(t)?;
    let shared = t.int(&["num_kv_shared_layers"])?.filter(|n| *n > 0);
    t.replace("attention.shared_kv_layers", shared);
    t.replace("final_logit_softcapping", None::<f64>);
    Ok(())
}

/// Returns the layers with a window: all but each sixth, unless they are listed.
fn windowed_layers(t: &Translator) -> Result<Vec<bool>> {
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let windowed: Vec<bool> = match t.layers("layer_types", &KINDS)? {
        Some(kinds) => kinds.into_iter().map(|kind| kind == 1).collect(),
        None => (1..=n).map(|i| !i.is_multiple_of(6)).collect(),
    };
    match windowed.last() {
        Some(true) => Err(t.config.unsupported("\"layer_types\" whose last layer has a window")),
        _ => Ok(windowed),
    }
}

/// Returns the width and number of the KV heads of full-attention layers. Newer configurations list the layers that
/// differ.
fn full_heads(t: &Translator, windowed: &[bool]) -> Result<[u64; 2]> {
    let common = t.size("num_key_value_heads")?;
    let Some((name, layers)) = t.config.find(&["per_layer_config"]) else {
        let declared = t.int(&["num_global_key_value_heads"])?.filter(|n| (1..=MAX_WIDTH).contains(n));
        let values_are_keys = t.config.bool(&["attention_k_eq_v"])? == Some(true);
        return Ok([t.size("global_head_dim")?, declared.filter(|_| values_are_keys).unwrap_or(common)]);
    };
    t.config.skip(&["num_global_key_value_heads", "global_head_dim"]);
    let unlike = || t.config.unsupported(&format!("{name:?} other than one set for all layers without a window"));
    let (width, nothing) = (t.size("head_dim")?, Json::Null);
    let mut found = None;
    for (i, windowed) in windowed.iter().enumerate() {
        let set = layers.get(&i.to_string()).unwrap_or(&nothing);
        let layer = Members::new(t.path, set, &nothing);
        let heads =
            [layer.int(&["head_dim"])?.unwrap_or(width), layer.int(&["num_key_value_heads"])?.unwrap_or(common)];
        known::check(&layer, "", &t.passed)?;
        let expected = if *windowed { [width, common] } else { *found.get_or_insert(heads) };
        if heads != expected || heads.iter().any(|n| !(1..=MAX_WIDTH).contains(n)) {
            return Err(unlike());
        }
    }
    let is_layer = |name: &str| name.parse().is_ok_and(|i: usize| i < windowed.len());
    if !layers.members().iter().all(|(name, _)| is_layer(name)) {
        return Err(unlike());
    }
    Ok(found.unwrap_or([width, common]))
}

/// RoPE of the two kinds of layers. In full-attention layers only a part of the pairs is rotated, with the angles of
/// whole heads.
fn rotations(t: &mut Translator) -> Result<()> {
    let nothing = Json::Null;
    let sets = match t.config.find(&["rope_parameters"]) {
        Some((_, sets @ Json::Object(_))) => sets,
        Some((name, _)) => return Err(t.config.wrong(name, "an object")),
        None => &nothing,
    };
    let [full, windowed] = KINDS.map(|kind| Members::new(t.path, sets.get(kind).unwrap_or(&nothing), &nothing));
    if sets.members().iter().any(|(name, _)| !KINDS.contains(&&**name)) {
        return Err(t.config.unsupported("\"rope_parameters\" beside those of both kinds of layers"));
    }
    t.set("rope.freq_base", full.number(&["rope_theta"])?.or(Some(1e6)));
    t.set("rope.freq_base_swa", windowed.number(&["rope_theta"])?.or(Some(1e4)));
    let kind = full.text(&["rope_type"])?.unwrap_or("proportional");
    let part = full.number(&["partial_rotary_factor"])?.unwrap_or(if sets == &nothing { 0.25 } else { 1.0 });
    if !["default", "proportional"].contains(&kind)
        || windowed.text(&["rope_type"])?.is_some_and(|kind| kind != "default")
    {
        return Err(t
            .config
            .unsupported(&format!("rope of type {kind:?} in Gemma 4, or scaled rope in layers with a window")));
    }
    let layers = windowed_layers(t)?;
    let pairs = full_heads(t, &layers)?[0] / 2;
    if kind == "proportional" && (0.0..1.0).contains(&part) {
        let rope_dims = (part * (2 * pairs) as f64 / 2.0).floor();
        let mut divisors = try_vec("rotary divisors", usize::try_from(pairs).unwrap_or(0))?;
        divisors.extend((0..pairs).map(|i| if (i as f64) < rope_dims { 1.0 } else { 1e30 }));
        t.made.push(rope::tensor_of("rope_freqs.weight", &divisors)?);
    } else if part != 1.0 {
        return Err(t
            .config
            .unsupported(&format!("the rope parameter \"partial_rotary_factor\" with the value {part}")));
    }
    known::check_rope(&full, &t.passed)?;
    known::check_rope(&windowed, &t.passed)
}
