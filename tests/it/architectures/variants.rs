//! Files that describe a network differently from the files with reference results.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use realizar::engine::{MediaKind, media_from_rows};
use realizar::quant;
use serde_json::Value;

use super::{expected, files, results};
use crate::support::gguf::{self, Gguf, Tensor};
use crate::support::models;
use crate::support::published::{file_of, relative_rms};
use crate::support::save::logits_of;
use crate::support::tiny::{self, Tiny};

/// The results of another implementation by their name.
fn data(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/architectures/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The file of `data` with another value of a key of its architecture.
fn with(data: &Value, key: &str, value: impl gguf::Value) -> Gguf {
    let mut file = file_of(data);
    let key = format!("{}.{key}", data["keys"]["general.architecture"].as_str().unwrap());
    file.keys.retain(|(name, _)| *name != key);
    file.key(&key, value)
}

/// Returns the error of the results of a file against those of `data`.
fn error(data: &Value, file: &Gguf) -> f64 {
    relative_rms(&results(&models::load_file(file, 2).unwrap(), data, quant::F32, 64), &expected(data))
}

/// The parts of layers that have factors in GGUF files.
const PARTS: &str = "attn_q attn_k attn_v attn_qkv attn_output attn_gate ffn_gate ffn_up ffn_down ffn_gate_exps \
    ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp ssm_in ssm_out ssm_alpha \
    ssm_beta output";

/// Divides matrices without factors by some that it puts beside them, one an expert.
fn divide(file: &mut Gguf) {
    let known: HashSet<String> = file.tensors.iter().map(|t| t.name.clone()).collect();
    let mut factors = Vec::new();
    for t in &mut file.tensors {
        let Some(name) = t.name.strip_suffix(".weight") else { continue };
        let part = name.rsplit('.').next().unwrap();
        if t.dims.len() < 2 || !PARTS.split(' ').any(|one| one == part) || known.contains(&format!("{name}.scale")) {
            continue;
        }
        let n = if part.ends_with("_exps") { t.dims[0] } else { 1 };
        let values: Vec<f32> = (0..n).map(|i| 1.75 + (factors.len() as u64 + i) as f32 % 7.0).collect();
        let each = t.data.len() / n as usize;
        for (matrix, factor) in t.data.chunks_mut(each).zip(&values) {
            for x in matrix.chunks_mut(4) {
                let value = f32::from_le_bytes(x.try_into().unwrap()) / factor;
                x.copy_from_slice(&value.to_le_bytes());
            }
        }
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        factors.push(Tensor { name: format!("{name}.scale"), dtype: 0, dims: vec![n], data, offset: None });
    }
    file.tensors.extend(factors);
}

#[test]
fn a_matrix_with_a_factor_is_that_matrix_times_the_factor() {
    let mut tested = 0;
    let mut check = |name: &str, error: f64| {
        assert!(error < 1e-5, "{name}: {error:.1e}");
        tested += 1;
    };
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        let (whole, mut file) = (tiny.file().0, tiny.file().0);
        divide(&mut file);
        let [expected, got] = [whole, file].map(|file| logits_of(&models::load_file(&file, 2).unwrap()));
        check(name, relative_rms(&got, &expected));
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, data, _) in files(folder.path()) {
        let mut file = file_of(&data);
        divide(&mut file);
        check(&name, error(&data, &file));
    }
    assert!(tested > 80, "{tested}");
}

#[test]
fn an_indexer_may_choose_more_than_there_is() {
    for name in ["deepseek32", "glm-dsa", "dots3note", "hy_v4", "glm5-next", "deepseek4-short", "minimax-m3"] {
        let data = data(name);
        let of = |top: u32| {
            let model = models::load_file(&with(&data, "attention.indexer.top_k", top), 2).unwrap();
            results(&model, &data, quant::F32, 64)
        };
        assert!(of(131_072) == of(64), "{name}");
        assert!(relative_rms(&of(64), &expected(&data)) > 1e-3, "{name}");
        let mut long = with(&data, "attention.indexer.top_k", 131_072u32);
        let context = long.keys.iter_mut().find(|(key, _)| key.ends_with(".context_length")).unwrap();
        context.1.splice(4.., 1_000_000u32.to_le_bytes());
        let refused = models::load_file(&long, 2).err().unwrap().to_string();
        assert!(refused.contains("that chooses 131072"), "{refused}");
    }
}

#[test]
fn keys_that_converters_and_savers_add_are_understood() {
    for name in ["hy_v4", "qwen4exp"] {
        let data = data(name);
        let got = error(&data, &with(&data, "hyper_connection.sinkhorn_iterations", 0u32));
        assert!(got < 1e-5, "{name}: {got:.1e}");
    }
    let hrm = data("hrm_text");
    assert!(error(&hrm, &with(&hrm, "hrm.prefix_lm", true)) < 1e-5);
    for (name, key, value) in [("step35", "moe_every_n_layers", 1u32), ("qwen4exp", "ple.image_token_id", 70)] {
        let data = data(name);
        let got = error(&data, &with(&data, key, value));
        assert!(got < 1e-5, "{name}: {got:.1e}");
    }
    // All residual streams side by side.
    for name in ["deepseek4-short", "qwen4exp"] {
        let data = data(name);
        let got = error(&data, &with(&data, "embedding_length_out", 4 * 64u32));
        assert!(got < 1e-5, "{name}: {got:.1e}");
        let refused = models::load_file(&with(&data, "embedding_length_out", 64u32), 2).err().unwrap().to_string();
        assert!(refused.contains("embedding_length_out is 64"), "{refused}");
    }
}

#[test]
fn weights_for_pictures_alone_are_left_out_and_pictures_refused() {
    let data = data("deepseek4-short");
    let mut file = file_of(&data);
    let biases: Vec<Tensor> = file
        .tensors
        .iter()
        .filter(|t| t.name.ends_with("exp_probs_b.bias"))
        .map(|t| Tensor {
            name: t.name.replace("exp_probs_b", "exp_probs_b_vl"),
            dims: t.dims.clone(),
            data: t.data.clone(),
            ..*t
        })
        .collect();
    assert!(!biases.is_empty());
    file.tensors.extend(biases);
    let got = error(&data, &file);
    assert!(got < 1e-5, "{got:.1e}");
    let refused = media_from_rows(&models::load_file(&file, 2).unwrap(), MediaKind::Image, &[0.5; 64], 64, [0; 2]);
    assert!(refused.err().unwrap().to_string().contains("cannot take rows of media"));
}

#[test]
fn experts_of_groups_are_as_wide_as_a_head_unless_told() {
    let data = data("grovemoe");
    let [told, untold] = [16u32, 0].map(|width| {
        let mut file = with(&data, "expert_chunk_feed_forward_length", width);
        for t in file.tensors.iter_mut().filter(|t| t.name.contains("_chexps")) {
            t.dims.iter_mut().filter(|n| **n == 24).for_each(|n| *n = 16);
            t.data.truncate(t.dims.iter().product::<u64>() as usize * 4);
        }
        results(&models::load_file(&file, 2).unwrap(), &data, quant::F32, 64)
    });
    assert!(told == untold);
}
