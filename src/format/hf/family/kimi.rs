//! Kimi Linear and K3: Kimi's delta rules with a decay per channel, and MLA without RoPE.

use super::common::{EXPERT_WIDTH, PLAIN};
use super::deepseek::latent_attention;
use crate::error::{Result, try_vec};
use crate::format::hf::known;
use crate::format::hf::translator::KeyType::{Bool, Int, Number};
use crate::format::hf::translator::{Family, HEADS, Key, Translator};
use crate::format::json::Json;

const KEYS: &[Key] = &[
    ("context_length", Int, &["model_max_length"]),
    ("expert_count", Int, &["num_experts", "num_local_experts"]),
    ("expert_used_count", Int, &["num_experts_per_token", "num_experts_per_tok"]),
    ("expert_shared_count", Int, &["num_shared_experts", "n_shared_experts"]),
    ("expert_weights_norm", Bool, &["moe_renormalize", "norm_topk_prob"]),
    ("expert_weights_scale", Number, &["routed_scaling_factor"]),
    ("expert_group_count", Int, &["num_expert_group", "n_group"]),
    ("expert_group_used_count", Int, &["topk_group"]),
    ("leading_dense_block_count", Int, &["first_k_dense_replace"]),
];
const K3_KEYS: &[Key] = &[
    ("attn_res.block_size", Int, &["attn_res_block_size"]),
    ("activation.situ_beta", Number, &["activation_situ_beta"]),
    ("activation.situ_linear_beta", Number, &["activation_situ_linear_beta"]),
    ("expert_latent_length", Int, &["routed_expert_hidden_size"]),
];

pub const DELTA_NAMES: &[(&str, &str)] = &[
    ("self_attn.q_conv1d", "ssm_conv1d_q"),
    ("self_attn.k_conv1d", "ssm_conv1d_k"),
    ("self_attn.v_conv1d", "ssm_conv1d_v"),
    ("self_attn.b_proj", "ssm_beta"),
    ("self_attn.f_a_proj", "ssm_f_a"),
    ("self_attn.f_b_proj", "ssm_f_b"),
    ("self_attn.g_a_proj", "ssm_g_a"),
    ("self_attn.g_b_proj", "ssm_g_b"),
    ("self_attn.o_norm", "ssm_norm"),
    ("self_attn.A_log", "ssm_a"),
    ("self_attn.dt_bias", "ssm_dt.bias"),
];
const EXPERT_NAMES: &[(&str, &str)] = &[
    ("block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias"),
    // Dense blocks as saved by transformers.
    ("block_sparse_moe.gate_proj", "ffn_gate"),
    ("block_sparse_moe.up_proj", "ffn_up"),
    ("block_sparse_moe.down_proj", "ffn_down"),
];
const K3_NAMES: &[(&str, &str)] = &[
    ("self_attn.g_proj", "attn_gate"),
    ("self_attention_res_norm", "attn_res_norm"),
    ("self_attention_res_proj", "attn_res_proj"),
    ("mlp_res_norm", "ffn_res_norm"),
    ("mlp_res_proj", "ffn_res_proj"),
    ("output_attn_res_norm", "output_res_norm"),
    ("output_attn_res_proj", "output_res_proj"),
    ("block_sparse_moe.routed_expert_down_proj", "ffn_routed_down"),
    ("block_sparse_moe.routed_expert_up_proj", "ffn_routed_up"),
    ("block_sparse_moe.routed_expert_norm", "ffn_routed_norm"),
];

