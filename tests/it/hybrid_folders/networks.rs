//! The networks: those of the float64 reference, and others as GGUF files.

use std::fs;

use realizar::quant;
use serde_json::{Value, json};

use super::checkpoints::*;
use crate::support::gguf::Gguf;
use crate::support::models;
use crate::support::recurrent::Mixer;
use crate::support::reference::{Moe, Score};
use crate::support::tiny::{self, PROMPT, Rng, Tiny, inv_freq};

pub fn tensors_of(file: &Gguf) -> Vec<Tensor> {
    let values = |data: &[u8]| data.chunks(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect();
    file.tensors.iter().map(|t| (t.name.clone(), t.dims.clone(), values(&t.data))).collect()
}

pub fn tiny_of(name: &str) -> Tiny {
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(128, 4, 2, 32, 512));
    // Norms within mixers have this epsilon whatever the configuration says.
    all.into_iter().find(|(other, _)| *other == name).unwrap().1.change(|t| t.net.eps = 1e-6)
}

pub fn case(
    name: &'static str,
    tiny: &Tiny,
    prefix: &'static str,
    names: &'static [(&'static str, &'static str)],
    more: Value,
) -> Case {
    let (_, net, weights) = tiny.build();
    let (file, ..) = tiny.file();
    let mut config = json!({"model_type": name, "hidden_size": net.hidden, "num_hidden_layers": net.layers, "vocab_size": net.vocab,
        "num_attention_heads": net.heads, "num_key_value_heads": net.kv_heads, "intermediate_size": net.ffn,
        "rms_norm_eps": net.eps, "max_position_embeddings": 128, "tie_word_embeddings": tiny.tied});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let expected = net.forward(&weights, &PROMPT);
    Case { name, tensors: tensors_of(&file), config, prefix, names, expected }
}

pub fn qwen_tiny(name: &str) -> Tiny {
    let mut tiny = tiny_of("qwen35");
    if name != "qwen3_5_text" {
        let moe = Moe { renormalize: true, ..tiny_of("qwen2moe").net.moe.unwrap() };
        (tiny.net.moe, tiny.seed) = (Some(moe), 5);
    }
    tiny
}

pub fn qwen(name: &'static str) -> Case {
    qwen_of(name, &qwen_tiny(name))
}

pub fn qwen_of(name: &'static str, tiny: &Tiny) -> Case {
    let Mixer::DeltaNet { key_heads, heads, dim, taps } = tiny.net.mixers[0] else { panic!("no delta net") };
    let mut config = json!({"head_dim": tiny.net.head_dim, "layer_types": ["linear_attention", "full_attention"],
        "linear_conv_kernel_dim": taps, "linear_key_head_dim": dim, "linear_value_head_dim": dim,
        "linear_num_key_heads": key_heads, "linear_num_value_heads": heads, "attn_output_gate": true,
        "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "rope_parameters": {"rope_type": "default",
        "rope_theta": tiny.rope_base, "partial_rotary_factor": 1.0, "mrope_interleaved": true, "mrope_section": [6, 5, 5]}});
    if let Some(moe) = tiny.net.moe {
        config["num_experts"] = json!(moe.n);
        config["num_experts_per_tok"] = json!(moe.used);
        config["moe_intermediate_size"] = json!(moe.ffn);
        config["shared_expert_intermediate_size"] = json!(moe.ffn);
    }
    let packed = name == "qwen3_next";
    if packed {
        config["norm_topk_prob"] = json!(true);
        config["full_attention_interval"] = json!(2);
        config.as_object_mut().unwrap().remove("layer_types");
        for name in ["mrope_interleaved", "mrope_section"] {
            config["rope_parameters"].as_object_mut().unwrap().remove(name);
        }
    }
    let mut case = case(name, tiny, "model.language_model.layers.", QWEN, config);
    undo_qwen(&mut case.tensors, [key_heads, heads, dim], packed);
    undo_recurrence(&mut case.tensors);
    if name == "qwen3_5_moe_text" {
        // As published: all experts in one tensor.
        join(
            &mut case.tensors,
            &["ffn_gate_exps.weight", "ffn_up_exps.weight"],
            "mlp.experts.gate_up_proj",
            experts_together,
        );
        case.names = Box::leak([QWEN, &[("mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj")]].concat().into());
    }
    case
}

