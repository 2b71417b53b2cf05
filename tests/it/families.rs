//! Folders of the families whose tensor names or layouts differ from those of `tests/it/folders.rs`: the same tiny
//! networks, written as published, must give the logits of the float64 reference. Names and layouts come from the
//! modeling files of `transformers` and from published checkpoints.

mod adapters;

use std::fs;
use std::path::Path;

use realizar::engine::Model;
use realizar::format::{Access, Source};
use realizar::quant;
use serde_json::{Value, json};

use crate::support::matrix::{halves, transposed};
use crate::support::models;
use crate::support::reference::{Moe, Net, Norm, Weights, relative_rms};
use crate::support::safetensors;
use crate::support::tiny::{self, PROMPT, Tiny};

/// A family: the network's name among the tiny ones, `model_type`, what its configuration has beside the common keys,
/// and the names of tensors that are not Llama's, by ours.
struct Family {
    name: &'static str,
    model_type: &'static str,
    /// GGUF files have neighbors in the order of pairs, and checkpoints halves.
    permuted: bool,
    config: Value,
    names: &'static [(&'static str, &'static str)],
    /// The one tensor of queries, keys and values, by key-value heads or all queries first.
    qkv: Option<(&'static str, bool)>,
}

const LLAMA: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_gate_inp", "mlp.gate"),
    ("exp_probs_b", "mlp.gate.e_score_correction_bias"),
    ("ffn_gate_exps", "mlp.experts.*.gate_proj"),
    ("ffn_up_exps", "mlp.experts.*.up_proj"),
    ("ffn_down_exps", "mlp.experts.*.down_proj"),
    ("ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_experts.up_proj"),
    ("ffn_down_shexp", "mlp.shared_experts.down_proj"),
];

const NEOX: &[(&str, &str)] = &[
    ("token_embd", "gpt_neox.embed_in"),
    ("output_norm", "gpt_neox.final_layer_norm"),
    ("attn_output", "attention.dense"),
    ("ffn_up", "mlp.dense_h_to_4h"),
    ("ffn_down", "mlp.dense_4h_to_h"),
];

const BLOOM: &[(&str, &str)] = &[
    ("token_embd", "transformer.word_embeddings"),
    ("token_embd_norm", "transformer.word_embeddings_layernorm"),
    ("output_norm", "transformer.ln_f"),
    ("attn_output", "self_attention.dense"),
    ("ffn_up", "mlp.dense_h_to_4h"),
    ("ffn_down", "mlp.dense_4h_to_h"),
];