/// Ling 3.0 uses the same module names for both kinds of attention.
const BAILING_NAMES: &[(&str, &str)] = &[
    ("attention.q_proj", "attn_q"),
    ("attention.k_proj", "attn_k"),
    ("attention.v_proj", "attn_v"),
    ("attention.q_a_proj", "attn_q_a"),
    ("attention.q_a_layernorm", "attn_q_a_norm"),
    ("attention.q_b_proj", "attn_q_b"),
    ("attention.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    ("attention.kv_a_layernorm", "attn_kv_a_norm"),
    ("attention.kv_b_proj", "attn_kv_b"),
    ("attention.q_conv1d", "ssm_conv1d_q"),
    ("attention.k_conv1d", "ssm_conv1d_k"),
    ("attention.v_conv1d", "ssm_conv1d_v"),
    ("attention.b_proj", "ssm_beta"),
    ("attention.f_proj", "ssm_f_a"),
    ("attention.g_proj", "attn_gate"),
    ("attention.o_norm", "ssm_norm"),
    ("attention.A_log", "ssm_a"),
    ("attention.dt_bias", "ssm_dt.bias"),
    ("mlp.gate.expert_bias", "exp_probs_b.bias"),
];

const KIMI: Family = Family {
    keys: &[KEYS, EXPERT_WIDTH],
    defaults: "moe_renormalize=1 routed_scaling_factor=2.446",
    effectless: "head_dim qk_head_dim mlp_layer_types",
    extras: kimi,
    windows: |_| Ok(()),
    rope: still,
    ..PLAIN
};

pub const ALL: &[Family] = &[
    Family { model_types: &["kimi_linear"], arch: "kimi-linear", names: &[DELTA_NAMES, EXPERT_NAMES], ..KIMI },
    Family {
        model_types: &["kimi_k3"],
        arch: "kimi-k3",
        activations: &["situ"],
        keys: &[KEYS, EXPERT_WIDTH, K3_KEYS],
        names: &[DELTA_NAMES, EXPERT_NAMES, K3_NAMES],
        ..KIMI
    },
    Family {
        model_types: &["bailing_hybrid"],
        arch: "bailingmoe3",
        epsilon: 1e-6,
        keys: &[KEYS, EXPERT_WIDTH],
        defaults: "rope_theta=6e6 norm_topk_prob=1 routed_scaling_factor=2.5 layer_group_size=6",
        effectless: "head_dim qk_head_dim mlp_layer_types num_nextn_predict_layers num_mtp_layers router_dtype",
        extras: bailing,
        windows: |_| Ok(()),
        adjacent: true,
        names: &[BAILING_NAMES],
        ..PLAIN
    },
];

fn kimi(t: &mut Translator) -> Result<()> {
    t.expect_text("moe_router_activation_func", &["sigmoid"])?;
    t.expect("use_grouped_topk", true)?;
    t.set("expert_gating_func", Some(2u64));
    latent_attention(t)?;
    delta_rules(t, None)
}

/// Ling 3.0: delta rules, and attention in the last layer of each group.
fn bailing(t: &mut Translator) -> Result<()> {
    t.expect_text("score_function", &["sigmoid"])?;
    t.expect("moe_router_enable_expert_bias", true)?;
    t.replace("context_length", t.int(&["max_position_embeddings", "model_max_length"])?);
    t.set("expert_gating_func", Some(2u64));
    latent_attention(t)?;
    let (dim, saved) = (t.int(&["linear_head_dim"])?, t.int(&["head_dim"])?);
    t.set("kda.head_dim", dim.or(saved).or(Some(128)));
    t.set("ssm.conv_kernel", t.int(&["short_conv_kernel_size", "linear_conv_kernel_dim"])?.or(Some(4)));
    if t.config.int(&["linear_num_heads"])?.is_some_and(|heads| t.int(HEADS).ok().flatten() != Some(heads)) {
        return Err(t.config.unsupported("a \"linear_num_heads\" other than \"num_attention_heads\""));
    }
    t.expect("kda_safe_gate", true)?;
    t.set("kda.gate_lower_bound", t.number(&["kda_lower_bound"])?.or(Some(-5.0)));
    let (n, group) = (usize::try_from(t.n_layers()?).unwrap_or(0), t.size("layer_group_size")?);
    let kinds = t.layers("layer_types", &["linear_attention", "full_attention"])?;
    let mut kv_heads = try_vec("layers", n)?;
    match kinds {
        Some(kinds) => kv_heads.extend(kinds.into_iter().map(|kind| i64::from(kind > 0))),
        None => kv_heads.extend((1..=n as u64).map(|i| i64::from(i.is_multiple_of(group)))),
    }
    t.replace("attention.head_count_kv", Some(kv_heads));
    Ok(())
}

/// Fails for RoPE, which the network does not have, and ignores keys that describe it.
pub fn still(t: &mut Translator) -> Result<()> {
    t.expect("mla_use_nope", true)?;
    t.config.skip(&["rope_theta", "rope_scaling", "rope_parameters"]);
    Ok(())
}

/// Sets the layers with delta rules, and their sizes. `bound`: of decays, unless the configuration declares none.
pub fn delta_rules(t: &mut Translator, bound: Option<f64>) -> Result<()> {
    let part = t.part("linear_attn_config");
    let either = |name: &str, outer: &str| -> Result<Option<u64>> {
        let outer = t.config.int(&[outer])?;
        Ok(part.int(&[name])?.or(outer))
    };
    let (heads, dim) = (either("num_heads", "linear_num_heads")?, either("head_dim", "linear_head_dim")?);
    let taps = either("short_conv_kernel_size", "linear_conv_kernel_dim")?;
    if heads.is_some() && heads != t.int(HEADS)? {
        return Err(t
            .config
            .unsupported("a \"num_heads\" of \"linear_attn_config\" other than \"num_attention_heads\""));
    }
    let outer = t.config.number(&["linear_lower_bound"])?;
    let is_bound = part.bool(&["safe_gate"])? != Some(false);
    let bound = part.number(&["gate_lower_bound"])?.or(outer).or(bound.filter(|_| is_bound));
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    // Layers are numbered from 1.
    let [full, delta] = [part.list(&["full_attn_layers"])?, part.list(&["kda_layers"])?];
    let mut kv_heads = try_vec("layers", n)?;
    match (t.layers("layer_types", &["linear_attention", "full_attention", "indexed_attention"])?, full, delta) {
        (Some(kinds), ..) => kv_heads.extend(kinds.into_iter().map(|kind| i64::from(kind > 0))),
        (None, Some(full), Some(delta)) => {
            let is_in = |list: &[Json], i: usize| list.iter().any(|layer| layer.as_u64() == Some(i as u64 + 1));
            if full.len() + delta.len() != n || (0..n).any(|i| is_in(full, i) == is_in(delta, i)) {
                return Err(t
                    .config
                    .wrong("linear_attn_config", "a list of \"full_attn_layers\" and one of the others"));
            }
            kv_heads.extend((0..n).map(|i| i64::from(is_in(full, i))));
        }
        _ => return Err(t.config.wrong("layer_types", "given, or \"full_attn_layers\" and \"kda_layers\"")),
    }
    known::check(&part, "", &t.passed)?;
    t.set("kda.head_dim", dim);
    t.set("ssm.conv_kernel", taps);
    t.set("kda.gate_lower_bound", bound);
    t.replace("attention.head_count_kv", Some(kv_heads));
    Ok(())
}