pub fn mamba2() -> Case {
    let config = json!({"intermediate_size": 96, "num_heads": 4, "head_dim": 24, "state_size": 20, "n_groups": 2, "expand": 0.75, "conv_kernel": 4,
        "layer_norm_epsilon": 1e-6, "time_step_limit": [0.0, "INFINITY"], "use_conv_bias": true, "hidden_act": "silu"});
    let mut case = case("mamba2", &tiny_of("mamba2"), "backbone.layers.", MAMBA2, config);
    undo_recurrence(&mut case.tensors);
    case
}

pub fn granite() -> Case {
    let mamba = Mixer::Mamba2 { inner: 96, state: 20, heads: 4, groups: 2, taps: 4 };
    let tiny = tiny_of("granite").layers(3).change(|t| {
        (t.net.mixers, t.net.inv_freq) = (vec![mamba, Mixer::Attention, mamba], vec![vec![]; 3]);
    });
    let config = json!({"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.125,
        "logits_scaling": 8.0, "layer_types": ["mamba", "attention", "mamba"], "position_embedding_type": "nope",
        "num_local_experts": 0, "shared_intermediate_size": tiny.net.ffn, "mamba_n_heads": 4, "mamba_d_head": "auto",
        "mamba_n_groups": 2, "mamba_d_state": 20, "mamba_d_conv": 4, "mamba_expand": 0.75});
    let names = Box::leak([HYBRID, GRANITE].concat().into());
    let mut case = case("granitemoehybrid", &tiny, "model.layers.", names, config);
    undo_recurrence(&mut case.tensors);
    join(&mut case.tensors, &["ffn_gate.weight", "ffn_up.weight"], "ffn_gate_up.weight", rows_after_rows);
    case
}

pub fn deepseek(name: &'static str) -> Case {
    let tiny = tiny_of("deepseek2").change(|t| {
        if name == "deepseek_v2" {
            t.moe(|moe| {
                (moe.score, moe.renormalize) = (Score::Softmax, false);
                (moe.groups, moe.groups_used, moe.choice_bias) = (1, 1, false);
            });
        }
    });
    deepseek_of(name, &tiny)
}

pub fn deepseek_of(name: &'static str, tiny: &Tiny) -> Case {
    let (latent, moe) = (tiny.net.latent.unwrap(), tiny.net.moe.unwrap());
    let config = json!({"kv_lora_rank": latent.rank, "q_lora_rank": latent.query_rank, "qk_nope_head_dim": latent.still,
        "qk_rope_head_dim": latent.rope_dims, "v_head_dim": latent.value_dim, "n_routed_experts": moe.n,
        "num_experts_per_tok": moe.used, "moe_intermediate_size": moe.ffn, "n_shared_experts": 1, "n_group": moe.groups,
        "topk_group": moe.groups_used, "routed_scaling_factor": moe.scale, "norm_topk_prob": moe.renormalize,
        "first_k_dense_replace": moe.dense, "rope_theta": tiny.rope_base, "num_nextn_predict_layers": 1,
        "scoring_func": if moe.renormalize { "sigmoid" } else { "softmax" },
        "topk_method": if moe.renormalize { "noaux_tc" } else { "greedy" }});
    let mut case = case(name, tiny, "model.layers.", DEEPSEEK, config);
    undo_latent(&mut case.tensors);
    case
}

pub fn glm_of(tiny: &Tiny) -> Case {
    let (net, moe) = (&tiny.net, tiny.net.moe.unwrap());
    let config = json!({"head_dim": net.head_dim, "n_routed_experts": moe.n, "num_experts_per_tok": moe.used,
        "moe_intermediate_size": moe.ffn, "n_shared_experts": 1, "n_group": moe.groups, "topk_group": moe.groups_used,
        "routed_scaling_factor": moe.scale, "norm_topk_prob": true, "first_k_dense_replace": moe.dense,
        "attention_bias": true, "use_qk_norm": true, "partial_rotary_factor": 1.0, "rope_theta": tiny.rope_base,
        "num_nextn_predict_layers": 1});
    case("glm4_moe", tiny, "model.layers.", COMMON, config)
}

pub fn minicpm() -> Case {
    let tiny = tiny_of("minicpm3");
    let latent = tiny.net.latent.unwrap();
    let config = json!({"kv_lora_rank": latent.rank, "q_lora_rank": latent.query_rank, "qk_nope_head_dim": latent.still,
        "qk_rope_head_dim": latent.rope_dims, "rope_theta": tiny.rope_base, "scale_emb": 12, "scale_depth": 1.4,
        "dim_model_base": 256});
    case("minicpm3", &tiny, "model.layers.", DEEPSEEK, config)
}

