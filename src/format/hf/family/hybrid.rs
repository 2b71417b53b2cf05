//! Families with recurrent or convolution layers, in part or throughout: the kinds of layers, and the sizes of their
//! mixers. Includes Granite with its older generations.

use super::common::{EXPERT_GROUPS, EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, ROUTED};
use crate::error::{Error, Result, try_vec};
use crate::format::hf::rope;
use crate::format::hf::translator::KeyType::{Int, Number};
use crate::format::hf::translator::{Family, HEADS, Key, LAYERS, MAX_LAYERS, MAX_WIDTH, Translator, WIDTH, signed};
use crate::format::json::Json;
use crate::format::value::{narrow, whole};

const MAMBA: Family = Family { effectless: EFFECTLESS, ..PLAIN };

/// The first generation.
const FIRST: Family = Family { arch: "mamba", defaults: "expand=2 conv_kernel=4 state_size=16", ..MAMBA };

const FACTORS: &[Key] = &[
    ("attention.scale", Number, &["attention_multiplier"]),
    ("embedding_scale", Number, &["embedding_multiplier"]),
    ("residual_scale", Number, &["residual_multiplier"]),
    ("logit_scale", Number, &["logits_scaling"]),
];
const SHARED: &[Key] = &[("expert_shared_feed_forward_length", Int, &["shared_intermediate_size"])];

const GRANITE_SWA: Family = Family {
    arch: "granite_swa",
    keys: &[FACTORS],
    defaults: "rope_theta=1e4 attention_multiplier=1 sliding_window=128",
    extras: rope_layers,
    ..PLAIN
};

const OLMO_NAMES: &[(&str, &str)] = &[
    ("attention_layer_norm", "attn_norm"),
    ("feedforward_layer_norm", "ffn_norm"),
    ("mixer.q_conv1d", "ssm_conv1d_q"),
    ("mixer.k_conv1d", "ssm_conv1d_k"),
    ("mixer.v_conv1d", "ssm_conv1d_v"),
    ("mixer.a_proj", "ssm_alpha"),
    ("mixer.b_proj", "ssm_beta"),
    ("mixer.g_proj", "attn_gate"),
    ("mixer.o_norm", "ssm_norm"),
];

