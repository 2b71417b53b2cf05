//! Folders of networks with recurrences, with latent attention, and of Gemma 4, whose checkpoints have other numbers
//! than GGUF files, or another order. The tensors of a GGUF file are written as published, the inverse of the
//! converters. The folder must give the logits of the float64 reference or, if that lacks the network, of the file.

pub mod checkpoints;
pub mod networks;

use std::path::Path;
use std::sync::Arc;

use checkpoints::{Case, Tensor, put, put_folder, renamed};
use networks::*;
#[cfg(cuda)]
use realizar::cuda;
use realizar::engine::{LoadOptions, Model};
use realizar::format::{Access, Source};
use realizar::quant;
use serde_json::{Value, json};

use crate::support::models;
use crate::support::predictor::predict;
#[cfg(cuda)]
use crate::support::process;
use crate::support::reference::relative_rms;
use crate::support::safetensors;
use crate::support::save::logits_of_each;
#[cfg(cuda)]
use crate::support::shim;
use crate::support::tiny::PROMPT;

fn load(path: &Path) -> Result<Arc<Model>, String> {
    Model::load(path, models::cpu()).map_err(|e| e.to_string())
}

fn logits_of(model: &Arc<Model>) -> Vec<Vec<f32>> {
    logits_of_each(model, 0, None)
}

#[test]
fn every_network_is_the_same_from_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    for case in cases() {
        let folder = dir.path().join(case.name);
        put_folder(&folder, &case.config, &renamed(&case));
        let difference = relative_rms(&case.expected, &models::logits(&folder));
        println!("{:20} {difference:.1e}", case.name);
        assert!(difference < 1e-5, "{}: {difference}", case.name);
    }
}

/// Whole on a GPU, which here is the shim: token by token, and the last logits of the prompt in one piece.
#[cfg(cuda)]
#[test]
fn every_network_is_the_same_on_a_gpu() {
    let Some(shim) = shim::Shim::new() else { return };
    if !process::in_own_process("hybrid_folders::every_network_is_the_same_on_a_gpu") {
        return;
    }
    let launches = || shim.number("shim_launches");
    assert!(cuda::provide(shim.driver.clone(), shim::IMAGE));
    let dir = tempfile::tempdir().unwrap();
    for case in cases() {
        let folder = dir.path().join(case.name);
        put_folder(&folder, &case.config, &renamed(&case));
        let model = Model::load(&folder, LoadOptions { device: 2, ..Default::default() }).unwrap();
        assert_eq!(model.info().gpu_layers, model.info().n_layers, "{}", case.name);
        let before = launches();
        let single = relative_rms(&case.expected, &logits_of(&model));
        assert!(launches() > before);
        let mut session = models::session(&model);
        session.prefill(&PROMPT, None).unwrap();
        let last = [session.logits().unwrap().to_vec()];
        let whole = relative_rms(&case.expected[PROMPT.len() - 1..], &last);
        println!("{:20} {single:.1e}, the prompt {whole:.1e}", case.name);
        assert!(single < 4e-3 && whole < 6e-3, "{}: {single}, {whole}", case.name);
    }
}

#[test]
fn the_layer_that_predicts_a_further_token_is_that_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["deepseek_v3", "glm4_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"] {
        let tiny = match name {
            "deepseek_v3" => tiny_of("deepseek2"),
            "glm4_moe" => tiny_of("glm4moe"),
            _ => qwen_tiny(name),
        };
        let tiny = tiny.predicting();
        let case = match name {
            "deepseek_v3" => deepseek_of(name, &tiny),
            "glm4_moe" => glm_of(&tiny),
            _ => qwen_of(name, &tiny),
        };
        let mut tensors = renamed(&case);
        if name.starts_with("qwen") {
            for (tensor, ..) in &mut tensors {
                let Some(rest) = tensor.strip_prefix("model.language_model.layers.2.") else { continue };
                *tensor = match rest.strip_suffix(".weight") {
                    Some("eh_proj") => "mtp.fc.weight".to_owned(),
                    Some("enorm") => "mtp.pre_fc_norm_embedding.weight".to_owned(),
                    Some("hnorm") => "mtp.pre_fc_norm_hidden.weight".to_owned(),
                    Some("shared_head.norm") => "mtp.norm.weight".to_owned(),
                    _ => format!("mtp.layers.0.{rest}"),
                };
            }
        }
        let folder = dir.path().join(name);
        put_folder(&folder, &case.config, &tensors);
        let (_, net, weights) = tiny.build();
        let second = net.predict(&weights, &[&PROMPT[..], &[9]].concat(), 1);
        let expected = [case.expected, net.predict(&weights, &PROMPT, 0), second];
        for (expected, found) in expected.iter().zip(predict(&folder, &PROMPT, 9)) {
            let difference = relative_rms(expected, &found);
            println!("{name:20} {difference:.1e}");
            assert!(expected.len() == found.len() && difference < 1e-5, "{name}: {difference}");
        }
        // Without it the network is the same, whatever else stands there.
        let extra = if name.starts_with("qwen") {
            "mtp.extra.weight".to_owned()
        } else {
            format!("model.layers.{}.extra.weight", net.layers)
        };
        tensors.push((extra, vec![1], vec![0.0]));
        put_folder(&folder, &case.config, &tensors);
        assert!(relative_rms(&expected[0], &models::logits(&folder)) < 1e-5, "{name}");
        let error = Model::load(&folder, LoadOptions { mtp: true, ..Default::default() }).err().unwrap().to_string();
        assert!(error.contains(&format!("blk.{}.extra.weight has no place", net.layers)), "{name}: {error}");
    }
}

