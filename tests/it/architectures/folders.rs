//! Folders of architectures that transformers does not have: the networks of `data/architectures`, with the tensor
//! names and layouts of their authors. Their results must equal those of the same implementation in 64-bit floats.

use std::path::Path;

use realizar::quant;
use serde_json::{Value, json};

use super::{expected, results};
use crate::hybrid_folders::checkpoints::{
    Case, Tensor, change, put_folder, renamed, take, undo_latent, undo_recurrence,
};
use crate::hybrid_folders::networks::tensors_of;
use crate::support::models;
use crate::support::published::{file_of, relative_rms};

const SIXTH: &[(&str, &str)] = &[
    ("token_embd", "rwkv.embeddings"),
    ("token_embd_norm", "rwkv.blocks.0.pre_ln"),
    ("output_norm", "rwkv.ln_out"),
    ("output", "head"),
    ("attn_norm", "ln1"),
    ("attn_norm_2", "ln2"),
    ("time_mix_lerp_x.weight", "attention.time_maa_x"),
    ("time_mix_lerp_w.weight", "attention.time_maa_w"),
    ("time_mix_lerp_k.weight", "attention.time_maa_k"),
    ("time_mix_lerp_v.weight", "attention.time_maa_v"),
    ("time_mix_lerp_r.weight", "attention.time_maa_r"),
    ("time_mix_lerp_g.weight", "attention.time_maa_g"),
    ("time_mix_w1.weight", "attention.time_maa_w1"),
    ("time_mix_w2.weight", "attention.time_maa_w2"),
    ("time_mix_decay.weight", "attention.time_decay"),
    ("time_mix_decay_w1.weight", "attention.time_decay_w1"),
    ("time_mix_decay_w2.weight", "attention.time_decay_w2"),
    ("time_mix_first.weight", "attention.time_faaaa"),
    ("time_mix_key", "attention.key"),
    ("time_mix_value", "attention.value"),
    ("time_mix_receptance", "attention.receptance"),
    ("time_mix_gate", "attention.gate"),
    ("time_mix_output", "attention.output"),
    ("time_mix_ln", "attention.ln_x"),
    ("channel_mix_lerp_k.weight", "feed_forward.time_maa_k"),
    ("channel_mix_lerp_r.weight", "feed_forward.time_maa_r"),
    ("channel_mix_key", "feed_forward.key"),
    ("channel_mix_value", "feed_forward.value"),
    ("channel_mix_receptance", "feed_forward.receptance"),
];

const SEVENTH: &[(&str, &str)] = &[
    ("token_embd", "model.embeddings"),
    ("token_embd_norm", "model.layers.0.pre_norm"),
    ("attn_norm", "attn_norm"),
    ("attn_norm_2", "ffn_norm"),
    ("time_mix_lerp_fused.weight", "attn.x_x"),
    ("time_mix_lerp_r.weight", "attn.x_r"),
    ("time_mix_lerp_w.weight", "attn.x_w"),
    ("time_mix_lerp_k.weight", "attn.x_k"),
    ("time_mix_lerp_v.weight", "attn.x_v"),
    ("time_mix_lerp_a.weight", "attn.x_a"),
    ("time_mix_lerp_g.weight", "attn.x_g"),
    ("time_mix_k_k.weight", "attn.k_k"),
    ("time_mix_k_a.weight", "attn.k_a"),
    ("time_mix_r_k.weight", "attn.r_k"),
    ("time_mix_receptance", "attn.r_proj"),
    ("time_mix_key", "attn.k_proj"),
    ("time_mix_value", "attn.v_proj"),
    ("time_mix_output", "attn.o_proj"),
    ("time_mix_ln", "attn.g_norm"),
    ("time_mix_w1.weight", "attn.w_lora.lora.0.weight"),
    ("time_mix_w2.weight", "attn.w_lora.lora.2.weight"),
    ("time_mix_w0.weight", "attn.w_lora.lora.2.bias"),
    ("time_mix_a1.weight", "attn.a_lora.lora.0.weight"),
    ("time_mix_a2.weight", "attn.a_lora.lora.2.weight"),
    ("time_mix_a0.weight", "attn.a_lora.lora.2.bias"),
    ("time_mix_v1.weight", "attn.v_lora.lora.0.weight"),
    ("time_mix_v2.weight", "attn.v_lora.lora.2.weight"),
    ("time_mix_v0.weight", "attn.v_lora.lora.2.bias"),
    ("time_mix_g1.weight", "attn.g_lora.lora.0.weight"),
    ("time_mix_g2.weight", "attn.g_lora.lora.2.weight"),
    ("channel_mix_lerp_k.weight", "ffn.x_k"),
    ("channel_mix_key", "ffn.key"),
    ("channel_mix_value", "ffn.value"),
];