const INTERNLM: &[(&str, &str)] = &[
    ("token_embd", "model.tok_embeddings"),
    ("attn_norm", "attention_norm"),
    ("ffn_norm", "ffn_norm"),
    ("attn_output", "attention.wo"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_up", "feed_forward.w3"),
    ("ffn_down", "feed_forward.w2"),
];

const MPT: &[(&str, &str)] = &[
    ("token_embd", "transformer.wte"),
    ("output_norm", "transformer.norm_f"),
    ("attn_norm", "norm_1"),
    ("ffn_norm", "norm_2"),
    ("attn_output", "attn.out_proj"),
    ("ffn_up", "ffn.up_proj"),
    ("ffn_down", "ffn.down_proj"),
];

const PHI: &[(&str, &str)] = &[
    ("output_norm", "model.final_layernorm"),
    ("attn_output", "self_attn.dense"),
    ("ffn_up", "mlp.fc1"),
    ("ffn_down", "mlp.fc2"),
];

const GLM: &[(&str, &str)] =
    &[("post_attention_norm", "post_self_attn_layernorm"), ("post_ffw_norm", "post_mlp_layernorm")];

const AFTER: &[(&str, &str)] =
    &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")];

const HUNYUAN: &[(&str, &str)] =
    &[("attn_q_norm", "self_attn.query_layernorm"), ("attn_k_norm", "self_attn.key_layernorm")];

const GPT_OSS: &[(&str, &str)] = &[
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_gate_inp", "mlp.router"),
    ("attn_sinks", "self_attn.sinks"),
    ("ffn_gate_exps", "mlp.experts.gate_up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
];

const LLAMA4: &[(&str, &str)] = &[
    ("ffn_gate", "feed_forward.gate_proj"),
    ("ffn_up", "feed_forward.up_proj"),
    ("ffn_down", "feed_forward.down_proj"),
    ("ffn_gate_inp", "feed_forward.router"),
    ("ffn_gate_exps", "feed_forward.experts.gate_up_proj"),
    ("ffn_down_exps", "feed_forward.experts.down_proj"),
    ("ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"),
    ("ffn_up_shexp", "feed_forward.shared_expert.up_proj"),
    ("ffn_down_shexp", "feed_forward.shared_expert.down_proj"),
];

const QWEN2_MOE: &[(&str, &str)] = &[
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
];

const LFM2: &[(&str, &str)] = &[
    ("token_embd_norm", "model.embedding_norm"),
    ("attn_norm", "operator_norm"),
    ("ffn_norm", "ffn_norm"),
    ("attn_q_norm", "self_attn.q_layernorm"),
    ("attn_k_norm", "self_attn.k_layernorm"),
    ("attn_output", "self_attn.out_proj"),
    ("shortconv.in_proj", "conv.in_proj"),
    ("shortconv.conv", "conv.conv"),
    ("shortconv.out_proj", "conv.out_proj"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_up", "feed_forward.w3"),
    ("ffn_down", "feed_forward.w2"),
    ("ffn_gate_inp", "feed_forward.gate"),
    ("exp_probs_b", "feed_forward.expert_bias"),
    ("ffn_gate_exps", "feed_forward.experts.*.w1"),
    ("ffn_up_exps", "feed_forward.experts.*.w3"),
    ("ffn_down_exps", "feed_forward.experts.*.w2"),
];

fn families() -> Vec<Family> {
    let plain =
        |name, model_type, permuted, config| Family { name, model_type, permuted, config, names: &[], qkv: None };
    let named = |name, model_type, names, config| Family { names, ..plain(name, model_type, false, config) };
    vec![
        plain("smollm3", "smollm3", true, json!({"no_rope_layers": [1, 1, 1, 0, 1], "no_rope_layer_interval": 4})),
        Family {
            qkv: Some(("attention.wqkv", true)),
            permuted: true,
            ..named("internlm2", "internlm2", INTERNLM, json!({"rope_scaling": {"type": "dynamic", "factor": 2.0}}))
        },
        named("seed_oss", "seed_oss", &AFTER[..1], json!({"residual_dropout": 0.1})),
        plain("orion", "orion", false, json!({})),
        named("phi2", "phi", PHI, json!({"hidden_act": "gelu_new", "partial_rotary_factor": 0.375})),
        Family {
            qkv: Some(("attention.query_key_value", true)),
            ..named("gptneox", "gpt_neox", NEOX, json!({"hidden_act": "gelu_new", "rotary_pct": 1.0}))
        },
        Family {
            qkv: Some(("self_attention.query_key_value", true)),
            ..named(
                "falcon",
                "falcon",
                BLOOM,
                json!({"activation": "gelu_new", "hidden_act": null, "new_decoder_architecture": true,
                    "num_kv_heads": 2, "multi_query": true, "alibi": false, "parallel_attn": true}),
            )
        },
        plain("cohere2", "cohere2", false, json!({"sliding_window": 8, "logit_scale": 0.25})),
        named("hunyuan-dense", "hunyuan_v1_dense", HUNYUAN, json!({"use_qk_norm": true, "use_cla": false})),
        plain("arcee", "arcee", true, json!({"hidden_act": "relu2"})),
        plain("nemotron", "nemotron", false, json!({"hidden_act": "relu2", "partial_rotary_factor": 1.0})),
        Family {
            qkv: Some(("self_attention.query_key_value", true)),
            ..named("bloom", "bloom", BLOOM, json!({"hidden_act": null}))
        },
        Family {
            qkv: Some(("attn.Wqkv", false)),
            ..named(
                "mpt",
                "mpt",
                MPT,
                json!({"hidden_act": null, "attn_config": {"alibi": true, "alibi_bias_max": 4, "clip_qkv": 0.75,
                    "kv_n_heads": 2, "prefix_lm": false}}),
            )
        },
        plain("olmo", "olmo", true, json!({"clip_qkv": 0.75})),
        named(
            "exaone4",
            "exaone4",
            AFTER,
            json!({"sliding_window": null, "layer_types": ["full_attention", "full_attention"]}),
        ),
        named("glm4", "glm4", GLM, json!({"partial_rotary_factor": 1.0})),
        plain("stablelm", "stablelm", false, json!({"partial_rotary_factor": 1.0, "qk_layernorm": false})),
        named(
            "ernie4_5-moe",
            "ernie4_5_moe",
            &[("exp_probs_b", "mlp.moe_statics.e_score_correction_bias")],
            json!({"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 1}),
        ),
        named("qwen2moe", "qwen2_moe", QWEN2_MOE, json!({"num_experts": 4, "num_experts_per_tok": 2})),
        named(
            "glm4moe",
            "glm4_moe",
            &AFTER[..1],
            json!({"n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "n_shared_experts": 1,
                "routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "partial_rotary_factor": 1.0}),
        ),
        plain("olmoe", "olmoe", false, json!({"num_experts": 4, "num_experts_per_tok": 2})),
        named(
            "gpt-oss",
            "gpt_oss",
            GPT_OSS,
            json!({"num_local_experts": 4, "experts_per_token": 2, "sliding_window": 8, "swiglu_limit": 7.0,
                "layer_types": ["sliding_attention", "full_attention"]}),
        ),
        named(
            "llama4",
            "llama4_text",
            LLAMA4,
            json!({"num_local_experts": 4, "num_experts_per_tok": 1, "attn_temperature_tuning": 4, "use_qk_norm": true}),
        ),
        named(
            "lfm2",
            "lfm2",
            LFM2,
            json!({"conv_L_cache": 3, "full_attn_idxs": [1], "intermediate_size": 720, "block_multiple_of": 64,
                "block_ffn_dim_multiplier": 1.0}),
        ),
        named(
            "lfm2moe",
            "lfm2_moe",
            LFM2,
            json!({"layer_types": ["conv", "full_attention", "conv"], "num_experts": 4, "num_experts_per_tok": 2,
                "num_dense_layers": 1, "use_expert_bias": true, "norm_topk_prob": true, "routed_scaling_factor": 1.0}),
        ),
    ]
}

fn config(family: &Family, tiny: &Tiny, net: &Net) -> Value {
    let mut config = json!({"model_type": family.model_type, "hidden_size": net.hidden, "num_hidden_layers": net.layers,
        "num_attention_heads": net.heads, "intermediate_size": net.ffn, "vocab_size": net.vocab, "hidden_act": "silu",
        "max_position_embeddings": 128, "tie_word_embeddings": tiny.tied});
    let eps = if net.norm == Norm::Rms { "rms_norm_eps" } else { "layer_norm_eps" };
    config[eps] = json!(1e-5);
    let alibi = net.alibi != 0.0;
    let multi_query = family.config.get("multi_query").is_some();
    if !alibi && !multi_query {
        config["num_key_value_heads"] = json!(net.kv_heads);
    }
    if !alibi && !["gpt_neox", "falcon"].contains(&family.model_type) {
        config["head_dim"] = json!(net.head_dim);
        config["rope_theta"] = json!(tiny.rope_base);
    }
    if let Some(moe) = net.moe {
        match family.model_type {
            "gpt_oss" | "olmoe" => config["intermediate_size"] = json!(moe.ffn),
            "llama4_text" => {
                (config["intermediate_size"], config["intermediate_size_mlp"]) = (json!(moe.ffn), json!(net.ffn));
            }
            _ => config["moe_intermediate_size"] = json!(moe.ffn),
        }
    }
    config.as_object_mut().unwrap().extend(family.config.as_object().unwrap().clone());
    config
}

type Tensor = (String, Vec<u64>, Vec<f64>);

/// The rows of queries, keys and values head by head of the last two.
fn by_group(parts: [&[f64]; 3], net: &Net, cols: usize) -> Vec<f64> {
    let groups = net.kv_heads;
    let of = |values: &[f64], group: usize| {
        let n = values.len() / groups;
        values[group * n..(group + 1) * n].to_vec()
    };
    assert!(parts.iter().all(|p| p.len().is_multiple_of(groups * cols)));
    (0..groups).flat_map(|g| parts.iter().flat_map(move |p| of(p, g)).collect::<Vec<f64>>()).collect()
}

/// The tensors of a checkpoint, from those of the reference, whose names are GGUF's.
fn tensors(family: &Family, net: &Net, w: &Weights) -> Vec<Tensor> {
    let prefix = match family.model_type {
        "gpt_neox" => "gpt_neox.layers.",
        "bloom" | "falcon" => "transformer.h.",
        "mpt" => "transformer.blocks.",
        _ => "model.layers.",
    };
    let (d, hd) = (net.hidden, net.head_dim);
    let mut out: Vec<Tensor> = vec![];
    let mut names: Vec<&String> = w.keys().collect();
    names.sort();
    for name in names {
        let values = &w[name];
        let (module, leaf) = name.rsplit_once('.').unwrap();
        let (layer, part) = match module.strip_prefix("blk.") {
            Some(rest) => rest.split_once('.').map(|(layer, part)| (Some(layer), part)).unwrap(),
            None => (None, module),
        };
        let theirs = family.names.iter().chain(LLAMA).find(|row| row.0 == part).map(|row| row.1);
        let full = |theirs: &str| layer.map_or(theirs.to_owned(), |layer| format!("{prefix}{layer}.{theirs}"));
        let beside = |part: &str| w.get(&format!("blk.{}.{part}.{leaf}", layer.unwrap()));
        let mut put = |name: String, dims: &[usize], values: Vec<f64>| {
            assert_eq!(dims.iter().product::<usize>(), values.len(), "{name}");
            out.push((name, dims.iter().map(|n| *n as u64).collect(), values));
        };
        let is_vector = leaf == "bias" || part.contains("norm") || part == "attn_sinks";
        let cols = match part {
            _ if is_vector => 1,
            "attn_output" => net.heads * hd,
            "ffn_down" => net.ffn,
            "ffn_down_shexp" => net.moe.unwrap().ffn,
            "ffn_down_exps" => net.moe.unwrap().ffn,
            _ => d,
        };
        let rows = values.len() / cols;
        let dims = if is_vector { vec![rows] } else { vec![rows, cols] };
        match (part, family.qkv) {
            ("attn_k" | "attn_v", Some(_)) => {}
            ("attn_q", Some((theirs, grouped))) => {
                let turn = |v: &[f64]| if family.permuted { halves(v, hd, cols) } else { v.to_vec() };
                let (q, k, v) = (turn(values), turn(beside("attn_k").unwrap()), beside("attn_v").unwrap());
                let all = if grouped { by_group([&q, &k, v], net, cols) } else { [&q[..], &k, v].concat() };
                let dims = if is_vector { vec![all.len()] } else { vec![all.len() / cols, cols] };
                put(full(&format!("{theirs}.{leaf}")), &dims, all);
            }
            ("attn_q" | "attn_k", None) if family.permuted => {
                put(full(&format!("{}.{leaf}", theirs.unwrap())), &dims, halves(values, hd, cols));
            }
            ("exp_probs_b" | "attn_sinks", _) => put(full(theirs.unwrap()), &dims, values.clone()),
            ("shortconv.conv", _) => {
                put(full("conv.conv.weight"), &[d, 1, values.len() / d], values.clone());
            }
            ("ffn_up_exps", _) if ["gpt_oss", "llama4_text"].contains(&family.model_type) => {}
            ("ffn_gate" | "ffn_up", _) if family.name == "glm4" => {
                if part == "ffn_gate" {
                    let both = [&values[..], beside("ffn_up").unwrap()].concat();
                    put(full("mlp.gate_up_proj.weight"), &[2 * net.ffn, d], both);
                }
            }
            ("ffn_gate_exps" | "ffn_down_exps", _) if ["gpt_oss", "llama4_text"].contains(&family.model_type) => {
                let (moe, alternating) = (net.moe.unwrap(), family.model_type == "gpt_oss");
                // Each expert's rows of gates and of ups, in turn or after one another.
                let (values, rows) = if part == "ffn_gate_exps" {
                    let (up, n) = (beside("ffn_up_exps").unwrap(), moe.ffn * cols);
                    let run = if alternating { cols } else { n };
                    let both = values.chunks(n).zip(up.chunks(n)).flat_map(|(gate, up)| {
                        gate.chunks(run).zip(up.chunks(run)).flat_map(|(g, u)| [g, u].concat()).collect::<Vec<f64>>()
                    });
                    (both.collect::<Vec<f64>>(), 2 * moe.ffn)
                } else {
                    (values.clone(), d)
                };
                if leaf == "bias" {
                    put(full(&format!("{}_bias", theirs.unwrap())), &[moe.n, rows], values);
                } else {
                    let values = values.chunks(rows * cols).flat_map(|one| transposed(one, cols)).collect();
                    put(full(theirs.unwrap()), &[moe.n, cols, rows], values);
                }
            }
            ("ffn_gate_exps" | "ffn_up_exps" | "ffn_down_exps", _) => {
                let n = net.moe.unwrap().n;
                for (e, one) in values.chunks(values.len() / n).enumerate() {
                    let theirs = theirs.unwrap().replace('*', &e.to_string());
                    put(full(&format!("{theirs}.weight")), &[rows / n, cols], one.to_vec());
                }
            }
            _ => {
                let theirs = theirs.unwrap_or_else(|| panic!("{name}"));
                let less = f64::from(u8::from(family.name == "nemotron" && part.contains("norm") && leaf == "weight"));
                put(full(&format!("{theirs}.{leaf}")), &dims, values.iter().map(|v| v - less).collect());
            }
        }
    }
    out
}

fn put_folder(folder: &Path, config: &Value, tensors: &[Tensor]) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let bytes = |values: &[f64]| values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect::<Vec<u8>>();
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dims, values)| (name.as_str(), "F32", &dims[..], bytes(values))).collect();
    fs::write(folder.join("model.safetensors"), safetensors::file(&tensors)).unwrap();
}

fn tiny_of(name: &str) -> Tiny {
    if name == "lfm2moe" {
        // The mixture of LFM 2, by the shape of another.
        let moe = tiny_of("glm4moe").net.moe.unwrap();
        return tiny_of("lfm2").change(|t| {
            t.architecture = "lfm2moe";
            t.net.moe = Some(Moe { n: 4, used: 2, groups: 1, groups_used: 1, scale: 1.0, shared: false, ..moe });
        });
    }
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(128, 4, 2, 32, 512));
    all.into_iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("{name}")).1
}

#[test]
fn every_family_is_the_reference_from_a_folder() {
    for family in families() {
        let mut tiny = tiny_of(family.name);
        if ["gptneox", "bloom"].contains(&family.name) {
            // One key for each query head.
            tiny.net.kv_heads = tiny.net.heads;
        }
        let (_, net, weights) = tiny.build();
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        put_folder(&folder, &config(&family, &tiny, &net), &tensors(&family, &net, &weights));
        let difference = relative_rms(&net.forward(&weights, &PROMPT), &models::logits(&folder));
        println!("{:20} {difference:.1e}", family.name);
        // MPT's GELU is exact, the reference's is not.
        let limit = if family.name == "mpt" { 1e-2 } else { 1e-5 };
        assert!(difference < limit, "{}: {difference}", family.name);
    }
}

/// The blocks of a matrix of experts in a GGUF file as a checkpoint has them: sixteen bytes of neighbors each, and
/// scales.
fn unpacked(blocks: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut quants = vec![];
    for block in blocks.chunks(17) {
        let value = |i: usize| if i < 16 { block[1 + i] & 15 } else { block[1 + i - 16] >> 4 };
        quants.extend((0..16).map(|i| value(2 * i) | value(2 * i + 1) << 4));
    }
    (quants, blocks.chunks(17).map(|block| block[0]).collect())
}

#[test]
fn packed_experts_are_those_of_a_file() {
    let family = families().into_iter().find(|family| family.name == "gpt-oss").unwrap();
    let tiny = tiny_of("gpt-oss").change(|t| t.types = vec![("_exps.weight", quant::MXFP4)]);
    let (bytes, net, weights) = tiny.build();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tiny.gguf");
    fs::write(&file, bytes).unwrap();
    let source = Source::open(&file, Access::Read).unwrap();
    let mut parts: Vec<(String, String, Vec<u64>, Vec<u8>)> = vec![];
    for (name, dims, values) in tensors(&family, &net, &weights) {
        if !name.ends_with("experts.gate_up_proj") && !name.ends_with("experts.down_proj") {
            parts.push((name, "F32".into(), dims, values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()));
        }
    }
    let moe = net.moe.unwrap();
    for layer in 0..net.layers {
        let read = |part: &str| {
            let tensor = source.tensor(&format!("blk.{layer}.ffn_{part}_exps.weight")).unwrap();
            let mut bytes = vec![0; tensor.bytes as usize];
            source.read(tensor, 0, &mut bytes).unwrap();
            bytes
        };
        let (gate, up) = (read("gate"), read("up"));
        let row = net.hidden / 32 * 17;
        let both: Vec<u8> = gate.chunks(row).zip(up.chunks(row)).flat_map(|(g, u)| [g, u].concat()).collect();
        for (part, bytes, rows, cols) in
            [("gate_up_proj", both, 2 * moe.ffn, net.hidden), ("down_proj", read("down"), net.hidden, moe.ffn)]
        {
            let (quants, scales) = unpacked(&bytes);
            let name = format!("model.layers.{layer}.mlp.experts.{part}");
            let dims = [moe.n as u64, rows as u64, cols as u64 / 32];
            parts.push((format!("{name}_blocks"), "U8".into(), [&dims[..], &[16]].concat(), quants));
            parts.push((format!("{name}_scales"), "U8".into(), dims.to_vec(), scales));
        }
    }
    let mut config = config(&family, &tiny, &net);
    config["quantization_config"] = json!({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]});
    let put = |folder: &Path, parts: &[(String, String, Vec<u64>, Vec<u8>)]| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let all: Vec<safetensors::Tensor> =
            parts.iter().map(|(n, t, dims, bytes)| (n.as_str(), t.as_str(), &dims[..], bytes.clone())).collect();
        fs::write(folder.join("model.safetensors"), safetensors::file(&all)).unwrap();
    };
    let folder = dir.path().join("folder");
    put(&folder, &parts);
    assert!(models::logits(&folder) == models::logits(&file), "not the same bits as from a GGUF file");
    // Scales of another shape, and none.
    let last = parts.len() - 1;
    parts[last].2.swap(0, 1);
    put(&dir.path().join("bent"), &parts);
    parts.pop();
    put(&dir.path().join("bare"), &parts);
    for broken in ["bent", "bare"] {
        let error = Source::open(&dir.path().join(broken), Access::Read).unwrap_err().to_string();
        assert!(error.contains("down_proj"), "{error}");
    }
}

#[test]
fn rows_that_are_no_whole_number_of_groups_are_refused() {
    let family = families().into_iter().find(|family| family.name == "internlm2").unwrap();
    let tiny = tiny_of("internlm2");
    let (_, net, weights) = tiny.build();
    let dir = tempfile::tempdir().unwrap();
    for (i, heads) in [3u64, 0, 1 << 40].into_iter().enumerate() {
        let mut config = config(&family, &tiny, &net);
        config["num_key_value_heads"] = json!(heads);
        let folder = dir.path().join(i.to_string());
        put_folder(&folder, &config, &tensors(&family, &net, &weights));
        assert!(Model::load(&folder, models::cpu()).is_err());
    }
}