pub fn gemma() -> Case {
    let tiny = tiny_of("gemma4").change(|t| {
        let pairs = t.net.head_dim / 2;
        let rope_dims = |pair: usize| if pair < pairs / 4 { 1.0 } else { 0.0 };
        let full: Vec<f64> = inv_freq(1e6, 2 * pairs).iter().enumerate().map(|(i, f)| f * rope_dims(i)).collect();
        let windows = t.net.window.clone();
        t.net
            .inv_freq
            .iter_mut()
            .zip(windows)
            .filter(|(_, window)| *window == 0)
            .for_each(|(inv, _)| inv.clone_from(&full));
        t.tensors.clear();
    });
    let (net, moe) = (&tiny.net, tiny.net.moe.unwrap());
    let kinds: Vec<&str> =
        net.window.iter().map(|w| if *w > 0 { "sliding_attention" } else { "full_attention" }).collect();
    let config = json!({"head_dim": net.head_dim / 2, "global_head_dim": net.head_dim, "sliding_window": 8,
        "num_key_value_heads": 2, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "layer_types": kinds,
        "num_kv_shared_layers": 2, "hidden_size_per_layer_input": net.gemma4.unwrap().inputs, "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh", "enable_moe_block": true, "num_experts": moe.n, "top_k_experts": moe.used,
        "moe_intermediate_size": moe.ffn, "use_bidirectional_attention": "vision", "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}});
    let mut case = case("gemma4_text", &tiny, "model.language_model.layers.", GEMMA, config);
    join(
        &mut case.tensors,
        &["ffn_gate_exps.weight", "ffn_up_exps.weight"],
        "ffn_gate_up_exps.weight",
        experts_together,
    );
    case
}

/// The tensors of a layer, in order: name, dimensions, and the kind of their numbers: norms (n), rates (a), matrices
/// (m), others.
pub type Layer<'a> = &'a [(&'a str, &'a [u64], char)];

/// A network that the reference lacks, as a GGUF file.
pub fn made(arch: &str, keys: &[(&str, u32)], layers: &[Layer]) -> Gguf {
    let key = |key: &str| format!("{arch}.{key}");
    let tokens: Vec<String> = (0..300).map(|i| format!("t{i}")).collect();
    let mut file = Gguf::new().key("general.architecture", arch).key(&key("context_length"), 128u32);
    file = file.key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.pre", "default");
    file = file.key("tokenizer.ggml.tokens", tokens.iter().map(String::as_str).collect::<Vec<_>>());
    file = file.key("tokenizer.ggml.merges", vec!["a b"]).key(&key("attention.layer_norm_rms_epsilon"), 1e-5f32);
    file = file.key(&key("block_count"), layers.len() as u32).key(&key("embedding_length"), 96u32);
    for (name, value) in keys {
        file = file.key(&key(name), *value);
    }
    let mut rng = Rng(7);
    let mut put = |name: &str, dims: &[u64], kind: char| {
        let spread = 1.3 / (*dims.last().unwrap() as f64).sqrt();
        let mut draw = || match kind {
            'n' => 1.0 + 0.2 * rng.normal(),
            'a' => -(0.7 * rng.normal()).exp(),
            'm' => spread * rng.normal(),
            _ => 0.5 * rng.normal(),
        };
        let bytes: Vec<u8> = (0..dims.iter().product()).flat_map(|_: u64| (draw() as f32).to_le_bytes()).collect();
        file = std::mem::replace(&mut file, Gguf::new()).tensor(name, quant::F32.0, dims, &bytes);
    };
    put("token_embd.weight", &[300, 96], 'b');
    put("output.weight", &[300, 96], 'm');
    put("output_norm.weight", &[96], 'n');
    for (i, layer) in layers.iter().enumerate() {
        layer.iter().for_each(|(name, dims, kind)| put(&format!("blk.{i}.{name}"), dims, *kind));
    }
    file
}

/// A case whose expected logits are those of a file.
pub fn twin(name: &'static str, file: &Gguf, names: &[&[(&'static str, &'static str)]], config: Value) -> Case {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("twin.gguf");
    fs::write(&path, file.build().0).unwrap();
    let expected = models::logits(&path).iter().map(|row| row.iter().map(|v| f64::from(*v)).collect()).collect();
    let mut all = json!({"model_type": name, "hidden_size": 96, "vocab_size": 300, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false});
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let prefix = if names[0] == HYBRID { "model.layers." } else { "backbone.layers." };
    let names: &'static [_] = Box::leak(names.concat().into());
    let mut case = Case { name, tensors: tensors_of(file), config: all, prefix, names, expected };
    undo_recurrence(&mut case.tensors);
    case
}

pub const MAMBA1_BLOCK: Layer = &[
    ("attn_norm.weight", &[96], 'n'),
    ("ssm_in.weight", &[384, 96], 'm'),
    ("ssm_conv1d.weight", &[192, 3], 'b'),
    ("ssm_conv1d.bias", &[192], 'b'),
    ("ssm_x.weight", &[7 + 24, 192], 'm'),
    ("ssm_dt.weight", &[192, 7], 'm'),
    ("ssm_dt.bias", &[192], 'b'),
    ("ssm_a", &[192, 12], 'a'),
    ("ssm_d", &[192], 'n'),
    ("ssm_out.weight", &[96, 192], 'm'),
];

/// Four heads of 32 in two groups.
pub const MAMBA2_BLOCK: Layer = &[
    ("attn_norm.weight", &[96], 'n'),
    ("ssm_in.weight", &[128 + 208 + 4, 96], 'm'),
    ("ssm_conv1d.weight", &[208, 3], 'b'),
    ("ssm_conv1d.bias", &[208], 'b'),
    ("ssm_dt.bias", &[4], 'b'),
    ("ssm_a", &[4, 1], 'a'),
    ("ssm_d", &[4, 1], 'n'),
    ("ssm_norm.weight", &[2, 64], 'n'),
    ("ssm_out.weight", &[96, 128], 'm'),
];
pub const MAMBA2_KEYS: &[(&str, u32)] = &[
    ("ssm.conv_kernel", 3),
    ("ssm.inner_size", 128),
    ("ssm.state_size", 20),
    ("ssm.time_step_rank", 4),
    ("ssm.group_count", 2),
];

/// Six heads of 16 and two for keys and values.
pub const ATTENTION: Layer = &[
    ("attn_q.weight", &[96, 96], 'm'),
    ("attn_k.weight", &[32, 96], 'm'),
    ("attn_v.weight", &[32, 96], 'm'),
    ("attn_output.weight", &[96, 96], 'm'),
];
pub const FFN: Layer = &[
    ("ffn_norm.weight", &[96], 'n'),
    ("ffn_gate.weight", &[160, 96], 'm'),
    ("ffn_up.weight", &[160, 96], 'm'),
    ("ffn_down.weight", &[96, 160], 'm'),
];

pub fn mamba() -> Case {
    let keys = [("ssm.conv_kernel", 3), ("ssm.inner_size", 192), ("ssm.state_size", 12), ("ssm.time_step_rank", 7)];
    let file = made("mamba", &keys, &[MAMBA1_BLOCK; 2]);
    twin(
        "mamba",
        &file,
        &[MAMBA],
        json!({"num_hidden_layers": 2, "n_layer": 2, "expand": 2, "state_size": 12, "conv_kernel": 3, "time_step_rank": 7,
            "layer_norm_epsilon": 1e-5, "time_step_scale": 1.0, "use_conv_bias": true}),
    )
}

pub fn jamba() -> Case {
    let keys = [
        ("ssm.conv_kernel", 3),
        ("ssm.inner_size", 192),
        ("ssm.state_size", 12),
        ("ssm.time_step_rank", 7),
        ("attention.head_count", 6),
        ("feed_forward_length", 160),
        ("expert_count", 4),
        ("expert_used_count", 2),
    ];
    let norms: Layer =
        &[("ssm_dt_norm.weight", &[7], 'n'), ("ssm_b_norm.weight", &[12], 'n'), ("ssm_c_norm.weight", &[12], 'n')];
    let experts: Layer = &[
        ("ffn_norm.weight", &[96], 'n'),
        ("ffn_gate_inp.weight", &[4, 96], 'm'),
        ("ffn_gate_exps.weight", &[4, 160, 96], 'm'),
        ("ffn_up_exps.weight", &[4, 160, 96], 'm'),
        ("ffn_down_exps.weight", &[4, 96, 160], 'm'),
    ];
    let (dense, mixture) = ([MAMBA1_BLOCK, norms, FFN].concat(), [&MAMBA1_BLOCK[..1], ATTENTION, experts].concat());
    let file = made("jamba", &keys, &[&dense, &mixture, &dense]).key("jamba.attention.head_count_kv", vec![0u32, 2, 0]);
    twin(
        "jamba",
        &file,
        &[HYBRID, JAMBA],
        json!({"num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 160,
            "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
            "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_conv": 3, "mamba_d_state": 12, "mamba_expand": 2,
            "mamba_dt_rank": 7}),
    )
}

pub fn nemotron() -> Case {
    let keys = [
        ("attention.head_count", 6),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("expert_count", 4),
        ("expert_used_count", 2),
        ("expert_feed_forward_length", 64),
    ];
    let mixture: Layer = &[
        ("attn_norm.weight", &[96], 'n'),
        ("ffn_gate_inp.weight", &[4, 96], 'm'),
        ("exp_probs_b.bias", &[4], 'b'),
        ("ffn_up_exps.weight", &[4, 64, 96], 'm'),
        ("ffn_down_exps.weight", &[4, 96, 64], 'm'),
        ("ffn_up_shexp.weight", &[80, 96], 'm'),
        ("ffn_down_shexp.weight", &[96, 80], 'm'),
    ];
    let attention = [&MAMBA1_BLOCK[..1], ATTENTION].concat();
    let ffn = [&MAMBA1_BLOCK[..1], &FFN[2..]].concat();
    let file = made("nemotron_h", &[MAMBA2_KEYS, &keys].concat(), &[MAMBA2_BLOCK, &attention, mixture, &ffn]);
    let file = file.key("nemotron_h.attention.head_count_kv", vec![0u32, 2, 0, 0]);
    let file = file.key("nemotron_h.feed_forward_length", vec![0u32, 0, 64, 160]);
    let file = file.key("nemotron_h.expert_weights_norm", true).key("nemotron_h.expert_weights_scale", 2.5f32);
    twin(
        "nemotron_h",
        &file,
        &[MAMBA2],
        json!({"hybrid_override_pattern": "M*E-", "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
            "head_dim": 16, "intermediate_size": 160, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_groups": 2,
            "ssm_state_size": 20, "conv_kernel": 3, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 64, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 80,
            "routed_scaling_factor": 2.5, "norm_topk_prob": true, "n_group": 1, "topk_group": 1, "mlp_hidden_act": "relu2",
            "layer_norm_epsilon": 1e-5, "time_step_limit": [0.0, {"__float__": "Infinity"}]}),
    )
}

/// The file's weights have the factors of products within them.
pub fn falcon() -> Case {
    let keys = [("attention.head_count", 6), ("attention.head_count_kv", 2), ("feed_forward_length", 160)];
    let layer = [MAMBA2_BLOCK, ATTENTION, FFN].concat();
    let file = made("falcon-h1", &[MAMBA2_KEYS, &keys].concat(), &[&layer, &layer]);
    let parts = [0.7, 1.1, 0.9, 1.3, 0.8];
    let config = json!({"num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 160,
        "rope_theta": 1e4, "mamba_d_ssm": 128, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_n_groups": 2,
        "mamba_d_state": 20, "mamba_d_conv": 3, "mamba_rms_norm": true, "mamba_norm_before_gate": false,
        "attention_in_multiplier": 1.2, "key_multiplier": 0.6, "attention_out_multiplier": 0.9, "ssm_in_multiplier": 1.25,
        "ssm_multipliers": parts, "ssm_out_multiplier": 0.75, "mlp_multipliers": [0.7, 1.3], "embedding_multiplier": 2.5,
        "lm_head_multiplier": 0.8});
    let mut case = twin("falcon_h1", &file, &[HYBRID, FALCON], config);
    let factors = [
        ("token_embd.weight", 2.5),
        (".attn_q.weight", 1.2),
        (".attn_k.weight", 1.2 * 0.6),
        (".attn_v.weight", 1.2),
        (".attn_output.weight", 0.9),
        ("output.weight", 0.8),
        (".ssm_out.weight", 0.75),
        (".ffn_gate.weight", 0.7),
        (".ffn_down.weight", 1.3),
    ];
    for (name, _, values) in &mut case.tensors {
        let factor = factors.iter().find(|row| name.ends_with(row.0)).map_or(1.0, |row| row.1);
        values.iter_mut().for_each(|v| *v /= factor);
        if name.ends_with(".ssm_in.weight") {
            // Gates, inputs, both matrices, steps.
            let rows = [128, 128, 40, 40, 4].iter().zip(parts).flat_map(|(n, factor)| vec![factor * 1.25; *n]);
            values.chunks_mut(96).zip(rows).for_each(|(row, by)| row.iter_mut().for_each(|v| *v /= by as f32));
        }
    }
    case
}

pub fn cases() -> Vec<Case> {
    vec![
        qwen("qwen3_5_text"),
        qwen("qwen3_5_moe_text"),
        qwen("qwen3_next"),
        gemma(),
        deepseek("deepseek_v2"),
        deepseek("deepseek_v3"),
        deepseek("kimi_k2"),
        minicpm(),
        mamba(),
        mamba2(),
        falcon(),
        granite(),
        nemotron(),
        jamba(),
    ]
}