/// Returns the refusal of a case with a change of its configuration.
fn refusal(case: &Case, change: &Value) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut config = case.config.clone();
    config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    put_folder(dir.path(), &config, &renamed(case));
    load(dir.path()).err().unwrap_or_else(|| panic!("{}: {change} is not refused", case.name))
}

#[test]
fn other_networks_are_refused_by_key_and_value() {
    let yarn = |m: f64, all: f64| {
        json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": m,
            "mscale_all_dim": all}})
    };
    let own = json!({"head_dim": 64, "num_key_value_heads": 1});
    let all: Vec<(Case, Vec<(Value, &str)>)> = vec![
        (
            qwen("qwen3_next"),
            vec![
                (json!({"linear_value_head_dim": 24}), "linear_value_head_dim"),
                (json!({"attn_output_gate": false}), "\"attn_output_gate\" with the value false"),
                (json!({"layer_types": ["linear_attention", "sliding_attention"]}), "\"sliding_attention\""),
                (json!({"layer_types": ["linear_attention"]}), "layer_types should be one for each layer"),
                (json!({"full_attention_interval": 0}), "full_attention_interval"),
                (json!({"decoder_sparse_step": 2}), "\"decoder_sparse_step\" with the value 2"),
                (json!({"linear_gate": "sigmoid"}), "\"linear_gate\" with the value \"sigmoid\""),
            ],
        ),
        (
            gemma(),
            vec![
                (
                    json!({"use_bidirectional_attention": "all"}),
                    "\"use_bidirectional_attention\" with the value \"all\"",
                ),
                (json!({"layer_types": vec!["sliding_attention"; 6]}), "whose last layer has a window"),
                (json!({"per_layer_config": {"2": {"head_dim": 64, "num_attention_heads": 2}}}), "per_layer_config"),
                (json!({"per_layer_config": {"0": {"head_dim": 64}}}), "per_layer_config"),
                (json!({"per_layer_config": {"9": {"head_dim": 64}}}), "per_layer_config"),
                (json!({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}), "\"yarn\""),
                (json!({"rope_parameters": [1]}), "rope_parameters should be an object"),
                (json!({"attention_k_eq_v": false, "per_layer_config": {"2": own, "5": own}}), "attn_v.weight"),
            ],
        ),
        (
            deepseek("deepseek_v3"),
            vec![
                (json!({"scoring_func": "softmax"}), "\"scoring_func\" with the value \"softmax\""),
                (json!({"topk_method": "greedy"}), "\"topk_method\" with the value \"greedy\""),
                (json!({"head_dim": 24}), "\"head_dim\" with the value 24"),
                (json!({"moe_layer_freq": 2}), "\"moe_layer_freq\" with the value 2"),
                (json!({"v_head_dim": 24}), "no whole number of heads"),
                (json!({"kv_lora_rank": 0}), "kv_lora_rank"),
                (yarn(1.0, 0.5), "\"mscale\" and \"mscale_all_dim\""),
                (yarn(0.0, 0.0), "\"mscale\" and \"mscale_all_dim\""),
            ],
        ),
        (
            deepseek("deepseek_v2"),
            vec![
                (json!({"norm_topk_prob": true}), "\"norm_topk_prob\" with the value true"),
                (
                    json!({"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2}),
                    "\"topk_method\" with the value \"group_limited_greedy\"",
                ),
            ],
        ),
        (minicpm(), vec![(json!({"scale_depth": null}), "scale_depth")]),
        (
            mamba2(),
            vec![
                (json!({"time_step_limit": [0.0, 0.5]}), "time_step_limit"),
                (json!({"head_dim": 32}), "\"head_dim\" other than 96"),
                (json!({"expand": 0}), "expand"),
                (json!({"intermediate_size": 192}), "\"intermediate_size\" with the value 192"),
                (json!({"hidden_act": "gelu"}), "\"hidden_act\" with the value \"gelu\""),
            ],
        ),
        (
            falcon(),
            vec![
                (json!({"mamba_norm_before_gate": true}), "\"mamba_norm_before_gate\" with the value true"),
                (json!({"attention_bias": true}), "\"attention_bias\" with the value true"),
                (json!({"key_multiplier": 0}), "\"key_multiplier\" with the value 0"),
                (json!({"mlp_multipliers": [1.0, -1.0]}), "\"mlp_multipliers\" with the value -1"),
                (json!({"ssm_multipliers": [1.0, 1.0]}), "ssm_multipliers should be 5 numbers"),
                (json!({"mlp_multipliers": [1.0, "x"]}), "mlp_multipliers should be 2 numbers"),
            ],
        ),
        (
            granite(),
            vec![
                (json!({"position_embedding_type": "alibi"}), "\"position_embedding_type\" with the value \"alibi\""),
                (json!({"normalization_function": "layernorm"}), "\"normalization_function\""),
                (json!({"layer_types": ["mamba", "mamba", "mamba"]}), "layer_types"),
            ],
        ),
        (
            nemotron(),
            vec![
                (json!({"hybrid_override_pattern": "M*EX"}), "layer 3"),
                (json!({"hybrid_override_pattern": "M*E"}), "layers_block_type should be one for each"),
                (json!({"mlp_hidden_act": "silu"}), "\"mlp_hidden_act\" with the value \"silu\""),
                (json!({"rms_norm_eps": 1e-6}), "rms_norm_eps"),
                (json!({"attention_head_dim": 32}), "attention_head_dim"),
            ],
        ),
        (
            jamba(),
            vec![
                (json!({"attn_layer_period": 0}), "attn_layer_period"),
                (json!({"attn_layer_offset": 7}), "attention"),
            ],
        ),
    ];
    for (case, changes) in &all {
        for (change, said) in changes {
            let error = refusal(case, change);
            assert!(error.contains(said), "{}: {change}: {error}", case.name);
        }
    }
}

#[test]
fn missing_and_misshapen_tensors_are_refused_by_name() {
    for (case, theirs, missing) in [
        (qwen("qwen3_next"), "layers.0.linear_attn.A_log", "blk.0.ssm_a"),
        (qwen("qwen3_next"), "layers.0.linear_attn.in_proj_qkvz.weight", "blk.0.ssm_in.weight"),
        (qwen("qwen3_5_text"), "layers.0.linear_attn.conv1d.weight", "blk.0.ssm_conv1d.weight"),
        (gemma(), "layers.4.router.scale", "blk.4.ffn_gate_inp.scale"),
        (gemma(), "layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        (deepseek("deepseek_v3"), "layers.1.self_attn.kv_b_proj.weight", "blk.1.attn_k_b.weight"),
        (mamba2(), "layers.1.mixer.norm.weight", "blk.1.ssm_norm.weight"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut tensors = renamed(&case);
        let at = tensors.iter().position(|t| t.0.ends_with(theirs)).unwrap_or_else(|| panic!("{theirs}"));
        // What becomes of it has two names where both parts are there.
        let misshapen = missing.replace("attn_k_b", "attn_kv_b");
        // One row too many, then none.
        let row = tensors[at].2.len() / tensors[at].1[0] as usize;
        tensors[at].1[0] += 1;
        tensors[at].2.extend(vec![0.5; row]);
        put_folder(dir.path(), &case.config, &tensors);
        let error = load(dir.path()).err().unwrap();
        assert!(error.contains(&misshapen), "{theirs}: {error}");
        tensors.remove(at);
        put_folder(dir.path(), &case.config, &tensors);
        let error = load(dir.path()).err().unwrap();
        assert!(error.contains(missing), "{theirs}: {error}");
    }
}

#[test]
fn values_are_computed_from_each_type_of_floats() {
    let case = mamba2();
    let widths = [("F32", quant::F32), ("F16", quant::F16), ("BF16", quant::BF16)];
    for (name, dtype) in widths {
        let format = quant::format(dtype).unwrap();
        let mut stored: Vec<(String, Vec<u64>, Vec<u8>)> = vec![];
        let mut expected = vec![];
        for (tensor, dims, values) in renamed(&case) {
            let mut bytes = vec![0; values.len() * format.block_bytes];
            format.quantize.unwrap()(&values, &mut bytes);
            if tensor.ends_with("layers.1.mixer.A_log") {
                let mut back = vec![0.0; values.len()];
                format.dequantize(&bytes, &mut back);
                expected = back.iter().map(|v| -f64::from(*v).exp()).collect();
            }
            stored.push((tensor, dims, bytes));
        }
        let dir = tempfile::tempdir().unwrap();
        let tensors: Vec<safetensors::Tensor> =
            stored.iter().map(|(tensor, dims, bytes)| (tensor.as_str(), name, &dims[..], bytes.clone())).collect();
        put(dir.path(), &case.config, &tensors);
        let source = Source::open(dir.path(), Access::Read).unwrap();
        let tensor = source.tensor("blk.1.ssm_a").unwrap();
        assert_eq!((tensor.dtype, tensor.bytes), (quant::F32, 16), "{name}");
        for (from, len) in [(0, 16), (4, 8), (12, 4)] {
            let mut bytes = vec![0; len];
            source.read(tensor, from as u64, &mut bytes).unwrap();
            let values: Vec<f64> =
                bytes.chunks(4).map(|v| f64::from(f32::from_le_bytes(v.try_into().unwrap()))).collect();
            for (value, expected) in values.iter().zip(&expected[from / 4..]) {
                assert!((value / expected - 1.0).abs() < 1e-7, "{name}: {value}, {expected}");
            }
        }
        assert!(source.read(tensor, 2, &mut [0; 4]).is_err() && source.read(tensor, 0, &mut [0; 3]).is_err());
        assert!(load(dir.path()).is_ok(), "{name}");
    }
    // Anything else has no such values.
    let dir = tempfile::tempdir().unwrap();
    let tensors = renamed(&case);
    let bytes = |t: &Tensor| match t.0.ends_with("A_log") {
        true => (t.0.clone(), "I32", t.1.clone(), vec![0u8; t.2.len() * 4]),
        false => (t.0.clone(), "F32", t.1.clone(), t.2.iter().flat_map(|v| v.to_le_bytes()).collect()),
    };
    let stored: Vec<_> = tensors.iter().map(bytes).collect();
    put(
        dir.path(),
        &case.config,
        &stored.iter().map(|t| (t.0.as_str(), t.1, &t.2[..], t.3.clone())).collect::<Vec<_>>(),
    );
    assert!(load(dir.path()).err().unwrap().contains("A_log"));
}

/// The nearest value of E4M3 and its bits.
fn e4m3(x: f32) -> (u8, f32) {
    let value = |bits: u8| match (bits >> 3, bits & 7) {
        (0, mantissa) => f32::from(mantissa) / 512.0,
        (exponent, mantissa) => (8.0 + f32::from(mantissa)) * 2f32.powi(i32::from(exponent) - 10),
    };
    let bits = (0..127).min_by(|a, b| (value(*a) - x.abs()).abs().total_cmp(&(value(*b) - x.abs()).abs())).unwrap();
    if x < 0.0 { (bits | 0x80, -value(bits)) } else { (bits, value(bits)) }
}

#[test]
fn latent_products_of_eight_bits_are_the_sixteen_bit_ones_that_they_stand_for() {
    let case = deepseek("deepseek_v3");
    let dir = tempfile::tempdir().unwrap();
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (mut wide, mut narrow) = (vec![], vec![]);
    for (name, dims, values) in renamed(&case) {
        if !name.ends_with("kv_b_proj.weight") {
            wide.push((name.clone(), "F32", dims.clone(), floats(&values)));
            narrow.push((name, "F32", dims, floats(&values)));
            continue;
        }
        // Powers of two, another for each square of 128.
        let (rows, cols) = (dims[0] as usize, dims[1] as usize);
        assert!(rows > 128, "one row of squares");
        let grid = [rows.div_ceil(128), cols.div_ceil(128)];
        let scale = |row: usize, col: usize| 2f32.powi(-(6 + (row / 128 + 2 * (col / 128)) as i32));
        let rounded: Vec<(u8, f32)> =
            values.iter().enumerate().map(|(i, v)| e4m3(v / scale(i / cols, i % cols))).collect();
        let half = |(i, v): (usize, &(u8, f32))| (v.1 * scale(i / cols, i % cols)).to_le_bytes()[2..].to_vec();
        let scales: Vec<f32> = (0..grid[0]).flat_map(|r| (0..grid[1]).map(move |c| scale(r * 128, c * 128))).collect();
        wide.push((name.clone(), "BF16", dims.clone(), rounded.iter().enumerate().flat_map(half).collect()));
        let of_scales = name.replace(".weight", ".weight_scale_inv");
        narrow.push((of_scales, "F32", grid.map(|n| n as u64).to_vec(), floats(&scales)));
        narrow.push((name, "F8_E4M3", dims, rounded.iter().map(|v| v.0).collect()));
    }
    let mut config = case.config.clone();
    let all = |parts: &[(String, &'static str, Vec<u64>, Vec<u8>)], config: &Value, folder: &str| {
        let tensors: Vec<safetensors::Tensor> =
            parts.iter().map(|t| (t.0.as_str(), t.1, &t.2[..], t.3.clone())).collect();
        put(&dir.path().join(folder), config, &tensors);
        models::logits(&dir.path().join(folder))
    };
    let wide = all(&wide, &config, "wide");
    config["quantization_config"] = json!({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]});
    assert!(wide == all(&narrow, &config, "narrow"));
}