pub const ALL: &[Family] = &[
    Family { model_types: &["mamba"], extras: first, ..FIRST },
    Family { model_types: &["falcon_mamba"], extras: falcon_mamba, ..FIRST },
    Family {
        model_types: &["mamba2"],
        arch: "mamba2",
        defaults: "expand=2 conv_kernel=4 state_size=128 n_groups=8",
        extras: second,
        ..MAMBA
    },
    Family {
        model_types: &["falcon_h1"],
        arch: "falcon-h1",
        defaults: "rope_theta=1e4 mamba_expand=2 mamba_d_conv=4 mamba_d_state=256 mamba_n_groups=1 \
                   mamba_norm_before_gate=1",
        extras: falcon_h1,
        ..MAMBA
    },
    Family {
        model_types: &["nemotron_h"],
        arch: "nemotron_h",
        activations: &["relu2"],
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, ROUTED, EXPERT_GROUPS],
        defaults: "head_dim=128 conv_kernel=4 ssm_state_size=128 n_groups=8 mamba_num_heads=128 mamba_head_dim=64 \
                   norm_topk_prob=1",
        extras: nemotron,
        windows: |_| Ok(()),
        ..MAMBA
    },
    Family {
        model_types: &["jamba"],
        arch: "jamba",
        epsilon: 1e-6,
        keys: &[EXPERTS],
        defaults: "num_experts=16 num_experts_per_tok=2 attn_layer_period=8 attn_layer_offset=4 mamba_expand=2 \
                   mamba_d_conv=4 mamba_d_state=16",
        extras: jamba,
        windows: |_| Ok(()),
        ..MAMBA
    },
    Family { model_types: &["granite"], arch: "granite", epsilon: 1e-6, keys: &[FACTORS], ..PLAIN },
    Family { model_types: &["granite_swa"], ..GRANITE_SWA },
    Family {
        model_types: &["granitemoe_swa"],
        keys: &[FACTORS, EXPERTS, SHARED],
        names: &[&[
            ("block_sparse_moe.router", "ffn_gate_inp"),
            ("block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
            ("block_sparse_moe.experts.down_proj", "ffn_down_exps.weight"),
        ]],
        ..GRANITE_SWA
    },
    Family {
        model_types: &["hyperclovax"],
        arch: "hyperclovax",
        epsilon: 1e-6,
        keys: &[FACTORS],
        extras: |t| {
            // Granite's number is a divisor.
            let [scale] = positive(t, "logits_scaling", [t.number(&["logits_scaling"])?.unwrap_or(1.0)])?;
            t.replace("logit_scale", Some(1.0 / scale));
            t.set("post_norms", Some(t.bool(&["use_post_norm"])? != Some(false)));
            Ok(())
        },
        names: &[&[("post_norm1", "post_attention_norm"), ("post_norm2", "post_ffw_norm")]],
        ..PLAIN
    },
    Family {
        model_types: &["bamba"],
        arch: "granitehybrid",
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5 num_key_value_heads=8 mamba_expand=2 mamba_d_conv=4 \
                   mamba_d_state=256 mamba_n_groups=1 mamba_n_heads=128",
        extras: bamba,
        windows: |_| Ok(()),
        ..MAMBA
    },
    Family {
        model_types: &["olmo_hybrid"],
        arch: "olmo-hybrid",
        epsilon: 1e-6,
        defaults: "rope_theta=1e4 linear_conv_kernel_dim=4 linear_allow_neg_eigval=1",
        effectless: "linear_a_log_max linear_a_log_min linear_dt_init_floor linear_dt_max linear_dt_min",
        extras: delta_nets,
        windows: |_| Ok(()),
        rope: |t| {
            // Released models have no RoPE.
            let is_still = t
                .config
                .find(&["rope_parameters"])
                .is_some_and(|(_, set)| set.get_or_null("rope_theta") == Some(&Json::Null));
            t.set("rope.scaling.finetuned", is_still.then_some(false));
            if is_still { Ok(()) } else { rope::translate(t) }
        },
        post_norms: true,
        names: &[OLMO_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["granitemoe", "granitemoeshared"],
        arch: "granitemoe",
        epsilon: 1e-6,
        keys: &[FACTORS, EXPERTS, SHARED],
        defaults: "rope_theta=1e4 attention_multiplier=1 num_local_experts=8 num_experts_per_tok=2",
        ..PLAIN
    },
    Family {
        model_types: &["granitemoehybrid"],
        arch: "granitehybrid",
        epsilon: 1e-6,
        keys: &[FACTORS, EXPERTS, SHARED],
        defaults: "rope_theta=1e4 attention_multiplier=1 num_local_experts=8 num_experts_per_tok=2 \
                   shared_intermediate_size=1024 mamba_expand=2 mamba_d_conv=4 mamba_d_state=256 mamba_n_groups=1 \
                   mamba_n_heads=128",
        extras: granite,
        windows: |_| Ok(()),
        ..MAMBA
    },
    Family {
        model_types: &["minimax", "minimax_text_01", "minimax_m1"],
        arch: "minimax-01",
        keys: &[EXPERTS],
        defaults: "rope_theta=1e6",
        effectless: "block_size",
        extras: lightning,
        windows: |_| Ok(()),
        names: &[&[
            ("self_attn.norm", "attn_norm_2"),
            ("self_attn.qkv_proj", "attn_qkv"),
            ("self_attn.output_gate", "attn_gate"),
        ]],
        ..PLAIN
    },
];

/// Members about training and caches of Mamba blocks.
const EFFECTLESS: &str = "\
     chunk_size mamba_chunk_size rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_min time_step_max \
     time_step_scale time_step_init_scheme use_bias use_conv_bias use_mambapy use_falcon_mambapy use_associative_scan \
     fused_add_norm rms_norm pad_vocab_size_multiple ssm_cfg mamba_conv_bias mamba_proj_bias use_mamba_kernels \
     num_logits_to_keep mamba_ssm_cache_dtype d_inner init_method mamba_dt_min mamba_dt_max mamba_dt_init_floor \
     moe_shared_expert_overlap moe_shared_expert_intermediate_size moe_latent_size mtp_layers_block_type \
     mtp_hybrid_override_pattern calc_logits_for_entire_prompt mamba_inner_layernorms mlp_expansion_factor \
     norm_before_gate attn_rotary_emb";

fn first(t: &mut Translator) -> Result<()> {
    let inner = inner_width(t, &["intermediate_size", "d_inner"], "expand")?;
    let rank = step_rank(t, "time_step_rank")?;
    block(t, inner, rank, None, ["conv_kernel", "state_size"])
}

fn falcon_mamba(t: &mut Translator) -> Result<()> {
    first(t)?;
    t.set("ssm.dt_b_c_rms", Some(true));
    t.set("ssm.norm_epsilon", t.number(&["mixer_rms_eps"])?.or(Some(1e-6)));
    Ok(())
}

fn second(t: &mut Translator) -> Result<()> {
    // A rank of steps belongs to the first generation.
    t.config.skip(&["time_step_rank"]);
    step_limit(t)?;
    let inner = inner_width(t, &["intermediate_size"], "expand")?;
    heads(t, inner, ["num_heads", "head_dim", "n_groups"], ["conv_kernel", "state_size"])
}

/// Falcon H1: attention and Mamba 2 in every layer, with scales of many products.
fn falcon_h1(t: &mut Translator) -> Result<()> {
    step_limit(t)?;
    let inner = match t.config.int(&["mamba_d_ssm"])? {
        Some(_) => t.size("mamba_d_ssm")?,
        None => inner_width(t, &[], "mamba_expand")?,
    };
    t.config.skip(&["mamba_expand"]);
    heads(t, inner, ["mamba_n_heads", "mamba_d_head", "mamba_n_groups"], ["mamba_d_conv", "mamba_d_state"])?;
    // Scales apply to sums including biases.
    for name in ["attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"] {
        t.expect(name, false)?;
    }
    if t.bool(&["mamba_rms_norm"])? == Some(true) {
        t.expect("mamba_norm_before_gate", false)?;
    }
    t.config.skip(&["mamba_norm_before_gate"]);
    t.expect("mamba_use_mlp", true)?;
    let factor = |name: &str| positive(t, name, [t.number(&[name])?.unwrap_or(1.0)]).map(|[factor]| factor);
    let [read, key, written] =
        [factor("attention_in_multiplier")?, factor("key_multiplier")?, factor("attention_out_multiplier")?];
    let [ssm_in, ssm_out] = [factor("ssm_in_multiplier")?, factor("ssm_out_multiplier")?];
    let [embedding, head] = [factor("embedding_multiplier")?, factor("lm_head_multiplier")?];
    let [gate, down] = factors(t, "mlp_multipliers")?;
    let parts: [f64; 5] = factors(t, "ssm_multipliers")?;
    let width = rope::head_dim(t)? as f64;
    t.set("attention.scale", Some(read * read * key / width.sqrt()));
    t.set("attention.output_scale", Some(read * written));
    t.set("ssm.input_scales", Some(Vec::from(parts.map(|factor| narrow(factor * ssm_in)))));
    t.set("ssm.output_scale", Some(ssm_out));
    t.set("feed_forward.gate_scale", Some(gate));
    t.set("feed_forward.output_scale", Some(down));
    t.set("embedding_scale", Some(embedding));
    t.set("logit_scale", Some(head));
    Ok(())
}

/// Nemotron H: each layer is a Mamba 2 block, attention, a feed-forward block, or experts.
fn nemotron(t: &mut Translator) -> Result<()> {
    step_limit(t)?;
    t.expect_text("mlp_hidden_act", &["relu2"])?;
    t.expect_text("mamba_hidden_act", &["silu"])?;
    if let (Some(a), Some(b)) = (t.config.number(&["rms_norm_eps"])?, t.config.number(&["layer_norm_epsilon"])?)
        && a != b
    {
        return Err(t.config.unsupported("a \"rms_norm_eps\" other than \"layer_norm_epsilon\""));
    }
    // Used by neither the reference implementation nor its kernels.
    t.config.skip(&["expand", "time_step_rank"]);
    if t.config.int(&["attention_head_dim"])?.is_some_and(|width| t.int(&["head_dim"]).ok().flatten() != Some(width)) {
        return Err(t.config.unsupported("an \"attention_head_dim\" other than \"head_dim\""));
    }
    let inner = t.size("mamba_num_heads")?.saturating_mul(t.size("mamba_head_dim")?);
    heads(t, inner, ["mamba_num_heads", "mamba_head_dim", "n_groups"], ["conv_kernel", "ssm_state_size"])?;
    let kinds = nemotron_layers(t)?;
    let ffn = t.size("intermediate_size")?;
    let experts = t.int(&["moe_intermediate_size"])?.unwrap_or(ffn);
    let mut widths = try_vec("layers", kinds.len())?;
    widths.extend(kinds.iter().map(|kind| match kind {
        '-' => signed(ffn),
        'E' => signed(experts),
        _ => 0,
    }));
    t.replace("block_count", Some(kinds.len() as u64));
    t.replace("feed_forward_length", Some(widths));
    attending_layers(t, kinds.iter().map(|kind| *kind == '*'))?;
    if !kinds.contains(&'E') {
        t.keys.retain(|(key, _)| !key.contains(".expert_"));
    }
    Ok(())
}

/// Returns the kinds of layers, one letter each: M, `*`, - and E.
fn nemotron_layers(t: &Translator) -> Result<Vec<char>> {
    let known = [
        ("linear_attention", 'M'),
        ("mamba", 'M'),
        ("full_attention", '*'),
        ("attention", '*'),
        ("mlp", '-'),
        ("moe", 'E'),
    ];
    let pattern = t.config.text(&["hybrid_override_pattern"])?;
    let list = t.config.list(&["layers_block_type", "layer_types"])?;
    let n = list.map_or(pattern.map_or(0, str::len), <[_]>::len);
    if n as u64 > MAX_LAYERS || t.int(LAYERS)?.is_some_and(|declared| declared != n as u64) {
        return Err(t.config.wrong("layers_block_type", "one for each of at most 1024 layers"));
    }
    let mut kinds = try_vec("layers", n)?;
    for i in 0..n {
        let kind = match list.and_then(|list| list.get(i)) {
            Some(name) => known.iter().find(|kind| name.as_str() == Some(kind.0)).map(|kind| kind.1),
            None => pattern.and_then(|pattern| pattern.chars().nth(i)).filter(|c| "M*-E".contains(*c)),
        };
        let unknown = || t.config.unsupported(&format!("the kind of layer {i} in \"layers_block_type\""));
        kinds.push(kind.ok_or_else(unknown)?);
    }
    Ok(kinds)
}

/// Jamba: Mamba 1 blocks, attention in some layers, experts in others.
fn jamba(t: &mut Translator) -> Result<()> {
    let inner = inner_width(t, &[], "mamba_expand")?;
    let rank = step_rank(t, "mamba_dt_rank")?;
    block(t, inner, rank, None, ["mamba_d_conv", "mamba_d_state"])?;
    let (period, offset) = (t.size("attn_layer_period")?, t.int(&["attn_layer_offset"])?.unwrap_or(0));
    // The tensors determine the layers with experts.
    t.config.skip(&["expert_layer_period", "expert_layer_offset", "layers_block_type", "layers_num_experts"]);
    if t.int(&["num_experts"])? == Some(1) {
        t.keys.retain(|(key, _)| !key.contains(".expert_"));
    }
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    attending_layers(t, (0..n).map(|i| i as u64 % period == offset))
}

/// Granite 4: Mamba 2 blocks in most layers, and a feed-forward block, or experts with a shared one.
fn granite(t: &mut Translator) -> Result<()> {
    step_limit(t)?;
    let inner = inner_width(t, &[], "mamba_expand")?;
    heads(t, inner, ["mamba_n_heads", "mamba_d_head", "mamba_n_groups"], ["mamba_d_conv", "mamba_d_state"])?;
    let kinds = ["full_attention", "attention", "linear_attention", "mamba"];
    let kinds = t.layers("layer_types", &kinds)?.or(t.layers("layers_block_type", &kinds)?);
    attending_layers(t, kinds.unwrap_or_default().into_iter().map(|kind| kind < 2))?;
    t.expect_text("position_embedding_type", &["rope", "nope"])?;
    t.expect_text("normalization_function", &["rmsnorm"])?;
    let has_rope = t.config.text(&["position_embedding_type"])? == Some("rope");
    t.set("rope.scaling.finetuned", Some(has_rope));
    t.facts.is_dense = t.int(&["num_local_experts"])? == Some(0);
    if t.facts.is_dense {
        let width = t.size("shared_intermediate_size")?;
        t.replace("feed_forward_length", Some(width));
        t.keys.retain(|(key, _)| !key.contains(".expert_"));
    }
    Ok(())
}

/// Bamba: Mamba 2 blocks in most layers.
fn bamba(t: &mut Translator) -> Result<()> {
    step_limit(t)?;
    let inner = inner_width(t, &[], "mamba_expand")?;
    heads(t, inner, ["mamba_n_heads", "mamba_d_head", "mamba_n_groups"], ["mamba_d_conv", "mamba_d_state"])?;
    let kinds = ["full_attention", "attention", "linear_attention", "mamba"];
    let kinds = t.layers("layers_block_type", &kinds)?.or(t.layers("layer_types", &kinds)?);
    let listed = t.config.list(&["attn_layer_indices"])?.unwrap_or_default();
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    if listed.len() > n {
        return Err(t.config.wrong("attn_layer_indices", "numbers of layers"));
    }
    let attends = |i: usize| match &kinds {
        Some(kinds) => kinds.get(i).is_some_and(|kind| *kind < 2),
        None => listed.iter().any(|layer| layer.as_u64() == Some(i as u64)),
    };
    attending_layers(t, (0..n).map(attends))
}

/// OLMo Hybrid: gated delta nets whose values may be wider than keys.
fn delta_nets(t: &mut Translator) -> Result<()> {
    let n_heads = t.int(HEADS)?.unwrap_or(0);
    let declared = |name: &str, default: u64| Ok::<u64, Error>(t.int(&[name])?.unwrap_or(default).min(MAX_WIDTH));
    let (value_heads, key_heads) =
        (declared("linear_num_value_heads", n_heads)?, declared("linear_num_key_heads", n_heads)?);
    let default = (3 * t.int(WIDTH)?.unwrap_or(0).min(MAX_WIDTH) / 4).checked_div(key_heads).unwrap_or(0);
    let key_width = declared("linear_key_head_dim", default)?;
    let value_width = declared("linear_value_head_dim", 2 * key_width)?;
    t.set("ssm.conv_kernel", t.int(&["linear_conv_kernel_dim"])?);
    t.set("ssm.inner_size", Some(value_heads * value_width));
    t.set("ssm.state_size", Some(key_width));
    t.set("ssm.time_step_rank", Some(value_heads));
    t.set("ssm.group_count", Some(key_heads));
    let reaches = t.bool(&["linear_allow_neg_eigval"])? == Some(true);
    t.set("ssm.beta_scale", reaches.then_some(2.0));
    if let Some(kinds) = t.layers("layer_types", &["full_attention", "linear_attention"])? {
        t.set("attention.recurrent_layers", Some(kinds.iter().map(|kind| *kind as i64).collect::<Vec<_>>()));
    }
    Ok(())
}

/// Granite with windows: layers whose RoPE base is 0 or absent have no RoPE.
fn rope_layers(t: &mut Translator) -> Result<()> {
    let Some(list) = t.config.list(&["layer_rope_theta"])? else { return Ok(()) };
    let base = t.part("rope_parameters").number(&["rope_theta"])?.or(t.number(&["rope_theta"])?);
    let bases = list.iter().map(|base| base.as_f64().filter(|base| *base != 0.0));
    if bases.clone().flatten().any(|own| Some(own) != base) || list.len() as u64 != t.n_layers()? {
        return Err(t.config.unsupported("\"layer_rope_theta\" other than 0 or \"rope_theta\" for each layer"));
    }
    t.set("attention.rope_pattern", Some(bases.map(|base| i64::from(base.is_some())).collect::<Vec<_>>()));
    Ok(())
}

/// MiniMax 01 and M1: lightning attention in most layers, and one scale of all residual inputs.
fn lightning(t: &mut Translator) -> Result<()> {
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let layers: Vec<i64> = match (
        t.layers("layer_types", &["full_attention", "linear_attention"])?,
        t.config.list(&["attn_type_list"])?,
    ) {
        (Some(kinds), _) => kinds.into_iter().map(|kind| i64::from(kind == 1)).collect(),
        (None, Some(kinds)) if kinds.len() == n => {
            kinds.iter().map(|kind| i64::from(kind.as_u64() == Some(0))).collect()
        }
        _ => return Err(t.config.wrong("layer_types", "one for each layer")),
    };
    t.set("attention.recurrent_layers", Some(layers));
    let mut scale = None;
    for (ours, theirs) in [
        ("full_attn", "layernorm_full_attention"),
        ("linear_attn", "layernorm_linear_attention"),
        ("mlp", "layernorm_mlp"),
    ] {
        let factor = |end: &str| {
            let [ours, theirs] = [format!("{ours}_{end}_factor"), format!("{theirs}_{end}")];
            Ok::<_, Error>(t.config.number(&[&ours, &theirs])?.unwrap_or(1.0))
        };
        let (alpha, beta) = (factor("alpha")?, factor("beta")?);
        if beta != 1.0 || *scale.get_or_insert(alpha) != alpha {
            return Err(t.config.unsupported("factors of blocks other than one alpha for all and a beta of 1"));
        }
    }
    t.set("residual_scale", scale);
    t.expect("postnorm", true)?;
    t.expect_text("shared_moe_mode", &["sigmoid"])?;
    match t.int(&["shared_intermediate_size"])? {
        None | Some(0) => Ok(()),
        Some(_) => Err(t.config.unsupported("a \"shared_intermediate_size\" other than 0")),
    }
}

// ---- shared by them

/// Gives KV heads to attention layers only.
fn attending_layers(t: &mut Translator, attend: impl ExactSizeIterator<Item = bool>) -> Result<()> {
    let kv_heads = signed(t.int(&["num_key_value_heads"])?.or(t.int(HEADS)?).unwrap_or(0));
    let mut list = try_vec("layers", attend.len())?;
    list.extend(attend.map(|attends| if attends { kv_heads } else { 0 }));
    if !list.iter().any(|&n| n > 0) {
        return Err(t.config.unsupported("a network of no attention among its layers (\"layer_types\")"));
    }
    t.replace("attention.head_count_kv", Some(list));
    Ok(())
}

/// Returns the inner width of a Mamba block, a multiple of the model's. Members of `names` repeat it.
fn inner_width(t: &Translator, names: &[&str], expand: &str) -> Result<u64> {
    let times = t.number(&[expand])?.unwrap_or(0.0);
    let width = whole((times * t.int(WIDTH)?.unwrap_or(0) as f64).trunc());
    let Some(width) = width.filter(|n| (1..=MAX_WIDTH).contains(n)) else {
        return Err(t.config.wrong(expand, "a factor that gives a width from 1 to 2^20"));
    };
    for name in names {
        if let Some(declared) = t.config.int(&[name])?
            && declared != width
        {
            return Err(t
                .config
                .unsupported(&format!("{name:?} with the value {declared}, other than {expand:?} tells")));
        }
    }
    Ok(width)
}

/// Returns the rank of Mamba 1's steps: a number, or a sixteenth of the width.
fn step_rank(t: &Translator, name: &str) -> Result<u64> {
    match t.config.find(&[name]) {
        Some((_, rank)) if rank.as_str() != Some("auto") => t.size(name),
        _ => Ok(t.int(WIDTH)?.unwrap_or(0).div_ceil(16)),
    }
}

fn block(t: &mut Translator, inner: u64, rank: u64, groups: Option<u64>, [taps, state]: [&str; 2]) -> Result<()> {
    let (taps, state) = (t.size(taps)?, t.size(state)?);
    t.set("ssm.conv_kernel", Some(taps));
    t.set("ssm.inner_size", Some(inner));
    t.set("ssm.state_size", Some(state));
    t.set("ssm.time_step_rank", Some(rank));
    t.set("ssm.group_count", groups);
    Ok(())
}

/// The `block` keys of Mamba 2. `names`: of the number of heads, their width, and the number of groups.
fn heads(t: &mut Translator, inner: u64, [n, width, groups]: [&str; 3], taps_and_state: [&str; 2]) -> Result<()> {
    let (n_heads, groups) = (t.size(n)?, t.size(groups)?);
    let declared = t.config.find(&[width]).filter(|(_, value)| value.as_str() != Some("auto"));
    if declared.is_some_and(|(_, value)| value.as_u64().and_then(|width| width.checked_mul(n_heads)) != Some(inner)) {
        return Err(t.config.unsupported(&format!("{width:?} other than {inner} / {n:?}")));
    }
    t.facts.groups = t.int(&["n_groups", "mamba_n_groups"])?.unwrap_or(1);
    block(t, inner, n_heads, Some(groups), taps_and_state)
}

/// Fails for bounded steps.
fn step_limit(t: &Translator) -> Result<()> {
    let Some(limits) = t.config.list(&["time_step_limit"])? else { return Ok(()) };
    let is_infinite =
        |x: &Json| x.as_f64() == Some(f64::INFINITY) || x.get("__float__").and_then(Json::as_str) == Some("Infinity");
    match limits {
        [low, high] if low.as_f64() == Some(0.0) && is_infinite(high) => Ok(()),
        _ => Err(t.config.unsupported("\"time_step_limit\" other than from 0 to infinity")),
    }
}

/// Returns a list with exactly one scale per product, 1 by default.
fn factors<const N: usize>(t: &Translator, name: &str) -> Result<[f64; N]> {
    let mut factors = [1.0; N];
    let Some(list) = t.config.list(&[name])? else { return Ok(factors) };
    let numbers = list.iter().filter_map(Json::as_f64);
    if list.len() != N || numbers.clone().count() != N {
        return Err(t.config.wrong(name, &format!("{N} numbers")));
    }
    factors.iter_mut().zip(numbers).for_each(|(factor, declared)| *factor = declared);
    positive(t, name, factors)
}

/// Fails for zero or negative scales.
fn positive<const N: usize>(t: &Translator, name: &str, factors: [f64; N]) -> Result<[f64; N]> {
    match factors.iter().find(|factor| **factor <= 0.0) {
        Some(factor) => Err(t.config.unsupported(&format!("{name:?} with the value {factor}"))),
        None => Ok(factors),
    }
}