const K3: &[(&str, &str)] = &[
    ("token_embd", "language_model.model.embed_tokens"),
    ("output_norm", "language_model.model.norm"),
    ("output", "language_model.lm_head"),
    ("output_res_norm", "language_model.model.output_attn_res_norm"),
    ("output_res_proj", "language_model.model.output_attn_res_proj"),
    ("attn_res_norm", "self_attention_res_norm"),
    ("attn_res_proj", "self_attention_res_proj"),
    ("ffn_res_norm", "mlp_res_norm"),
    ("ffn_res_proj", "mlp_res_proj"),
    ("attn_q_a", "self_attn.q_a_proj"),
    ("attn_q_a_norm", "self_attn.q_a_layernorm"),
    ("attn_q_b", "self_attn.q_b_proj"),
    ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attn_kv_b", "self_attn.kv_b_proj"),
    ("attn_gate", "self_attn.g_proj"),
    ("ssm_g", "self_attn.g_proj"),
    ("ssm_conv1d_q", "self_attn.q_conv1d"),
    ("ssm_conv1d_k", "self_attn.k_conv1d"),
    ("ssm_conv1d_v", "self_attn.v_conv1d"),
    ("ssm_beta", "self_attn.b_proj"),
    ("ssm_f_a", "self_attn.f_a_proj"),
    ("ssm_f_b", "self_attn.f_b_proj"),
    ("ssm_norm", "self_attn.o_norm"),
    ("ssm_a", "self_attn.A_log"),
    ("ssm_dt.bias", "self_attn.dt_bias"),
    ("ffn_gate_inp", "block_sparse_moe.gate"),
    ("exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"),
    ("ffn_gate_exps", "block_sparse_moe.experts.*.w1"),
    ("ffn_up_exps", "block_sparse_moe.experts.*.w3"),
    ("ffn_down_exps", "block_sparse_moe.experts.*.w2"),
    ("ffn_gate_shexp", "block_sparse_moe.shared_experts.gate_proj"),
    ("ffn_up_shexp", "block_sparse_moe.shared_experts.up_proj"),
    ("ffn_down_shexp", "block_sparse_moe.shared_experts.down_proj"),
    ("ffn_routed_down", "block_sparse_moe.routed_expert_down_proj"),
    ("ffn_routed_up", "block_sparse_moe.routed_expert_up_proj"),
    ("ffn_routed_norm", "block_sparse_moe.routed_expert_norm"),
];

fn transposed(dims: &[u64], values: Vec<f32>) -> (Vec<u64>, Vec<f32>) {
    let [around @ .., rows, cols] = dims else { panic!("no matrix") };
    let (n, cols) = ((rows * cols) as usize, *cols as usize);
    let one = |x: &[f32]| (0..cols).flat_map(|c| x.iter().skip(c).step_by(cols).copied()).collect::<Vec<_>>();
    ([around, &[dims[dims.len() - 1], *rows]].concat(), values.chunks(n).flat_map(one).collect())
}

/// Shares of the token ahead in one tensor each.
fn apart(tensors: &mut Vec<Tensor>, parts: &[&str]) {
    for (name, dims, values) in take(tensors, "time_mix_lerp_fused.weight") {
        let width = *dims.last().unwrap();
        for (part, values) in parts.iter().zip(values.chunks(width as usize)) {
            let name = name.replace("fused", part);
            tensors.push((name, vec![1, 1, width], values.to_vec()));
        }
    }
}

fn rwkv_6(tensors: &mut Vec<Tensor>) {
    apart(tensors, &["w", "k", "v", "r", "g"]);
    for part in ["time_mix_w1.weight", "time_mix_w2.weight", "decay_w1.weight", "decay_w2.weight"] {
        change(tensors, part, transposed);
    }
}

/// The first layer takes no share of its own values; another has its shares in one tensor, as older folders.
fn rwkv_7(tensors: &mut Vec<Tensor>) {
    tensors.retain(|t| !["v0", "v1", "v2"].iter().any(|part| t.0 == format!("blk.0.time_mix_{part}.weight")));
    let whole: Vec<Tensor> = tensors.extract_if(.., |t| t.0 == "blk.1.time_mix_lerp_fused.weight").collect();
    apart(tensors, &["r", "w", "k", "v", "a", "g"]);
    tensors.extend(whole.into_iter().map(|(name, dims, values)| (name, vec![dims[0], dims[3]], values)));
    change(tensors, "time_mix_r_k.weight", |_, values| (vec![values.len() as u64 / 64, 64], values));
}

fn kimi_k3(tensors: &mut Vec<Tensor>) {
    undo_latent(tensors);
    undo_recurrence(tensors);
    change(tensors, ".ssm_a", |dims, values| (vec![1, 1, dims[0], 1], values));
    let scores: Vec<Tensor> = tensors.extract_if(.., |t| t.0.ends_with("res_score.weight")).collect();
    for (name, dims, values) in scores {
        tensors.push((name.replace("score", "norm"), dims.clone(), vec![2.0; values.len()]));
        let proj = values.iter().map(|x| x / 2.0).collect();
        tensors.push((name.replace("score", "proj"), [1].into_iter().chain(dims).collect(), proj));
    }
}

/// Name of the data, configuration, prefix of layers, names and the way back from a GGUF file.
type Row = (&'static str, Value, &'static str, &'static [(&'static str, &'static str)], Undo);
type Undo = fn(&mut Vec<Tensor>);

fn rows() -> Vec<Row> {
    let sixth = json!({"architectures": ["Rwkv6ForCausalLM"], "attention_hidden_size": 64, "bos_token_id": 0,
        "eos_token_id": 0, "head_size": 32, "hidden_size": 64, "intermediate_size": 96, "layer_norm_epsilon": 1e-5,
        "model_type": "rwkv6", "num_hidden_layers": 1, "rescale_every": 6, "tie_word_embeddings": false,
        "use_cache": true, "vocab_size": 96});
    let seventh = json!({"a_low_rank_dim": 24, "architectures": ["RWKV7ForCausalLM"], "attn": null,
        "attn_mode": "chunk", "bos_token_id": 0, "decay_low_rank_dim": 16, "eos_token_id": 0,
        "fuse_cross_entropy": true, "fuse_norm": true, "gate_low_rank_dim": 12, "head_dim": 64,
        "hidden_act": "sqrelu", "hidden_ratio": 4.0, "hidden_size": 128,
        "initializer_range": 0.006, "intermediate_size": 96, "max_position_embeddings": 2048,
        "model_type": "rwkv7", "norm_bias": true, "norm_eps": 1e-5, "norm_first": true, "num_heads": 2,
        "num_hidden_layers": 3, "tie_word_embeddings": false, "use_cache": true, "v_low_rank_dim": 8,
        "value_dim": [128, 128, 128], "vocab_size": 96});
    let k3 = json!({"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "text_config": {
        "architectures": ["KimiLinearForCausalLM"], "activation_situ_beta": 1.5, "activation_situ_linear_beta": 2.0,
        "attn_res_block_size": 2, "first_k_dense_replace": 1, "hidden_act": "situ", "hidden_size": 64,
        "intermediate_size": 96, "kv_lora_rank": 32, "linear_attn_config": {"full_attn_layers": [2, 5],
        "gate_lower_bound": -5.0, "head_dim": 32, "kda_layers": [1, 3, 4], "num_heads": 4, "short_conv_kernel_size": 4},
        "mla_use_nope": true, "model_max_length": 512, "model_type": "kimi_linear", "moe_intermediate_size": 48,
        "moe_renormalize": true, "moe_router_activation_func": "sigmoid", "num_attention_heads": 4, "num_experts": 8,
        "num_experts_per_token": 3, "num_hidden_layers": 5, "num_key_value_heads": 4, "num_shared_experts": 1,
        "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-6,
        "routed_expert_hidden_size": 40, "routed_scaling_factor": 1.7, "tie_word_embeddings": false, "v_head_dim": 20,
        "vocab_size": 96}});
    vec![
        ("rwkv6-apart", sixth, "rwkv.blocks.", SIXTH, rwkv_6 as Undo),
        ("rwkv7", seventh, "model.layers.", SEVENTH, rwkv_7 as Undo),
        ("kimi-k3", k3, "language_model.model.layers.", K3, kimi_k3 as Undo),
    ]
}

#[test]
fn folders_give_the_results_of_another_implementation() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, config, prefix, names, undo) in rows() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/architectures/{name}.json"));
        let mut data: Value = serde_json::from_slice(&std::fs::read(data).unwrap()).unwrap();
        if name == "kimi-k3" {
            // Folders normalize the lengths of queries and keys by this epsilon, GGUF files by that of norms.
            data["keys"]["kimi-k3.attention.layer_norm_rms_epsilon"] = json!(1e-6);
        }
        let mut file = file_of(&data);
        let mut expected = expected(&data);
        if name == "kimi-k3" {
            // Rates whose logarithm is exact, so that file and folder are the same network: the file is the oracle.
            for tensor in file.tensors.iter_mut().filter(|tensor| tensor.name.ends_with(".ssm_a")) {
                tensor.data = (-1f32).to_le_bytes().repeat(tensor.data.len() / 4);
            }
            let gguf = temporary.path().join("kimi-k3.gguf");
            std::fs::write(&gguf, file.build().0).unwrap();
            let model = models::load(&gguf);
            expected = results(&model, &data, quant::F32, 64);
        }
        let mut tensors = tensors_of(&file);
        undo(&mut tensors);
        let case = Case { name, tensors, config, prefix, names, expected: vec![] };
        let folder = temporary.path().join(name);
        put_folder(&folder, &case.config, &renamed(&case));
        let model = models::load(&folder);
        let error = relative_rms(&results(&model, &data, quant::F32, 64), &expected);
        println!("{name:20} {error:.1e}");
        assert!(error < 1e-5, "{name}: {error:.1e}");
    }
}
